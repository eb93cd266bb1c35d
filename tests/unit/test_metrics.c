/* The text of a worker's metrics: what is known is there, and histograms are of all types together; and the room on the disk. */
#include "unit_test.h"
#include "worker/clock.h"
#include "worker/metrics.h"

#include <stdlib.h>

static struct consumer consumers[2];
static const struct consumer *pointers[2] = {&consumers[0], &consumers[1]};
static struct metrics_view view;
static char *text;

static int begin(void **state)
{
  (void)state;
  struct consumer_options options = {.lease_ms = 30000};
  consumer_init(&consumers[0], "t1", &options);
  consumer_init(&consumers[1], "t2", &options);
  view = (struct metrics_view){.consumers = pointers, .consumer_count = 2};
  text = NULL;
  return 0;
}

static int end(void **state)
{
  (void)state;
  consumer_deinit(&consumers[0]);
  consumer_deinit(&consumers[1]);
  free(text);
  return 0;
}

static void write_all(void)
{
  size_t bytes = 0;
  free(text);
  text = metrics_text(&view, &bytes);
  assert_non_null(text);
  assert_int_equal(strlen(text), bytes);
}

TEST_WITH(test_latencies_are_of_all_types, begin, end)
{
  latency_count(&consumers[0].core.counts.latencies, LATENCY_SYNC, 1000);
  latency_count(&consumers[1].core.counts.latencies, LATENCY_SYNC, 1001);
  latency_count(&consumers[1].core.counts.latencies, LATENCY_SYNC, 3600 * 1000000LL);
  write_all();
  assert_contains(text, "# TYPE pawl_sync_duration_seconds histogram\n"
                        "pawl_sync_duration_seconds_bucket{le=\"0.001\"} 1\n"
                        "pawl_sync_duration_seconds_bucket{le=\"0.002\"} 2\n");
  assert_contains(text, "pawl_sync_duration_seconds_bucket{le=\"60\"} 2\n"
                        "pawl_sync_duration_seconds_bucket{le=\"+Inf\"} 3\n"
                        "pawl_sync_duration_seconds_sum 3600.002001\n"
                        "pawl_sync_duration_seconds_count 3\n");
  assert_contains(text, "pawl_commit_duration_seconds_count 0\n");
}

TEST_WITH(test_waits_have_bounds_of_their_own, begin, end)
{
  latency_count(&consumers[0].core.counts.latencies, LATENCY_DURABLE, -5000000); /* the clock of the producer is ahead */
  latency_count(&consumers[0].core.counts.latencies, LATENCY_DURABLE, 100000 * 1000000LL);
  write_all();
  assert_contains(text, "pawl_insert_to_durable_seconds_bucket{le=\"1\"} 1\n"
                        "pawl_insert_to_durable_seconds_bucket{le=\"2\"} 1\n");
  assert_contains(text, "pawl_insert_to_durable_seconds_bucket{le=\"86400\"} 1\n"
                        "pawl_insert_to_durable_seconds_bucket{le=\"+Inf\"} 2\n"
                        "pawl_insert_to_durable_seconds_sum 100000.000000\n");
}

/* Types that were found have one row of each counter together, with those that are forgotten; and rows of their own for what they do now.
 */
TEST_WITH(test_found_types_are_counted_together, begin, end)
{
  struct consumer_counts forgotten = {.messages = 100, .problems[PROBLEM_DISK] = 2};
  view.listed_count = 1;
  view.forgotten = &forgotten;
  consumers[0].core.counts.messages = 1;
  consumers[1].core.counts.messages = 20;
  consumers[1].core.counts.problems[PROBLEM_DISK] = 3;
  latency_count(&forgotten.latencies, LATENCY_SYNC, 1000);
  write_all();
  assert_contains(text, "\npawl_messages_total{type=\"t1\"} 1\npawl_messages_total{type=\"*\"} 120\n");
  assert_contains(text, "\npawl_problems_total{type=\"*\",event=\"disk\"} 5\n");
  assert_contains(text, "\npawl_holder{type=\"t2\"} 0\n");
  assert_contains(text, "\npawl_sync_duration_seconds_count 1\n");
  char summary[600];
  view.asked = true;
  view.consumer_count = view.listed_count = 0;
  metrics_summary(&view, summary, sizeof summary);
  assert_string_equal(summary, "no type has messages");
}

/* Only where types are looked for. What waits is not known before the first look. */
TEST_WITH(test_places_of_found_types, begin, end)
{
  struct consumer_counts forgotten = {.messages = 0};
  write_all();
  assert_null(strstr(text, "pawl_types_"));
  view.forgotten = &forgotten;
  view.now_ms = 7500;
  view.found = (struct found_view){.held = 256, .max = 256, .waiting = 9744, .aside = 3};
  write_all();
  assert_contains(text, "\npawl_types_held 256\n");
  assert_contains(text, "\npawl_types_max 256\n");
  assert_contains(text, "\npawl_types_put_aside 3\n");
  assert_null(strstr(text, "pawl_types_waiting"));
  assert_null(strstr(text, "pawl_types_look_age_seconds"));
  view.found.looked_ms = 6000;
  write_all();
  assert_contains(text, "\npawl_types_waiting 9744\n");
  assert_contains(text, "\npawl_types_look_age_seconds 1.5\n");
}

/* What is not known is not there: a zero would be a full disk, or a right clock. */
TEST_WITH(test_unknown_is_left_out, begin, end)
{
  write_all();
  assert_null(strstr(text, "pawl_storage_free_bytes"));
  assert_null(strstr(text, "pawl_clock_offset_seconds"));
  view.space = (struct space_view){.known = true, .free_bytes = 4096, .size_bytes = (int64_t)1 << 53};
  view.clock_seen = true;
  view.clock_offset_us = -1500;
  write_all();
  assert_contains(text, "\npawl_storage_free_bytes 4096\n");
  assert_contains(text, "\npawl_storage_size_bytes 9.00719925474099e+15\n");
  assert_contains(text, "\npawl_clock_offset_seconds -0.0015\n");
}

TEST_WITH(test_of_the_process, begin, end)
{
  write_all();
  for (size_t i = 0; i < 4; i++) {
    static const char *const names[] = {"\nprocess_cpu_seconds_total ", "\nprocess_resident_memory_bytes ", "\nprocess_open_fds ",
                                        "\nprocess_max_fds "};
    const char *line = strstr(text, names[i]);
    assert_non_null(line);
    double value = strtod(line + strlen(names[i]), NULL);
    assert_true(value > 0 && (i > 0 || value < 60));
  }
}

/* What was told long ago, because the file system hangs since then, or was not told, is not known. */
TEST(test_space_that_is_known)
{
  struct error error;
  struct space_view seen;
  struct space *space = space_watch("/", &error), *nowhere = space_watch("/nowhere", &error);
  assert_non_null(space);
  assert_non_null(nowhere);
  int64_t now_ms = clock_boot_ms();
  space_look(space, now_ms, &seen);
  assert_true(seen.known && seen.free_bytes >= 0 && seen.size_bytes > seen.free_bytes);
  space_look(space, now_ms + 55000, &seen);
  assert_true(seen.known);
  space_look(space, now_ms + 120000, &seen); /* it is asked every ten seconds, and this lies a minute after the next time */
  assert_false(seen.known);
  space_look(nowhere, now_ms, &seen);
  assert_false(seen.known);
}
