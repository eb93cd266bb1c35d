/* When a type that a pattern found gives its place up: it is let go, and forgotten once nothing runs for it any more. */
#include "worker/loop_private.h"

enum {
  UNKNOWN_MAX = 5,   /* polls in a row */
  PAUSED_MS = 10000, /* until a type that is paused, or needs a newer pawl, is taken up again; a wake-up ends it */
  LOST_MS = 1000,    /* the same for a type that another process took */
  FAILED_MS = 1000,  /* from one type that fails, and makes room, to the next: where all fail, they are not all tried at once */
  HUNG_MAX = 128,    /* that keep no place; each has a thread (worker/jobs.h) */
};

/* What is under way is dropped, and may be what a wake-up was for. */
static bool asks_for_messages(const struct core *core)
{
  bool polls = core->activity[ACTIVITY_MAIN].running && core->activity[ACTIVITY_MAIN].kind == ACTION_POLL;
  return polls || core->activity[ACTIVITY_READ].running;
}

void loop_context_leave(struct type_context *served, int64_t pause_ms)
{
  struct event stop = {.kind = EVENT_STOP};
  served->leaves = true;
  served->woken = pause_ms <= 0 && asks_for_messages(&served->consumer.core); /* a pause of so long is meant */
  served->pause_ms = pause_ms;
  loop_dispatch(served, &stop);
}

static int64_t idle_pause_ms(const struct type_context *served)
{
  return served->consumer.core.counts.acquisitions > 0 ? -1 : served->looked ? 0 : ASIDE_MS;
}

static bool hangs(const struct consumer *consumer, int64_t now_ms)
{
  const struct core *core = &consumer->core;
  bool gone = consumer->lease.logged_stall || consumer->lease.lost;
  return gone && core->activity[ACTIVITY_MAIN].running && now_ms - core->activity[ACTIVITY_MAIN].started_ms >= core->options.stall_ms;
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
  if (served->placeless || !(paused || (hangs(consumer, now_ms) && has_room_to_hang(served->loop))))
    return;
  served->placeless = true;
  served->loop->finder->count--;
  if (!paused && !served->leaves)
    loop_context_leave(served, 0);
}

/* It would try again after a pause, and others wait for its place. */
static bool makes_room(const struct type_context *served, int64_t now_ms)
{
  const struct core *core = &served->consumer.core;
  struct finder *finder = served->loop->finder;
  bool tries = core->state == STATE_IDLE && core->failed_holds > 0 && !core->activity[ACTIVITY_MAIN].running;
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
 *   its disk or its takes fail              put aside, if other types wait for its place
 *   the type is paused, or needs a newer pawl
 */
void loop_leave_if_needless(struct type_context *served, int64_t now_ms)
{
  const struct consumer *consumer = &served->consumer;
  const struct core *core = &consumer->core;
  bool stays_out = consumer->trust.view == STORAGE_PAUSED || consumer->trust.view == STORAGE_NEWER;
  loop_note_unfit(served->loop, consumer, now_ms);
  leave_place(served, now_ms);
  if (served->leaves)
    return;
  if (core->state == STATE_CHECKING && stays_out && !core->activity[ACTIVITY_MAIN].running)
    loop_context_leave(served, PAUSED_MS);
  else if (core->state == STATE_IDLE && consumer_is_quiet(consumer))
    loop_context_leave(served, idle_pause_ms(served));
  else if (core->state == STATE_IDLE && core->unknown_row >= UNKNOWN_MAX && !core->activity[ACTIVITY_MAIN].running)
    loop_context_leave(served, 0);
  else if (is_held_by_another(served, now_ms))
    loop_context_leave(served, LOST_MS);
  else if (makes_room(served, now_ms))
    loop_context_leave(served, 0);
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
      loop_context_leave(loop->contexts[i], -1);
}

struct type_context *loop_longest_held(const struct loop *loop)
{
  struct type_context *longest = NULL;
  for (size_t i = loop->options->type_count; i < loop->context_count; i++) {
    struct type_context *served = loop->contexts[i];
    if (is_draining(served) && (longest == NULL || served->consumer.core.entered_ms < longest->consumer.core.entered_ms))
      longest = served;
  }
  return longest;
}
