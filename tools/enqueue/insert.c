#include "tools/enqueue/insert.h"
#include "lockstore/document.h"
#include "lockstore/own_collection.h"

#include <assert.h>
#include <stdlib.h>

/* ---- batch ---- */

void batch_init(struct batch *batch, size_t count_max)
{
  *batch = (struct batch){.count_max = count_max, .documents = calloc(count_max, sizeof *batch->documents)};
  assert(batch->documents);
}

void batch_deinit(struct batch *batch)
{
  free(batch->bytes);
  free(batch->documents);
  *batch = (struct batch){0};
}

void batch_clear(struct batch *batch)
{
  batch->count = batch->length = 0;
}

static void batch_make_room(struct batch *batch, size_t bytes)
{
  if (batch->size - batch->length >= bytes)
    return;
  batch->size = 2 * batch->size + bytes;
  batch->bytes = realloc(batch->bytes, batch->size);
  assert(batch->bytes);
}

void batch_add(struct batch *batch, const bson_t *document, bool id_wanted, struct place from)
{
  assert(batch->count < batch->count_max);
  batch_make_room(batch, document->len);
  memcpy(batch->bytes + batch->length, bson_get_data(document), document->len);
  batch->documents[batch->count++] = (struct batch_document){
      .at = batch->length, .length = document->len, .id_wanted = id_wanted, .messages = 1, .first = from, .last = from};
  batch->length += document->len;
}

void batch_document(const struct batch *batch, size_t i, bson_t *document)
{
  bool sound = bson_init_static(document, batch->bytes + batch->documents[i].at, batch->documents[i].length);
  assert(sound);
}

size_t batch_messages(const struct batch *batch, size_t i, size_t count)
{
  size_t messages = 0;
  for (; count > 0; count--)
    messages += batch->documents[i++].messages;
  return messages;
}

/* ---- bundles ---- */

/* {_id: 12 bytes, type: string, batch: [ ... ]}: the offset of the type's text, and the distance from its end to the array. */
enum { BUNDLE_TYPE_AT = 4 + (1 + 4 + 12) + (1 + 5 + 4), BUNDLE_ARRAY_BEHIND = 1 + (1 + 6), KEY_SIZE = 24 };

static void put_length(uint8_t *at, size_t length)
{
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(length >> 8 * i);
}

bool batch_bundle_takes(const struct batch *batch, const char *type, size_t bytes, size_t messages_max)
{
  if (batch->count == 0)
    return false;
  const struct batch_document *last = &batch->documents[batch->count - 1];
  return last->messages < messages_max && last->length + bytes + KEY_SIZE <= BUNDLE_BYTES_MAX &&
         strcmp((const char *)batch->bytes + last->at + BUNDLE_TYPE_AT, type) == 0;
}

static void bundle_begin(struct batch *batch, const char *type, struct place from)
{
  static const uint8_t no_id[12];
  bson_t bundle = BSON_INITIALIZER, none = BSON_INITIALIZER;
  bson_oid_t id;
  bson_oid_init_from_data(&id, no_id);
  bson_append_oid(&bundle, "_id", 3, &id);
  bson_append_utf8(&bundle, "type", 4, type, -1);
  bson_append_array(&bundle, "batch", 5, &none);
  batch_add(batch, &bundle, true, from);
  batch->documents[batch->count - 1].messages = 0;
  bson_destroy(&none);
  bson_destroy(&bundle);
}

/* Appends in place, over the two bytes that end array and document: it is a whole document at any time, and each message is copied once. */
void batch_bundle(struct batch *batch, const char *type, const bson_t *message, struct place from, size_t messages_max)
{
  if (!batch_bundle_takes(batch, type, message->len, messages_max))
    bundle_begin(batch, type, from);
  struct batch_document *last = &batch->documents[batch->count - 1];
  char key[KEY_SIZE];
  size_t key_bytes = (size_t)snprintf(key, sizeof key, "%zu", last->messages) + 1, bytes = 1 + key_bytes + message->len;
  batch_make_room(batch, bytes);
  uint8_t *bundle = batch->bytes + last->at, *array = bundle + BUNDLE_TYPE_AT + strlen(type) + BUNDLE_ARRAY_BEHIND;
  uint8_t *to = bundle + last->length - 2;
  *to++ = BSON_TYPE_DOCUMENT;
  memcpy(to, key, key_bytes);
  memcpy(to + key_bytes, bson_get_data(message), message->len);
  memset(to + key_bytes + message->len, 0, 2);
  last->length += bytes;
  batch->length += bytes;
  put_length(bundle, last->length);
  put_length(array, (size_t)(bundle + last->length - 1 - array));
  last->messages++;
  last->last = from;
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
  document_make_printable(error->text); /* the text quotes the document */
}

/* The server refused before it touched a document. Every other code may come in the middle of a batch. */
static bool code_means_none(int64_t code)
{
  enum { BAD_VALUE = 2, FAILED_TO_PARSE = 9, UNAUTHORIZED = 13, TYPE_MISMATCH = 14, AUTHENTICATION_FAILED = 18 };
  enum { INVALID_NAMESPACE = 73, NOT_ON_VIEW = 166, BSON_TOO_LARGE = 10334 };
  return code == BAD_VALUE || code == FAILED_TO_PARSE || code == UNAUTHORIZED || code == TYPE_MISMATCH || code == AUTHENTICATION_FAILED ||
         code == INVALID_NAMESPACE || code == NOT_ON_VIEW || code == BSON_TOO_LARGE;
}

/* The document is valid: the server had no room in its cache or on its disk, or had a conflict of its own, and undid the insert. */
static bool code_means_later(int64_t code)
{
  enum { LOCK_TIMEOUT = 24, WRITE_CONFLICT = 112, EXCEEDED_MEMORY = 146, UNAVAILABLE = 365, TOO_LARGE_FOR_CACHE = 395, NO_SPACE = 14031 };
  return code == LOCK_TIMEOUT || code == WRITE_CONFLICT || code == EXCEEDED_MEMORY || code == UNAVAILABLE || code == TOO_LARGE_FOR_CACHE ||
         code == NO_SPACE;
}

static bool reply_says_closed(const bson_t *reply)
{
  bson_iter_t iter, found;
  return bson_iter_init(&iter, reply) &&
         bson_iter_find_descendant(&iter, "writeErrors.0.errInfo.details.specifiedAs.$expr.$eq.0", &found) &&
         BSON_ITER_HOLDS_UTF8(&found) && strcmp(bson_iter_utf8(&found, NULL), OWN_COLLECTION_CLOSED) == 0;
}

static enum insert_answer answer_of(int64_t code, const bson_t *reply)
{
  enum { VALIDATION_FAILED = 121 };
  if (code == VALIDATION_FAILED)
    return reply_says_closed(reply) ? INSERT_CLOSED : INSERT_INVALID;
  return code_means_later(code) ? INSERT_BUSY : INSERT_BAD;
}

/* For an error of the server the driver's code is the server's code; there is no other reply to inspect. */
static bool surely_none(const bson_error_t *reason)
{
  return reason->domain == MONGOC_ERROR_SERVER_SELECTION || (reason->domain == MONGOC_ERROR_SERVER && code_means_none(reason->code));
}

/*
 *   reply                                 driver says          means
 *   writeErrors at index i, all else well failed               before i acknowledged, i is bad (or, by its code, to be retried),
 *                                                              after i was not tried
 *   writeErrors, writeConcernErrors       failed               before i unknown (if there are any), after i was not tried
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
    return (struct insert_outcome){.answer = answer_of(reply_number(reply, "writeErrors.0.code"), reply), .acknowledged = (size_t)index};
  }
  if (done && !doubtful && reply_number(reply, "nInserted") == (int64_t)sent)
    return (struct insert_outcome){.answer = INSERT_DONE, .acknowledged = sent};
  if (done)
    error_set(error, "the server does not say that it inserted them all");
  else
    mongo_explain(reason, error);
  if (!done && !refused && !doubtful && surely_none(reason))
    return (struct insert_outcome){.answer = INSERT_NONE, .unreachable = reason->domain == MONGOC_ERROR_SERVER_SELECTION};
  return (struct insert_outcome){.answer = INSERT_UNKNOWN, .unknown = refused ? (size_t)index : sent};
}

/* A bulk operation, because the driver retries it: driver 1.23 does not retry a raw command. */
static mongoc_bulk_operation_t *bulk_make(mongoc_collection_t *collection, const struct batch *batch, size_t first, size_t count)
{
  bson_t opts = BSON_INITIALIZER, unchecked = BSON_INITIALIZER;
  bson_append_bool(&opts, "ordered", 7, true);
  mongo_append_write_concern(&opts);
  mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(collection, &opts);
  bson_append_bool(&unchecked, "validate", 8, false); /* the producer decides what is inside */
  for (size_t i = first; i < first + count; i++) {
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

/* The user was dropped after this program logged in, and may be made again soon. The server did nothing of what was sent. */
static bool login_lost(struct mongo *mongo, mongoc_client_t *client, const bson_t *reply, const bson_error_t *reason)
{
  if (reply_number(reply, "nInserted") > 0)
    return false;
  if (reason->domain == MONGOC_ERROR_CLIENT && reason->code == MONGOC_ERROR_CLIENT_AUTHENTICATE)
    return true;
  return reason->domain == MONGOC_ERROR_SERVER && mongo_login_lost(mongo, client, (int)reason->code, reason->message);
}

struct insert_outcome insert_batch(struct mongo *mongo, mongoc_client_t *client, const char *name, const struct batch *batch, size_t first,
                                   size_t count, struct error *error)
{
  bson_t reply;
  bson_error_t reason = {0};
  mongoc_collection_t *collection = mongoc_client_get_collection(client, mongo_db(mongo), name);
  mongoc_bulk_operation_t *bulk = bulk_make(collection, batch, first, count);
  bool done = mongoc_bulk_operation_execute(bulk, &reply, &reason) != 0;
  struct insert_outcome outcome = insert_judge(done, &reply, &reason, count, error);
  if (!done && login_lost(mongo, client, &reply, &reason))
    outcome = (struct insert_outcome){.answer = INSERT_BUSY};
  bson_destroy(&reply);
  mongoc_bulk_operation_destroy(bulk);
  mongoc_collection_destroy(collection);
  return outcome;
}

/* ---- wake-ups ---- */

enum {
  WAKE_TYPES_MAX = 16, /* workers find messages of further types by their own polls */
  WAKE_PAUSE_MS = 10,
};

static size_t types_find(const struct batch *batch, size_t first, size_t count, const char **types)
{
  size_t found = 0;
  for (size_t i = first; i < first + count && found < WAKE_TYPES_MAX; i++) {
    bson_t document;
    bson_iter_t at;
    size_t known = 0;
    batch_document(batch, i, &document);
    if (!bson_iter_init_find(&at, &document, "type") || !BSON_ITER_HOLDS_UTF8(&at))
      continue;
    const char *type = bson_iter_utf8(&at, NULL);
    while (known < found && strcmp(types[known], type) != 0)
      known++;
    if (known == found)
      types[found++] = type;
  }
  return found;
}

static bool told_just_now(const struct insert_woken *woken, const char *const *types, size_t type_count, int64_t now_ms)
{
  return type_count == 1 && strcmp(woken->type, types[0]) == 0 && now_ms - woken->at_ms < WAKE_PAUSE_MS;
}

void insert_wake(struct mongo *mongo, mongoc_client_t *client, const struct batch *batch, size_t first, size_t count, int64_t now_ms,
                 struct insert_woken *woken)
{
  const char *types[WAKE_TYPES_MAX];
  size_t type_count = types_find(batch, first, count, types);
  if (told_just_now(woken, types, type_count, now_ms) || mongo_avoids_wakeups(mongo))
    return;
  snprintf(woken->type, sizeof woken->type, "%s", type_count == 1 ? types[0] : "");
  woken->at_ms = now_ms;
  bson_t *opts = BCON_NEW("ordered", BCON_BOOL(false), "writeConcern", "{", "w", BCON_INT32(0), "}"), reply;
  bson_error_t ignored;
  mongoc_collection_t *collection = mongoc_client_get_collection(client, mongo_db(mongo), "wakeups");
  mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(collection, opts);
  for (size_t i = 0; i < type_count; i++) {
    bson_t *document = BCON_NEW("type", BCON_UTF8(types[i]), "about", "message");
    if (!mongoc_bulk_operation_insert_with_opts(bulk, document, NULL, &ignored))
      assert(!"a document of two strings");
    bson_destroy(document);
  }
  if (type_count > 0) {
    (void)mongoc_bulk_operation_execute(bulk, &reply, &ignored);
    bson_destroy(&reply);
  }
  mongoc_bulk_operation_destroy(bulk);
  mongoc_collection_destroy(collection);
  bson_destroy(opts);
}
