#include "request.h"
#include "chaos.h"
#include "checks.h"
#include "plants.h"
#include "process.h"
#include "queue.h"
#include "server.h"
#include "trace.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

static struct request *delayed; /* requests on their way */

/* ---- one request, applied ---- */

static enum outcome take_at(struct lockstore *store, const struct request *request, struct error *error)
{
  const char *type = type_name(request->type);
  struct departure departure = request->departure;
  departure.owners = request->owners;
  return request->departs ? __real_wait_queue_take(store, type, 0, &request->owner, request->ttl_ms, &request->holder, &departure, error)
                          : __real_lock_take(store, type, 0, &request->owner, request->ttl_ms, &request->holder, error);
}

static enum outcome apply_take(const struct request *request)
{
  struct error error;
  enum outcome outcome = take_at(server_store_now(), request, &error);
  if (outcome == OUTCOME_YES)
    checks_taken(request->type, &request->owner, request->caller, request->late);
  return outcome;
}

static enum outcome apply_lock(const struct request *request)
{
  const char *type = type_name(request->type);
  struct lockstore *store = server_store_now();
  struct lock_view view;
  struct error error;
  bool was = server_lock(request->type, &view);
  if (request->kind == RELEASE || request->kind == CONFIRM)
    return __real_lock_delete(store, type, 0, &request->owner, &error);
  enum outcome outcome = plants_steal_anyway(request->caller.process, was ? &view : NULL)
                             ? __real_lock_delete(store, type, 0, &request->owner, &error)
                             : __real_lock_steal(store, type, 0, &request->owner, &error);
  if (outcome == OUTCOME_YES) {
    processes_wake(request->type, WAKEUP_LOST, &request->owner);
    server_lock_tool_loses(request->type, &request->owner);
  }
  if (outcome == OUTCOME_YES && !view.stealable)
    world_fail("a live lease of t%d is stolen: by the server's clock it runs for another %lld ms", request->type, (long long)view.left_ms);
  return outcome;
}

/* An older pawl leaves `guarded` as it is; so may a planted bug. */
static void fenced_guarded(const struct request *request, const struct ledger *before)
{
  struct ledger ledger;
  server_ledger_live(request->type, &ledger);
  if (processes[request->caller.process].older)
    ledger.guarded = before->guarded;
  plants_fenced(request->fencer, before, &ledger);
  server_put_ledger(request->type, &ledger);
}

static void renew_anyway(struct lock_renewal *renewal, const struct lock_view *view)
{
  struct lock_holder holder = view->holder;
  struct error error;
  if (renewal->outcome == OUTCOME_NO && plants_renews_anyway(renewal, view))
    renewal->outcome = __real_lock_take(server_store_now(), renewal->type, 0, &view->owner, renewal->ttl_ms, &holder, &error);
}

/* The outcomes are for the sender, which no longer exists if the request comes late. */
static enum outcome apply_renewals(struct request *request)
{
  struct lock_view before[TYPES_MAX];
  struct error error;
  for (size_t i = 0; i < request->renewal_count; i++)
    if (!server_lock(type_index(request->renewals[i].type), &before[i]))
      before[i].ttl_ms = 0;
  enum outcome outcome = __real_lock_renew_all(server_store_now(), request->renewals, request->renewal_count, &error);
  for (size_t i = 0; i < request->renewal_count; i++) {
    if (before[i].ttl_ms != 0)
      renew_anyway(&request->renewals[i], &before[i]);
    checks_renewal(&request->renewals[i], &before[i], request->caller.process);
  }
  for (size_t i = 0; i < request->renewal_count; i++)
    if (request->renewals[i].outcome == OUTCOME_YES)
      checks_renewed(type_index(request->renewals[i].type), &request->renewals[i].owner, request->caller.process);
  plants_renewals(request->renewals, request->renewal_count);
  return outcome;
}

static enum outcome apply_ledger(const struct request *request, struct ledger *before)
{
  const char *type = type_name(request->type);
  struct error error;
  enum outcome outcome;
  if (request->kind == FENCE)
    outcome = __real_ledger_fence(server_store_now(), type, plants_epoch_seen(request->type, request->epoch), &request->owner,
                                  request->fencer, before, &error);
  else if (request->kind == SETTLE)
    outcome = __real_ledger_settle(server_store_now(), type, request->epoch, &request->owner, request->settled, &error);
  else if (!plants_commit(request->type, &request->commit, &outcome)) {
    struct ledger_commit commit = plants_commit_source(request);
    outcome = __real_ledger_commit(server_store_now(), type, &commit, &error);
  }
  if (request->kind == FENCE && outcome == OUTCOME_YES)
    fenced_guarded(request, before);
  else if (request->kind == COMMIT && outcome == OUTCOME_YES)
    plants_committed(request->type, request->caller.process);
  if (!server_in_election())
    checks_ledger(request->type, &request->caller);
  return outcome;
}

static enum outcome apply_waiting(const struct request *request, struct lockstore *store)
{
  const char *type = type_name(request->type);
  struct error error;
  if (request->kind == JOIN)
    return __real_wait_queue_join(store, type, &request->waiter, &request->holder, request->has_held ? &request->held : NULL, &error);
  if (request->kind == WAIT_ON)
    return __real_wait_queue_renew(store, type, &request->owner, request->waiter.at_ms, &error);
  if (request->kind == LEAVE)
    return __real_wait_queue_leave(store, type, &request->owner, &error);
  if (request->kind == EMPTY)
    return __real_wait_queue_remove_empty(store, type, &error);
  struct wait_queue seen;
  seen.has_last = request->has_last;
  seen.last = request->last;
  return __real_wait_queue_call(store, type, &request->owner, &seen, &error);
}

static enum outcome apply(struct request *request, struct ledger *before)
{
  switch (request->kind) {
  case TAKE:
    return apply_take(request);
  case RENEW:
    return apply_renewals(request);
  case STEAL:
  case RELEASE:
  case CONFIRM:
    return apply_lock(request);
  case JOIN:
  case WAIT_ON:
  case LEAVE:
  case EMPTY:
  case CALL:
    return apply_waiting(request, server_store_now());
  case FENCE:
  case COMMIT:
  case SETTLE:
    return apply_ledger(request, before);
  case DELETE:
    request->removed = queue_remove(request->type, request->source, request->ids, request->fewer);
    return OUTCOME_YES;
  case DELETE_RANGE:
    return queue_remove_range(request->type, request->source, &request->range) ? OUTCOME_YES : OUTCOME_NO;
  }
  return OUTCOME_UNKNOWN;
}

/* ---- on its way ---- */

static struct request *request_copy(const struct request *request)
{
  struct request *copy = malloc(sizeof *copy);
  assert(copy != NULL);
  *copy = *request;
  copy->next = delayed;
  copy->late = true;
  delayed = copy;
  if (request->commit.machine != NULL)
    copy->commit.machine = copy->machine;
  if (request->ids != NULL)
    copy->ids = bson_copy(request->ids);
  return copy;
}

static void request_free(struct request *request)
{
  struct request **at = &delayed;
  while (*at != request)
    at = &(*at)->next;
  *at = request->next;
  if (request->ids != NULL)
    bson_destroy(request->ids);
  free(request);
}

void requests_free(void)
{
  while (delayed != NULL)
    request_free(delayed);
}

static const char *const request_names[] = {
    [TAKE] = "take",   [STEAL] = "steal",          [RENEW] = "renewal", [RELEASE] = "release", [CONFIRM] = "confirmation",
    [JOIN] = "join",   [WAIT_ON] = "renewed wait", [LEAVE] = "leave",   [EMPTY] = "removal",   [CALL] = "call",
    [FENCE] = "fence", [COMMIT] = "commit",        [SETTLE] = "settle", [DELETE] = "delete",   [DELETE_RANGE] = "range delete",
};

static void request_arrive(void *context, uint64_t argument)
{
  struct request *request = context;
  struct ledger before;
  (void)argument;
  enum outcome outcome = apply(request, &before);
  if (request->kind != RENEW)
    trace_add(request->caller.process, request->type, "a %s of epoch %lld arrives late%s", request_names[request->kind],
              (long long)request->epoch, outcome == OUTCOME_NO ? ", and changes nothing" : "");
  request_free(request);
}

static void request_send_late(const struct request *request)
{
  world_at(world.now_us + world_between(0, 3 * chaos_plan.lease_ms * MS), request_arrive, request_copy(request), 0);
}

/* The primary alone acknowledges these: the caller does not wait for a majority. */
static bool needs_no_majority(enum request_kind kind)
{
  return kind == TAKE || kind == RELEASE || kind == JOIN || kind == WAIT_ON || kind == LEAVE || kind == EMPTY || kind == CALL;
}

/* The old primary applies the write, and no other server ever will. Only a sender that does not wait for a majority gets an answer. */
static enum outcome send_behind(struct request *request, struct error *error)
{
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (request->kind == TAKE)
    outcome = take_at(server_replaced_now(), request, error);
  else if (request->kind == STEAL)
    (void)__real_lock_steal(server_replaced_now(), type_name(request->type), 0, &request->owner, error);
  else if (request->kind == RELEASE)
    outcome = __real_lock_delete(server_replaced_now(), type_name(request->type), 0, &request->owner, error);
  else if (needs_no_majority(request->kind))
    outcome = apply_waiting(request, server_replaced_now());
  if (request->kind == TAKE && outcome == OUTCOME_YES)
    checks_taken(request->type, &request->owner, request->caller, request->late);
  if (needs_no_majority(request->kind) && server_answers_at_once(error))
    return outcome;
  fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  (void)server_no_answer(error);
  return OUTCOME_UNKNOWN;
}

enum outcome request_send(struct request *request, struct ledger *before, struct error *error)
{
  const struct process *process = fiber_process();
  struct ledger ignored;
  if (before == NULL)
    before = &ignored;
  memset(before, 0, sizeof *before);
  request->caller = (struct caller){.process = process->index, .incarnation = fiber_type()->incarnation};
  if (!server_reach(error)) {
    if (fiber_dead() && world.faults && world_chance(0.3)) /* the request had already been sent */
      request_send_late(request);
    return OUTCOME_UNKNOWN;
  }
  if (process->behind)
    return send_behind(request, error);
  bool lost = chaos_strikes(CHAOS_LOST), late = !lost && chaos_strikes(CHAOS_LATE);
  if (late)
    request_send_late(request);
  if (lost || late) {
    fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
    (void)server_no_answer(error);
    return OUTCOME_UNKNOWN;
  }
  if (request->kind == DELETE && chaos_strikes(CHAOS_PART)) {
    queue_remove(request->type, request->source, request->ids, true);
    fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
    (void)server_no_answer(error);
    return OUTCOME_UNKNOWN;
  }
  enum outcome outcome = apply(request, before);
  if (chaos_strikes(CHAOS_COPY))
    request_send_late(request);
  if (chaos_strikes(CHAOS_REPLY) || !(needs_no_majority(request->kind) ? server_answers_at_once(error) : server_answers(error))) {
    (void)server_no_answer(error);
    memset(before, 0, sizeof *before);
    return OUTCOME_UNKNOWN;
  }
  return outcome;
}
