/*
 * world: what all parts of a simulation share: the seed, the clocks, the list of events, and the first failure.
 *
 * The simulator drives many consumers of many processes on one or two machines, on one thread: the real state machine
 * (worker/consumer*.c), the real worker/perform.c and the real storage, over the lockstore's twin, a fake queue, a fake disk
 * and virtual clocks. Every random choice comes from the one generator here, and every delay is an entry in the one list of
 * events, so a seed repeats the same run, to the byte.
 *
 *   world.c      time, chance, the list of events           process.c    processes, their consumers, their deaths
 *   fiber.c      an action under way, which can be suspended at every call it makes
 *   server.c     lockstore.h for perform.c: requests get lost, come late, come twice, are rolled back
 *   tools.c      pawl-lock and pawl-setup --adopt            disk.c       storage/file.h
 *   queue.c      worker/queue.h                              messages.c   the messages
 *   producer.c   fills the queue                             chaos.c      which faults a run has, and when they strike
 *   checks.c, chain_checks.c   what must hold                plants.c     planted bugs, which the checks must find
 *   trace.c      the last changes, for debugging a failure
 *
 * Times are microseconds since the run began unless the name says otherwise.
 */
#ifndef PAWL_TESTS_SIMULATION_WORLD_H
#define PAWL_TESTS_SIMULATION_WORLD_H

#include "base.h"

enum { TYPES_MAX = 8, PROCESSES_MAX = 12, MACHINES_MAX = 2 };
#define MS ((int64_t)1000)
#define SECONDS (1000 * MS)

struct machine { /* a kernel, and its clocks */
  int64_t boot_us, rate_permille;
  int64_t wall_offset_us;
  int64_t boots;
  char boot_id[MACHINE_SIZE];
};

struct world {
  uint64_t seed, random;
  int64_t now_us, server_offset_ms;
  uint64_t steps;
  bool faults; /* whether faults strike; false: the run must end well */
  struct machine machines[MACHINES_MAX];

  int64_t takeovers, takeovers_unclean, rolls, messages, committed_blocks, segments;
  bool failed;
  char failure[1500];
};
extern struct world world;

void world_begin(uint64_t seed);
void world_end(void);

/* splitmix64 (Steele, Lea, Flood 2014) */
uint64_t world_random(void);
int64_t world_between(int64_t low, int64_t high);  /* both included */
double world_log_between(double low, double high); /* every octave has the same probability */
bool world_chance(double probability);

/* Calls call(context, argument) at that time. */
typedef void world_call(void *context, uint64_t argument);
void world_at(int64_t at_us, world_call *call, void *context, uint64_t argument);
/* Runs the next event; false: none is left. */
bool world_step(void);

/* The boot-time clock of a machine. machine_boot_to_us: the earliest moment at which that clock shows a given time. */
int64_t machine_boot_ms(const struct machine *machine);
int64_t machine_boot_to_us(const struct machine *machine, int64_t boot_ms);
int64_t machine_wall_us(const struct machine *machine);
void machine_reboot(int index);
int64_t server_now_ms(void);

/* Something that must hold does not. The first failure counts; the run ends after the current event. */
__attribute__((format(printf, 1, 2))) void world_fail(const char *format, ...);

#endif
