#include "bson_array.h"
#include "lockstore/mongo.h"
#include "type_text.h"
#include "worker/queue.h"
#include "worker/queue_private.h"

/*
 * A type's own collection: its documents need no `type`. It is read in order of `_id`, by the index or the order that each collection has.
 * One that has another `type` is none of its messages, and is named.
 */

void queue_append_part(bson_t *filter, const char *type, enum queue_source source)
{
  bson_t either, one, test;
  if (source == SOURCE_SHARED) {
    queue_append_type(filter, &type, 1);
    return;
  }
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(filter, "$or", &either);
  BSON_APPEND_DOCUMENT_BEGIN(&either, "0", &one);
  queue_append_type(&one, &type, 1);
  bson_append_document_end(&either, &one);
  BSON_APPEND_DOCUMENT_BEGIN(&either, "1", &one);
  BSON_APPEND_DOCUMENT_BEGIN(&one, "type", &test);
  BSON_APPEND_BOOL(&test, "$exists", false);
  bson_append_document_end(&one, &test);
  bson_append_document_end(&either, &one);
  bson_append_array_end(filter, &either);
}

void queue_append_part_hint(bson_t *command, enum queue_source source)
{
  bson_t hint;
  if (source == SOURCE_SHARED) {
    queue_append_hint(command);
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(command, "hint", &hint);
  BSON_APPEND_INT32(&hint, "_id", 1);
  bson_append_document_end(command, &hint);
}

void queue_append_read_at(struct mongo *mongo, bson_t *command, uint64_t read_at)
{
  if (mongo_is_replica_set(mongo))
    mongo_append_read_at(command, read_at);
  else
    mongo_append_read_concern(mongo, command, "local", false);
}

const char *queue_type_flaw(const uint8_t *document, uint32_t bytes, const char *type)
{
  struct element element;
  size_t length = strlen(type);
  if (!element_find(document, bytes, "type", &element))
    return NULL;
  bool same = type_is_text(element.type) && element.bytes == 4 + length + 1 && memcmp(element.value + 4, type, length) == 0;
  return same ? NULL : "is not that of the collection";
}

/* ---- polls ---- */

struct own_look {
  struct mongo *mongo;
  const char *type;
  uint64_t read_at;       /* 0: as it is */
  const bson_oid_t *from; /* no smaller `_id`; NULL: all */
  struct queue_sight sight;
  bool more;   /* perhaps there are more than were looked at */
  bool passed; /* only the type's: what else there is, was seen */
  int64_t skip;
  int seen; /* by the last request */
};

static void append_look(bson_t *command, const struct own_look *look, bool greatest)
{
  bson_t filter, id, sort;
  BSON_APPEND_UTF8(command, "find", queue_name_of(look->type, SOURCE_OWN).text);
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  if (look->passed)
    queue_append_part(&filter, look->type, SOURCE_OWN);
  if (look->from != NULL) {
    BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
    BSON_APPEND_OID(&id, "$gte", look->from);
    bson_append_document_end(&filter, &id);
  }
  bson_append_document_end(command, &filter);
  BSON_APPEND_DOCUMENT_BEGIN(command, "sort", &sort);
  BSON_APPEND_INT32(&sort, "_id", greatest ? -1 : 1);
  bson_append_document_end(command, &sort);
  if (look->skip > 0)
    BSON_APPEND_INT64(command, "skip", look->skip);
}

static enum outcome look_ask(struct own_look *look, int32_t limit, bool greatest, struct error *error)
{
  const struct queue_find find = {
      .doing = "looking at the queue", .type = look->type, .source = SOURCE_OWN, .limit = limit, .snapshot = true};
  bson_t command = BSON_INITIALIZER, reply;
  bson_iter_t documents;
  struct element id;
  int seen = 0;
  append_look(&command, look, greatest);
  if (look->read_at != 0)
    mongo_append_read_at(&command, look->read_at);
  else
    mongo_append_read_concern(look->mongo, &command, "snapshot", false);
  enum outcome outcome = queue_find_ids(look->mongo, &find, &command, &reply, &documents, error);
  for (; outcome == OUTCOME_YES && bson_iter_next(&documents); seen++)
    (void)queue_sight_add(&look->sight, &documents, look->type, &id);
  look->more = seen == limit || (seen > 0 && reply.len >= QUEUE_LOOK_BYTES_MANY);
  look->seen = seen;
  bson_destroy(&reply);
  return outcome;
}

/* One document is enough, and behind one that cannot be taken a thousand, and then all of the type's. */
static enum outcome look_run(struct own_look *look, bool greatest, struct error *error)
{
  enum outcome outcome = look_ask(look, 1, greatest, error);
  if (outcome == OUTCOME_YES && look->sight.any && !look->sight.found)
    outcome = look_ask(look, QUEUE_LOOK_SOME, false, error);
  for (look->passed = true; outcome == OUTCOME_YES && look->sight.any && !look->sight.found && look->more; look->skip += look->seen)
    outcome = look_ask(look, QUEUE_LOOK_SOME, false, error);
  return outcome == OUTCOME_YES && !look->sight.found ? OUTCOME_NO : outcome;
}

enum outcome queue_poll_own(struct lockstore *store, const char *type, struct queue_mark *mark, bool tail, struct error *error)
{
  bool from_mark = tail && mark != NULL && mark->set;
  const bson_oid_t from = from_mark ? mark->id : (bson_oid_t){{0}};
  struct own_look look = {.mongo = lockstore_mongo(store), .type = type, .from = from_mark ? &from : NULL, .sight.mark = mark};
  int named_count = mark != NULL ? mark->named_count : 0;
  enum outcome outcome = look_run(&look, mark != NULL && !from_mark, error);
  if (outcome == OUTCOME_UNKNOWN && mark != NULL)
    mark->named_count = named_count; /* the text is lost: it is named again */
  else if (outcome != OUTCOME_UNKNOWN)
    *error = look.sight.named;
  return outcome;
}

/* ---- the last poll ---- */

/* NO: it is there, so it was empty. Without snapshots an empty answer does not say so. */
static enum outcome missing_look(struct lockstore *store, const char *type, struct error *error)
{
  enum outcome outcome = lockstore_own_check(store, type, error);
  if (outcome == OUTCOME_YES)
    return OUTCOME_NO;
  if (outcome != OUTCOME_NO)
    return outcome;
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  error_set(error, "reading the queue: the collection %s is missing", name.text);
  return OUTCOME_UNKNOWN;
}

enum outcome queue_poll_both(struct lockstore *store, const char *const *types, size_t count, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  uint64_t read_at = 0;
  enum outcome outcome = queue_poll_at(store, types, count, &read_at, error);
  if (outcome == OUTCOME_NO && read_at == 0 && mongo_is_replica_set(mongo)) {
    queue_no_snapshot(&(const struct queue_name){.text = QUEUE_SHARED}, error);
    return OUTCOME_UNKNOWN;
  }
  for (size_t i = 0; i < count && outcome == OUTCOME_NO; i++) {
    struct own_look look = {.mongo = mongo, .type = types[i], .read_at = read_at};
    outcome = look_run(&look, false, error);
    if (outcome == OUTCOME_NO && !mongo_is_replica_set(mongo))
      outcome = missing_look(store, types[i], error);
  }
  return outcome;
}
