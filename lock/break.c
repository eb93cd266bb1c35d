#include "lock/private.h"
#include "lockstore/ledger.h"

#include <inttypes.h>
#include <stdlib.h>

struct holders {
  const char *name;
  int slot; /* wanted; -1: all */
  struct acquisition *found;
  size_t count, room;
  bool no_memory;
  struct error foreign; /* says why a document that was found is not a lock's; "": there is none */
};

static void holder_found(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  struct holders *holders = context;
  (void)type;
  if (holders->slot >= 0 && slot != holders->slot)
    return;
  if (problem != NULL) {
    error_set(&holders->foreign, "%s", problem);
    return;
  }
  if (holders->count == holders->room) {
    size_t room = holders->room > 0 ? 2 * holders->room : 8;
    struct acquisition *found = realloc(holders->found, room * sizeof *found);
    holders->no_memory = holders->no_memory || found == NULL;
    if (found == NULL)
      return;
    holders->found = found;
    holders->room = room;
  }
  struct acquisition *theirs = &holders->found[holders->count++];
  acquire_init(theirs, view->holder.kind, view->ttl_ms, 0);
  theirs->owner = view->owner;
  theirs->slot = slot;
}

static enum pawl_result find(struct pawl *pawl, struct holders *holders, int *slots, struct pawl_error *error)
{
  struct ledger ledger;
  struct error wrong = {.text = ""};
  enum outcome outcome = lockstore_prepare(pawl->store, &wrong); /* it finds out whether `wakeups` may be written to */
  if (outcome == OUTCOME_REFUSED)
    return result_set(error, wrong.reason == ERROR_RIGHT ? PAWL_DENIED : PAWL_REFUSED, "breaking %s: %s", holders->name, wrong.text);
  if (outcome == OUTCOME_YES)
    outcome = lock_list(pawl->store, holders->name, holder_found, holders, &wrong);
  if (outcome == OUTCOME_YES)
    outcome = ledger_read(pawl->store, holders->name, &ledger, &wrong);
  if (outcome == OUTCOME_UNKNOWN)
    return result_set(error, result_of_error(&wrong, false), "breaking %s: %s", holders->name, wrong.text);
  *slots = outcome == OUTCOME_YES && ledger.slots > 0 ? ledger.slots : 1; /* a ledger that cannot be used does not prevent it */
  if (holders->no_memory)
    return result_set(error, PAWL_MEMORY, "breaking %s: no memory", holders->name);
  return holders->count > 0 || holders->foreign.text[0] != '\0'
             ? PAWL_OK
             : result_set(error, PAWL_NOTHING, "breaking %s: it is not held", holders->name);
}

enum pawl_result pawl_break(struct pawl *pawl, const char *name, int slot, const char *why, struct pawl_error *error)
{
  char text[WAKEUP_WHY_SIZE];
  int slots = 1;
  if (!handle_is_mine(pawl, error))
    return PAWL_FORKED;
  if (name == NULL || !type_name_valid(name) || why == NULL || why[0] == 0 || slot < -1)
    return result_set(error, PAWL_INVALID, "breaking a lock: no valid name, no reason, or a wrong slot");
  snprintf(text, sizeof text, "%.150s (by %.60s, pid %" PRId64 ")", why, pawl->holder.host, pawl->holder.pid);
  struct holders holders = {.name = name, .slot = slot};
  enum pawl_result result = find(pawl, &holders, &slots, error);
  for (size_t i = 0; i < holders.count && result == PAWL_OK; i++) {
    struct error wrong = {.text = ""};
    holders.found[i].slots = slots;
    enum outcome outcome = acquire_break(pawl->store, name, &holders.found[i], text, &wrong);
    if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
      result = result_set(error, result_of_error(&wrong, outcome == OUTCOME_REFUSED), "breaking %s: %s", name, wrong.text);
  }
  if (result == PAWL_OK && holders.foreign.text[0] != '\0') /* what can be broken is */
    result = result_set(error, PAWL_FOREIGN, "breaking %s: %s", name, holders.foreign.text);
  free(holders.found);
  return result;
}
