#include "lockstore/ledger_requests.h"

/*
 * Tokens of a name never go back, although the ledgers of unused names are removed. Shared by the real lockstore and its twin.
 *
 *   the end     the floor is raised to the epochs of those ledgers; then they are deleted
 *   the first   a ledger without an epoch is inserted, under a number that no other ever has; then the floor is read, by a server that
 *               has this ledger; then that very ledger gets the epoch after the floor
 *
 * *Floor after the delete:* in between a first epoch is made from the old floor. *Inserted at its epoch at once:* a copy of the insert that
 * comes after the delete brings an old epoch back. *Without the number:* a copy of the change that gives the epoch does, where a later
 * ledger is being made.
 */

/* Each insert is sent once, so a number can be there only once: after an answer that did not come the next one has another. */
static int64_t birth_draw(struct lockstore *store)
{
  int64_t birth;
  lockstore_random(store, &birth, sizeof birth);
  return (int64_t)((uint64_t)birth >> 1) | 1;
}

/* YES: a ledger is being made, by me or by somebody else, who may be dead. NO: it has an epoch. */
static enum outcome being_made(struct lockstore *store, const char *type, struct ledger_from *from, struct error *error)
{
  enum outcome outcome = ledger_insert(store, type, birth_draw(store), error);
  return outcome == OUTCOME_YES || outcome == OUTCOME_NO ? ledger_read_made(store, type, from, error) : outcome;
}

enum outcome ledger_make(struct lockstore *store, const char *type, struct ledger_from *from, struct error *error)
{
  return being_made(store, type, from, error);
}

static enum outcome next_epoch(struct lockstore *store, const char *type, int64_t epoch_seen, const struct fence *fence,
                               struct ledger *before, struct error *error)
{
  struct ledger_from from = {.epoch = epoch_seen};
  *before = (struct ledger){0};
  enum outcome outcome = epoch_seen == 0 ? being_made(store, type, &from, error) : OUTCOME_YES;
  return outcome == OUTCOME_YES ? ledger_fence_from(store, type, &from, fence, before, error) : outcome;
}

enum outcome ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner, enum fencer fencer,
                          struct ledger *before, struct error *error)
{
  return next_epoch(store, type, epoch_seen, &(struct fence){.owner = owner, .fencer = fencer}, before, error);
}

enum outcome ledger_pause_begin(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                const struct ledger_pause *pause, struct ledger *before, struct error *error)
{
  const struct fence fence = {.owner = owner, .fencer = FENCER_READER, .change = FENCE_PAUSE, .pause = pause};
  return next_epoch(store, type, epoch_seen, &fence, before, error);
}

enum outcome ledger_own_begin(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                              struct ledger *before, struct error *error)
{
  const struct fence fence = {.owner = owner, .fencer = FENCER_READER, .change = FENCE_OWN_BEGIN};
  return next_epoch(store, type, epoch_seen, &fence, before, error);
}

enum outcome ledger_own_end(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner, struct ledger *before,
                            struct error *error)
{
  const struct fence fence = {.owner = owner, .fencer = FENCER_READER, .change = FENCE_OWN_END};
  return next_epoch(store, type, epoch_seen, &fence, before, error);
}

static enum outcome draw(struct lockstore *store, const char *type, int slots, const struct owner *owner, int64_t *token, int *found,
                         struct error *error)
{
  struct ledger_from from = {.birth = 0};
  struct ledger ledger;
  enum outcome outcome = ledger_draw_from(store, type, &from, slots, owner, token, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  outcome = ledger_read(store, type, &ledger, error);
  *found = ledger.slots;
  if (outcome == OUTCOME_YES)
    return ledger.slots != slots || ledger_epoch_has_next(type, ledger.epoch + 1, error) ? OUTCOME_NO : OUTCOME_REFUSED;
  if (outcome == OUTCOME_NO)
    outcome = being_made(store, type, &from, error);
  if (outcome == OUTCOME_YES)
    outcome = ledger_draw_from(store, type, &from, slots, owner, token, error);
  if (outcome == OUTCOME_NO)
    *found = slots;
  return outcome;
}

/* Of several that use a name for the first time one makes its ledger; the others draw from that. */
enum outcome ledger_draw(struct lockstore *store, const char *type, int slots, const struct owner *owner, int64_t *token, int *found,
                         struct error *error)
{
  for (int tries = 0; tries < 3; tries++) {
    enum outcome outcome = draw(store, type, slots, owner, token, found, error);
    if (outcome != OUTCOME_NO || *found != slots)
      return outcome;
  }
  error_set(error, "drawing a token: the ledger of %s is made, and forgotten, again and again", type);
  return OUTCOME_UNKNOWN;
}

enum outcome ledger_put(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                        const struct ledger *ledger, struct error *error)
{
  struct ledger_from from;
  if (before->epoch > 0 || found != NULL)
    return ledger_put_over(store, type, before, found, ledger, error);
  enum outcome outcome = being_made(store, type, &from, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  const struct ledger seen = {.birth = from.birth};
  struct ledger above = *ledger;
  if (above.epoch <= from.epoch)
    above.epoch = from.epoch + 1;
  return ledger_put_over(store, type, &seen, NULL, &above, error);
}

/* It is read again: a value of another kind, which somebody has put there, does not rise, and MongoDB reports success. */
static enum outcome raise_floor(struct lockstore *store, int64_t epoch, struct error *error)
{
  int64_t floor = 0;
  enum outcome outcome = ledger_raise_floor(store, epoch, error);
  if (outcome == OUTCOME_YES)
    outcome = ledger_floor(store, &floor, error);
  if (outcome != OUTCOME_YES || floor >= epoch)
    return outcome;
  error_set(error, "the floor of all ledgers is %lld, and was raised to %lld", (long long)floor, (long long)epoch);
  return OUTCOME_UNKNOWN;
}

enum outcome ledger_forget(struct lockstore *store, const struct ledger_name *names, size_t count, size_t *removed, struct error *error)
{
  int64_t greatest = 0;
  *removed = 0;
  for (size_t i = 0; i < count; i++)
    greatest = names[i].epoch > greatest ? names[i].epoch : greatest;
  enum outcome outcome = greatest > 0 ? raise_floor(store, greatest, error) : OUTCOME_YES;
  for (size_t i = 0; i < count && outcome == OUTCOME_YES; i += LEDGER_REMOVE_MAX) {
    int64_t gone = 0;
    outcome = ledger_remove(store, names + i, count - i < LEDGER_REMOVE_MAX ? count - i : LEDGER_REMOVE_MAX, &gone, error);
    *removed += (size_t)gone;
  }
  return outcome;
}
