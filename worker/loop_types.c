/* The types that a worker serves: those that are listed, for good; those that patterns find, as long as they have messages. */
#include "worker/clock.h"
#include "worker/log.h"
#include "worker/loop_private.h"

#include <assert.h>
#include <stdlib.h>

enum {
  POLL_SHARE = 20,  /* of one processor, for all types together */
  LEAVES_MS = 5000, /* a type that is let go leaves its place by then; READ, deletes and the end of its file are over */
};

/* Otherwise types whose documents cannot all be taken would be looked at for ever, and --exit-when-empty would wait for that. */
_Static_assert((int)ASIDE_MAX >= (int)TYPE_LOOK_FOUND_MAX, "all that a look finds can be put aside");

/* ---- contexts ---- */

void loop_consumer_options(const struct loop *loop, struct consumer_options *options)
{
  *options = loop->options->consumer;
  reload_options(reload_config(loop->reload), options);
}

static bool room_make(struct loop *loop)
{
  if (loop->context_count < loop->context_room)
    return true;
  size_t room = loop->context_room > 0 ? 2 * loop->context_room : 16;
  struct type_context **contexts = realloc(loop->contexts, room * sizeof *contexts);
  if (contexts != NULL)
    loop->contexts = contexts;
  const struct consumer **consumers = realloc(loop->consumers, room * sizeof *consumers);
  if (consumers != NULL)
    loop->consumers = consumers;
  if (contexts == NULL || consumers == NULL)
    return false;
  loop->context_room = room;
  return true;
}

/* NULL: no memory. */
static struct type_context *context_add(struct loop *loop, const char *type)
{
  struct type_context *served = room_make(loop) ? calloc(1, sizeof *served) : NULL;
  struct performer_options performer = loop->options->performer;
  struct consumer_options options;
  if (served == NULL)
    return NULL;
  served->loop = loop;
  loop_consumer_options(loop, &options);
  size_t together = loop->context_count + 1 > loop->options->type_count ? loop->context_count + 1 : loop->options->type_count;
  options.poll_share = POLL_SHARE * (int64_t)together;
  options.polls_in_step = loop->options->type_count >= POLL_TOGETHER_MIN;
  consumer_init(&served->consumer, type, &options);
  performer.writer.type = served->consumer.core.type;
  performer.batch_messages = reload_config(loop->reload)->batch_messages;
  performer.batch_bytes = reload_config(loop->reload)->batch_bytes;
  performer_init(&served->performer, &performer);
  loop->consumers[loop->context_count] = &served->consumer;
  loop->contexts[loop->context_count++] = served;
  return served;
}

bool loop_has_room(const struct loop *loop)
{
  return loop->finder->count < loop->options->found_max;
}

static void counts_add(struct consumer_counts *sum, const struct consumer_counts *counts)
{
  sum->documents += counts->documents;
  sum->messages += counts->messages;
  sum->blocks += counts->blocks;
  sum->bytes += counts->bytes;
  sum->deleted += counts->deleted;
  sum->acquisitions += counts->acquisitions;
  sum->segments += counts->segments;
  sum->unclean += counts->unclean;
  latency_add(&sum->latencies, &counts->latencies);
  for (int i = 0; i < PROBLEM_COUNT; i++)
    sum->problems[i] += counts->problems[i];
}

static void context_forget(struct loop *loop, size_t place)
{
  struct type_context *served = loop->contexts[place];
  struct finder *finder = loop->finder;
  type_name type;
  bool woken = served->woken, placed = !served->placeless;
  memcpy(type, served->consumer.core.type, sizeof type);
  struct aside_memory memory = {.marks = served->performer.marks, .told = served->consumer.trust.told};
  struct aside_pause pause = {.ms = served->pause.ms < 0 ? 1 : served->pause.ms, .firm = served->pause.firm};
  if (served->pause.ms >= 0 || queue_marks_name(&memory.marks))
    aside_put(&finder->aside, type, pause, &memory, clock_boot_ms());
  if (served->pause.ms < 0)
    aside_served(&finder->aside, type);
  served->performer.marks = memory.marks;
  counts_add(&finder->forgotten, &served->consumer.core.counts);
  jobs_forget(&loop->jobs, &served->performer);
  performer_deinit(&served->performer);
  consumer_deinit(&served->consumer);
  free(served);
  size_t after = --loop->context_count - place;
  memmove(&loop->contexts[place], &loop->contexts[place + 1], after * sizeof *loop->contexts);
  memmove(&loop->consumers[place], &loop->consumers[place + 1], after * sizeof *loop->consumers);
  finder->count -= placed;
  if (woken)
    loop_types_wake(loop, type);
}

/* Nothing that still runs knows of it. */
static void contexts_forget(struct loop *loop)
{
  size_t count = loop->context_count;
  for (size_t i = count; i-- > 0;) {
    const struct type_context *served = loop->contexts[i];
    if (served->leaves && served->running == 0 && consumer_is_over(&served->consumer))
      context_forget(loop, i);
  }
  if (loop->options->exit_when_empty && loop->context_count < count && loop->context_count == loop->options->type_count)
    type_look_hurry(&loop->finder->look); /* nothing is held that was found: perhaps that is all */
}

static void context_begin(struct loop *loop, const char *type, bool looked)
{
  struct event timer = {.kind = EVENT_TIMER}, notified = {.kind = EVENT_NOTIFICATIONS, .notified = loop->notified};
  struct type_context *served = context_add(loop, type);
  if (served == NULL)
    return; /* the next look finds it again */
  waiting_drop(&loop->finder->waiting, type);
  struct aside_memory memory = aside_take_memory(&loop->finder->aside, type);
  served->performer.marks = memory.marks;
  served->consumer.trust.told = memory.told;
  served->looked = looked;
  loop->finder->count++;
  if (loop->notified)
    loop_dispatch(served, &notified);
  loop_dispatch(served, &timer);
}

/* ---- taking up ---- */

/* An operator has asked for it: the next look finds them again. */
void loop_types_retry(struct loop *loop)
{
  for (size_t i = loop->options->type_count; i < loop->context_count; i++) {
    struct type_context *served = loop->contexts[i];
    if (served->consumer.core.state == STATE_STOPPED) {
      loop->finder->quiet = false; /* a last look that is under way has left it out */
      served->leaves = true;
      served->pause.ms = -1;
    }
  }
  loop_types_hurry(loop);
}

static void fill(struct loop *loop)
{
  struct finder *finder = loop->finder;
  finder->wait_until_ms = 0;
  while (finder->waiting.left > 0 && loop_has_room(loop) && !loop->stopping) {
    int64_t now_ms = clock_boot_ms();
    if (loop_others_first(loop, waiting_next_since(&finder->waiting), now_ms))
      return;
    const char *type = waiting_next(&finder->waiting);
    if (!aside_has(&finder->aside, type, now_ms)) {
      finder->begun_ms = now_ms;
      context_begin(loop, type, true);
    }
    snprintf(finder->turn, sizeof finder->turn, "%s", type);
  }
  if (finder->waiting.left > 0)
    loop_leave_if_empty(loop);
}

/* Places that will be free; not those of types that hang. */
static size_t leaving_count(const struct loop *loop, int64_t now_ms)
{
  size_t count = 0;
  for (size_t i = loop->options->type_count; i < loop->context_count; i++) {
    const struct type_context *served = loop->contexts[i];
    count += served->leaves && !served->placeless && now_ms - served->consumer.core.stop_ms < LEAVES_MS;
  }
  return count;
}

/* Without room, a type that has waited for so long gets the place of the one that has been held for longest. */
static void give_turns(struct loop *loop, int64_t now_ms)
{
  int64_t lease_ms = reload_config(loop->reload)->lease_ms;
  size_t waited = loop_has_room(loop) ? 0 : waiting_count(&loop->finder->waiting, SPREAD_WAITED_MS, now_ms);
  for (size_t left = leaving_count(loop, now_ms); left < waited; left++) {
    struct type_context *served = loop_longest_held(loop);
    if (served == NULL || !spread_makes_room(now_ms - served->consumer.core.drains_ms, lease_ms))
      return; /* nor do the others */
    loop_context_leave(served, (struct aside_pause){.ms = -1});
  }
}

/* False: no memory. */
static bool served_note(struct loop *loop)
{
  struct finder *finder = loop->finder;
  type_list_clear(&finder->served);
  type_list_clear(&finder->stopped);
  for (size_t i = 0; i < loop->context_count; i++) {
    const struct core *core = &loop->contexts[i]->consumer.core;
    if (!type_list_add(&finder->served, core->type) || (core->state == STATE_STOPPED && !type_list_add(&finder->stopped, core->type)))
      return false;
  }
  type_list_sort(&finder->served);
  type_list_sort(&finder->stopped);
  return true;
}

/* No process serves it. */
static bool is_wanted(const void *context, const char *type)
{
  const struct finder *finder = context;
  return !type_list_has(&finder->served, type) && !type_list_has(&finder->held, type) &&
         !aside_has(&finder->aside, type, finder->looked_ms);
}

static void waiting_make(struct loop *loop, int64_t now_ms)
{
  struct finder *finder = loop->finder;
  const struct type_look *look = &finder->look;
  finder->looked_ms = now_ms;
  if (!served_note(loop) || !waiting_take(&finder->waiting, &look->found, &look->types.seen, finder->turn, is_wanted, finder, now_ms))
    return; /* the next look makes it */
  finder->quiet = finder->waiting.left == 0;
  for (size_t i = 0; i < look->found.count; i++) {
    const char *type = look->found.names[i];
    finder->quiet = finder->quiet && (aside_has(&finder->aside, type, now_ms) || type_list_has(&finder->stopped, type));
  }
}

/* ---- looks ---- */

/* Each type is over, or has an empty queue, and the last look has found no other: a linearizable look decides. */
static bool last_is_due(struct loop *loop)
{
  struct finder *finder = loop->finder;
  if (!loop->options->exit_when_empty || !finder->quiet)
    return false;
  type_list_clear(&finder->stopped);
  for (size_t i = 0; i < loop->context_count; i++) {
    const struct consumer *consumer = &loop->contexts[i]->consumer;
    bool over = consumer_is_over(consumer);
    if (loop->contexts[i]->leaves) /* a message may come for it */
      return false;
    if (!over && (i >= loop->options->type_count || !consumer_is_quiet(consumer)))
      return false;
    if (over && !type_list_add(&finder->stopped, consumer->core.type))
      return false;
  }
  type_list_sort(&finder->stopped);
  return true;
}

static void look_log(struct loop *loop, const struct type_look *look)
{
  struct completion completion = {.kind = ACTION_POLL, .asked = true, .error = look->error};
  completion.result = look->outcome == OUTCOME_YES ? RESULT_YES : look->outcome == OUTCOME_REFUSED ? RESULT_REFUSED : RESULT_UNKNOWN;
  database_log_action(&loop->database, &completion);
  if (database_log_server(&loop->database, &completion, loop->options->performer.store) && loop->notifications != NULL && !loop->stopping)
    notifications_go(loop->notifications);
}

static void denied_log(struct loop *loop, const struct error *denied)
{
  struct finder *finder = loop->finder;
  struct error text;
  bool is_denied = denied->text[0] != '\0';
  if (is_denied && !finder->logged_denied) {
    error_set(&text, "a type is not found by its own collection: %.900s", denied->text);
    loop_say(CONFIG_LOG_WARN, "own-collection", text.text);
  }
  finder->logged_denied = is_denied;
}

static void looked(struct loop *loop)
{
  struct finder *finder = loop->finder;
  const struct type_look *look = &finder->look;
  int64_t now_ms = clock_boot_ms();
  type_look_done(&finder->look);
  look_log(loop, look);
  if (loop->stopping && finder->own_row == ROW_GONE && look->outcome != OUTCOME_UNKNOWN)
    finder->own_row = ROW_STAYS; /* it was not waited for, and may have written the row since */
  if (loop->stopping || look->outcome == OUTCOME_UNKNOWN)
    return;
  if (look->outcome == OUTCOME_REFUSED) { /* somebody has to see to that, and waiting does not help */
    loop_say(CONFIG_LOG_ERROR, "refused", look->error.text);
    finder->refused = true;
    return;
  }
  finder->empty = look->last && look->empty && finder->quiet;
  finder->quiet = false;
  aside_forget(&finder->aside, now_ms);
  if (look->last) {
    if (!look->empty)
      loop_wake_all(loop);
    return;
  }
  denied_log(loop, &look->types.denied);
  struct type_list held = finder->held;
  finder->held = finder->look.held;
  finder->look.held = held;
  aside_calm(&finder->aside, &look->found, &finder->held, &look->types.seen);
  loop_rows_take(loop);
  waiting_make(loop, now_ms);
  loop_give_types(loop);
  fill(loop);
  give_turns(loop, now_ms);
  if (last_is_due(loop))
    type_look_hurry(&finder->look);
}

void loop_types_take(struct loop *loop)
{
  struct job *job;
  while (loop->finder != NULL && (job = executor_take(loop->finder->executor)) != NULL)
    if (job == &loop->finder->leave)
      loop->finder->own_row = ROW_GONE;
    else
      looked(loop);
}

static void look_start(struct loop *loop)
{
  struct finder *finder = loop->finder;
  bool heard = finder->heard;
  finder->heard = false;
  loop_row_fill(loop, &finder->look.row);
  type_look_start(&finder->look, last_is_due(loop), heard, &finder->stopped, finder->executor);
}

int64_t loop_types_step(struct loop *loop)
{
  struct finder *finder = loop->finder;
  int64_t now_ms = clock_boot_ms();
  if (finder == NULL)
    return INT64_MAX;
  for (size_t i = loop->options->type_count; i < loop->context_count && !loop->stopping; i++)
    loop_leave_if_needless(loop->contexts[i], now_ms);
  contexts_forget(loop);
  if (loop->stopping)
    return loop_row_leave(loop);
  fill(loop);
  if (type_look_due_ms(&finder->look) <= now_ms)
    look_start(loop);
  int64_t due_ms = type_look_due_ms(&finder->look);
  return finder->wait_until_ms > 0 && finder->wait_until_ms < due_ms ? finder->wait_until_ms : due_ms;
}

void loop_types_wake(struct loop *loop, const char *type)
{
  struct finder *finder = loop->finder;
  if (finder == NULL || loop->stopping || !type_rules_find(loop->options->rules, type))
    return;
  int64_t now_ms = clock_boot_ms();
  size_t room = loop_has_room(loop) ? loop->options->found_max - finder->count : 0;
  finder->heard = true;
  if (type_list_has(&finder->held, type) || waiting_has(&finder->waiting, type) || !aside_wake(&finder->aside, type, now_ms))
    return;
  if (finder->waiting.left > 0 && finder->waiting.left >= room)
    return; /* the places that are free are for those, and a look would say nothing new */
  if (room == 0 || loop_others_first(loop, now_ms, now_ms)) {
    type_look_hurry(&finder->look);
    return;
  }
  finder->begun_ms = now_ms;
  context_begin(loop, type, false);
}

void loop_types_hurry(struct loop *loop)
{
  if (loop->finder != NULL)
    type_look_hurry(&loop->finder->look);
}

void loop_types_look(const struct loop *loop, struct metrics_view *view)
{
  const struct finder *finder = loop->finder;
  if (finder == NULL)
    return;
  view->found = (struct found_view){.held = finder->count,
                                    .max = loop->options->found_max,
                                    .waiting = finder->waiting.left,
                                    .aside = aside_count(&finder->aside, view->now_ms),
                                    .looked_ms = finder->looked_ms};
}

/* All the places are taken by types that have stopped: nothing will be done any more. */
bool loop_types_over(const struct loop *loop)
{
  for (size_t i = 0; i < loop->context_count; i++)
    if (!consumer_is_over(&loop->contexts[i]->consumer) || loop->contexts[i]->leaves)
      return false;
  if (loop->finder == NULL)
    return true;
  return loop->stopping ? loop->finder->own_row == ROW_GONE : !loop_has_room(loop);
}

/* ---- begin ---- */

static bool finder_start(struct loop *loop, void (*notify)(void *context), struct error *error)
{
  struct finder *finder = loop->finder = calloc(1, sizeof *finder);
  if (finder == NULL)
    return false;
  finder->rows = calloc(WORKER_ROWS_MAX, sizeof *finder->rows);
  if (!type_look_init(&finder->look, loop->options->performer.store, loop->options->rules) || finder->rows == NULL)
    return false;
  finder->look.row.group = type_rules_hash(loop->options->rules);
  finder->look.host = loop->options->performer.holder.host;
  finder->look.pid = loop->options->performer.holder.pid;
  finder->executor = executor_new(&(struct executor_size){.threads = 1, .threads_most = 1}, notify, loop, error);
  return finder->executor != NULL;
}

bool loop_types_start(struct loop *loop, void (*notify)(void *context), struct error *error)
{
  if (loop->options->rules != NULL && !finder_start(loop, notify, error))
    return false;
  for (size_t i = 0; i < loop->options->type_count; i++)
    if (context_add(loop, loop->options->types[i]) == NULL)
      return false;
  return true;
}
