/*
 * waiters: the wait queue of a mutex: the processes that wait for it, in the order of their arrival. It lies in the lock
 * document. A release passes it on in the wake-up to the first waiter, which puts the inherited waiters into the next lock
 * document. Private to lockstore and its twin.
 *
 * When a wait queue is lost, its waiters only lose time: each still polls by its timer.
 */
#ifndef PAWL_LOCKSTORE_WAITERS_H
#define PAWL_LOCKSTORE_WAITERS_H

#include "base.h"
#include "lockstore/lockstore.h"

#include <pthread.h>

enum { WAITERS_MAX = 128 }; /* later ones rely on their timers */

struct waiters {
  int count;
  struct owner processes[WAITERS_MAX];
};

bool waiters_have(const struct waiters *waiters, const struct owner *process);
/* Appends the process, unless it is in the queue already or the queue is full. */
void waiters_add(struct waiters *waiters, const struct owner *process);
/* Removes the first process that is not `but`; false: no other one waits. */
MUST_CHECK bool waiters_take_first(struct waiters *waiters, const struct owner *but, struct owner *first);

/* The inherited waiters of this process that are not yet in a lock document. Any thread. */
struct handed {
  pthread_mutex_t mutex;
  struct handed_row *rows;
};

void handed_init(struct handed *handed);
void handed_deinit(struct handed *handed);
/* Appends to the inherited waiters of this mutex. */
void handed_put(struct handed *handed, const char *type, int slot, const struct waiters *waiters);
/* *waiters is empty if there are none, or if they came so long ago that they no longer count. */
void handed_take(struct handed *handed, const char *type, int slot, struct waiters *waiters);

#endif
