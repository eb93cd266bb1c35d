#include "lock/attempt.h"
#include "lockstore/lease.h"
#include "lockstore/ledger.h"

enum {
  BACKOFF_MS = 100, /* pause after a request without an answer; doubles */
  BACKOFF_MS_MAX = 3000,
  LEAVE_TRIES_MAX = 3,
};

static void begin_anew(struct attempt *attempt)
{
  bool tries = attempt->lock.tries, listens = attempt->lock.listens;
  acquire_init(&attempt->lock, LOCK_BY_TOOL, attempt->lease_ms, attempt->retry_ms);
  attempt->lock.slots = attempt->slots;
  attempt->lock.tries = tries;
  attempt->lock.listens = listens;
  attempt->state = ATTEMPT_LOOKS;
  attempt->taken = attempt->sent = false;
  attempt->token = 0;
}

void attempt_init(struct attempt *attempt, const char *name, int slots, struct document_want *document, const struct lock_holder *holder,
                  int64_t lease_ms, int64_t retry_ms)
{
  *attempt =
      (struct attempt){.name = name, .slots = slots, .document = document, .holder = holder, .lease_ms = lease_ms, .retry_ms = retry_ms};
  begin_anew(attempt);
}

void attempt_leave(struct attempt *attempt)
{
  attempt->state = ATTEMPT_LEAVES;
  attempt->failures = 0;
}

/* Doubles, with up to a fifth more or less, so that many processes do not come back at one moment. */
static int64_t backoff(struct lockstore *store, int64_t failures)
{
  uint64_t random;
  int64_t ms = BACKOFF_MS;
  for (int64_t i = 1; i < failures && ms < BACKOFF_MS_MAX; i++)
    ms *= 2;
  ms = ms < BACKOFF_MS_MAX ? ms : BACKOFF_MS_MAX;
  lockstore_random(store, &random, sizeof random);
  return ms - ms / 5 + (int64_t)(random % (uint64_t)(2 * (ms / 5) + 1));
}

static bool too_late(const struct attempt *attempt, int64_t now_ms)
{
  return now_ms >= attempt->sent_ms + lease_safe_ms(attempt->lease_ms);
}

static enum attempt_result returns(struct attempt *attempt)
{
  attempt->state = ATTEMPT_RETURNS;
  return ATTEMPT_GOES_ON;
}

bool attempt_return_late(struct attempt *attempt, int64_t now_ms)
{
  if (too_late(attempt, now_ms))
    attempt->state = ATTEMPT_RETURNS;
  return attempt->state == ATTEMPT_RETURNS;
}

/* ---- the steps ---- */

/*
 * The epoch is read before the insert: otherwise a process that was overtaken after its insert could fence the new holder. The releasing
 * holder may have sent it with the wake-up; a wrong one fences no process.
 */
static enum outcome read_epoch(struct attempt *attempt, struct lockstore *store, int64_t told, struct error *error)
{
  struct ledger ledger = {.epoch = told};
  enum outcome outcome = told == 0 ? ledger_read(store, attempt->name, &ledger, error) : OUTCOME_YES;
  outcome = ledger_moved(outcome, attempt->name, &ledger, error);
  attempt->seen_epoch = ledger.epoch;
  attempt->found_slots = ledger.slots;
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome; /* no ledger is epoch 0 */
}

static enum attempt_result take(struct attempt *attempt, struct lockstore *store, int64_t now_ms, int64_t *pause_ms, struct error *error)
{
  attempt->sent_ms = now_ms;
  attempt->refused_by = ATTEMPT_BY_LOCK;
  enum outcome outcome = acquire_take(store, attempt->name, &attempt->lock, attempt->holder, error);
  *pause_ms = attempt->lock.pause_ms;
  attempt->taken = outcome != OUTCOME_NO;
  switch (outcome) {
  case OUTCOME_YES:
    attempt->state = ATTEMPT_FENCES;
    attempt->sent = false;
    return ATTEMPT_GOES_ON;
  case OUTCOME_NO:
    return ATTEMPT_WAITS;
  case OUTCOME_UNKNOWN:
    attempt->state = ATTEMPT_RETURNS;
    return ATTEMPT_UNKNOWN;
  case OUTCOME_REFUSED:
    break;
  }
  return ATTEMPT_REFUSED;
}

static enum attempt_result of_outcome(enum outcome outcome)
{
  return outcome == OUTCOME_UNKNOWN ? ATTEMPT_UNKNOWN : outcome == OUTCOME_NO ? ATTEMPT_WAITS : ATTEMPT_REFUSED;
}

/* So that no process waits for what it will never get. */
static enum attempt_result check_slots(struct attempt *attempt, struct lockstore *store, struct error *error)
{
  struct ledger ledger = {.epoch = 0};
  enum outcome outcome = attempt->checked ? OUTCOME_NO : ledger_read(store, attempt->name, &ledger, error);
  attempt->refused_by = ATTEMPT_BY_LEDGER;
  attempt->checked = attempt->checked || outcome == OUTCOME_YES;
  attempt->found_slots = ledger.slots;
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
    return of_outcome(outcome);
  return outcome == OUTCOME_YES && ledger.slots != (attempt->slots == 1 ? 0 : attempt->slots) ? ATTEMPT_MISMATCH : ATTEMPT_WAITS;
}

/* A wake-up does not say which slot is free. */
static enum attempt_result step_look(struct attempt *attempt, struct lockstore *store, const struct wakeup *woken, int64_t now_ms,
                                     int64_t *pause_ms, struct error *error)
{
  bool mutex = attempt->slots == 1, told = woken != NULL && mutex;
  enum outcome outcome = told ? OUTCOME_YES : acquire_look(store, attempt->name, &attempt->lock, attempt->holder, error);
  *pause_ms = attempt->lock.pause_ms;
  attempt->refused_by = outcome == OUTCOME_YES ? ATTEMPT_BY_LEDGER : ATTEMPT_BY_LOCK;
  if (outcome == OUTCOME_YES && mutex)
    outcome = read_epoch(attempt, store, told ? woken->epoch : 0, error);
  if (outcome == OUTCOME_NO)
    return check_slots(attempt, store, error);
  if (outcome != OUTCOME_YES)
    return of_outcome(outcome);
  if (mutex && attempt->found_slots != 0)
    return ATTEMPT_MISMATCH;
  return take(attempt, store, now_ms, pause_ms, error);
}

static enum outcome fence(struct attempt *attempt, struct lockstore *store, struct error *error)
{
  struct ledger before, seen = {.epoch = attempt->seen_epoch};
  enum outcome outcome = attempt->sent
                             ? ledger_fence_again(store, attempt->name, &seen, &attempt->lock.owner, FENCER_READER, &before, error)
                             : ledger_fence(store, attempt->name, seen.epoch, &attempt->lock.owner, FENCER_READER, &before, error);
  attempt->sent = true;
  attempt->token = outcome == OUTCOME_YES ? before.epoch + 1 : 0;
  return outcome;
}

/* Of slots it is drawn after the insert: so the tokens of a slot rise in the order of its holders. */
static enum attempt_result step_token(struct attempt *attempt, struct lockstore *store, int64_t now_ms, struct error *error)
{
  bool mutex = attempt->slots == 1;
  attempt->refused_by = ATTEMPT_BY_LEDGER;
  if (too_late(attempt, now_ms))
    return returns(attempt);
  enum outcome outcome =
      mutex ? fence(attempt, store, error)
            : ledger_draw(store, attempt->name, attempt->slots, &attempt->lock.owner, &attempt->token, &attempt->found_slots, error);
  if (outcome == OUTCOME_NO)
    return mutex ? returns(attempt) : ATTEMPT_MISMATCH;
  if (outcome != OUTCOME_YES)
    return of_outcome(outcome);
  attempt->state = ATTEMPT_CONFIRMS;
  return ATTEMPT_GOES_ON;
}

/* The document that is, or may be, there; then the entry in the wait queue. The next take has another owner, so a late copy of this one
 * takes nothing. */
static enum attempt_result step_back(struct attempt *attempt, struct lockstore *store, struct error *error)
{
  bool leaves = attempt->state == ATTEMPT_LEAVES;
  enum outcome outcome = OUTCOME_YES;
  if (attempt->taken)
    outcome = acquire_release(store, attempt->name, &attempt->lock, attempt->slots == 1 ? attempt->token : 0, error);
  if (outcome == OUTCOME_UNKNOWN)
    return leaves && attempt->failures + 1 >= LEAVE_TRIES_MAX ? ATTEMPT_LEFT : ATTEMPT_UNKNOWN;
  attempt->taken = false;
  if (attempt->lock.queued)
    outcome = acquire_leave(store, attempt->name, &attempt->lock, true, error); /* otherwise the entry expires */
  begin_anew(attempt);
  return leaves ? ATTEMPT_LEFT : ATTEMPT_GOES_ON;
}

/*
 * A fail-over between insert and fence may have undone the insert, and the fence alone does not keep another process from inserting. The
 * server that acknowledged the fence is the newest primary.
 */
static enum attempt_result step_confirm(struct attempt *attempt, struct lockstore *store, int64_t now_ms, struct error *error)
{
  struct lock_view *view = &attempt->lock.view;
  struct error ignored;
  if (too_late(attempt, now_ms))
    return returns(attempt);
  enum outcome outcome = lock_read(store, attempt->name, attempt->lock.slot, view, error);
  if (outcome == OUTCOME_UNKNOWN) {
    attempt->state = ATTEMPT_RETURNS; /* at once: others may have an answer */
    (void)step_back(attempt, store, &ignored);
    return ATTEMPT_UNKNOWN;
  }
  bool mine = outcome == OUTCOME_YES && memcmp(&view->owner, &attempt->lock.owner, sizeof view->owner) == 0;
  return mine && !view->stealable ? ATTEMPT_HELD : returns(attempt);
}

/* ---- a document: one step ---- */

/* A tenth of a second at first, up to one; half to all of it. */
static int64_t document_pause(struct attempt *attempt, struct lockstore *store)
{
  enum { PAUSE_MS = 100, PAUSE_MS_MAX = 1000 };
  uint32_t random;
  int64_t ms = attempt->looks < 4 ? (int64_t)PAUSE_MS << attempt->looks : PAUSE_MS_MAX;
  attempt->looks++;
  lockstore_random(store, &random, sizeof random);
  return ms / 2 + (int64_t)(random % (uint64_t)(ms / 2 + 1));
}

static bool is_by_id(const bson_t *filter)
{
  return bson_has_field(filter, "_id");
}

/*
 * Without an answer one may be locked. If the filter names it, the same owner takes it again; otherwise a repetition could lock a second
 * one, so it is another owner's, and the first comes free by its lease.
 */
static enum attempt_result step_document(struct attempt *attempt, struct lockstore *store, int64_t now_ms, int64_t *pause_ms,
                                         struct error *error)
{
  struct document_want *want = attempt->document;
  attempt->sent_ms = now_ms;
  enum outcome outcome = document_take(store, &want->place, &want->filter, want->sorted ? &want->sort : NULL, &attempt->lock.owner,
                                       attempt->lease_ms, &want->document, &attempt->token, error);
  want->taken = outcome == OUTCOME_YES;
  if (outcome == OUTCOME_YES)
    return ATTEMPT_HELD;
  if (outcome == OUTCOME_UNKNOWN && !is_by_id(&want->filter))
    begin_anew(attempt);
  if (outcome == OUTCOME_NO)
    *pause_ms = document_pause(attempt, store);
  return of_outcome(outcome);
}

/* It may have been locked after it was given up. */
static enum attempt_result document_back(struct attempt *attempt, struct lockstore *store, struct error *error)
{
  struct document_want *want = attempt->document;
  const struct document_hold hold = {.place = want->place, .id = &want->document, .owner = attempt->lock.owner, .token = attempt->token};
  bool leaves = attempt->state == ATTEMPT_LEAVES;
  enum outcome outcome = want->taken ? document_release(store, &hold, error) : OUTCOME_YES;
  if (outcome == OUTCOME_UNKNOWN)
    return leaves && attempt->failures + 1 >= LEAVE_TRIES_MAX ? ATTEMPT_LEFT : ATTEMPT_UNKNOWN;
  if (leaves)
    return ATTEMPT_LEFT;
  if (want->taken)
    bson_destroy(&want->document);
  want->taken = false;
  begin_anew(attempt);
  return ATTEMPT_GOES_ON;
}

int64_t attempt_pause_ms(struct attempt *attempt, struct lockstore *store)
{
  return backoff(store, ++attempt->failures);
}

static enum attempt_result step(struct attempt *attempt, struct lockstore *store, const struct wakeup *woken, int64_t now_ms,
                                int64_t *pause_ms, struct error *error)
{
  switch (attempt->state) {
  case ATTEMPT_LOOKS:
    return attempt->document != NULL ? step_document(attempt, store, now_ms, pause_ms, error)
                                     : step_look(attempt, store, woken, now_ms, pause_ms, error);
  case ATTEMPT_FENCES:
    return step_token(attempt, store, now_ms, error);
  case ATTEMPT_CONFIRMS:
    return step_confirm(attempt, store, now_ms, error);
  case ATTEMPT_RETURNS:
  case ATTEMPT_LEAVES:
    break;
  }
  return attempt->document != NULL ? document_back(attempt, store, error) : step_back(attempt, store, error);
}

enum attempt_result attempt_step(struct attempt *attempt, struct lockstore *store, const struct wakeup *woken, int64_t now_ms,
                                 int64_t *pause_ms, struct error *error)
{
  enum attempt_result result = step(attempt, store, woken, now_ms, pause_ms, error);
  if (result == ATTEMPT_UNKNOWN)
    *pause_ms = attempt_pause_ms(attempt, store);
  else
    attempt->failures = 0;
  return result;
}
