/* Polls of the queue that only a real server can answer. */
#include "bson_array.h"
#include "lockstore/mongo.h"
#include "test_lockstore.h"
#include "test_lockstore_real.h"
#include "worker/queue.h"

enum { MANY = 1200 }; /* more than one request of a poll asks for */

/* Documents whose `_id` no delete can name: an insert refuses them, and other ways in do not. */
static void put_refused(const char *type, int count)
{
  bson_t command = BSON_INITIALIZER, operations, operation, document;
  char key[16], pattern[16], collection[128];
  snprintf(collection, sizeof collection, "%s.messages", mongo_db(lockstore_mongo(store)));
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&command, "applyOps", &operations);
  for (int i = 0; i < count; i++) {
    snprintf(key, sizeof key, "%d", i);
    snprintf(pattern, sizeof pattern, "^%d$", i);
    BSON_APPEND_DOCUMENT_BEGIN(&operations, key, &operation);
    BSON_APPEND_UTF8(&operation, "op", "i");
    BSON_APPEND_UTF8(&operation, "ns", collection);
    BSON_APPEND_DOCUMENT_BEGIN(&operation, "o", &document);
    BSON_APPEND_REGEX(&document, "_id", pattern, "");
    BSON_APPEND_UTF8(&document, "type", type);
    bson_append_document_end(&operation, &document);
    bson_append_document_end(&operations, &operation);
  }
  bson_append_array_end(&command, &operations);
  char *json = bson_as_canonical_extended_json(&command, NULL);
  real_run(store, "admin", json);
  bson_free(json);
  bson_destroy(&command);
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
