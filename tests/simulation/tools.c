#include "chaos.h"
#include "checks.h"
#include "lockstore/lease.h"
#include "plants.h"
#include "process.h"
#include "server.h"
#include "trace.h"
#include "world.h"

enum outcome __real_lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                              const struct lock_holder *holder, struct error *error);
enum outcome __real_ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                 enum fencer fencer, struct ledger *before, struct error *error);

static struct tool { /* the last pawl-lock of each type that ran its command */
  struct owner owner;
  int64_t until_us; /* two thirds of its lease, by its own clock: it does not renew */
} tools[TYPES_MAX];

/* Draws a new owner, which has the lock for a moment. */
static bool tool_begin(int type, struct ledger *ledger, struct owner *owner)
{
  uint64_t low = world_random(), high = world_random();
  server_ledger_live(type, ledger);
  if (server_in_election() || ledger->end.file[0] == 0)
    return false;
  server_theft(type);
  memcpy(owner->bytes, &low, sizeof low);
  memcpy(owner->bytes + sizeof low, &high, sizeof high);
  checks_taken(type, owner, (struct caller){.process = -1}, false);
  return true;
}

static struct adoption { /* an adoption of a ledger that could not be read: it names the whole document */
  struct ledger found, ledger;
} adoptions[TYPES_MAX]; /* the last of each type */

static void adoption_arrive(void *context, uint64_t argument)
{
  const struct adoption *adoption = context;
  int type = (int)argument;
  struct ledger now;
  server_ledger_live(type, &now);
  if (!server_in_election() && (memcmp(&now, &adoption->found, sizeof now) == 0 || plants_adopts_late())) {
    server_put_ledger(type, &adoption->ledger);
    checks_ledger(type, NULL);
  }
}

/* The adoption's request arrives a second time. */
static void adoption_send_late(int type, const struct ledger *found, const struct ledger *ledger)
{
  adoptions[type] = (struct adoption){.found = *found, .ledger = *ledger};
  world_at(world.now_us + world_between(0, 3 * chaos_plan.lease_ms * MS), adoption_arrive, &adoptions[type], (uint64_t)type);
}

void server_adopt(int type)
{
  struct ledger ledger, found;
  struct owner owner;
  if (!tool_begin(type, &ledger, &owner))
    return;
  found = ledger;
  ledger.epoch++;
  ledger.owner = owner;
  ledger.clean = false;
  ledger.guarded = plants_adopted(&ledger);
  server_put_ledger(type, &ledger);
  checks_adopted(type);
  checks_ledger(type, NULL);
  trace_add(-1, type, "the files are adopted");
  if (world_chance(0.3))
    adoption_send_late(type, &found, &ledger);
}

void server_lock_tool(int type)
{
  struct lock_holder holder = {.host = "host", .program = "pawl-lock"};
  struct ledger ledger, before;
  struct owner owner;
  struct error error;
  if (!tool_begin(type, &ledger, &owner))
    return;
  bool stays = world_chance(0.5);
  if (stays && __real_lock_take(server_store_now(), type_name(type), 0, &owner, chaos_plan.lease_ms, &holder, &error) == OUTCOME_YES)
    tools[type] = (struct tool){.owner = owner, .until_us = world.now_us + lease_safe_ms(chaos_plan.lease_ms) * MS};
  if (!plants_lock_does_not_fence() &&
      __real_ledger_fence(server_store_now(), type_name(type), ledger.epoch, &owner, FENCER_READER, &before, &error) != OUTCOME_YES)
    world_fail("t%d: the fence of pawl-lock fails", type);
  checks_ledger(type, NULL);
  trace_add(-1, type, "pawl-lock takes the lock, and %s", stays ? "runs its command" : "is killed");
}

void server_lock_tool_loses(int type, const struct owner *owner)
{
  if (memcmp(&tools[type].owner, owner, sizeof *owner) == 0)
    tools[type].until_us = 0;
}

bool server_lock_tool_holds(int type)
{
  struct lock_view view;
  return world.now_us < tools[type].until_us && server_lock(type, &view) && !view.stealable &&
         memcmp(&view.owner, &tools[type].owner, sizeof view.owner) == 0;
}
