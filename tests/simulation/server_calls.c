/* lockstore.h, wait_queue.h and wakeup.h, as perform.c calls them: each write becomes a request. */
#include "chaos.h"
#include "plants.h"
#include "process.h"
#include "request.h"
#include "server.h"

#include <assert.h>

/* ---- lockstore.h ---- */

enum outcome __wrap_lockstore_prepare(struct lockstore *store, struct error *error)
{
  (void)store;
  return server_reach(error) && server_answers(error) ? OUTCOME_YES : OUTCOME_UNKNOWN;
}

enum outcome __wrap_lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                              const struct lock_holder *holder, struct error *error)
{
  struct request request = {.kind = TAKE, .type = type_index(type), .owner = *owner, .ttl_ms = ttl_ms, .holder = *holder};
  (void)store, (void)slot;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct wait_queue *queue,
                                    struct error *error)
{
  memset(view, 0, sizeof *view);
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  (void)store;
  enum outcome outcome =
      __real_wait_queue_read(server_caller_is_behind() ? server_replaced_now() : server_store_now(), type, slot, view, queue, error);
  plants_view(fiber_process()->index, view);
  chaos_point();
  return fiber_dead() ? (server_no_answer(error), OUTCOME_UNKNOWN) : outcome;
}

enum outcome __wrap_lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error)
{
  struct request request = {.kind = STEAL, .type = type_index(type), .owner = *seen};
  (void)store, (void)slot;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error)
{
  struct request request = {.kind = RENEW, .type = type_index(renewals[0].type), .renewal_count = count};
  (void)store;
  memcpy(request.renewals, renewals, count * sizeof *renewals);
  enum outcome outcome = request_send(&request, NULL, error);
  for (size_t i = 0; i < count; i++)
    renewals[i].outcome = outcome == OUTCOME_YES ? request.renewals[i].outcome : OUTCOME_UNKNOWN;
  for (size_t i = 0; i < count; i++)
    renewals[i].awaited = outcome == OUTCOME_YES && request.renewals[i].awaited;
  return outcome;
}

enum outcome __wrap_lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  struct request request = {.kind = RELEASE, .type = type_index(type), .owner = *owner};
  (void)store, (void)slot;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  struct request request = {.kind = CONFIRM, .type = type_index(type), .owner = *owner};
  (void)store, (void)slot;
  return request_send(&request, NULL, error);
}

/* ---- wait_queue.h ---- */

enum outcome __wrap_wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                                    const struct lock_view *held, struct error *error)
{
  struct request request = {.kind = JOIN, .type = type_index(type), .waiter = *me, .holder = *who, .has_held = held != NULL};
  (void)store;
  if (held != NULL)
    request.held = *held;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms, struct error *error)
{
  struct request request = {.kind = WAIT_ON, .type = type_index(type), .owner = *me, .waiter = {.at_ms = now_ms}};
  (void)store;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error)
{
  struct request request = {.kind = LEAVE, .type = type_index(type), .owner = *me};
  (void)store;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error)
{
  struct request request = {.kind = EMPTY, .type = type_index(type)};
  (void)store;
  return request_send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                    const struct lock_holder *holder, const struct departure *departure, struct error *error)
{
  struct request request = {.kind = TAKE,
                            .type = type_index(type),
                            .owner = *owner,
                            .ttl_ms = ttl_ms,
                            .holder = *holder,
                            .departs = true,
                            .departure = *departure};
  (void)store, (void)slot;
  assert(departure->count <= LEAVING_MAX);
  memcpy(request.owners, departure->owners, (size_t)departure->count * sizeof *departure->owners);
  return request_send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter, const struct wait_queue *seen,
                                    struct error *error)
{
  struct request request = {.kind = CALL, .type = type_index(type), .owner = *waiter, .has_last = seen->has_last, .last = seen->last};
  (void)store;
  return request_send(&request, NULL, error);
}

/* ---- wakeup.h ---- */

enum outcome __wrap_wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                                struct error *error)
{
  (void)store, (void)epoch;
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  processes_wake(type_index(type), about, to);
  return fiber_dead() ? OUTCOME_UNKNOWN : OUTCOME_YES;
}

/* ---- the ledger ---- */

enum outcome __wrap_ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  memset(ledger, 0, sizeof *ledger);
  (void)store;
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  uint64_t operation =
      server_caller_is_behind() ? server_replaced_operation() : queue_operation(); /* the answer tells how far the majority is */
  enum outcome outcome = __real_ledger_read(server_ledger_store(), type, ledger, error);
  chaos_point();
  if (fiber_dead()) {
    (void)server_no_answer(error);
    return OUTCOME_UNKNOWN;
  }
  if (operation > fiber_process()->operation)
    fiber_process()->operation = operation;
  plants_ledger_seen(ledger);
  return plants_verified(ledger, plants_paused(type_index(type), ledger, outcome));
}

/*
 * While a primary is being elected no server answers a linearizable read, and a replaced primary never does: it cannot prove
 * that it is still the primary.
 */
enum outcome __wrap_ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  if ((!server_in_election() && !server_caller_is_behind()) || plants_reads_stale())
    return __wrap_ledger_read(store, type, ledger, error);
  memset(ledger, 0, sizeof *ledger);
  fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  server_no_answer(error);
  return plants_verified(ledger, OUTCOME_UNKNOWN);
}

enum outcome __wrap_ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error)
{
  struct request request = {.kind = FENCE, .type = type_index(type), .owner = *owner, .epoch = epoch_seen, .fencer = fencer};
  (void)store;
  enum outcome outcome = request_send(&request, before, error);
  plants_fence(outcome);
  plants_ledger_seen(before);
  return outcome;
}

enum outcome __wrap_ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error)
{
  struct request request = {.kind = COMMIT, .type = type_index(type), .epoch = commit->epoch, .commit = *commit};
  (void)store;
  plants_commit_begins();
  if (commit->machine != NULL) {
    snprintf(request.machine, sizeof request.machine, "%s", commit->machine);
    request.commit.machine = request.machine;
  }
  return request_send(&request, NULL, error);
}

enum outcome __wrap_ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                                  struct error *error)
{
  struct request request = {.kind = SETTLE, .type = type_index(type), .epoch = epoch, .owner = *owner, .settled = settled};
  (void)store;
  return request_send(&request, NULL, error);
}

enum outcome server_delete_range(int type, enum queue_source source, const struct queue_range *range, struct error *error)
{
  struct request request = {.kind = DELETE_RANGE, .type = type, .source = source, .range = *range};
  return request_send(&request, NULL, error);
}

/* Not twice in one action: the delete that follows the read finds them. */
static bool finds_fewer(void)
{
  const struct action *action = fiber_action();
  uint64_t *number = &fiber_type()->fewer_numbers[action->activity];
  if (*number == action->number || !chaos_strikes(CHAOS_FEWER))
    return false;
  *number = action->number;
  return true;
}

enum outcome server_delete(int type, enum queue_source source, const bson_t *ids, int64_t *removed, struct error *error)
{
  bson_t copy;
  bson_copy_to(ids, &copy);
  struct request request = {.kind = DELETE, .type = type, .source = source, .ids = &copy, .fewer = finds_fewer()};
  enum outcome outcome = request_send(&request, NULL, error);
  *removed = request.removed;
  bson_destroy(&copy);
  return outcome;
}
