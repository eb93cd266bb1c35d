#include "lock/private.h"
#include "lock/seam.h"
#include "lockstore/ledger.h"
#include "lockstore/wait_queue.h"

static enum pawl_result no_answer(struct pawl_error *error, const char *name, enum outcome outcome, const struct error *wrong)
{
  return result_set(error, outcome == OUTCOME_REFUSED ? PAWL_MALFORMED : result_of_error(wrong, false), "forgetting %s: %s", name,
                    wrong->text);
}

/* Changes nothing. PAWL_OK: there is something, and it has no file; *slots. */
static enum pawl_result look(struct pawl *pawl, const char *name, int *slots, struct pawl_error *error)
{
  struct ledger ledger;
  struct lock_view view;
  struct error wrong = {.text = ""};
  enum outcome outcome = lockstore_prepare(pawl->store, &wrong);
  if (outcome == OUTCOME_REFUSED)
    return result_set(error, PAWL_REFUSED, "forgetting %s: %s", name, wrong.text);
  if (outcome == OUTCOME_YES)
    outcome = ledger_read(pawl->store, name, &ledger, &wrong);
  bool none = outcome == OUTCOME_NO;
  if (none)
    outcome = lock_read(pawl->store, name, 0, &view, &wrong);
  if (outcome == OUTCOME_NO)
    return result_set(error, PAWL_NOTHING, "forgetting %s: there is no such lock", name);
  if (outcome != OUTCOME_YES)
    return no_answer(error, name, outcome, &wrong);
  *slots = none || ledger.slots == 0 ? 1 : ledger.slots;
  if (!none && (ledger.end.file[0] != 0 || ledger.end.seq != 0))
    return result_set(error, PAWL_REFUSED, "%s is a type with files (%s): its ledger knows where they end, and stays", name,
                      ledger.end.file);
  return PAWL_OK;
}

/* While one slot is mine the others must be free; one that is taken from now on draws a token, and nothing is forgotten. */
static enum pawl_result others_free(struct pawl *pawl, const struct hold *hold, struct pawl_error *error)
{
  struct slot_view views[SLOTS_MAX];
  struct lock_view view;
  struct wait_queue queue;
  struct error wrong = {.text = ""};
  enum outcome outcome = wait_queue_read_slots(pawl->store, hold->name, hold->slots, views, &view, &queue, &wrong);
  if (outcome != OUTCOME_YES)
    return no_answer(error, hold->name, outcome, &wrong);
  for (int slot = 0; slot < hold->slots; slot++)
    if (slot != hold->slot && views[slot].there && !views[slot].stealable)
      return result_set(error, PAWL_BUSY, "forgetting %s: slot %d is held", hold->name, slot);
  return PAWL_OK;
}

/* Without the right it is not tried again: a wait does not change that. */
static enum pawl_result forget_held(struct pawl *pawl, const struct hold *hold, struct pawl_error *error)
{
  struct error wrong = {.text = ""};
  int64_t until_ms = seam_now_ms(pawl) + RELEASE_MS;
  enum outcome outcome = ledger_forget(pawl->store, hold->name, hold->token, &hold->owner, &wrong);
  while (outcome == OUTCOME_UNKNOWN && wrong.reason != ERROR_RIGHT && seam_now_ms(pawl) < until_ms) {
    pthread_mutex_lock(&pawl->mutex);
    seam_wait(pawl, seam_now_ms(pawl) + 100);
    pthread_mutex_unlock(&pawl->mutex);
    outcome = ledger_forget_again(pawl->store, hold->name, hold->token, &hold->owner, &wrong);
  }
  if (outcome == OUTCOME_YES)
    return PAWL_OK;
  return outcome == OUTCOME_NO
             ? result_set(error, PAWL_LOST, "forgetting %s: another process took the lock meanwhile: nothing was forgotten", hold->name)
             : no_answer(error, hold->name, outcome, &wrong);
}

enum pawl_result pawl_forget(struct pawl *pawl, const char *name, int64_t wait_ms, struct pawl_error *error)
{
  struct pawl_want want = {.name = name};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = wait_ms};
  pawl_hold id;
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  if (name == NULL || !type_name_valid(name))
    return result_set(error, PAWL_INVALID, "forgetting a lock: no valid name");
  enum pawl_result result = look(pawl, name, &want.slots, error);
  if (result == PAWL_OK)
    result = pawl_take_all(pawl, &want, 1, &terms, &id, error);
  struct hold *hold = result == PAWL_OK ? hold_lock(pawl, id, error) : NULL;
  if (hold == NULL)
    return result;
  hold->pins++;
  pthread_mutex_unlock(&pawl->mutex);
  result = hold->slots > 1 ? others_free(pawl, hold, error) : PAWL_OK;
  if (result == PAWL_OK)
    result = forget_held(pawl, hold, error);
  pthread_mutex_lock(&pawl->mutex);
  hold->token = 0; /* no waiter is told a token that is no more */
  hold->pins--;
  pthread_mutex_unlock(&pawl->mutex);
  (void)pawl_release(pawl, id, NULL);
  return result;
}
