/*
 * claim: the way of pawl-lock to a mutex and its epoch, and back. Private to pawl-lock.
 *
 * The same steps as a worker's, and against the same documents (docs/protocol.md): look, stand in the row and be woken, or look again by
 * a timer; read the ledger, steal what has expired, insert, fence; and, since here all rests on the lock, look whether it is still there. A
 * wake-up makes it try at once, and is never believed.
 */
#ifndef PAWL_TOOLS_LOCK_CLAIM_H
#define PAWL_TOOLS_LOCK_CLAIM_H

#include "config/config.h"
#include "lockstore/lockstore.h"
#include "lockstore/wakeup.h"

struct claim {
  const struct config *config;
  struct lockstore_options options; /* of the requests */
  struct lockstore *store;
  int64_t deadline_ms; /* for waiting; INT64_MAX: none */

  /* the lock, once claim_acquire has said EXIT_DONE */
  int64_t epoch;
  int64_t sent_ms; /* on the boot-time clock: from then on the lease counts */

  /* claim's own */
  struct lock_holder holder; /* this process */
  struct owner owner;        /* of the latest attempt */
  bool taken;                /* the lock document may be there */
  bool prepared;
  struct lock_view view; /* the latest look; left_ms above 0: held */
  struct watcher *watcher;
  bool watching, woken, in_row, yields, fenced;
  int64_t epoch_told;    /* by whoever woke it; 0: not */
  int64_t watch_next_ms; /* before then there is no use in trying */
  int64_t failures;      /* in a row */
  bool said_waiting, said_away;
};

/* To stderr, if --log-level has it so. */
__attribute__((format(printf, 3, 4))) void claim_say(const struct claim *claim, enum config_log_level level, const char *format, ...);

/* False: the URI or the database's name is wrong; `error` says how. The config must outlive it. The end of the process closes it. */
MUST_CHECK bool claim_open(struct claim *claim, const struct config *config, struct error *error);

/*
 * EXIT_DONE: the lock is mine and fenced, with two thirds of a lease before it, and signals are held back (command.h). Else it is not, and
 * the reason has been said: the exit code. While it waits a signal ends this process.
 */
MUST_CHECK int claim_acquire(struct claim *claim);
/*
 * Instead of all that: takes the lock if it is free, and removes its ledger, if that never had a file; then there is nothing left of it.
 * Returns the exit code; what was done, or the reason, has been said.
 */
MUST_CHECK int claim_forget(struct claim *claim);
/* There is no more to be woken for. */
void claim_end_waiting(struct claim *claim);
/* From when on it counts is then in sent_ms. Outcomes as of lock_renew. */
MUST_CHECK enum outcome claim_renew(struct claim *claim, struct error *error);
/* It is tried for so long, and a request that is under way then may take longer. */
enum { CLAIM_RELEASE_MS = 5000 };
/* Lets the lock go. False: no answer for CLAIM_RELEASE_MS, or until its lease was over. */
MUST_CHECK bool claim_release(struct claim *claim, struct error *error);

#endif
