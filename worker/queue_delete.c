#include "bson_array.h"
#include "lockstore/mongo.h"
#include "lockstore/transaction.h"
#include "worker/queue.h"
#include "worker/queue_private.h"

/* A delete command in the making: {delete: collection, deletes: [{q: filter, limit: 0, hint}, …]}. */
struct deletes {
  bson_t command, list;
  enum queue_source source;
  int count;
};

static void deletes_begin(struct deletes *deletes, const struct queue_part *part)
{
  bson_init(&deletes->command);
  deletes->source = part->source;
  deletes->count = 0;
  BSON_APPEND_UTF8(&deletes->command, "delete", queue_name_of(part->type, part->source).text);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&deletes->command, "deletes", &deletes->list);
}

static void deletes_add(struct deletes *deletes, const bson_t *filter)
{
  char key[16];
  bson_t entry;
  snprintf(key, sizeof key, "%d", deletes->count++);
  BSON_APPEND_DOCUMENT_BEGIN(&deletes->list, key, &entry);
  BSON_APPEND_DOCUMENT(&entry, "q", filter);
  BSON_APPEND_INT32(&entry, "limit", 0);
  queue_append_part_hint(&entry, deletes->source);
  bson_append_document_end(&deletes->list, &entry);
}

static void deletes_end(struct deletes *deletes)
{
  bson_append_array_end(&deletes->command, &deletes->list);
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

/* A type whose order at the server is known here, one for all integers; BSON_TYPE_EOD: another type. */
static int kind_of(const struct element *id)
{
  if (id->type == BSON_TYPE_INT32)
    return BSON_TYPE_INT64;
  return id->type == BSON_TYPE_OID || id->type == BSON_TYPE_INT64 || id->type == BSON_TYPE_UTF8 ? (int)id->type : BSON_TYPE_EOD;
}

static int64_t integer_of(const struct element *id)
{
  int64_t number = 0;
  int32_t small = 0;
  if (id->type == BSON_TYPE_INT64) {
    memcpy(&number, id->value, sizeof number);
    return (int64_t)BSON_UINT64_FROM_LE((uint64_t)number);
  }
  memcpy(&small, id->value, sizeof small);
  return (int32_t)BSON_UINT32_FROM_LE((uint32_t)small);
}

/* Of one kind. A string is its length, its bytes, and a NUL. */
static bool comes_before(const struct element *left, const struct element *right)
{
  enum { LENGTH_BYTES = 4 };
  if (kind_of(left) == BSON_TYPE_INT64)
    return integer_of(left) < integer_of(right);
  size_t front = left->type == BSON_TYPE_UTF8 ? LENGTH_BYTES : 0;
  size_t shorter = left->bytes < right->bytes ? left->bytes : right->bytes;
  int order = memcmp(left->value + front, right->value + front, shorter - front);
  return order < 0 || (order == 0 && left->bytes < right->bytes);
}

/* False: they are not all of one kind whose order is known, or there are none. */
static bool ids_bounds(const bson_t *ids, struct element *least, struct element *greatest)
{
  struct elements elements;
  struct element id;
  bool any = false;
  elements_init(&elements, bson_get_data(ids), ids->len);
  for (; elements_next(&elements, &id); any = true) {
    if (kind_of(&id) == BSON_TYPE_EOD || (any && kind_of(&id) != kind_of(least)))
      return false;
    if (!any || comes_before(&id, least))
      *least = id;
    if (!any || comes_before(greatest, &id))
      *greatest = id;
  }
  return any;
}

/*
 * In `messages` the index has the type first. In an own collection `$in` alone goes over all of a clustered one, so the bounds go with it;
 * they are the server's order only among values of one kind.
 */
static void ids_filter(bson_t *filter, const struct queue_part *part, const bson_t *ids)
{
  bson_t id = BSON_INITIALIZER;
  struct element least, greatest;
  if (part->source == SOURCE_SHARED)
    BSON_APPEND_UTF8(filter, "type", part->type);
  else
    queue_append_part(filter, part->type, part->source);
  BSON_APPEND_ARRAY(&id, "$in", ids);
  if (part->source == SOURCE_OWN && ids_bounds(ids, &least, &greatest) && message_id_append(&id, "$gte", &least))
    (void)message_id_append(&id, "$lte", &greatest); /* without memory for it: slower */
  BSON_APPEND_DOCUMENT(filter, "_id", &id);
  bson_destroy(&id);
}

/* Destroys the command. */
static enum outcome delete_send(struct lockstore *store, struct deletes *deletes, int64_t *removed, struct error *error)
{
  bson_t reply;
  int code = 0;
  int64_t count = 0;
  deletes_end(deletes);
  mongo_append_write_concern(&deletes->command);
  enum outcome outcome = mongo_command(lockstore_mongo(store), "deleting messages", &deletes->command, &reply, &code, error);
  if (deletes->source == SOURCE_SHARED)
    queue_explain(code, error);
  if (outcome == OUTCOME_YES && !mongo_reply_count(&reply, "deleting messages", &count, error))
    outcome = OUTCOME_UNKNOWN;
  *removed += count;
  bson_destroy(&reply);
  bson_destroy(&deletes->command);
  return outcome == OUTCOME_YES ? OUTCOME_YES : OUTCOME_UNKNOWN;
}

/* Each by an equality of its own: kinds of `_id`s whose bounds are not known here. */
static enum outcome delete_each(struct lockstore *store, const struct queue_part *part, const bson_t *ids, int64_t *removed,
                                struct error *error)
{
  enum { TOGETHER = 100, TOGETHER_BYTES = 2 * 1024 * 1024 }; /* each is a write of its own for the server */
  struct elements elements;
  struct element id;
  struct deletes deletes;
  bool open = false;
  enum outcome outcome = OUTCOME_YES;
  elements_init(&elements, bson_get_data(ids), ids->len);
  while (outcome == OUTCOME_YES && elements_next(&elements, &id)) {
    bson_t filter = BSON_INITIALIZER;
    queue_append_part(&filter, part->type, part->source);
    if (!open)
      deletes_begin(&deletes, part);
    open = true;
    if (message_id_append(&filter, "_id", &id))
      deletes_add(&deletes, &filter);
    bson_destroy(&filter);
    if (deletes.count < TOGETHER && deletes.list.len < TOGETHER_BYTES)
      continue;
    outcome = delete_send(store, &deletes, removed, error);
    open = false;
  }
  return open ? delete_send(store, &deletes, removed, error) : outcome;
}

enum outcome queue_delete(struct lockstore *store, const struct queue_part *part, const bson_t *ids, int64_t *removed, struct error *error)
{
  struct deletes deletes;
  struct element least, greatest;
  bson_t filter = BSON_INITIALIZER;
  *removed = 0;
  if (part->source == SOURCE_OWN && !ids_bounds(ids, &least, &greatest))
    return delete_each(store, part, ids, removed, error);
  ids_filter(&filter, part, ids);
  deletes_begin(&deletes, part);
  deletes_add(&deletes, &filter);
  bson_destroy(&filter);
  return delete_send(store, &deletes, removed, error);
}

static enum outcome find_left(struct lockstore *store, const struct queue_part *part, const bson_t *filter, struct error *error)
{
  const struct queue_find find = {
      .doing = "looking for deleted messages", .type = part->type, .source = part->source, .limit = 1, .snapshot = true};
  struct mongo *mongo = lockstore_mongo(store);
  bson_t command = BSON_INITIALIZER, reply;
  bson_iter_t documents;
  BSON_APPEND_UTF8(&command, "find", queue_name_of(part->type, part->source).text);
  BSON_APPEND_DOCUMENT(&command, "filter", filter);
  mongo_append_read_concern(mongo, &command, "snapshot", true);
  enum outcome outcome = queue_find_ids(mongo, &find, &command, &reply, &documents, error);
  if (outcome == OUTCOME_YES && bson_iter_next(&documents))
    name_left(&documents, error);
  else if (outcome == OUTCOME_YES)
    outcome = OUTCOME_NO;
  bson_destroy(&reply);
  return outcome;
}

enum outcome queue_find_left(struct lockstore *store, const struct queue_part *part, const bson_t *ids, struct error *error)
{
  struct elements elements;
  struct element id, least, greatest;
  bool each = part->source == SOURCE_OWN && !ids_bounds(ids, &least, &greatest);
  enum outcome outcome = OUTCOME_NO;
  elements_init(&elements, bson_get_data(ids), ids->len);
  do {
    bson_t filter = BSON_INITIALIZER;
    if (each && !elements_next(&elements, &id))
      return outcome;
    if (each) {
      queue_append_part(&filter, part->type, part->source);
      (void)message_id_append(&filter, "_id", &id);
    } else {
      ids_filter(&filter, part, ids);
    }
    outcome = find_left(store, part, &filter, error);
    bson_destroy(&filter);
  } while (each && outcome == OUTCOME_NO);
  return outcome;
}

void queue_clear_way(struct lockstore *store)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct error ignored;
  if (mongo_is_replica_set(mongo) && mongo_end_left_transactions(mongo, &ignored) != OUTCOME_YES)
    return;
}

enum outcome queue_delete_range(struct lockstore *store, const char *type, const struct work_item *item, struct error *error)
{
  const struct queue_part part = {.type = type, .source = item->source};
  bson_t filter = BSON_INITIALIZER, range = BSON_INITIALIZER;
  struct deletes deletes;
  struct element first, last;
  enum outcome outcome = OUTCOME_NO;
  bool usable = work_item_range(item, &first, &last) && first.bytes + last.bytes <= WORK_ITEM_IDS_BYTES_MAX &&
                message_id_append(&range, "$gte", &first) && message_id_append(&range, "$lte", &last);
  queue_append_part(&filter, type, item->source);
  BSON_APPEND_DOCUMENT(&filter, "_id", &range);
  deletes_begin(&deletes, &part);
  deletes_add(&deletes, &filter);
  deletes_end(&deletes);
  if (usable)
    outcome = mongo_transaction(lockstore_mongo(store), "deleting messages", &deletes.command, item->read_at, item->documents, error);
  bson_destroy(&range);
  bson_destroy(&filter);
  bson_destroy(&deletes.command);
  return outcome;
}
