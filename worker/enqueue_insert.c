#include "worker/enqueue_insert.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

/* ---- batch ---- */

void batch_init(struct batch *batch, size_t count_max)
{
  *batch = (struct batch){.count_max = count_max, .messages = calloc(count_max, sizeof *batch->messages)};
  assert(batch->messages);
}

void batch_deinit(struct batch *batch)
{
  free(batch->bytes);
  free(batch->messages);
  *batch = (struct batch){0};
}

void batch_clear(struct batch *batch)
{
  batch->count = batch->length = 0;
}

void batch_add(struct batch *batch, const bson_t *document, const struct batch_message *from)
{
  assert(batch->count < batch->count_max);
  if (batch->size - batch->length < document->len) {
    batch->size = 2 * batch->size + document->len;
    batch->bytes = realloc(batch->bytes, batch->size);
    assert(batch->bytes);
  }
  memcpy(batch->bytes + batch->length, bson_get_data(document), document->len);
  struct batch_message *message = &batch->messages[batch->count++];
  *message = *from;
  message->at = batch->length;
  message->length = document->len;
  batch->length += document->len;
}

void batch_document(const struct batch *batch, size_t i, bson_t *document)
{
  bool sound = bson_init_static(document, batch->bytes + batch->messages[i].at, batch->messages[i].length);
  assert(sound);
}

/* ---- the answer ---- */

static int64_t reply_number(const bson_t *reply, const char *path)
{
  bson_iter_t iter, found;
  if (!bson_iter_init(&iter, reply) || !bson_iter_find_descendant(&iter, path, &found) || !BSON_ITER_HOLDS_NUMBER(&found))
    return -1;
  return bson_iter_as_int64(&found);
}

static bool reply_has_any(const bson_t *reply, const char *field)
{
  bson_iter_t iter, first;
  return bson_iter_init_find(&iter, reply, field) && bson_iter_recurse(&iter, &first) && bson_iter_next(&first);
}

static void reply_text(const bson_t *reply, const char *path, struct error *error)
{
  bson_iter_t iter, found;
  bool has = bson_iter_init(&iter, reply) && bson_iter_find_descendant(&iter, path, &found) && BSON_ITER_HOLDS_UTF8(&found);
  error_set(error, "%.500s", has ? bson_iter_utf8(&found, NULL) : "no reason given");
  for (char *c = error->text; *c; c++) /* it quotes the document */
    if (iscntrl((unsigned char)*c))
      *c = ' ';
}

/* The server said no before it touched a document. Every other code may come in the middle of a batch. */
static bool code_means_none(int64_t code)
{
  enum { BAD_VALUE = 2, FAILED_TO_PARSE = 9, UNAUTHORIZED = 13, TYPE_MISMATCH = 14, AUTHENTICATION_FAILED = 18 };
  enum { INVALID_NAMESPACE = 73, NOT_ON_VIEW = 166, BSON_TOO_LARGE = 10334 };
  return code == BAD_VALUE || code == FAILED_TO_PARSE || code == UNAUTHORIZED || code == TYPE_MISMATCH || code == AUTHENTICATION_FAILED ||
         code == INVALID_NAMESPACE || code == NOT_ON_VIEW || code == BSON_TOO_LARGE;
}

/* The driver's verdict on a server's answer is the server's code; it has no reply of its own to look at. */
static bool surely_none(const bson_error_t *reason)
{
  return reason->domain == MONGOC_ERROR_SERVER_SELECTION || (reason->domain == MONGOC_ERROR_SERVER && code_means_none(reason->code));
}

/*
 *   reply                                 driver says          means
 *   writeErrors at index i, all else well failed               before i acknowledged, i is bad, behind i was not tried
 *   writeErrors, writeConcernErrors       failed               before i unknown (if there are any), behind was not tried
 *   -                                     no server            none: it was not sent
 *   -                                     a code of the list   none
 *   anything else, writeConcernErrors too failed               unknown, all of them
 *   nInserted as sent                     done                 all acknowledged
 */
struct insert_outcome insert_judge(bool done, const bson_t *reply, const bson_error_t *reason, size_t sent, struct error *error)
{
  int64_t index = reply_number(reply, "writeErrors.0.index");
  bool refused = index >= 0 && (size_t)index < sent;
  bool doubtful = reply_has_any(reply, "writeConcernErrors");
  if (refused && (!doubtful || index == 0)) {
    reply_text(reply, "writeErrors.0.errmsg", error);
    return (struct insert_outcome){INSERT_BAD, (size_t)index, 0, false};
  }
  if (done && !doubtful && reply_number(reply, "nInserted") == (int64_t)sent)
    return (struct insert_outcome){INSERT_DONE, sent, 0, false};
  error_set(error, "%.500s", done ? "the server does not say that it inserted them all" : reason->message);
  if (!done && !refused && !doubtful && surely_none(reason))
    return (struct insert_outcome){INSERT_NONE, 0, 0, reason->domain == MONGOC_ERROR_SERVER_SELECTION};
  return (struct insert_outcome){INSERT_UNKNOWN, 0, refused ? (size_t)index : sent, false};
}

/* Of the driver's ways to insert this is one that it retries: in 1.23 it does not retry a raw command. */
static mongoc_bulk_operation_t *bulk_make(mongoc_collection_t *collection, const struct batch *batch, size_t first)
{
  bson_t opts = BSON_INITIALIZER, unchecked = BSON_INITIALIZER;
  bson_append_bool(&opts, "ordered", 7, true);
  mongo_append_write_concern(&opts);
  mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(collection, &opts);
  bson_append_bool(&unchecked, "validate", 8, false); /* what is inside is the producer's */
  for (size_t i = first; i < batch->count; i++) {
    bson_t document;
    bson_error_t reason;
    batch_document(batch, i, &document);
    bool added = mongoc_bulk_operation_insert_with_opts(bulk, &document, &unchecked, &reason);
    assert(added);
  }
  bson_destroy(&unchecked);
  bson_destroy(&opts);
  return bulk;
}

struct insert_outcome insert_batch(struct mongo *mongo, mongoc_client_t *client, const struct batch *batch, size_t first,
                                   struct error *error)
{
  bson_t reply;
  bson_error_t reason = {0};
  mongoc_collection_t *collection = mongoc_client_get_collection(client, mongo_db(mongo), "messages");
  mongoc_bulk_operation_t *bulk = bulk_make(collection, batch, first);
  bool done = mongoc_bulk_operation_execute(bulk, &reply, &reason) != 0;
  struct insert_outcome outcome = insert_judge(done, &reply, &reason, batch->count - first, error);
  bson_destroy(&reply);
  mongoc_bulk_operation_destroy(bulk);
  mongoc_collection_destroy(collection);
  return outcome;
}
