/*
 * budget: how much memory the batches and replies of all types may take together (--memory). A type asks it before it asks the
 * server for messages, and is told for how many it may ask, or to wait until others have given some back.
 *
 * A type may have half of what is free and its own together, so that there is always something left for another one; of n types
 * that want more each has one part in n + 1. Rather than to ask for little, it waits until its own is deleted, or until answers that are
 * under way have come: small blocks cost as much as large ones. One document is always allowed if it fits at all, and even if it does
 * not where nothing else is in hand, or where nothing else came free for a second.
 *
 * The server counts documents, not bytes, so the size of an answer is estimated from the last one of the type, or of any type.
 * An answer has no more than 16 MiB. Pure.
 */
#ifndef PAWL_WORKER_BUDGET_H
#define PAWL_WORKER_BUDGET_H

#include "base.h"

struct budget {
  int64_t most;           /* bytes for all */
  int64_t used;           /* held or reserved */
  int64_t reserved;       /* of these, for answers that are under way */
  int64_t document_bytes; /* what a document of a type may have that has read none yet; 0: none was read */
};

struct budget_share { /* of a type; zeroed: it has nothing */
  int64_t held;
  int64_t reserved;       /* for its answer that is under way */
  int64_t document_bytes; /* on average, in its last batch; 0: it has read none yet */
};

enum { BUDGET_PATIENCE_MS = 1000 }; /* then a type may ask for one document, however short memory is */

/*
 * A type is about to ask for `documents`, and has nothing reserved. Returns for how many it may ask, and reserves the bytes of
 * their answer; 0: it waits. `overdue`: it is the first of those that wait, and its patience is over.
 */
MUST_CHECK int64_t budget_ask(struct budget *budget, struct budget_share *share, int64_t documents, bool overdue);
/* The answer has come, or will not: nothing is reserved. `bytes` in so many documents were read; 0: none. */
void budget_answered(struct budget *budget, struct budget_share *share, int64_t bytes, int64_t documents);
/* All that the type holds now. */
void budget_hold(struct budget *budget, struct budget_share *share, int64_t bytes);

#endif
