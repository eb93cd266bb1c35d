#include "worker/queue.h"
#include "bson_array.h"
#include "lockstore/link.h"
#include "lockstore/mongo.h"
#include "lockstore/transaction.h"
#include "worker/ask.h"
#include "worker/clock.h"

#include <stdlib.h>

struct queue_reader {
  struct mongo *mongo;
  struct mongo_link *link;
  struct ask ask;
};

struct queue_pass {
  struct queue_reader *reader;
  struct mongo *mongo;
  char type[TYPE_BYTES_MAX + 1];
  struct work_item_caps caps;
  struct queue_mark *mark; /* borrowed */
  mongoc_client_t *client; /* the link's; the cursor lives in the session that made it */
  mongoc_client_session_t *session;
  int64_t cursor;   /* 0: none, or read to its end */
  uint64_t read_at; /* its cluster time, as the server tells it; 0: it does not */
  bool begun, failed;
  bson_t reply; /* the documents of the last answer */
  bool has_reply, has_next;
  bson_iter_t next; /* the next of them */
};

static void append_no_array(bson_t *test)
{
  bson_t no;
  BSON_APPEND_DOCUMENT_BEGIN(test, "$not", &no);
  BSON_APPEND_UTF8(&no, "$type", "array");
  bson_append_document_end(test, &no);
}

/* The type's messages, and never a document whose `type` is an array that holds it: other tools may use those. */
static void append_type(bson_t *filter, const char *const *types, size_t count)
{
  bson_t type, list;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "type", &type);
  if (count == 1) {
    BSON_APPEND_UTF8(&type, "$eq", types[0]);
  } else {
    BSON_APPEND_ARRAY_UNSAFE_BEGIN(&type, "$in", &list);
    for (size_t i = 0; i < count; i++)
      BSON_APPEND_UTF8(&list, "0", types[i]);
    bson_append_array_end(&type, &list);
  }
  append_no_array(&type);
  bson_append_document_end(filter, &type);
}

/* `from`: no smaller `_id`; NULL: all. `arrays`: an `_id` may be one. */
static void append_filter(bson_t *command, const char *const *types, size_t count, const bson_oid_t *from, bool arrays)
{
  bson_t filter, id;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  append_type(&filter, types, count);
  if (from != NULL || !arrays) {
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    if (from != NULL)
      BSON_APPEND_OID(&id, "$gte", from);
    if (!arrays)
      append_no_array(&id);
    bson_append_document_end(&filter, &id);
  }
  bson_append_document_end(command, &filter);
}

static void append_hint(bson_t *command)
{
  bson_t hint;
  BSON_APPEND_DOCUMENT_BEGIN(command, "hint", &hint);
  BSON_APPEND_INT32(&hint, "type", 1);
  BSON_APPEND_INT32(&hint, "_id", 1);
  bson_append_document_end(command, &hint);
}

/* In a command that is otherwise always the same, a bad value is the hint, for which there is no index. What the server says of it begins
 * with the whole query. */
static void explain(int code, struct error *error)
{
  enum { BAD_VALUE = 2 };
  if (code != BAD_VALUE)
    return;
  error_set(error, "MongoDB has not made the index {type: 1, _id: 1} on messages yet");
  error->reason = ERROR_ANSWERED;
}

/* {cursor: {atClusterTime}}, which a snapshot has. */
static uint64_t reply_read_at(const bson_t *reply)
{
  bson_iter_t at, time;
  uint32_t seconds = 0, increment = 0;
  if (bson_iter_init(&at, reply) && bson_iter_find_descendant(&at, "cursor.atClusterTime", &time) && BSON_ITER_HOLDS_TIMESTAMP(&time))
    bson_iter_timestamp(&time, &seconds, &increment);
  return (uint64_t)seconds << 32 | increment;
}

/* Of a collection that is missing, dropped or renamed: it reads as empty. */
static const char no_snapshot[] =
    "reading the queue: the server's answer is empty and names no snapshot; is the collection messages missing?";

/* ---- peek and delete ---- */

void queue_describe(struct lockstore *store, struct error *text)
{
  mongo_describe(lockstore_mongo(store), text->text, sizeof text->text);
}

static void mark_set(struct queue_mark *mark, const struct element *id)
{
  mark->set = id->type == BSON_TYPE_OID;
  if (mark->set)
    bson_oid_init_from_data(&mark->id, id->value);
}

/* FNV-1a. */
static uint64_t id_hash(const struct element *id)
{
  uint64_t hash = 0xcbf29ce484222325u ^ id->type;
  for (size_t i = 0; i < id->bytes; i++)
    hash = (hash ^ id->value[i]) * 0x100000001b3u;
  return hash;
}

/* Each is named once a process, and of very many only the first, so that they do not drown the log. True: `error` names it. */
static bool name_refused(struct queue_mark *mark, const struct element *id, const char *flaw, struct error *error)
{
  uint64_t hash = id_hash(id);
  if (mark == NULL || mark->named_count == QUEUE_NAMED_MAX)
    return false;
  for (int i = 0; i < mark->named_count; i++)
    if (mark->named[i] == hash)
      return false;
  mark->named[mark->named_count++] = hash;
  error_set(error, "cannot take the document with _id %s: its _id %s. It stays in the queue, and the messages around it are taken%s",
            message_id_show(id).text, flaw, mark->named_count == QUEUE_NAMED_MAX ? "; no more such documents will be named" : "");
  return true;
}

/*
 * A find, of `_id`s alone and one reply. `command` has what it needs beside that, and is destroyed. YES: *documents walks over them inside
 * *reply, which the caller destroys in any case.
 */
static enum outcome find_ids(struct mongo *mongo, const char *doing, bson_t *command, int32_t limit, bool snapshot, bson_t *reply,
                             bson_iter_t *documents, struct error *error)
{
  bson_t projection;
  struct mongo_batch batch;
  int code = 0;
  append_hint(command);
  BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &projection);
  BSON_APPEND_INT32(&projection, "_id", 1);
  bson_append_document_end(command, &projection);
  BSON_APPEND_INT32(command, "limit", limit);
  BSON_APPEND_INT32(command, "batchSize", limit); /* else 101 */
  BSON_APPEND_BOOL(command, "singleBatch", true);
  enum outcome outcome = mongo_command(mongo, doing, command, reply, &code, error);
  explain(code, error);
  bson_destroy(command);
  if (outcome == OUTCOME_YES && !mongo_reply_batch(reply, &batch)) {
    error_set(error, "%s: the server's answer has no cursor", doing);
    return OUTCOME_UNKNOWN;
  }
  if (outcome != OUTCOME_YES)
    return OUTCOME_UNKNOWN;
  bson_iter_t first = *documents = batch.documents;
  if (!snapshot || !mongo_is_replica_set(mongo) || reply_read_at(reply) != 0 || bson_iter_next(&first))
    return OUTCOME_YES;
  error_set(error, no_snapshot);
  return OUTCOME_UNKNOWN;
}

enum { LOOK_SOME = 1000, LOOK_BYTES_MANY = 1024 * 1024 };

struct look { /* for messages, by their `_id`s alone */
  struct mongo *mongo;
  const char *const *types;
  size_t count;
  bool linearizable;
  const bson_oid_t *from;  /* no smaller `_id`; NULL: all */
  struct queue_mark *mark; /* or NULL */
  bool any, found;         /* there are documents; one of them can be taken */
  bool more;               /* perhaps there are more than were looked at */
  bool paged;              /* the type's, page by page */
  bson_t place;            /* {type, _id}: where the next page begins; empty: at the beginning */
  struct error named;      /* the text for one that cannot be taken */
};

static void look_judge(struct look *look, const bson_iter_t *found)
{
  const uint8_t *document = NULL;
  uint32_t bytes = 0;
  struct element id;
  if (!BSON_ITER_HOLDS_DOCUMENT(found))
    return;
  bson_iter_document(found, &bytes, &document);
  const char *flaw = message_id_find(document, bytes, &id);
  if (flaw == NULL && look->mark != NULL && !look->found)
    mark_set(look->mark, &id);
  look->any = true;
  look->found = look->found || flaw == NULL;
  if (flaw != NULL && look->named.text[0] == 0)
    (void)name_refused(look->mark, &id, flaw, &look->named);
  if (look->paged) {
    bson_reinit(&look->place);
    BSON_APPEND_UTF8(&look->place, "type", look->types[0]);
    if (!message_id_append(&look->place, "_id", &id))
      look->found = true; /* no memory to look on: a pass will */
  }
}

/* By the index's keys, for a filter compares only values of one kind. The end is the first key behind the type's own. */
static void append_place(bson_t *command, const struct look *look)
{
  bson_t end;
  if (bson_empty(&look->place))
    return;
  BSON_APPEND_DOCUMENT(command, "min", &look->place);
  BSON_APPEND_DOCUMENT_BEGIN(command, "max", &end);
  bson_append_utf8(&end, "type", -1, look->types[0], (int)strlen(look->types[0]) + 1); /* with its NUL */
  BSON_APPEND_MINKEY(&end, "_id");
  bson_append_document_end(command, &end);
}

static enum outcome look_ask(struct look *look, int32_t limit, bool greatest, struct error *error)
{
  bson_t command = BSON_INITIALIZER, sort, reply;
  bson_iter_t documents;
  int seen = 0;
  BSON_APPEND_UTF8(&command, "find", "messages");
  append_filter(&command, look->types, look->count, look->from, !look->paged);
  if (look->paged)
    append_place(&command, look);
  if (greatest) {
    BSON_APPEND_DOCUMENT_BEGIN(&command, "sort", &sort);
    BSON_APPEND_INT32(&sort, "_id", -1);
    bson_append_document_end(&command, &sort);
  }
  mongo_append_read_concern(look->mongo, &command, look->linearizable ? "linearizable" : "snapshot", false);
  enum outcome outcome = find_ids(look->mongo, "looking at the queue", &command, limit, !look->linearizable, &reply, &documents, error);
  for (; outcome == OUTCOME_YES && bson_iter_next(&documents); seen++)
    look_judge(look, &documents);
  look->more = seen == limit || (seen > 1 && reply.len >= LOOK_BYTES_MANY);
  bson_destroy(&reply);
  return outcome;
}

/*
 * To the type's end, or to a message; a page begins with the last document of the one before. An array has no place of its own in the
 * index, and is never taken: it is left out.
 */
static enum outcome look_through(struct look *look, const char *const *type, struct error *error)
{
  enum outcome outcome;
  look->types = type;
  look->count = 1;
  look->paged = true;
  bson_init(&look->place);
  do {
    outcome = look_ask(look, LOOK_SOME, false, error);
  } while (outcome == OUTCOME_YES && !look->found && look->more);
  bson_destroy(&look->place);
  return outcome;
}

/* One document is enough, and behind one that cannot be taken a thousand; if none of these can be, all of them. */
enum outcome queue_poll(struct lockstore *store, const char *const *types, size_t count, bool linearizable, struct queue_mark *mark,
                        bool tail, struct error *error)
{
  bool from_mark = tail && mark->set;
  const bson_oid_t from = from_mark ? mark->id : (bson_oid_t){{0}};
  struct look look = {.mongo = lockstore_mongo(store),
                      .types = types,
                      .count = count,
                      .linearizable = linearizable,
                      .from = from_mark ? &from : NULL,
                      .mark = mark};
  int named_count = mark != NULL ? mark->named_count : 0;
  error->text[0] = 0;
  /* The greatest, for the mark; and what a holder is draining meanwhile is deleted from the other end. */
  enum outcome outcome = look_ask(&look, 1, mark != NULL && !from_mark, error);
  if (outcome == OUTCOME_YES && look.any && !look.found)
    outcome = look_ask(&look, LOOK_SOME, false, error);
  for (size_t i = 0; i < count && outcome == OUTCOME_YES && !look.found && look.any && (i > 0 || look.more); i++)
    outcome = look_through(&look, &types[i], error);
  if (outcome == OUTCOME_YES) {
    *error = look.named;
    return look.found ? OUTCOME_YES : OUTCOME_NO;
  }
  if (mark != NULL)
    mark->named_count = named_count; /* the text is lost: it is named again */
  return outcome;
}

/* ---- deleting ---- */

/* {delete: "messages", deletes: [{q: filter, limit: 0, hint}]}; the filter is destroyed. */
static void append_delete(bson_t *command, bson_t *filter)
{
  bson_t deletes, entry;
  BSON_APPEND_UTF8(command, "delete", "messages");
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "deletes", &deletes);
  BSON_APPEND_DOCUMENT_BEGIN(&deletes, "0", &entry);
  BSON_APPEND_DOCUMENT(&entry, "q", filter);
  BSON_APPEND_INT32(&entry, "limit", 0);
  append_hint(&entry);
  bson_append_document_end(&deletes, &entry);
  bson_append_array_end(command, &deletes);
  bson_destroy(filter);
}

/* For the log: one that a delete has named and not removed. */
static void name_left(const bson_iter_t *found, struct error *error)
{
  const uint8_t *document = NULL;
  uint32_t bytes = 0;
  struct element id = {0};
  if (BSON_ITER_HOLDS_DOCUMENT(found))
    bson_iter_document(found, &bytes, &document);
  (void)(document != NULL && element_find(document, bytes, "_id", &id));
  error_set(error, "deleting the message with _id %s: MongoDB removes nothing, and the message is in the queue", message_id_show(&id).text);
}

static void ids_filter(bson_t *filter, const char *type, const bson_t *ids)
{
  bson_t id;
  BSON_APPEND_UTF8(filter, "type", type);
  BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &id);
  BSON_APPEND_ARRAY(&id, "$in", ids);
  bson_append_document_end(filter, &id);
}

enum outcome queue_delete(struct lockstore *store, const char *type, const bson_t *ids, int64_t *removed, struct error *error)
{
  bson_t command = BSON_INITIALIZER, filter = BSON_INITIALIZER, reply;
  int code = 0;
  ids_filter(&filter, type, ids);
  append_delete(&command, &filter);
  mongo_append_write_concern(&command);
  enum outcome outcome = mongo_command(lockstore_mongo(store), "deleting messages", &command, &reply, &code, error);
  explain(code, error);
  *removed = 0;
  if (outcome == OUTCOME_YES && !mongo_reply_count(&reply, "deleting messages", removed, error))
    outcome = OUTCOME_UNKNOWN;
  bson_destroy(&reply);
  bson_destroy(&command);
  return outcome == OUTCOME_YES ? OUTCOME_YES : OUTCOME_UNKNOWN;
}

enum outcome queue_find_left(struct lockstore *store, const char *type, const bson_t *ids, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t command = BSON_INITIALIZER, filter = BSON_INITIALIZER, reply;
  bson_iter_t documents;
  ids_filter(&filter, type, ids);
  BSON_APPEND_UTF8(&command, "find", "messages");
  BSON_APPEND_DOCUMENT(&command, "filter", &filter);
  mongo_append_read_concern(mongo, &command, "snapshot", true);
  enum outcome outcome = find_ids(mongo, "looking for deleted messages", &command, 1, true, &reply, &documents, error);
  if (outcome == OUTCOME_YES && bson_iter_next(&documents))
    name_left(&documents, error);
  else if (outcome == OUTCOME_YES)
    outcome = OUTCOME_NO;
  bson_destroy(&reply);
  bson_destroy(&filter);
  return outcome;
}

void queue_clear_way(struct lockstore *store)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct error ignored;
  if (mongo_is_replica_set(mongo) && mongo_end_left_transactions(mongo, &ignored) != OUTCOME_YES)
    return;
}

struct range_deleter {
  struct mongo_transactor *transactor;
};

struct range_deleter *range_deleter_new(struct lockstore *store)
{
  struct range_deleter *deleter = calloc(1, sizeof *deleter);
  if (deleter == NULL || (deleter->transactor = mongo_transactor_new(lockstore_mongo(store))) != NULL)
    return deleter;
  free(deleter);
  return NULL;
}

void range_deleter_free(struct range_deleter *deleter)
{
  if (deleter != NULL)
    mongo_transactor_free(deleter->transactor);
  free(deleter);
}

enum outcome queue_delete_range(struct range_deleter *deleter, const char *type, const struct work_item *item, struct error *error)
{
  bson_t command = BSON_INITIALIZER, filter = BSON_INITIALIZER, range = BSON_INITIALIZER;
  struct element first, last;
  enum outcome outcome = OUTCOME_NO;
  bool usable = work_item_range(item, &first, &last) && first.bytes + last.bytes <= WORK_ITEM_IDS_BYTES_MAX &&
                message_id_append(&range, "$gte", &first) && message_id_append(&range, "$lte", &last);
  append_type(&filter, &type, 1);
  BSON_APPEND_DOCUMENT(&filter, "_id", &range);
  append_delete(&command, &filter);
  if (usable)
    outcome = mongo_transaction(deleter->transactor, "deleting messages", &command, item->read_at, item->messages, error);
  bson_destroy(&range);
  bson_destroy(&command);
  return outcome;
}

/* ---- a pass ---- */

struct queue_reader *queue_reader_new(struct lockstore *store)
{
  struct queue_reader *reader = calloc(1, sizeof *reader);
  if (reader == NULL)
    return NULL;
  reader->mongo = lockstore_mongo(store);
  ask_init(&reader->ask);
  reader->link = mongo_link_new(reader->mongo);
  if (reader->link != NULL)
    return reader;
  free(reader);
  return NULL;
}

void queue_reader_free(struct queue_reader *reader)
{
  if (reader != NULL)
    mongo_link_free(reader->link);
  free(reader);
}

void queue_reader_drop(struct queue_reader *reader)
{
  mongo_link_drop(reader->link);
}

void queue_reader_take_up(struct queue_reader *reader)
{
  mongo_link_take_up(reader->link);
}

/* A reply did not come. */
static void pass_ask_less(struct queue_pass *pass)
{
  const struct mongo_link *link = pass->reader->link;
  if (mongo_link_has_asked(link) && !mongo_link_is_dropped(link))
    ask_less(&pass->reader->ask, pass->caps.messages);
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
  pass->caps = (struct work_item_caps){.messages = batch_messages, .bytes = batch_bytes};
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
  explain(code, error);
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
  if (mongo_link_is_dropped(pass->reader->link)) {
    error_set(error, "reading the queue: the reply is not wanted any more");
    return OUTCOME_UNKNOWN;
  }
  pass->client = mongo_link_client(pass->reader->link, "reading the queue", error);
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
    append_filter(&command, &type, 1, NULL, true);
    BSON_APPEND_DOCUMENT_BEGIN(&command, "sort", &sort);
    BSON_APPEND_INT32(&sort, "_id", 1);
    bson_append_document_end(&command, &sort);
    append_hint(&command);
    BSON_APPEND_INT64(&command, "batchSize", ask_count(&pass->reader->ask, pass->caps.messages));
    mongo_append_read_concern(pass->mongo, &command, "snapshot", true);
    mongo_link_waits(pass->reader->link, true);
    outcome = pass_command(pass, &command, error);
    if (outcome == OUTCOME_YES)
      pass->read_at = reply_read_at(&pass->reply);
    if (outcome == OUTCOME_YES && !pass->has_next && pass->read_at == 0 && mongo_is_replica_set(pass->mongo)) {
      error_set(error, no_snapshot);
      outcome = OUTCOME_UNKNOWN;
    }
  }
  bson_destroy(&command);
  return outcome;
}

static enum outcome pass_more(struct queue_pass *pass, struct error *error)
{
  bson_t command = BSON_INITIALIZER;
  mongo_link_waits(pass->reader->link, false);
  BSON_APPEND_INT64(&command, "getMore", pass->cursor);
  BSON_APPEND_UTF8(&command, "collection", "messages");
  BSON_APPEND_INT64(&command, "batchSize", ask_count(&pass->reader->ask, pass->caps.messages));
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
    bool named = name_refused(pass->mark, &id, flaw, error);
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
      error_set(error, "reading the queue: no memory for a batch of %u message%s", item->messages, plural(item->messages));
      return OUTCOME_UNKNOWN;
    }
    if (put != ITEM_PUT)
      break;
    mark_set(pass->mark, &id);
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
  pass->failed = outcome == OUTCOME_UNKNOWN; /* the next pass begins with a new connection, to whoever is the primary then */
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
    mongo_link_close(pass->reader->link);
  free(pass);
}
