/*
 * simulation: runs the consumers of pawl through crashes, lost replies, zombies and failing disks, and checks that nothing is
 * lost, doubled or changed. world.h describes how it is made, chaos.h the faults, checks.h what must hold.
 *
 *   simulation [--seed N] [--runs K] [--takeovers T] [--steps M] [--plant NAME] [--keep-going] [--verbose]
 *   simulation --planted [--plant NAME] [--seed N]
 *
 * The first run has the seed N, the next one N+1, …: K runs, or as many as T take-overs need. The same seed repeats the same
 * run. A failure prints its seed, the command that repeats it, the faults that the run had, and the last changes.
 *
 *   --steps M     the faults stop after M events, to find out how early the failure begins
 *   --keep-going  prints one line for each failure and goes on
 *   --plant NAME  puts in a bug (plants.h)
 *   --planted     searches for each planted bug in turn, or for the named one; fails if one is not found, or by another check than its own
 *
 * Exit codes: 0 all checks held (--planted: each bug was found); 1 a check failed; 2 wrong usage.
 */
#include "chaos.h"
#include "checks.h"
#include "disk.h"
#include "plants.h"
#include "process.h"
#include "producer.h"
#include "server.h"
#include "trace.h"
#include "worker/fault.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TRACE_LINES = 80, PLANTED_RUNS_MAX = 4000, CHECK_EVERY_STEPS = 20000 };

static struct settings {
  uint64_t seed;
  int64_t runs, takeovers, steps;
  bool planted, keep_going;
} settings = {.seed = 1, .runs = -1, .takeovers = -1, .steps = INT64_MAX};

static struct totals {
  int64_t runs, takeovers, unclean, rolls, messages, blocks, segments, virtual_us;
  uint64_t steps;
} totals;

/* ---- one run ---- */

#if PAWL_FAULTS
/* worker/fault.h: the named points in perform.c are moments like every other call. */
void fault_point(enum fault fault)
{
  (void)fault;
  chaos_point();
}
#endif

static void run_until(int64_t until_us)
{
  int64_t next_check = CHECK_EVERY_STEPS;
  while (!world.failed && world.now_us < until_us && (int64_t)world.steps < settings.steps && world_step())
    if ((int64_t)world.steps >= next_check) {
      next_check = (int64_t)world.steps + CHECK_EVERY_STEPS;
      checks_full(false);
    }
}

static bool queues_empty(void)
{
  for (int type = 0; type < chaos_plan.types; type++)
    if (queue_length(type) > 0)
      return false;
  return true;
}

/* Without faults all messages must soon be in the files. */
static void run_to_the_end(void)
{
  int64_t began_us = world.now_us, limit_us = began_us + 300 * SECONDS + (20 * chaos_plan.lease_ms + 2 * chaos_plan.consumer.stall_ms) * MS;
  chaos_end();
  while (!world.failed && !queues_empty() && world.now_us < limit_us && world_step()) {
  }
  for (int type = 0; type < chaos_plan.types && !world.failed; type++)
    if (queue_length(type) > 0)
      world_fail("t%d: the faults stopped %lld s ago, and %zu messages are still in the queue", type,
                 (long long)((world.now_us - began_us) / SECONDS), queue_length(type));
}

static void run_play(uint64_t seed)
{
  trace_clear();
  world_begin(seed);
  chaos_begin();
  disk_begin();
  queue_begin();
  server_begin();
  tools_begin();
  checks_begin();
  processes_begin();
  producers_begin();
  run_until(chaos_plan.duration_us);
  run_to_the_end();
  if (!world.failed)
    checks_full(true);
}

static void run_add_up(void)
{
  totals.runs++;
  totals.takeovers += world.takeovers;
  totals.unclean += world.takeovers_unclean;
  totals.rolls += world.rolls;
  totals.messages += world.messages;
  totals.blocks += world.committed_blocks;
  totals.segments += world.segments;
  totals.virtual_us += world.now_us;
  totals.steps += world.steps;
}

static void run_clean_up(void)
{
  processes_end();
  disk_end();
  queue_end();
  server_end();
  checks_end();
}

/* ---- output ---- */

static void print_failure(const char *what)
{
  printf("FAILED: %s\n  seed %llu, after %lld takeovers, %llu steps, %.3f s\n  again: simulation --seed %llu --runs 1%s%s\n", what,
         (unsigned long long)world.seed, (long long)world.takeovers, (unsigned long long)world.steps, (double)world.now_us / 1e6,
         (unsigned long long)world.seed, plant != PLANT_NONE ? " --plant " : "", plant != PLANT_NONE ? plant_name(plant) : "");
  chaos_print(stdout);
  printf("  the last changes:\n");
  trace_print(stdout, TRACE_LINES);
  fflush(stdout);
}

/* False: the run found something else. */
static bool print_found(const char *what)
{
  bool own = plant_is_found_by(what);
  printf("planted %s: %s by seed %llu after %lld takeovers: %s\n", plant_name(plant), own ? "found" : "ANOTHER VERDICT",
         (unsigned long long)world.seed, (long long)(totals.takeovers + world.takeovers), what);
  fflush(stdout);
  return own;
}

static void print_totals(double seconds, int64_t failures)
{
  printf("simulation: %lld takeovers (%lld after an unclean end), %lld rolls, %lld segments, %lld blocks, %lld messages; %s\n",
         (long long)totals.takeovers, (long long)totals.unclean, (long long)totals.rolls, (long long)totals.segments,
         (long long)totals.blocks, (long long)totals.messages, failures == 0 ? "0 lost, 0 doubled" : "runs FAILED");
  printf("  %lld runs from seed %llu, %llu steps, %.0f s of virtual time, %.1f s\n  faults:", (long long)totals.runs,
         (unsigned long long)settings.seed, (unsigned long long)totals.steps, (double)totals.virtual_us / 1e6, seconds);
  for (int i = 0; i < CHAOS_COUNT; i++)
    printf("%s %s %lld", i > 0 ? "," : "", chaos_name((enum chaos)i), (long long)chaos_struck[i]);
  printf("\n");
}

/* A failed assertion of the code under test is a failure like any other. */
static void on_abort(int number)
{
  (void)number;
  static const char what[] = "an assertion does not hold";
  bool found = settings.planted && print_found(what);
  if (!settings.planted)
    print_failure(what);
  _exit(found ? EXIT_DONE : EXIT_FAILED);
}

/* ---- many runs ---- */

static bool enough(int64_t runs)
{
  return settings.takeovers >= 0 ? totals.takeovers >= settings.takeovers : runs >= (settings.runs >= 0 ? settings.runs : 1);
}

static double seconds_now(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int play_all(void)
{
  double began = seconds_now();
  int64_t failures = 0;
  for (int64_t run = 0; !enough(run); run++) {
    run_play(settings.seed + (uint64_t)run);
    failures += world.failed;
    if (world.failed && settings.keep_going)
      printf("seed %llu: %s\n", (unsigned long long)world.seed, world.failure);
    else if (world.failed)
      print_failure(world.failure);
    run_add_up();
    run_clean_up();
    if (failures > 0 && !settings.keep_going)
      return EXIT_FAILED;
  }
  print_totals(seconds_now() - began, failures);
  return failures == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* ---- the planted bugs ---- */

static int plant_search(enum plant which)
{
  plant = which;
  for (int run = 0; run < PLANTED_RUNS_MAX; run++) {
    run_play(settings.seed + (uint64_t)run);
    bool found = world.failed && print_found(world.failure), failed = world.failed;
    run_add_up();
    run_clean_up();
    if (failed)
      return found ? EXIT_DONE : EXIT_FAILED;
  }
  printf("planted %s: NOT FOUND in %d runs, %lld takeovers\n", plant_name(which), PLANTED_RUNS_MAX, (long long)totals.takeovers);
  return EXIT_FAILED;
}

/* Each planted bug runs in a process of its own, because some end in a failed assertion of the code under test. */
static int plants_search(enum plant first, enum plant last)
{
  int missed = 0, status = 0, count = (int)last - (int)first + 1;
  for (int which = (int)first; which <= (int)last; which++) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      int code = plant_search((enum plant)which);
      fflush(stdout);
      _exit(code);
    }
    missed += child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != EXIT_DONE;
  }
  printf("%d of %d planted bugs found\n", count - missed, count);
  return missed == 0 ? EXIT_DONE : EXIT_FAILED;
}

/* ---- usage ---- */

static int usage(const char *what)
{
  fprintf(stderr,
          "simulation: %s\nusage: simulation [--seed N] [--runs K] [--takeovers T] [--steps M] [--plant NAME] [--keep-going] [--verbose]\n"
          "       simulation --planted [--plant NAME] [--seed N]\n",
          what);
  return EXIT_USAGE;
}

static bool option_take(int option, const char *value)
{
  switch (option) {
  case 's':
    settings.seed = strtoull(value, NULL, 10);
    return true;
  case 'r':
    settings.runs = atoll(value);
    return true;
  case 't':
    settings.takeovers = atoll(value);
    return true;
  case 'm':
    settings.steps = atoll(value);
    return true;
  case 'p':
    plant = plant_named(value);
    return plant != PLANT_COUNT;
  case 'P':
    return settings.planted = true;
  case 'k':
    return settings.keep_going = true;
  case 'v':
    return trace_verbose = true;
  }
  return false;
}

int main(int argc, char **argv)
{
  static const struct option options[] = {
      {"seed", required_argument, NULL, 's'},  {"runs", required_argument, NULL, 'r'},  {"takeovers", required_argument, NULL, 't'},
      {"steps", required_argument, NULL, 'm'}, {"plant", required_argument, NULL, 'p'}, {"planted", no_argument, NULL, 'P'},
      {"keep-going", no_argument, NULL, 'k'},  {"verbose", no_argument, NULL, 'v'},     {NULL, 0, NULL, 0}};
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
    if (!option_take(option, optarg))
      return usage("unknown option or value");
  if (optind != argc)
    return usage("takes options only");
  signal(SIGABRT, on_abort);
  bool one = plant != PLANT_NONE;
  int code = !settings.planted ? play_all() : one ? plants_search(plant, plant) : plants_search(PLANT_NONE + 1, PLANT_COUNT - 1);
  fiber_free_all();
  world_end();
  return code;
}
