/*
 * document_lock: locks a document of the user's own collection in place: a field of it says who works at it. No queue, no ledger:
 * the lock and the data are one document, so a fenced write is one request, whatever the clocks do.
 *
 *   FIELD: {owner: <16 bytes>, at: <date>, ttl: <ms>, token: <number>}
 *
 * A release removes owner, at and ttl. The token stays, and each take raises it, so it never comes twice.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_DOCUMENT_LOCK_H
#define PAWL_LOCKSTORE_DOCUMENT_LOCK_H

#include "lockstore/lockstore.h"

#include <bson/bson.h>

struct document_place {
  const char *collection; /* in the store's database */
  const char *field;      /* "pawl", or "state.lock": a path without '$' */
};

/*
 * Takes the first document, by `sort` (NULL: any), that matches `filter` and is not locked, or whose lease is over. YES: *document
 * is it, with the lock; the caller destroys it; *token. NO: there is none. UNKNOWN: one may be locked now.
 */
MUST_CHECK enum outcome document_take(struct lockstore *store, const struct document_place *place, const bson_t *filter, const bson_t *sort,
                                      const struct owner *owner, int64_t ttl_ms, bson_t *document, int64_t *token, struct error *error);

/* A document that is locked. */
struct document_hold {
  struct document_place place;
  const bson_t *id; /* has its `_id`; borrowed */
  struct owner owner;
  int64_t token;
};
/* YES: a full lease from now. NO: it is lost. */
MUST_CHECK enum outcome document_renew(struct lockstore *store, const struct document_hold *hold, int64_t ttl_ms, struct error *error);
/* NO: it was lost. */
MUST_CHECK enum outcome document_release(struct lockstore *store, const struct document_hold *hold, struct error *error);
/*
 * An update of the document by MongoDB's operators, if the lock is still mine; the operators must leave the field alone (MongoDB
 * refuses two that touch one path only where both are in the update). NO: it is lost, and nothing was written. REFUSED: MongoDB does not
 * take the update.
 */
MUST_CHECK enum outcome document_update(struct lockstore *store, const struct document_hold *hold, const bson_t *update,
                                        struct error *error);

/*
 * The same without a lock: the update goes through unless FIELD.token is above `token`, and sets it to that. NO: nothing was
 * written, for it is above, or, if not *there, no document matches `filter`.
 */
MUST_CHECK enum outcome document_guarded_update(struct lockstore *store, const struct document_place *place, const bson_t *filter,
                                                const bson_t *update, int64_t token, bool *there, struct error *error);

#endif
