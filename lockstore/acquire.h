/*
 * acquire: the one way to wait for a mutex and to take it. A caller that wants a mutex has a `struct acquisition` for it: pure data,
 * which the caller keeps and passes to these calls. Where the mutex is busy, the calls enter the wait queue, and say when to
 * look again; a wake-up may say so earlier. docs/protocol.md, The mutex and Wake-ups, has the rules.
 *
 *   acquire_look ── NO: again after pause_ms, or when woken
 *        │ YES: it is my turn
 *        ▼
 *   acquire_take ── NO: another was faster: look again
 *        │ YES: mine
 *        ▼
 *   lock_renew … acquire_release
 *
 * Threads: any thread, one at a time for each acquisition. Each call blocks for some requests (lockstore.h). The mutex is a
 * lease, and a lease is advice: what matters rests on the ledger's epoch.
 */
#ifndef PAWL_LOCKSTORE_ACQUIRE_H
#define PAWL_LOCKSTORE_ACQUIRE_H

#include "lockstore/mutex.h"

struct acquisition {
  enum lock_kind kind;
  int slots;        /* so many may hold it at the same time; 1: a mutex */
  int64_t ttl_ms;   /* of the lease */
  int64_t retry_ms; /* between two looks, with jitter; at most the known rest of the lease */
  bool listens;     /* wake-ups come, so few looks are needed */
  bool tries;       /* does not wait: never enters the wait queue */

  struct owner owner; /* drawn by the first look; new after each hold */
  bool drawn, queued;
  int slot;              /* the one to take, or taken; of a mutex 0 */
  struct lock_view view; /* a holder as last seen; left_ms above 0: held. Of several the one whose lease ends first */
  int64_t pause_ms;      /* acquire_look NO: when to look again */
  bool near;             /* acquire_look NO: so near the front that wake-ups are worth their price */
  bool steal;            /* acquire_look YES: the lock document is there, and its lease is over */

  /* private to acquire.c */
  struct owner stolen;  /* steal: the owner of the document that is there */
  struct owner gone[8]; /* waiters that do not come any more: removed by the take */
  int gone_count;
  int seen_place; /* far from the front: since when I have been there, by the server's clock, */
  int64_t seen_ms;
  int64_t pace_ms; /* and for how long the queue may take, at the least, to move on by one */
  bool document;   /* there is a wait queue, perhaps an empty one */
};

static inline void acquire_init(struct acquisition *mine, enum lock_kind kind, int64_t ttl_ms, int64_t retry_ms)
{
  *mine = (struct acquisition){.kind = kind, .slots = 1, .ttl_ms = ttl_ms, .retry_ms = retry_ms};
}
/* A new owner, for the next hold. acquire_look does it by itself. */
void acquire_draw(struct lockstore *store, struct acquisition *mine);

/*
 * YES: it is my turn: the lock (or a slot of it) is free or its lease is over, and no other waiter is before me. NO: not yet; I am in the
 * wait queue, as far as its bounds allow, and pause_ms says when to look again. REFUSED: as lock_read.
 */
MUST_CHECK enum outcome acquire_look(struct lockstore *store, const char *type, struct acquisition *mine, const struct lock_holder *holder,
                                     struct error *error);
/*
 * Takes the lock (its lease counts from before the call): after a YES of acquire_look, or after a wake-up that names my owner. YES: mine.
 * NO: another was faster. UNKNOWN: it may be mine, or become mine: acquire_release makes sure that it is not.
 */
MUST_CHECK enum outcome acquire_take(struct lockstore *store, const char *type, struct acquisition *mine, const struct lock_holder *holder,
                                     struct error *error);
/*
 * Ends the acquisition without a hold: leaves the wait queue. `calls`: if it was my turn, the next waiter is called; without it
 * only a waiter of the other kind (a worker that found its queue empty has nothing to hand on to other workers).
 */
MUST_CHECK enum outcome acquire_leave(struct lockstore *store, const char *type, struct acquisition *mine, bool calls, struct error *error);
/*
 * Releases a hold, or a take whose answer is unknown. YES: deleted. NO: it was not there any more. Either way the lock is not
 * mine afterwards, and never will be again. The next waiter is woken as soon as the primary alone has deleted the lock, before
 * the majority has. `epoch` is the ledger's epoch if the caller knows it, otherwise 0. The wake-up carries it to the waiter,
 * which may then take and fence without having read the ledger.
 */
MUST_CHECK enum outcome acquire_release(struct lockstore *store, const char *type, const struct acquisition *mine, int64_t epoch,
                                        struct error *error);
/*
 * A person ends another's hold: as if that had released it; and it is told why. `theirs` has the owner, the slot and the slots of
 * that hold. Answers as acquire_release.
 */
MUST_CHECK enum outcome acquire_break(struct lockstore *store, const char *type, const struct acquisition *theirs, const char *why,
                                      struct error *error);

#endif
