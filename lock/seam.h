/*
 * seam: what differs between the library on MongoDB (threads.c) and the one in memory (memory.c): the clock, who runs the jobs,
 * and how a thread waits for them. Called with the handle's mutex, unless it says otherwise.
 */
#ifndef PAWL_LOCK_SEAM_H
#define PAWL_LOCK_SEAM_H

#include "lock/private.h"

/* Milliseconds of the boot-time clock. Without the mutex as well. */
int64_t seam_now_ms(const struct pawl *pawl);
/* There is something new: for the threads that run jobs (a job was put, the renewal is due earlier, there are listeners), */
void seam_job_put(struct pawl *pawl);
/* and for those that wait in a call. */
void seam_changed(struct pawl *pawl);
/* Waits for that, until until_ms at most; it may come back earlier. */
void seam_wait(struct pawl *pawl, int64_t until_ms);
/* Makes the descriptor readable at that time; a time that is over: now. */
int seam_fd_new(void);
void seam_fd_set(const struct pawl *pawl, int fd, int64_t at_ms);
/* Makes sure that jobs are run. False: no thread. */
MUST_CHECK bool seam_start(struct pawl *pawl);
/* Ends the threads: no job runs from then on. The mutex is given up meanwhile. */
void seam_stop(struct pawl *pawl);
/* After that, or of a handle that was never opened. Without the mutex. */
void seam_free(struct pawl *pawl);

#endif
