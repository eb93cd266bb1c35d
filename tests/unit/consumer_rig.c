#include "consumer_rig.h"
#include "consumer_answers.h"
#include "consumer_rules.h"
#include "unit_test.h"

#include <stdlib.h>

static const char *const kind_names[ACTION_COUNT] = {
    [ACTION_POLL] = "POLL",         [ACTION_CHECK] = "CHECK",   [ACTION_LOOK] = "LOOK",     [ACTION_TAKE] = "TAKE",
    [ACTION_FENCE] = "FENCE",       [ACTION_OPEN] = "OPEN",     [ACTION_SETTLE] = "SETTLE", [ACTION_BEGIN] = "BEGIN",
    [ACTION_APPEND] = "APPEND",     [ACTION_COMMIT] = "COMMIT", [ACTION_CLOSE] = "CLOSE",   [ACTION_UNLOCK] = "UNLOCK",
    [ACTION_LEAVE_QUEUE] = "LEAVE", [ACTION_READ] = "READ",     [ACTION_DELETE] = "DELETE", [ACTION_RENEW] = "RENEW",
};

static const char *const result_names[RESULT_COUNT] = {
    [RESULT_YES] = "YES",         [RESULT_NO] = "NO",       [RESULT_UNKNOWN] = "UNKNOWN",   [RESULT_CHANGED] = "CHANGED",
    [RESULT_REFUSED] = "REFUSED", [RESULT_NEWER] = "NEWER", [RESULT_NO_SPACE] = "NO_SPACE", [RESULT_SPENT] = "SPENT",
    [RESULT_FAILED] = "FAILED",   [RESULT_LEFT] = "LEFT",   [RESULT_STOPPED] = "STOPPED",   [RESULT_PAUSED] = "PAUSED",
};

const char *rig_kind_name(enum action_kind kind)
{
  return kind_names[kind];
}

const char *rig_result_name(enum result result)
{
  return result_names[result];
}

/* ---- the history ---- */

static void history_add(struct rig *rig, const char *event, enum consumer_state before)
{
  char *line = rig->history[rig->events++ % RIG_HISTORY];
  snprintf(line, sizeof rig->history[0], "%8lld  %-24s %s -> %s  [%s]", (long long)rig->moment.now_ms, event, consumer_state_name(before),
           consumer_state_name(rig->consumer.core.state), rig_started(rig));
}

void rig_history(const struct rig *rig)
{
  fprintf(stderr, "seed %llu, the last events:\n", (unsigned long long)rig->seed);
  for (int i = rig->events > RIG_HISTORY ? rig->events - RIG_HISTORY : 0; i < rig->events; i++)
    fprintf(stderr, "  %s\n", rig->history[i % RIG_HISTORY]);
}

void rig_fail(const struct rig *rig, const char *file, int line, const char *what)
{
  rig_history(rig);
  fprintf(stderr, "state %s, started [%s], running [%s]\n", consumer_state_name(rig->consumer.core.state), rig_started(rig),
          rig_running(rig));
  for (int i = 0; i < rig->effects.event_count; i++)
    fprintf(stderr, "  note: %s: %s\n", rig->effects.events[i].name, rig->effects.events[i].text);
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  fail();
}

static void name_append(char *names, size_t size, const char *name)
{
  size_t length = strlen(names);
  snprintf(names + length, size - length, "%s%s", length > 0 ? " " : "", name);
}

const char *rig_started(const struct rig *rig)
{
  static char names[128];
  names[0] = 0;
  for (int i = 0; i < rig->effects.action_count; i++)
    name_append(names, sizeof names, kind_names[rig->effects.actions[i].kind]);
  if (rig->effects.drop_read)
    name_append(names, sizeof names, "DROP");
  return names;
}

const char *rig_running(const struct rig *rig)
{
  static char names[128];
  names[0] = 0;
  for (int i = 0; i < ACTIVITY_COUNT; i++)
    if (rig->slots[i].running)
      name_append(names, sizeof names, kind_names[rig->slots[i].action.kind]);
  return names;
}

bool rig_logged(const struct rig *rig, const char *event)
{
  for (int i = 0; i < rig->effects.event_count; i++)
    if (strcmp(rig->effects.events[i].name, event) == 0)
      return true;
  return false;
}

void rig_expect_at(const struct rig *rig, enum consumer_state state, const char *started, const char *file, int line)
{
  char what[256];
  snprintf(what, sizeof what, "state %s, started [%s]", consumer_state_name(state), started);
  if (rig->consumer.core.state != state || strcmp(rig_started(rig), started) != 0)
    rig_fail(rig, file, line, what);
}

/* ---- randomness: splitmix64 (Steele, Lea, Flood 2014) ---- */

static uint64_t random_next(struct rig *rig)
{
  uint64_t z = rig->random += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

uint64_t rig_random(struct rig *rig, uint64_t below)
{
  return below == 0 ? 0 : random_next(rig) % below;
}

/* ---- events ---- */

static void moment_fresh(struct rig *rig, int64_t ms_later)
{
  uint64_t low = random_next(rig), high = random_next(rig);
  rig->moment.now_ms += ms_later;
  rig->moment.wall_us += ms_later * 1000;
  memcpy(rig->moment.random, &low, sizeof low);
  memcpy(rig->moment.random + sizeof low, &high, sizeof high);
}

static void handle(struct rig *rig, const struct event *event, const char *text)
{
  enum consumer_state before = rig->consumer.core.state;
  consumer_handle(&rig->consumer, event, &rig->moment, &rig->effects);
  history_add(rig, text, before);
  rig->cause = text;
  rig_assert(rig, !rig->effects.drop_read || (rig->slots[ACTIVITY_READ].running && rig->consumer.epoch.leave != LEAVE_NOT));
  for (int i = 0; i < rig->effects.action_count; i++)
    rules_started(rig, &rig->effects.actions[i]);
  rules_turn(rig, before);
}

void rig_timer(struct rig *rig, int64_t ms_later)
{
  struct event event = {.kind = EVENT_TIMER};
  moment_fresh(rig, ms_later);
  handle(rig, &event, "timer");
}

void rig_configure(struct rig *rig, const struct consumer_options *options)
{
  struct event event = {.kind = EVENT_CONFIGURE, .options = options};
  moment_fresh(rig, 0);
  handle(rig, &event, "configure");
}

void rig_stop(struct rig *rig)
{
  struct event event = {.kind = EVENT_STOP};
  moment_fresh(rig, 0);
  handle(rig, &event, "stop");
}

/* Anybody may make up a wake-up. It makes a consumer poll, or read the lock, and no more; it never shortens a pause after a failure. */
void rig_wake(struct rig *rig, enum wakeup_about about)
{
  static const char *const texts[] = {[WAKEUP_MESSAGE] = "message", [WAKEUP_LOCK] = "lock", [WAKEUP_LOST] = "lost"};
  struct event event = {.kind = EVENT_WAKE, .about = about, .owner = rig->consumer.seek.acquisition.owner};
  enum consumer_state before = rig->consumer.core.state;
  bool due = rig->consumer.core.next_ms <= rig->moment.now_ms, failed = rig->consumer.core.unknown_row > 0;
  moment_fresh(rig, 0);
  handle(rig, &event, texts[about]);
  rig_assert(rig, rig->consumer.core.state == before || about == WAKEUP_LOST); /* it may find out that the lease is over */
  for (int i = 0; i < rig->effects.action_count && rig->consumer.core.state == before; i++) {
    enum action_kind kind = rig->effects.actions[i].kind;
    bool look = kind == ACTION_POLL || kind == ACTION_LOOK || kind == ACTION_READ;
    rig_assert(rig, about == WAKEUP_LOST ? kind == ACTION_RENEW : look || kind == ACTION_RENEW);
    rig_assert(rig, due || !failed || !look || kind == ACTION_READ);
  }
}

void rig_notifications(struct rig *rig, bool notified)
{
  struct event event = {.kind = EVENT_NOTIFICATIONS, .notified = notified};
  moment_fresh(rig, 0);
  handle(rig, &event, notified ? "watch" : "unwatch");
}

/* A completion of an action that the consumer does not wait for (any more): the consumer only frees its memory. */
void rig_stale(struct rig *rig)
{
  struct completion completion = {.kind = (enum action_kind)rig_random(rig, ACTION_COUNT),
                                  .result = (enum result)rig_random(rig, RESULT_COUNT)};
  struct event event = {.kind = EVENT_COMPLETION, .completion = &completion};
  enum consumer_state before = rig->consumer.core.state;
  completion.number = rig->number_last + 1000;
  completion.item = item_make(1, 1, 1);
  moment_fresh(rig, 0);
  handle(rig, &event, "stale");
  rig_assert(rig, rig->consumer.core.state == before && rig->effects.action_count == 0 && rig->effects.event_count == 0);
}

void rig_answer(struct rig *rig, enum activity activity, enum result result)
{
  struct rig_slot *slot = &rig->slots[activity];
  rig_assert(rig, slot->running);
  struct action action = slot->action;
  struct completion completion = {
      .kind = action.kind, .activity = action.activity, .number = action.number, .result = result, .lease_ms = action.lease_ms};
  struct event event = {.kind = EVENT_COMPLETION, .completion = &completion};
  char text[64];
  rig_assert(rig, rig_may_answer(&action, result));
  completion.took_ms = rig->moment.now_ms - rig->consumer.core.activity[action.activity].started_ms;
  completion.took_types = action.kind == ACTION_POLL ? rig->poll_types : 0;
  completion.sent_ms = slot->started_ms;
  if (rig->late_answers)
    completion.sent_ms += (int64_t)rig_random(rig, (uint64_t)(rig->moment.now_ms - slot->started_ms + 1));
  answer_fill(rig, &action, &completion);
  snprintf(text, sizeof text, "%s %s", kind_names[action.kind], result_names[result]);
  rules_answered(rig, &action, &completion);
  moment_fresh(rig, 0);
  handle(rig, &event, text);
}

/* ---- events as text ---- */

static void variant_ledger(struct rig *rig, const char *variant)
{
  struct ledger *ledger = &rig->ledger;
  if (strcmp(variant, "none") == 0)
    memset(ledger, 0, sizeof *ledger);
  ledger->end.link += strcmp(variant, "moved") == 0;
  ledger->clean = strcmp(variant, "clean") == 0 || strcmp(variant, "unsettled") == 0 || strcmp(variant, "unvouched-clean") == 0;
  rig->vouched = strncmp(variant, "unvouched", 9) != 0;
  ledger->settled = ledger->end.seq - (strcmp(variant, "unsettled") == 0 ? 30 : 0);
}

static void variant_apply(struct rig *rig, enum action_kind kind, const char *variant)
{
  rig->names_document = strcmp(variant, "named") == 0;
  if (rig->names_document)
    return;
  if (kind == ACTION_LOOK) {
    rig->view.stealable = strcmp(variant, "expired") == 0;
    rig->view.left_ms = rig->view.stealable ? -5 : 20000;
  } else if (kind == ACTION_CHECK || kind == ACTION_FENCE) {
    rig->network = strncmp(variant, "network-", 8) == 0;
    variant_ledger(rig, variant + (rig->network ? 8 : 0));
  } else if (kind == ACTION_BEGIN) {
    rig->segment = strcmp(variant, "segment") == 0;
    rig->discard_fails = strcmp(variant, "left") == 0;
  } else if (kind == ACTION_APPEND) {
    rig->block_bytes = (int64_t)1 << 30;
  } else if (kind == ACTION_RENEW) {
    rig->awaited = true;
  } else if (kind == ACTION_READ) {
    rig->item_ids = 2;
  }
}

static int name_find(const char *const *names, int count, const char *name)
{
  for (int i = 0; i < count; i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return count;
}

/* The activity where such an action runs; of several actions the one that was started first, or last. */
static enum activity slot_of(const struct rig *rig, enum action_kind kind, bool last)
{
  int found = ACTIVITY_COUNT;
  for (int i = 0; i < ACTIVITY_COUNT; i++)
    if (rig->slots[i].running && rig->slots[i].action.kind == kind &&
        (found == ACTIVITY_COUNT || (rig->slots[i].action.number > rig->slots[found].action.number) == last))
      found = i;
  return (enum activity)found;
}

static void play_answer(struct rig *rig, const char *event)
{
  char kind_name[32], result_name[32];
  rig_assert(rig, sscanf(event, "%31s %31[A-Z_]", kind_name, result_name) == 2);
  const char *variant = strchr(event, ':');
  enum action_kind kind = name_find(kind_names, ACTION_COUNT, kind_name);
  enum result result = name_find(result_names, RESULT_COUNT, result_name);
  rig_assert(rig, kind < ACTION_COUNT && result < RESULT_COUNT);
  enum activity activity = slot_of(rig, kind, variant != NULL && strcmp(variant + 1, "last") == 0);
  if (activity == ACTIVITY_COUNT)
    rig_fail(rig, __FILE__, __LINE__, event);
  if (variant != NULL && kind != ACTION_DELETE)
    variant_apply(rig, kind, variant + 1);
  rig_answer(rig, activity, result);
}

void rig_play(struct rig *rig, const char *event)
{
  if (strncmp(event, "wait ", 5) == 0) {
    rig_timer(rig, atoll(event + 5));
  } else if (strcmp(event, "wake") == 0) {
    int64_t wake = consumer_wake_ms(&rig->consumer);
    rig_assert(rig, wake < INT64_MAX);
    rig_timer(rig, wake - rig->moment.now_ms);
  } else if (strcmp(event, "stop") == 0) {
    rig_stop(rig);
  } else if (strcmp(event, "stale") == 0) {
    rig_stale(rig);
  } else if (strcmp(event, "message") == 0) {
    rig_wake(rig, WAKEUP_MESSAGE);
  } else if (strcmp(event, "lock") == 0) {
    rig_wake(rig, WAKEUP_LOCK);
  } else if (strcmp(event, "lost") == 0) {
    rig_wake(rig, WAKEUP_LOST);
  } else if (strcmp(event, "watch") == 0 || strcmp(event, "unwatch") == 0) {
    rig_notifications(rig, event[0] == 'w');
  } else {
    play_answer(rig, event);
  }
}

void rig_play_all(struct rig *rig, const char *events)
{
  char text[64];
  while (*events != 0) {
    size_t length = strcspn(events, ";");
    rig_assert(rig, length < sizeof text);
    snprintf(text, sizeof text, "%.*s", (int)length, events);
    rig_play(rig, text);
    events += length;
    events += strspn(events, "; ");
  }
}

/* ---- begin and end ---- */

struct consumer_options rig_options(void)
{
  return (struct consumer_options){.lease_ms = 30000,
                                   .retry_ms = 100,
                                   .poll_ms = 100,
                                   .linger_ms = 5000,
                                   .stall_ms = 90000,
                                   .segment_bytes = (int64_t)1 << 30,
                                   .poll_share = 20,
                                   .distrust_ms = 60000,
                                   .dir = "/srv/pawl",
                                   .database = "pawl",
                                   .server = "db1:27017"};
}

void rig_init(struct rig *rig, const struct consumer_options *options, uint64_t seed)
{
  memset(rig, 0, sizeof *rig);
  rig->seed = rig->random = seed;
  rig->moment = (struct moment){.now_ms = 1000000, .wall_us = 1700000000000000};
  rig->item_ids = 1;
  rig->item_messages = 10;
  rig->block_bytes = 1000;
  rig->ledger = (struct ledger){.epoch = 7, .clean = true, .settled = 100};
  rig->ledger.end = (struct committed){.file = "t1.bin", .length = 50000, .tail = 49000, .link = 77, .seq = 100, .items = 100};
  rig->vouched = true;
  rig->view = (struct lock_view){.owner = {{1, 2, 3}}, .ttl_ms = 30000, .left_ms = 20000};
  consumer_init(&rig->consumer, "t1", options);
}

void rig_deinit(struct rig *rig)
{
  for (int i = 0; i < ACTIVITY_COUNT; i++) {
    struct rig_slot *slot = &rig->slots[i];
    /* An item that is being deleted still belongs to the consumer. */
    if (slot->running && i == ACTIVITY_MAIN)
      work_item_free(slot->action.item);
    slot->running = false;
  }
  consumer_deinit(&rig->consumer);
}
