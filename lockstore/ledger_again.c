#include "lockstore/ledger.h"

/*
 * A fence or a commit whose answer is not known: the ledger as the majority has it says what became of it. What it shows cannot be rolled
 * back. Only what it leaves open is sent once more, as it was.
 */

bool ledger_epoch_has_next(const char *type, int64_t epoch, struct error *error)
{
  if (epoch >= 0 && epoch <= LEDGER_EPOCH_MAX)
    return true;
  error_set(error, "no epoch of %s can follow on %lld: a ledger takes at most 2^59", type, (long long)epoch);
  return false;
}

static bool owner_is(const struct ledger *ledger, const struct owner *owner)
{
  return ledger->has_owner && memcmp(&ledger->owner, owner, sizeof *owner) == 0;
}

/* NO: the ledger was forgotten, or somebody has deleted it. The read is linearizable: a primary that was replaced may not know the ledger.
 */
static enum outcome read_older(struct lockstore *store, const char *doing, const char *type, enum outcome read, struct error *error)
{
  struct ledger now;
  if (read == OUTCOME_NO && ledger_read_now(store, type, &now, error) == OUTCOME_NO)
    return OUTCOME_NO;
  error_set(error, "%s: the ledger of %s is read as it was before, from a primary that was replaced", doing, type);
  return OUTCOME_UNKNOWN;
}

/* A repetition that matches nothing may have met its own first copy, which the majority does not have yet. */
static enum outcome fence_repeat(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error)
{
  enum outcome outcome = ledger_fence(store, type, epoch_seen, owner, fencer, before, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  error_set(error, "fencing: the ledger of %s has moved, and the majority does not have that yet", type);
  return OUTCOME_UNKNOWN;
}

/*
 * Makes *before, which was read after the fence, what the fence found: the fence has written over `clean` and `guarded`. An end that was
 * seen at that epoch, clean and not vouched for, is as it was: nothing was added since. Any other end that a local fence vouches for was
 * vouched for before, or had become clean; either way no write to it is under way.
 */
static void before_restore(struct ledger *before, const struct ledger *seen, enum fencer fencer)
{
  bool vouched = ledger_vouched(before), seen_vouched = ledger_vouched(seen);
  if (fencer == FENCER_LOCAL)
    vouched = vouched && (seen_vouched || !seen->clean);
  else if (fencer == FENCER_NETWORK)
    vouched = seen_vouched;
  /* Through which view the end was written is not known then: as if another machine had, so that a PAD comes first. */
  if (fencer == FENCER_LOCAL && vouched && !seen_vouched)
    before->machine[0] = 0;
  before->epoch = seen->epoch;
  before->guarded = vouched ? seen->epoch : 0;
  if (fencer != FENCER_READER)
    before->clean = seen->clean;
}

/*
 *   epoch e + 1, my owner       YES: what was there before is what is there now, but for `clean` and `guarded`
 *   epoch e                     the same request again
 *   e is 0; my owner            YES, whatever the epoch is: it follows on the floor
 *   below e                     UNKNOWN: a primary that was replaced
 *   no ledger, and none now     NO
 *   anything else               NO
 */
enum outcome ledger_fence_again(struct lockstore *store, const char *type, const struct ledger *seen, const struct owner *owner,
                                enum fencer fencer, struct ledger *before, struct error *error)
{
  int64_t epoch_seen = seen->epoch;
  enum outcome outcome = ledger_read(store, type, before, error);
  if (outcome == OUTCOME_UNKNOWN)
    return OUTCOME_UNKNOWN;
  if (outcome != OUTCOME_REFUSED && before->epoch == epoch_seen)
    return fence_repeat(store, type, epoch_seen, owner, fencer, before, error);
  if (outcome != OUTCOME_REFUSED && before->epoch < epoch_seen)
    outcome = read_older(store, "fencing", type, outcome, error);
  else if (outcome != OUTCOME_YES || (epoch_seen > 0 && before->epoch != epoch_seen + 1) || !owner_is(before, owner))
    outcome = OUTCOME_NO;
  if (outcome == OUTCOME_YES && epoch_seen > 0)
    before_restore(before, seen, fencer);
  else
    *before = (struct ledger){.epoch = outcome == OUTCOME_YES ? before->epoch - 1 : 0};
  return outcome;
}

static bool end_is(const struct ledger *ledger, const struct committed *end)
{
  return (ledger->end.file[0] == '\0') == (end->file[0] == '\0') && ledger->end.link == end->link;
}

/*
 *   epoch and owner mine, the new link      YES, if `settled` and `clean` say so too, where they are all that moves
 *                         the link before   the same request again
 *                         a third link      NO
 *   epoch below                             UNKNOWN: a primary that was replaced
 *   no ledger, and none now                 NO
 *   anything else                           NO
 */
enum outcome ledger_commit_again(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error)
{
  struct ledger ledger;
  enum outcome outcome = ledger_read(store, type, &ledger, error);
  if (outcome == OUTCOME_UNKNOWN)
    return OUTCOME_UNKNOWN;
  if (outcome != OUTCOME_REFUSED && ledger.epoch < commit->epoch)
    return read_older(store, "committing", type, outcome, error);
  if (outcome != OUTCOME_YES || ledger.epoch != commit->epoch || !owner_is(&ledger, &commit->owner))
    return OUTCOME_NO;
  bool moved = end_is(&ledger, &commit->after), open = end_is(&ledger, &commit->before);
  if (moved && ledger.settled >= commit->settled && (!commit->clean || ledger.clean))
    return OUTCOME_YES;
  return moved || open ? ledger_commit(store, type, commit, error) : OUTCOME_NO;
}
