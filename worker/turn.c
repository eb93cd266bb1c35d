#include "worker/turn.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum {
  STOP_PATIENCE_MS = 4000, /* so long, of the 8 s that a stop may take, answers are still hoped for */
  UNKNOWN_PAUSE_MS = 100,
  UNKNOWN_PAUSE_MAX_MS = 3000,
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

static void problem_count(struct core *core, const char *event)
{
  for (enum problem problem = 0; problem < PROBLEM_COUNT; problem++)
    if (strcmp(event, problem_name(problem)) == 0) {
      core->counts.problems[problem]++;
      return;
    }
  assert(!"no known problem");
}

static void problem_keep(struct turn *turn, const struct log_event *event)
{
  struct core *core = turn->core;
  core->problem_ms = turn->moment->now_ms;
  core->problem_event = event->name;
  text_shorten(event->text, PROBLEM_HEAD_MAX, PROBLEM_TAIL_MAX, core->problem_text);
}

void turn_log(struct turn *turn, enum log_level level, const char *event, const char *format, ...)
{
  if (level <= LEVEL_WARN)
    problem_count(turn->core, event);
  if (turn->effects->event_count == EFFECTS_EVENTS_MAX)
    return;
  struct log_event *entry = &turn->effects->events[turn->effects->event_count++];
  va_list arguments;
  entry->level = level;
  entry->name = event;
  entry->epoch = turn->core->epoch > 0 ? turn->core->epoch : turn->core->epoch_seen;
  entry->seq = turn->core->seq_seen;
  va_start(arguments, format);
  vsnprintf(entry->text, sizeof entry->text, format, arguments);
  va_end(arguments);
  if (level <= LEVEL_WARN)
    problem_keep(turn, entry);
}

void turn_enter(struct turn *turn, enum consumer_state state, const char *why)
{
  struct core *core = turn->core;
  turn_log(turn, LEVEL_INFO, "state", "%s -> %s: %s", consumer_state_name(core->state), consumer_state_name(state), why);
  core->state = state;
  core->entered_ms = turn->moment->now_ms;
  core->refused = core->refused && state != STATE_IDLE && state != STATE_BACKING_OFF; /* the next epoch finds out again */
  core->next_ms = turn->moment->now_ms;
  core->unknown_row = 0;
  core->wakeable = core->woken = false;
}

/* The deletes': the first that is free; ACTIVITY_RENEW, which follows, if none is. */
static enum activity activity_of(const struct turn *turn, enum action_kind kind)
{
  if (kind != ACTION_DELETE)
    return kind == ACTION_READ ? ACTIVITY_READ : kind == ACTION_RENEW ? ACTIVITY_RENEW : ACTIVITY_MAIN;
  int activity = ACTIVITY_DELETE;
  while (activity <= ACTIVITY_DELETE_LAST && turn_runs(turn, (enum activity)activity))
    activity++;
  return (enum activity)activity;
}

int turn_deletes(const struct turn *turn)
{
  int running = 0;
  for (int i = ACTIVITY_DELETE; i <= ACTIVITY_DELETE_LAST; i++)
    running += turn_runs(turn, (enum activity)i);
  return running;
}

struct action *turn_start(struct turn *turn, enum action_kind kind)
{
  struct core *core = turn->core;
  enum activity activity = activity_of(turn, kind);
  assert(!turn_runs(turn, activity) && turn->effects->action_count < EFFECTS_ACTIONS_MAX);
  struct action *action = &turn->effects->actions[turn->effects->action_count++];
  memset(action, 0, sizeof *action);
  action->kind = kind;
  action->activity = activity;
  action->number = ++core->number;
  action->epoch = core->epoch;
  action->owner = core->owner;
  action->lease_ms = core->options.lease_ms;
  action->wall_us = turn->moment->wall_us;
  core->activity[activity].running = true;
  core->activity[activity].dropped = false;
  core->activity[activity].kind = kind;
  core->activity[activity].number = action->number;
  core->activity[activity].started_ms = turn->moment->now_ms;
  return action;
}

bool turn_runs(const struct turn *turn, enum activity activity)
{
  return turn->core->activity[activity].running;
}

bool turn_main_ready(const struct turn *turn)
{
  return !turn_runs(turn, ACTIVITY_MAIN) && turn->moment->now_ms >= turn->core->next_ms;
}

bool turn_hurries(const struct turn *turn)
{
  return turn->core->stopping && turn->moment->now_ms - turn->core->stop_ms >= STOP_PATIENCE_MS;
}

void turn_refused(struct turn *turn, const struct completion *completion)
{
  turn->core->refused = true;
  turn_log(turn, LEVEL_ERROR, "refused", "%s", completion->error.text);
}

void turn_name_document(struct turn *turn, const struct completion *completion)
{
  if ((completion->result == RESULT_YES || completion->result == RESULT_NO) && completion->error.text[0] != 0)
    turn_log(turn, LEVEL_WARN, "document", "%s", completion->error.text);
}

int64_t turn_jitter(const struct turn *turn, int64_t ms)
{
  uint32_t random = 0;
  memcpy(&random, turn->moment->random, sizeof random);
  return ms / 2 + (ms > 1 ? (int64_t)(random % (uint64_t)(ms - ms / 2 + 1)) : ms - ms / 2);
}

int64_t turn_backoff(const struct turn *turn, int64_t row)
{
  int64_t pause = UNKNOWN_PAUSE_MS;
  for (int64_t i = 1; i < row && pause < UNKNOWN_PAUSE_MAX_MS; i++)
    pause *= 2;
  return turn_jitter(turn, pause < UNKNOWN_PAUSE_MAX_MS ? pause : UNKNOWN_PAUSE_MAX_MS);
}
