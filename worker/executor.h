/*
 * executor: threads for all blocking work, so that the loop never blocks. The loop's thread submits jobs, and takes them back
 * when they are done. This is one of the seams: a simulation links an executor without threads.
 *
 * A job is the caller's memory. It belongs to the executor from executor_submit until executor_take returns it.
 */
#ifndef PAWL_WORKER_EXECUTOR_H
#define PAWL_WORKER_EXECUTOR_H

#include "base.h"

struct job {
  void (*work)(struct job *job); /* runs on a thread of the executor; may block */
  struct job *next;              /* used by the executor */
};

struct executor;

/*
 * An executor's thread calls `notify` after each finished job, so it must be safe there (ev_async_send is). The threads block
 * all signals, and last as long as the process. NULL: the system gives no more threads, and the process can only exit.
 */
MUST_CHECK struct executor *executor_new(int threads, void (*notify)(void *context), void *context, struct error *error);

/* Jobs begin in the order in which they are submitted. */
void executor_submit(struct executor *executor, struct job *job);
/* The next finished job, in the order in which they finished; NULL: none at the moment. */
struct job *executor_take(struct executor *executor);

#endif
