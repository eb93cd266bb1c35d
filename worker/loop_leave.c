/* When a type that a pattern found gives its place up: it is let go, and forgotten once nothing runs for it any more. */
#include "worker/loop_private.h"

enum {
  UNKNOWN_MAX = 5,  /* requests in a row */
  LOST_MS = 1000,   /* so long it waits for a lock that another process took */
  FAILED_MS = 1000, /* from one type that fails, and makes room, to the next: where all fail, they are not all tried at once */
  HUNG_MAX = 128,   /* that keep no place; each has a thread (worker/jobs.h) */
  UNFIT_MS = 60000, /* the process asks for no types, after one that it could not serve */
};

static const struct aside_pause none = {.ms = -1};
static const struct aside_pause growing = {.ms = 0};
static const struct aside_pause until_tried_again = {.ms = 0, .firm = true}; /* no message mends a disk */
static const struct aside_pause lost_pause = {.ms = LOST_MS};
static const struct aside_pause stays_out_pause = {.ms = 10000}; /* paused, or in need of a newer pawl; a wake-up ends it */
static const struct aside_pause untaken_pause = {.ms = ASIDE_MS};

/* What is under way is dropped, and may be what a wake-up was for. */
static bool asks_for_messages(const struct core *core)
{
  bool polls = core->activity[ACTIVITY_MAIN].running && core->activity[ACTIVITY_MAIN].kind == ACTION_POLL;
  return polls || core->activity[ACTIVITY_READ].running;
}

void loop_context_leave(struct type_context *served, struct aside_pause pause)
{
  struct event stop = {.kind = EVENT_STOP};
  served->leaves = true;
  served->woken = asks_for_messages(&served->consumer.core);
  served->pause = pause;
  loop_dispatch(served, &stop);
}

static struct aside_pause idle_pause(const struct type_context *served)
{
  return served->consumer.core.counts.acquisitions > 0 ? none : served->looked ? growing : untaken_pause;
}

static bool hangs(const struct consumer *consumer, int64_t now_ms)
{
  const struct core *core = &consumer->core;
  const struct lease *lease = &consumer->lease;
  bool without_lease = core->activity[ACTIVITY_MAIN].kind == ACTION_CHECK || (lease->held && (lease->logged_stall || lease->lost));
  int64_t ms = now_ms - core->activity[ACTIVITY_MAIN].started_ms;
  return without_lease && core->activity[ACTIVITY_MAIN].running && ms >= core->options.stall_ms;
}

static bool is_unfit(const struct consumer *consumer, int64_t now_ms)
{
  bool disk = consumer->core.failed_disks > 0 || hangs(consumer, now_ms) || consumer->trust.view == STORAGE_DISAGREES;
  return (disk && consumer->core.state != STATE_STOPPED) || consumer->trust.view == STORAGE_NEWER;
}

bool loop_is_hung(const struct type_context *served)
{
  return served->leaves && served->placeless;
}

static bool has_room_to_hang(const struct loop *loop)
{
  size_t count = 0;
  for (size_t i = loop->options->type_count; i < loop->context_count; i++)
    count += loop_is_hung(loop->contexts[i]);
  return count < loop->options->found_max && count < HUNG_MAX;
}

/* It has stopped for --exit-when-empty because it is paused; or it hangs, and is forgotten when that is over. */
static void leave_place(struct type_context *served, int64_t now_ms)
{
  const struct consumer *consumer = &served->consumer;
  bool paused = consumer->core.state == STATE_STOPPED && consumer->trust.view == STORAGE_PAUSED;
  bool hung = hangs(consumer, now_ms);
  bool failed = consumer->core.failed_disks > 0 && consumer->core.state != STATE_STOPPED;
  if (served->leaves && (hung || failed))
    served->pause = until_tried_again; /* it was let go for another reason */
  if (served->placeless || !(paused || (hung && has_room_to_hang(served->loop))))
    return;
  served->placeless = true;
  served->loop->finder->count--;
  if (!paused && !served->leaves)
    loop_context_leave(served, until_tried_again);
}

/* It would try again after a pause, and others wait for its place. */
static bool makes_room(const struct type_context *served, int64_t now_ms)
{
  const struct core *core = &served->consumer.core;
  struct finder *finder = served->loop->finder;
  bool failed =
      (core->state == STATE_IDLE && core->failed_holds > 0) || (core->state == STATE_SETTLING && core->unknown_row >= UNKNOWN_MAX);
  bool tries = failed && !core->activity[ACTIVITY_MAIN].running;
  bool waited = finder->waiting.left > 0 && !loop_has_room(served->loop);
  if (!waited || !(tries || core->state == STATE_BACKING_OFF) || now_ms - finder->failed_ms < FAILED_MS)
    return false;
  finder->failed_ms = now_ms;
  return true;
}

/* Not while its first look at the lock is under way, however long that takes. */
static bool is_held_by_another(const struct type_context *served, int64_t now_ms)
{
  const struct core *core = &served->consumer.core;
  const struct seek *seek = &served->consumer.seek;
  bool answered = seek->look_ms >= core->entered_ms || core->unknown_row >= UNKNOWN_MAX;
  return core->state == STATE_WAITING && !seek->may_take && answered && now_ms - core->entered_ms >= LOST_MS;
}

/*
 *   idle, and the queue is empty            forgotten; if it never held the lock there may be what cannot be taken: put aside
 *   idle, and no poll is answered           put aside: others have answers, or there is an outage, and a look finds it again
 *   waiting for a lock that is not free     the looks see when it is
 *   its disk, takes or deletes fail         put aside, if other types wait for its place
 *   the type is paused, or needs a newer pawl
 */
void loop_leave_if_needless(struct type_context *served, int64_t now_ms)
{
  const struct consumer *consumer = &served->consumer;
  const struct core *core = &consumer->core;
  bool stays_out = consumer->trust.view == STORAGE_PAUSED || consumer->trust.view == STORAGE_NEWER;
  if (is_unfit(consumer, now_ms))
    served->loop->finder->unfit_until_ms = now_ms + UNFIT_MS;
  leave_place(served, now_ms);
  if (served->leaves)
    return;
  if (core->state == STATE_CHECKING && stays_out && !core->activity[ACTIVITY_MAIN].running)
    loop_context_leave(served, stays_out_pause);
  else if (core->state == STATE_IDLE && consumer_is_quiet(consumer))
    loop_context_leave(served, idle_pause(served));
  else if (core->state == STATE_IDLE && core->unknown_row >= UNKNOWN_MAX && !core->activity[ACTIVITY_MAIN].running)
    loop_context_leave(served, growing);
  else if (is_held_by_another(served, now_ms))
    loop_context_leave(served, lost_pause);
  else if (makes_room(served, now_ms))
    loop_context_leave(served, until_tried_again);
}

static bool is_draining(const struct type_context *served)
{
  return !served->leaves && served->consumer.core.state == STATE_DRAINING;
}

/* Types wait for room: who has nothing to write does not linger. */
void loop_leave_if_empty(struct loop *loop)
{
  for (size_t i = loop->options->type_count; i < loop->context_count; i++)
    if (is_draining(loop->contexts[i]) && consumer_sees_nothing(&loop->contexts[i]->consumer))
      loop_context_leave(loop->contexts[i], none);
}

struct type_context *loop_longest_held(const struct loop *loop)
{
  struct type_context *longest = NULL;
  for (size_t i = loop->options->type_count; i < loop->context_count; i++) {
    struct type_context *served = loop->contexts[i];
    if (is_draining(served) && (longest == NULL || served->consumer.core.drains_ms < longest->consumer.core.drains_ms))
      longest = served;
  }
  return longest;
}
