/*
 * jobs: what is to be run, and when; the earliest first. A heap. Not for several threads: its owner locks.
 */
#ifndef PAWL_LOCK_JOBS_H
#define PAWL_LOCK_JOBS_H

#include "base.h"

struct pawl;

struct job {
  void (*run)(struct pawl *pawl, struct job *job);
  int64_t due_ms;
  size_t place; /* in the heap, from 1 on; 0: it is not in it */
};

struct jobs {
  struct job **heap; /* heap[0] is not used */
  size_t count, room;
};

/* Room for so many jobs at the same time, so that jobs_put never fails. False: no memory; nothing has changed. */
MUST_CHECK bool jobs_reserve(struct jobs *jobs, size_t count);
void jobs_free(struct jobs *jobs);
/* Due at this time from now on, also if it was due at another. */
void jobs_put(struct jobs *jobs, struct job *job, int64_t due_ms);
void jobs_drop(struct jobs *jobs, struct job *job);
/* The earliest, which stays; NULL: none. */
struct job *jobs_first(const struct jobs *jobs);

#endif
