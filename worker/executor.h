/*
 * executor: threads for all blocking work, so that the loop never blocks. The loop's thread submits jobs, and takes them back
 * when they are done. This is one of the seams: a simulation links an executor without threads.
 *
 * A job is the caller's memory. It belongs to the executor from executor_submit until executor_take returns it.
 *
 * A few threads serve any number of types, and jobs begin in the order in which they are submitted. So a type that has at most
 * a few jobs under way at once is passed by at most as many of each other type, however much these have to do. A job that lasts
 * (a disk that hangs, a slow link) keeps one thread; for each of those there may be one thread more, up to a bound. The threads
 * end again with the jobs that needed them.
 */
#ifndef PAWL_WORKER_EXECUTOR_H
#define PAWL_WORKER_EXECUTOR_H

#include "base.h"

struct job {
  void (*work)(struct job *job); /* runs on a thread of the executor; may block */
  struct job *next;              /* used by the executor */
};

struct executor_size {
  int threads;      /* as many at least, once there were jobs for them */
  int threads_most; /* and never more than these, whatever lasts */
  int64_t lasts_ms; /* a job lasts when it has run for so long */
};

struct executor;

/*
 * An executor's thread calls `notify` after each finished job, so it must be safe there (ev_async_send is). The threads block
 * all signals. The executor lasts as long as the process. NULL: no memory, or the system does not give the first thread; the
 * process can only exit. Later it makes do with the threads that it has.
 */
MUST_CHECK struct executor *executor_new(const struct executor_size *size, void (*notify)(void *context), void *context,
                                         struct error *error);

/* Jobs begin in the order in which they are submitted. Only the loop's thread. */
void executor_submit(struct executor *executor, struct job *job);
/* The next finished job, in the order in which they finished; NULL: none at the moment. */
struct job *executor_take(struct executor *executor);

/*
 * Adds the threads that the jobs which last make room for, if jobs wait. Returns when to call it again at the latest
 * (clock_boot_ms); INT64_MAX: not before the next submit or notify. Only the loop's thread.
 */
MUST_CHECK int64_t executor_tend(struct executor *executor);

struct executor_state {
  int threads, threads_most;
  int lasting; /* jobs that last */
  int waiting; /* jobs that have not begun */
};
void executor_look(struct executor *executor, struct executor_state *state);

#endif
