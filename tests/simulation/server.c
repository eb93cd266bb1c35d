#include "server.h"
#include "chaos.h"
#include "checks.h"
#include "lockstore/wait_queue.h"
#include "plants.h"
#include "process.h"
#include "queue.h"
#include "trace.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum outcome __wrap_lockstore_prepare(struct lockstore *store, struct error *error);
enum outcome __wrap_lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);
enum outcome __wrap_ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
enum outcome __wrap_wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                                struct error *error);
enum outcome __wrap_lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                              const struct lock_holder *holder, struct error *error);
enum outcome __wrap_lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error);
enum outcome __wrap_lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error);
enum outcome __wrap_lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);
enum outcome __wrap_wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct wait_queue *queue,
                                    struct error *error);
enum outcome __wrap_wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                                    const struct lock_view *held, struct error *error);
enum outcome __wrap_wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms,
                                     struct error *error);
enum outcome __wrap_wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error);
enum outcome __wrap_wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error);
enum outcome __wrap_wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                    const struct lock_holder *holder, const struct departure *departure, struct error *error);
enum outcome __wrap_wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter, const struct wait_queue *seen,
                                    struct error *error);
enum outcome __wrap_ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
enum outcome __wrap_ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error);
enum outcome __wrap_ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error);
enum outcome __wrap_ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                                  struct error *error);
const struct address *__wrap_lockstore_address(const struct lockstore *store);
void __wrap_lockstore_random(struct lockstore *store, void *bytes, size_t size);

enum outcome __real_lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                              const struct lock_holder *holder, struct error *error);
enum outcome __real_lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error);
enum outcome __real_lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error);
enum outcome __real_lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);
enum outcome __real_wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct wait_queue *queue,
                                    struct error *error);
enum outcome __real_wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                                    const struct lock_view *held, struct error *error);
enum outcome __real_wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms,
                                     struct error *error);
enum outcome __real_wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error);
enum outcome __real_wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error);
enum outcome __real_wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                    const struct lock_holder *holder, const struct departure *departure, struct error *error);
enum outcome __real_wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter, const struct wait_queue *seen,
                                    struct error *error);
enum outcome __real_ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
enum outcome __real_ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error);
enum outcome __real_ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error);
enum outcome __real_ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                                  struct error *error);
enum request_kind { TAKE, STEAL, RENEW, RELEASE, CONFIRM, JOIN, WAIT_ON, LEAVE, EMPTY, CALL, FENCE, COMMIT, SETTLE, DELETE, DELETE_RANGE };

enum { LEAVING_MAX = 16 };

/* All values of a write, so that it can be carried out at any time, and again. */
struct request {
  struct request *next; /* the next late request */
  enum request_kind kind;
  int type;
  struct caller caller;
  struct owner owner; /* STEAL: the owner that was seen; WAIT_ON, LEAVE, CALL: the waiter */
  struct waiter waiter;
  struct lock_view held; /* JOIN */
  bool has_held, late;
  struct owner owners[LEAVING_MAX]; /* TAKE: of the departure */
  struct departure departure;
  bool departs;
  bool has_last;     /* CALL */
  struct owner last; /* CALL: as seen */
  int64_t ttl_ms, epoch, settled;
  struct lock_renewal renewals[TYPES_MAX];
  size_t renewal_count;
  enum fencer fencer;
  struct lock_holder holder;
  struct ledger_commit commit;
  char machine[MACHINE_SIZE]; /* the machine in the commit */
  bson_t *ids;
  bool fewer;      /* DELETE: it does not find all that it names */
  int64_t removed; /* DELETE: how many it removed */
  struct queue_range range;
};

struct lockstore *server_store;
static struct memory_server *server, *majority; /* the majority's state during an election: as it was when the election began */
static struct memory_server *replaced;          /* the primary that was replaced, as it was then */
static struct lockstore *majority_store, *replaced_store;
static uint64_t replaced_operation;
static int64_t away_until_us, elections, replacements;
static bool electing, confirmed; /* how the last election ended */
static struct request *delayed;  /* requests on their way */
static uint64_t acquisitions;    /* how many owners were drawn */

/* ---- the twin ---- */

void server_begin(void)
{
  server = memory_server_new();
  majority = memory_server_new();
  replaced = memory_server_new();
  server_store = lockstore_memory_open(server);
  majority_store = lockstore_memory_open(majority);
  replaced_store = lockstore_memory_open(replaced);
  away_until_us = elections = replacements = 0;
  electing = false;
  acquisitions = 0;
}

static void requests_free(void);

void server_end(void)
{
  requests_free();
  lockstore_close(server_store);
  lockstore_close(majority_store);
  lockstore_close(replaced_store);
  memory_server_free(server);
  memory_server_free(replaced);
  memory_server_free(majority);
}

static bool caller_is_behind(void)
{
  return fiber_process() != NULL && fiber_process()->behind;
}

static struct lockstore *replaced_now(void)
{
  memory_server_set_now(replaced, server_now_ms());
  return replaced_store;
}

struct lockstore *server_store_now(void)
{
  memory_server_set_now(server, server_now_ms());
  return server_store;
}

void server_ledger(int type, struct ledger *ledger)
{
  struct error error;
  if (__real_ledger_read(electing ? majority_store : server_store, type_name(type), ledger, &error) == OUTCOME_UNKNOWN)
    world_fail("the twin does not answer a check");
}

void server_ledger_live(int type, struct ledger *ledger)
{
  struct error error;
  if (__real_ledger_read(server_store, type_name(type), ledger, &error) == OUTCOME_UNKNOWN)
    world_fail("the twin does not answer a plant");
}

void server_put_ledger(int type, const struct ledger *ledger)
{
  memory_server_put_ledger(server, type_name(type), ledger);
}

bool server_lock(int type, struct lock_view *view)
{
  struct error error;
  return lock_read(server_store_now(), type_name(type), 0, view, &error) == OUTCOME_YES;
}

/* ---- away, elections, theft ---- */

void server_away(int64_t us)
{
  away_until_us = world.now_us + us;
  trace_add(-1, -1, "the database is away for %lld ms", (long long)(us / MS));
}

bool server_in_election(void)
{
  return electing;
}

static void election_end(bool keep)
{
  if (!electing)
    return;
  electing = false;
  confirmed = keep;
  trace_add(-1, -1, "a majority again: what was written since is %s", keep ? "confirmed" : "rolled back");
  if (!keep)
    memory_server_copy(server, majority);
  queue_election_end(keep);
  for (int type = 0; type < chaos_plan.types; type++)
    checks_ledger(type, NULL);
}

static void election_over(void *context, uint64_t number)
{
  (void)context;
  if (elections == (int64_t)number)
    election_end(world_chance(0.5));
}

void server_election(int64_t us)
{
  if (electing || chaos_plan.standalone)
    return;
  electing = true;
  elections++;
  memory_server_copy(majority, server);
  queue_election_begin();
  trace_add(-1, -1, "no majority for %lld ms", (long long)(us / MS));
  world_at(world.now_us + us, election_over, NULL, (uint64_t)elections);
}

uint64_t server_replaced_operation(void)
{
  return replaced_operation;
}

static void replacement_over(void *context, uint64_t number)
{
  (void)context;
  if (replacements != (int64_t)number)
    return;
  replacements++;
  for (int i = 0; i < PROCESSES_MAX; i++) {
    if (processes[i].behind)
      trace_add(i, -1, "finds the new primary");
    processes[i].behind = false;
  }
}

void server_replace(unsigned behind, int64_t us)
{
  bool under_way = false;
  for (int i = 0; i < PROCESSES_MAX; i++)
    under_way = under_way || processes[i].behind;
  if (electing || under_way || chaos_plan.standalone)
    return;
  memory_server_copy(replaced, server);
  replaced_operation = queue_operation();
  replacements++;
  for (int i = 0; i < chaos_plan.processes; i++) {
    processes[i].behind = processes[i].up && (behind & 1u << i) != 0;
    if (processes[i].behind)
      trace_add(i, -1, "stays with a primary that is replaced, for %lld ms", (long long)(us / MS));
  }
  world_at(world.now_us + us, replacement_over, NULL, (uint64_t)replacements);
}

void server_back(void)
{
  away_until_us = 0;
  replacement_over(NULL, (uint64_t)replacements);
  election_end(true);
}

void server_theft(int type)
{
  struct lock_view view;
  struct error error;
  if (world_chance(0.7)) /* the queue decides nothing: it may go as well */
    memory_server_forget_queue(server, type_name(type));
  if (server_lock(type, &view) && __real_lock_delete(server_store, type_name(type), 0, &view.owner, &error) == OUTCOME_YES) {
    server_lock_tool_loses(type, &view.owner);
    trace_add(-1, type, "the lock document is deleted by an operator");
    if (world_chance(0.5))
      processes_wake_waiters(type);
  }
}

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
  else if (!plants_commit(request->type, &request->commit, &outcome))
    outcome = __real_ledger_commit(server_store_now(), type, &request->commit, &error);
  if (request->kind == FENCE && outcome == OUTCOME_YES)
    fenced_guarded(request, before);
  else if (request->kind == COMMIT && outcome == OUTCOME_YES)
    plants_committed(request->type, request->caller.process);
  if (!electing)
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
    request->removed = queue_remove(request->type, request->ids, request->fewer);
    return OUTCOME_YES;
  case DELETE_RANGE:
    return queue_remove_range(request->type, &request->range) ? OUTCOME_YES : OUTCOME_NO;
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

static void requests_free(void)
{
  while (delayed != NULL)
    request_free(delayed);
}

static void request_arrive(void *context, uint64_t argument)
{
  static const char *const names[] = {"take",  "steal", "renewal", "release", "confirmation", "join",   "renewed wait",
                                      "leave", "call",  "fence",   "commit",  "settle",       "delete", "range delete"};
  struct request *request = context;
  struct ledger before;
  (void)argument;
  enum outcome outcome = apply(request, &before);
  if (request->kind != RENEW)
    trace_add(request->caller.process, request->type, "a %s of epoch %lld arrives late%s", names[request->kind], (long long)request->epoch,
              outcome == OUTCOME_NO ? ", and changes nothing" : "");
  request_free(request);
}

static void request_send_late(const struct request *request)
{
  world_at(world.now_us + world_between(0, 3 * chaos_plan.lease_ms * MS), request_arrive, request_copy(request), 0);
}

static bool no_answer(struct error *error)
{
  error_set(error, "no answer from the database");
  return false;
}

bool server_reach(struct error *error)
{
  const struct process *process = fiber_process();
  chaos_point();
  if (fiber_dead())
    return no_answer(error);
  if (away_until_us > world.now_us || process->cut_off_until_us > world.now_us) {
    fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
    return no_answer(error);
  }
  return true;
}

bool server_answers(struct error *error)
{
  struct process *process = fiber_process();
  uint64_t operation = queue_operation_latest(); /* of the change that was just made; the caller waits until it has a majority */
  int64_t election = elections;
  bool unsure = electing;
  chaos_point();
  if (unsure && electing && elections == election)
    fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  if (fiber_dead() || (unsure && (electing || elections != election || !confirmed)))
    return no_answer(error);
  if (operation > process->operation)
    process->operation = operation;
  return true;
}

/* The primary alone acknowledges these: the caller does not wait for a majority. */
static bool needs_no_majority(enum request_kind kind)
{
  return kind == TAKE || kind == RELEASE || kind == JOIN || kind == WAIT_ON || kind == LEAVE || kind == EMPTY || kind == CALL;
}

static bool server_answers_at_once(struct error *error)
{
  chaos_point();
  return !fiber_dead() || no_answer(error);
}

/* The old primary applies the write, and no other server ever will. Only a sender that does not wait for a majority gets an answer. */
static enum outcome send_behind(struct request *request, struct error *error)
{
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (request->kind == TAKE)
    outcome = take_at(replaced_now(), request, error);
  else if (request->kind == STEAL)
    (void)__real_lock_steal(replaced_now(), type_name(request->type), 0, &request->owner, error);
  else if (request->kind == RELEASE)
    outcome = __real_lock_delete(replaced_now(), type_name(request->type), 0, &request->owner, error);
  else if (needs_no_majority(request->kind))
    outcome = apply_waiting(request, replaced_now());
  if (request->kind == TAKE && outcome == OUTCOME_YES)
    checks_taken(request->type, &request->owner, request->caller, request->late);
  if (needs_no_majority(request->kind) && server_answers_at_once(error))
    return outcome;
  fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  (void)no_answer(error);
  return OUTCOME_UNKNOWN;
}

/* Sends a write, as its sender sees it. */
static enum outcome send(struct request *request, struct ledger *before, struct error *error)
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
    (void)no_answer(error);
    return OUTCOME_UNKNOWN;
  }
  if (request->kind == DELETE && chaos_strikes(CHAOS_PART)) {
    queue_remove(request->type, request->ids, true);
    fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
    (void)no_answer(error);
    return OUTCOME_UNKNOWN;
  }
  enum outcome outcome = apply(request, before);
  if (chaos_strikes(CHAOS_COPY))
    request_send_late(request);
  if (chaos_strikes(CHAOS_REPLY) || !(needs_no_majority(request->kind) ? server_answers_at_once(error) : server_answers(error))) {
    (void)no_answer(error);
    memset(before, 0, sizeof *before);
    return OUTCOME_UNKNOWN;
  }
  return outcome;
}

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
  return send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct wait_queue *queue,
                                    struct error *error)
{
  memset(view, 0, sizeof *view);
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  (void)store;
  enum outcome outcome = __real_wait_queue_read(caller_is_behind() ? replaced_now() : server_store_now(), type, slot, view, queue, error);
  plants_view(fiber_process()->index, view);
  chaos_point();
  return fiber_dead() ? (no_answer(error), OUTCOME_UNKNOWN) : outcome;
}

enum outcome __wrap_lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error)
{
  struct request request = {.kind = STEAL, .type = type_index(type), .owner = *seen};
  (void)store, (void)slot;
  return send(&request, NULL, error);
}

enum outcome __wrap_lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error)
{
  struct request request = {.kind = RENEW, .type = type_index(renewals[0].type), .renewal_count = count};
  (void)store;
  memcpy(request.renewals, renewals, count * sizeof *renewals);
  enum outcome outcome = send(&request, NULL, error);
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
  return send(&request, NULL, error);
}

enum outcome __wrap_lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  struct request request = {.kind = CONFIRM, .type = type_index(type), .owner = *owner};
  (void)store, (void)slot;
  return send(&request, NULL, error);
}

/* ---- wait_queue.h ---- */

enum outcome __wrap_wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                                    const struct lock_view *held, struct error *error)
{
  struct request request = {.kind = JOIN, .type = type_index(type), .waiter = *me, .holder = *who, .has_held = held != NULL};
  (void)store;
  if (held != NULL)
    request.held = *held;
  return send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms, struct error *error)
{
  struct request request = {.kind = WAIT_ON, .type = type_index(type), .owner = *me, .waiter = {.at_ms = now_ms}};
  (void)store;
  return send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error)
{
  struct request request = {.kind = LEAVE, .type = type_index(type), .owner = *me};
  (void)store;
  return send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error)
{
  struct request request = {.kind = EMPTY, .type = type_index(type)};
  (void)store;
  return send(&request, NULL, error);
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
  return send(&request, NULL, error);
}

enum outcome __wrap_wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter, const struct wait_queue *seen,
                                    struct error *error)
{
  struct request request = {.kind = CALL, .type = type_index(type), .owner = *waiter, .has_last = seen->has_last, .last = seen->last};
  (void)store;
  return send(&request, NULL, error);
}

/* ---- wakeup.h, and whose owner it is ---- */

enum outcome __wrap_wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                                struct error *error)
{
  (void)store, (void)epoch;
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  processes_wake(type_index(type), about, to);
  return fiber_dead() ? OUTCOME_UNKNOWN : OUTCOME_YES;
}

struct owner server_owner(int process, uint64_t acquisition)
{
  struct owner owner = {{(uint8_t)(process + 1)}};
  memcpy(owner.bytes + ADDRESS_BYTES, &acquisition, sizeof acquisition);
  return owner;
}

uint64_t server_owner_parse(const struct owner *owner, int *process)
{
  uint64_t acquisition;
  memcpy(&acquisition, owner->bytes + ADDRESS_BYTES, sizeof acquisition);
  *process = owner->bytes[0] - 1;
  struct owner again = server_owner(*process, acquisition);
  return memcmp(&again, owner, sizeof again) == 0 && *process >= 0 && *process < PROCESSES_MAX ? acquisition : 0;
}

const struct address *__wrap_lockstore_address(const struct lockstore *store)
{
  static struct address address;
  struct owner owner = server_owner(fiber_process()->index, 0);
  (void)store;
  memcpy(address.bytes, owner.bytes, sizeof address.bytes);
  return &address;
}

void __wrap_lockstore_random(struct lockstore *store, void *bytes, size_t size)
{
  uint64_t random = world_random();
  (void)store;
  if (size == OWNER_BYTES)
    *(struct owner *)bytes = server_owner(0, ++acquisitions);
  else
    memcpy(bytes, &random, size);
}

enum outcome __wrap_ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  memset(ledger, 0, sizeof *ledger);
  (void)store;
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  bool behind = caller_is_behind();
  uint64_t operation = behind ? replaced_operation : queue_operation(); /* the answer tells how far the majority is */
  struct lockstore *asked = behind ? replaced_store : electing && !plants_read_locally() ? majority_store : server_store;
  enum outcome outcome = __real_ledger_read(asked, type, ledger, error);
  chaos_point();
  if (fiber_dead()) {
    (void)no_answer(error);
    return OUTCOME_UNKNOWN;
  }
  if (operation > fiber_process()->operation)
    fiber_process()->operation = operation;
  return plants_verified(ledger, outcome);
}

/*
 * While a primary is being elected no server answers a linearizable read, and a replaced primary never does: it cannot prove
 * that it is still the primary.
 */
enum outcome __wrap_ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  if ((!electing && !caller_is_behind()) || plants_reads_stale())
    return __wrap_ledger_read(store, type, ledger, error);
  memset(ledger, 0, sizeof *ledger);
  fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  no_answer(error);
  return plants_verified(ledger, OUTCOME_UNKNOWN);
}

enum outcome __wrap_ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error)
{
  struct request request = {.kind = FENCE, .type = type_index(type), .owner = *owner, .epoch = epoch_seen, .fencer = fencer};
  (void)store;
  enum outcome outcome = send(&request, before, error);
  plants_fence(outcome);
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
  return send(&request, NULL, error);
}

enum outcome __wrap_ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                                  struct error *error)
{
  struct request request = {.kind = SETTLE, .type = type_index(type), .epoch = epoch, .owner = *owner, .settled = settled};
  (void)store;
  return send(&request, NULL, error);
}

enum outcome server_delete_range(int type, const struct queue_range *range, struct error *error)
{
  struct request request = {.kind = DELETE_RANGE, .type = type, .range = *range};
  return send(&request, NULL, error);
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

enum outcome server_delete(int type, const bson_t *ids, int64_t *removed, struct error *error)
{
  bson_t copy;
  bson_copy_to(ids, &copy);
  struct request request = {.kind = DELETE, .type = type, .ids = &copy, .fewer = finds_fewer()};
  enum outcome outcome = send(&request, NULL, error);
  *removed = request.removed;
  bson_destroy(&copy);
  return outcome;
}
