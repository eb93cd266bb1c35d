#include "worker/consumer.h"
#include "worker/consumer_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
  STOP_PATIENCE_MS = 4000, /* so long, of the 8 s that a stop may take, answers are still hoped for */
  UNKNOWN_PAUSE_MS = 100,
  UNKNOWN_PAUSE_MAX_MS = 3000,
  LOOK_REST_MAX_MS = 10000,
};

const char *consumer_state_name(enum consumer_state state)
{
  static const char *const names[STATE_COUNT] = {"idle",     "checking",  "waiting",   "taking",      "fencing", "opening", "settling",
                                                 "draining", "releasing", "unlocking", "backing-off", "stopped", "done"};
  return names[state];
}

const char *problem_name(enum problem problem)
{
  static const char *const names[PROBLEM_COUNT] = {"close",    "disk", "document", "fenced", "lock",  "lost",     "newer",
                                                   "no-space", "pass", "refused",  "spent",  "stall", "untrusted"};
  return names[problem];
}

/* ---- parts ---- */

static void problem_count(struct consumer *consumer, const char *event)
{
  for (enum problem problem = 0; problem < PROBLEM_COUNT; problem++)
    if (strcmp(event, problem_name(problem)) == 0) {
      consumer->counts.problems[problem]++;
      return;
    }
  assert(!"no known problem");
}

void consumer_note(struct turn *turn, enum note_level level, const char *event, const char *format, ...)
{
  if (level <= NOTE_WARN)
    problem_count(turn->consumer, event);
  if (turn->effects->note_count == EFFECTS_NOTES_MAX)
    return;
  struct note *note = &turn->effects->notes[turn->effects->note_count++];
  va_list arguments;
  note->level = level;
  note->event = event;
  note->epoch = turn->consumer->epoch > 0 ? turn->consumer->epoch : turn->consumer->epoch_seen;
  note->seq = turn->consumer->seq_seen;
  va_start(arguments, format);
  vsnprintf(note->text, sizeof note->text, format, arguments);
  va_end(arguments);
}

void consumer_enter(struct turn *turn, enum consumer_state state, const char *why)
{
  struct consumer *consumer = turn->consumer;
  consumer_note(turn, NOTE_INFO, "state", "%s -> %s: %s", consumer_state_name(consumer->state), consumer_state_name(state), why);
  consumer->state = state;
  consumer->next_ms = turn->moment->now_ms;
  consumer->unknown_row = 0;
  consumer->wakeable = consumer->woken = false;
}

/* The deletes': the first that is free; ACTIVITY_RENEW, which follows, if none is. */
static enum activity activity_of(const struct consumer *consumer, enum action_kind kind)
{
  if (kind != ACTION_DELETE)
    return kind == ACTION_READ ? ACTIVITY_READ : kind == ACTION_RENEW ? ACTIVITY_RENEW : ACTIVITY_MAIN;
  int activity = ACTIVITY_DELETE;
  while (activity <= ACTIVITY_DELETE_LAST && consumer->activity[activity].running)
    activity++;
  return (enum activity)activity;
}

int consumer_deletes(const struct consumer *consumer)
{
  int running = 0;
  for (int i = ACTIVITY_DELETE; i <= ACTIVITY_DELETE_LAST; i++)
    running += consumer->activity[i].running;
  return running;
}

struct action *consumer_start(struct turn *turn, enum action_kind kind)
{
  struct consumer *consumer = turn->consumer;
  enum activity activity = activity_of(consumer, kind);
  assert(!consumer->activity[activity].running && turn->effects->action_count < EFFECTS_ACTIONS_MAX);
  struct action *action = &turn->effects->actions[turn->effects->action_count++];
  memset(action, 0, sizeof *action);
  action->kind = kind;
  action->activity = activity;
  action->number = ++consumer->number;
  action->epoch = consumer->epoch;
  action->owner = consumer->owner;
  action->wall_us = turn->moment->wall_us;
  consumer->activity[activity].running = true;
  consumer->activity[activity].dropped = false;
  consumer->activity[activity].kind = kind;
  consumer->activity[activity].number = action->number;
  consumer->activity[activity].started_ms = turn->moment->now_ms;
  if (kind == ACTION_PEEK || kind == ACTION_LOOK)
    consumer->woken = false;
  action->glance = kind == ACTION_PEEK && turn->moment->now_ms < consumer->thorough_ms;
  return action;
}

bool consumer_runs(const struct consumer *consumer, enum activity activity)
{
  return consumer->activity[activity].running;
}

bool consumer_main_ready(const struct turn *turn)
{
  return !consumer_runs(turn->consumer, ACTIVITY_MAIN) && turn->moment->now_ms >= turn->consumer->next_ms;
}

bool consumer_alive(const struct turn *turn)
{
  return !turn->consumer->lost && turn->moment->now_ms < turn->consumer->deadline_ms;
}

int64_t consumer_jitter(const struct turn *turn, int64_t ms)
{
  uint32_t random = 0;
  memcpy(&random, turn->moment->random, sizeof random);
  return ms / 2 + (ms > 1 ? (int64_t)(random % (uint64_t)(ms - ms / 2 + 1)) : ms - ms / 2);
}

int64_t consumer_pause(const struct turn *turn, int64_t ms, bool hears)
{
  return consumer_jitter(turn, hears && ms < WATCHED_PAUSE_MS ? WATCHED_PAUSE_MS : ms);
}

int64_t consumer_backoff(const struct turn *turn, int64_t row)
{
  int64_t pause = UNKNOWN_PAUSE_MS;
  for (int64_t i = 1; i < row && pause < UNKNOWN_PAUSE_MAX_MS; i++)
    pause *= 2;
  return consumer_jitter(turn, pause < UNKNOWN_PAUSE_MAX_MS ? pause : UNKNOWN_PAUSE_MAX_MS);
}

int64_t consumer_look_rest(const struct consumer *consumer, const struct completion *completion)
{
  int64_t rest = completion->took_ms * consumer->options.look_share;
  return rest < LOOK_REST_MAX_MS ? rest : LOOK_REST_MAX_MS;
}

bool consumer_hurries(const struct turn *turn)
{
  return turn->consumer->stopping && turn->moment->now_ms - turn->consumer->stop_ms >= STOP_PATIENCE_MS;
}

void consumer_name_document(struct turn *turn, const struct completion *completion)
{
  if ((completion->result == RESULT_YES || completion->result == RESULT_NO) && completion->error.text[0] != 0)
    consumer_note(turn, NOTE_WARN, "document", "%s", completion->error.text);
}

void consumer_refused(struct turn *turn, const struct completion *completion)
{
  turn->consumer->refused = true;
  consumer_note(turn, NOTE_ERROR, "refused", "%s", completion->error.text);
}

/* ---- the lock while it is held ---- */

static void renew_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t lease = consumer->options.lease_ms;
  if (!consumer->locked || completion->number < consumer->taken_number)
    return;
  switch (completion->result) {
  case RESULT_YES:
    consumer->deadline_ms = completion->sent_ms + lease_safe_ms(lease);
    consumer->renew_ms = completion->sent_ms + lease_renew_ms(lease);
    consumer->awaited = completion->awaited;
    return;
  case RESULT_NO:
    if (consumer->state == STATE_UNLOCKING) /* it came behind the delete */
      return;
    consumer->lost = true;
    consumer_note(turn, NOTE_WARN, "lost", "the lease was lost");
    return;
  case RESULT_UNKNOWN:
  case RESULT_CHANGED:
  case RESULT_REFUSED:
  case RESULT_NEWER:
  case RESULT_NO_SPACE:
  case RESULT_SPENT:
  case RESULT_FAILED:
  case RESULT_LEFT:
  case RESULT_STOPPED:
  case RESULT_COUNT:
    consumer->renew_ms = turn->moment->now_ms + consumer_jitter(turn, lease / 12);
    return;
  }
}

/*
 * A stuck action must not keep the lease; a slow one may. Only MAIN's can be stuck, in the disk: a delete may have waited for a thread, and
 * its requests have a time-out; a reply that READ waits for may take long, and ends when its bytes do.
 */
static bool stalled(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  int64_t ms = turn->moment->now_ms - consumer->activity[ACTIVITY_MAIN].started_ms;
  if (!consumer_runs(consumer, ACTIVITY_MAIN) || ms < consumer->options.stall_ms)
    return false;
  if (!consumer->said_stall)
    consumer_note(turn, NOTE_WARN, "stall", "an action has run for %" PRId64 " s: the lease is let go", ms / 1000);
  consumer->said_stall = true;
  return true;
}

static void renew_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (!consumer->locked || consumer->lost || consumer->state == STATE_UNLOCKING || consumer_runs(consumer, ACTIVITY_RENEW) ||
      turn->moment->now_ms < consumer->renew_ms)
    return;
  /*
   * Over by this machine's clock, which counts from before the request: nothing will bring it back. Leaving now closes the file, so
   * that the next holder can go on in it.
   */
  if (turn->moment->now_ms >= consumer_lease_end_ms(consumer)) {
    consumer->lost = true;
    consumer_note(turn, NOTE_WARN, "lost", "the lease ran out, and no renewal was answered");
  } else if (stalled(turn))
    consumer->renew_ms = turn->moment->now_ms + lease_renew_ms(consumer->options.lease_ms) / 4;
  else
    consumer_start(turn, ACTION_RENEW);
}

/* ---- events in, actions out ---- */

static void main_done(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->kind == ACTION_CHECK && consumer->state != STATE_CHECKING) {
    consumer_acquire_aside(turn, completion);
    return;
  }
  consumer->unknown_row = completion->result == RESULT_UNKNOWN ? consumer->unknown_row + 1 : 0;
  consumer->next_ms = turn->moment->now_ms;
  consumer->wakeable = false;
  if (completion->result == RESULT_UNKNOWN || completion->result == RESULT_STOPPED)
    consumer->next_ms += consumer_backoff(turn, consumer->unknown_row);
  switch (consumer->state) {
  case STATE_IDLE:
  case STATE_CHECKING:
  case STATE_WAITING:
  case STATE_TAKING:
  case STATE_FENCING:
  case STATE_UNLOCKING:
    consumer_acquire_main(turn, completion);
    return;
  case STATE_OPENING:
  case STATE_SETTLING:
  case STATE_DRAINING:
  case STATE_RELEASING:
    consumer_epoch_main(turn, completion);
    return;
  case STATE_BACKING_OFF:
  case STATE_STOPPED:
  case STATE_DONE:
  case STATE_COUNT:
    assert(!"nothing of MAIN is started in these states");
  }
}

static void completion_handle(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  enum activity activity = completion->activity;
  if (!consumer->activity[activity].running || consumer->activity[activity].number != completion->number) {
    load_free(completion->load);
    return;
  }
  consumer->activity[activity].running = false;
  switch (activity) {
  case ACTIVITY_MAIN:
    main_done(turn, completion);
    return;
  case ACTIVITY_READ:
    consumer_epoch_read(turn, completion);
    return;
  case ACTIVITY_RENEW:
    renew_done(turn, completion);
    return;
  case ACTIVITY_DELETE:
  case ACTIVITY_DELETE_LAST:
  default: /* those between */
    consumer_epoch_delete(turn, completion);
    return;
  case ACTIVITY_COUNT:
    assert(!"no activity");
  }
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
  struct consumer *consumer = turn->consumer;
  bool draining = consumer->state == STATE_DRAINING;
  consumer->empty_until_ms = -1;
  if (!draining && consumer->state != STATE_IDLE && consumer->state != STATE_WAITING)
    return;
  if (consumer_runs(consumer, draining ? ACTIVITY_READ : ACTIVITY_MAIN))
    consumer->woken = true;
  else if (draining && consumer->read_unknown_row == 0)
    consumer->read_ms = turn->moment->now_ms;
  else if (consumer->wakeable)
    consumer->next_ms = turn->moment->now_ms;
}

static void wake_handle(struct turn *turn, const struct event *event)
{
  struct consumer *consumer = turn->consumer;
  bool mine = memcmp(&event->owner, &consumer->acquisition.owner, sizeof event->owner) == 0;
  switch (event->about) {
  case WAKEUP_MESSAGE:
    if (consumer->state != STATE_WAITING) /* there the lock is what is missing */
      wake(turn);
    return;
  case WAKEUP_LOCK:
    if (mine && consumer->state == STATE_WAITING) {
      consumer->let_go_ms = consumer->look_ms = turn->moment->now_ms;
      wake(turn);
    }
    return;
  case WAKEUP_LOST:
    if (mine && consumer->locked && !consumer->lost && !consumer_runs(consumer, ACTIVITY_RENEW))
      consumer->renew_ms = turn->moment->now_ms;
    return;
  }
}

/* When wake-ups begin, some may just have been missed: it looks at once. When they end, the long pause in hand does so too. */
static void watch_handle(struct turn *turn, bool hears)
{
  struct consumer *consumer = turn->consumer;
  if (consumer->hears != hears)
    wake(turn);
  consumer->hears = hears;
}

/* What can be started now, is. */
static void step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  renew_step(turn);
  switch (consumer->state) {
  case STATE_IDLE:
  case STATE_CHECKING:
  case STATE_WAITING:
  case STATE_TAKING:
  case STATE_FENCING:
  case STATE_UNLOCKING:
    consumer_acquire_step(turn);
    return;
  case STATE_OPENING:
  case STATE_SETTLING:
  case STATE_DRAINING:
  case STATE_RELEASING:
    consumer_epoch_step(turn);
    return;
  case STATE_BACKING_OFF:
    if (consumer->stopping)
      consumer_enter(turn, STATE_DONE, "asked to stop");
    else if (turn->moment->now_ms >= consumer->next_ms)
      consumer_to_idle(turn, "the pause is over");
    return;
  case STATE_STOPPED:
  case STATE_DONE:
  case STATE_COUNT:
    return;
  }
}

void consumer_handle(struct consumer *consumer, const struct event *event, const struct moment *moment, struct effects *effects)
{
  struct turn turn = {.consumer = consumer, .moment = moment, .effects = effects};
  effects->action_count = effects->note_count = 0;
  effects->drop_read = false;
  consumer->now_ms = moment->now_ms;
  switch (event->kind) {
  case EVENT_TIMER:
    break;
  case EVENT_STOP:
    if (!consumer->stopping)
      consumer->stop_ms = moment->now_ms;
    consumer->stopping = true;
    break;
  case EVENT_COMPLETION:
    completion_handle(&turn, event->completion);
    break;
  case EVENT_WAKE:
    wake_handle(&turn, event);
    break;
  case EVENT_WATCH:
    watch_handle(&turn, event->watching);
    break;
  case EVENT_COUNT:
    assert(!"no event");
  }
  enum consumer_state before;
  do { /* entering a state may leave it at once */
    before = consumer->state;
    step(&turn);
  } while (consumer->state != before);
}

void consumer_init(struct consumer *consumer, const char *type, const struct consumer_options *options)
{
  memset(consumer, 0, sizeof *consumer);
  assert(type_name_valid(type));
  snprintf(consumer->type, sizeof consumer->type, "%s", type);
  consumer->options = *options;
  consumer->distrust_since_ms = consumer->open_refused_since_ms = consumer->commit_ms = consumer->empty_until_ms = -1;
  consumer->storage_ms = INT64_MAX;
  acquire_init(&consumer->acquisition, LOCK_BY_WORKER, options->lease_ms, options->retry_ms);
  consumer_epoch_end(consumer);
}

void consumer_deinit(struct consumer *consumer)
{
  consumer_epoch_end(consumer);
}

/* A time that lies ahead; what is due now was started by step. */
static void wake_by(const struct consumer *consumer, int64_t ms, int64_t *wake)
{
  if (ms > consumer->now_ms && ms < *wake)
    *wake = ms;
}

int64_t consumer_wake_ms(const struct consumer *consumer)
{
  int64_t wake = INT64_MAX;
  if (consumer->state == STATE_STOPPED || consumer->state == STATE_DONE)
    return wake;
  if (!consumer_runs(consumer, ACTIVITY_MAIN)) {
    wake_by(consumer, consumer->next_ms, &wake);
    if (consumer_looks_aside(consumer))
      wake_by(consumer, consumer->storage_ms, &wake);
  }
  if (consumer->locked && !consumer->lost && !consumer_runs(consumer, ACTIVITY_RENEW))
    wake_by(consumer, consumer->renew_ms, &wake);
  if (consumer->state == STATE_DRAINING) {
    if (!consumer_runs(consumer, ACTIVITY_READ))
      wake_by(consumer, consumer->read_ms, &wake);
    wake_by(consumer, consumer_read_drop_ms(consumer), &wake);
    wake_by(consumer, consumer->delete_ms, &wake);
    wake_by(consumer, consumer->deadline_ms, &wake);
    if (consumer->empty_since_ms >= 0)
      wake_by(consumer, consumer->empty_since_ms + consumer->options.linger_ms, &wake);
  }
  return wake;
}

int64_t consumer_until_ms(const struct consumer *consumer)
{
  return consumer->stopping || consumer->lost ? 0 : consumer->deadline_ms;
}

bool consumer_holds(const struct consumer *consumer)
{
  return consumer->locked && !consumer->lost;
}

int64_t consumer_lease_end_ms(const struct consumer *consumer)
{
  int64_t lease = consumer->options.lease_ms;
  return consumer->deadline_ms + lease - lease_safe_ms(lease);
}

bool consumer_sees_nothing(const struct consumer *consumer)
{
  return consumer->state == STATE_DRAINING ? consumer->empty_since_ms >= 0 : consumer->empty;
}

bool consumer_is_quiet(const struct consumer *consumer)
{
  bool polls = consumer_runs(consumer, ACTIVITY_MAIN) && consumer->activity[ACTIVITY_MAIN].kind == ACTION_PEEK;
  bool waits = consumer->state == STATE_IDLE || consumer->state == STATE_WAITING;
  return waits && consumer->empty && (polls || !consumer_runs(consumer, ACTIVITY_MAIN));
}

bool consumer_is_over(const struct consumer *consumer)
{
  for (int i = 0; i < ACTIVITY_RENEW; i++)
    if (consumer->activity[i].running)
      return false;
  return consumer->state == STATE_STOPPED || consumer->state == STATE_DONE;
}
