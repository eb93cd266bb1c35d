#include "chaos.h"
#include "checks.h"
#include "lockstore/lease.h"
#include "lockstore/ledger_requests.h"
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

bool server_tool_begins(int type, struct ledger *ledger, struct owner *owner)
{
  uint64_t low = world_random(), high = world_random();
  server_ledger_live(type, ledger);
  if (server_in_election())
    return false;
  server_theft(type);
  memcpy(owner->bytes, &low, sizeof low);
  memcpy(owner->bytes + sizeof low, &high, sizeof high);
  checks_taken(type, owner, (struct caller){.process = -1}, false);
  return true;
}

/* Only where there is a file already. */
static bool tool_begin(int type, struct ledger *ledger, struct owner *owner)
{
  server_ledger_live(type, ledger);
  return ledger->end.file[0] != 0 && server_tool_begins(type, ledger, owner);
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
  ledger.from = ledger.own ? SOURCE_BOTH : SOURCE_SHARED;
  server_put_ledger(type, &ledger);
  checks_adopted(type);
  checks_ledger(type, NULL);
  trace_add(-1, type, "the files are adopted");
  if (world_chance(0.3))
    adoption_send_late(type, &found, &ledger);
}

/* False: there is nothing to forget. */
static bool forget(int type)
{
  struct ledger ledger;
  struct error error;
  size_t removed;
  int64_t gone;
  server_ledger_live(type, &ledger);
  if (server_in_election() || ledger.epoch == 0 || ledger.end.file[0] != 0 || ledger.own)
    return false;
  struct ledger_name name = {.epoch = ledger.epoch};
  snprintf(name.type, sizeof name.type, "%s", type_name(type));
  enum outcome outcome = plants_floor_stays() ? ledger_remove(server_store_now(), &name, 1, &gone, &error)
                                              : ledger_forget(server_store_now(), &name, 1, &removed, &error);
  if (outcome != OUTCOME_YES)
    world_fail("t%d: the ledger cannot be forgotten", type);
  checks_ledger(type, NULL);
  trace_add(-1, type, "pawl-lock forgets the ledger, of epoch %lld", (long long)ledger.epoch);
  return true;
}

void server_lock_tool(int type)
{
  struct lock_holder holder = {.host = "host", .program = "pawl-lock"};
  struct ledger ledger, before;
  struct owner owner;
  struct error error;
  if (forget(type) || !tool_begin(type, &ledger, &owner))
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

/* ---- pauses ---- */

static struct pausing { /* of each type */
  struct ledger_pause pause;
  int64_t epoch_seen;
  struct owner owner;
  bool begun; /* and not ended */
} pausings[TYPES_MAX];

bool server_paused(int type)
{
  return pausings[type].begun;
}

/* A request that was sent before comes a second time. */
static void pause_late(void *context, uint64_t argument)
{
  const struct pausing *late = context;
  int type = (int)argument;
  struct ledger before;
  struct error error;
  if (!plants_pauses_plainly() && !server_in_election() &&
      ledger_pause_begin(server_store_now(), type_name(type), late->epoch_seen, &late->owner, &late->pause, &before, &error) == OUTCOME_YES)
    world_fail("t%d: a pause that comes late pauses the type again", type);
}

static enum outcome resume(int type, const uint8_t *id)
{
  struct error error;
  enum outcome outcome = ledger_pause_end(server_store_now(), type_name(type), id, &error);
  checks_ledger(type, NULL);
  return outcome;
}

static struct ledger_pause resumes[TYPES_MAX]; /* on its way a second time */

static void resume_late(void *context, uint64_t type)
{
  struct ledger ledger;
  (void)context;
  server_ledger_live((int)type, &ledger);
  if (!server_in_election())
    (void)resume((int)type, plants_resumes_any() ? ledger.pause.id : resumes[type].id);
}

static void pause_over(void *context, uint64_t type)
{
  struct pausing *pausing = &pausings[type];
  (void)context;
  if (server_in_election()) {
    world_at(world.now_us + chaos_plan.lease_ms * MS, pause_over, NULL, type);
    return;
  }
  pausing->begun = false;
  if (!plants_pauses_plainly() && resume((int)type, pausing->pause.id) != OUTCOME_YES)
    world_fail("t%d: it is not resumed", (int)type);
  trace_add(-1, (int)type, "resumed");
  resumes[type] = pausing->pause;
  world_at(world.now_us + world_between(0, 3 * chaos_plan.lease_ms * MS), resume_late, NULL, type);
}

/* With the lock, as a rule; or without it, as after the lease of a holder that is frozen. */
void server_pause(int type)
{
  struct pausing *pausing = &pausings[type];
  struct ledger ledger, before;
  struct error error;
  uint64_t id[2] = {world_random(), world_random()};
  if (pausing->begun || !tool_begin(type, &ledger, &pausing->owner))
    return;
  memcpy(pausing->pause.id, id, sizeof pausing->pause.id);
  pausing->epoch_seen = ledger.epoch;
  if (!plants_pauses_plainly() && ledger_pause_begin(server_store_now(), type_name(type), ledger.epoch, &pausing->owner, &pausing->pause,
                                                     &before, &error) != OUTCOME_YES)
    world_fail("t%d: it cannot be paused", type);
  pausing->begun = true;
  checks_ledger(type, NULL);
  trace_add(-1, type, "paused");
  int64_t until_us = world.now_us + world_between(0, 2 * chaos_plan.lease_ms * MS);
  world_at(world_between(world.now_us, until_us), pause_late, pausing, (uint64_t)type);
  world_at(until_us, pause_over, NULL, (uint64_t)type);
}

void tools_begin(void)
{
  memset(pausings, 0, sizeof pausings);
  memset(tools, 0, sizeof tools);
  own_tool_begin();
}
