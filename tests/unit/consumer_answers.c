#include "consumer_answers.h"
#include "unit_test.h"

#include <stdlib.h>

#define MAY(result) (1u << RESULT_##result)
/* The results that worker/perform.c can answer with. */
static const unsigned answers[ACTION_COUNT] = {
    [ACTION_POLL] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED),
    [ACTION_CHECK] = MAY(YES) | MAY(CHANGED) | MAY(REFUSED) | MAY(NEWER) | MAY(PAUSED) | MAY(UNKNOWN),
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
    [ACTION_LEAVE_QUEUE] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
    [ACTION_READ] = MAY(YES) | MAY(NO) | MAY(UNKNOWN) | MAY(REFUSED),
    [ACTION_DELETE] = MAY(YES) | MAY(UNKNOWN) | MAY(LEFT),
    [ACTION_RENEW] = MAY(YES) | MAY(NO) | MAY(UNKNOWN),
};

bool rig_may_answer(const struct action *action, enum result result)
{
  if (action->kind == ACTION_CLOSE && !action->write_close && (result == RESULT_NO_SPACE || result == RESULT_FAILED))
    return false; /* nothing is written, so nothing can fail */
  if (action->kind == ACTION_CLOSE && !action->commit.clean && (result == RESULT_NO || result == RESULT_UNKNOWN))
    return false;
  if (action->kind == ACTION_READ && result == RESULT_REFUSED)
    return action->begin; /* the database is checked before a pass */
  return (answers[action->kind] & 1u << result) != 0;
}

struct work_item *item_make(size_t ids, uint32_t messages, int64_t seq_last)
{
  struct work_item *item = work_item_new();
  assert_non_null(item);
  item->ids = calloc(ids, sizeof *item->ids);
  for (item->ids_count = 0; item->ids_count < ids; item->ids_count++)
    item->ids[item->ids_count] = bson_new();
  item->documents = messages;
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
  if (after->seq > rig->ledger.end.seq) {
    rig_assert(rig, commit->from == rig->ledger.from || commit->settled == rig->ledger.end.seq); /* what is to be settled lies in one */
    rig->ledger.from = commit->from;
  }
  rig->ledger.end = *after;
  if (commit->settled > rig->ledger.settled)
    rig->ledger.settled = commit->settled;
  rig->ledger.clean = rig->ledger.clean || commit->clean;
  rig->vouched = rig->vouched || commit->guarded;
}

/* Busy: in the wait queue, with a pause that ends with the lease at the latest. */
static void answer_acquire(struct rig *rig, const struct action *action, struct completion *completion)
{
  struct acquisition *mine = &completion->acquisition;
  int64_t pause_ms = action->acquisition.listens ? 1000 : 100;
  *mine = action->acquisition;
  if (action->kind == ACTION_LEAVE_QUEUE || (action->kind == ACTION_TAKE && completion->result == RESULT_YES))
    mine->queued = false;
  if (action->kind != ACTION_LOOK || completion->result == RESULT_UNKNOWN)
    return;
  mine->view = rig->view;
  if (!mine->drawn)
    for (size_t i = 0; i < OWNER_BYTES; i++)
      mine->owner.bytes[i] = (uint8_t)rig_random(rig, 256);
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
    completion->end = end_after(committed, rig->block_bytes, action->item->documents);
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
           (action->kind == ACTION_CLOSE && action->commit.clean))
    answer_commit(rig, &commit, &completion->end);
}

static void answer_read(struct rig *rig, struct completion *completion)
{
  completion->item = rig->names_document ? NULL : item_make(rig->item_ids, rig->item_messages, 0);
  if (completion->item != NULL)
    completion->item->source = rig->read_source;
}

static void answer_yes(struct rig *rig, const struct action *action, struct completion *completion)
{
  if (action->kind == ACTION_FENCE)
    answer_fence(rig, action, completion);
  else if (action->kind == ACTION_READ)
    answer_read(rig, completion);
  else if (action->kind == ACTION_SETTLE)
    rig->ledger.settled = completion->settled = settled_next(rig, action);
  else
    answer_committed(rig, action, completion);
}

void answer_fill(struct rig *rig, const struct action *action, struct completion *completion)
{
  completion->tail_next = !rig->nothing_read;
  completion->tail = action->tail && completion->tail_next;
  completion->item = action->item;
  if (action->kind == ACTION_READ) {
    completion->read_at = rig->read_at;
    rig->shared_over = completion->result == RESULT_NO && rig->read_source == SOURCE_SHARED;
  }
  completion->judged = action->judge;
  completion->missed_is_there = action->missed[0] != 0 && rig->late_files;
  if (action->kind == ACTION_CHECK && completion->result != RESULT_UNKNOWN) {
    completion->ledger = rig->ledger;
    completion->ledger.guarded = rig->vouched ? rig->ledger.epoch : 0;
  }
  answer_acquire(rig, action, completion);
  answer_written(rig, action, completion);
  completion->awaited = action->kind == ACTION_RENEW && completion->result == RESULT_YES && rig->awaited;
  if (completion->result == RESULT_YES)
    answer_yes(rig, action, completion);
  else if (completion->result != RESULT_NO)
    error_set(&completion->error, "%s came back %s", rig_kind_name(action->kind), rig_result_name(completion->result));
  if (rig->names_document)
    error_set(&completion->error, "a document cannot be taken");
  rig->names_document = false;
}
