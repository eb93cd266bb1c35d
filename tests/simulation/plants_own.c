#include "chaos.h"
#include "plants.h"
#include "process.h"
#include "request.h"
#include "server.h"
#include "world.h"

/* The planted bugs of a type with a collection of its own. */

bool plants_takes_along(void)
{
  return plant == PLANT_TYPEALONG;
}

bool plants_shares_blindly(void)
{
  return plant == PLANT_BACKBLIND;
}

enum queue_source plants_source(int type, enum queue_source source)
{
  struct ledger ledger;
  server_ledger_live(type, &ledger);
  return plant == PLANT_OWNFIRST && ledger.own ? (source == SOURCE_OWN ? SOURCE_SHARED : SOURCE_OWN) : source;
}

bool plants_reads_own_later(void)
{
  return plant == PLANT_OWNLATER;
}

bool plants_goes_on_early(int type, enum queue_source source)
{
  struct ledger ledger;
  server_ledger_live(type, &ledger);
  return plant == PLANT_OWNEARLY && source == SOURCE_SHARED && ledger.own && world_chance(0.2);
}

bool plants_exits_shared(void)
{
  return plant == PLANT_EXITSHARED;
}

/* Worker 0 is of an older pawl, which knows nothing of own collections. */
static bool does_not_know_own(int process)
{
  return plant == PLANT_OWNV1 && process == 0;
}

void plants_ledger_seen(struct ledger *ledger)
{
  if (plant == PLANT_OWNEXISTS && ledger->epoch > 0)
    ledger->own = true;
  if (does_not_know_own(fiber_process()->index)) {
    ledger->own = false;
    ledger->from = SOURCE_SHARED;
  }
}

struct ledger_commit plants_commit_source(const struct request *request)
{
  struct ledger_commit commit = request->commit;
  struct ledger ledger;
  server_ledger_live(request->type, &ledger);
  bool left = plant == PLANT_FROMLOST || does_not_know_own(request->caller.process);
  if (left && ledger.from != SOURCE_BOTH) /* which is of no block */
    commit.from = ledger.from;
  else if (plant == PLANT_FROMEARLY && ledger.own)
    commit.from = SOURCE_OWN;
  return commit;
}
