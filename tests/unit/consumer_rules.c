#include "consumer_rules.h"
#include "consumer_edges.h"

#include <stdlib.h>

static bool runs(const struct rig *rig, enum activity activity)
{
  return rig->slots[activity].running;
}

static bool deletes(const struct rig *rig)
{
  for (int i = ACTIVITY_DELETE; i <= ACTIVITY_DELETE_LAST; i++)
    if (rig->slots[i].running)
      return true;
  return false;
}

/* Searches the items that are committed and not yet deleted. */
static struct rig_item *item_find(struct rig *rig, const struct work_item *item)
{
  for (int i = rig->rules.items_deleted; i < rig->rules.items_committed; i++)
    if (rig->rules.items[i].item == item)
      return &rig->rules.items[i];
  rig_assert(rig, !"an item that is known to be committed");
  return NULL;
}

static bool alive(const struct rig *rig)
{
  return rig->rules.locked && !rig->rules.lost && !rig->rules.fenced && rig->moment.now_ms < rig->rules.safe_until_ms;
}

static void epoch_over(struct rig_rules *rules)
{
  rules->epoch = 0;
  rules->before_clean = rules->before_vouched = rules->fenced = rules->failed = rules->spent = false;
  rules->place = PLACE_UNASKED;
  rules->vouches = rules->may_append = false;
  rules->appended = rules->wrote = rules->closed = rules->unnamed = rules->clean_sent = false;
  rules->pending = rules->pending_segment = false;
  rules->items_read = rules->items_committed = rules->items_deleted = 0;
}

/* ---- which actions may start ---- */

static void started_take(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, rules->checked);
  rig_assert(rig, !rules->locked || rules->unlock_tried);
  rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
  rig_assert(rig, !same_owner(&action->owner, &rules->owner)); /* a new owner for every acquisition */
  rig_assert(rig, !action->acquisition.steal || rules->seen_stealable);
  epoch_over(rules);
  rules->locked = rules->lost = rules->rolled = rules->unlock_tried = false;
  rules->owner = action->owner;
  rules->taken_number = action->number;
}

static void started_fence(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, rules->locked);
  rig_assert(rig, action->epoch_seen == rules->epoch_checked);
  rig_assert(rig, action->clean_seen == rules->clean_checked && action->vouched_seen == rules->vouched_checked);
  rig_assert(rig, rules->epoch == 0); /* one epoch per fence */
}

static void started_settle(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, alive(rig));
  rig_assert(rig, !rules->appended && !rules->clean_sent);
  rig_assert(rig, action->settled == rules->settled && rules->settled < rules->committed.seq);
  rig_assert(rig, same_end(&action->end, &rules->committed));
}

/* What an action commits at its end follows on what is known to be committed. */
static void commit_follows(struct rig *rig, const struct ledger_commit *commit)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, !rules->fenced && !rules->failed);
  rig_assert(rig, commit->epoch == rules->epoch && same_owner(&commit->owner, &rules->owner));
  rig_assert(rig, same_end(&commit->before, &rules->committed));
  rig_assert(rig, commit->settled == rules->settled && commit->settled <= commit->after.seq);
  rig_assert(rig, commit->guarded == rules->vouches);
}

/* BEGIN, APPEND: the steps to a block in the file. */
static void started_write(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, alive(rig));
  rig_assert(rig, rules->settled >= rules->committed.seq || rules->wrote); /* a new holder settles first */
  rig_assert(rig, !rules->pending);                                        /* not before the previous commit is known */
  rig_assert(rig, !rules->clean_sent && !rules->closed && !rules->failed && !rules->spent);
  rig_assert(rig, rules->items_committed < rules->items_read);
  rig_assert(rig, rules->items_committed - rules->items_deleted < ITEMS_COMMITTED_MAX);
  commit_follows(rig, &action->commit);
  rig_assert(rig, !action->commit.clean);
  if (action->kind == ACTION_APPEND) {
    rig_assert(rig, rules->may_append);
    rig_assert(rig, action->item == rules->items[rules->items_committed].item);
    rules->appended = true;
    return;
  }
  rig_assert(rig, !rules->may_append && !rules->appended); /* once an epoch, before its first block */
  rig_assert(rig, action->fresh == (rules->rolled || rules->committed.file[0] == 0));
  rig_assert(rig, action->ledger.epoch == rules->epoch - 1 && action->ledger.clean == rules->before_clean);
  rig_assert(rig, ledger_vouched(&action->ledger) == rules->before_vouched);
  rig_assert(rig, same_end(&action->ledger.end, &rules->committed));
}

/* The last commit of an epoch: `clean`. `closes`: with the CLOSE of the same action. */
static void started_clean(struct rig *rig, const struct ledger_commit *commit, bool closes)
{
  struct rig_rules *rules = &rig->rules;
  bool closed = closes || rules->closed;
  rig_assert(rig, commit->clean);
  rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
  rig_assert(rig, closed || !rules->appended);
  rig_assert(rig, closed || (rules->before_clean && !rules->unnamed));
  rules->clean_sent = true;
}

/* Again what has no answer, and nothing else. */
static void started_commit(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  const struct ledger_commit *commit = &action->commit;
  commit_follows(rig, commit);
  if (commit->clean) {
    rig_assert(rig, rules->clean_sent);
    started_clean(rig, commit, false);
    rig_assert(rig, same_end(&commit->after, rules->closed ? &rules->written : &rules->committed));
    return;
  }
  rig_assert(rig, !rules->clean_sent && rules->pending && !rules->closed);
  rig_assert(rig, same_end(&commit->after, &rules->written));
}

static void started_close(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
  rig_assert(rig, !rules->clean_sent && !rules->closed);
  if (!rules->fenced && !rules->failed)
    rig_assert(rig, !rules->pending); /* what may be in the file is committed first */
  if (action->write_close)
    rig_assert(rig, rules->wrote && !rules->fenced && !rules->failed && action->commit.clean);
  if (!action->commit.clean)
    return;
  commit_follows(rig, &action->commit);
  started_clean(rig, &action->commit, action->write_close);
}

/* Of `messages`; and then, where there is one, of the own collection at the same cluster time. */
static void started_pass(struct rig *rig, const struct action *action)
{
  bool own = action->source == SOURCE_OWN;
  rig_assert(rig, action->source != SOURCE_BOTH && own == (rig->ledger.own && rig->shared_over));
  rig_assert(rig, !own || action->read_at == rig->read_at);
  rig->read_source = action->source;
  rig->read_at += !own;
  rig->shared_over = false;
}

static void started_read(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, alive(rig) && !rules->clean_sent && !rules->closed && !rules->failed);
  rig_assert(rig, rules->items_read < RIG_ITEMS);
  rig_assert(rig, rules->items_read - rules->items_committed <= ITEMS_READY_MAX);
  if (!action->begin)
    return;
  rig_assert(rig, !runs(rig, ACTIVITY_MAIN) && !deletes(rig));
  rig_assert(rig, rules->items_deleted == rules->items_read); /* otherwise the pass would see committed messages again */
  rig_assert(rig, !rules->pending && rules->settled >= rules->committed.seq);
  started_pass(rig, action);
}

static void started_delete(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  rig_assert(rig, alive(rig) && !rules->clean_sent && !rules->failed);
  const struct rig_item *item = item_find(rig, action->item);
  rig_assert(rig, action->item->ids_deleted == item->deleted && item->deleted < item->ids);
  for (int i = ACTIVITY_DELETE; i <= ACTIVITY_DELETE_LAST; i++) /* each item by one action at a time */
    rig_assert(rig, !rig->slots[i].running || rig->slots[i].action.item != action->item);
}

static void started_renew(struct rig *rig, const struct action *action)
{
  const struct rig_rules *rules = &rig->rules;
  rig_assert(rig, rules->locked && !rules->lost && !rules->unlock_tried);
  const struct rig_slot *slot = &rig->slots[ACTIVITY_MAIN];
  rig_assert(rig, !slot->running || rig->moment.now_ms - slot->started_ms < rig->consumer.core.options.stall_ms);
  /* The lock in the database may end as early as that from now on, whatever the answer is. */
  int64_t until_ms = rig->moment.now_ms + action->lease_ms * 2 / 3;
  rig->rules.safe_until_ms = until_ms < rig->rules.safe_until_ms ? until_ms : rig->rules.safe_until_ms;
}

static void started_kind(struct rig *rig, const struct action *action)
{
  struct rig_rules *rules = &rig->rules;
  switch (action->kind) {
  case ACTION_POLL:
  case ACTION_CHECK:
  case ACTION_LOOK:
    rig_assert(rig, !rules->locked || rules->unlock_tried);
    return;
  case ACTION_TAKE:
    started_take(rig, action);
    return;
  case ACTION_FENCE:
    started_fence(rig, action);
    return;
  case ACTION_OPEN:
    rig_assert(rig, !rules->appended && !rules->closed && action->ledger.epoch == rules->epoch - 1);
    return;
  case ACTION_SETTLE:
    started_settle(rig, action);
    return;
  case ACTION_BEGIN:
  case ACTION_APPEND:
    started_write(rig, action);
    return;
  case ACTION_COMMIT:
    started_commit(rig, action);
    return;
  case ACTION_CLOSE:
    started_close(rig, action);
    return;
  case ACTION_LEAVE_QUEUE:
    rig_assert(rig, (!rules->locked || rules->unlock_tried) && action->acquisition.queued);
    return;
  case ACTION_UNLOCK:
    rig_assert(rig, rules->locked);
    rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
    rig_assert(rig, action->epoch == 0 || (rules->rolled && action->epoch == rules->epoch_checked)); /* the epoch's end is clean */
    rules->unlock_tried = true;
    return;
  case ACTION_READ:
    started_read(rig, action);
    return;
  case ACTION_DELETE:
    started_delete(rig, action);
    return;
  case ACTION_RENEW:
    started_renew(rig, action);
    return;
  case ACTION_COUNT:
    rig_assert(rig, !"an action");
  }
}

void rules_started(struct rig *rig, const struct action *action)
{
  const struct rig_rules *rules = &rig->rules;
  enum activity activity = action->activity;
  rig_assert(rig, !rig->slots[activity].running);
  rig_assert(rig, action->number > rig->number_last);
  rig->number_last = action->number;
  if (action->kind >= ACTION_FENCE && action->kind != ACTION_LEAVE_QUEUE)
    rig_assert(rig, same_owner(&action->owner, &rules->owner));
  if ((action->kind >= ACTION_OPEN && action->kind <= ACTION_CLOSE) || action->kind == ACTION_READ || action->kind == ACTION_DELETE)
    rig_assert(rig, action->epoch > 0 && action->epoch == rules->epoch);
  if (rules->fenced)
    rig_assert(rig, activity != ACTIVITY_READ && action->kind != ACTION_DELETE && activity != ACTIVITY_RENEW);
  started_kind(rig, action);
  rig->slots[activity] = (struct rig_slot){.running = true, .action = *action, .started_ms = rig->moment.now_ms};
}

/* ---- what the answers change ---- */

static int64_t shorter(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static void answered_lock(struct rig *rig, const struct completion *completion)
{
  struct rig_rules *rules = &rig->rules;
  bool yes = completion->result == RESULT_YES, no = completion->result == RESULT_NO;
  if (completion->kind == ACTION_TAKE) {
    rules->locked = !no;
    rules->checked = false; /* valid for this time only */
    if (no)                 /* it goes on waiting, under the same owner */
      memset(&rules->owner, 0, sizeof rules->owner);
    rules->safe_until_ms = completion->sent_ms + completion->lease_ms * 2 / 3;
    rules->least_ms = INT64_MAX;
  } else if (completion->kind == ACTION_UNLOCK) {
    rules->locked = rules->locked && !yes && !no;
  } else if (completion->number > rules->taken_number && yes) {
    rules->safe_until_ms = completion->sent_ms + shorter(completion->lease_ms, rules->least_ms) * 2 / 3;
  } else if (completion->number > rules->taken_number && no) {
    rules->lost = true;
  } else if (completion->number > rules->taken_number) {
    rules->least_ms = shorter(completion->lease_ms, rules->least_ms);
  }
}

static void answered_fence(struct rig_rules *rules, const struct action *action, const struct completion *completion)
{
  rules->place = completion->place;
  if (completion->result != RESULT_YES)
    return;
  rules->epoch = action->epoch_seen + 1;
  rules->before_clean = completion->ledger.clean;
  rules->before_vouched = ledger_vouched(&completion->ledger);
  rules->committed = completion->ledger.end;
  rules->settled = completion->ledger.settled;
}

static void answered_settle(struct rig_rules *rules, const struct completion *completion)
{
  if (completion->result == RESULT_YES)
    rules->settled = completion->settled;
  rules->fenced = rules->fenced || completion->result == RESULT_NO;
}

static void answered_begin(struct rig_rules *rules, const struct completion *completion)
{
  enum result result = completion->result;
  rules->failed = rules->failed || result == RESULT_FAILED;
  rules->fenced = rules->fenced || result == RESULT_NO;
  rules->spent = rules->spent || result == RESULT_SPENT || result == RESULT_REFUSED;
  rules->unnamed = rules->unnamed || completion->unnamed;
  rules->vouches = completion->guarded;
  rules->may_append = result == RESULT_YES;
  rules->pending = rules->pending_segment = result == RESULT_UNKNOWN && completion->created;
  rules->written = completion->end;
  if (result == RESULT_YES && completion->created)
    rules->committed = completion->end;
}

static void item_committed(struct rig_rules *rules, const struct committed *end)
{
  rules->committed = *end;
  rules->items[rules->items_committed++].seq_last = end->seq;
}

static void answered_append(struct rig_rules *rules, const struct completion *completion)
{
  enum result result = completion->result;
  rules->failed = rules->failed || result == RESULT_FAILED;
  rules->fenced = rules->fenced || result == RESULT_NO;
  rules->wrote = rules->wrote || result == RESULT_YES || result == RESULT_UNKNOWN;
  rules->pending = result == RESULT_UNKNOWN;
  rules->pending_segment = false;
  rules->written = completion->end;
  if (result == RESULT_YES)
    item_committed(rules, &completion->end);
  else if (result == RESULT_NO_SPACE)
    rules->appended = rules->wrote; /* nothing was written */
}

/* Next: unlock, or roll. */
static void clean_committed(struct rig_rules *rules)
{
  rules->epoch_checked = rules->epoch;
  rules->clean_checked = true;
  rules->vouched_checked = rules->vouches;
  bool unlock_tried = rules->unlock_tried;
  epoch_over(rules);
  rules->unlock_tried = unlock_tried;
  rules->rolled = true;
}

static void answered_commit(struct rig_rules *rules, const struct action *action, const struct completion *completion)
{
  rules->fenced = rules->fenced || completion->result == RESULT_NO;
  if (completion->result != RESULT_YES)
    return;
  if (action->commit.clean) {
    clean_committed(rules);
    return;
  }
  rules->pending = false;
  rules->may_append = true;
  if (rules->pending_segment)
    rules->committed = rules->written;
  else
    item_committed(rules, &rules->written);
}

static void answered_close(struct rig_rules *rules, const struct action *action, const struct completion *completion)
{
  enum result result = completion->result;
  rules->failed = rules->failed || result == RESULT_FAILED;
  rules->fenced = rules->fenced || result == RESULT_NO;
  rules->closed = action->write_close && (result == RESULT_YES || result == RESULT_UNKNOWN);
  rules->written = completion->end;
  if (result == RESULT_YES && action->commit.clean)
    clean_committed(rules);
}

static void answered_read(struct rig *rig, const struct completion *completion)
{
  struct rig_rules *rules = &rig->rules;
  struct work_item *item = completion->item;
  if (item == NULL)
    return;
  if (rules->items_read == RIG_ITEMS) { /* forget the items that are deleted */
    memmove(rules->items, rules->items + rules->items_deleted, (size_t)(RIG_ITEMS - rules->items_deleted) * sizeof rules->items[0]);
    rules->items_read -= rules->items_deleted;
    rules->items_committed -= rules->items_deleted;
    rules->items_deleted = 0;
  }
  rules->items[rules->items_read++] = (struct rig_item){.item = item, .ids = item->ids_count, .messages = item->documents};
}

static void answered_delete(struct rig *rig, const struct completion *completion)
{
  struct rig_rules *rules = &rig->rules;
  item_find(rig, completion->item)->deleted += completion->result == RESULT_YES;
  for (const struct rig_item *item = &rules->items[rules->items_deleted];
       rules->items_deleted < rules->items_committed && item->deleted == item->ids; item++) {
    rules->settled = item->seq_last;
    rules->items_deleted++;
  }
}

void rules_answered(struct rig *rig, const struct action *action, const struct completion *completion)
{
  struct rig_rules *rules = &rig->rules;
  rig->slots[action->activity].running = false;
  switch (action->kind) {
  case ACTION_POLL:
  case ACTION_LEAVE_QUEUE:
  case ACTION_COUNT:
    return;
  case ACTION_OPEN:
    rules->fenced = completion->result == RESULT_NO;
    return;
  case ACTION_CHECK:
    rules->checked = completion->result == RESULT_YES;
    rules->epoch_checked = completion->ledger.epoch;
    rules->clean_checked = completion->ledger.clean;
    rules->vouched_checked = ledger_vouched(&completion->ledger);
    return;
  case ACTION_LOOK:
    rules->seen_stealable = completion->result == RESULT_YES && completion->acquisition.view.stealable;
    return;
  case ACTION_TAKE:
  case ACTION_UNLOCK:
  case ACTION_RENEW:
    answered_lock(rig, completion);
    return;
  case ACTION_FENCE:
    answered_fence(rules, action, completion);
    return;
  case ACTION_SETTLE:
    answered_settle(rules, completion);
    return;
  case ACTION_BEGIN:
    answered_begin(rules, completion);
    return;
  case ACTION_APPEND:
    answered_append(rules, completion);
    return;
  case ACTION_COMMIT:
    answered_commit(rules, action, completion);
    return;
  case ACTION_CLOSE:
    answered_close(rules, action, completion);
    return;
  case ACTION_READ:
    answered_read(rig, completion);
    return;
  case ACTION_DELETE:
    answered_delete(rig, completion);
    return;
  }
}

/* ---- after each event ---- */

void rules_turn(struct rig *rig, enum consumer_state before)
{
  const struct consumer *consumer = &rig->consumer;
  bool any = false;
  edges_follow(rig, before);
  for (int i = 0; i < ACTIVITY_COUNT; i++) {
    any = any || (rig->slots[i].running && i != ACTIVITY_RENEW);
    rig_assert(rig, consumer->core.activity[i].running == rig->slots[i].running);
  }
  int64_t wake = consumer_wake_ms(consumer);
  rig_assert(rig, wake > rig->moment.now_ms); /* no loop without a pause */
  bool over = consumer->core.state == STATE_STOPPED || consumer->core.state == STATE_DONE;
  rig_assert(rig, consumer_is_over(consumer) == (over && !any));
  rig_assert(rig, over || any || runs(rig, ACTIVITY_RENEW) || wake < INT64_MAX); /* it never sleeps for ever */
  rig_assert(rig, rig->rules.items_committed - rig->rules.items_deleted <= ITEMS_COMMITTED_MAX);
  if (over || consumer->core.state == STATE_BACKING_OFF || consumer->core.state == STATE_IDLE)
    rig_assert(rig, !runs(rig, ACTIVITY_READ) && !deletes(rig));
}
