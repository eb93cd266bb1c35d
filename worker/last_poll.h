/*
 * last_poll: for --exit-when-empty: the linearizable poll of the queues of all types together, on a thread of an executor. It goes
 * over all that was deleted in the last minutes, so it pauses for many times what it took. The rest belongs to the loop's thread.
 */
#ifndef PAWL_WORKER_LAST_POLL_H
#define PAWL_WORKER_LAST_POLL_H

#include "lockstore/lockstore.h"
#include "worker/executor.h"

struct last_poll {
  struct job job;
  struct lockstore *store;
  const char **types; /* the caller fills them in before each start */
  size_t type_count;
  enum outcome outcome;
  bool running;
  int64_t started_ms, next_ms;
};

/* Room for so many types, for the life of the process. False: no memory. */
MUST_CHECK bool last_poll_init(struct last_poll *last, struct lockstore *store, size_t count);
bool last_poll_is_due(const struct last_poll *last);
void last_poll_start(struct last_poll *last, struct executor *executor);
/* The job came back. True: there is no message of any of the types. */
MUST_CHECK bool last_poll_done(struct last_poll *last);

#endif
