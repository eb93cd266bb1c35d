#include "consumer_rig.h"
#include "consumer_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const kind_names[ACTION_COUNT] = {
    [ACTION_POLL] = "POLL",     [ACTION_CHECK] = "CHECK",   [ACTION_LOOK] = "LOOK",     [ACTION_TAKE] = "TAKE",
    [ACTION_FENCE] = "FENCE",   [ACTION_OPEN] = "OPEN",     [ACTION_SETTLE] = "SETTLE", [ACTION_BEGIN] = "BEGIN",
    [ACTION_APPEND] = "APPEND", [ACTION_COMMIT] = "COMMIT", [ACTION_CLOSE] = "CLOSE",   [ACTION_UNLOCK] = "UNLOCK",
    [ACTION_LEAVE] = "LEAVE",   [ACTION_READ] = "READ",     [ACTION_DELETE] = "DELETE", [ACTION_RENEW] = "RENEW",
};

static const char *const result_names[RESULT_COUNT] = {
    [RESULT_YES] = "YES",         [RESULT_NO] = "NO",       [RESULT_UNKNOWN] = "UNKNOWN",   [RESULT_CHANGED] = "CHANGED",
    [RESULT_REFUSED] = "REFUSED", [RESULT_NEWER] = "NEWER", [RESULT_NO_SPACE] = "NO_SPACE", [RESULT_SPENT] = "SPENT",
    [RESULT_FAILED] = "FAILED",   [RESULT_LEFT] = "LEFT",   [RESULT_STOPPED] = "STOPPED",
};

#define MAY(result) (1u << RESULT_##result)
/* The results that worker/perform.c can answer with. */
static const unsigned answers[ACTION_COUNT] = {
    [ACTION_POLL] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED),
    [ACTION_CHECK] = MAY(YES) | MAY(CHANGED) | MAY(REFUSED) | MAY(NEWER) | MAY(UNKNOWN),
    [ACTION_LOOK] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED),
    [ACTION_TAKE] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
    [ACTION_FENCE] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED) | MAY(FAILED),
    [ACTION_OPEN] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED) | MAY(NEWER),
    [ACTION_SETTLE] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(STOPPED) | MAY(REFUSED) | MAY(NEWER) | MAY(LEFT),
    [ACTION_BEGIN] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(STOPPED) | MAY(NO_SPACE) | MAY(SPENT) | MAY(REFUSED) | MAY(FAILED),
    [ACTION_APPEND] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(NO_SPACE) | MAY(FAILED),
    [ACTION_COMMIT] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
    [ACTION_CLOSE] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(NO_SPACE) | MAY(FAILED),
    [ACTION_UNLOCK] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
    [ACTION_LEAVE] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
    [ACTION_READ] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED),
    [ACTION_DELETE] = MAY(YES) | MAY(UNKNOWN) | MAY(LEFT),
    [ACTION_RENEW] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
};

bool rig_may_answer(const struct action *action, enum result result)
{
  if (action->kind == ACTION_CLOSE && !action->write_close && (result == RESULT_NO_SPACE || result == RESULT_FAILED))
    return false; /* nothing is written, so nothing can fail */
  if (action->kind == ACTION_CLOSE && !action->commits && (result == RESULT_NO || result == RESULT_UNKNOWN))
    return false;
  if (action->kind == ACTION_READ && result == RESULT_REFUSED)
    return action->begin; /* the database is checked before a pass */
  return (answers[action->kind] & 1u << result) != 0;
}

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

/* ---- the world's answers ---- */

static struct work_item *item_make(size_t ids, uint32_t messages, int64_t seq_last)
{
  struct work_item *item = work_item_new();
  assert_non_null(item);
  item->ids = calloc(ids, sizeof *item->ids);
  for (item->ids_count = 0; item->ids_count < ids; item->ids_count++)
    item->ids[item->ids_count] = bson_new();
  item->messages = messages;
  item->seq_last = seq_last;
  assert_true(batch_add(&item->batch, (const uint8_t *)"\5\0\0\0", 5, 1));
  return item;
}

static struct committed end_after(const struct committed *end, int64_t bytes, uint32_t messages)
{
  struct committed after = *end;
  after.tail = end->length;
  after.length += bytes;
  after.link++;
  after.seq += messages;
  after.items += 3 * messages; /* bundles of three */
  return after;
}

static struct committed end_created(const struct rig *rig, const struct action *action)
{
  struct committed end = rig->rules.committed;
  snprintf(end.file, sizeof end.file, "t1@%lld.bin", (long long)action->epoch);
  memcpy(end.uuid, action->uuid, sizeof end.uuid);
  end.length = 4096;
  end.tail = 0;
  end.link = (uint64_t)action->epoch << 40;
  return end;
}

static void answer_fence(struct rig *rig, const struct action *action, struct completion *completion)
{
  completion->ledger = rig->ledger;
  completion->ledger.epoch = action->epoch_seen;
  completion->ledger.guarded = rig->vouched ? action->epoch_seen : 0;
  completion->place = action->place != PLACE_UNASKED ? action->place : rig->network ? PLACE_NETWORK : PLACE_LOCAL;
  rig->vouched = completion->place == PLACE_LOCAL && (rig->vouched || rig->ledger.clean);
  rig->ledger.epoch = action->epoch_seen + 1;
  rig->ledger.clean = false;
}

static void answer_commit(struct rig *rig, const struct ledger_commit *commit, const struct committed *after)
{
  rig->ledger.end = *after;
  if (commit->settled > rig->ledger.settled)
    rig->ledger.settled = commit->settled;
  if (commit->set_clean)
    rig->ledger.clean = commit->clean;
  rig->vouched = rig->vouched || commit->guarded;
}

/* Busy: in the wait queue, with a pause that ends with the lease at the latest. */
static void answer_acquire(struct rig *rig, const struct action *action, struct completion *completion)
{
  struct acquisition *mine = &completion->acquisition;
  int64_t pause_ms = action->acquisition.listens ? 1000 : 100;
  *mine = action->acquisition;
  if (action->kind == ACTION_LEAVE || (action->kind == ACTION_TAKE && completion->result == RESULT_YES))
    mine->queued = false;
  if (action->kind != ACTION_LOOK || completion->result == RESULT_UNKNOWN)
    return;
  mine->view = rig->view;
  if (!mine->drawn)
    for (size_t i = 0; i < OWNER_BYTES; i++)
      mine->owner.bytes[i] = (uint8_t)random_next(rig);
  mine->drawn = true;
  mine->steal = completion->result == RESULT_YES && rig->view.stealable;
  mine->queued = mine->queued || completion->result == RESULT_NO;
  pause_ms = pause_ms / 2 + (int64_t)rig_random(rig, (uint64_t)pause_ms / 2 + 1);
  mine->pause_ms = rig->view.left_ms >= 0 && rig->view.left_ms < pause_ms ? rig->view.left_ms + 1 : pause_ms;
}

static int64_t settled_next(const struct rig *rig, const struct action *action)
{
  int64_t last = action->settled + rig->item_messages;
  return last < action->end.seq ? last : action->end.seq;
}

/* What was done before the result was known: with UNKNOWN all but the commit. */
static void answer_written(struct rig *rig, const struct action *action, struct completion *completion)
{
  const struct committed *committed = &rig->rules.committed;
  completion->end = *committed;
  if (action->kind == ACTION_BEGIN) {
    completion->created =
        completion->result == RESULT_YES ? action->fresh || rig->segment : completion->result == RESULT_UNKNOWN && rig->segment;
    completion->guarded = rig->rules.place == PLACE_LOCAL && (completion->created || completion->result == RESULT_YES);
    completion->unnamed = completion->result == RESULT_SPENT || (completion->result == RESULT_STOPPED && rig->discard_fails);
    if (completion->created)
      completion->end = end_created(rig, action);
  } else if (action->kind == ACTION_APPEND) {
    completion->end = end_after(committed, rig->block_bytes, action->item->messages);
  } else if (action->kind == ACTION_CLOSE && action->write_close) {
    completion->end = end_after(committed, 160, 0);
  }
}

static void answer_committed(struct rig *rig, const struct action *action, const struct completion *completion)
{
  struct ledger_commit commit = action->commit;
  commit.guarded = action->kind == ACTION_BEGIN ? completion->guarded : commit.guarded;
  if (action->kind == ACTION_COMMIT)
    answer_commit(rig, &commit, &commit.after);
  else if (action->kind == ACTION_APPEND || (action->kind == ACTION_BEGIN && completion->created) ||
           (action->kind == ACTION_CLOSE && action->commits))
    answer_commit(rig, &commit, &completion->end);
}

static void answer_yes(struct rig *rig, const struct action *action, struct completion *completion)
{
  if (action->kind == ACTION_FENCE)
    answer_fence(rig, action, completion);
  else if (action->kind == ACTION_READ)
    completion->item = rig->names_document ? NULL : item_make(rig->item_ids, rig->item_messages, 0);
  else if (action->kind == ACTION_SETTLE)
    rig->ledger.settled = completion->settled = settled_next(rig, action);
  else
    answer_committed(rig, action, completion);
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
  struct completion completion = {.kind = action.kind, .activity = action.activity, .number = action.number, .result = result};
  struct event event = {.kind = EVENT_COMPLETION, .completion = &completion};
  char text[64];
  rig_assert(rig, rig_may_answer(&action, result));
  completion.tail_next = !rig->nothing_read;
  completion.tail = action.tail && completion.tail_next;
  completion.took_ms = rig->moment.now_ms - rig->consumer.core.activity[action.activity].started_ms;
  completion.sent_ms = slot->started_ms;
  if (rig->late_answers)
    completion.sent_ms += (int64_t)rig_random(rig, (uint64_t)(rig->moment.now_ms - slot->started_ms + 1));
  completion.item = action.item;
  completion.judged = action.judge;
  completion.missed_is_there = action.missed[0] != 0 && rig->late_files;
  if (action.kind == ACTION_CHECK && result != RESULT_UNKNOWN) {
    completion.ledger = rig->ledger;
    completion.ledger.guarded = rig->vouched ? rig->ledger.epoch : 0;
  }
  answer_acquire(rig, &action, &completion);
  answer_written(rig, &action, &completion);
  completion.awaited = action.kind == ACTION_RENEW && result == RESULT_YES && rig->awaited;
  if (result == RESULT_YES)
    answer_yes(rig, &action, &completion);
  else if (result != RESULT_NO)
    error_set(&completion.error, "%s came back %s", kind_names[action.kind], result_names[result]);
  if (rig->names_document)
    error_set(&completion.error, "a document cannot be taken");
  rig->names_document = false;
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
                                   .look_share = 20,
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
  rig->ledger = (struct ledger){.v = 1, .epoch = 7, .clean = true, .settled = 100};
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
