#include "worker/queue.h"
#include "bson_array.h"
#include "lockstore/hasten.h"
#include "lockstore/mongo.h"
#include "worker/queue_private.h"

#include <stdlib.h>

static void append_no_array(bson_t *test)
{
  bson_t no;
  BSON_APPEND_DOCUMENT_BEGIN(test, "$not", &no);
  BSON_APPEND_UTF8(&no, "$type", "array");
  bson_append_document_end(test, &no);
}

/* The type's messages, and never a document whose `type` is an array that holds it: other tools may use those. */
void queue_append_type(bson_t *filter, const char *const *types, size_t count)
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
void queue_append_filter(bson_t *command, const char *const *types, size_t count, const bson_oid_t *from, bool arrays)
{
  bson_t filter, id;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  queue_append_type(&filter, types, count);
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

void queue_append_hint(bson_t *command)
{
  bson_t hint;
  BSON_APPEND_DOCUMENT_BEGIN(command, "hint", &hint);
  BSON_APPEND_INT32(&hint, "type", 1);
  BSON_APPEND_INT32(&hint, "_id", 1);
  bson_append_document_end(command, &hint);
}

/* In a command that is otherwise always the same, a bad value is the hint, for which there is no index. What the server says of it begins
 * with the whole query. */
void queue_explain(int code, struct error *error)
{
  enum { BAD_VALUE = 2 };
  if (code != BAD_VALUE)
    return;
  error_set(error, "MongoDB has not made the index {type: 1, _id: 1} on messages yet");
  error->reason = ERROR_ANSWERED;
}

/* {cursor: {atClusterTime}}, which a snapshot has. */
uint64_t queue_read_at(const bson_t *reply)
{
  bson_iter_t at, time;
  uint32_t seconds = 0, increment = 0;
  if (bson_iter_init(&at, reply) && bson_iter_find_descendant(&at, "cursor.atClusterTime", &time) && BSON_ITER_HOLDS_TIMESTAMP(&time))
    bson_iter_timestamp(&time, &seconds, &increment);
  return (uint64_t)seconds << 32 | increment;
}

/* Of a collection that is missing, dropped or renamed: it reads as empty. */
void queue_no_snapshot(const struct queue_name *collection, struct error *error)
{
  error_set(error, "reading the queue: the server's answer is empty and names no snapshot; is the collection %s missing?",
            collection->text);
}

/* ---- polls ---- */

void queue_describe(struct lockstore *store, struct error *text)
{
  mongo_describe(lockstore_mongo(store), text->text, sizeof text->text);
}

void queue_mark_set(struct queue_mark *mark, const struct element *id)
{
  mark->refused_seen = false;
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
bool queue_name_refused(struct queue_mark *mark, const struct element *id, const char *field, const char *flaw, struct error *error)
{
  uint64_t hash = id_hash(id);
  if (mark == NULL || mark->named_count == QUEUE_NAMED_MAX)
    return false;
  for (int i = 0; i < mark->named_count; i++)
    if (mark->named[i] == hash)
      return false;
  if (mark->named == NULL && (mark->named = calloc(QUEUE_NAMED_MAX, sizeof *mark->named)) == NULL)
    return false;
  mark->named[mark->named_count++] = hash;
  error_set(error, "cannot take the document with _id %s: its %s %s. It stays in the queue, and the messages around it are taken%s",
            message_id_show(id).text, field, flaw, mark->named_count == QUEUE_NAMED_MAX ? "; no more such documents will be named" : "");
  return true;
}

/*
 * A find, of `_id`s alone and one reply. `command` has what it needs beside that, and is destroyed. YES: *documents walks over them inside
 * *reply, which the caller destroys in any case.
 */
enum outcome queue_find_ids(struct mongo *mongo, const struct queue_find *find, bson_t *command, bson_t *reply, bson_iter_t *documents,
                            struct error *error)
{
  const struct queue_name collection = queue_name_of(find->type, find->source);
  bson_t projection;
  struct mongo_batch batch;
  int code = 0;
  queue_append_part_hint(command, find->source);
  BSON_APPEND_DOCUMENT_BEGIN(command, "projection", &projection);
  BSON_APPEND_INT32(&projection, "_id", 1);
  if (find->source == SOURCE_OWN)
    BSON_APPEND_INT32(&projection, "type", 1);
  bson_append_document_end(command, &projection);
  BSON_APPEND_INT32(command, "limit", find->limit);
  BSON_APPEND_INT32(command, "batchSize", find->limit); /* else 101 */
  BSON_APPEND_BOOL(command, "singleBatch", true);
  enum outcome outcome = mongo_command(mongo, find->doing, command, reply, &code, error);
  if (find->source == SOURCE_SHARED)
    queue_explain(code, error);
  bson_destroy(command);
  if (outcome != OUTCOME_YES)
    return OUTCOME_UNKNOWN;
  mongo_reply_batch(reply, &batch);
  bson_iter_t first = *documents = batch.documents;
  if (!find->snapshot || !mongo_is_replica_set(mongo) || queue_read_at(reply) != 0 || bson_iter_next(&first))
    return OUTCOME_YES;
  queue_no_snapshot(&collection, error);
  return OUTCOME_UNKNOWN;
}

bool queue_sight_add(struct queue_sight *sight, const bson_iter_t *found, const char *own_type, struct element *id)
{
  const uint8_t *document = NULL;
  const char *field = "_id";
  uint32_t bytes = 0;
  if (!BSON_ITER_HOLDS_DOCUMENT(found))
    return false;
  bson_iter_document(found, &bytes, &document);
  const char *flaw = message_id_find(document, bytes, id);
  if (flaw == NULL && own_type != NULL) {
    flaw = queue_type_flaw(document, bytes, own_type);
    field = "type";
  }
  if (flaw == NULL && sight->mark != NULL && !sight->found)
    queue_mark_set(sight->mark, id);
  sight->any = true;
  sight->found = sight->found || flaw == NULL;
  if (flaw != NULL && sight->named.text[0] == 0)
    (void)queue_name_refused(sight->mark, id, field, flaw, &sight->named);
  return true;
}

struct look { /* for messages, by their `_id`s alone */
  struct mongo *mongo;
  const char *const *types;
  size_t count;
  bool linearizable;
  bool pinned;            /* all requests see the queue at one moment, not before anything that this process has seen */
  uint64_t read_at;       /* that moment, after the first answer */
  const bson_oid_t *from; /* no smaller `_id`; NULL: all */
  struct queue_sight sight;
  bool more;    /* perhaps there are more than were looked at */
  bool paged;   /* the type's, page by page */
  bson_t place; /* {type, _id}: where the next page begins; empty: at the beginning */
};

static void look_judge(struct look *look, const bson_iter_t *found)
{
  struct element id;
  if (!queue_sight_add(&look->sight, found, NULL, &id) || !look->paged)
    return;
  bson_reinit(&look->place);
  BSON_APPEND_UTF8(&look->place, "type", look->types[0]);
  if (!message_id_append(&look->place, "_id", &id))
    look->sight.found = true; /* no memory to look on: a pass will */
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
  struct hasten hasten;
  const struct queue_find find = {
      .doing = "looking at the queue", .source = SOURCE_SHARED, .limit = limit, .snapshot = !look->linearizable};
  int seen = 0;
  /*
   * Forwards the server would go over what was deleted twice: to the end of the index, and as nothing is there back to its beginning (seen
   * on 6.0.5, in its count of entries skipped).
   */
  bool backwards = look->linearizable && !look->paged;
  BSON_APPEND_UTF8(&command, "find", "messages");
  queue_append_filter(&command, look->types, look->count, look->from, !look->paged);
  if (look->paged)
    append_place(&command, look);
  if (greatest || backwards) {
    BSON_APPEND_DOCUMENT_BEGIN(&command, "sort", &sort);
    if (backwards)
      BSON_APPEND_INT32(&sort, "type", -1);
    BSON_APPEND_INT32(&sort, "_id", -1);
    bson_append_document_end(&command, &sort);
  }
  if (look->read_at != 0)
    mongo_append_read_at(&command, look->read_at);
  else
    mongo_append_read_concern(look->mongo, &command, look->linearizable ? "linearizable" : "snapshot", look->pinned);
  hasten_begin(&hasten, look->mongo, look->linearizable);
  enum outcome outcome = queue_find_ids(look->mongo, &find, &command, &reply, &documents, error);
  hasten_end(&hasten);
  if (outcome == OUTCOME_YES && look->pinned && look->read_at == 0)
    look->read_at = queue_read_at(&reply);
  for (; outcome == OUTCOME_YES && bson_iter_next(&documents); seen++)
    look_judge(look, &documents);
  look->more = seen == limit || (seen > 1 && reply.len >= QUEUE_LOOK_BYTES_MANY);
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
    outcome = look_ask(look, QUEUE_LOOK_SOME, false, error);
  } while (outcome == OUTCOME_YES && !look->sight.found && look->more);
  bson_destroy(&look->place);
  return outcome;
}

/* One document is enough, and behind one that cannot be taken a thousand; if none of these can be, all of them. */
static enum outcome look_run(struct look *look, bool greatest, struct error *error)
{
  const char *const *types = look->types;
  size_t count = look->count;
  error->text[0] = 0;
  enum outcome outcome = look_ask(look, 1, greatest, error);
  if (outcome == OUTCOME_YES && look->sight.any && !look->sight.found)
    outcome = look_ask(look, QUEUE_LOOK_SOME, false, error);
  for (size_t i = 0; i < count && outcome == OUTCOME_YES && !look->sight.found && look->sight.any && (i > 0 || look->more); i++)
    outcome = look_through(look, &types[i], error);
  if (outcome != OUTCOME_YES)
    return outcome;
  *error = look->sight.named;
  return look->sight.found ? OUTCOME_YES : OUTCOME_NO;
}

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
                      .sight.mark = mark};
  int named_count = mark != NULL ? mark->named_count : 0;
  /* The greatest, for the mark; and what a holder is draining meanwhile is deleted from the other end. */
  enum outcome outcome = look_run(&look, mark != NULL && !from_mark, error);
  if (outcome != OUTCOME_YES && outcome != OUTCOME_NO && mark != NULL)
    mark->named_count = named_count; /* the text is lost: it is named again */
  return outcome;
}

enum outcome queue_poll_at(struct lockstore *store, const char *const *types, size_t count, uint64_t *read_at, struct error *error)
{
  struct look look = {.mongo = lockstore_mongo(store), .types = types, .count = count, .pinned = true};
  enum outcome outcome = look_run(&look, false, error);
  *read_at = look.read_at;
  return outcome;
}
