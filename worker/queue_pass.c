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
  struct mongo_connection *connection;
  struct ask ask;
};

struct queue_pass {
  struct queue_reader *reader;
  struct mongo *mongo;
  char type[TYPE_BYTES_MAX + 1];
  struct work_item_caps caps;
  struct queue_mark *mark; /* borrowed */
  mongoc_client_t *client; /* the connection's; the cursor lives in the session that made it */
  mongoc_client_session_t *session;
  int64_t cursor;   /* 0: none, or read to its end */
  uint64_t read_at; /* its cluster time, as the server tells it; 0: it does not */
  bool begun, failed;
  bson_t reply; /* the documents of the last answer */
  bool has_reply, has_next;
  bson_iter_t next; /* the next of them */
};

struct queue_reader *queue_reader_new(struct lockstore *store)
{
  struct queue_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL)
    return NULL;
  reader->mongo = lockstore_mongo(store);
  ask_init(&reader->ask);
  reader->connection = mongo_connection_new(reader->mongo);
  if (reader->connection != NULL)
    return reader;
  free(reader);
  return NULL;
}

void queue_reader_free(struct queue_reader *reader)
{
  if (reader != NULL)
    mongo_connection_free(reader->connection);
  free(reader);
}

void queue_reader_drop(struct queue_reader *reader)
{
  mongo_connection_drop(reader->connection);
}

void queue_reader_take_up(struct queue_reader *reader)
{
  mongo_connection_take_up(reader->connection);
}

/* A reply did not come. */
static void pass_ask_less(struct queue_pass *pass)
{
  const struct mongo_connection *connection = pass->reader->connection;
  if (mongo_connection_has_asked(connection) && !mongo_connection_is_dropped(connection))
    ask_less(&pass->reader->ask, pass->caps.documents);
}

struct queue_pass *queue_pass_open(struct queue_reader *reader, const char *type, int64_t batch_messages, int64_t batch_bytes,
                                   struct queue_mark *mark)
{
  struct queue_pass *pass = calloc(1, sizeof *pass);
  if (pass == NULL)
    return NULL;
  pass->reader = reader;
  pass->mongo = reader->mongo;
  snprintf(pass->type, sizeof pass->type, "%s", type);
  pass->caps = (struct work_item_caps){.documents = batch_messages, .bytes = batch_bytes};
  pass->mark = mark;
  return pass;
}

static enum outcome pass_send(struct queue_pass *pass, const bson_t *command, struct error *error)
{
  bson_t opts = BSON_INITIALIZER;
  bson_error_t cause;
  int code = 0;
  if (pass->has_reply)
    bson_destroy(&pass->reply);
  pass->has_reply = pass->has_next = false;
  if (!mongoc_client_session_append(pass->session, &opts, &cause)) {
    error_set(error, "reading the queue: %s", cause.message);
    bson_destroy(&opts);
    return OUTCOME_UNKNOWN;
  }
  enum outcome outcome = mongo_client_command(pass->mongo, pass->client, "reading the queue", command, &opts, &pass->reply, &code, error);
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
  ask_more(&pass->reader->ask, clock_boot_ms() - began_ms, mongo_timeout_ms(pass->mongo));
  if (!mongo_reply_batch(&pass->reply, &batch)) {
    error_set(error, "reading the queue: the server's answer has no cursor");
    return OUTCOME_UNKNOWN;
  }
  pass->cursor = batch.cursor;
  pass->next = batch.documents;
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

static enum outcome pass_find(struct queue_pass *pass, struct error *error)
{
  const char *type = pass->type;
  bson_t command = BSON_INITIALIZER, sort;
  pass->begun = true;
  enum outcome outcome = pass_connect(pass, error);
  if (outcome == OUTCOME_YES) {
    BSON_APPEND_UTF8(&command, "find", "messages");
    queue_append_filter(&command, &type, 1, NULL, true);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "sort", &sort);
    BSON_APPEND_INT32(&sort, "_id", 1);
    bson_append_document_end(&command, &sort);
    queue_append_hint(&command);
    BSON_APPEND_INT64(&command, "batchSize", ask_count(&pass->reader->ask, pass->caps.documents));
    mongo_append_read_concern(pass->mongo, &command, "snapshot", true);
    mongo_connection_waits(pass->reader->connection, true);
    outcome = pass_command(pass, &command, error);
    if (outcome == OUTCOME_YES)
      pass->read_at = queue_read_at(&pass->reply);
    if (outcome == OUTCOME_YES && !pass->has_next && pass->read_at == 0 && mongo_is_replica_set(pass->mongo)) {
      error_set(error, "%s", queue_no_snapshot);
      outcome = OUTCOME_UNKNOWN;
    }
  }
  bson_destroy(&command);
  return outcome;
}

static enum outcome pass_more(struct queue_pass *pass, struct error *error)
{
  bson_t command = BSON_INITIALIZER;
  mongo_connection_waits(pass->reader->connection, false);
  BSON_APPEND_INT64(&command, "getMore", pass->cursor);
  BSON_APPEND_UTF8(&command, "collection", "messages");
  BSON_APPEND_INT64(&command, "batchSize", ask_count(&pass->reader->ask, pass->caps.documents));
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
    const char *flaw = message_id_find(document, bytes, &id);
    if (flaw == NULL)
      return false;
    bool named = queue_name_refused(pass->mark, &id, flaw, error);
    pass->has_next = bson_iter_next(&pass->next);
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
  size_t room = pass->reply.len < pass->caps.bytes ? pass->reply.len : (size_t)pass->caps.bytes;
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
    pass->has_next = bson_iter_next(&pass->next);
  }
  return OUTCOME_YES;
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
    if (pass->cursor == 0)
      return OUTCOME_NO;
    outcome = pass_more(pass, error);
  }
  if (outcome != OUTCOME_YES)
    return outcome;
  struct work_item *filled = work_item_new();
  if (filled == NULL) {
    error_set(error, "reading the queue: no memory");
    return OUTCOME_UNKNOWN;
  }
  filled->read_at = pass->read_at;
  outcome = pass_fill(pass, filled, error);
  if (outcome == OUTCOME_YES)
    *item = filled;
  else
    work_item_free(filled);
  return outcome;
}

enum outcome queue_pass_next(struct queue_pass *pass, struct work_item **item, struct error *error)
{
  enum outcome outcome = pass_next(pass, item, error);
  pass->failed = outcome == OUTCOME_UNKNOWN; /* the next pass begins with a new connection, to the primary of that moment */
  return outcome;
}

static void pass_kill_cursor(struct queue_pass *pass)
{
  bson_t command = BSON_INITIALIZER, cursors;
  struct error ignored;
  BSON_APPEND_UTF8(&command, "killCursors", "messages");
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
