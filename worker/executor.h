/*
 * executor: threads that do what blocks, so that the loop never does. Jobs go in from the loop's thread, and come back to it
 * when they are done. One of the seams: a simulation links one that has no threads.
 *
 * A job is the caller's memory, given away from executor_submit until executor_take gives it back.
 */
#ifndef PAWL_WORKER_EXECUTOR_H
#define PAWL_WORKER_EXECUTOR_H

#include "base.h"

struct job {
  void (*work)(struct job *job); /* called on a thread of the executor; may block */
  struct job *next;              /* the executor's */
};

struct executor;

/*
 * `notify` is called on an executor's thread after each job that was done: it must be safe there (ev_async_send is). The
 * threads have all signals blocked, and last as long as the process. NULL: the system gives no more threads, and the process may only end.
 */
MUST_CHECK struct executor *executor_new(int threads, void (*notify)(void *context), void *context, struct error *error);

/* Jobs begin in the order in which they are submitted. */
void executor_submit(struct executor *executor, struct job *job);
/* A job that is done, in the order of their ends; NULL: none at the moment. */
struct job *executor_take(struct executor *executor);

#endif
