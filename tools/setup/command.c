#include "tools/setup/command.h"
#include "bson_array.h"
#include "worker/message_id.h"

#define KEY(key) BCON_BIN(BSON_SUBTYPE_BINARY, key, COPY_KEY_BYTES)

/* An `_id` of these kinds is found by looking at each document of the type, not by the index. */
static bool id_in_index(const struct element *id)
{
  return id->value != NULL && id->type != BSON_TYPE_ARRAY && id->type != BSON_TYPE_UNDEFINED && id->type != BSON_TYPE_DBPOINTER;
}

/* {$eq: [FIELD, {$literal: VALUE}]}, one of several conditions. */
static void append_equal(bson_t *conditions, const char *key, const char *field, const bson_t *literal)
{
  bson_t condition, sides;
  BSON_APPEND_DOCUMENT_BEGIN(conditions, key, &condition);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&condition, "$eq", &sides);
  BSON_APPEND_UTF8(&sides, "0", field);
  BSON_APPEND_DOCUMENT(&sides, "1", literal);
  bson_append_array_end(&condition, &sides);
  bson_append_document_end(conditions, &condition);
}

void command_filter_original(bson_t *filter, const struct original *original, bool whole, int64_t end_ms)
{
  const struct refusal *refusal = &original->refusal;
  bson_t literal = BSON_INITIALIZER, document, id = BSON_INITIALIZER, expression, conditions;
  bson_init(filter);
  if (refusal->from == SOURCE_SHARED && strcmp(refusal->type, REFUSAL_UNTYPED) != 0)
    BSON_APPEND_UTF8(filter, "type", refusal->type);
  if (id_in_index(&refusal->id) && message_id_append(&id, "$eq", &refusal->id))
    BSON_APPEND_DOCUMENT(filter, "_id", &id);
  BSON_APPEND_DOCUMENT_BEGIN(filter, "$expr", &expression);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&expression, "$and", &conditions);
  if (whole && bson_init_static(&document, original->document, original->bytes)) {
    BCON_APPEND(&conditions, "0", "{", "$eq", "[", "{", "$bsonSize", BCON_UTF8("$$ROOT"), "}", BCON_INT64((int64_t)original->bytes), "]",
                "}");
    BSON_APPEND_DOCUMENT(&literal, "$literal", &document);
    append_equal(&conditions, "1", "$$ROOT", &literal);
  } else if (refusal->id.value == NULL) {
    BCON_APPEND(&conditions, "0", "{", "$eq", "[", "{", "$type", BCON_UTF8("$_id"), "}", BCON_UTF8("missing"), "]", "}");
  } else if (message_id_append(&literal, "$literal", &refusal->id)) {
    append_equal(&conditions, "0", "$_id", &literal);
  }
  if (end_ms > 0)
    BCON_APPEND(&conditions, "2", "{", "$lt", "[", BCON_UTF8("$$NOW"), BCON_DATE_TIME(end_ms), "]", "}");
  bson_append_array_end(&expression, &conditions);
  bson_append_document_end(filter, &expression);
  bson_destroy(&id);
  bson_destroy(&literal);
}

/* Each may be 16 MiB large, so it is built without a copy of what it holds. */
bson_t *command_insert(const char *collection, const bson_t *document)
{
  bson_t *command = bson_sized_new(document->len + 256), documents;
  BSON_APPEND_UTF8(command, "insert", collection);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "documents", &documents);
  BSON_APPEND_DOCUMENT(&documents, "0", document);
  bson_append_array_end(command, &documents);
  return command;
}

/* The filter is destroyed. */
static bson_t *delete_command(const char *collection, bson_t *filter, int limit)
{
  bson_t *command = bson_new(), deletes, one;
  BSON_APPEND_UTF8(command, "delete", collection);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "deletes", &deletes);
  BSON_APPEND_DOCUMENT_BEGIN(&deletes, "0", &one);
  BSON_APPEND_DOCUMENT(&one, "q", filter);
  BSON_APPEND_INT32(&one, "limit", limit);
  bson_append_document_end(&deletes, &one);
  bson_append_array_end(command, &deletes);
  bson_destroy(filter);
  return command;
}

bson_t *command_find(const char *collection, bson_t *filter)
{
  bson_t *command = bson_new();
  BSON_APPEND_UTF8(command, "find", collection);
  BSON_APPEND_DOCUMENT(command, "filter", filter);
  BSON_APPEND_BOOL(command, "singleBatch", true);
  bson_destroy(filter);
  return command;
}

static void append_end(bson_t *filter, int64_t end_ms)
{
  if (end_ms > 0)
    BCON_APPEND(filter, "$expr", "{", "$lt", "[", BCON_UTF8("$$NOW"), BCON_DATE_TIME(end_ms), "]", "}");
}

bson_t *command_delete_original(const struct original *original, int64_t end_ms)
{
  bson_t filter;
  command_filter_original(&filter, original, true, end_ms);
  return delete_command(original_queue(original).text, &filter, 1);
}

bson_t *command_find_by_id(const bson_t *document)
{
  bson_iter_t id;
  bson_t filter = BSON_INITIALIZER;
  if (bson_iter_init_find(&id, document, "_id"))
    bson_append_iter(&filter, "_id", -1, &id);
  return command_find(COPIES, &filter);
}

bson_t *command_find_copy(const uint8_t key[COPY_KEY_BYTES])
{
  bson_t filter = BSON_INITIALIZER;
  BCON_APPEND(&filter, "_id", KEY(key));
  return command_find(COPIES, &filter);
}

bson_t *command_delete_copy(const uint8_t key[COPY_KEY_BYTES], int64_t end_ms)
{
  bson_t filter = BSON_INITIALIZER;
  BCON_APPEND(&filter, "_id", KEY(key));
  append_end(&filter, end_ms);
  return delete_command(COPIES, &filter, 1);
}

bson_t *command_delete_parts(const uint8_t key[COPY_KEY_BYTES], int64_t end_ms)
{
  bson_t filter = BSON_INITIALIZER;
  BCON_APPEND(&filter, "_id.of", KEY(key));
  append_end(&filter, end_ms);
  return delete_command(COPIES, &filter, 0);
}
