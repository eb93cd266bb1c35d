/*
 * destination: the collection that a message goes into: `messages`, or the own collection of its type, as the type's ledger says.
 *
 * A type that goes into its own collection does so until the program ends, even if somebody makes it shared again: the order of messages is
 * promised to producers that switch once.
 *
 * One thread at a time. destinations_assign blocks for a request now and then.
 */
#ifndef PAWL_TOOLS_ENQUEUE_DESTINATION_H
#define PAWL_TOOLS_ENQUEUE_DESTINATION_H

#include "lockstore/mongo.h"
#include "lockstore/queue_name.h"
#include "tools/enqueue/insert.h"

struct destination { /* of a type */
  char type[TYPE_BYTES_MAX + 1];
  bool own;
  bool there;       /* own: its collection was seen */
  bool due;         /* its ledger must be read */
  int64_t asked_ms; /* when that was read last; 0: never */
};

struct destinations {
  struct destination *list; /* in order of type */
  size_t count, room;
  struct error moved; /* private: of a type that was just read; empty: none was moved away */
  bool denied;        /* the user may not read the ledgers: all types go into `messages` */
};

void destinations_deinit(struct destinations *destinations);
/*
 * Sets `own` of each document of the batch from `first` on. Reads the ledgers of the types that are new, and again of those that were
 * read longer than DESTINATION_ASK_MS ago, or, with `now`, in any case. now_ms: on any clock that only rises.
 *
 * YES: all are set. UNKNOWN: no answer; `known`: all are set, some as they were read before. REFUSED: a type has its own collection, and
 * that is not there; or a type was moved to another database.
 */
enum { DESTINATION_ASK_MS = 10000 };
MUST_CHECK enum outcome destinations_assign(struct destinations *destinations, struct mongo *mongo, struct batch *batch, size_t first,
                                            bool now, int64_t now_ms, bool *known, struct error *error);
/* The collection of the document at `first`, and how many documents from there on go into it. */
struct queue_name destinations_run(const struct batch *batch, size_t first, size_t *count);
/* The type of a document: a valid one (input.h), inside the batch. */
const char *destination_type(const struct batch *batch, size_t i);
/* NO: the type has no own collection any more. */
MUST_CHECK enum outcome destination_is_own(struct mongo *mongo, const char *type, struct error *error);

#endif
