/*
 * queue_types: which types have documents in `messages`, or in their own collections. Beside queue.h it is what of a worker knows the
 * driver.
 *
 * The server skips over the index {type, _id}, from one type to the next (DISTINCT_SCAN), and does not go over the documents of
 * a type; but over the deleted entries that its history window keeps, as a poll does. If a document's `type` was ever an array
 * the index cannot be skipped in one request; then each type takes one, and a call looks at a part of the types only.
 *
 * Any thread; each call blocks for some requests.
 */
#ifndef PAWL_WORKER_QUEUE_TYPES_H
#define PAWL_WORKER_QUEUE_TYPES_H

#include "lockstore/lockstore.h"
#include "worker/type_rules.h"

#include <bson/bson.h>

struct queue_types {
  struct lockstore *store;
  char from[TYPE_BYTES_MAX + 1], before[TYPE_BYTES_MAX + 1]; /* only types in [from, before); before[0] is NUL: to the end */
  const struct type_rules *rules;                            /* no collection of a type that they do not serve is asked; NULL: of all */
  bool linearizable;                                         /* the state as of now, and all types, however many requests that takes */
  bool one_by_one;                                           /* private: how the index can be read */
  int64_t explained_ms;                                      /* private: when that was asked; 0: not yet */
  char next[TYPE_BYTES_MAX + 2];                             /* private: one by one, where the next call goes on */
  char next_own[TYPE_BYTES_MAX + 1];                         /* private: the same, of the types with their own collections */
  struct type_range seen;                                    /* the result: where the last call has given all there are */
  struct error denied; /* the result: why own collections were not looked into: a right is lacking, no answer; empty: they were */
};

/*
 * Calls `each` for every type, in any order; the text is what a producer has put there, and may be no type. YES: all were given. NO: a
 * part of them; the next call gives the next part. UNKNOWN: no answer.
 */
typedef void queue_types_each(void *context, const char *type);
MUST_CHECK enum outcome queue_types_find(struct queue_types *types, queue_types_each *each, void *context, struct error *error);
/*
 * The part of it that finds types by their own collections: one look at the ledgers, and of the collections many in one request. With
 * `linearizable` all these types are given, with or without documents, for the last poll looks at each.
 */
MUST_CHECK enum outcome queue_types_find_own(struct queue_types *types, queue_types_each *each, void *context, struct error *error);

/*
 * Of these types, given for those that have documents in `messages`; each is a type name. Majority. NO: the index cannot be skipped
 * in one request, and nothing was asked.
 */
MUST_CHECK enum outcome queue_types_among(struct queue_types *types, const char *const *names, size_t count, queue_types_each *each,
                                          void *context, struct error *error);
/* The same, of types that have their own collections, in these: many in one request. */
MUST_CHECK enum outcome queue_types_own_among(struct queue_types *types, const char *const *names, size_t count, queue_types_each *each,
                                              void *context, struct error *error);

/* Private to both parts: gives the `_id` of an answer's document, if it is a text; a mongo_each. */
struct queue_types_giving {
  queue_types_each *each;
  void *context;
};
void queue_types_give(void *giving, const bson_t *document);

#endif
