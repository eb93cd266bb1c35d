#include "worker/pace.h"

enum {
  NOTIFIED_PAUSE_MS = 1000,     /* while wake-ups come, an idle or waiting consumer polls no more often than this by itself */
  POLL_WHILE_WAITING_MS = 1000, /* a waiter sees this often whether there still is anything to wait for */
  POLL_LONG_MS = 1000,          /* a poll without an answer took long because of what it goes over, or as well as if it had */
  REST_MAX_MS = 10000,
  EMPTY_PAUSE_MIN_MS = 2,
};

void pace_init(struct pace *pace)
{
  *pace = (struct pace){.empty_until_ms = -1};
}

/*
 * By its duration: a poll from the beginning goes over all that was deleted in the last minutes, because the server keeps it that long.
 * A tail poll begins at the last `_id` that was read, and may miss a message with a smaller `_id`; until the rest is over, only tail polls
 * are made.
 */
static int64_t rest_ms(const struct turn *turn, int64_t took_ms, int64_t types)
{
  int64_t rest = took_ms * turn->core->options.poll_share / (types > 0 ? types : 1);
  return rest < REST_MAX_MS ? rest : REST_MAX_MS;
}

void pace_poll_start(struct turn *turn)
{
  struct action *action = turn_start(turn, ACTION_POLL);
  action->tail = turn->moment->now_ms < turn->pace->poll_all_ms;
  action->own = turn->core->own_seen;
  action->idle = turn->core->state == STATE_IDLE;
  action->asks_own = !turn->core->own_known && !action->own;
  turn->core->woken = false;
}

int64_t pace_polled(struct turn *turn, const struct completion *completion)
{
  struct pace *pace = turn->pace;
  int64_t rest = rest_ms(turn, completion->took_ms, completion->took_types);
  bool unknown = completion->result == RESULT_UNKNOWN, timed_out = unknown && completion->took_ms >= POLL_LONG_MS;
  if (!completion->tail && (!unknown || timed_out))
    pace->poll_all_ms = turn->moment->now_ms + rest;
  if (unknown || completion->result == RESULT_REFUSED)
    return rest;
  pace->polled_ms = turn->moment->now_ms;
  pace->empty = completion->result == RESULT_NO;
  return completion->tail_next && !completion->tail ? 0 : rest; /* the next one is a tail poll */
}

bool pace_polled_lately(const struct turn *turn)
{
  return turn->moment->now_ms - turn->pace->polled_ms < POLL_WHILE_WAITING_MS;
}

/*
 * The longer the queue has been empty, the longer: where messages flow, the next one comes soon, with or without a wake-up. But polls take
 * no more than a fifth of the time.
 */
static int64_t empty_pause(const struct turn *turn, int64_t rest, int64_t empty_since_ms)
{
  int64_t pause = turn->moment->now_ms - empty_since_ms, most = turn->core->options.poll_ms, least = rest / 5;
  if (pause < EMPTY_PAUSE_MIN_MS)
    pause = EMPTY_PAUSE_MIN_MS;
  if (pause > most)
    pause = most;
  return turn_jitter(turn, pause > least ? pause : least);
}

int64_t pace_passed_empty(struct turn *turn, int64_t took_ms, int64_t empty_since_ms)
{
  struct pace *pace = turn->pace;
  int64_t now = turn->moment->now_ms, rest = rest_ms(turn, took_ms, 1);
  bool woken = turn->core->woken;
  pace->poll_all_ms = now + rest;
  pace->empty_until_ms = woken ? -1 : now + turn_jitter(turn, turn->core->options.poll_ms);
  return woken ? 0 : empty_pause(turn, rest, empty_since_ms);
}

void pace_passed(struct turn *turn)
{
  turn->pace->empty_until_ms = -1;
}

void pace_pause_until(struct turn *turn, int64_t at_ms)
{
  struct core *core = turn->core;
  core->next_ms = core->woken ? turn->moment->now_ms : at_ms;
  core->wakeable = true;
  core->woken = false;
}

/* Of many types, to the next moment at which all of them poll. */
static int64_t step_ms(const struct turn *turn, int64_t at_ms, int64_t pause_ms)
{
  int64_t step = pause_ms < NOTIFIED_PAUSE_MS ? pause_ms : NOTIFIED_PAUSE_MS;
  return turn->core->options.polls_in_step && step > 0 ? (at_ms + step - 1) / step * step : at_ms;
}

void pace_pause(struct turn *turn, int64_t ms)
{
  /* Where no process holds it any more, and nothing was there for the next one at that moment, this process alone may see a message. */
  bool next = turn->moment->now_ms - turn->pace->called_ms < NOTIFIED_PAUSE_MS;
  bool longer = turn->pace->notified && !next && ms < NOTIFIED_PAUSE_MS;
  int64_t pause = longer ? NOTIFIED_PAUSE_MS : ms;
  pace_pause_until(turn, step_ms(turn, turn->moment->now_ms + turn_jitter(turn, pause), pause));
}

void pace_released(struct turn *turn, bool lost)
{
  struct pace *pace = turn->pace;
  int64_t until = lost ? -1 : pace->empty_until_ms;
  pace->empty_until_ms = -1;
  if (until <= turn->moment->now_ms)
    return;
  pace->empty = turn->core->wakeable = true;
  pace->polled_ms = turn->moment->now_ms;
  turn->core->next_ms = step_ms(turn, until, pace->notified ? NOTIFIED_PAUSE_MS : turn->core->options.poll_ms);
}

void pace_wake(struct turn *turn)
{
  if (turn_runs(turn, ACTIVITY_MAIN))
    turn->core->woken = true;
  else if (turn->core->wakeable)
    turn->core->next_ms = turn->moment->now_ms;
}

void pace_heard(struct turn *turn)
{
  turn->pace->empty_until_ms = -1;
}

void pace_called(struct turn *turn)
{
  turn->pace->called_ms = turn->moment->now_ms;
  pace_heard(turn);
  pace_wake(turn);
}
