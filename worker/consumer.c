#include "worker/consumer.h"
#include "worker/drain.h"

#include <assert.h>
#include <stdio.h>

/* ---- completions ---- */

static void main_done(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  bool unknown = completion->result == RESULT_UNKNOWN;
  if (completion->kind == ACTION_CHECK && core->state != STATE_CHECKING) {
    seek_checked_aside(turn, completion);
    return;
  }
  core->unknown_row = unknown ? core->unknown_row + 1 : 0;
  core->next_ms = turn->moment->now_ms;
  core->wakeable = false;
  if (unknown || completion->result == RESULT_STOPPED)
    core->next_ms += turn_backoff(turn, core->unknown_row);
  switch (core->state) {
  case STATE_IDLE:
  case STATE_CHECKING:
  case STATE_WAITING:
  case STATE_TAKING:
  case STATE_FENCING:
  case STATE_UNLOCKING:
    seek_done(turn, completion);
    return;
  case STATE_OPENING:
  case STATE_SETTLING:
  case STATE_DRAINING:
  case STATE_RELEASING:
    epoch_main(turn, completion);
    return;
  case STATE_BACKING_OFF:
  case STATE_STOPPED:
  case STATE_DONE:
  case STATE_COUNT:
    assert(!"nothing of MAIN is started in these states");
  }
}

static void latencies_count(struct core *core, const struct completion *completion)
{
  for (int latency = 0; latency < LATENCIES_PERFORMED; latency++)
    if (completion->took_us[latency] > 0)
      latency_count(&core->counts.latencies, (enum latency)latency, completion->took_us[latency]);
}

static void completion_handle(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  enum activity activity = completion->activity;
  if (!core->activity[activity].running || core->activity[activity].number != completion->number) {
    work_item_free(completion->item);
    return;
  }
  core->activity[activity].running = false;
  latencies_count(core, completion);
  if (activity == ACTIVITY_MAIN)
    main_done(turn, completion);
  else if (activity == ACTIVITY_READ)
    drain_read(turn, completion);
  else if (activity == ACTIVITY_RENEW)
    lease_renewed(turn, completion);
  else
    drain_deleted(turn, completion);
}

/* ---- wake-ups ---- */

/*
 *   idle, waiting      a regular pause ends now; a look that is under way may be older than what it was woken for: another follows
 *   draining           the same, of the pause between two passes
 *   anything else      nothing: it looks anyway
 * Pauses after failures are not cut short: anybody can send a wake-up.
 */
static void wake(struct turn *turn)
{
  pace_heard(turn);
  if (turn->core->state == STATE_DRAINING)
    drain_wake(turn);
  else if (turn->core->state == STATE_IDLE || turn->core->state == STATE_WAITING)
    pace_wake(turn);
}

static void wake_handle(struct turn *turn, const struct event *event)
{
  bool mine = memcmp(&event->owner, &turn->seek->acquisition.owner, sizeof event->owner) == 0;
  switch (event->about) {
  case WAKEUP_MESSAGE:
    turn->seek->woken = turn->core->state == STATE_IDLE;
    if (turn->core->state != STATE_WAITING) /* there the lock is what is missing */
      wake(turn);
    return;
  case WAKEUP_LOCK:
    if (mine)
      seek_called(turn);
    return;
  case WAKEUP_LOST:
    if (mine)
      lease_warned(turn);
    return;
  }
}

/* When wake-ups begin, some may just have been missed: it looks at once. When they end, the long pause in hand does so too. */
static void notifications_handle(struct turn *turn, bool notified)
{
  if (turn->pace->notified != notified)
    wake(turn);
  turn->pace->notified = notified;
}

/* ---- events in, actions out ---- */

/* What can be started now, is. */
static void step(struct turn *turn)
{
  lease_step(turn);
  switch (turn->core->state) {
  case STATE_IDLE:
  case STATE_CHECKING:
  case STATE_WAITING:
  case STATE_TAKING:
  case STATE_FENCING:
  case STATE_UNLOCKING:
    seek_step(turn);
    return;
  case STATE_OPENING:
  case STATE_SETTLING:
  case STATE_DRAINING:
  case STATE_RELEASING:
    epoch_step(turn);
    return;
  case STATE_BACKING_OFF:
    if (turn->core->stopping)
      turn_enter(turn, STATE_DONE, "asked to stop");
    else if (turn->moment->now_ms >= turn->core->next_ms)
      seek_idle(turn, "the pause is over");
    return;
  case STATE_STOPPED:
  case STATE_DONE:
  case STATE_COUNT:
    return;
  }
}

static void stop_handle(struct turn *turn)
{
  if (!turn->core->stopping)
    turn->core->stop_ms = turn->moment->now_ms;
  turn->core->stopping = true;
}

/* What is under way goes on as it began; a pause in hand is not longer than the new one. */
static void configure(struct turn *turn, const struct consumer_options *options)
{
  struct core *core = turn->core;
  bool lease_differs = core->options.lease_ms != options->lease_ms;
  core->options = *options;
  if (lease_differs)
    lease_changed(turn);
  wake(turn);
}

static void event_handle(struct turn *turn, const struct event *event)
{
  switch (event->kind) {
  case EVENT_TIMER:
    return;
  case EVENT_STOP:
    stop_handle(turn);
    return;
  case EVENT_COMPLETION:
    completion_handle(turn, event->completion);
    return;
  case EVENT_WAKE:
    wake_handle(turn, event);
    return;
  case EVENT_NOTIFICATIONS:
    notifications_handle(turn, event->notified);
    return;
  case EVENT_CONFIGURE:
    configure(turn, event->options);
    return;
  case EVENT_COUNT:
    assert(!"no event");
  }
}

void consumer_handle(struct consumer *consumer, const struct event *event, const struct moment *moment, struct effects *effects)
{
  struct turn turn = {.core = &consumer->core,
                      .lease = &consumer->lease,
                      .pace = &consumer->pace,
                      .trust = &consumer->trust,
                      .seek = &consumer->seek,
                      .epoch = &consumer->epoch,
                      .moment = moment,
                      .effects = effects};
  effects->action_count = effects->event_count = 0;
  effects->drop_read = false;
  consumer->core.now_ms = moment->now_ms;
  event_handle(&turn, event);
  enum consumer_state before;
  do { /* entering a state may leave it at once */
    before = consumer->core.state;
    step(&turn);
  } while (consumer->core.state != before);
}

void consumer_init(struct consumer *consumer, const char *type, const struct consumer_options *options)
{
  assert(type_name_valid(type));
  memset(consumer, 0, sizeof *consumer);
  snprintf(consumer->core.type, sizeof consumer->core.type, "%s", type);
  consumer->core.options = *options;
  consumer->core.commit_ms = -1;
  pace_init(&consumer->pace);
  trust_init(&consumer->trust);
  seek_init(&consumer->seek, options);
  epoch_init(&consumer->epoch);
}

void consumer_deinit(struct consumer *consumer)
{
  epoch_drop_items(&consumer->epoch);
}

/* ---- what the caller asks ---- */

/* A time that lies ahead; what is due now was started by step. */
static void wake_by(const struct core *core, int64_t ms, int64_t *wake)
{
  if (ms > core->now_ms && ms < *wake)
    *wake = ms;
}

int64_t consumer_wake_ms(const struct consumer *consumer)
{
  const struct core *core = &consumer->core;
  int64_t wake = INT64_MAX;
  if (core->state == STATE_STOPPED || core->state == STATE_DONE)
    return wake;
  if (!core->activity[ACTIVITY_MAIN].running) {
    wake_by(core, core->next_ms, &wake);
    if (seek_checks_aside(core))
      wake_by(core, consumer->trust.due_ms, &wake);
  }
  wake_by(core, lease_wake_ms(&consumer->lease, core->activity[ACTIVITY_RENEW].running), &wake);
  if (core->state == STATE_DRAINING) {
    wake_by(core, drain_wake_ms(&consumer->epoch, core), &wake);
    wake_by(core, consumer->lease.safe_until_ms, &wake);
  }
  return wake;
}

int64_t consumer_until_ms(const struct consumer *consumer)
{
  return consumer->core.stopping || consumer->lease.lost ? 0 : consumer->lease.safe_until_ms;
}

bool consumer_holds(const struct consumer *consumer)
{
  return consumer->lease.held && !consumer->lease.lost;
}

int64_t consumer_lease_end_ms(const struct consumer *consumer)
{
  return lease_end_ms(&consumer->lease);
}

int64_t consumer_bytes(const struct consumer *consumer)
{
  return epoch_bytes(&consumer->epoch);
}

bool consumer_sees_nothing(const struct consumer *consumer)
{
  return consumer->core.state == STATE_DRAINING ? consumer->epoch.empty_since_ms >= 0 : consumer->pace.empty;
}

bool consumer_is_busy(const struct consumer *consumer, int64_t now_ms)
{
  /* After that it is not on its way: the type is paused, its storage does not agree, or its disk hangs. */
  enum { ON_ITS_WAY_MS = 1000 };
  const struct core *core = &consumer->core;
  bool checks = core->state == STATE_CHECKING && now_ms - core->entered_ms < ON_ITS_WAY_MS,
       hangs = core->activity[ACTIVITY_MAIN].running && now_ms - core->activity[ACTIVITY_MAIN].started_ms >= ON_ITS_WAY_MS;
  return (consumer->lease.held || checks) && !consumer_sees_nothing(consumer) && !hangs;
}

/* After a pass that found nothing: the rest of its release needs no message, and the last poll need not wait for it. */
static bool lets_go_of_nothing(const struct consumer *consumer)
{
  const struct core *core = &consumer->core;
  return (core->state == STATE_RELEASING || core->state == STATE_UNLOCKING) && core->after == STATE_IDLE &&
         consumer->pace.empty_until_ms >= 0;
}

/*
 * A pass has begun after all that the earlier ones found was written and deleted, and has found nothing so far. It goes over all that was
 * deleted, and the last poll may do so beside it. Not where the holder is to linger.
 */
static bool looks_for_more(const struct consumer *consumer)
{
  const struct core *core = &consumer->core;
  bool begins = core->activity[ACTIVITY_READ].running && !consumer->epoch.pass_open;
  return core->state == STATE_DRAINING && core->options.linger_ms == 0 && consumer->epoch.wrote && begins;
}

bool consumer_is_quiet(const struct consumer *consumer)
{
  const struct core *core = &consumer->core;
  bool runs = core->activity[ACTIVITY_MAIN].running, polls = runs && core->activity[ACTIVITY_MAIN].kind == ACTION_POLL;
  bool waits = core->state == STATE_IDLE || core->state == STATE_WAITING;
  return (waits && consumer->pace.empty && (polls || !runs)) || lets_go_of_nothing(consumer) || looks_for_more(consumer);
}

bool consumer_is_over(const struct consumer *consumer)
{
  for (int i = 0; i < ACTIVITY_RENEW; i++)
    if (consumer->core.activity[i].running)
      return false;
  return consumer->core.state == STATE_STOPPED || consumer->core.state == STATE_DONE;
}

/* It agrees with the ledger, and what is to be written can be. */
bool consumer_trusts(const struct consumer *consumer, int64_t now_ms, struct error *why)
{
  if (!trust_tells(&consumer->trust, &consumer->core, now_ms, why))
    return false;
  if (consumer->epoch.no_space)
    error_set(why, "%s waits for space: the file system of its storage is full", consumer->core.type);
  else if (consumer->core.state == STATE_BACKING_OFF)
    error_set(why, "%s backs off: writing to its storage failed, the log says how", consumer->core.type);
  else
    return true;
  return false;
}
