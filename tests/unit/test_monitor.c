/* The pure parts of pawl-monitor: host names, when to read, history, and the timeline of a lock. */
#include "lockstore/document.h"
#include "tools/monitor/board.h"
#include "tools/monitor/history.h"
#include "tools/monitor/hosts.h"
#include "tools/monitor/pace.h"
#include "tools/monitor/timeline.h"
#include "unit_test.h"

#include <stdlib.h>

/* ---- hosts ---- */

TEST(test_hosts_that_no_foreign_page_can_have)
{
  static const char *const good[] = {"localhost", "LocalHost:9465", "127.0.0.1", "127.0.0.1:9465", "10.1.2.3:80", "[::1]", "[::1]:9465"};
  static const char *const bad[] = {"",
                                    "evil.example",
                                    "evil.example:9465",
                                    "127.0.0.1.evil.example",
                                    "localhost.evil.example",
                                    "[::1",
                                    "::1",
                                    "[evil.example]",
                                    "localhost:x",
                                    "localhost:80:80",
                                    "1.2.3.4x",
                                    "[]",
                                    ":80",
                                    "[::1]x",
                                    "localhost/"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!host_allowed(NULL, good[i]))
      fail_msg("%s is not allowed", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (host_allowed(NULL, bad[i]) || host_allowed("pawl.example.com", bad[i]))
      fail_msg("%s is allowed", bad[i]);
  assert_true(host_allowed(NULL, NULL));
}

TEST(test_hosts_that_were_named)
{
  static const char names[] = "pawl.example.com, monitor";
  struct error error;
  assert_true(hosts_valid(names, &error));
  assert_true(host_allowed(names, "pawl.example.com"));
  assert_true(host_allowed(names, "PAWL.example.com:443"));
  assert_true(host_allowed(names, "monitor:9465"));
  assert_false(host_allowed(names, "monitor.example.com"));
  assert_false(host_allowed(names, "pawl.example.co"));
  assert_true(host_allowed("*", "anything.example"));
  assert_false(hosts_valid("a:80", &error));
  assert_contains(error.text, "--host-name: got \"a:80\"");
  assert_false(hosts_valid("a,,b", &error));
  assert_false(hosts_valid("http://a", &error));
}

/* ---- pace ---- */

TEST(test_reads_each_interval_and_less_often_unseen)
{
  struct pace pace;
  pace_init(&pace, 1000, 50000);
  assert_int_equal(pace_read_at(&pace, 50000), 50000);
  pace_read_done(&pace, 50000, 50010);
  assert_int_equal(pace_read_at(&pace, 50010), 51000);
  assert_int_equal(pace_read_at(&pace, 50000 + PACE_IDLE_MS + 1), 55000);
  pace_asked(&pace, 50000 + PACE_IDLE_MS);
  assert_int_equal(pace_read_at(&pace, 50000 + PACE_IDLE_MS + 1), 51000);
}

TEST(test_slow_readings_take_a_tenth_of_the_time)
{
  struct pace pace;
  pace_init(&pace, 1000, 50000);
  pace_read_done(&pace, 50000, 50700);
  assert_int_equal(pace_read_at(&pace, 50700), 57000);
  pace_read_done(&pace, 57000, 57000); /* a failed one */
  assert_int_equal(pace_read_at(&pace, 57000), 58000);
}

TEST(test_counts_take_a_fiftieth_of_the_time)
{
  struct pace pace;
  pace_init(&pace, 1000, 50000);
  assert_true(pace_count_due(&pace, 50000));
  pace_count_done(&pace, 50000, 50020);
  assert_false(pace_count_due(&pace, 55019));
  assert_true(pace_count_due(&pace, 55020));
  pace_count_done(&pace, 55020, 56020);
  assert_false(pace_count_due(&pace, 56020 + 49999));
  assert_true(pace_count_due(&pace, 56020 + 50000));
  pace_count_done(&pace, 200000, 200010);
  assert_false(pace_count_due(&pace, 200010 + 29999)); /* nobody has asked for a minute */
  assert_true(pace_count_due(&pace, 200010 + 30000));
}

TEST(test_first_documents_take_a_tenth_of_the_time)
{
  assert_int_equal(pace_first_pause(0), 100);
  assert_int_equal(pace_first_pause(10), 100);
  assert_int_equal(pace_first_pause(700), 7000);
}

TEST(test_checks_once_in_a_minute)
{
  struct pace pace;
  pace_init(&pace, 1000, 50000);
  assert_true(pace_check_due(&pace, 50000));
  assert_false(pace_check_due(&pace, 109999));
  assert_true(pace_check_due(&pace, 110000));
}

/* ---- history ---- */

static void put(struct history *history, int64_t s, float queued)
{
  history_put(history, s * 1000, &(struct history_point){.queued = queued, .rate_in = -1, .rate_out = -1});
}

TEST(test_history_has_a_point_a_step)
{
  static struct history history;
  struct history_point points[HISTORY_POINTS];
  memset(&history, 0, sizeof history);
  assert_int_equal(history_get(&history, 5000, points), 0);
  put(&history, 1000, 1);
  put(&history, 1005, 2);
  put(&history, 1009, -1); /* not known: the last that is counts */
  put(&history, 1030, 3);
  assert_int_equal(history_get(&history, 1041000, points), 5);
  assert_int_equal(points[0].queued, 2);
  assert_int_equal(points[1].queued, -1);
  assert_int_equal(points[2].queued, -1);
  assert_int_equal(points[3].queued, 3);
  assert_int_equal(points[4].queued, -1);
}

TEST(test_history_is_bounded)
{
  static struct history history;
  struct history_point points[HISTORY_POINTS];
  memset(&history, 0, sizeof history);
  for (int i = 0; i < 1000; i++)
    put(&history, 1000 + 10 * i, (float)i);
  assert_int_equal(history_get(&history, 10990000, points), HISTORY_POINTS);
  assert_int_equal(points[0].queued, 910);
  assert_int_equal(points[HISTORY_POINTS - 1].queued, 999);
  assert_int_equal(history_get(&history, 10990000 + 880000, points), HISTORY_POINTS);
  assert_int_equal(points[1].queued, 999);
  put(&history, 50000, 7); /* all of it is too old */
  assert_int_equal(history_get(&history, 50000000, points), 1);
  assert_int_equal(points[0].queued, 7);
}

/* ---- timeline ---- */

static struct timeline timeline;

static int timeline_begin(void **state)
{
  (void)state;
  memset(&timeline, 0, sizeof timeline);
  return 0;
}

static int timeline_end(void **state)
{
  (void)state;
  timeline_free(&timeline);
  return 0;
}

#define TIMELINE_TEST(name) TEST_WITH(name, timeline_begin, timeline_end)

/* At `now`, since `since`, owner `owner`'s lock with so much of its lease left. */
static unsigned holds(int64_t now, char owner, int64_t since, int64_t left, int64_t epoch)
{
  char holder[] = {owner, '\0'};
  struct sighting sighting = {
      .now_ms = now, .epoch = epoch, .seq = now, .has_file = true, .held = true, .held_ms = now - since, .left_ms = left, .holder = holder};
  sighting.owner.bytes[0] = (uint8_t)owner;
  return timeline_see(&timeline, &sighting, TIMELINE_HOLDS_MAX);
}

static unsigned free_lock(int64_t now, int64_t epoch, bool clean)
{
  return timeline_see(&timeline, &(struct sighting){.now_ms = now, .epoch = epoch, .seq = now, .has_file = true, .clean = clean},
                      TIMELINE_HOLDS_MAX);
}

static void is_hold(int at, const char *holder, int64_t from, int64_t to, enum hold_end end, int64_t expired, int64_t epoch)
{
  const struct hold *hold = &timeline.holds[at];
  assert_true(at < timeline.count);
  assert_string_equal(hold->holder, holder);
  assert_int_equal(hold->from_ms, from);
  assert_int_equal(hold->to_ms, to);
  assert_int_equal(hold->end, end);
  assert_int_equal(hold->expired_ms, expired);
  assert_int_equal(hold->epoch, epoch);
}

TIMELINE_TEST(test_a_hold_and_its_release)
{
  assert_int_equal(holds(100000, 'a', 99500, 30000, 6), EDGE_TAKEN);
  assert_int_equal(holds(101000, 'a', 99500, 29000, 7), 0); /* the fence came after the first reading */
  is_hold(0, "a", 99500, 0, HOLD_OPEN, 0, 7);
  assert_int_equal(free_lock(102000, 7, true), EDGE_ENDED);
  assert_int_equal(free_lock(103000, 7, true), 0);
  is_hold(0, "a", 99500, 102000, HOLD_RELEASED, 0, 7);
}

TIMELINE_TEST(test_a_release_whose_clean_end_comes_a_reading_later)
{
  holds(100000, 'a', 99000, 30000, 7);
  assert_int_equal(free_lock(101000, 7, false), EDGE_ENDED);
  assert_int_equal(free_lock(102000, 7, true), 0);
  assert_int_equal(timeline.holds[0].end, HOLD_RELEASED);
}

TIMELINE_TEST(test_a_lock_that_was_broken)
{
  holds(100000, 'a', 99000, 30000, 7);
  assert_int_equal(free_lock(101000, 7, false), EDGE_ENDED);
  assert_int_equal(free_lock(102000, 7, false), EDGE_BROKEN);
  assert_int_equal(free_lock(103000, 7, false), 0);
  is_hold(0, "a", 99000, 101000, HOLD_BROKEN, 0, 7);
}

/* A command under a lock leaves the end of the files as it was. */
TIMELINE_TEST(test_a_hold_that_writes_nothing_is_not_broken)
{
  struct sighting sighting = {
      .now_ms = 100000, .epoch = 7, .seq = 5, .has_file = true, .held = true, .held_ms = 1000, .left_ms = 30000, .holder = "a"};
  timeline_see(&timeline, &sighting, TIMELINE_HOLDS_MAX);
  sighting.held = false;
  for (int reading = 0; reading < 3; reading++) {
    sighting.now_ms += 1000;
    assert_int_equal(timeline_see(&timeline, &sighting, TIMELINE_HOLDS_MAX) & EDGE_BROKEN, 0);
  }
  assert_int_equal(timeline.holds[0].end, HOLD_RELEASED);
}

/* Two hours without a reading. */
TIMELINE_TEST(test_a_hold_that_is_forgotten_is_not_judged)
{
  holds(100000, 'a', 99000, 30000, 7);
  free_lock(100000 + TIMELINE_MS + 20000, 7, false);
  assert_int_equal(timeline.count, 0);
  assert_int_equal(free_lock(100000 + TIMELINE_MS + 21000, 7, false), 0);
  assert_false(timeline.unsure);
}

TIMELINE_TEST(test_a_freeze_and_a_take_over)
{
  holds(100000, 'a', 99000, 500, 7);
  assert_int_equal(holds(101000, 'a', 99000, -500, 7), EDGE_EXPIRED);
  assert_int_equal(holds(102000, 'a', 99000, -1500, 7), 0);
  assert_int_equal(holds(103000, 'b', 102700, 30000, 8), EDGE_ENDED | EDGE_TAKEN);
  is_hold(0, "a", 99000, 102700, HOLD_TAKEN_OVER, 100500, 7);
  is_hold(1, "b", 102700, 0, HOLD_OPEN, 0, 8);
}

TIMELINE_TEST(test_a_take_over_of_which_only_the_beginning_is_seen)
{
  holds(100000, 'a', 99000, -500, 7);
  assert_int_equal(free_lock(101000, 8, true), EDGE_ENDED); /* another took it, and released it again */
  is_hold(0, "a", 99000, 101000, HOLD_TAKEN_OVER, 99500, 7);
}

TIMELINE_TEST(test_a_take_over_between_two_readings)
{
  holds(100000, 'a', 99000, 300, 7);
  assert_int_equal(holds(101000, 'b', 100400, 30000, 7), EDGE_ENDED | EDGE_TAKEN);
  is_hold(0, "a", 99000, 100400, HOLD_TAKEN_OVER, 100300, 7);
  is_hold(1, "b", 100400, 0, HOLD_OPEN, 0, 0); /* not fenced yet: the epoch is the one before */
  holds(102000, 'b', 100400, 29000, 8);
  is_hold(1, "b", 100400, 0, HOLD_OPEN, 0, 8);
}

TIMELINE_TEST(test_a_release_and_another_holder_between_two_readings)
{
  holds(100000, 'a', 99000, 30000, 7);
  assert_int_equal(holds(101000, 'b', 100400, 30000, 8), EDGE_ENDED | EDGE_TAKEN);
  is_hold(0, "a", 99000, 100400, HOLD_RELEASED, 0, 7);
}

TIMELINE_TEST(test_a_lease_that_was_over_and_is_not)
{
  holds(100000, 'a', 99000, 300, 7);
  assert_int_equal(holds(101000, 'a', 99000, -700, 7), EDGE_EXPIRED);
  assert_int_equal(holds(102000, 'a', 99000, 30000, 7), EDGE_CONTINUED);
  is_hold(0, "a", 99000, 0, HOLD_OPEN, 0, 7);
}

TIMELINE_TEST(test_an_end_that_nobody_saw)
{
  holds(100000, 'a', 99000, 30000, 7);
  free_lock(200000, 7, true); /* a minute and more without a reading */
  is_hold(0, "a", 99000, 100000, HOLD_RELEASED, 0, 7);
}

TIMELINE_TEST(test_clocks_that_lie)
{
  holds(100000, 'a', 200000, 30000, 7); /* taken in the future */
  is_hold(0, "a", 100000, 0, HOLD_OPEN, 0, 7);
  holds(101000, 'b', 50000, 30000, 8); /* taken before the one before it */
  is_hold(0, "a", 100000, 100000, HOLD_RELEASED, 0, 7);
  assert_int_equal(timeline.holds[1].from_ms, 50000);
}

TIMELINE_TEST(test_timeline_is_bounded)
{
  int64_t now = 100000;
  for (int i = 0; i < 1000; i++, now += 10000)
    holds(now, (char)('a' + i % 2), now - 500, 30000, i + 1);
  assert_int_equal(timeline.count, TIMELINE_HOLDS_MAX);
  assert_int_equal(timeline_last(&timeline)->epoch, 1000);
  free_lock(now, 1000, true);
  free_lock(now + TIMELINE_MS + 1, 1000, true);
  assert_int_equal(timeline.count, 0);
}

/* ---- board ---- */

TEST(test_a_board_keeps_what_is_served_and_counts_the_rest)
{
  static struct board board;
  struct overview overview = {.rows = calloc(6, sizeof *overview.rows), .count = 6};
  assert_non_null(overview.rows);
  for (size_t i = 0; i < 6; i++) {
    snprintf(overview.rows[i].type, sizeof overview.rows[i].type, "t%zu", i);
    overview.rows[i].queued = 10;
  }
  overview.rows[4].kind = OVERVIEW_INVALID;
  overview.rows[3].ledger.epoch = 1;
  overview.rows[5].held = true;
  board_init(&board, "pawl", "server");
  board.types_max = 3;
  board_take(&board, &overview, 1, true);
  assert_int_equal(board.overview.count, 3);
  assert_int_equal(board.track_count, 3);
  assert_true(board_has(&board, "t0"));
  assert_true(board_has(&board, "t3"));
  assert_true(board_has(&board, "t5"));
  assert_int_equal(board.left_out.rows, 3);
  assert_int_equal(board.left_out.unusable, 10);
  struct overview few = {.rows = calloc(1, sizeof *few.rows), .count = 1};
  assert_non_null(few.rows);
  board_take(&board, &few, 1, false);
  assert_int_equal(board.left_out.rows, 0);
  assert_int_equal(board.left_out.unusable, 0);
  for (size_t i = 0; i < board.track_count; i++)
    track_free(board.tracks[i]);
  free(board.tracks);
  overview_free(&board.overview);
}

/* ---- texts ---- */

TEST(test_what_is_not_utf8)
{
  static const struct {
    const char *from, *to;
  } texts[] = {{"", ""},      {"plain", "plain"},     {"é€😀", "é€😀"},         {"a\xff z", "a? z"},
               {"\xc3", "?"}, {"\xe2\x82x€", "??x€"}, {"\xed\xa0\x80", "???"}};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    char text[40];
    strcpy(text, texts[i].from);
    document_make_utf8(text);
    assert_string_equal(text, texts[i].to);
  }
}

/* ---- rates ---- */

static void see_at(struct track *track, int64_t at_s, int64_t epoch, int64_t seq)
{
  static struct overview_row before;
  const struct track_limits limits = track_limits_of(1);
  const struct overview_row row = {.ledger = {.epoch = epoch, .end = {.seq = seq}}};
  track_see(track, at_s > 0 ? &before : NULL, &row, at_s * 1000, at_s * 1000, &limits);
  before = row;
}

TEST(test_rates_are_documents_a_second)
{
  struct track *track = track_new("t1");
  struct overview_row row = {.queued = 100};
  see_at(track, 0, 3, 1000);
  assert_true(track_rate_out(track) < 0);
  assert_true(track_backlog_s(track, &row) < 0);
  see_at(track, 5, 3, 1050);
  assert_true(track_rate_out(track) == 10);
  assert_true(track_backlog_s(track, &row) == 10);
  row.queued = 0;
  assert_true(track_backlog_s(track, &row) == 0);
  see_at(track, 40, 3, 1050); /* what is too old does not count */
  see_at(track, 50, 3, 1050);
  assert_true(track_rate_out(track) == 0);
  track_free(track);
}

/* It was carried or adopted, or can be read again: nothing was committed meanwhile. */
TEST(test_a_ledger_that_appears_is_no_rate)
{
  struct track *track = track_new("t1");
  see_at(track, 0, 0, 0);
  see_at(track, 1, 0, 0);
  assert_true(track_rate_out(track) == 0);
  see_at(track, 5, 3, 1000);
  assert_true(track_rate_out(track) < 0);
  see_at(track, 6, 3, 1010);
  assert_true(track_rate_out(track) == 10);
  see_at(track, 7, 4, 500); /* another one */
  assert_true(track_rate_out(track) < 0);
  track_free(track);
}
