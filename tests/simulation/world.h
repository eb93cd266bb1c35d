/*
 * world: what a simulation shares: its seed, its clocks, what happens next, and the first thing that went wrong.
 *
 * The simulator drives many consumers of many processes on one or two machines, on one thread: the real state machine
 * (worker/consumer*.c), the real worker/perform.c and the real storage, over the lockstore's twin, a fake queue, a fake disk and virtual
 * clocks. Every random choice comes from the one generator here, every delay is an entry in the one list of happenings, so
 * a seed plays the same run again, to the byte.
 *
 *   world.c      time, chance, what happens next            process.c    processes, their consumers, their deaths
 *   fiber.c      an action under way, which can be stopped at every call it makes
 *   server.c     lockstore.h for perform.c: requests get lost, come late, come twice, are rolled back
 *   tools.c      pawl-lock and pawl-setup --adopt            disk.c       storage/file.h
 *   queue.c      worker/queue.h                              messages.c   the messages
 *   producer.c   who fills the queue                         chaos.c      which faults a run has, and when they strike
 *   checks.c, chain_checks.c   what must hold                plants.c     bugs put in on purpose, which must be found
 *   trace.c      the last changes, for who has to understand a failure
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
  bool faults; /* they strike; false: the run is to end well */
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
double world_log_between(double low, double high); /* each octave alike */
bool world_chance(double probability);

/* Calls call(context, argument) at that time. */
typedef void world_call(void *context, uint64_t argument);
void world_at(int64_t at_us, world_call *call, void *context, uint64_t argument);
/* The next happening; false: nothing is left. */
bool world_step(void);

/* The boot-time clock of a machine, and when it will show a time at the earliest. */
int64_t machine_boot_ms(const struct machine *machine);
int64_t machine_boot_to_us(const struct machine *machine, int64_t boot_ms);
int64_t machine_wall_us(const struct machine *machine);
void machine_reboot(int index);
int64_t server_now_ms(void);

/* Something that must hold does not. The first one counts; the run ends after the happening in hand. */
__attribute__((format(printf, 1, 2))) void world_fail(const char *format, ...);

#endif
