#include "worker/seek.h"
#include "lockstore/lease.h"
#include "worker/epoch.h"
#include "worker/lease.h"
#include "worker/pace.h"
#include "worker/trust.h"

#include <inttypes.h>

enum { SOON_MS = 1000 };

void seek_init(struct seek *seek, const struct consumer_options *options)
{
  *seek = (struct seek){.look_ms = 0};
  acquire_init(&seek->acquisition, LOCK_BY_WORKER, options->lease_ms, options->retry_ms);
}

void seek_idle(struct turn *turn, const char *why)
{
  struct seek *seek = turn->seek;
  seek->may_take = seek->checked = seek->poll_first = false;
  turn_enter(turn, STATE_IDLE, why);
}

/* To IDLE, CHECKING, STOPPED or DONE; out of the wait queue first, so that no process is called that does not come. */
static void stop_waiting(struct turn *turn, enum consumer_state after, const char *why)
{
  struct core *core = turn->core;
  bool away = core->stopping && core->unknown_row > 0; /* its entry ends by itself */
  core->after = after;
  if (turn->seek->acquisition.queued && !away)
    turn_enter(turn, STATE_UNLOCKING, why);
  else if (after == STATE_IDLE)
    seek_idle(turn, why);
  else
    turn_enter(turn, after, why);
}

/* ---- polls: in IDLE, or beside the check or the mutex: others may have drained the queue meanwhile ---- */

static void polled_something(struct turn *turn)
{
  if (turn->core->state == STATE_IDLE)
    turn_enter(turn, STATE_CHECKING, "a message is in the queue");
  else if (turn->core->state == STATE_WAITING)
    turn_enter(turn, STATE_CHECKING, "the lock became free");
}

static void polled(struct turn *turn, const struct completion *completion)
{
  struct seek *seek = turn->seek;
  bool idle = turn->core->state == STATE_IDLE, waits = turn->core->state == STATE_WAITING && !seek->may_take;
  int64_t rest = pace_polled(turn, completion), poll_ms = turn->core->options.poll_ms;
  if (completion->result == RESULT_UNKNOWN)
    return;
  if (completion->result == RESULT_REFUSED) { /* somebody has to see to that, and waiting does not help */
    turn_refused(turn, completion);
    stop_waiting(turn, STATE_STOPPED, "the database check failed");
    return;
  }
  turn_name_document(turn, completion);
  turn->core->own_seen = turn->core->own_seen || completion->own;
  if (idle && seek->woken && completion->result == RESULT_NO)
    trust_by(turn, turn->moment->now_ms + RECHECK_MS); /* the ledger may say by now that the type has its own collection */
  seek->woken = seek->woken && turn->core->woken;
  seek->poll_first = false;
  trust_begin(turn);
  if (waits)
    pace_pause_until(turn, seek->look_ms); /* also when the queue is empty: the next message may come as the holder leaves */
  else if (completion->result == RESULT_YES)
    polled_something(turn);
  else if (idle)
    pace_pause(turn, poll_ms > rest ? poll_ms : rest);
  else
    stop_waiting(turn, STATE_IDLE, "the queue is empty");
}

/* My entry of the wait queue may be gone, or expire before --retry is over: so a second at most. */
static int64_t soon_ms(const struct core *core)
{
  return core->options.retry_ms < SOON_MS ? core->options.retry_ms : SOON_MS;
}

/* ---- the storage ---- */

static const char *free_why(const struct seek *seek)
{
  return seek->acquisition.steal ? "the lease has expired" : "the lock is free";
}

/* It leaves the wait queue, so that no process waits for its turn, and looks at the ledger every second. */
static void paused(struct turn *turn, const struct completion *completion)
{
  struct seek *seek = turn->seek;
  struct core *core = turn->core;
  seek->may_take = seek->checked = false;
  if (core->options.exits_when_empty) {
    turn_refused(turn, completion);
    stop_waiting(turn, STATE_STOPPED, "the type is paused");
    return;
  }
  if (seek->acquisition.queued)
    stop_waiting(turn, STATE_CHECKING, "the type is paused");
  else if (core->state == STATE_WAITING)
    turn_enter(turn, STATE_CHECKING, "the type is paused");
  if (core->state == STATE_CHECKING)
    core->next_ms = turn->trust->due_ms;
}

static void checked(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  switch (trust_checked(turn, completion)) {
  case TRUST_AGREES:
    turn->seek->checked = true;
    if (turn->seek->may_take)
      turn_enter(turn, STATE_TAKING, free_why(turn->seek));
    else
      turn_enter(turn, STATE_WAITING, "the storage agrees with the ledger");
    return;
  case TRUST_PAUSES:
    core->next_ms = turn->trust->due_ms;
    return;
  case TRUST_PAUSED:
    paused(turn, completion);
    return;
  case TRUST_SILENT:
    if (completion->result != RESULT_UNKNOWN)
      core->next_ms = turn->moment->now_ms + turn_jitter(turn, soon_ms(core));
    return;
  case TRUST_ENDS:
    stop_waiting(turn, STATE_STOPPED, "the storage cannot be trusted");
    return;
  }
}

bool seek_checks_aside(const struct core *core)
{
  return (core->state == STATE_IDLE || core->state == STATE_WAITING) && core->unknown_row == 0;
}

void seek_checked_aside(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  if (core->woken && core->wakeable)
    core->next_ms = turn->moment->now_ms;
  core->woken = false;
  turn->seek->checked = turn->seek->checked && completion->result == RESULT_YES;
  enum trust_answer answer = trust_checked(turn, completion);
  if (answer == TRUST_PAUSED)
    paused(turn, completion);
  else if (answer == TRUST_SILENT)
    trust_soon(turn);
  else if (answer == TRUST_ENDS)
    stop_waiting(turn, STATE_STOPPED, "the storage cannot be trusted");
  else if (answer == TRUST_PAUSES && core->state == STATE_WAITING) {
    turn_enter(turn, STATE_CHECKING, "the storage does not agree with the ledger");
    turn->seek->may_take = false;
    core->next_ms = turn->trust->due_ms;
  }
}

/* ---- waiting ---- */

static void turn_came(struct turn *turn)
{
  struct seek *seek = turn->seek;
  turn->core->woken = false; /* that is what it was woken for */
  turn->core->turn_ms = turn->moment->now_ms;
  if (seek->checked)
    turn_enter(turn, STATE_TAKING, free_why(seek));
  else /* Others were at work since the check: is there still a message, and where is the ledger now? */
    seek->may_take = seek->poll_first = true;
}

static void busy(struct turn *turn, int64_t pause_ms)
{
  struct seek *seek = turn->seek;
  seek->checked = seek->may_take = false;
  seek->look_ms = turn->moment->now_ms + (turn->core->woken ? 0 : pause_ms);
  seek->poll_first = !pace_polled_lately(turn);
  if (!seek->poll_first)
    pace_pause_until(turn, seek->look_ms);
}

static void lock_refused(struct turn *turn, const struct completion *completion)
{
  struct seek *seek = turn->seek;
  if (!seek->logged_lock)
    turn_log(turn, LEVEL_WARN, "lock", "%s", completion->error.text);
  seek->logged_lock = true;
  busy(turn, RECHECK_MS);
  turn->core->next_ms = seek->look_ms;
  turn->core->wakeable = false;
}

static void looked(struct turn *turn, const struct completion *completion)
{
  struct seek *seek = turn->seek;
  const struct lock_view *view = &completion->acquisition.view;
  bool joined = completion->acquisition.queued && !seek->acquisition.queued;
  seek->acquisition = completion->acquisition;
  if (completion->result == RESULT_UNKNOWN)
    return;
  if (completion->result == RESULT_REFUSED) {
    lock_refused(turn, completion);
    return;
  }
  seek->logged_lock = false;
  if (completion->result == RESULT_YES) {
    turn_came(turn);
    return;
  }
  if (joined && view->left_ms > 0)
    turn_log(turn, LEVEL_DEBUG, "busy", "held by %s, pid %" PRId64 ", for another %" PRId64 " ms", lock_holder_show(&view->holder).text,
             view->holder.pid, view->left_ms);
  busy(turn, seek->acquisition.pause_ms);
}

void seek_called(struct turn *turn)
{
  if (turn->core->state != STATE_WAITING)
    return;
  turn->seek->look_ms = turn->moment->now_ms;
  pace_called(turn);
}

/* ---- taking and fencing ---- */

/* Giving up: the lock document, if there is one of mine, goes; then on to `after`. */
static void give_up(struct turn *turn, enum consumer_state after, const char *why)
{
  turn->core->after = after;
  turn_enter(turn, STATE_UNLOCKING, why);
}

static void taken(struct turn *turn, const struct completion *completion)
{
  struct seek *seek = turn->seek;
  struct core *core = turn->core;
  seek->may_take = seek->checked = false;
  seek->acquisition = completion->acquisition;
  if (completion->result == RESULT_NO) {
    turn_enter(turn, STATE_WAITING, "another process took the lock");
    seek->look_ms = core->next_ms = turn->moment->now_ms + turn_jitter(turn, soon_ms(core));
    core->wakeable = true;
    return;
  }
  lease_taken(turn, completion);
  core->epoch_left = 0;
  if (completion->result == RESULT_YES) {
    turn_enter(turn, STATE_FENCING, "the lock is mine");
  } else {
    core->failed_holds++;
    give_up(turn, STATE_IDLE, "the take was not acknowledged");
  }
}

/* A server that refuses this but lets the lock go would be asked without a pause. */
static void fence_given_up(struct turn *turn, bool moved)
{
  turn->core->failed_holds += !moved;
  epoch_forget(turn);
  give_up(turn, STATE_IDLE, moved ? "the ledger has moved on" : "the fence was not acknowledged");
}

static void fence_done(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  turn->seek->place = completion->place;
  if (completion->result == RESULT_UNKNOWN)
    return; /* it may be done: the ledger will say so */
  if (completion->result == RESULT_FAILED) {
    core->failed_disks++;
    turn_log(turn, LEVEL_ERROR, "disk", "%s: pausing this type", completion->error.text);
    epoch_forget(turn);
    give_up(turn, STATE_BACKING_OFF, "the file system does not answer");
    return;
  }
  if (completion->result == RESULT_REFUSED && core->failed_holds == 0)
    turn_log(turn, LEVEL_WARN, "untrusted", "cannot fence, retrying: %s", completion->error.text);
  if (completion->result != RESULT_YES) {
    fence_given_up(turn, completion->result == RESULT_NO);
    return;
  }
  core->failed_holds = 0;
  pace_passed(turn);
  epoch_start(turn, completion);
}

/* ---- unlocking ---- */

/* 1 s, doubling to a minute. */
static int64_t disk_pause(int64_t failures)
{
  int64_t pause = 1000;
  for (int64_t i = 1; i < failures && pause < 60000; i++)
    pause *= 2;
  return pause < 60000 ? pause : 60000;
}

static void go_on(struct turn *turn, const char *why)
{
  if (turn->core->after == STATE_IDLE) {
    seek_idle(turn, why);
    pace_released(turn, turn->lease->lost);
  } else {
    turn_enter(turn, turn->core->after, why);
  }
}

static void unlocked(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  bool left = completion->kind == ACTION_LEAVE_QUEUE, empty = left && turn->pace->empty;
  /* Not acknowledged: the lease will expire. During a stop the worker does not wait for that. */
  bool expired = turn->moment->now_ms > lease_end_ms(turn->lease);
  bool unknown = completion->result == RESULT_UNKNOWN;
  if (unknown && !left && !turn_hurries(turn) && !expired)
    return;
  lease_drop(turn);
  if (!left && turn->seek->acquisition.queued)
    return; /* a take without an answer: it still waits under that owner */
  acquire_init(&turn->seek->acquisition, LOCK_BY_WORKER, core->options.lease_ms, core->options.retry_ms);
  go_on(turn, left ? "left the wait queue" : unknown ? "the delete was not acknowledged, the lease will expire" : "the lock is released");
  if (core->state == STATE_IDLE && core->failed_holds > 0 && !empty)
    core->next_ms += turn_backoff(turn, core->failed_holds);
  else if (core->state == STATE_CHECKING)
    core->next_ms += RECHECK_MS;
  else if (core->state == STATE_BACKING_OFF)
    core->next_ms += disk_pause(core->failed_disks);
}

/* ---- what is started ---- */

static struct action *acquire_start(struct turn *turn, enum action_kind kind)
{
  struct action *action = turn_start(turn, kind);
  turn->seek->acquisition.listens = turn->pace->notified;
  turn->seek->acquisition.ttl_ms = turn->core->options.lease_ms;
  turn->seek->acquisition.retry_ms = turn->core->options.retry_ms;
  action->acquisition = turn->seek->acquisition;
  return action;
}

static void look_step(struct turn *turn)
{
  bool idle = turn->core->state == STATE_IDLE, waiting = turn->core->state == STATE_WAITING;
  if (idle || turn->seek->poll_first || (!waiting && !pace_polled_lately(turn))) {
    pace_poll_start(turn);
  } else if (waiting) {
    acquire_start(turn, ACTION_LOOK);
    turn->core->woken = false;
  } else {
    trust_check_start(turn);
  }
}

static void take_step(struct turn *turn)
{
  turn->core->owner = turn->seek->acquisition.owner;
  acquire_start(turn, ACTION_TAKE);
}

static void unlock_step(struct turn *turn)
{
  struct core *core = turn->core;
  if (turn->lease->held)
    acquire_start(turn, ACTION_UNLOCK)->epoch = core->epoch_left;
  else
    acquire_start(turn, ACTION_LEAVE_QUEUE)->calls = core->after != STATE_IDLE || core->stopping || !turn->pace->empty;
}

/* After two thirds of the lease the lock goes, whatever became of the fence: by then others can do it as well. */
static void fence_step(struct turn *turn)
{
  struct seek *seek = turn->seek;
  bool again = turn->core->unknown_row > 0;
  if (again && (!lease_alive(turn) || turn->moment->now_ms >= seek->fence_until_ms)) {
    fence_given_up(turn, false);
    return;
  }
  if (!again) {
    seek->fence_until_ms = turn->moment->now_ms + lease_safe_ms(turn->core->options.lease_ms);
    seek->place = PLACE_UNASKED;
  }
  struct action *action = turn_start(turn, ACTION_FENCE);
  action->epoch_seen = turn->core->epoch_seen;
  action->clean_seen = turn->trust->clean_seen;
  action->vouched_seen = turn->trust->vouched_seen;
  action->place = seek->place;
  action->again = again;
}

/* Asked to stop, it stops where no lock document can be its own; else that goes first. */
static void stop_step(struct turn *turn)
{
  if (turn->core->state == STATE_FENCING)
    give_up(turn, STATE_DONE, "asked to stop");
  else
    stop_waiting(turn, STATE_DONE, "asked to stop");
}

void seek_step(struct turn *turn)
{
  struct core *core = turn->core;
  if (core->stopping && !turn_runs(turn, ACTIVITY_MAIN) && core->state != STATE_UNLOCKING)
    stop_step(turn);
  else if (seek_checks_aside(core) && trust_is_due(turn))
    trust_check_start(turn);
  else if (!turn_main_ready(turn))
    return;
  else if (core->state == STATE_TAKING)
    take_step(turn);
  else if (core->state == STATE_FENCING)
    fence_step(turn);
  else if (core->state == STATE_UNLOCKING)
    unlock_step(turn);
  else
    look_step(turn);
}

void seek_done(struct turn *turn, const struct completion *completion)
{
  if (completion->kind == ACTION_POLL)
    polled(turn, completion);
  else if (completion->kind == ACTION_CHECK)
    checked(turn, completion);
  else if (completion->kind == ACTION_LOOK)
    looked(turn, completion);
  else if (completion->kind == ACTION_TAKE)
    taken(turn, completion);
  else if (completion->kind == ACTION_FENCE)
    fence_done(turn, completion);
  else
    unlocked(turn, completion);
}
