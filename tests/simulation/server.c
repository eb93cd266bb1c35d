#include "server.h"
#include "chaos.h"
#include "checks.h"
#include "plants.h"
#include "process.h"
#include "queue.h"
#include "request.h"
#include "trace.h"
#include "world.h"

struct lockstore *server_store;
static struct memory_server *server, *majority; /* the majority's state during an election: as it was when the election began */
static struct memory_server *replaced;          /* the primary that was replaced, as it was then */
static struct lockstore *majority_store, *replaced_store;
static uint64_t replaced_operation;
static int64_t away_until_us, elections, replacements;
static bool electing, confirmed; /* how the last election ended */
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

bool server_caller_is_behind(void)
{
  return fiber_process() != NULL && fiber_process()->behind;
}

struct lockstore *server_replaced_now(void)
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

struct lockstore *server_ledger_store(void)
{
  if (server_caller_is_behind())
    return replaced_store;
  return electing && !plants_read_locally() ? majority_store : server_store;
}

/* ---- the answer to a request ---- */

bool server_no_answer(struct error *error)
{
  error_set(error, "no answer from the database");
  return false;
}

bool server_reach(struct error *error)
{
  const struct process *process = fiber_process();
  chaos_point();
  if (fiber_dead())
    return server_no_answer(error);
  if (away_until_us > world.now_us || process->cut_off_until_us > world.now_us) {
    fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
    return server_no_answer(error);
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
    return server_no_answer(error);
  if (operation > process->operation)
    process->operation = operation;
  return true;
}

bool server_answers_at_once(struct error *error)
{
  chaos_point();
  return !fiber_dead() || server_no_answer(error);
}

/* ---- whose owner it is ---- */

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
