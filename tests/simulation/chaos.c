#include "chaos.h"
#include "checks.h"
#include "disk.h"
#include "plants.h"
#include "process.h"
#include "server.h"
#include "trace.h"

struct chaos_plan chaos_plan;
int64_t chaos_struck[CHAOS_COUNT];
static int64_t full_until_us;

static const struct {
  const char *name;
  double low, high;
} kinds[CHAOS_COUNT] = {
    [CHAOS_KILL] = {"killed", 2, 40},
    [CHAOS_MACHINE] = {"machine crashed", 10, 100},
    [CHAOS_FREEZE] = {"frozen", 1, 30},
    [CHAOS_SUSPEND] = {"machine suspended", 10, 100},
    [CHAOS_AWAY] = {"database away", 15, 100},
    [CHAOS_CUT_OFF] = {"cut off from the database", 5, 60},
    [CHAOS_ELECTION] = {"no majority", 4, 60},
    [CHAOS_REPLACED] = {"primary replaced, not for all", 4, 60},
    [CHAOS_CLOCK] = {"server's clock jumped", 5, 60},
    [CHAOS_WALL] = {"machine's clock jumped", 5, 60},
    [CHAOS_TERM] = {"SIGTERM", 3, 40},
    [CHAOS_FULL] = {"disk full", 10, 60},
    [CHAOS_THEFT] = {"lock deleted", 1, 20},
    [CHAOS_WRITE_BACK] = {"written back early", 0.5, 10},
    [CHAOS_SCRIBBLE] = {"scribbled", 2, 40},
    [CHAOS_ADOPT] = {"adopted", 3, 60},
    [CHAOS_LOCK] = {"locked by pawl-lock", 3, 60},
    [CHAOS_PAUSE] = {"paused", 3, 60},
    [CHAOS_OWN] = {"own collection, or shared again", 2, 40},
    [CHAOS_POINT] = {"killed between two calls", 0.0001, 0.005},
    [CHAOS_NAP] = {"frozen between two calls", 0.0005, 0.02},
    [CHAOS_WRITE_NAP] = {"frozen in a write", 0.002, 0.1},
    [CHAOS_LOST] = {"request lost", 0.001, 0.05},
    [CHAOS_REPLY] = {"reply lost", 0.001, 0.1},
    [CHAOS_LATE] = {"request late", 0.001, 0.05},
    [CHAOS_COPY] = {"request came again", 0.01, 0.3},
    [CHAOS_PART] = {"delete in part", 0.005, 0.1},
    [CHAOS_FEWER] = {"delete of fewer", 0.005, 0.1},
    [CHAOS_PASS] = {"pass ended early", 0.005, 0.2},
    [CHAOS_TRICKLE] = {"slow reply", 0.005, 0.2},
    [CHAOS_MISSING] = {"messages missing", 0.005, 0.2},
    [CHAOS_SNAPSHOT] = {"older snapshot", 0.05, 0.8},
    [CHAOS_SLOW] = {"slow call", 0.001, 0.03},
    [CHAOS_HANG] = {"disk hung", 0.0005, 0.01},
    [CHAOS_WRITE] = {"short write", 0.002, 0.03},
    [CHAOS_SYNC] = {"sync failed", 0.002, 0.03},
    [CHAOS_CLOSE] = {"close failed", 0.002, 0.03},
    [CHAOS_REMOVED] = {"file away for a moment", 0.001, 0.02},
    [CHAOS_MISC] = {"other call to the disk failed", 0.0005, 0.01},
};

const char *chaos_name(enum chaos chaos)
{
  return kinds[chaos].name;
}

bool chaos_is_local(int machine)
{
  return chaos_plan.files == FILES_LOCAL || (chaos_plan.files == FILES_BOTH && machine == 0);
}

bool chaos_may_be_own(int type)
{
  return (chaos_plan.own_types & 1u << type) != 0;
}

bool chaos_strikes(enum chaos chaos)
{
  if (!world.faults || !world_chance(chaos_plan.rate[chaos]))
    return false;
  chaos_struck[chaos]++;
  return true;
}

/* ---- at a call ---- */

static int64_t leases_us(double low, double high)
{
  return (int64_t)(world_log_between(low, high) * (double)chaos_plan.lease_ms * 1000);
}

static void freeze(struct process *process, int64_t us)
{
  trace_add(process->index, -1, "is frozen for %lld ms", (long long)(us / MS));
  process->frozen_until_us = world.now_us + us;
}

static int64_t pause_us(void)
{
  uint64_t how = world_random() % 20;
  return how < 14 ? world_between(0, 2 * MS) : how < 19 ? world_between(0, 30 * MS) : world_between(0, chaos_plan.lease_ms * MS / 2);
}

/*
 * What the worker saw before may be out of date by its first write: another process may have come and gone while the lease
 * still runs. These moments are rare and important, so faults strike here more often.
 */
static bool before_writing(void)
{
  const struct action *action = fiber_action();
  return action->kind == ACTION_OPEN || (action->kind == ACTION_BEGIN && !action->fresh);
}

static bool nap_strikes(void)
{
  bool often = world.faults && before_writing() && chaos_plan.rate[CHAOS_NAP] > 0 && plants_come_and_go() && world_chance(0.1);
  return often || chaos_strikes(CHAOS_NAP) || (before_writing() && (chaos_strikes(CHAOS_NAP) || chaos_strikes(CHAOS_NAP)));
}

/* Kills the workers that wrote while this one was frozen, which frees their guards. */
static void others_die(void *context, uint64_t type)
{
  for (int i = 0; i < chaos_plan.processes && world.faults; i++)
    for (int j = 0; j < processes[i].context_count && &processes[i] != context && processes[i].up; j++)
      if (processes[i].contexts[j].type == (int)type && processes[i].contexts[j].consumer.epoch.wrote) {
        process_crash_soon(&processes[i]);
        break;
      }
}

/* Most of what is left of the time in which it would still go on: so others have come and gone when it does. */
static int64_t nap_until_late_us(const struct process *process)
{
  int64_t left_ms = fiber_type()->consumer.lease.safe_until_ms - machine_boot_ms(process_machine(process));
  return left_ms > 0 ? left_ms * MS * 8 / 10 : leases_us(0.1, 0.6);
}

/* The process freezes in the middle of an action. Another process may believe it dead, and delete its lock. */
static void nap(struct process *process)
{
  bool come_and_go = before_writing() && plants_come_and_go(), brief = come_and_go || (before_writing() && world_chance(0.5));
  freeze(process, come_and_go ? nap_until_late_us(process) : brief ? leases_us(0.1, 0.6) : leases_us(0.05, 4));
  if (chaos_plan.rate[CHAOS_REPLACED] > 0 && (come_and_go || world_chance(0.5))) {
    server_replace(1u << process->index, process->frozen_until_us - world.now_us + leases_us(0.1, 2));
    chaos_struck[CHAOS_REPLACED]++;
  }
  if (brief || world_chance(0.3))
    server_theft(fiber_type()->type);
  if (come_and_go) {
    processes_wake_waiters(fiber_type()->type);
    world_at(world.now_us + (process->frozen_until_us - world.now_us) * 9 / 10, others_die, process, (uint64_t)fiber_type()->type);
  }
  fiber_wait(0);
}

void chaos_point(void)
{
  struct process *process = fiber_process();
  if (process == NULL || fiber_dead())
    return;
  if (chaos_strikes(CHAOS_POINT)) {
    process_crash_soon(process);
    fiber_wait(FIBER_FOREVER);
  } else if (fiber_action()->kind >= ACTION_TAKE && nap_strikes()) {
    nap(process);
  } else if (chaos_strikes(CHAOS_SLOW)) {
    fiber_wait(world_between(0, 2 * chaos_plan.lease_ms * MS));
  } else if (world.faults ? world_chance(chaos_plan.yield) : world_chance(0.2)) {
    fiber_wait(pause_us());
  }
}

/* After the faults have stopped, one write may hang for ever: the other processes must do without that one. */
static bool stuck_for_ever(void)
{
  if (world.faults || !chaos_plan.stuck_for_ever || fiber_action()->kind != ACTION_APPEND)
    return false;
  chaos_plan.stuck_for_ever = false;
  return true;
}

/* A worker rarely makes a new segment, and its lease may run out meanwhile. */
static bool hang_strikes(void)
{
  bool creates = fiber_action()->kind == ACTION_BEGIN;
  return chaos_strikes(CHAOS_HANG) || (creates && (chaos_strikes(CHAOS_HANG) || chaos_strikes(CHAOS_HANG)));
}

void chaos_disk_point(void)
{
  if (fiber_process() == NULL || fiber_dead())
    return;
  if (stuck_for_ever()) {
    trace_add(fiber_process()->index, fiber_type()->type, "its disk hangs for ever");
    fiber_wait(FIBER_FOREVER);
  } else if (hang_strikes()) {
    int64_t us = world_between(0, 6 * chaos_plan.lease_ms * MS);
    trace_add(fiber_process()->index, fiber_type()->type, "its disk hangs for %lld ms", (long long)(us / MS));
    fiber_wait(us);
  } else {
    chaos_point();
  }
}

void chaos_write_point(void)
{
  if (fiber_process() != NULL && !fiber_dead() && chaos_strikes(CHAOS_WRITE_NAP))
    nap(fiber_process());
}

bool chaos_disk_full(void)
{
  return full_until_us > world.now_us;
}

/* ---- at any time ---- */

static struct process *process_any(void)
{
  struct process *process = &processes[world_between(0, chaos_plan.processes - 1)];
  return process->up ? process : NULL;
}

static bool runs_on(const struct process *process, int machine)
{
  return process->up && (chaos_plan.one_kernel || process->machine == machine);
}

static void machine_crash(int machine)
{
  trace_add(-1, -1, "machine %d loses power", machine);
  for (int view = 0; view < chaos_plan.machines; view++)
    if (chaos_plan.one_kernel || view == machine)
      disk_machine_crashed(view);
  for (int i = 0; i < chaos_plan.processes; i++)
    if (runs_on(&processes[i], machine))
      process_crash_soon(&processes[i]);
}

static void machine_suspend(int machine)
{
  int64_t us = leases_us(0.1, 5);
  for (int i = 0; i < chaos_plan.processes; i++)
    if (runs_on(&processes[i], machine))
      freeze(&processes[i], us);
}

static void strike_process(enum chaos chaos, struct process *process)
{
  if (chaos == CHAOS_KILL) {
    process_crash_soon(process);
  } else if (chaos == CHAOS_FREEZE) {
    freeze(process, leases_us(0.05, 5));
  } else if (chaos == CHAOS_TERM) {
    process_stop(process);
  } else {
    process->cut_off_until_us = world.now_us + leases_us(0.1, 5);
    trace_add(process->index, -1, "is cut off from the database for %lld ms", (long long)((process->cut_off_until_us - world.now_us) / MS));
  }
}

static void clock_jump(void)
{
  int64_t jump_ms = world_between(-4 * chaos_plan.lease_ms, 4 * chaos_plan.lease_ms);
  trace_add(-1, -1, "the server's clock jumps by %lld ms", (long long)jump_ms);
  world.server_offset_ms += jump_ms;
}

/* Only after a clean end: before that, the scribble would disturb the current writer. */
static void scribble(int type)
{
  const struct ledger *ledger = checks_ledger_last(type);
  if (ledger->clean && ledger->end.file[0] != 0 && !server_in_election())
    disk_scribble(ledger->end.file);
}

static void strike(enum chaos chaos)
{
  if (chaos == CHAOS_MACHINE) {
    machine_crash((int)world_between(0, chaos_plan.machines - 1));
  } else if (chaos == CHAOS_SUSPEND) {
    machine_suspend((int)world_between(0, chaos_plan.machines - 1));
  } else if (chaos == CHAOS_AWAY) {
    server_away(leases_us(0.1, 5));
  } else if (chaos == CHAOS_ELECTION) {
    server_election(leases_us(0.05, 2));
  } else if (chaos == CHAOS_REPLACED) {
    server_replace((unsigned)world_random(), leases_us(0.1, 5));
  } else if (chaos == CHAOS_CLOCK) {
    clock_jump();
  } else if (chaos == CHAOS_WALL) {
    world.machines[world_between(0, chaos_plan.machines - 1)].wall_offset_us += world_between(-60 * SECONDS, 60 * SECONDS);
  } else if (chaos == CHAOS_FULL) {
    full_until_us = world.now_us + leases_us(0.1, 4);
    trace_add(-1, -1, "the disk is full for %lld ms", (long long)((full_until_us - world.now_us) / MS));
  } else if (chaos == CHAOS_THEFT) {
    server_theft((int)world_between(0, chaos_plan.types - 1));
  } else if (chaos == CHAOS_WRITE_BACK) {
    disk_write_back();
  } else if (chaos == CHAOS_SCRIBBLE) {
    scribble((int)world_between(0, chaos_plan.types - 1));
  } else if (chaos == CHAOS_ADOPT) {
    server_adopt((int)world_between(0, chaos_plan.types - 1));
  } else if (chaos == CHAOS_LOCK) {
    server_lock_tool((int)world_between(0, chaos_plan.types - 1));
  } else if (chaos == CHAOS_PAUSE) {
    server_pause((int)world_between(0, chaos_plan.types - 1));
  } else if (chaos == CHAOS_OWN) {
    server_own((int)world_between(0, chaos_plan.types - 1));
  }
}

static void timed(void *context, uint64_t chaos)
{
  (void)context;
  if (!world.faults)
    return;
  struct process *process = process_any();
  bool one = chaos == CHAOS_KILL || chaos == CHAOS_FREEZE || chaos == CHAOS_TERM || chaos == CHAOS_CUT_OFF;
  if (one && process != NULL)
    strike_process((enum chaos)chaos, process);
  else if (!one)
    strike((enum chaos)chaos);
  chaos_struck[chaos]++;
  double mean = chaos_plan.rate[chaos];
  world_at(world.now_us + (int64_t)(mean * 1e6 * world_log_between(0.1, 4)), timed, NULL, chaos);
}

/* ---- the plan ---- */

static void plan_workers(void)
{
  struct chaos_plan *plan = &chaos_plan;
  plan->types = (int)(world_chance(0.1) ? world_between(5, TYPES_MAX) : world_between(1, 4));
  plan->processes = (int)world_between(2, PROCESSES_MAX);
  plan->files = (enum files)world_between(FILES_LOCAL, FILES_BOTH);
  plan->machines = plan->files == FILES_LOCAL ? 1 : MACHINES_MAX;
  plan->one_kernel = plan->files == FILES_BOTH && world_chance(0.4);
  plan->older = plan->files == FILES_BOTH && world_chance(0.3);
  plan->early = world_chance(0.5);
  plan->zstd = world_chance(0.1);
  plan->name_lag_us = plan->files != FILES_LOCAL && world_chance(0.3) ? world_between(0, 5 * SECONDS) : 0;
  plan->producers = (int)world_between(1, 4);
  plan->own_types = world_chance(0.7) ? ~0u : (unsigned)world_random();
  plan->yield = world_chance(0.2) ? 1 : world_log_between(0.02, 1);
  plan->stuck_for_ever = world_chance(0.2);
  plan->all_serve_all = world_chance(0.7);
  plan->stuck_for_ever = plan->stuck_for_ever && plan->all_serve_all; /* the other processes must be able to do without it */
  plan->standalone = world_chance(0.15);
  plan->exits = world_chance(0.4);
  plan->wakeups = world_chance(0.7);
  plan->wakeups_lost = world_chance(0.5) ? 0 : world_log_between(0.01, 1);
  plan->lease_ms = world_between(1000, 6000);
  plan->timeout_ms = plan->lease_ms / 3 < 3000 ? plan->lease_ms / 3 : 3000;
  plan->batch_messages = world_between(1, 12);
  plan->batch_bytes = world_between(200, 4000);
  plan->insert_us = (int64_t)world_log_between(20000, 2000000);
  plan->duration_us = world_between(30, 200) * SECONDS;
  int64_t stall_ms = world_between(3000, 20000);
  plan->consumer = (struct consumer_options){
      .lease_ms = plan->lease_ms,
      .retry_ms = world_between(50, 500),
      .poll_ms = world_between(100, 1500),
      .linger_ms = world_chance(0.7) ? world_between(0, 300) : world_between(500, 5000),
      .stall_ms = stall_ms > 3 * plan->lease_ms ? stall_ms : 3 * plan->lease_ms,
      .segment_bytes = world_chance(0.5) ? 0 : world_between(5000, 30000),
      .poll_share = 20,
      .distrust_ms = 60000,
      .dir = "/files",
      .database = "pawl",
      .server = "db1:27017",
  };
}

void chaos_begin(void)
{
  memset(&chaos_plan, 0, sizeof chaos_plan);
  full_until_us = 0;
  plan_workers();
  for (int i = 0; i < CHAOS_COUNT; i++) {
    if (!world_chance(0.5))
      continue;
    chaos_plan.rate[i] = world_log_between(kinds[i].low, kinds[i].high);
    if (i < CHAOS_TIMED)
      world_at((int64_t)(chaos_plan.rate[i] * 1e6 * world_log_between(0.05, 2)), timed, NULL, (uint64_t)i);
  }
}

void chaos_end(void)
{
  world.faults = false;
  full_until_us = 0;
  server_back();
  for (int i = 0; i < PROCESSES_MAX; i++)
    processes[i].frozen_until_us = processes[i].cut_off_until_us = 0;
  trace_add(-1, -1, "the faults stop");
}

void chaos_print(FILE *stream)
{
  static const char *const files[] = {"local", "network", "local and network"};
  const struct chaos_plan *plan = &chaos_plan;
  fprintf(stream, "  %d workers, %d types, %s file system, %d machine%s%s%s%s, lease %lld ms, segments %lld, yield %.2f\n  faults:",
          plan->processes, plan->types, files[plan->files], plan->machines, plan->machines > 1 ? "s" : "",
          plan->one_kernel ? " of one kernel" : "", plan->older ? ", an older pawl over the network" : "",
          plan->standalone ? ", standalone" : "", (long long)plan->lease_ms, (long long)plan->consumer.segment_bytes, plan->yield);
  for (int i = 0; i < CHAOS_COUNT; i++)
    if (plan->rate[i] > 0)
      fprintf(stream, " %s (%.4g%s)", kinds[i].name, plan->rate[i], i < CHAOS_TIMED ? " s" : "");
  fprintf(stream, "\n");
}
