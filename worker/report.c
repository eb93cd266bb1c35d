#include "worker/report.h"
#include "worker/database_log.h"
#include "worker/log.h"

#include <inttypes.h>
#include <unistd.h>

enum { TEXT_SIZE = 1500 };

struct text {
  char bytes[TEXT_SIZE];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, arguments);
  va_end(arguments);
  size_t left = sizeof text->bytes - text->used - 1;
  text->used += length < 0 ? 0 : (size_t)length < left ? (size_t)length : left;
}

static const char *yes_no(bool yes)
{
  return yes ? "yes" : "no";
}

/* ---- what runs ---- */

static const char *action_name(enum action_kind kind)
{
  static const char *const names[ACTION_COUNT] = {
      [ACTION_POLL] = "poll",     [ACTION_CHECK] = "check",   [ACTION_LOOK] = "look",     [ACTION_TAKE] = "take",
      [ACTION_FENCE] = "fence",   [ACTION_OPEN] = "open",     [ACTION_SETTLE] = "settle", [ACTION_BEGIN] = "begin",
      [ACTION_APPEND] = "append", [ACTION_COMMIT] = "commit", [ACTION_CLOSE] = "close",   [ACTION_UNLOCK] = "unlock",
      [ACTION_READ] = "read",     [ACTION_DELETE] = "delete", [ACTION_RENEW] = "renew",   [ACTION_LEAVE_QUEUE] = "leave-queue"};
  return names[kind];
}

/* Each action with the milliseconds since it was begun: it may also wait for a thread. */
static void add_doing(struct text *text, const struct core *core, int64_t now_ms)
{
  int count = 0;
  add(text, " doing=");
  for (int i = 0; i < ACTIVITY_COUNT; i++)
    if (core->activity[i].running)
      add(text, "%s%s/%" PRId64 "ms", count++ > 0 ? "," : "", action_name(core->activity[i].kind), now_ms - core->activity[i].started_ms);
  if (count == 0)
    add(text, "nothing");
}

static void add_doing_all(struct text *text, const struct metrics_view *view)
{
  int counts[ACTION_COUNT] = {0}, named = 0;
  for (size_t i = 0; i < view->consumer_count; i++)
    for (int at = 0; at < ACTIVITY_COUNT; at++)
      if (view->consumers[i]->core.activity[at].running)
        counts[view->consumers[i]->core.activity[at].kind]++;
  add(text, " doing=");
  for (int kind = 0; kind < ACTION_COUNT; kind++)
    if (counts[kind] > 0)
      add(text, "%s%s/%d", named++ > 0 ? "," : "", action_name((enum action_kind)kind), counts[kind]);
  if (named == 0)
    add(text, "nothing");
}

/* ---- a type ---- */

static const char *storage_name(enum storage_view view)
{
  static const char *const names[] = {[STORAGE_UNSEEN] = "unchecked",
                                      [STORAGE_AGREES] = "agrees",
                                      [STORAGE_DISAGREES] = "disagrees",
                                      [STORAGE_NEWER] = "newer",
                                      [STORAGE_PAUSED] = "paused"};
  return names[view];
}

static bool runs(const struct core *core, enum action_kind kind)
{
  return core->activity[ACTIVITY_MAIN].running && core->activity[ACTIVITY_MAIN].kind == kind;
}

static void add_holder(struct text *text, const struct consumer *consumer, int64_t now_ms)
{
  const struct epoch *epoch = &consumer->epoch;
  bool holds = consumer_holds(consumer);
  add(text, "holder=%s", yes_no(holds));
  if (holds)
    add(text, " lease_left_ms=%" PRId64, consumer_lease_end_ms(consumer) - now_ms);
  add(text, " settled=%" PRId64, consumer->core.settled);
  if (consumer->core.epoch == 0)
    return;
  add(text, " file=%s length=%" PRId64, epoch->committed.file[0] != 0 ? epoch->committed.file : "-", epoch->committed.length);
  add(text, " batches_read=%d batches_writing=%d batches_committed=%d", epoch->ready_count,
      epoch->current != NULL || runs(&consumer->core, ACTION_APPEND), epoch->committed_count);
}

static void add_problem(struct text *text, const struct core *core, int64_t now_ms)
{
  if (core->problem_ms > 0)
    add(text, " problem_ms=%" PRId64 " problem=\"%s: %s\"", now_ms - core->problem_ms, core->problem_event, core->problem_text);
}

static void type_write(const struct consumer *consumer, int64_t now_ms)
{
  const struct core *core = &consumer->core;
  struct log_subject subject = {.type = core->type, .epoch = core->epoch > 0 ? core->epoch : core->epoch_seen, .seq = core->seq_seen};
  struct text text = {.used = 0};
  int64_t pause_ms = core->next_ms - now_ms;
  add(&text, "%s for %.1f s: ", consumer_state_name(core->state), (double)(now_ms - core->entered_ms) / 1000);
  add_holder(&text, consumer, now_ms);
  add(&text, " queue_empty=%s storage=%s pause_ms=%" PRId64, yes_no(consumer_sees_nothing(consumer)), storage_name(consumer->trust.view),
      pause_ms > 0 ? pause_ms : 0);
  add_doing(&text, core, now_ms);
  add_problem(&text, core, now_ms);
  log_report(&subject, "report", text.bytes);
}

/* ---- the process ---- */

static void process_write(const struct metrics_view *view, const struct database_log *database, const struct consumer_options *options)
{
  struct text text = {.used = 0};
  struct error why;
  size_t holds = 0, stopped = 0;
  bool ready = metrics_ready(view, &why);
  for (size_t i = 0; i < view->consumer_count; i++) {
    holds += consumer_holds(view->consumers[i]);
    stopped += view->consumers[i]->core.state == STATE_STOPPED;
  }
  add(&text, "pawl-worker %s: pid=%ld types=%zu holds=%zu stopped=%zu ready=%s stopping=%s", PAWL_VERSION, (long)getpid(),
      view->consumer_count, holds, stopped, yes_no(ready), yes_no(view->stopping));
  add(&text, " database=%s server=%s answers=%s wake_ups=%s", options->database, options->server,
      !view->asked    ? "unknown"
      : view->away    ? "no"
      : view->refuses ? "refuses"
                      : "yes",
      yes_no(view->wakes));
  if (view->forgotten != NULL)
    add(&text, " types_held=%zu types_max=%zu types_waiting=%zu types_put_aside=%zu", view->found.held, view->found.max,
        view->found.waiting, view->found.aside);
  add(&text, " lease_ms=%" PRId64 " poll_ms=%" PRId64 " dir=\"%s\"", options->lease_ms, options->poll_ms, path_show(options->dir).text);
  add_doing_all(&text, view);
  if (database->last_ms > 0)
    add(&text, " database_error_ms=%" PRId64 " database_error=\"%.300s\"", view->now_ms - database->last_ms, database->last.text);
  if (!ready)
    add(&text, " because=\"%.300s\"", why.text);
  log_report(&(struct log_subject){0}, "report", text.bytes);
}

void report_write(const struct metrics_view *view, const struct database_log *database, const struct consumer_options *options)
{
  process_write(view, database, options);
  for (size_t i = 0; i < view->consumer_count; i++)
    type_write(view->consumers[i], view->now_ms);
}
