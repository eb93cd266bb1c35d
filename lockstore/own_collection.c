#include "lockstore/own_collection.h"
#include "bson_array.h"
#include "lockstore/collections.h"
#include "lockstore/document.h"
#include "lockstore/queue_name.h"
#include "lockstore/store.h"

#include <stdlib.h>

bool own_collection_name_check(const char *type, struct error *error)
{
  size_t length = strlen(type);
  if (strcmp(type, "files") == 0 || strcmp(type, "chunks") == 0) {
    error_set(error, "%s can have no own collection: messages.%s is what GridFS uses where a bucket is called messages", type, type);
    return false;
  }
  if (strstr(type, "..") == NULL && type[length - 1] != '.')
    return true;
  error_set(error,
            "%s can have no own collection: drivers do not take a collection's name with two dots side by side, or with a dot at its end",
            type);
  return false;
}

/* ---- looking ---- */

/* One that pawl did not make: the index on _id alone is there without anybody's wish. */
static bool index_is_foreign(const bson_t *index)
{
  bson_t key;
  bson_iter_t at;
  return !document_document(index, "key", &key) || !bson_iter_init(&at, &key) || !bson_iter_next(&at) ||
         strcmp(bson_iter_key(&at), "_id") != 0 || bson_iter_next(&at);
}

static enum outcome indexes_look(struct mongo *mongo, const char *name, struct error *error)
{
  bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(name), "cursor", "{", "batchSize", BCON_INT32(1000), "}"), reply, index;
  char doing[COLLECTION_DOING_SIZE];
  struct mongo_batch batch;
  int code;
  snprintf(doing, sizeof doing, "looking at the indexes of %s", name);
  enum outcome outcome = collection_command(mongo, doing, command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    (void)mongo_reply_batch(&reply, &batch);
  while (outcome == OUTCOME_YES && mongo_batch_next(&batch, &index)) {
    if (!index_is_foreign(&index))
      continue;
    error_set(error,
              "the collection %s.%s has the index %s: pawl needs none there besides that on _id; if it is not somebody else's (GridFS has "
              "such collections), drop the index",
              mongo_db(mongo), name, document_show(&index, "name").text);
    outcome = OUTCOME_REFUSED;
  }
  bson_destroy(&reply);
  return outcome;
}

static bool is_closed(const bson_t *options)
{
  bson_iter_t at, text;
  return bson_iter_init(&at, options) && bson_iter_find_descendant(&at, "validator.$expr.$eq.0", &text) && BSON_ITER_HOLDS_UTF8(&text) &&
         strcmp(bson_iter_utf8(&text, NULL), OWN_COLLECTION_CLOSED) == 0;
}

/* An empty one is no validator. */
static bool is_without(const bson_t *options)
{
  bson_t validator;
  return document_document(options, "validator", &validator) && bson_empty(&validator);
}

enum outcome own_collection_look(struct lockstore *store, const char *type, struct own_collection *collection, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  bson_t options;
  *collection = (struct own_collection){.closed = false};
  enum outcome outcome = collection_look(mongo, name.text, &options, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  collection->clustered = document_has(&options, "clusteredIndex");
  collection->closed = is_closed(&options);
  collection->validated = document_has(&options, "validator") && !collection->closed && !is_without(&options);
  bson_destroy(&options);
  return indexes_look(mongo, name.text, error);
}

static void note_document(void *context, const bson_t *document)
{
  (void)document;
  *(bool *)context = true;
}

enum outcome own_collection_is_empty(struct lockstore *store, const char *type, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  bson_t *command = BCON_NEW("find", BCON_UTF8(name.text), "filter", "{", "}", "projection", "{", "_id", BCON_INT32(1), "}", "limit",
                             BCON_INT32(1), "singleBatch", BCON_BOOL(true));
  bool there = false;
  mongo_append_read_concern(mongo, command, "linearizable", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "looking whether the own collection is empty", command, note_document, &there, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES && there ? OUTCOME_NO : outcome;
}

/* ---- making ---- */

enum outcome own_collection_make(struct lockstore *store, const char *type, struct error *error)
{
  struct own_collection ignored;
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  enum outcome outcome = collection_prepare(lockstore_mongo(store), name.text, true, error);
  if (outcome == OUTCOME_YES)
    outcome = own_collection_look(store, type, &ignored, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  error_set(error, "the collection %s was made, and is gone again", name.text);
  return OUTCOME_UNKNOWN;
}

/* ---- closing ---- */

static enum outcome set_validator(struct lockstore *store, const char *type, const bson_t *validator, struct error *error)
{
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  bson_t *command = BCON_NEW("collMod", BCON_UTF8(name.text), "validator", BCON_DOCUMENT(validator), "validationLevel", BCON_UTF8("strict"),
                             "validationAction", BCON_UTF8("error")),
         reply;
  char doing[COLLECTION_DOING_SIZE];
  int code;
  snprintf(doing, sizeof doing, "changing the validator of %s", name.text);
  mongo_append_write_concern(command);
  mongo_append_max_time(lockstore_mongo(store), command); /* an open transaction may keep it waiting: it must not close it later */
  enum outcome outcome = collection_command(lockstore_mongo(store), doing, command, &reply, &code, error);
  bson_destroy(&reply);
  return outcome;
}

enum outcome own_collection_close(struct lockstore *store, const char *type, struct error *error)
{
  bson_t *validator = BCON_NEW("$expr", "{", "$eq", "[", BCON_UTF8(OWN_COLLECTION_CLOSED), BCON_BOOL(false), "]", "}");
  enum outcome outcome = set_validator(store, type, validator, error);
  bson_destroy(validator);
  return outcome;
}

enum outcome own_collection_open(struct lockstore *store, const char *type, struct error *error)
{
  bson_t none = BSON_INITIALIZER;
  return set_validator(store, type, &none, error);
}

/* ---- all of them ---- */

struct types {
  char (*list)[TYPE_BYTES_MAX + 1];
  size_t count, room;
  bool failed; /* no memory */
};

static void types_add(void *context, const bson_t *document)
{
  struct types *types = context;
  char type[TYPE_BYTES_MAX + 1];
  if (!document_text(document, "_id", type, sizeof type) || !type_name_valid(type))
    return;
  if (types->count == types->room) {
    size_t room = types->room > 0 ? 2 * types->room : 16;
    void *list = realloc(types->list, room * sizeof *types->list);
    types->failed |= list == NULL;
    if (list == NULL)
      return;
    types->list = list;
    types->room = room;
  }
  memcpy(types->list[types->count++], type, sizeof type);
}

enum outcome own_collection_types(struct lockstore *store, char (**list)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct types types = {.count = 0};
  bson_t *command =
      BCON_NEW("find", "ledger", "filter", "{", "needs", "{", "$eq", BCON_UTF8(LEDGER_NEED_OWN), "$ne", BCON_UTF8(LEDGER_NEED_MOVED), "}",
               "}", "sort", "{", "_id", BCON_INT32(1), "}", "projection", "{", "_id", BCON_INT32(1), "}");
  mongo_append_read_concern(mongo, command, "majority", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "asking which types have their own collection", command, types_add, &types, error);
  bson_destroy(command);
  if (outcome == OUTCOME_YES && types.failed) {
    error_set(error, "asking which types have their own collection: no memory");
    outcome = OUTCOME_UNKNOWN;
  }
  if (outcome != OUTCOME_YES)
    free(types.list);
  *list = outcome == OUTCOME_YES ? types.list : NULL;
  *count = outcome == OUTCOME_YES ? types.count : 0;
  return outcome;
}

static int compare_types(const void *a, const void *b)
{
  return strcmp(a, b);
}

/* Marks what is there, and judges it. */
static enum outcome inspect_found(struct mongo *mongo, const bson_t *reply, const struct types *types, bool *there, struct error *error)
{
  struct mongo_batch batch;
  bson_t found;
  char name[QUEUE_NAME_SIZE];
  enum outcome outcome = OUTCOME_YES;
  mongo_reply_batch(reply, &batch);
  if (batch.cursor != 0) {
    error_set(error, "looking for own collections: there are more collections than the server lists at once");
    return OUTCOME_UNKNOWN;
  }
  while (outcome == OUTCOME_YES && mongo_batch_next(&batch, &found)) {
    if (!document_text(&found, "name", name, sizeof name))
      continue;
    char(*type)[TYPE_BYTES_MAX + 1] =
        bsearch(name + strlen(QUEUE_SHARED "."), types->list, types->count, sizeof *types->list, compare_types);
    if (type == NULL)
      continue;
    there[type - types->list] = true;
    outcome = collection_judge(mongo, name, &found, error);
  }
  return outcome;
}

static enum outcome inspect(struct mongo *mongo, const struct types *types, bool *there, struct error *error)
{
  enum { ALL = 1000000 };
  bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", "{", "$regex", BCON_UTF8("^messages\\."), "}", "}",
                             "cursor", "{", "batchSize", BCON_INT32(ALL), "}"),
         reply;
  int code;
  enum outcome outcome = collection_command(mongo, "looking for own collections", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    outcome = inspect_found(mongo, &reply, types, there, error);
  bson_destroy(&reply);
  for (size_t i = 0; i < types->count && outcome == OUTCOME_YES; i++) {
    if (there[i])
      continue;
    error_set(error, "%s has its own collection, as its ledger says, but %s.%s is missing: pawl-setup makes it", types->list[i],
              mongo_db(mongo), queue_name_of(types->list[i], SOURCE_OWN).text);
    outcome = OUTCOME_REFUSED;
  }
  return outcome;
}

enum outcome own_collection_inspect(struct lockstore *store, struct error *error)
{
  struct types types = {.count = 0};
  enum outcome outcome = own_collection_types(store, &types.list, &types.count, error);
  bool *there = calloc(types.count + 1, sizeof *there);
  if (outcome == OUTCOME_YES && there == NULL) {
    error_set(error, "looking for own collections: no memory");
    outcome = OUTCOME_UNKNOWN;
  }
  if (outcome == OUTCOME_YES && types.count > 0)
    outcome = inspect(lockstore_mongo(store), &types, there, error);
  free(there);
  free(types.list);
  return outcome;
}
