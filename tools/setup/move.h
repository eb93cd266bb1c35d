/*
 * move: one document from its queue to `refused`, or back. On a replica set in one transaction; on a standalone server step by step, so
 * that a repeated run finishes what another began. Private to setup; aside.h decides what is moved, and when that is allowed.
 *
 * One thread. Each call blocks for some requests.
 */
#ifndef PAWL_TOOLS_SETUP_MOVE_H
#define PAWL_TOOLS_SETUP_MOVE_H

#include "lockstore/transaction.h"
#include "tools/setup/copy.h"
#include "tools/setup/hold.h"

struct mover {
  struct mongo *mongo;
  struct mongo_transactor *transactor; /* NULL: a standalone server */
  struct hold *hold;                   /* NULL: no lock is needed; never on a standalone server */
  char by[300];                        /* this process, for people */
};

struct original { /* borrowed bytes */
  const uint8_t *document;
  size_t bytes;
  struct refusal refusal;
};

/* The collection that it was in, and goes back to. */
static inline struct queue_name original_queue(const struct original *original)
{
  return queue_name_of(original->refusal.type, original->refusal.from);
}

/*
 * YES: moved. NO: it stays, and `error` says why, or it was not there any more, and `error` is empty. UNKNOWN: no answer; it is in one of
 * the two places, or on a standalone server in both, and a repeated call goes on.
 */
MUST_CHECK enum outcome move_aside(struct mover *mover, const struct original *original, struct error *error);
/* The same, back. On a standalone server its type, if it has one, must be paused. REFUSED: the ledger of this type cannot be used. */
MUST_CHECK enum outcome move_back(struct mover *mover, const struct copy_view *copy, const struct original *original, struct error *error);
/* Reads the parts of a copy; the caller frees them. NULL: `error` says why. */
MUST_CHECK uint8_t *move_read_parts(struct mover *mover, const struct copy_view *copy, enum outcome *outcome, struct error *error);

#endif
