/*
 * waiters: the row of processes that wait for a mutex, in the order in which they came. It stands in the lock document; a release hands
 * it on, with the wake-up of its first, to whom it goes from there into the next lock document. Private to lockstore and its twin.
 *
 * A row that gets lost costs nobody more than the timer by which he looks anyway.
 */
#ifndef PAWL_LOCKSTORE_WAITERS_H
#define PAWL_LOCKSTORE_WAITERS_H

#include "base.h"
#include "lockstore/lockstore.h"

#include <pthread.h>

enum { WAITERS_MAX = 128 }; /* those behind look by their timers */

struct waiters {
  int count;
  struct owner processes[WAITERS_MAX];
};

bool waiters_have(const struct waiters *waiters, const struct owner *process);
/* At the end, unless it is there already or the row is full. */
void waiters_add(struct waiters *waiters, const struct owner *process);
/* Takes the first out that is not `but`; false: nobody else waits. */
MUST_CHECK bool waiters_take_first(struct waiters *waiters, const struct owner *but, struct owner *first);

/* Rows that were handed to this process and are not yet in a lock document. Any thread. */
struct handed {
  pthread_mutex_t mutex;
  struct handed_row *rows;
};

void handed_init(struct handed *handed);
void handed_deinit(struct handed *handed);
/* Behind those that are there for this mutex. */
void handed_put(struct handed *handed, const char *type, int slot, const struct waiters *waiters);
/* *waiters is empty if there are none, or were handed on so long ago that they no longer count. */
void handed_take(struct handed *handed, const char *type, int slot, struct waiters *waiters);

#endif
