/* Polls, looks and deletes of the queue that only a real server can answer. */
#include "bson_array.h"
#include "lockstore/mongo.h"
#include "test_lockstore.h"
#include "test_lockstore_real.h"
#include "worker/queue.h"
#include "worker/queue_types.h"

#include <bson/bson.h>

enum { MANY = 1200 }; /* more than one request of a poll asks for */

/* Inserts a document of the type for each value, as its `_id`, in a way that takes any: an insert refuses what no delete can name. */
static void put_ids(const char *type, const bson_t *ids)
{
  bson_t command = BSON_INITIALIZER, operations, operation, document;
  bson_iter_t id;
  char collection[128];
  snprintf(collection, sizeof collection, "%s.messages", mongo_db(lockstore_mongo(store)));
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&command, "applyOps", &operations);
  assert_true(bson_iter_init(&id, ids));
  while (bson_iter_next(&id)) {
    BSON_APPEND_DOCUMENT_BEGIN(&operations, bson_iter_key(&id), &operation);
    BSON_APPEND_UTF8(&operation, "op", "i");
    BSON_APPEND_UTF8(&operation, "ns", collection);
    BSON_APPEND_DOCUMENT_BEGIN(&operation, "o", &document);
    bson_append_iter(&document, "_id", -1, &id);
    BSON_APPEND_UTF8(&document, "type", type);
    bson_append_document_end(&operation, &document);
    bson_append_document_end(&operations, &operation);
  }
  bson_append_array_end(&command, &operations);
  real_send(store, "admin", &command);
  bson_destroy(&command);
}

static void put_refused(const char *type, int count)
{
  bson_t ids = BSON_INITIALIZER;
  char key[16], pattern[16];
  for (int i = 0; i < count; i++) {
    snprintf(key, sizeof key, "%d", i);
    snprintf(pattern, sizeof pattern, "^%d$", i);
    BSON_APPEND_REGEX(&ids, key, pattern, "");
  }
  put_ids(type, &ids);
  bson_destroy(&ids);
}

/* Of a megabyte, below any ObjectId, and nested more deeply than a delete can name. */
static void put_large_refused(const char *type, int number)
{
  enum { LEVELS = 190 };
  static char text[1 << 20];
  bson_t ids = BSON_INITIALIZER, *id, *inner;
  memset(text, 'x', sizeof text - 1);
  snprintf(text, 16, "%08d", number);
  text[8] = 'x';
  id = BCON_NEW("a", BCON_UTF8(text));
  for (int i = 0; i < LEVELS; i++) {
    inner = id;
    id = BCON_NEW("a", BCON_DOCUMENT(inner));
    bson_destroy(inner);
  }
  BSON_APPEND_DOCUMENT(&ids, "0", id);
  put_ids(type, &ids);
  bson_destroy(id);
  bson_destroy(&ids);
}

static void assert_polls(enum outcome wanted, const char *const *types, size_t count)
{
  assert_int_equal(queue_poll(store, types, count, false, NULL, false, &error), wanted);
  assert_int_equal(queue_poll(store, types, count, true, NULL, false, &error), wanted);
}

TEST(a_poll_of_several_types_goes_over_each_of_them)
{
  static const char *const types[] = {"poll-a", "poll-b", "poll-c"};
  put_refused(types[0], MANY);
  put_refused(types[1], MANY);
  assert_polls(OUTCOME_NO, types, 3);
  real_insert("messages", "{\"_id\": 1, \"type\": \"poll-b\"}"); /* numbers come before regular expressions */
  assert_polls(OUTCOME_YES, types, 3);
  assert_polls(OUTCOME_NO, types, 1);
  assert_polls(OUTCOME_YES, types + 1, 2);
  assert_polls(OUTCOME_NO, types + 2, 1);
}

/* An answer has room for fifteen of these. */
TEST(a_poll_goes_over_large_ids)
{
  static const char *const types[] = {"poll-large"};
  for (int i = 0; i < 20; i++)
    put_large_refused(types[0], i);
  put_refused(types[0], 1);
  assert_polls(OUTCOME_NO, types, 1);
  real_insert("messages", "{\"_id\": {\"$oid\": \"65f000000000000000000001\"}, \"type\": \"poll-large\"}");
  assert_polls(OUTCOME_YES, types, 1);
}

/* With its type's own collection, whose documents' `_id`s have no bounds: a delete names each. */
TEST(what_a_delete_has_left_is_found_by_each_id)
{
  const struct queue_part part = {.type = "left", .source = SOURCE_OWN};
  bson_t ids = BSON_INITIALIZER;
  BSON_APPEND_DOUBLE(&ids, "0", 1.5);
  BSON_APPEND_DOUBLE(&ids, "1", 2.5);
  real_insert("messages.left", "{\"_id\": 3.5}");
  assert_int_equal(queue_find_left(store, &part, &ids, &error), OUTCOME_NO);
  real_insert("messages.left", "{\"_id\": 2.5}");
  assert_int_equal(queue_find_left(store, &part, &ids, &error), OUTCOME_YES);
  assert_contains(error.text, "2.5");
  bson_destroy(&ids);
}

enum { OWN_TYPES = 2100 }; /* more than one look asks the collections of */

static void note_type(void *context, const char *type)
{
  snprintf(context, TYPE_BYTES_MAX + 1, "%s", type);
}

TEST(looks_at_own_collections_come_to_each)
{
  struct queue_types types = {.store = store};
  char found[TYPE_BYTES_MAX + 1] = "", json[128 * OWN_TYPES];
  size_t length = (size_t)snprintf(json, sizeof json, "{\"insert\": \"ledger\", \"documents\": [");
  for (int i = 0; i < OWN_TYPES; i++)
    length +=
        (size_t)snprintf(json + length, sizeof json - length, "%s{\"_id\": \"many-%04d\", \"needs\": [\"own\"]}", i > 0 ? ", " : "", i);
  snprintf(json + length, sizeof json - length, "]}");
  real_run(store, NULL, json);
  real_insert("messages.many-2099", "{\"_id\": 1}");
  assert_int_equal(queue_types_find_own(&types, note_type, found, &error), OUTCOME_YES);
  assert_string_equal(found, "");
  assert_int_equal(queue_types_find_own(&types, note_type, found, &error), OUTCOME_YES);
  assert_string_equal(found, "many-2099");
  found[0] = '\0';
  assert_int_equal(queue_types_find_own(&types, note_type, found, &error), OUTCOME_YES); /* from the beginning again */
  assert_string_equal(found, "");
}
