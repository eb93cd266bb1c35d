#include "worker/consumer_parts.h"

#include <inttypes.h>

/* IDLE to FENCING: the way to the lock and the epoch; and UNLOCKING, the way back. */

enum {
  PEEK_WHILE_WAITING_MS = 1000, /* a waiter sees this often whether there still is anything to wait for */
  LOOK_LONG_MS = 1000,          /* a look without an answer took long because of what it goes over, or as well as if it had */
};

void consumer_to_idle(struct turn *turn, const char *why)
{
  struct consumer *consumer = turn->consumer;
  consumer->looked_free = consumer->check_fresh = consumer->peek_first = false;
  consumer_enter(turn, STATE_IDLE, why);
}

void consumer_stop_waiting(struct turn *turn, enum consumer_state after, const char *why)
{
  struct consumer *consumer = turn->consumer;
  bool away = consumer->stopping && consumer->unknown_row > 0; /* its entry ends by itself */
  consumer->after = after;
  if (consumer->acquisition.queued && !away)
    consumer_enter(turn, STATE_UNLOCKING, why);
  else if (after == STATE_IDLE)
    consumer_to_idle(turn, why);
  else
    consumer_enter(turn, after, why);
}

/* The database is not as it should be: somebody has to see to that, and waiting does not help. */
static void peek_refused(struct turn *turn, const struct completion *completion)
{
  consumer_refused(turn, completion);
  consumer_stop_waiting(turn, STATE_STOPPED, "the database is not as it should be");
}

/* A regular one, which a wake-up ends; one that came meanwhile already has. */
static void pause_regular(struct turn *turn, int64_t ms)
{
  struct consumer *consumer = turn->consumer;
  /* Where nobody holds it any more, and nothing was there for the next one at that moment, a message may be seen by this process alone. */
  bool next = turn->moment->now_ms - consumer->let_go_ms < WATCHED_PAUSE_MS;
  int64_t length = consumer_pause(turn, ms, consumer->hears && !next);
  consumer->next_ms = turn->moment->now_ms + (consumer->woken ? 0 : length);
  consumer->wakeable = true;
  consumer->woken = false;
}

static void wait_on(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  consumer->next_ms = consumer->woken ? turn->moment->now_ms : consumer->look_ms;
  consumer->wakeable = true;
  consumer->woken = false;
}

/* A look at the queue came back, in IDLE, or beside the check or the mutex: others may have drained it meanwhile. */
static void peeked(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool idle = consumer->state == STATE_IDLE, timed_out = completion->result == RESULT_UNKNOWN && completion->took_ms >= LOOK_LONG_MS;
  int64_t now = turn->moment->now_ms, rest = consumer_look_rest(consumer, completion);
  if (!completion->glanced && (completion->result != RESULT_UNKNOWN || timed_out))
    consumer->thorough_ms = now + rest;
  if (completion->result == RESULT_UNKNOWN)
    return;
  if (completion->result == RESULT_REFUSED) {
    peek_refused(turn, completion);
    return;
  }
  consumer_name_document(turn, completion);
  consumer->peek_first = false;
  consumer->peeked_ms = now;
  if (consumer->storage_ms == INT64_MAX)
    consumer->storage_ms = now;
  consumer->empty = completion->result == RESULT_NO;
  if (completion->marked && !completion->glanced)
    rest = 0; /* the next one glances */
  if (consumer->empty && idle)
    pause_regular(turn, consumer->options.poll_ms > rest ? consumer->options.poll_ms : rest);
  else if (consumer->state == STATE_WAITING && !consumer->looked_free)
    wait_on(turn); /* while another holds the lock, also when the queue is empty: the next message may come as that one leaves */
  else if (consumer->empty)
    consumer_stop_waiting(turn, STATE_IDLE, "the queue is empty");
  else if (idle)
    consumer_enter(turn, STATE_CHECKING, "a message is in the queue");
  else if (consumer->state == STATE_WAITING)
    consumer_enter(turn, STATE_CHECKING, "the lock became free");
}

/* ---- the storage ---- */

static const char *free_why(const struct consumer *consumer)
{
  return consumer->acquisition.steal ? "the lease has expired" : "the lock is free";
}

static void checking_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool seen = consumer_storage_seen(turn, completion);
  if (consumer->state != STATE_CHECKING)
    return;
  if (seen && completion->result != RESULT_YES) {
    consumer->next_ms = consumer->storage_ms;
  } else if (!seen && completion->result != RESULT_UNKNOWN) {
    consumer->next_ms = turn->moment->now_ms + consumer_jitter(turn, consumer->options.retry_ms);
  } else if (seen) {
    consumer->check_fresh = true;
    if (consumer->looked_free)
      consumer_enter(turn, STATE_TAKING, free_why(consumer));
    else
      consumer_enter(turn, STATE_WAITING, "the storage agrees with the ledger");
  }
}

bool consumer_looks_aside(const struct consumer *consumer)
{
  return (consumer->state == STATE_IDLE || consumer->state == STATE_WAITING) && consumer->unknown_row == 0;
}

/* The queue and the mutex come first; but who is woken without end looks at the storage all the same. */
static bool aside_due(const struct turn *turn)
{
  const struct consumer *consumer = turn->consumer;
  int64_t grace = consumer_main_ready(turn) ? RECHECK_MS : 0;
  return consumer_looks_aside(consumer) && !consumer_runs(consumer, ACTIVITY_MAIN) && consumer->storage_ms < INT64_MAX &&
         turn->moment->now_ms >= consumer->storage_ms + grace;
}

void consumer_acquire_aside(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (consumer->woken && consumer->wakeable)
    consumer->next_ms = turn->moment->now_ms;
  consumer->woken = false;
  consumer->check_fresh = consumer->check_fresh && completion->result == RESULT_YES;
  if (!consumer_storage_seen(turn, completion))
    consumer->storage_ms = turn->moment->now_ms + RECHECK_MS;
  else if (consumer->state == STATE_WAITING && completion->result != RESULT_YES) {
    consumer_enter(turn, STATE_CHECKING, "the storage does not agree with the ledger");
    consumer->looked_free = false;
    consumer->next_ms = consumer->storage_ms;
  }
}

/* ---- the mutex ---- */

static void waiting_turn(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  consumer->woken = false; /* that is what it was woken for */
  if (consumer->check_fresh) {
    consumer_enter(turn, STATE_TAKING, free_why(consumer));
  } else {
    /* Others were at work since the check: is there still a message, and where is the ledger now? */
    consumer->looked_free = true;
    consumer->peek_first = true;
  }
}

static void waiting_busy(struct turn *turn, int64_t pause_ms)
{
  struct consumer *consumer = turn->consumer;
  consumer->check_fresh = consumer->looked_free = false;
  consumer->look_ms = turn->moment->now_ms + (consumer->woken ? 0 : pause_ms);
  consumer->peek_first = turn->moment->now_ms - consumer->peeked_ms >= PEEK_WHILE_WAITING_MS;
  if (!consumer->peek_first)
    wait_on(turn);
}

static void waiting_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  const struct lock_view *view = &completion->acquisition.view;
  bool joined = completion->acquisition.queued && !consumer->acquisition.queued;
  consumer->acquisition = completion->acquisition;
  if (completion->result == RESULT_UNKNOWN)
    return;
  if (completion->result != RESULT_REFUSED)
    consumer->said_lock = false;
  if (completion->result == RESULT_YES) {
    waiting_turn(turn);
  } else if (completion->result == RESULT_NO) {
    if (joined && view->left_ms > 0)
      consumer_note(turn, NOTE_DEBUG, "busy", "held by %s, pid %" PRId64 ", for another %" PRId64 " ms", view->holder.host,
                    view->holder.pid, view->left_ms);
    waiting_busy(turn, consumer->acquisition.pause_ms);
  } else {
    if (!consumer->said_lock)
      consumer_note(turn, NOTE_WARN, "lock", "%s", completion->error.text);
    consumer->said_lock = true;
    waiting_busy(turn, RECHECK_MS);
    consumer->next_ms = consumer->look_ms;
    consumer->wakeable = false;
  }
}

/* Giving up: the lock document, if there is one of mine, goes; then on to `after`. */
static void give_up(struct turn *turn, enum consumer_state after, const char *why)
{
  turn->consumer->after = after;
  consumer_enter(turn, STATE_UNLOCKING, why);
}

static void taking_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  consumer->looked_free = consumer->check_fresh = false;
  consumer->acquisition = completion->acquisition;
  if (completion->result == RESULT_NO) {
    consumer_enter(turn, STATE_WAITING, "another was faster");
    consumer->look_ms = consumer->next_ms = turn->moment->now_ms + consumer_jitter(turn, consumer->options.retry_ms);
    consumer->wakeable = true;
    return;
  }
  consumer->locked = true;
  consumer->lost = consumer->said_stall = consumer->awaited = false;
  consumer->epoch_left = 0;
  consumer->taken_number = completion->number;
  consumer->deadline_ms = completion->sent_ms + lease_safe_ms(consumer->options.lease_ms);
  consumer->renew_ms = completion->sent_ms + lease_renew_ms(consumer->options.lease_ms);
  consumer->fence_until_ms = consumer->deadline_ms;
  if (completion->result == RESULT_YES)
    consumer_enter(turn, STATE_FENCING, "the lock is mine");
  else {
    consumer->give_up_row++;
    give_up(turn, STATE_IDLE, "whether the lock is mine is not known");
  }
}

/* A server that refuses this but lets the lock go would be asked without a pause. */
static void fence_given_up(struct turn *turn, bool moved)
{
  struct consumer *consumer = turn->consumer;
  consumer->give_up_row += !moved;
  consumer_epoch_end(consumer);
  give_up(turn, STATE_IDLE, moved ? "the ledger has moved on" : "whether the ledger is mine is not known");
}

static void fencing_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  consumer->place = completion->place;
  if (completion->result == RESULT_UNKNOWN)
    return; /* it may be done: the ledger will say so */
  if (completion->result == RESULT_FAILED) {
    consumer->disk_failures++;
    consumer_note(turn, NOTE_ERROR, "disk", "%s: leaves the type alone for a while", completion->error.text);
    consumer_epoch_end(consumer);
    give_up(turn, STATE_BACKING_OFF, "the file system cannot be asked");
    return;
  }
  if (completion->result != RESULT_YES) {
    fence_given_up(turn, completion->result == RESULT_NO);
    return;
  }
  consumer->give_up_row = 0;
  consumer->epoch = ++consumer->epoch_seen;
  consumer->before = completion->ledger;
  consumer->committed = completion->ledger.end;
  consumer->seq_seen = consumer->committed.seq;
  consumer->settled = completion->ledger.settled;
  consumer->counts.acquisitions += !consumer->rolling;
  consumer->empty_until_ms = -1;
  consumer_enter(turn, STATE_OPENING, "the epoch is mine");
}

/* 1 s, doubling to a minute. */
static int64_t disk_pause(int64_t failures)
{
  int64_t pause = 1000;
  for (int64_t i = 1; i < failures && pause < 60000; i++)
    pause *= 2;
  return pause < 60000 ? pause : 60000;
}

/* A pass that found nothing a moment ago is as good as a look, unless somebody has said since that there is something. */
static void released_to_idle(struct turn *turn, const char *why)
{
  struct consumer *consumer = turn->consumer;
  int64_t until = consumer->lost ? -1 : consumer->empty_until_ms;
  consumer_to_idle(turn, why);
  consumer->empty_until_ms = -1;
  if (until <= turn->moment->now_ms)
    return;
  consumer->empty = consumer->wakeable = true;
  consumer->peeked_ms = turn->moment->now_ms;
  consumer->next_ms = until;
}

static void unlocking_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool left = completion->kind == ACTION_LEAVE, empty = left && consumer->empty;
  /* Not known to be gone: the lease ends it. Nobody waits for that who was asked to stop. */
  bool expired = turn->moment->now_ms > consumer_lease_end_ms(consumer);
  if (completion->result == RESULT_UNKNOWN && !left && !consumer_hurries(turn) && !expired)
    return;
  const char *why = left                                   ? "it waits no more"
                    : completion->result == RESULT_UNKNOWN ? "the lock is left to its lease"
                                                           : "the lock is released";
  consumer->locked = false;
  if (!left && consumer->acquisition.queued)
    return; /* a take without an answer: it still waits under that owner */
  acquire_init(&consumer->acquisition, LOCK_BY_WORKER, consumer->options.lease_ms, consumer->options.retry_ms);
  if (consumer->after == STATE_IDLE)
    released_to_idle(turn, why);
  else
    consumer_enter(turn, consumer->after, why);
  if (consumer->state == STATE_IDLE && consumer->give_up_row > 0 && !empty)
    consumer->next_ms += consumer_backoff(turn, consumer->give_up_row);
  else if (consumer->state == STATE_CHECKING)
    consumer->next_ms += RECHECK_MS;
  else if (consumer->state == STATE_BACKING_OFF)
    consumer->next_ms += disk_pause(consumer->disk_failures);
}

/* ---- entries ---- */

static struct action *acquire_start(struct turn *turn, enum action_kind kind)
{
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, kind);
  consumer->acquisition.listens = consumer->hears;
  action->acquisition = consumer->acquisition;
  return action;
}

static void look_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  bool peeked = turn->moment->now_ms - consumer->peeked_ms < PEEK_WHILE_WAITING_MS;
  if (consumer->state == STATE_IDLE || consumer->peek_first)
    consumer_start(turn, ACTION_PEEK);
  else if (consumer->state == STATE_WAITING)
    acquire_start(turn, ACTION_LOOK);
  else if (peeked)
    consumer_check_start(turn);
  else
    consumer_start(turn, ACTION_PEEK);
}

static void take_step(struct turn *turn)
{
  turn->consumer->owner = turn->consumer->acquisition.owner;
  acquire_start(turn, ACTION_TAKE);
}

static void unlock_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer->locked)
    acquire_start(turn, ACTION_UNLOCK)->epoch = consumer->epoch_left;
  else
    acquire_start(turn, ACTION_LEAVE)->calls = consumer->after != STATE_IDLE || consumer->stopping || !consumer->empty;
}

/* After two thirds of the lease the lock goes, whatever became of the fence: by then others can do it as well. */
static void fence_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  bool again = consumer->unknown_row > 0;
  if (again && (!consumer_alive(turn) || turn->moment->now_ms >= consumer->fence_until_ms)) {
    fence_given_up(turn, false);
    return;
  }
  struct action *action = consumer_start(turn, ACTION_FENCE);
  action->epoch_seen = consumer->epoch_seen;
  action->clean_seen = consumer->clean_seen;
  action->vouched_seen = consumer->vouched_seen;
  action->place = consumer->place;
  action->again = again;
}

void consumer_acquire_main(struct turn *turn, const struct completion *completion)
{
  if (completion->kind == ACTION_PEEK)
    peeked(turn, completion);
  else if (completion->kind == ACTION_CHECK)
    checking_main(turn, completion);
  else if (completion->kind == ACTION_LOOK)
    waiting_main(turn, completion);
  else if (completion->kind == ACTION_TAKE)
    taking_main(turn, completion);
  else if (completion->kind == ACTION_FENCE)
    fencing_main(turn, completion);
  else
    unlocking_main(turn, completion);
}

/* Who is asked to stop stops where no lock document can be his; else it goes first. */
void consumer_acquire_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  bool stop = consumer->stopping && !consumer_runs(consumer, ACTIVITY_MAIN);
  if (stop && consumer->state == STATE_FENCING)
    give_up(turn, STATE_DONE, "asked to stop");
  else if (stop && consumer->state != STATE_UNLOCKING)
    consumer_stop_waiting(turn, STATE_DONE, "asked to stop");
  else if (aside_due(turn))
    consumer_check_start(turn);
  else if (!consumer_main_ready(turn))
    return;
  else if (consumer->state == STATE_TAKING)
    take_step(turn);
  else if (consumer->state == STATE_FENCING)
    fence_step(turn);
  else if (consumer->state == STATE_UNLOCKING)
    unlock_step(turn);
  else
    look_step(turn);
}
