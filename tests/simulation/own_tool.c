#include "chaos.h"
#include "checks.h"
#include "lockstore/ledger_requests.h"
#include "plants.h"
#include "process.h"
#include "producer.h"
#include "queue.h"
#include "server.h"
#include "trace.h"
#include "world.h"

enum outcome __real_ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error);

/* pawl-setup --own-collection, and back. */

static struct own { /* of each type */
  struct owner owner;
  int64_t epoch_seen;
  bool returning; /* its producers are stopped, so that it may be shared again */
} owns[TYPES_MAX];

void own_tool_begin(void)
{
  memset(owns, 0, sizeof owns);
}

static struct own lates[TYPES_MAX]; /* the last switch of each type */

/* The request that was sent before comes a second time. */
static void switch_late(void *context, uint64_t argument)
{
  const struct own *late = context;
  int type = (int)argument;
  struct ledger before;
  struct error error;
  if (!server_in_election() &&
      ledger_own_begin(server_store_now(), type_name(type), late->epoch_seen, &late->owner, &before, &error) == OUTCOME_YES)
    world_fail("t%d: a switch to its own collection that comes late is done again", type);
}

static void switch_to_own(int type, const struct ledger *ledger)
{
  struct own *own = &owns[type];
  struct ledger before;
  struct error error;
  own->epoch_seen = ledger->epoch;
  if (ledger_own_begin(server_store_now(), type_name(type), ledger->epoch, &own->owner, &before, &error) != OUTCOME_YES)
    world_fail("t%d: it does not get its own collection", type);
  checks_ledger(type, NULL);
  trace_add(-1, type, "has its own collection");
  lates[type] = *own;
  world_at(world.now_us + world_between(0, 3 * chaos_plan.lease_ms * MS), switch_late, &lates[type], (uint64_t)type);
}

/* ---- back ---- */

static void go_on(int type, bool shared)
{
  owns[type].returning = false;
  producers_go_on(type, shared);
}

/* The second step of the way back: the fence of the first one is the last, and nothing is left there, nor to be settled. */
static void share_again(void *context, uint64_t argument)
{
  struct own *own = context;
  int type = (int)argument;
  struct ledger before;
  struct error error;
  bool empty = queue_own_is_empty(type) || plants_shares_blindly();
  bool shared = !server_in_election() && empty &&
                ledger_own_end(server_store_now(), type_name(type), own->epoch_seen, &own->owner, &before, &error) == OUTCOME_YES;
  if (shared) {
    checks_ledger(type, NULL);
    trace_add(-1, type, "is shared again");
  }
  if (shared && !queue_own_is_empty(type))
    world_fail("t%d: it is shared again, and messages are in its own collection", type);
  go_on(type, shared);
}

static void fence_before(void *context, uint64_t argument)
{
  struct own *own = context;
  int type = (int)argument;
  struct ledger ledger, before;
  struct error error;
  server_ledger_live(type, &ledger);
  bool ready = !server_in_election() && !producers_wait(type) && (queue_own_is_empty(type) || plants_shares_blindly());
  if (!world.faults || !ledger.own || !ready || !server_tool_begins(type, &ledger, &own->owner)) {
    go_on(type, false);
    return;
  }
  if (__real_ledger_fence(server_store_now(), type_name(type), ledger.epoch, &own->owner, FENCER_READER, &before, &error) != OUTCOME_YES)
    world_fail("t%d: the fence before it is shared again fails", type);
  checks_ledger(type, NULL);
  own->epoch_seen = ledger.epoch + 1;
  if (before.settled < before.end.seq)
    go_on(type, false);
  else
    world_at(world.now_us + world_between(0, chaos_plan.lease_ms * MS), share_again, own, argument);
}

void server_own(int type)
{
  struct own *own = &owns[type];
  struct ledger ledger;
  if (!chaos_may_be_own(type) || own->returning)
    return;
  server_ledger_live(type, &ledger);
  if (!ledger.own) {
    if (server_tool_begins(type, &ledger, &own->owner))
      switch_to_own(type, &ledger);
  } else if (world_chance(0.5)) {
    own->returning = true;
    producers_hold(type);
    world_at(world.now_us + world_between(0, 6 * chaos_plan.lease_ms * MS), fence_before, own, (uint64_t)type);
  }
}
