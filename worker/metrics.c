#include "worker/metrics.h"

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

/* ---- the types ---- */

static double seconds(int64_t ms)
{
  return (double)ms / 1000;
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
      {"pawl_segments_total", "Segments made.", offsetof(struct consumer_counts, segments)},
  };
  for (size_t row = 0; row < sizeof counters / sizeof *counters; row++) {
    family(out, counters[row].name, "counter", counters[row].help);
    for (size_t i = 0; i < view->consumer_count; i++) {
      int64_t value;
      memcpy(&value, (const char *)&view->consumers[i]->core.counts + counters[row].offset, sizeof value);
      fprintf(out, "%s{type=\"%s\"} %" PRId64 "\n", counters[row].name, view->consumers[i]->core.type, value);
    }
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
  for (size_t i = 0; i < view->consumer_count; i++)
    for (enum problem problem = 0; problem < PROBLEM_COUNT; problem++)
      fprintf(out, "pawl_problems_total{type=\"%s\",event=\"%s\"} %" PRId64 "\n", view->consumers[i]->core.type, problem_name(problem),
              view->consumers[i]->core.counts.problems[problem]);
}

char *metrics_text(const struct metrics_view *view, size_t *bytes)
{
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL)
    return NULL;
  process_write(out, view);
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
enum standing { HOLDS, STOPPED, DISTRUSTS, PAUSES, WAITS, IDLE, DONE, STANDINGS };

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
      [HOLDS] = "holds ",     [STOPPED] = "stopped: ", [DISTRUSTS] = "distrusts ", [PAUSES] = "pauses: ",
      [WAITS] = "waits for ", [IDLE] = "idle: ",       [DONE] = "done: "};
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
}
