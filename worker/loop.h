/*
 * loop: the event loop of pawl-worker; only its files, loop.c, loop_types.c and loop_commands.c, know libev. It owns the consumers, passes
 * completions, timers and signals to them, and their actions to the executor. It never blocks, so that timers and signals are always
 * handled.
 *
 * Called once, from the main thread. It also serves the health port, and reports to the service manager.
 */
#ifndef PAWL_WORKER_LOOP_H
#define PAWL_WORKER_LOOP_H

#include "base.h"
#include "worker/consumer.h"
#include "worker/perform.h"
#include "worker/reload.h"
#include "worker/type_rules.h"

struct loop_options {
  const char *const *types; /* that are listed; borrowed, like all pointers here */
  size_t type_count;
  const struct type_rules *rules; /* of those that are found; NULL: none */
  size_t found_max;               /* of these at the same time */
  struct consumer_options consumer;
  struct performer_options performer;            /* the loop sets writer.type for each type */
  const struct lockstore_options *notifications; /* the store's options with await_ms, for the wake-ups */
  int64_t memory_bytes;                          /* for the batches and replies of all types */
  bool exit_when_empty;
  int64_t timeout_ms;          /* -1: none */
  struct reload_source reload; /* for SIGHUP */
  int health_listener;         /* from health_listen; belongs to the loop from now on; -1: none */
};

/* How many connections the threads may use at the same time. */
int loop_connections(void);

/*
 * Runs until all types are over: stopped by SIGTERM or SIGINT, found empty (exit_when_empty), timed out, or stopped by
 * themselves. Then it exits with the exit code of the process. It exits immediately with 1 if a stop takes longer than 8 s or
 * is requested twice; no data is lost, as after any crash.
 */
_Noreturn void loop_run(const struct loop_options *options);

#endif
