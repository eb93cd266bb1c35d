#include "tools/setup/own.h"
#include "lockstore/ledger.h"
#include "lockstore/mongo.h"
#include "lockstore/own_collection.h"
#include "lockstore/queue_name.h"
#include "lockstore/wakeup.h"
#include "tools/patience.h"
#include "tools/setup/hold.h"
#include "tools/turn.h"
#include "worker/clock.h"

#include <inttypes.h>

/*
 * There: the collection is made, then the ledger says so, in one step that raises the epoch; one that was closed is opened after that.
 * *Opened before:* a producer that was not told inserts into it, and if this program dies, no worker reads it. Killed in between it leaves
 * a collection that nothing uses, or a closed one of a type that has it.
 *
 * Back: under an epoch of its own the collection is closed, then looked at, then the ledger changes. *Looked at without being closed:* a
 * producer inserts a message after the look, and nobody reads it. Killed in between it leaves a closed collection of a type that still has
 * it: producers wait or get errors, and either call repairs that.
 *
 * Each run ends when it has seen ledger and collection agree (own_agree).
 */

enum { LEASE_MS = 60000, TRIES_MS = 15000 };

static enum own_status of_outcome(enum outcome outcome)
{
  return outcome == OUTCOME_REFUSED ? OWN_REFUSED : OWN_UNAVAILABLE;
}

static void tell(const struct own *own, const struct error *text)
{
  own->tell(own->context, text->text);
}

/* YES, or NO: there is none. */
static enum own_status read_ledger(const struct own *own, struct ledger *ledger, struct error *error)
{
  enum outcome outcome = ledger_read(own->store, own->type, ledger, error);
  if (outcome == OUTCOME_UNKNOWN)
    return OWN_UNAVAILABLE;
  if (outcome == OUTCOME_REFUSED)
    return OWN_UNTRUSTED;
  if (ledger_moved(outcome, own->type, ledger, error) == OUTCOME_REFUSED)
    return OWN_REFUSED;
  if (ledger->slots == 0)
    return OWN_DONE;
  error_set(error, "%s is a lock with %d slots, and no type", own->type, ledger->slots);
  return OWN_REFUSED;
}

/* The workers poll, too. */
static void wake(const struct own *own)
{
  struct error ignored;
  if (wakeup_send(own->store, own->type, WAKEUP_MESSAGE, NULL, 0, &ignored) != OUTCOME_YES)
    return;
}

/* A right that is lacking does not come by waiting. */
static bool may_come(enum own_status status, const struct error *error)
{
  return status == OWN_UNAVAILABLE && error->reason != ERROR_RIGHT;
}

/* ---- the collection as the ledger says ---- */

static enum own_status close_it(const struct own *own, struct error *error)
{
  enum outcome outcome = own_collection_close(own->store, own->type, error);
  return outcome == OUTCOME_YES ? OWN_DONE : of_outcome(outcome);
}

/* In a new epoch: another run that has closed it, and seen it empty, cannot take it away any more. */
static enum own_status open_it(const struct own *own, const struct owner *owner, const struct ledger *ledger, struct error *error)
{
  struct ledger before;
  enum outcome outcome = ledger_own_begin(own->store, own->type, ledger->epoch, owner, &before, error);
  if (outcome == OUTCOME_REFUSED)
    return OWN_UNTRUSTED;
  if (outcome == OUTCOME_YES)
    outcome = own_collection_open(own->store, own->type, error);
  return outcome == OUTCOME_YES || outcome == OUTCOME_NO ? OWN_DONE : of_outcome(outcome);
}

/* A message may have come while it was open, and no worker looks there: then the type has it again. */
static enum own_status empty_or_begin(const struct own *own, const struct owner *owner, const struct ledger *ledger, bool *changed,
                                      struct error *error)
{
  enum outcome outcome = own_collection_is_empty(own->store, own->type, error);
  *changed = outcome == OUTCOME_NO;
  if (outcome == OUTCOME_NO)
    return open_it(own, owner, ledger, error);
  return outcome == OUTCOME_YES ? OWN_DONE : of_outcome(outcome);
}

/*
 * Below *least_epoch the ledger is an older one, which a new primary may show for a moment; or it is the one to which a request that got no
 * answer may still apply, and then a new epoch keeps that from it.
 */
static enum own_status agree_once(const struct own *own, const struct owner *owner, int64_t *least_epoch, struct ledger *ledger,
                                  bool *changed, struct error *error)
{
  struct own_collection collection;
  *changed = false;
  enum own_status status = read_ledger(own, ledger, error);
  if (status != OWN_DONE)
    return status;
  bool older = ledger->epoch < *least_epoch;
  *changed = older;
  if (older && !ledger->own)
    return OWN_DONE;
  *least_epoch = older ? *least_epoch : ledger->epoch;
  enum outcome outcome = own_collection_look(own->store, own->type, &collection, error);
  if (outcome == OUTCOME_NO && ledger->own) {
    error_set(error, "the collection %s is gone again", queue_name_of(own->type, SOURCE_OWN).text);
    return OWN_BUSY;
  }
  if (outcome != OUTCOME_YES)
    return outcome == OUTCOME_NO ? OWN_DONE : of_outcome(outcome);
  if (!ledger->own && collection.closed)
    return empty_or_begin(own, owner, ledger, changed, error);
  *changed = older || ledger->own == collection.closed;
  if (!*changed)
    return OWN_DONE;
  return ledger->own ? open_it(own, owner, ledger, error) : close_it(own, error);
}

/*
 * Neither lock nor epoch keeps a late collMod from a collection. So a run that may have opened or closed one goes on until it has seen it
 * as the ledger says.
 */
enum own_status own_agree(const struct own *own, const struct owner *owner, int64_t least_epoch, struct ledger *ledger, struct error *error)
{
  int64_t until_ms = clock_boot_ms() + TRIES_MS;
  for (;;) {
    bool changed;
    enum own_status status = agree_once(own, owner, &least_epoch, ledger, &changed, error);
    if (status == OWN_DONE ? !changed : !may_come(status, error))
      return status;
    if (clock_boot_ms() >= until_ms) {
      if (status == OWN_DONE)
        error_set(error, "the ledger of %s moves again and again; run it again", own->type);
      return status == OWN_DONE ? OWN_BUSY : status;
    }
    turn_rest();
  }
}

/* ---- there ---- */

static void explain_documents(const struct own *own, struct error *error)
{
  error_set(error,
            "the collection %s.%s is there already and holds documents, so it may be somebody else's (GridFS has such collections): it is "
            "left as it is. If they are messages of %s, whose ledger was removed, give --yes, too: its workers will write them, and delete "
            "them",
            mongo_db(lockstore_mongo(own->store)), queue_name_of(own->type, SOURCE_OWN).text, own->type);
}

/* `mine`: the ledger says that it is the type's. A closed one was the type's before; of another one the operator may say so. */
static enum own_status collection_ready(const struct own *own, bool mine, bool *closed, struct error *error)
{
  struct own_collection collection;
  enum outcome outcome = own_collection_look(own->store, own->type, &collection, error);
  *closed = outcome == OUTCOME_YES && collection.closed;
  if (outcome == OUTCOME_NO) {
    outcome = own_collection_make(own->store, own->type, error);
    return outcome == OUTCOME_YES ? OWN_DONE : of_outcome(outcome);
  }
  mine = mine || collection.closed || own->yes;
  if (outcome == OUTCOME_YES && !mine && (outcome = own_collection_is_empty(own->store, own->type, error)) == OUTCOME_NO) {
    explain_documents(own, error);
    return OWN_REFUSED;
  }
  return outcome == OUTCOME_YES ? OWN_DONE : of_outcome(outcome);
}

/* After its lease the type is switched all the same: the fence keeps a holder that is frozen from the file. */
static bool lock_in_time(const struct own *own, struct acquisition *lock)
{
  struct lock_holder holder;
  struct error why, text;
  struct turn turn = {.store = own->store, .type = own->type, .lock = lock, .holder = &holder, .patience = TURN_LEASE};
  turn.began_ms = clock_boot_ms();
  lock_holder_self(&holder, LOCK_BY_TOOL, "pawl-setup --own-collection");
  acquire_init(lock, LOCK_BY_TOOL, LEASE_MS, TURN_RETRY_MS);
  error_set(&text, "pawl-setup: waiting for the holder of %s to finish its block\n", own->type);
  patience_begin(text.text);
  enum outcome outcome = turn_take(&turn, &why);
  patience_end();
  if (outcome == OUTCOME_YES)
    return true;
  error_set(&text, "%s: %s: going on without the lock%s%.600s", own->type, turn_failure(outcome), why.text[0] ? ": " : "", why.text);
  tell(own, &text);
  return false;
}

/* What gets no answer is judged by the next reading. */
static enum own_status ledger_begin(const struct own *own, const struct owner *owner, struct ledger *ledger, struct error *error)
{
  int64_t until_ms = clock_boot_ms() + TRIES_MS;
  for (;;) {
    struct ledger before;
    enum own_status status = read_ledger(own, ledger, error);
    if (status == OWN_REFUSED || status == OWN_UNTRUSTED || (status == OWN_DONE && ledger->own))
      return status;
    enum outcome outcome =
        status == OWN_DONE ? ledger_own_begin(own->store, own->type, ledger->epoch, owner, &before, error) : OUTCOME_UNKNOWN;
    if (outcome == OUTCOME_REFUSED)
      return OWN_UNTRUSTED;
    if (outcome == OUTCOME_YES)
      continue; /* it reads what it has written */
    if (clock_boot_ms() >= until_ms || (outcome == OUTCOME_UNKNOWN && error->reason == ERROR_RIGHT)) {
      if (outcome == OUTCOME_NO)
        error_set(error, "the ledger of %s moves again and again; run it again", own->type);
      return outcome == OUTCOME_NO ? OWN_BUSY : OWN_UNAVAILABLE;
    }
    turn_rest();
  }
}

static enum own_status begin_under_lock(const struct own *own, struct error *error)
{
  struct acquisition lock;
  struct error text;
  struct ledger ledger;
  bool locked = lock_in_time(own, &lock);
  enum own_status status = ledger_begin(own, &lock.owner, &ledger, error);
  if (status == OWN_DONE)
    status = own_agree(own, &lock.owner, ledger.epoch, &ledger, error);
  if (status == OWN_DONE && !ledger.own) {
    error_set(error, "another pawl-setup has given %s back to the shared collection meanwhile", own->type);
    status = OWN_BUSY;
  }
  if (locked && acquire_release(own->store, own->type, &lock, status == OWN_DONE ? ledger.epoch : 0, &text) == OUTCOME_UNKNOWN) {
    /* The lease ends by itself. */
  }
  if (status != OWN_DONE)
    return status;
  wake(own);
  error_set(&text, "%s: has its own collection %s now, at epoch %" PRId64 ": producers insert there from now on%s", own->type,
            queue_name_of(own->type, SOURCE_OWN).text, ledger.epoch,
            ledger.end.file[0] == '\0' ? ". It has no file yet: is the name right?" : "");
  tell(own, &text);
  return OWN_DONE;
}

enum own_status own_begin(const struct own *own, struct error *error)
{
  struct ledger ledger;
  struct error text;
  bool closed;
  enum own_status status = read_ledger(own, &ledger, error);
  if (status == OWN_DONE)
    status = collection_ready(own, ledger.own, &closed, error);
  if (status == OWN_DONE && (!ledger.own || closed))
    return begin_under_lock(own, error);
  if (status != OWN_DONE)
    return status;
  error_set(&text, "%s: has its own collection %s already", own->type, queue_name_of(own->type, SOURCE_OWN).text);
  tell(own, &text);
  return OWN_DONE;
}

/* ---- back ---- */

static enum own_status empty(const struct own *own, struct error *error)
{
  enum outcome outcome = own_collection_is_empty(own->store, own->type, error);
  if (outcome != OUTCOME_NO)
    return outcome == OUTCOME_YES ? OWN_DONE : of_outcome(outcome);
  error_set(error, "%s still holds documents: stop the producers of the type, let the workers write the rest, and run it again",
            queue_name_of(own->type, SOURCE_OWN).text);
  return OWN_BUSY;
}

/* Whether it is there, and may be closed. A missing one is not taken for empty: it may have been renamed. */
static enum own_status look(const struct own *own, bool *closed, struct error *error)
{
  struct own_collection collection;
  enum outcome outcome = own_collection_look(own->store, own->type, &collection, error);
  const struct queue_name name = queue_name_of(own->type, SOURCE_OWN);
  *closed = outcome == OUTCOME_YES && collection.closed;
  if (outcome == OUTCOME_YES && !collection.validated)
    return OWN_DONE;
  if (outcome == OUTCOME_YES)
    error_set(error, "%s has a validator, in whose place pawl-setup would put another: remove it first", name.text);
  else if (outcome == OUTCOME_NO)
    error_set(error, "%s is missing: if it was renamed, give it its name again; else pawl-setup makes it again, empty", name.text);
  else
    return of_outcome(outcome);
  return OWN_REFUSED;
}

/* What gets no answer is judged by the ledger. */
static enum own_status ledger_end(const struct own *own, struct hold *hold, struct error *error)
{
  int64_t until_ms = clock_boot_ms() + TRIES_MS;
  struct ledger before, now;
  enum outcome outcome = ledger_own_end(own->store, own->type, hold->epoch, &hold->lock.owner, &before, error);
  while (outcome == OUTCOME_UNKNOWN && clock_boot_ms() < until_ms) {
    turn_rest();
    outcome = ledger_read(own->store, own->type, &now, error);
    if (outcome == OUTCOME_YES && !now.own)
      break;
    if (outcome == OUTCOME_YES || outcome == OUTCOME_NO)
      outcome = ledger_own_end(own->store, own->type, hold->epoch, &hold->lock.owner, &before, error);
  }
  if (outcome == OUTCOME_YES)
    hold->epoch++;
  if (outcome != OUTCOME_NO)
    return outcome == OUTCOME_YES ? OWN_DONE : outcome == OUTCOME_REFUSED ? OWN_UNTRUSTED : OWN_UNAVAILABLE;
  error_set(error, "the lock of %s was lost, and others are at work; run it again", own->type);
  return OWN_BUSY;
}

static enum own_status end_steps(const struct own *own, struct hold *hold, struct error *error)
{
  if (!hold_settled(hold, error))
    return OWN_BUSY;
  enum own_status status = close_it(own, error);
  if (status == OWN_DONE)
    status = empty(own, error);
  return status == OWN_DONE ? ledger_end(own, hold, error) : status;
}

/* Whatever became of the steps: also one that another run has left closed is opened again. */
static enum own_status end_under_lock(const struct own *own, struct hold *hold, struct error *error)
{
  struct ledger ledger;
  struct error text;
  enum own_status status = end_steps(own, hold, error);
  int64_t least_epoch = hold->epoch + (status == OWN_UNAVAILABLE); /* its last request may still come */
  enum own_status agreed = own_agree(own, &hold->lock.owner, least_epoch, &ledger, &text);
  hold->epoch = agreed == OWN_DONE ? ledger.epoch : 0;
  if (agreed == OWN_DONE && !ledger.own)
    return OWN_DONE;
  if (status == OWN_DONE && agreed == OWN_DONE) {
    error_set(error, "%s has its own collection again: a message, or another pawl-setup, came meanwhile; run it again", own->type);
    return OWN_BUSY;
  }
  if (status == OWN_DONE) {
    *error = text;
    return agreed;
  }
  if (agreed != OWN_DONE) {
    struct error why = text;
    error_set(&text, "%s: its collection may refuse inserts (%.600s): pawl-setup --type %s --own-collection ends that", own->type, why.text,
              own->type);
    tell(own, &text);
  }
  return status;
}

static enum own_status take_and_end(const struct own *own, struct error *error)
{
  struct hold hold;
  struct error text;
  int64_t until_ms = own->wait_ms < 0 ? INT64_MAX : clock_boot_ms() + own->wait_ms;
  error_set(&text, "pawl-setup: waiting for the holder of %s to finish its block\n", own->type);
  patience_begin(text.text);
  enum outcome outcome = hold_take(&hold, own->store, own->type, true, until_ms, error);
  patience_end();
  if (outcome != OUTCOME_YES)
    return outcome == OUTCOME_NO ? OWN_BUSY : outcome == OUTCOME_REFUSED ? OWN_UNTRUSTED : OWN_UNAVAILABLE;
  enum own_status status = end_under_lock(own, &hold, error);
  hold_release(&hold);
  return status;
}

/* A run that was killed may have closed it with a message in it, which came while it was open: then the type has it again. */
static enum own_status shared_already(const struct own *own, struct error *error)
{
  struct owner owner;
  struct ledger ledger;
  struct error text;
  struct own_collection collection;
  enum outcome outcome = own_collection_look(own->store, own->type, &collection, error);
  if (outcome == OUTCOME_UNKNOWN)
    return OWN_UNAVAILABLE;
  if (outcome == OUTCOME_YES && !collection.closed && own_collection_is_empty(own->store, own->type, error) == OUTCOME_NO) {
    error_set(&text,
              "%s: the collection %s is there, open, and has documents, which no worker reads. If they are messages of %s: pawl-setup "
              "--type %s --own-collection --yes",
              own->type, queue_name_of(own->type, SOURCE_OWN).text, own->type, own->type);
    tell(own, &text);
  }
  if (outcome == OUTCOME_YES && collection.closed) { /* an open one may be another program's */
    lockstore_random(own->store, &owner, sizeof owner);
    enum own_status status = own_agree(own, &owner, 0, &ledger, error);
    if (status != OWN_DONE)
      return status;
    if (ledger.own) {
      error_set(error, "%s has its own collection again: a message was left in it; run it again", own->type);
      return OWN_BUSY;
    }
  }
  error_set(&text, "%s: uses the shared collection messages already", own->type);
  tell(own, &text);
  return OWN_DONE;
}

enum own_status own_end(const struct own *own, struct error *error)
{
  struct ledger ledger;
  struct error text;
  bool closed;
  enum own_status status = read_ledger(own, &ledger, error);
  if (status == OWN_DONE && !ledger.own)
    return shared_already(own, error);
  if (status == OWN_DONE)
    status = look(own, &closed, error);
  if (status == OWN_DONE && !closed)
    status = empty(own, error); /* so that no producer gets an error in vain */
  if (status == OWN_DONE)
    status = take_and_end(own, error);
  if (status != OWN_DONE)
    return status;
  wake(own);
  error_set(&text, "%s: uses the shared collection messages again. %s stays, empty, and refuses inserts", own->type,
            queue_name_of(own->type, SOURCE_OWN).text);
  tell(own, &text);
  return OWN_DONE;
}
