#include "tools/setup/hold.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"
#include "tools/turn.h"
#include "worker/clock.h"

#include <inttypes.h>

enum { LEASE_MS = 60000, RENEW_MS = 10000 };

#define OWNER(hold) BCON_BIN(BSON_SUBTYPE_BINARY, (hold)->lock.owner.bytes, OWNER_BYTES)

/* The epoch was read before the lock was inserted. NO: somebody else is the holder by now. */
static enum outcome fence(struct hold *hold, const struct ledger *seen, struct error *error)
{
  enum { TRIES_MAX = 5 };
  enum outcome outcome = ledger_fence(hold->store, hold->type, seen->epoch, &hold->lock.owner, FENCER_READER, &hold->ledger, error);
  for (int tries = 1; outcome == OUTCOME_UNKNOWN && tries < TRIES_MAX; tries++)
    outcome = ledger_fence_again(hold->store, hold->type, seen, &hold->lock.owner, FENCER_READER, &hold->ledger, error);
  if (outcome == OUTCOME_YES)
    hold->epoch = hold->ledger.epoch + 1;
  return outcome;
}

/* One attempt. NO: another was faster. */
static enum outcome take(struct hold *hold, bool fences, struct error *error)
{
  struct ledger seen = {.epoch = 0};
  enum outcome read = fences ? ledger_read(hold->store, hold->type, &seen, error) : OUTCOME_YES;
  read = ledger_moved(read, hold->type, &seen, error);
  if (read == OUTCOME_UNKNOWN || read == OUTCOME_REFUSED)
    return read;
  hold->renewed_ms = clock_boot_ms();
  enum outcome outcome = acquire_take(hold->store, hold->type, &hold->lock, &hold->holder, error);
  if (outcome == OUTCOME_YES && fences)
    outcome = fence(hold, &seen, error);
  else if (outcome != OUTCOME_UNKNOWN)
    return outcome;
  if (outcome == OUTCOME_YES)
    return outcome;
  struct error reason = *error;
  hold_release(hold);
  acquire_draw(hold->store, &hold->lock); /* a late release must not delete the next lock */
  *error = reason;
  return outcome;
}

static void name_holder(const struct hold *hold, struct error *error)
{
  const struct lock_view *view = &hold->lock.view;
  if (view->left_ms > 0)
    error_set(error, "%s is held by %s, pid %" PRId64 ", which has not released it in time", hold->type,
              lock_holder_show(&view->holder).text, view->holder.pid);
  else
    error_set(error, "%s: other processes wait for its lock, and were faster", hold->type);
}

enum outcome hold_take(struct hold *hold, struct lockstore *store, const char *type, bool fences, int64_t until_ms, struct error *error)
{
  struct error ignored;
  *hold = (struct hold){.store = store, .type = type};
  lock_holder_self(&hold->holder, LOCK_BY_TOOL, "pawl-setup " PAWL_VERSION);
  acquire_init(&hold->lock, LOCK_BY_TOOL, LEASE_MS, TURN_RETRY_MS);
  struct turn turn = {
      .store = store, .type = type, .lock = &hold->lock, .holder = &hold->holder, .patience = TURN_UNTIL, .until_ms = until_ms};
  enum outcome outcome;
  do {
    outcome = turn_wait(&turn, error);
    if (outcome == OUTCOME_YES)
      outcome = take(hold, fences, error);
  } while (outcome == OUTCOME_NO && clock_boot_ms() < until_ms);
  if (outcome == OUTCOME_YES)
    return outcome;
  if (outcome == OUTCOME_NO)
    name_holder(hold, error);
  if (acquire_leave(store, type, &hold->lock, true, &ignored) != OUTCOME_YES) {
    /* Its entry in the wait queue expires. */
  }
  return outcome;
}

bool hold_settled(const struct hold *hold, struct error *error)
{
  const struct ledger *ledger = &hold->ledger;
  if (ledger->settled == ledger->end.seq)
    return true;
  error_set(error,
            "%s is not settled: seq %" PRId64 " to %" PRId64
            " are in the file, and their deletes are not acknowledged yet; let a worker of this type settle them first",
            hold->type, ledger->settled + 1, ledger->end.seq);
  return false;
}

enum outcome hold_renew(struct hold *hold, struct error *error)
{
  if (clock_boot_ms() - hold->renewed_ms < RENEW_MS)
    return OUTCOME_YES;
  hold->renewed_ms = clock_boot_ms();
  enum outcome outcome = lock_renew(hold->store, hold->type, 0, &hold->lock.owner, LEASE_MS, error);
  if (outcome == OUTCOME_NO)
    error_set(error, "the lock of %s was lost", hold->type);
  return outcome;
}

static void note_end(void *context, const bson_t *document)
{
  if (!document_date(document, "expires_at", context))
    *(int64_t *)context = 0;
}

enum outcome hold_end(struct hold *hold, int64_t *end_ms, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(hold->store);
  enum outcome outcome = hold_renew(hold, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  bson_t *command = BCON_NEW("find", "locks", "filter", "{", "type", BCON_UTF8(hold->type), "slot", BCON_INT32(0), "owner", OWNER(hold),
                             "}", "projection", "{", "expires_at", BCON_INT32(1), "}", "singleBatch", BCON_BOOL(true));
  *end_ms = 0;
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  outcome = mongo_find(mongo, "reading the lock", command, note_end, end_ms, error);
  bson_destroy(command);
  if (outcome != OUTCOME_YES || *end_ms > 0)
    return outcome;
  error_set(error, "the lock of %s was lost", hold->type);
  return OUTCOME_NO;
}

bson_t *hold_renewal(const struct hold *hold)
{
  return BCON_NEW("update", "locks", "updates", "[", "{", "q", "{", "type", BCON_UTF8(hold->type), "slot", BCON_INT32(0), "owner",
                  OWNER(hold), "$expr", "{", "$gt", "[", BCON_UTF8("$expires_at"), BCON_UTF8("$$NOW"), "]", "}", "}", "u", "[", "{", "$set",
                  "{", "expires_at", "{", "$add", "[", BCON_UTF8("$$NOW"), BCON_INT64(LEASE_MS), "]", "}", "}", "}", "]", "}", "]");
}

void hold_release(struct hold *hold)
{
  struct error ignored;
  if (acquire_release(hold->store, hold->type, &hold->lock, hold->epoch, &ignored) == OUTCOME_UNKNOWN) {
    /* Its lease ends within a minute. */
  }
}
