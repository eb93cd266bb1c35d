/*
 * attempt: the way to one lock, as steps that each send some requests: look and wait (lockstore/acquire.h), take, draw the token,
 * see once more that the lock is there; and back out again. Between two steps its owner may do other things, or give it up.
 *
 * Threads: one at a time for each attempt. A step blocks for some requests, and never sleeps.
 */
#ifndef PAWL_LOCK_ATTEMPT_H
#define PAWL_LOCK_ATTEMPT_H

#include "lockstore/acquire.h"
#include "lockstore/document_lock.h"
#include "lockstore/wakeup.h"

enum attempt_state {
  ATTEMPT_LOOKS,    /* waits, or finds that it is its turn */
  ATTEMPT_FENCES,   /* has the lock document; draws the token */
  ATTEMPT_CONFIRMS, /* has the token; sees whether the lock document is still there */
  ATTEMPT_RETURNS,  /* removes the document that it has, or may have, and begins anew */
  ATTEMPT_LEAVES,   /* the same, and then leaves the wait queue: nothing more is wanted */
};

/* A document that is wanted; and then the one that is held. */
struct document_want {
  struct document_place place; /* borrowed */
  bson_t filter, sort;
  bool sorted;
  bool taken;
  bson_t document;
};

struct attempt {
  const char *name;               /* borrowed */
  struct document_want *document; /* borrowed; NULL: it is about a lock of that name */
  const struct lock_holder *holder;
  int slots; /* 1: a mutex */
  int64_t lease_ms, retry_ms;
  enum attempt_state state;
  struct acquisition lock;
  int64_t seen_epoch; /* FENCES: the token before mine */
  bool sent;          /* FENCES: the fence was sent before, and its answer is not known */
  bool taken;         /* the lock document may be there */
  int64_t sent_ms;    /* when the take was about to be sent, boot-time clock: the lease counts from then on */
  int64_t token;      /* CONFIRMS and held */
  int64_t failures;   /* steps without an answer, in a row */
  enum attempt_refusal { ATTEMPT_BY_DATABASE, ATTEMPT_BY_LOCK, ATTEMPT_BY_LEDGER } refused_by;
  int looks;       /* at documents */
  int found_slots; /* MISMATCH */
  bool checked;    /* the ledger says no other number of slots */
};

enum attempt_result {
  ATTEMPT_HELD,     /* lock.owner has it, with sent_ms and token */
  ATTEMPT_WAITS,    /* another holds it: the next step is due after pause_ms, or when it is woken */
  ATTEMPT_GOES_ON,  /* the next step is due now */
  ATTEMPT_UNKNOWN,  /* no answer, `error` says why: the next step is due after pause_ms */
  ATTEMPT_MISMATCH, /* the name has another number of slots: found_slots (0: it is a type, or a mutex) */
  ATTEMPT_REFUSED,  /* never: `error` says why. attempt_leave is next, as after any other end */
  ATTEMPT_LEFT,     /* only after attempt_leave: nothing of it is left, or nothing that could be removed */
};

void attempt_init(struct attempt *attempt, const char *name, int slots, struct document_want *document, const struct lock_holder *holder,
                  int64_t lease_ms, int64_t retry_ms);
/*
 * The next step. `woken`: a wake-up that names its owner; or NULL. `now_ms` is the boot-time clock. pause_ms is set by WAITS and
 * UNKNOWN.
 */
MUST_CHECK enum attempt_result attempt_step(struct attempt *attempt, struct lockstore *store, const struct wakeup *woken, int64_t now_ms,
                                            int64_t *pause_ms, struct error *error);
/* A request for it had no answer: how long to wait. */
int64_t attempt_pause_ms(struct attempt *attempt, struct lockstore *store);
/* After HELD. True: by now two thirds of its lease are over; the next steps give it back and begin anew. */
MUST_CHECK bool attempt_return_late(struct attempt *attempt, int64_t now_ms);
/* It is given up, between two steps: further steps lead to LEFT. */
void attempt_leave(struct attempt *attempt);

#endif
