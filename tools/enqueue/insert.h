/*
 * insert: inserts a batch of documents into the queue, each a message or a bundle of them, and says what the server's answer means for
 * each.
 *
 * One insert at a time, ordered, w: majority, j: true; the driver sends it a second time if the server allows that (retryable writes). The
 * answer is three-valued: what was not certainly acknowledged and not certainly refused is unknown.
 *
 * Threads: one at a time for each batch. insert_batch blocks for at most about the time-out of the connection.
 */
#ifndef PAWL_TOOLS_ENQUEUE_INSERT_H
#define PAWL_TOOLS_ENQUEUE_INSERT_H

#include "base.h"
#include "lockstore/mongo.h"

#include <bson/bson.h>

/* Where a message came from. */
struct place {
  const char *name; /* of the file */
  int64_t number;   /* line or document */
  int64_t offset;   /* byte */
};

struct batch_document {
  size_t at;                /* offset of its bytes in those of the batch */
  size_t length;            /* number of these bytes */
  bool id_wanted;           /* its _id must still be filled in */
  bool own;                 /* it goes into its type's own collection (destination.h) */
  size_t messages;          /* number in it: the messages of a bundle, else 1 */
  struct place first, last; /* the places of the first and the last of these */
};

struct batch {
  uint8_t *bytes; /* the documents, back to back */
  size_t length, size;
  struct batch_document *documents;
  size_t count, count_max; /* documents */
};

void batch_init(struct batch *batch, size_t count_max);
void batch_deinit(struct batch *batch);
void batch_clear(struct batch *batch);
/* Copies the document. There must be room: count < count_max. */
void batch_add(struct batch *batch, const bson_t *document, bool id_wanted, struct place from);
/* The i-th document; *document points into the batch. */
void batch_document(const struct batch *batch, size_t i, bson_t *document);
/* The messages in `count` documents from the i-th on. */
size_t batch_messages(const struct batch *batch, size_t i, size_t count);

/* True: the bundle that was begun last may take one more message of this type and length. */
enum { BUNDLE_BYTES_MAX = 1024 * 1024 }; /* unless a single message is larger */
MUST_CHECK bool batch_bundle_takes(const struct batch *batch, const char *type, size_t bytes, size_t messages_max);
/* Appends a copy of the message to that bundle, or, if it cannot take it, to a new one: there must be room for that. */
void batch_bundle(struct batch *batch, const char *type, const bson_t *message, struct place from, size_t messages_max);

enum insert_answer {
  INSERT_DONE,    /* all acknowledged */
  INSERT_BUSY,    /* `acknowledged` ones, then one that the server cannot take at the moment (`error`): retry from there */
  INSERT_BAD,     /* `acknowledged` ones, then one that the server refused for its content (`error`); those after it were not tried */
  INSERT_INVALID, /* the same, by the collection's validator, */
  INSERT_CLOSED,  /* or by that of own_collection_close, whatever the document */
  INSERT_UNKNOWN, /* the result of `unknown` ones is unknown (`error`); those after them were not tried */
  INSERT_NONE,    /* none was inserted, and a retry does not help now (`error`) */
};

struct insert_outcome {
  enum insert_answer answer;
  size_t acknowledged, unknown; /* documents */
  bool unreachable;             /* for INSERT_NONE: no server was found */
};

/* Inserts `count` documents from `first` on into the collection. */
struct insert_outcome insert_batch(struct mongo *mongo, mongoc_client_t *client, const char *collection, const struct batch *batch,
                                   size_t first, size_t count, struct error *error);

struct insert_woken { /* the last wake-up, if it was for one type alone; zero: none */
  char type[TYPE_BYTES_MAX + 1];
  int64_t at_ms;
};

/*
 * Sends wake-ups to the workers of the types of these messages (lockstore/wakeup.h), but not again just after the last one: while messages
 * flow workers poll by themselves, and each wake-up costs work in all processes that wait. The wake-ups are not acknowledged: their arrival
 * is not known, and does not matter. now_ms: on any clock that only rises.
 */
void insert_wake(struct mongo *mongo, mongoc_client_t *client, const struct batch *batch, size_t first, size_t count, int64_t now_ms,
                 struct insert_woken *woken);

/* What the driver's reply to a bulk insert of `sent` documents means; pure. `done` and `reason` come from the driver. */
struct insert_outcome insert_judge(bool done, const bson_t *reply, const bson_error_t *reason, size_t sent, struct error *error);

#endif
