/*
 * loop: the event loop of pawl-worker, and the only place that knows libev. It owns the consumers, feeds them completions,
 * timers and signals, and hands their actions to the executor. It never blocks, so that timers and signals always answer.
 *
 * Called once, from the main thread. It also answers the health port, and tells the service manager how it is.
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
  struct performer_options performer;    /* its writer.type is filled in for each */
  const struct lockstore_options *watch; /* the store's, with await_ms: for wake-ups */
  bool exit_when_empty;
  int64_t timeout_ms;  /* -1: none */
  int health_listener; /* from health_listen, the loop's from now on; -1: none */
};

/* How many threads may be in a call of the database at once. */
int loop_connections(size_t type_count);

/*
 * Runs until all types are over: asked to stop by SIGTERM or SIGINT, found empty (exit_when_empty), timed out, or stopped. Then it ends
 * the process with its exit code; with 1 at once when a stop takes longer than 8 s or is asked for twice: as safe as any crash.
 */
_Noreturn void loop_run(const struct loop_options *options);

#endif
