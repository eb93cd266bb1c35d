/*
 * turn: waits for a type's lock and takes it, for a program that no wake-up reaches. It queues like pawl-lock, so a worker that holds the
 * lock ends its block and releases it in order.
 *
 * One thread. The calls block until the turn has come, or the patience is over.
 */
#ifndef PAWL_TOOLS_TURN_H
#define PAWL_TOOLS_TURN_H

#include "lockstore/acquire.h"

enum turn_patience {
  TURN_UNTIL, /* until until_ms */
  TURN_QUEUE, /* the same, but not while somebody holds the lock */
  /* For as long as the lease of a holder that is gone can last, and through outages. Where none is seen: TURN_TRIES_MS. */
  TURN_LEASE,
};
enum { TURN_TRIES_MS = 15000, TURN_RETRY_MS = 100 };

struct turn {
  struct lockstore *store;
  const char *type; /* borrowed */
  struct acquisition *lock;
  const struct lock_holder *holder;
  enum turn_patience patience;
  int64_t until_ms; /* clock_boot_ms */
  int64_t began_ms; /* TURN_LEASE: the same */
};

/* YES: it is my turn: acquire_take follows. NO: the patience is over. The acquisition may be in the wait queue: acquire_leave. */
MUST_CHECK enum outcome turn_wait(struct turn *turn, struct error *error);
/*
 * Also takes the lock. Without YES the wait queue is left, and the outcome is the last one: `error` is empty if others held the lock all
 * the time.
 */
MUST_CHECK enum outcome turn_take(struct turn *turn, struct error *error);
void turn_rest(void);

/* For people: how a tool goes on without the lock of a type whose holder does not release it. */
const char *turn_failure(enum outcome outcome);

#endif
