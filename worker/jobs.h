/*
 * jobs: performs the actions of all types on threads (worker/executor.h), and gives the completions back to the loop's thread,
 * to which everything here belongs. All types share the threads, and wait in one line for them: a type has at most an action of
 * MAIN and a READ in it, so none passes another by more than these. Deletes and polls have threads of their own, for all types
 * together, and so have the renewals, which nothing may delay: those that become due while one is under way wait for its end,
 * and go together in one request. Polls wait where many are under way; many that wait become one (worker/poll_together.h). READs
 * that ask the server wait for memory (worker/budget.h), in the order in which they were submitted.
 */
#ifndef PAWL_WORKER_JOBS_H
#define PAWL_WORKER_JOBS_H

#include "worker/budget.h"
#include "worker/executor.h"
#include "worker/perform.h"
#include "worker/poll_together.h"

#include <stdatomic.h>

struct action_job;

/* Actions that go together: those that wait until the ones before them are done. */
struct jobs_line {
  struct action_job **waiting, **running;
  size_t waiting_count, waiting_room, running_count, running_room;
};

struct jobs {
  struct budget budget;
  struct action_job *reads, **reads_last; /* that wait for memory; oldest first */
  struct executor *executor, *poller, *deleter, *renewer;
  atomic_bool stopping; /* polls that wait for a thread are not made any more */
  struct job renew;
  struct jobs_line renewals;
  struct renewal *renewed; /* those that run */
  struct job poll;
  struct jobs_line polls; /* `running`: those that are one */
  struct poll_together together;
  size_t polls_alone;                     /* under way, each with a request of its own */
  struct action_job *found, **found_last; /* polls of types that have something: they begin as others come to an end; oldest first */
  int64_t found_ms;                       /* when the last one of them began */
};

/* How many connections the threads may use at the same time, whatever the number of types. */
int jobs_connections(void);
/* `notify` is called by any thread when something is to be taken. False: no memory, or no threads; the process can only exit. */
MUST_CHECK bool jobs_start(struct jobs *jobs, struct lockstore *store, int64_t memory_bytes, void (*notify)(void *context), void *context,
                           struct error *error);

/*
 * Any number of types may come and go: a type may go once none of its actions is under way. `of`: given back with the
 * completion. A renewal waits for jobs_renew, a poll for jobs_tend.
 */
void jobs_submit(struct jobs *jobs, struct performer *performer, void *of, const struct action *action);
void jobs_renew(struct jobs *jobs);

struct jobs_taker {
  void (*action)(void *context, void *of, struct completion *completion);
  void (*other)(void *context, struct job *job); /* one that the caller submitted to jobs->executor */
  void *context;
};
/* Before its actions are submitted: how much the batches of the type have in memory (consumer_bytes). */
void jobs_hold(struct jobs *jobs, struct performer *performer, int64_t bytes);
/* The type goes: none of its actions is under way. */
void jobs_forget(struct jobs *jobs, struct performer *performer);
/* The reply of the type's READ is not needed any more (performer_drop_read); one that waits for memory does not wait on. */
void jobs_drop_read(struct jobs *jobs, struct performer *performer);
/*
 * Begins polls, and READs for which there is memory, and adds threads where actions last. `busy`: the number of types that have something
 * to do (consumer_is_busy). Returns when it is to be called again at the latest (clock_boot_ms).
 */
MUST_CHECK int64_t jobs_tend(struct jobs *jobs, size_t busy);
struct jobs_state {
  struct executor_state threads; /* for the actions but deletes, polls and renewals */
  int64_t memory_used, memory_most;
};
void jobs_look(const struct jobs *jobs, struct jobs_state *state);

/* Takes what is done. The taker may submit. */
void jobs_take(struct jobs *jobs, const struct jobs_taker *taker);

#endif
