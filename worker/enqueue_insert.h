/*
 * enqueue_insert: a batch of messages on its way into the queue, and what the server's answer means for each of them.
 *
 * One insert at a time, ordered, w: majority, j: true; the driver sends it a second time if the server allows that
 * (retryable writes). The answer is three-valued: what was not surely acknowledged and not surely refused is unknown.
 *
 * Threads: one at a time for each batch. insert_batch blocks for at most about the time-out of the connection.
 */
#ifndef PAWL_WORKER_ENQUEUE_INSERT_H
#define PAWL_WORKER_ENQUEUE_INSERT_H

#include "base.h"
#include "lockstore/mongo.h"

#include <bson/bson.h>

struct batch_message {
  size_t at;        /* of its bytes in the batch's */
  size_t length;    /* of them */
  bool id_wanted;   /* its _id is still to be filled in */
  const char *name; /* where it came from: file, */
  int64_t number;   /* line or document, */
  int64_t offset;   /* byte */
};

struct batch {
  uint8_t *bytes; /* the documents, back to back */
  size_t length, size;
  struct batch_message *messages;
  size_t count, count_max;
};

void batch_init(struct batch *batch, size_t count_max);
void batch_deinit(struct batch *batch);
void batch_clear(struct batch *batch);
/* Copies the document. There must be room: count < count_max. */
void batch_add(struct batch *batch, const bson_t *document, const struct batch_message *from);
/* The i-th message; *document points into the batch. */
void batch_document(const struct batch *batch, size_t i, bson_t *document);

enum insert_answer {
  INSERT_DONE,    /* all acknowledged */
  INSERT_BAD,     /* `acknowledged` ones, then one that the server refused for what it is (`error`); those behind were not tried */
  INSERT_UNKNOWN, /* of `unknown` ones it is not known (`error`); those behind were not tried */
  INSERT_NONE,    /* none was inserted, and trying again will not help now (`error`) */
};

struct insert_outcome {
  enum insert_answer answer;
  size_t acknowledged, unknown;
  bool unreachable; /* of INSERT_NONE: no server was found */
};

/* Inserts the messages from `first` on into `messages` of the database. */
struct insert_outcome insert_batch(struct mongo *mongo, mongoc_client_t *client, const struct batch *batch, size_t first,
                                   struct error *error);

/* What the driver's reply to a bulk insert of `sent` documents means; pure. `done` and `reason` are what the driver said. */
struct insert_outcome insert_judge(bool done, const bson_t *reply, const bson_error_t *reason, size_t sent, struct error *error);

#endif
