/*
 * collections: the collections that pawl needs: whether they are there and of use, and how they are made. Private to lockstore.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_COLLECTIONS_H
#define PAWL_LOCKSTORE_COLLECTIONS_H

#include "lockstore/mongo.h"

enum { COLLECTION_DOING_SIZE = 192 };

/*
 * Sends a command that looks or makes, and destroys it. REFUSED: the right is missing; but a right that was there before, and was taken
 * away, may come back, and gives UNKNOWN. A duplicate key is refused by the caller, who knows what it means.
 */
MUST_CHECK enum outcome collection_command(struct mongo *mongo, const char *doing, bson_t *command, bson_t *reply, int *code,
                                           struct error *error);
/* Whether the `collation` of a collection's or an index's options is the simple one. */
bool collection_collation_simple(const bson_t *options);
/* Of an entry of listCollections. YES: a plain one. REFUSED: it is something else. */
MUST_CHECK enum outcome collection_judge(struct mongo *mongo, const char *name, const bson_t *found, struct error *error);
/* YES: it is there, and a plain one. NO: it is missing. REFUSED: it is something else. *options (NULL is allowed) with YES: those of the
 * collection, which the caller destroys. */
MUST_CHECK enum outcome collection_look(struct mongo *mongo, const char *name, bson_t *options, struct error *error);
/* Clustered, if that is wanted, where the server can. YES also: another was faster. */
MUST_CHECK enum outcome collection_make(struct mongo *mongo, const char *name, bool clustered, struct error *error);
/* Makes it if it is missing. YES: it is there, and a plain one. */
MUST_CHECK enum outcome collection_prepare(struct mongo *mongo, const char *name, bool clustered, struct error *error);

#endif
