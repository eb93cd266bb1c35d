#include "bson_array.h"
#include "lockstore/connection.h"
#include "lockstore/mongo.h"
#include "worker/ask.h"
#include "worker/clock.h"
#include "worker/queue.h"
#include "worker/queue_private.h"

#include <stdlib.h>

struct queue_reader {
  struct mongo *mongo;
  struct mongo_connection *connection; /* NULL: at rest, or none could be had */
  struct ask ask;
  int64_t shared_read; /* of `messages`, by the last pass */
};

struct queue_pass {
  struct queue_reader *reader;
  struct mongo *mongo;
  char type[TYPE_BYTES_MAX + 1];
  enum queue_source source;
  struct queue_name collection;
  uint64_t part_at; /* SOURCE_OWN: the cluster time to read at */
  bool any;         /* it has read a message */
  bool names;       /* SOURCE_OWN: the messages are over; what is read now is of another type, and is named */
  struct work_item_caps caps;
  struct queue_mark *mark; /* borrowed */
  mongoc_client_t *client; /* the connection's; the cursor lives in the session that made it */
  mongoc_client_session_t *session;
  int64_t cursor;   /* 0: none, or read to its end */
  uint64_t read_at; /* its cluster time, as the server tells it; 0: it does not */
  bool begun, failed;
  int64_t ask_documents; /* of this call */
  int64_t left_bytes;    /* of the documents of the last answer from `next` on */
  bson_t reply;          /* the documents of the last answer */
  bool has_reply, has_next;
  bson_iter_t next;        /* the next of them */
  int64_t reply_documents; /* that were before it */
  int64_t took_ms;         /* until that answer was there */
};

struct queue_reader *queue_reader_new(struct lockstore *store)
{
  struct queue_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL)
    return NULL;
  reader->mongo = lockstore_mongo(store);
  ask_init(&reader->ask);
  return reader;
}

void queue_reader_free(struct queue_reader *reader)
{
  if (reader != NULL)
    queue_reader_rest(reader);
  free(reader);
}

void queue_reader_drop(struct queue_reader *reader)
{
  if (reader->connection != NULL)
    mongo_connection_drop(reader->connection);
}

void queue_reader_take_up(struct queue_reader *reader)
{
  if (reader->connection != NULL)
    mongo_connection_take_up(reader->connection);
  else
    reader->connection = mongo_connection_take(reader->mongo);
}

void queue_reader_rest(struct queue_reader *reader)
{
  mongo_connection_give(reader->connection);
  reader->connection = NULL;
}

/* A reply did not come. */
static void pass_ask_less(struct queue_pass *pass)
{
  const struct mongo_connection *connection = pass->reader->connection;
  if (mongo_connection_has_asked(connection) && !mongo_connection_is_dropped(connection))
    ask_less(&pass->reader->ask, pass->caps.documents);
}

struct queue_pass *queue_pass_open(struct queue_reader *reader, const struct queue_part *part, int64_t batch_messages, int64_t batch_bytes,
                                   struct queue_mark *mark)
{
  struct queue_pass *pass = reader->connection != NULL ? aligned_zeros(_Alignof(struct queue_pass), sizeof *pass) : NULL;
  if (pass == NULL)
    return NULL;
  pass->reader = reader;
  pass->mongo = reader->mongo;
  snprintf(pass->type, sizeof pass->type, "%s", part->type);
  pass->source = part->source;
  pass->collection = queue_name_of(part->type, part->source);
  pass->part_at = part->read_at;
  pass->caps = (struct work_item_caps){.documents = batch_messages, .bytes = batch_bytes};
  pass->mark = mark;
  return pass;
}

uint64_t queue_pass_read_at(const struct queue_pass *pass)
{
  return pass->read_at;
}

static enum outcome pass_send(struct queue_pass *pass, const bson_t *command, struct error *error)
{
  bson_t opts = BSON_INITIALIZER;
  bson_error_t cause;
  int code = 0;
  if (pass->has_reply)
    bson_destroy(&pass->reply);
  pass->has_reply = pass->has_next = false;
  pass->reply_documents = 0;
  if (!mongoc_client_session_append(pass->session, &opts, &cause)) {
    error_set(error, "reading the queue: %s", cause.message);
    bson_destroy(&opts);
    return OUTCOME_UNKNOWN;
  }
  enum outcome outcome = mongo_client_command(pass->mongo, pass->client, "reading the queue", command, &opts, &pass->reply, &code, error);
  if (pass->source == SOURCE_SHARED)
    queue_explain(code, error);
  bson_destroy(&opts);
  pass->has_reply = true;
  if (outcome != OUTCOME_YES) {
    pass->cursor = 0; /* what it has sent into a lost reply it would not send again */
    if (code == 0)
      pass_ask_less(pass);
    return OUTCOME_UNKNOWN;
  }
  return OUTCOME_YES;
}

static enum outcome pass_command(struct queue_pass *pass, const bson_t *command, struct error *error)
{
  struct mongo_batch batch;
  int64_t began_ms = clock_boot_ms();
  if (pass_send(pass, command, error) != OUTCOME_YES)
    return OUTCOME_UNKNOWN;
  pass->took_ms = clock_boot_ms() - began_ms;
  mongo_reply_batch(&pass->reply, &batch);
  pass->cursor = batch.cursor;
  pass->next = batch.documents;
  pass->left_bytes = pass->reply.len;
  pass->has_next = bson_iter_next(&pass->next);
  return OUTCOME_YES;
}

static enum outcome pass_connect(struct queue_pass *pass, struct error *error)
{
  bson_error_t cause;
  if (mongo_connection_is_dropped(pass->reader->connection)) {
    error_set(error, "reading the queue: the reply is not wanted any more");
    return OUTCOME_UNKNOWN;
  }
  pass->client = mongo_connection_client(pass->reader->connection, "reading the queue", error);
  if (pass->client == NULL)
    return OUTCOME_UNKNOWN;
  mongoc_session_opt_t *options = mongoc_session_opts_new();
  mongoc_session_opts_set_causal_consistency(options, false); /* afterClusterTime is given by hand */
  pass->session = mongoc_client_start_session(pass->client, options, &cause);
  mongoc_session_opts_destroy(options);
  if (pass->session == NULL) {
    error_set(error, "reading the queue: %s", cause.message);
    return OUTCOME_UNKNOWN;
  }
  return OUTCOME_YES;
}

/* For one request. */
static int64_t documents_asked(struct queue_pass *pass)
{
  const struct ask *ask = &pass->reader->ask;
  int64_t count = ask_fitting(ask, ask_count(ask, pass->caps.documents), pass->caps.bytes), most = pass->ask_documents;
  pass->ask_documents = 0;
  return count < most ? count : most;
}

/*
 * The next document, of so many bytes, is in an item, or passed over. An answer that is used up is freed. Those that are only to be named
 * come without their contents.
 */
static void pass_advance(struct queue_pass *pass, uint32_t bytes)
{
  pass->reply_documents++;
  pass->left_bytes -= bytes;
  pass->has_next = bson_iter_next(&pass->next);
  if (pass->has_next)
    return;
  if (!pass->names) {
    ask_got(&pass->reader->ask, pass->reply_documents, pass->reply.len);
    ask_more(&pass->reader->ask, pass->took_ms, mongo_timeout_ms(pass->mongo));
  }
  bson_destroy(&pass->reply);
  pass->has_reply = false;
}

static void append_messages(struct queue_pass *pass, bson_t *command, int32_t order)
{
  bson_t filter, sort;
  BSON_APPEND_UTF8(command, "find", pass->collection.text);
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  queue_append_part(&filter, pass->type, pass->source);
  bson_append_document_end(command, &filter);
  BSON_APPEND_DOCUMENT_BEGIN(command, "sort", &sort);
  BSON_APPEND_INT32(&sort, "_id", order);
  bson_append_document_end(command, &sort);
  queue_append_part_hint(command, pass->source);
  if (pass->source == SOURCE_OWN)
    queue_append_read_at(pass->mongo, command, pass->part_at);
  else
    mongo_append_read_concern(pass->mongo, command, "snapshot", true);
}

/* The messages of the part, by rising `_id`. */
static void append_find(struct queue_pass *pass, bson_t *command)
{
  append_messages(pass, command, 1);
  BSON_APPEND_INT64(command, "batchSize", documents_asked(pass));
}

/* Whether there is one: the `_id` of the last. */
static void append_find_last(struct queue_pass *pass, bson_t *command)
{
  bson_t projection;
  append_messages(pass, command, -1);
  BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &projection);
  BSON_APPEND_INT32(&projection, "_id", 1);
  bson_append_document_end(command, &projection);
  BSON_APPEND_INT32(command, "limit", 1);
  BSON_APPEND_BOOL(command, "singleBatch", true);
}

/* What is in an own collection and is none of its type's: the first of them, for the log. */
static void append_find_others(struct queue_pass *pass, bson_t *command)
{
  bson_t filter, list, one, projection;
  BSON_APPEND_UTF8(command, "find", pass->collection.text);
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&filter, "$nor", &list);
  BSON_APPEND_DOCUMENT_BEGIN(&list, "0", &one);
  queue_append_part(&one, pass->type, pass->source);
  bson_append_document_end(&list, &one);
  bson_append_array_end(&filter, &list);
  bson_append_document_end(command, &filter);
  BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &projection);
  BSON_APPEND_INT32(&projection, "_id", 1);
  bson_append_document_end(command, &projection);
  BSON_APPEND_INT32(command, "limit", QUEUE_NAMED_MAX);
  BSON_APPEND_BOOL(command, "singleBatch", true);
  pass->ask_documents = 0;
  queue_append_read_at(pass->mongo, command, pass->part_at);
}

/* Sends a find that `append` makes. What is empty counts only at a cluster time. */
static enum outcome pass_ask(struct queue_pass *pass, void (*append)(struct queue_pass *, bson_t *), struct error *error)
{
  bson_t command = BSON_INITIALIZER;
  append(pass, &command);
  mongo_connection_waits(pass->reader->connection, true);
  enum outcome outcome = pass_command(pass, &command, error);
  bson_destroy(&command);
  if (outcome != OUTCOME_YES)
    return outcome;
  pass->read_at = queue_read_at(&pass->reply);
  if (pass->has_next || pass->read_at != 0 || !mongo_is_replica_set(pass->mongo))
    return OUTCOME_YES;
  queue_no_snapshot(&pass->collection, error);
  return OUTCOME_UNKNOWN;
}

static enum outcome pass_find(struct queue_pass *pass, struct error *error)
{
  enum { MANY = 10000 };
  enum outcome outcome = pass->session != NULL ? OUTCOME_YES : pass_connect(pass, error);
  bool after_many = pass->source == SOURCE_SHARED && pass->reader->shared_read >= MANY;
  pass->begun = true;
  if (outcome != OUTCOME_YES)
    return outcome;
  if (pass->source == SOURCE_OWN && pass->part_at == 0 && mongo_is_replica_set(pass->mongo)) {
    error_set(error, "reading the queue: the cluster time of the pass of messages is not known");
    return OUTCOME_UNKNOWN;
  }
  if (pass->source == SOURCE_SHARED)
    pass->reader->shared_read = 0;
  /* What was deleted stays in the index for minutes. Where nothing came after it, backwards is once over it, and forwards twice. */
  if (after_many) {
    outcome = pass_ask(pass, append_find_last, error);
    if (outcome != OUTCOME_YES || !pass->has_next)
      return outcome;
  }
  return pass_ask(pass, pass->names ? append_find_others : append_find, error);
}

static enum outcome pass_more(struct queue_pass *pass, struct error *error)
{
  bson_t command = BSON_INITIALIZER;
  mongo_connection_waits(pass->reader->connection, false);
  BSON_APPEND_INT64(&command, "getMore", pass->cursor);
  BSON_APPEND_UTF8(&command, "collection", pass->collection.text);
  BSON_APPEND_INT64(&command, "batchSize", documents_asked(pass));
  enum outcome outcome = pass_command(pass, &command, error);
  bson_destroy(&command);
  return outcome;
}

/* The next document; false: it is none. */
static bool pass_document(const struct queue_pass *pass, const uint8_t **document, uint32_t *bytes)
{
  if (!BSON_ITER_HOLDS_DOCUMENT(&pass->next))
    return false;
  bson_iter_document(&pass->next, bytes, document);
  return true;
}

/* Passes over documents that cannot be taken. True: `error` names one that was not named before. */
static bool pass_over(struct queue_pass *pass, struct error *error)
{
  const uint8_t *document = NULL;
  uint32_t bytes = 0;
  struct element id;
  while (pass->has_next && pass_document(pass, &document, &bytes)) {
    const char *flaw = message_id_find(document, bytes, &id), *field = "_id";
    if (flaw == NULL && !pass->names)
      return false;
    if (pass->names) {
      flaw = "is not that of the collection";
      field = "type";
    }
    bool named = queue_name_refused(pass->mark, &id, field, flaw, error);
    pass_advance(pass, bytes);
    if (named)
      return true;
  }
  return false;
}

/* From the reply into an item. */
static enum outcome pass_fill(struct queue_pass *pass, struct work_item *item, struct error *error)
{
  struct element id;
  /* A reply's documents are shorter than the reply; what is too short is grown. */
  size_t room = (size_t)(pass->left_bytes < pass->caps.bytes ? pass->left_bytes : pass->caps.bytes);
  if (!batch_reserve(&item->batch, room)) {
    error_set(error, "reading the queue: no memory for a batch of %zu bytes", room);
    return OUTCOME_UNKNOWN;
  }
  while (pass->has_next) {
    uint32_t bytes = 0;
    const uint8_t *document = NULL;
    if (!pass_document(pass, &document, &bytes)) {
      error_set(error, "reading the queue: the server's answer holds something else than documents");
      return OUTCOME_UNKNOWN;
    }
    enum work_item_put put = work_item_put(item, &pass->caps, document, bytes, &id);
    if (put == ITEM_NO_MEMORY) {
      error_set(error, "reading the queue: no memory for a batch of %u message%s", item->documents, plural(item->documents));
      return OUTCOME_UNKNOWN;
    }
    if (put != ITEM_PUT)
      break;
    queue_mark_set(pass->mark, &id);
    pass->any = true;
    pass->reader->shared_read += pass->source == SOURCE_SHARED;
    pass_advance(pass, bytes);
  }
  return OUTCOME_YES;
}

/* Once after each time that the messages have run out: then what is left is little, and nothing else would tell of it. */
static bool pass_looks_for_others(struct queue_pass *pass)
{
  if (pass->source != SOURCE_OWN || pass->any || pass->names || pass->mark->refused_seen)
    return false;
  return pass->names = pass->mark->refused_seen = true;
}

static enum outcome pass_next(struct queue_pass *pass, struct work_item **item, struct error *error)
{
  *item = NULL;
  enum outcome outcome = pass->begun ? OUTCOME_YES : pass_find(pass, error);
  while (outcome == OUTCOME_YES) {
    if (pass_over(pass, error))
      return OUTCOME_YES;
    if (pass->has_next)
      break;
    if (pass->cursor == 0 && !pass_looks_for_others(pass))
      return OUTCOME_NO;
    if (pass->ask_documents == 0) {
      pass->begun = pass->cursor != 0;
      return OUTCOME_YES;
    }
    outcome = pass->cursor == 0 ? pass_find(pass, error) : pass_more(pass, error);
  }
  if (outcome != OUTCOME_YES)
    return outcome;
  struct work_item *filled = work_item_new();
  if (filled == NULL) {
    error_set(error, "reading the queue: no memory");
    return OUTCOME_UNKNOWN;
  }
  filled->read_at = pass->read_at;
  filled->source = pass->source;
  outcome = pass_fill(pass, filled, error);
  if (outcome == OUTCOME_YES)
    *item = filled;
  else
    work_item_free(filled);
  return outcome;
}

enum outcome queue_pass_next(struct queue_pass *pass, int64_t ask_documents, struct work_item **item, struct error *error)
{
  pass->ask_documents = ask_documents;
  enum outcome outcome = pass_next(pass, item, error);
  if (outcome == OUTCOME_UNKNOWN && pass->names)
    pass->mark->refused_seen = false;
  pass->failed = outcome == OUTCOME_UNKNOWN; /* the next pass begins with a new connection, to the primary of that moment */
  return outcome;
}

void queue_pass_holds(const struct queue_pass *pass, int64_t *answer_bytes, int64_t *left_bytes)
{
  *answer_bytes = pass->has_reply ? pass->reply.len : 0;
  *left_bytes = pass->has_reply ? pass->left_bytes : 0;
}

static void pass_kill_cursor(struct queue_pass *pass)
{
  bson_t command = BSON_INITIALIZER, cursors;
  struct error ignored;
  BSON_APPEND_UTF8(&command, "killCursors", pass->collection.text);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&command, "cursors", &cursors);
  BSON_APPEND_INT64(&cursors, "0", pass->cursor);
  bson_append_array_end(&command, &cursors);
  if (pass_send(pass, &command, &ignored) != OUTCOME_YES)
    pass->failed = true; /* the server forgets an idle cursor by itself */
  bson_destroy(&command);
}

void queue_pass_close(struct queue_pass *pass, bool answers)
{
  if (pass == NULL)
    return;
  if (pass->cursor != 0 && answers)
    pass_kill_cursor(pass);
  if (pass->has_reply)
    bson_destroy(&pass->reply);
  if (pass->session != NULL)
    mongoc_client_session_destroy(pass->session);
  if (pass->failed)
    mongo_connection_close(pass->reader->connection);
  free(pass);
}
