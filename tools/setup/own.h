/*
 * own: gives a type its own collection, and takes it away again (docs/own-collections.md).
 *
 * For pawl-setup: one thread; the calls block on the database. A call that was killed is repeated.
 */
#ifndef PAWL_TOOLS_SETUP_OWN_H
#define PAWL_TOOLS_SETUP_OWN_H

#include "lockstore/ledger.h"
#include "lockstore/lockstore.h"

struct own {
  struct lockstore *store; /* prepared */
  const char *type;        /* a valid type, fit for the name of a collection (own_collection_name_check) */
  bool yes;                /* own_begin: documents that are in the collection already are the type's */
  int64_t wait_ms;         /* own_end: how long to wait for the lock; negative: for ever */
  void (*tell)(void *context, const char *text);
  void *context;
};

enum own_status {
  OWN_DONE,        /* it is as asked; perhaps it was before */
  OWN_REFUSED,     /* the name, the collection, or a right: it cannot be done */
  OWN_BUSY,        /* messages wait in the collection, or are not settled, or others held the lock, or were at work meanwhile */
  OWN_UNTRUSTED,   /* the type's ledger cannot be used */
  OWN_UNAVAILABLE, /* the database gave no answer; a repeated call goes on */
};

/* `error` is filled unless DONE. */
MUST_CHECK enum own_status own_begin(const struct own *own, struct error *error);
MUST_CHECK enum own_status own_end(const struct own *own, struct error *error);
/*
 * For a run that has changed the ledger or the collection: makes the collection as the ledger says, open if the type has it, else closed
 * and empty; if a message came while it was open, the type has it again. *ledger is as it was read at the end, at least_epoch or above. A
 * new epoch has this owner.
 */
MUST_CHECK enum own_status own_agree(const struct own *own, const struct owner *owner, int64_t least_epoch, struct ledger *ledger,
                                     struct error *error);

#endif
