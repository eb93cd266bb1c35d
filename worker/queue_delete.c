#include "bson_array.h"
#include "lockstore/mongo.h"
#include "lockstore/transaction.h"
#include "worker/queue.h"
#include "worker/queue_private.h"

#include <stdlib.h>

/* {delete: "messages", deletes: [{q: filter, limit: 0, hint}]}; the filter is destroyed. */
static void append_delete(bson_t *command, bson_t *filter)
{
  bson_t deletes, entry;
  BSON_APPEND_UTF8(command, "delete", "messages");
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "deletes", &deletes);
  BSON_APPEND_DOCUMENT_BEGIN(&deletes, "0", &entry);
  BSON_APPEND_DOCUMENT(&entry, "q", filter);
  BSON_APPEND_INT32(&entry, "limit", 0);
  queue_append_hint(&entry);
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
  queue_explain(code, error);
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
  enum outcome outcome = queue_find_ids(mongo, "looking for deleted messages", &command, 1, true, &reply, &documents, error);
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
  queue_append_type(&filter, &type, 1);
  BSON_APPEND_DOCUMENT(&filter, "_id", &range);
  append_delete(&command, &filter);
  if (usable)
    outcome = mongo_transaction(deleter->transactor, "deleting messages", &command, item->read_at, item->documents, error);
  bson_destroy(&range);
  bson_destroy(&command);
  return outcome;
}
