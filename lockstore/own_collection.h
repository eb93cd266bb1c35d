/*
 * own_collection: the collection of a type that has its own (queue_name.h): looking at it, making it, and closing it. That the type has it
 * is in the ledger alone (ledger_own_begin); docs/protocol.md, The own collection, has the rules.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_OWN_COLLECTION_H
#define PAWL_LOCKSTORE_OWN_COLLECTION_H

#include "lockstore/lockstore.h"

/* False: a collection cannot have this type in its name, or some driver cannot name it; `error` says why. Pure. */
MUST_CHECK bool own_collection_name_check(const char *type, struct error *error);

struct own_collection {
  bool clustered;
  bool closed;    /* own_collection_close */
  bool validated; /* it has another validator, of the operator's */
};

/*
 * YES: it is there, and a worker can use it. NO: it is missing. REFUSED: it is no plain collection, or has an index besides the one on _id:
 * it may be somebody else's (GridFS), and an index costs each insert and delete.
 */
MUST_CHECK enum outcome own_collection_look(struct lockstore *store, const char *type, struct own_collection *collection,
                                            struct error *error);
/* Makes it if it is missing, clustered where the server can. YES: it is there, and as above. */
MUST_CHECK enum outcome own_collection_make(struct lockstore *store, const char *type, struct error *error);
/* Reads linearizable (a standalone server: local). YES: no document is in it. NO: at least one is. */
MUST_CHECK enum outcome own_collection_is_empty(struct lockstore *store, const char *type, struct error *error);
/* What no document can be: the server quotes it to the producer that inserts one. */
#define OWN_COLLECTION_CLOSED "this type has no own collection any more: insert into messages"
/*
 * Closed, it refuses each insert (error 121): a producer that does not know that the type is shared again gets an error, instead of a
 * message that nobody reads. `open`: the reverse. After UNKNOWN it may be sent again.
 */
MUST_CHECK enum outcome own_collection_close(struct lockstore *store, const char *type, struct error *error);
MUST_CHECK enum outcome own_collection_open(struct lockstore *store, const char *type, struct error *error);

/* The types that have one here, as the ledgers say, in order; the caller frees *types, which is NULL if there are none. */
MUST_CHECK enum outcome own_collection_types(struct lockstore *store, char (**types)[TYPE_BYTES_MAX + 1], size_t *count,
                                             struct error *error);
/* Whether each of them is there, and a plain one: two requests for all. REFUSED: `error` names the first that is not. */
MUST_CHECK enum outcome own_collection_inspect(struct lockstore *store, struct error *error);

#endif
