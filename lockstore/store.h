/* store: what a lockstore is made of. Private to lockstore. */
#ifndef PAWL_LOCKSTORE_STORE_H
#define PAWL_LOCKSTORE_STORE_H

#include "lockstore/mongo.h"
#include "lockstore/waiters.h"

enum { WAKEUPS_BYTES = 256 * 1024 };

struct lockstore {
  struct mongo *mongo;
  struct owner process;
  struct handed handed;
};

/*
 * Makes the collection `wakeups`, capped, unless there is one, and puts a first document in, for a cursor that waits on an empty one
 * dies. YES: it is there, capped or not.
 */
MUST_CHECK enum outcome wakeups_make(struct mongo *mongo, int *code, struct error *error);
/* Wakes the first of the row, but for this process itself, and hands it the rest. */
void waiters_wake(struct lockstore *store, const char *type, int slot, struct waiters *waiters);
void waiters_append(bson_t *document, const char *field, const struct waiters *waiters);
/* What is no nonce is left out. */
void waiters_parse(const bson_t *document, struct waiters *waiters);

#endif
