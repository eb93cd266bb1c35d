#include "worker/metrics.h"
#include "worker/process.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

static void family(FILE *out, const char *name, const char *kind, const char *help)
{
  fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

/* ---- the process ---- */

static void process_write(FILE *out, const struct metrics_view *view)
{
  family(out, "pawl_build_info", "gauge", "The version of pawl; always 1.");
  fprintf(out, "pawl_build_info{version=\"%s\"} 1\n", PAWL_VERSION);
  family(out, "process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.");
  fprintf(out, "process_start_time_seconds %.3f\n", (double)view->started_wall_us / 1e6);
  family(out, "pawl_ready", "gauge", "1 if /readyz says so.");
  struct error why;
  fprintf(out, "pawl_ready %d\n", metrics_ready(view, &why));
  family(out, "pawl_database_answers", "gauge", "1 if MongoDB answered the last time, and refuses nothing.");
  fprintf(out, "pawl_database_answers %d\n", view->asked && !view->away && !view->refuses);
  family(out, "pawl_wakeups", "gauge", "1 if wake-ups about messages, or locks, come.");
  fprintf(out, "pawl_wakeups{about=\"messages\"} %d\npawl_wakeups{about=\"locks\"} %d\n", view->wakes, view->wakes);
}

static void known_write(FILE *out, bool known, const char *name, const char *kind, const char *help, double value)
{
  if (!known)
    return;
  family(out, name, kind, help);
  fprintf(out, "%s %.15g\n", name, value);
}

/* What all types share. */
static void shared_write(FILE *out, const struct metrics_view *view)
{
  known_write(out, true, "pawl_memory_used_bytes", "gauge", "Bytes of --memory that batches and replies have, or are expected to have.",
              (double)view->memory_used_bytes);
  known_write(out, true, "pawl_memory_max_bytes", "gauge", "The bytes of --memory.", (double)view->memory_max_bytes);
  known_write(out, true, "pawl_threads", "gauge", "Threads for the actions of all types.", view->threads);
  known_write(out, true, "pawl_threads_max", "gauge", "How many there may be.", view->threads_max);
  known_write(out, true, "pawl_actions_lasting", "gauge", "Actions that have run for longer than a second.", view->lasting);
  known_write(out, true, "pawl_actions_waiting", "gauge", "Actions that wait for a thread.", view->jobs_waiting);
}

/* What patterns find. */
static void found_write(FILE *out, const struct metrics_view *view)
{
  const struct found_view *found = &view->found;
  if (view->forgotten == NULL)
    return;
  known_write(out, true, "pawl_types_held", "gauge", "Types that patterns found and that have a place.", (double)found->held);
  known_write(out, true, "pawl_types_max", "gauge", "How many there may be: --types-max.", (double)found->max);
  known_write(out, found->looked_ms > 0, "pawl_types_waiting", "gauge",
              "Types with messages that no process served at the last look, and that have no place yet.", (double)found->waiting);
  known_write(out, true, "pawl_types_put_aside", "gauge", "Types that are not taken up before a pause is over.", (double)found->aside);
  known_write(out, found->looked_ms > 0, "pawl_types_look_age_seconds", "gauge", "Since the last look for types that was answered.",
              (double)(view->now_ms - found->looked_ms) / 1000);
}

/* What the machine says; what it does not say is left out. */
static void machine_write(FILE *out, const struct metrics_view *view)
{
  const struct space_view *space = &view->space;
  struct process_use process;
  process_look(&process);
  known_write(out, process.cpu_seconds >= 0, "process_cpu_seconds_total", "counter", "Processor time, user and system, in seconds.",
              process.cpu_seconds);
  known_write(out, process.resident_bytes >= 0, "process_resident_memory_bytes", "gauge", "Resident memory in bytes.",
              (double)process.resident_bytes);
  known_write(out, process.open_fds >= 0, "process_open_fds", "gauge", "Open file descriptors.", (double)process.open_fds);
  known_write(out, process.max_fds >= 0, "process_max_fds", "gauge", "How many file descriptors may be open.", (double)process.max_fds);
  known_write(out, space->known, "pawl_storage_free_bytes", "gauge", "Bytes that this process may still write to the file system of --dir.",
              (double)space->free_bytes);
  known_write(out, space->known, "pawl_storage_size_bytes", "gauge", "Size of the file system of --dir in bytes.",
              (double)space->size_bytes);
  known_write(out, view->clock_seen, "pawl_clock_offset_seconds", "gauge",
              "How far this machine's clock is ahead of the database server's, when it was last compared.",
              (double)view->clock_offset_us / 1e6);
}

/* ---- latencies ---- */

static void histogram_write(FILE *out, enum latency latency, const char *name, const struct latencies *latencies)
{
  int bounds, i;
  const int64_t *bounds_ms = latency_bounds_ms(latency, &bounds);
  int64_t count = 0;
  for (i = 0; i < bounds; i++) {
    count += latencies->of[latency].counts[i];
    fprintf(out, "%s_bucket{le=\"%g\"} %" PRId64 "\n", name, (double)bounds_ms[i] / 1000, count);
  }
  count += latencies->of[latency].counts[bounds];
  fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRId64 "\n", name, count);
  fprintf(out, "%s_sum %.6f\n%s_count %" PRId64 "\n", name, (double)latencies->of[latency].sum_us / 1e6, name, count);
}

/* Of all types together: a histogram for each of a thousand types would be eighty thousand lines. */
static void latencies_write(FILE *out, const struct metrics_view *view)
{
  static const struct {
    const char *name, *help;
  } histograms[LATENCY_COUNT] = {
      [LATENCY_SYNC] = {"pawl_sync_duration_seconds", "Time of one sync of a block to the disk."},
      [LATENCY_COMMIT] = {"pawl_commit_duration_seconds", "Time of one commit to the ledger, until its answer or its time-out."},
      [LATENCY_DELETE] = {"pawl_delete_duration_seconds", "Time of one delete of a committed block from the queue."},
      [LATENCY_DURABLE] = {"pawl_insert_to_durable_seconds",
                           "From the time in the ObjectId of a block's first document to the commit of the block."},
      [LATENCY_TAKEOVER] = {"pawl_takeover_duration_seconds", "From the turn to take the lock until messages can be read and written."},
  };
  struct latencies sum = {0};
  for (size_t i = 0; i < view->consumer_count; i++)
    latency_add(&sum, &view->consumers[i]->core.counts.latencies);
  if (view->forgotten != NULL)
    latency_add(&sum, &view->forgotten->latencies);
  for (enum latency latency = 0; latency < LATENCY_COUNT; latency++) {
    family(out, histograms[latency].name, "histogram", histograms[latency].help);
    histogram_write(out, latency, histograms[latency].name, &sum);
  }
}

/* ---- the types ---- */

static double seconds(int64_t ms)
{
  return (double)ms / 1000;
}

static int64_t count_at(const struct consumer_counts *counts, size_t offset)
{
  int64_t value;
  memcpy(&value, (const char *)counts + offset, sizeof value);
  return value;
}

/*
 * A counter that goes away with its type loses what was counted since it was last read, and most types that are found come and go between
 * two readings. So these have one row together, which only rises.
 */
static void counter_write(FILE *out, const struct metrics_view *view, const char *name, const char *labels, size_t offset)
{
  int64_t found = view->forgotten != NULL ? count_at(view->forgotten, offset) : 0;
  for (size_t i = 0; i < view->consumer_count; i++) {
    int64_t value = count_at(&view->consumers[i]->core.counts, offset);
    if (view->forgotten == NULL || i < view->listed_count)
      fprintf(out, "%s{type=\"%s\"%s} %" PRId64 "\n", name, view->consumers[i]->core.type, labels, value);
    else
      found += value;
  }
  if (view->forgotten != NULL)
    fprintf(out, "%s{type=\"*\"%s} %" PRId64 "\n", name, labels, found);
}

static void counters_write(FILE *out, const struct metrics_view *view)
{
  static const struct {
    const char *name, *help;
    size_t offset; /* of the int64_t in struct consumer_counts */
  } counters[] = {
      {"pawl_documents_total", "Queue documents committed to the file; each has a seq.", offsetof(struct consumer_counts, documents)},
      {"pawl_messages_total", "Messages committed to the file, those in bundles one by one.", offsetof(struct consumer_counts, messages)},
      {"pawl_blocks_total", "Blocks committed to the file.", offsetof(struct consumer_counts, blocks)},
      {"pawl_written_bytes_total", "Bytes of the file that were committed with blocks.", offsetof(struct consumer_counts, bytes)},
      {"pawl_deleted_documents_total", "Documents deleted from the queue after their commit.", offsetof(struct consumer_counts, deleted)},
      {"pawl_acquisitions_total", "Times this process became the holder.", offsetof(struct consumer_counts, acquisitions)},
      {"pawl_unclean_takeovers_total", "Times this process became the holder after one whose end was not clean.",
       offsetof(struct consumer_counts, unclean)},
      {"pawl_segments_total", "Segments made.", offsetof(struct consumer_counts, segments)},
  };
  for (size_t row = 0; row < sizeof counters / sizeof *counters; row++) {
    family(out, counters[row].name, "counter", counters[row].help);
    counter_write(out, view, counters[row].name, "", counters[row].offset);
  }
}

static int64_t holder(const struct consumer *consumer)
{
  return consumer_holds(consumer);
}

static int64_t storage_agrees(const struct consumer *consumer)
{
  return consumer->trust.view == STORAGE_AGREES;
}

static int64_t type_paused(const struct consumer *consumer)
{
  return consumer->trust.view == STORAGE_PAUSED;
}

static int64_t queue_empty(const struct consumer *consumer)
{
  return consumer_sees_nothing(consumer);
}

static int64_t epoch(const struct consumer *consumer)
{
  return consumer->core.epoch > 0 ? consumer->core.epoch : consumer->core.epoch_seen;
}

static int64_t committed_seq(const struct consumer *consumer)
{
  return consumer->core.seq_seen;
}

static int64_t settled_seq(const struct consumer *consumer)
{
  return consumer->core.settled;
}

static void gauges_write(FILE *out, const struct metrics_view *view)
{
  static const struct {
    const char *name, *help;
    int64_t (*value)(const struct consumer *consumer);
  } gauges[] = {
      {"pawl_holder", "1 if this process holds the lock of the type.", holder},
      {"pawl_storage_agrees", "1 if the last check found the storage of the type as the ledger says.", storage_agrees},
      {"pawl_type_paused", "1 if the type is paused, by the last check.", type_paused},
      {"pawl_queue_empty", "1 if the last poll found no message of the type in the queue.", queue_empty},
      {"pawl_epoch", "The type's epoch, as this process last saw it.", epoch},
      {"pawl_committed_seq", "The seq of the last committed document, as this process last saw it.", committed_seq},
      {"pawl_settled_seq", "The seq up to which documents are deleted from the queue, as this process last saw it.", settled_seq},
  };
  for (size_t row = 0; row < sizeof gauges / sizeof *gauges; row++) {
    family(out, gauges[row].name, "gauge", gauges[row].help);
    for (size_t i = 0; i < view->consumer_count; i++)
      fprintf(out, "%s{type=\"%s\"} %" PRId64 "\n", gauges[row].name, view->consumers[i]->core.type, gauges[row].value(view->consumers[i]));
  }
}

static void times_write(FILE *out, const struct metrics_view *view)
{
  family(out, "pawl_lease_remaining_seconds", "gauge", "Until the lease is over unless it is renewed; only where this process holds it.");
  for (size_t i = 0; i < view->consumer_count; i++) {
    const struct consumer *consumer = view->consumers[i];
    if (consumer_holds(consumer))
      fprintf(out, "pawl_lease_remaining_seconds{type=\"%s\"} %.3f\n", consumer->core.type,
              seconds(consumer_lease_end_ms(consumer) - view->now_ms));
  }
  family(out, "pawl_last_commit_age_seconds", "gauge", "Since this process last committed a block; only where it has.");
  for (size_t i = 0; i < view->consumer_count; i++) {
    const struct consumer *consumer = view->consumers[i];
    if (consumer->core.commit_ms >= 0)
      fprintf(out, "pawl_last_commit_age_seconds{type=\"%s\"} %.3f\n", consumer->core.type,
              seconds(view->now_ms - consumer->core.commit_ms));
  }
}

static void states_write(FILE *out, const struct metrics_view *view)
{
  family(out, "pawl_state", "gauge", "1 for the state that the type is in, 0 for all others.");
  for (size_t i = 0; i < view->consumer_count; i++)
    for (enum consumer_state state = 0; state < STATE_COUNT; state++)
      fprintf(out, "pawl_state{type=\"%s\",state=\"%s\"} %d\n", view->consumers[i]->core.type, consumer_state_name(state),
              view->consumers[i]->core.state == state);
}

static void problems_write(FILE *out, const struct metrics_view *view)
{
  family(out, "pawl_problems_total", "counter", "Warnings and errors in the log, by their event.");
  for (enum problem problem = 0; problem < PROBLEM_COUNT; problem++) {
    char label[60];
    snprintf(label, sizeof label, ",event=\"%s\"", problem_name(problem));
    counter_write(out, view, "pawl_problems_total", label, offsetof(struct consumer_counts, problems) + problem * sizeof(int64_t));
  }
}

char *metrics_text(const struct metrics_view *view, size_t *bytes)
{
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL)
    return NULL;
  process_write(out, view);
  shared_write(out, view);
  found_write(out, view);
  machine_write(out, view);
  latencies_write(out, view);
  counters_write(out, view);
  gauges_write(out, view);
  times_write(out, view);
  states_write(out, view);
  problems_write(out, view);
  if (fclose(out) == 0)
    return text;
  free(text);
  return NULL;
}

/* ---- for people ---- */

bool metrics_ready(const struct metrics_view *view, struct error *why)
{
  if (view->stopping || !view->asked || view->away || view->refuses) {
    error_set(why, "%s",
              view->stopping ? "asked to stop"
              : !view->asked ? "MongoDB was not asked yet"
              : view->away   ? "MongoDB gives no answer"
                             : "MongoDB refuses a request: the log says which");
    return false;
  }
  for (size_t i = 0; i < view->consumer_count; i++)
    if (view->consumers[i]->core.state == STATE_STOPPED) {
      if (view->consumers[i]->core.refused)
        error_set(why, "the type %s has stopped: the database check failed", view->consumers[i]->core.type);
      else
        error_set(why, "the type %s has stopped: its storage cannot be trusted: %.700s", view->consumers[i]->core.type,
                  view->consumers[i]->trust.why.text);
      return false;
    }
  for (size_t i = 0; i < view->consumer_count; i++)
    if (!consumer_trusts(view->consumers[i], view->now_ms, why))
      return false;
  return true;
}

enum { REASON_HEAD_MAX = 180, REASON_TAIL_MAX = 160 }; /* of why it is not ready: the types follow */

/* In the order in which they are told: room may be short. */
enum standing { HOLDS, STOPPED, DISTRUSTS, PAUSED, PAUSES, WAITS, IDLE, DONE, STANDINGS };

static enum standing standing_of(const struct consumer *consumer)
{
  if (consumer->core.state == STATE_STOPPED || consumer->core.state == STATE_DONE)
    return consumer->core.state == STATE_STOPPED ? STOPPED : DONE;
  if (consumer_holds(consumer))
    return HOLDS;
  if (consumer->core.state == STATE_BACKING_OFF)
    return PAUSES;
  if (consumer->trust.view == STORAGE_DISAGREES)
    return DISTRUSTS;
  if (consumer->trust.view == STORAGE_PAUSED)
    return PAUSED;
  return consumer->core.state == STATE_IDLE ? IDLE : WAITS;
}

/* Types beyond the room there is are not named. */
static size_t standing_write(const struct metrics_view *view, enum standing standing, const char *verb, char *text, size_t size)
{
  size_t used = 0, named = 0;
  for (size_t i = 0; i < view->consumer_count; i++) {
    const char *type = view->consumers[i]->core.type;
    if (standing_of(view->consumers[i]) != standing)
      continue;
    if (used + strlen(type) + 40 > size)
      return used + (size_t)snprintf(text + used, size - used, ", …");
    used += (size_t)snprintf(text + used, size - used, "%s%s", named++ > 0 ? ", " : verb, type);
  }
  return used;
}

void metrics_summary(const struct metrics_view *view, char *text, size_t size)
{
  static const char *const verbs[STANDINGS] = {
      [HOLDS] = "holds ",       [STOPPED] = "stopped: ", [DISTRUSTS] = "distrusts ", [PAUSED] = "paused: ",
      [PAUSES] = "backs off: ", [WAITS] = "waits for ",  [IDLE] = "idle: ",          [DONE] = "done: "};
  struct error why;
  size_t used = 0;
  assert(size > REASON_HEAD_MAX + REASON_TAIL_MAX + sizeof "…");
  text[0] = '\0';
  if (!metrics_ready(view, &why))
    text_shorten(why.text, REASON_HEAD_MAX, REASON_TAIL_MAX, text), used = strlen(text);
  for (enum standing standing = 0; standing < STANDINGS; standing++) {
    char part[400];
    if (standing_write(view, standing, verbs[standing], part, sizeof part) > 0 && used + strlen(part) + 3 < size)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? "; " : "", part);
  }
  if (view->forgotten != NULL && view->consumer_count == 0)
    snprintf(text + used, size - used, "%sno type has messages", used > 0 ? "; " : "");
}
