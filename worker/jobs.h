/*
 * jobs: performs the actions of all types on threads (worker/executor.h), and gives the completions back to the loop's thread,
 * to which everything here belongs. Deletes and polls have threads of their own, for all types together; renewals that become
 * due while one is under way wait for its end, and go together in one request.
 */
#ifndef PAWL_WORKER_JOBS_H
#define PAWL_WORKER_JOBS_H

#include "worker/executor.h"
#include "worker/perform.h"

#include <stdatomic.h>

struct action_job;

struct jobs {
  struct executor *executor, *poller, *deleter, *renewer;
  atomic_bool stopping; /* polls that wait for a thread are not made any more */
  struct job renew;
  struct action_job **waiting, **running; /* renewals */
  struct renewal *renewals;               /* of those that run */
  size_t waiting_count, running_count;
};

/* How many connections all threads can use at the same time. */
int jobs_connections(size_t type_count);
/* `notify` is called by any thread when something is to be taken. False: no memory, or no threads; the process can only exit. */
MUST_CHECK bool jobs_start(struct jobs *jobs, size_t type_count, void (*notify)(void *context), void *context, struct error *error);

/* `of`: given back with the completion. A renewal waits for jobs_renew. */
void jobs_submit(struct jobs *jobs, struct performer *performer, void *of, const struct action *action);
void jobs_renew(struct jobs *jobs);

struct jobs_taker {
  void (*action)(void *context, void *of, struct completion *completion);
  void (*other)(void *context, struct job *job); /* one that the caller submitted to jobs->executor */
  void *context;
};
/* Takes what is done. The taker may submit. */
void jobs_take(struct jobs *jobs, const struct jobs_taker *taker);

#endif
