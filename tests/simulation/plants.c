#include "plants.h"
#include "chaos.h"
#include "checks.h"
#include "process.h"
#include "queue.h"
#include "server.h"
#include "world.h"

enum plant plant;

/*
 * How the checks find a block that is overwritten: they see the write itself, or the first reader of the result. `texts` are
 * parts of failure messages (checks.h, world_fail), and one of them must find the bug. Any other failure comes from another
 * bug, or from a mistake in the planted one.
 */
#define WRITTEN_OVER                                                                                                        \
  " writes to ", "committed bytes are not what they were", "the reader refuses the committed chain", "no whole block lies", \
      "although the storage is as it was written", " because of its disk, and no call to it failed"

enum { TEXTS_MAX = 7 };

static const struct {
  const char *name, *texts[TEXTS_MAX];
} plants[PLANT_COUNT] = {
    [PLANT_NONE] = {"NONE", {NULL}},
    [PLANT_SAMEFILE] = {"SAMEFILE", {WRITTEN_OVER, " cuts "}},
    [PLANT_NOFENCE] = {"NOFENCE", {" commits in epoch ", "the ledger falls"}},
    [PLANT_NOSETTLE] = {"NOSETTLE", {" is still in the queue", "doubled: "}},
    [PLANT_NOLINK] = {"NOLINK", {"the ledger falls"}},
    [PLANT_CLEAN] = {"CLEAN", {WRITTEN_OVER, " ends clean, and leaves "}},
    [PLANT_NOBARRIER] = {"NOBARRIER", {"doubled: ", "a message that was deleted is there"}},
    [PLANT_STALE] = {"STALE", {"doubled: ", "a message that was deleted is there"}},
    [PLANT_EARLY] = {"EARLY", {"lost: "}},
    [PLANT_NOVERIFY] = {"NOVERIFY", {" cuts "}},
    [PLANT_UNSYNCED] = {"UNSYNCED", {" are safe on the disk"}},
    [PLANT_INCREMENT] = {"INCREMENT", {" who had the lock before the holder "}},
    [PLANT_RANGE] = {"RANGE", {"lost: "}},
    [PLANT_HANGCLEAN] = {"HANGCLEAN", {WRITTEN_OVER}},
    [PLANT_STUCK] = {"STUCK", {"the faults stopped "}},
    [PLANT_CLIENTCLOCK] = {"CLIENTCLOCK", {"a live lease "}},
    [PLANT_FENCELOCAL] = {"FENCELOCAL",
                          {"lost: ", " does not follow the committed end", "although the storage is as it was written",
                           " ends clean, and leaves "}},
    [PLANT_COMMITLOCAL] = {"COMMITLOCAL", {"lost: ", "although the storage is as it was written"}},
    [PLANT_FENCEOLD] = {"FENCEOLD", {" cuts ", WRITTEN_OVER}},
    [PLANT_FENCENO] = {"FENCENO", {" for another's, and it is its own"}},
    [PLANT_FENCECLEAN] = {"FENCECLEAN", {WRITTEN_OVER}},
    [PLANT_RENEWSUM] = {"RENEWSUM", {" takes its lock for renewed, and it is not"}},
    [PLANT_GETMOREAGAIN] = {"GETMOREAGAIN", {"order: "}},
    [PLANT_LATEREAD] = {"LATEREAD", {"order: ", "doubled: "}},
    [PLANT_EMPTYMISSING] = {"EMPTYMISSING", {"a pass says that the queue is empty"}},
    [PLANT_GUARDCOMMIT] = {"GUARDCOMMIT", {WRITTEN_OVER}},
    [PLANT_GUARDBOOL] = {"GUARDBOOL", {WRITTEN_OVER}},
    [PLANT_GUARDIGNORE] = {"GUARDIGNORE", {WRITTEN_OVER, " cuts "}},
    [PLANT_GUARDALWAYS] = {"GUARDALWAYS", {WRITTEN_OVER}},
    [PLANT_NETKEEP] = {"NETKEEP", {WRITTEN_OVER}},
    [PLANT_NETVOUCH] = {"NETVOUCH", {WRITTEN_OVER}},
    [PLANT_ADOPTVOUCH] = {"ADOPTVOUCH", {WRITTEN_OVER}},
    [PLANT_PADVIEW] = {"PADVIEW", {" lies in a page that was written by another kernel"}},
    [PLANT_DELETEBLIND] = {"DELETEBLIND", {" is still in the queue", "doubled: "}},
    [PLANT_SETTLEBLIND] = {"SETTLEBLIND", {" is still in the queue", "doubled: "}},
    [PLANT_ADOPTLATE] = {"ADOPTLATE", {"the ledger falls"}},
    [PLANT_STALEREAD] = {"STALEREAD", {" cuts "}},
    [PLANT_STALENAME] = {"STALENAME", {" already exists, with "}},
    [PLANT_EXITSTALE] = {"EXITSTALE", {" ends because its queues are empty, and "}},
    [PLANT_NOLOOK] = {"NOLOOK", {" was removed before it could know "}},
    [PLANT_UNNAMED] = {"UNNAMED", {" ends clean, and leaves "}},
    [PLANT_INEXACT] = {"INEXACT", {" because of its disk, and no call to it failed"}},
    [PLANT_RANGESHIFT] = {"RANGESHIFT", {"lost: ", " is still in the queue", "doubled: "}},
    [PLANT_STANDALONE] = {"STANDALONE", {"lost: "}},
    [PLANT_RENEWANY] = {"RENEWANY", {" extends a lease of worker "}},
    [PLANT_RENEWOVER] = {"RENEWOVER", {" extends a lease that is over"}},
    [PLANT_LOCKNOFENCE] = {"LOCKNOFENCE", {" while a command runs under its lock"}},
    [PLANT_FLOORSTAYS] = {"FLOORSTAYS", {" is given twice", "the ledger falls"}},
    [PLANT_PAUSEPLAIN] = {"PAUSEPLAIN", {", while the type is paused"}},
    [PLANT_RESUMELATE] = {"RESUMELATE", {", while the type is paused", "it is not resumed"}},
    [PLANT_TYPEALONG] = {"TYPEALONG", {"foreign: "}},
    [PLANT_EMPTYOWN] = {"EMPTYOWN", {"a pass says that the own collection is empty"}},
    [PLANT_OWNFIRST] = {"OWNFIRST", {"order: "}},
    [PLANT_OWNLATER] = {"OWNLATER", {"order: "}},
    [PLANT_OWNEARLY] = {"OWNEARLY", {"order: "}},
    [PLANT_FROMLOST] = {"FROMLOST", {" is still in the queue", "doubled: "}},
    [PLANT_FROMEARLY] = {"FROMEARLY", {" is still in the queue", "doubled: "}},
    [PLANT_OWNV1] = {"OWNV1", {" is still in the queue", "doubled: "}},
    [PLANT_OWNEXISTS] = {"OWNEXISTS", {"foreign: "}},
    [PLANT_EXITSHARED] = {"EXITSHARED", {" ends because its queues are empty, and "}},
    [PLANT_BACKBLIND] = {"BACKBLIND", {"it is shared again, and messages are in its own collection"}},
    [PLANT_EXITBLIND] = {"EXITBLIND", {" ends because its queues are empty, and "}},
};

const char *plant_name(enum plant which)
{
  return plants[which].name;
}

enum plant plant_named(const char *name)
{
  for (int i = 0; i < PLANT_COUNT; i++)
    if (strcmp(plants[i].name, name) == 0)
      return (enum plant)i;
  return PLANT_COUNT;
}

bool plant_is_found_by(const char *failure)
{
  bool own = false;
  for (int i = 0; i < TEXTS_MAX && plants[plant].texts[i] != NULL; i++)
    own = own || strstr(failure, plants[plant].texts[i]) != NULL;
  return own;
}

/* ---- `clean`, set by a holder that must not set it ---- */

static void say_clean(const struct type_context *served)
{
  struct ledger ledger;
  server_ledger_live(served->type, &ledger);
  if (server_in_election() || ledger.epoch != served->epoch || ledger.end.file[0] == 0 ||
      memcmp(&ledger.owner, &served->owner, sizeof ledger.owner) != 0)
    return;
  ledger.clean = true;
  server_put_ledger(served->type, &ledger);
  checks_ledger(served->type, NULL);
}

static void clean_while_hanging(void *context, uint64_t number)
{
  const struct type_context *served = context;
  if (!served->process->up || !served->consumer.core.activity[ACTIVITY_MAIN].running ||
      served->consumer.core.activity[ACTIVITY_MAIN].number != number)
    return;
  say_clean(served);
  server_theft(served->type);
}

void plants_write_begins(void)
{
  if (plant == PLANT_HANGCLEAN && fiber_process() != NULL && fiber_action()->kind == ACTION_APPEND && !fiber_dead())
    world_at(world.now_us + fiber_type()->consumer.core.options.lease_ms * MS, clean_while_hanging, fiber_type(), fiber_action()->number);
}

/* ---- on the way to a consumer ---- */

void plants_options(struct consumer_options *options)
{
  if (plant == PLANT_STUCK)
    options->stall_ms = INT64_MAX / 2;
}

static void delete_early(const struct type_context *served, const struct work_item *item)
{
  for (size_t i = 0; i < item->ids_count; i++)
    queue_remove(served->type, SOURCE_SHARED, item->ids[i], false);
}

static void fence_completion(struct type_context *served, struct completion *completion)
{
  bool again = served->consumer.core.unknown_row > 0 && completion->result == RESULT_YES;
  if (plant == PLANT_FENCEOLD && again && !served->consumer.epoch.rolling)
    completion->ledger = served->checked;
  else if (plant == PLANT_FENCECLEAN && again)
    completion->ledger.clean = true;
  else if (plant == PLANT_FENCENO && served->matched_nothing)
    completion->result = RESULT_NO;
}

static bool begins(void)
{
  return fiber_action() != NULL && fiber_action()->kind == ACTION_BEGIN;
}

/* The worker is about to find out whether it continues the file. */
void plants_action(struct type_context *served, struct action *action)
{
  if (action->kind != ACTION_BEGIN)
    return;
  served->name_taken = false;
  if (plant == PLANT_SAMEFILE)
    served->performer.writer->local = true;
  if (plant == PLANT_GUARDIGNORE || plant == PLANT_SAMEFILE || (plant == PLANT_GUARDBOOL && action->ledger.guarded != 0))
    action->ledger.guarded = action->ledger.epoch;
}

bool plants_ignores_guards(void)
{
  return plant == PLANT_SAMEFILE && begins();
}

int64_t plants_size(const char *file, int64_t size)
{
  if (plant != PLANT_INEXACT || !begins() || strcmp(file, fiber_type()->performer.writer->end.file) != 0)
    return size;
  return fiber_type()->performer.writer->end.length;
}

enum outcome plants_verified(struct ledger *ledger, enum outcome outcome)
{
  if (plant != PLANT_NOVERIFY || !begins() || fiber_type()->name_taken)
    return outcome;
  ledger->epoch = fiber_action()->epoch;
  ledger->has_owner = true;
  ledger->owner = fiber_action()->owner;
  return OUTCOME_YES;
}

void plants_commit_begins(void)
{
  if (plant == PLANT_EARLY && fiber_action()->kind == ACTION_APPEND)
    delete_early(fiber_type(), fiber_action()->item);
}

void plants_completion(struct type_context *served, struct completion *completion)
{
  bool yes = completion->result == RESULT_YES;
  if ((completion->kind == ACTION_COMMIT || completion->kind == ACTION_APPEND) && yes)
    served->commit_operation = queue_operation();
  if (completion->kind == ACTION_CHECK)
    served->checked = completion->ledger;
  if (completion->kind == ACTION_FENCE)
    fence_completion(served, completion);
  if (plant == PLANT_NOSETTLE && completion->kind == ACTION_FENCE && yes)
    completion->ledger.settled = completion->ledger.end.seq;
  else if (plant == PLANT_INCREMENT && completion->kind == ACTION_FENCE && yes)
    served->consumer.core.epoch_seen = completion->ledger.epoch;
  else if (plant == PLANT_CLEAN && completion->kind == ACTION_CLOSE && !served->wrote)
    say_clean(served);
  else if (plant == PLANT_UNNAMED && completion->kind == ACTION_BEGIN)
    completion->unnamed = false;
  else if (plant == PLANT_PADVIEW && completion->kind == ACTION_OPEN && yes)
    served->performer.writer->foreign = strcmp(served->consumer.epoch.before.machine, process_machine(served->process)->boot_id) != 0;
}

/* ---- on the way to the server ---- */

int64_t plants_epoch_seen(int type, int64_t epoch_seen)
{
  struct ledger ledger;
  if (plant != PLANT_INCREMENT)
    return epoch_seen;
  server_ledger_live(type, &ledger);
  return ledger.epoch;
}

static int64_t left_by_client_ms(int process, const struct lock_view *view)
{
  return server_now_ms() + view->left_ms - machine_wall_us(process_machine(&processes[process])) / 1000;
}

bool plants_steal_anyway(int process, const struct lock_view *view)
{
  return plant == PLANT_CLIENTCLOCK && view != NULL && left_by_client_ms(process, view) < 0;
}

void plants_view(int process, struct lock_view *view)
{
  if (plant != PLANT_CLIENTCLOCK || view->ttl_ms == 0)
    return;
  view->left_ms = left_by_client_ms(process, view);
  view->stealable = view->left_ms < 0;
}

void plants_renewals(struct lock_renewal *renewals, size_t count)
{
  bool any = false;
  for (size_t i = 0; i < count; i++)
    any = any || renewals[i].outcome == OUTCOME_YES;
  for (size_t i = 0; i < count && any && plant == PLANT_RENEWSUM; i++)
    renewals[i].outcome = OUTCOME_YES;
}

bool plants_renews_anyway(const struct lock_renewal *renewal, const struct lock_view *view)
{
  bool own = memcmp(&view->owner, &renewal->owner, sizeof view->owner) == 0;
  return own ? plant == PLANT_RENEWOVER : plant == PLANT_RENEWANY;
}

bool plants_read_locally(void)
{
  const struct action *action = fiber_action();
  return action != NULL &&
         ((plant == PLANT_FENCELOCAL && action->kind == ACTION_FENCE) || (plant == PLANT_COMMITLOCAL && action->kind == ACTION_COMMIT));
}

void plants_fenced(enum fencer fencer, const struct ledger *before, struct ledger *ledger)
{
  bool keeps = plant == PLANT_GUARDCOMMIT || (plant == PLANT_NETKEEP && fencer == FENCER_NETWORK);
  if (keeps || plant == PLANT_GUARDALWAYS)
    ledger->guarded = ledger_vouched(before) || (plant == PLANT_GUARDALWAYS && fencer == FENCER_LOCAL) ? ledger->epoch : 0;
}

void plants_committed(int type, int process)
{
  struct ledger ledger;
  if ((plant != PLANT_GUARDCOMMIT && plant != PLANT_NETVOUCH) || chaos_is_local(processes[process].machine))
    return;
  server_ledger_live(type, &ledger);
  ledger.guarded = plant == PLANT_NETVOUCH ? ledger.epoch : 0;
  server_put_ledger(type, &ledger);
}

int64_t plants_adopted(const struct ledger *ledger)
{
  return plant == PLANT_ADOPTVOUCH ? ledger->epoch : 0;
}

bool plants_adopts_late(void)
{
  return plant == PLANT_ADOPTLATE;
}

bool plants_lock_does_not_fence(void)
{
  return plant == PLANT_LOCKNOFENCE;
}

bool plants_pauses_plainly(void)
{
  return plant == PLANT_PAUSEPLAIN;
}

bool plants_resumes_any(void)
{
  return plant == PLANT_RESUMELATE;
}

enum outcome plants_paused(int type, struct ledger *ledger, enum outcome outcome)
{
  ledger->paused = ledger->paused || (plants_pauses_plainly() && outcome == OUTCOME_YES && server_paused(type));
  return outcome;
}

bool plants_floor_stays(void)
{
  return plant == PLANT_FLOORSTAYS;
}

void plants_fence(enum outcome outcome)
{
  fiber_type()->matched_nothing = fiber_action()->again && outcome == OUTCOME_NO;
}

bool plants_commit(int type, const struct ledger_commit *commit, enum outcome *outcome)
{
  struct ledger ledger;
  if (plant != PLANT_NOFENCE && plant != PLANT_NOLINK)
    return false;
  server_ledger_live(type, &ledger);
  if (plant == PLANT_NOLINK && (ledger.epoch != commit->epoch || memcmp(&ledger.owner, &commit->owner, sizeof ledger.owner) != 0))
    return false; /* the check answers NO */
  if (commit->after.file[0] != 0)
    ledger.end = commit->after;
  if (commit->settled > ledger.settled)
    ledger.settled = commit->settled;
  ledger.clean = ledger.clean || commit->clean;
  if (commit->machine != NULL)
    snprintf(ledger.machine, sizeof ledger.machine, "%s", commit->machine);
  if (commit->guarded)
    ledger.guarded = commit->epoch;
  server_put_ledger(type, &ledger);
  *outcome = OUTCOME_YES;
  return true;
}

/* ---- queue and disk ---- */

bool plants_deletes_ranges(void)
{
  return plant == PLANT_RANGE;
}

bool plants_shifts_ranges(void)
{
  return plant == PLANT_RANGESHIFT;
}

bool plants_ranges_alone(void)
{
  return plant == PLANT_STANDALONE;
}

bool plants_trusts_deletes(void)
{
  return (plant == PLANT_DELETEBLIND && fiber_action()->kind == ACTION_DELETE) ||
         (plant == PLANT_SETTLEBLIND && fiber_action()->kind == ACTION_SETTLE);
}

bool plants_snapshots_are_old(void)
{
  return plant == PLANT_STALE || plant == PLANT_NOBARRIER;
}

uint64_t plants_operation_seen(uint64_t seen)
{
  uint64_t commit = fiber_type()->commit_operation;
  if (plant == PLANT_STALE)
    return 0;
  return plant == PLANT_NOBARRIER && commit < seen ? commit : seen;
}

bool plants_repeats_getmore(void)
{
  return plant == PLANT_GETMOREAGAIN;
}

bool plants_reads_on(void)
{
  return plant == PLANT_LATEREAD;
}

bool plants_believes_empty(enum queue_source source)
{
  return plant == (source == SOURCE_OWN ? PLANT_EMPTYOWN : PLANT_EMPTYMISSING);
}

bool plants_reads_stale(void)
{
  return begins() && plant == (fiber_type()->name_taken ? PLANT_STALENAME : PLANT_STALEREAD);
}

bool plants_come_and_go(void)
{
  return plant == PLANT_STALEREAD || plant == PLANT_NOVERIFY;
}

bool plants_looks_stale(void)
{
  return plant == PLANT_EXITSTALE;
}

bool plants_looks_not(void)
{
  return plant == PLANT_EXITBLIND;
}

bool plants_skips_look(void)
{
  return plant == PLANT_NOLOOK && fiber_action() != NULL && fiber_action()->kind == ACTION_APPEND;
}

bool plants_skips_sync(void)
{
  return plant == PLANT_UNSYNCED && fiber_process() != NULL && fiber_action()->kind == ACTION_APPEND;
}
