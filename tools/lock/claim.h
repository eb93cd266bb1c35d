/*
 * claim: how pawl-lock acquires a mutex and its epoch, and releases them. Private to pawl-lock.
 *
 * It waits and takes as a worker does (lockstore/acquire.h), and fences (docs/protocol.md). Here all depends on the lock, so the last step
 * is to read whether the lock document still exists.
 */
#ifndef PAWL_TOOLS_LOCK_CLAIM_H
#define PAWL_TOOLS_LOCK_CLAIM_H

#include "config/config.h"
#include "lockstore/acquire.h"
#include "lockstore/wakeup.h"

struct claim {
  const struct config *config;
  struct lockstore_options options; /* for the requests */
  struct lockstore *store;
  int64_t deadline_ms; /* for the wait; INT64_MAX: none */

  /* the lock, after claim_acquire has returned EXIT_DONE */
  int64_t epoch;   /* mine; 0: not fenced */
  int64_t sent_ms; /* on the boot-time clock: the lease counts from then on */

  /* private to claim.c */
  struct lock_holder holder; /* this process */
  struct acquisition lock;
  bool taken; /* the lock document may exist */
  bool prepared;
  struct wakeup_reader *reader;
  bool watching;
  bool woken;             /* a wake-up said that it is my turn */
  int64_t notified_epoch; /* the ledger's epoch as the wake-up gave it; 0: it gave none */
  int64_t watch_next_ms;  /* no attempt to receive wake-ups before then */
  int64_t failures;       /* consecutive */
  bool said_waiting, said_away;
};

/* Writes to stderr, if --log-level allows it. */
__attribute__((format(printf, 3, 4))) void claim_say(const struct claim *claim, enum config_log_level level, const char *format, ...);

/* False: the URI or the database's name is wrong; `error` says how. The config must outlive the claim. The end of the process closes it. */
MUST_CHECK bool claim_open(struct claim *claim, const struct config *config, struct error *error);

/*
 * EXIT_DONE: this process holds the lock and has fenced, two thirds of a lease are left, and signals are held back (command.h). Any other
 * value is the exit code; the lock is not held, and the reason has been logged. During the wait a signal ends this process.
 */
MUST_CHECK int claim_acquire(struct claim *claim);
/*
 * Used instead of the functions above: takes the lock if it is free, and removes its ledger, if that never had a file; then nothing of it
 * is left. Returns the exit code; the result or the reason has been logged.
 */
MUST_CHECK int claim_forget(struct claim *claim);
/* Ends the wait for wake-ups. */
void claim_end_waiting(struct claim *claim);
/* Sets sent_ms to the time from which the renewed lease counts. Outcomes as of lock_renew. */
MUST_CHECK enum outcome claim_renew(struct claim *claim, struct error *error);
/* The release is retried for this long; a request that is under way at the end may take longer. */
enum { CLAIM_RELEASE_MS = 5000 };
/* Releases the lock. False: no answer for CLAIM_RELEASE_MS, or until its lease was over. */
MUST_CHECK bool claim_release(struct claim *claim, struct error *error);

#endif
