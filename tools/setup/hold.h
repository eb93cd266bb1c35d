/*
 * hold: a type's lock and fence, for pawl-setup, which moves documents of the type's queue. It queues like pawl-lock, so workers give it
 * its turn.
 *
 * One thread. Each call blocks for some requests; hold_take until its turn has come.
 */
#ifndef PAWL_TOOLS_SETUP_HOLD_H
#define PAWL_TOOLS_SETUP_HOLD_H

#include "lockstore/acquire.h"
#include "lockstore/ledger.h"

#include <bson/bson.h>

struct hold {
  struct lockstore *store;
  const char *type;          /* borrowed */
  struct acquisition lock;   /* renewed by hold_renew */
  struct lock_holder holder; /* this process */
  struct ledger ledger;      /* as the fence found it; all zero without a fence, or if there was none */
  int64_t epoch, renewed_ms; /* epoch: 0 without a fence */
};

/*
 * Takes the lock, and with `fences` raises the epoch of the type's ledger, as one who writes nothing to the file. Waits until until_ms
 * (clock_boot_ms). YES: hold_release must follow. NO: others held it all the time; `error` says who. UNKNOWN, REFUSED (lock document or
 * ledger cannot be used): as the requests of lockstore.
 */
MUST_CHECK enum outcome hold_take(struct hold *hold, struct lockstore *store, const char *type, bool fences, int64_t until_ms,
                                  struct error *error);
/* Whether, as the fence found it, no committed message may still be in the queue. False: `error` says which. */
MUST_CHECK bool hold_settled(const struct hold *hold, struct error *error);
/* Renews the lease, if it is time. NO: it is lost. */
MUST_CHECK enum outcome hold_renew(struct hold *hold, struct error *error);
/* The end of the lease, by the server's clock, in ms since 1970. YES: *end_ms. NO: the lock is lost. */
MUST_CHECK enum outcome hold_end(struct hold *hold, int64_t *end_ms, struct error *error);
/* A command that renews the lease as a part of a transaction: its `n` is 1, unless the lock is lost. */
bson_t *hold_renewal(const struct hold *hold);
void hold_release(struct hold *hold);

#endif
