/* bundle: what is a bundle, what only resembles one, and its messages. */
#include "bson_array.h"
#include "storage/bundle.h"
#include "unit_test.h"

#include <bson/bson.h>

static bson_t *from_json(const char *json)
{
  bson_error_t reason;
  bson_t *document = bson_new_from_json((const uint8_t *)json, -1, &reason);
  if (document == NULL)
    fail_msg("%s: %s", json, reason.message);
  return document;
}

static uint32_t opened(const char *json)
{
  const uint8_t *elements;
  bson_t *document = from_json(json);
  uint32_t count = bundle_open(bson_get_data(document), document->len, &elements);
  assert_int_equal(bundle_items(bson_get_data(document), document->len), count > 0 ? count : 1);
  bson_destroy(document);
  return count;
}

TEST(test_is_a_bundle)
{
  assert_int_equal(opened("{\"_id\": 1, \"type\": \"t1\", \"batch\": [{\"a\": 1}]}"), 1);
  assert_int_equal(opened("{\"_id\": 1, \"type\": \"t1\", \"batch\": [{\"a\": 1}, {}, {\"b\": [5]}]}"), 3);
  assert_int_equal(opened("{\"batch\": [{}, {}], \"type\": \"t1\", \"_id\": {\"x\": 1}}"), 2);
}

TEST(test_is_none)
{
  static const char *const plain[] = {
      "{}",
      "{\"_id\": 1, \"type\": \"t1\"}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": []}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": {\"0\": {}}}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": [{}, 5]}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": [5, {}]}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": [{}, []]}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": null}",
      "{\"_id\": 1, \"type\": \"t1\", \"batch\": [{}], \"more\": 1}",
      "{\"more\": 1, \"_id\": 1, \"type\": \"t1\", \"batch\": [{}]}",
      "{\"_id\": 1, \"type\": \"t1\", \"Batch\": [{}]}",
      "{\"type\": \"t1\", \"batch\": [{}]}",
      "{\"_id\": 1, \"batch\": [{}]}",
  };
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
    if (opened(plain[i]) != 0)
      fail_msg("%s is taken for a bundle", plain[i]);
}

static void append_list(bson_t *bundle)
{
  bson_t list, document;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(bundle, "batch", &list);
  BSON_APPEND_DOCUMENT_BEGIN(&list, "0", &document);
  bson_append_document_end(&list, &document);
  bson_append_array_end(bundle, &list);
}

/* Each field once, and nothing after them. */
TEST(test_no_field_twice)
{
  const uint8_t *elements;
  for (int twice = 0; twice <= 3; twice++) {
    bson_t bundle = BSON_INITIALIZER;
    for (int i = 0; i < (twice == 1 ? 2 : 1); i++)
      BSON_APPEND_INT32(&bundle, "_id", i);
    for (int i = 0; i < (twice == 2 ? 2 : 1); i++)
      BSON_APPEND_UTF8(&bundle, "type", "t1");
    for (int i = 0; i < (twice == 3 ? 2 : 1); i++)
      append_list(&bundle);
    assert_int_equal(bundle_open(bson_get_data(&bundle), bundle.len, &elements), twice == 0);
    bson_destroy(&bundle);
  }
  bson_t bundle = BSON_INITIALIZER;
  BSON_APPEND_INT32(&bundle, "_id", 1);
  BSON_APPEND_UTF8(&bundle, "type", "t1");
  append_list(&bundle);
  BSON_APPEND_INT32(&bundle, "x", 1);
  uint8_t *bytes = malloc(bundle.len);
  memcpy(bytes, bson_get_data(&bundle), bundle.len);
  bytes[bundle.len - 8] = 0x55; /* the type of its last element, which no BSON has */
  assert_int_equal(bundle_open(bytes, bundle.len, &elements), 0);
  free(bytes);
  bson_destroy(&bundle);
}

TEST(test_messages_are_its_documents)
{
  bson_t *bundle = from_json("{\"_id\": 1, \"batch\": [{\"a\": 1}, {}, {\"_id\": 5, \"type\": \"x\"}], \"type\": \"t1\"}");
  static const char *const expected[] = {"{\"a\": 1}", "{}", "{\"_id\": 5, \"type\": \"x\"}"};
  const uint8_t *elements;
  assert_int_equal(bundle_open(bson_get_data(bundle), bundle->len, &elements), 3);
  for (size_t i = 0; i < 3; i++) {
    bson_t *document = from_json(expected[i]);
    size_t bytes;
    const uint8_t *element = bundle_next(&elements, &bytes);
    assert_int_equal(bytes, document->len);
    assert_memory_equal(element, bson_get_data(document), bytes);
    bson_destroy(document);
  }
  bson_destroy(bundle);
}

/* Whatever single byte is wrong, and wherever the document is cut: each message found lies within it. */
TEST(test_damaged)
{
  bson_t *bundle = from_json("{\"_id\": 1, \"type\": \"t1\", \"batch\": [{\"a\": 1}, {}, {\"b\": \"text\"}]}");
  for (size_t at = 0; at < bundle->len * 256; at++) {
    uint8_t *bytes = malloc(bundle->len); /* so that ASan detects a read beyond it */
    const uint8_t *elements = NULL;
    memcpy(bytes, bson_get_data(bundle), bundle->len);
    bytes[at / 256] = (uint8_t)at;
    for (uint32_t left = bundle_open(bytes, bundle->len, &elements); left > 0; left--) {
      size_t size;
      const uint8_t *element = bundle_next(&elements, &size);
      assert_true(element > bytes && size <= (size_t)(bytes + bundle->len - element));
    }
    free(bytes);
  }
  for (size_t length = 0; length < bundle->len; length++)
    assert_int_equal(bundle_items(bson_get_data(bundle), length), 1);
  bson_destroy(bundle);
}
