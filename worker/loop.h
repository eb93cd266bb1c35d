/*
 * loop: the event loop of pawl-worker, and the only file that knows libev. It owns the consumers, passes completions, timers
 * and signals to them, and their actions to the executor. It never blocks, so that timers and signals are always handled.
 *
 * Called once, from the main thread. It also serves the health port, and reports to the service manager.
 */
#ifndef PAWL_WORKER_LOOP_H
#define PAWL_WORKER_LOOP_H

#include "base.h"
#include "worker/consumer.h"
#include "worker/perform.h"

struct loop_options {
  const char *const *types; /* borrowed, like all pointers here */
  size_t type_count;
  struct consumer_options consumer;
  struct performer_options performer;            /* the loop sets writer.type for each type */
  const struct lockstore_options *notifications; /* the store's options with await_ms, for the wake-ups */
  bool exit_when_empty;
  int64_t timeout_ms;  /* -1: none */
  int health_listener; /* from health_listen; belongs to the loop from now on; -1: none */
};

/* How many threads may be in a call of the database at the same time. */
int loop_connections(size_t type_count);

/*
 * Runs until all types are over: stopped by SIGTERM or SIGINT, found empty (exit_when_empty), timed out, or stopped by
 * themselves. Then it exits with the exit code of the process. It exits immediately with 1 if a stop takes longer than 8 s or
 * is requested twice; no data is lost, as after any crash.
 */
_Noreturn void loop_run(const struct loop_options *options);

#endif
