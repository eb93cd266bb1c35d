/*
 * wait_queue: the processes that wait for a mutex, in a document of its own beside the lock: {type, slot: -1, queue, last}. It
 * survives the release. It only says whose turn it is to try, and decides nothing: the insert does. So it may be lost, old or
 * wrong, at the price of an order or of a pause. Private to lockstore and its twin; others use acquire.h.
 *
 * The first functions are pure. The others send one request each, which the primary alone acknowledges. All of them name what
 * they change by its full owner, so a late or repeated copy does no harm. The design follows the queue of Chubby's and etcd's
 * lock clients, except that here the queue is advice.
 */
#ifndef PAWL_LOCKSTORE_WAIT_QUEUE_H
#define PAWL_LOCKSTORE_WAIT_QUEUE_H

#include "lockstore/acquire.h"

enum {
  WAIT_QUEUE_SLOT = -1,
  WAITERS_MAX = 500,     /* later ones rely on their timers */
  WAITER_TTL_MS = 10000, /* an entry counts for this long unless its owner renews it */
  WAITER_TTL_MS_MAX = 60000,
  WAITER_RENEW_MS = WAITER_TTL_MS / 3,
  CALL_MS = 3000, /* a called waiter has this long before another may try; with a short lease: a third of it */
};

struct waiter {
  struct owner owner;
  enum lock_kind kind;
  int64_t at_ms, ttl_ms; /* joined or renewed, by the server's clock */
  int64_t called_ms;     /* told that it is its turn; 0: not */
};

struct wait_queue {
  int64_t now_ms; /* the server's clock, when it was read */
  bool has_last;  /* the last holder is known: */
  struct owner last;
  enum lock_kind last_kind;
  int count;
  struct waiter waiters[WAITERS_MAX];
};

/* Neither expired, nor from a clock that was set back. */
bool waiter_counts(const struct wait_queue *queue, const struct waiter *waiter);
/* Its index; -1: it is not there. */
int wait_queue_find(const struct wait_queue *queue, const struct owner *owner);
/* Without that one, if it is there. */
void wait_queue_drop(struct wait_queue *queue, const struct owner *owner);
/*
 * The index of the one whose turn it is; -1: none. The first that was called within call_ms; else by turns: after a worker
 * the first tool, after a tool the first worker, if there is one; else the first. Those who were called earlier and did not
 * come are passed over, except `me`.
 */
int wait_queue_next(const struct wait_queue *queue, const struct owner *me, int64_t call_ms);
/* Whether the waiter is of no use to others any more: expired, or called for more than call_ms. */
bool waiter_is_gone(const struct wait_queue *queue, const struct waiter *waiter, int64_t call_ms);
/* How many others have their turn before me; `me` need not be in the queue. */
int wait_queue_ahead(const struct wait_queue *queue, const struct owner *me, int64_t call_ms);
/* The index of the waiter that is to be called where so many slots are free; -1: none, or they are called already. */
int wait_queue_to_call(const struct wait_queue *queue, const struct owner *me, int64_t call_ms, int free);
/* Whether somebody of that kind waits. */
bool wait_queue_has(const struct wait_queue *queue, enum lock_kind kind);

/* Reads the lock, as lock_read does, and the wait queue, at one moment. `queue` is filled with YES and NO. */
MUST_CHECK enum outcome wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view,
                                        struct wait_queue *queue, struct error *error);
enum { SLOTS_MAX = 1000 };
/*
 * The same of a lock with several slots: fills `views`, one for each. *view is the holder whose lease ends first; there is none
 * if left_ms is 0. NO is no answer here.
 */
MUST_CHECK enum outcome wait_queue_read_slots(struct lockstore *store, const char *type, int slots, struct slot_view *views,
                                              struct lock_view *view, struct wait_queue *queue, struct error *error);
/*
 * Appends me, as of now_ms. Where this makes the document, the holder that I saw is the last one (`held`; NULL: there was none).
 * NO: I am there, or it is full, or another made the document at this moment.
 */
MUST_CHECK enum outcome wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                                        const struct lock_view *held, struct error *error);
/* Sets my `at`, and takes an old mark away. NO: I am not there. */
MUST_CHECK enum outcome wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms,
                                         struct error *error);
/* Removes me. NO: there is no queue. */
MUST_CHECK enum outcome wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error);
/* Removes the document, if no process waits. NO: one does, or there is none. */
MUST_CHECK enum outcome wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error);

struct departure { /* the waiters that leave the queue when the lock is taken; `last` is the taker from then on */
  const struct owner *owners;
  int count;
  enum lock_kind kind; /* of the taker */
};
/* lock_take, and, only if that takes the lock, the departure, in one request. Answers as lock_take. */
MUST_CHECK enum outcome wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                        const struct lock_holder *holder, const struct departure *departure, struct error *error);
/* Marks the waiter as called, now, if the last holder is still the one that `seen` has. NO: it is not, or the waiter is gone. */
MUST_CHECK enum outcome wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter,
                                        const struct wait_queue *seen, struct error *error);

#endif
