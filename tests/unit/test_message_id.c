/* message_id: which `_id`s a delete can name, and that their bytes stay unchanged; also storage/element.h. */
#include "storage/bundle.h"
#include "unit_test.h"
#include "worker/work_item.h"

#define WITH_NUL(text) text, sizeof text /* its closing NUL is counted */

struct value {
  uint8_t type;
  const char *bytes;
  size_t size;
  const char *flaw;  /* NULL: a delete can name it */
  const char *shown; /* the text begins with this */
};

static const struct value values[] = {
    {13, WITH_NUL("\4\0\0\0a\0b"), NULL, "{ \"$code\" : \"a\\u0000b\" }"},
    {15, WITH_NUL("\x13\0\0\0\4\0\0\0x\0y\0\7\0\0\0\x0a\0"), NULL, NULL},
    {5, "\7\0\0\0\2\x63\0\0\0abc", 12, NULL, "(BSON type 5, 12 bytes: 070000000263000000616263)"},
    {5, "\2\0\0\0\2ab", 7, NULL, "(BSON type 5, 7 bytes: "},
    {5, "\0\0\0\0\2", 5, NULL, "(BSON type 5, 5 bytes: "},
    {2, WITH_NUL("\3\0\0\0\xff\xfe"), NULL, "(BSON type 2, 7 bytes: 03000000fffe00)"},
    {2, WITH_NUL("\3\0\0\0\xc2\x9b"), NULL, "(BSON type 2, 7 bytes: "}, /* a terminal would obey it */
    {2, WITH_NUL("\2\0\0\0\n"), NULL, "\"\\n\""},
    {14, WITH_NUL("\2\0\0\0s"), NULL, "{ \"$symbol\" : \"s\" }"},
    {16, "\7\0\0\0", 4, NULL, "7"},
    {1, "\1\0\0\0\0\0\xf8\x7f", 8, NULL, "{ \"$numberDouble\" : \"NaN\" }"},
    {10, "", 0, NULL, "null"},
    {127, "", 0, NULL, "{ \"$maxKey\" : 1 }"},
    {12, WITH_NUL("\2\0\0\0a\0ABCDEFGHIJK"), NULL, NULL},
    {12, WITH_NUL("\3\0\0\0a\0\0ABCDEFGHIJK"), "DBPointer", NULL},
    {3, WITH_NUL("\x1b\0\0\0\x0cp\0\3\0\0\0a\0\0ABCDEFGHIJKL"), "DBPointer", NULL},
    {3, WITH_NUL("\x16\0\0\0\x04\x61\0\x0e\0\0\0\x02\x30\0\2\0\0\0x\0\0"), NULL, "{ \"a\" : [ \"x\" ] }"},
    {3, WITH_NUL("\x16\0\0\0\x04\x61\0\x0e\0\0\0\x02\x31\0\2\0\0\0x\0\0"), "array whose keys", NULL},
    {3, WITH_NUL("\5\0\0\0"), NULL, "{ "}, /* older versions of libbson write {  }, newer ones { } */
    {3, WITH_NUL("\n\0\0\0\na\0\0\0"), "malformed", NULL},
    {3, WITH_NUL("\x0a\0\0\0\x0a$gt\0"), "operator", NULL},
    {3, WITH_NUL("\x0b\0\0\0\x0a$ref\0"), NULL, "{ \"$ref\" : null }"},
    {11, WITH_NUL("a\0i"), "pattern", NULL},
    {4, WITH_NUL("\5\0\0\0"), "array", NULL},
    {6, "", 0, "undefined", NULL},
};

/* {_id: the value, type: "t1"} */
static bson_t *document_of(const struct value *value)
{
  bson_t *document = bson_new();
  struct element id = {.type = value->type, .value = (const uint8_t *)value->bytes, .bytes = value->size};
  assert_true(message_id_append(document, "_id", &id));
  BSON_APPEND_UTF8(document, "type", "t1");
  return document;
}

TEST(test_each_kind)
{
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    const struct value *value = &values[i];
    bson_t *document = document_of(value);
    struct element id;
    const char *flaw = message_id_find(bson_get_data(document), document->len, &id);
    if ((flaw == NULL) != (value->flaw == NULL) || (flaw != NULL && strstr(flaw, value->flaw) == NULL))
      fail_msg("%zu: %s", i, flaw);
    assert_int_equal(id.bytes, value->size);
    assert_memory_equal(id.value, value->bytes, value->size);
    struct message_id_shown shown = message_id_show(&id);
    if (value->shown != NULL && strncmp(shown.text, value->shown, strlen(value->shown)) != 0)
      fail_msg("%zu: %s", i, shown.text);
    bson_destroy(document);
  }
}

static int64_t oldest_of(const struct value *const *ids, size_t count)
{
  struct work_item *item = work_item_new();
  struct work_item_caps caps = {.documents = 1000, .bytes = 1 << 20};
  struct element id;
  for (size_t i = 0; i < count; i++) {
    bson_t *document = document_of(ids[i]);
    assert_int_equal(work_item_put(item, &caps, bson_get_data(document), document->len, &id), ITEM_PUT);
    bson_destroy(document);
  }
  int64_t oldest_s = work_item_oldest_s(item);
  work_item_free(item);
  return oldest_s;
}

/* The time is the first document's, where its `_id` is an ObjectId. */
TEST(test_age_of_a_load)
{
  static const struct value early = {7, "\x65\x53\xf1\x00\x11\x22\x33\x44\x55\x66\x77\x88", 12, NULL, NULL};
  static const struct value late = {7, "\xff\xff\xff\xff\x11\x22\x33\x44\x55\x66\x77\x88", 12, NULL, NULL};
  static const struct value number = {16, "\7\0\0\0", 4, NULL, NULL};
  assert_int_equal(oldest_of(NULL, 0), -1);
  assert_int_equal(oldest_of((const struct value *const[]){&early, &late}, 2), 1700000000);
  assert_int_equal(oldest_of((const struct value *const[]){&late}, 1), UINT32_MAX);
  assert_int_equal(oldest_of((const struct value *const[]){&number, &early}, 2), -1);
}

/* A delete names them one after the other, unchanged. */
TEST(test_in_a_load)
{
  struct work_item *item = work_item_new();
  struct elements elements;
  struct element id;
  struct work_item_caps caps = {.documents = 1000, .bytes = 1 << 20};
  size_t expected = 0;
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (values[i].flaw == NULL) {
      bson_t *document = document_of(&values[i]);
      assert_int_equal(work_item_put(item, &caps, bson_get_data(document), document->len, &id), ITEM_PUT);
      bson_destroy(document);
      expected++;
    }
  assert_int_equal(item->ids_count, 1);
  assert_int_equal(work_item_ids_named(item->ids[0]), expected);
  elements_init(&elements, bson_get_data(item->ids[0]), item->ids[0]->len);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    if (values[i].flaw == NULL) {
      assert_true(elements_next(&elements, &id));
      assert_int_equal(id.type, values[i].type);
      assert_int_equal(id.bytes, values[i].size);
      assert_memory_equal(id.value, values[i].bytes, values[i].size);
    }
  assert_false(elements_next(&elements, &id));
  assert_false(elements.malformed);
  work_item_free(item);
}

static enum work_item_put put_number(struct work_item *item, const struct work_item_caps *caps, int32_t number, struct element *id)
{
  bson_t *document = BCON_NEW("_id", BCON_INT32(number), "type", "t1");
  enum work_item_put put = work_item_put(item, caps, bson_get_data(document), document->len, id);
  bson_destroy(document);
  return put;
}

/* A single document may be larger than the caps, but no second one beside it. */
TEST(test_caps_of_a_load)
{
  struct element id, first, last;
  struct work_item *item = work_item_new();
  assert_false(work_item_range(item, &first, &last));
  assert_int_equal(put_number(item, &(struct work_item_caps){.documents = 2, .bytes = 1}, 1, &id), ITEM_PUT);
  assert_int_equal(put_number(item, &(struct work_item_caps){.documents = 2, .bytes = 1}, 2, &id), ITEM_FULL);
  assert_int_equal(put_number(item, &(struct work_item_caps){.documents = 2, .bytes = 1000}, 3, &id), ITEM_PUT);
  assert_int_equal(put_number(item, &(struct work_item_caps){.documents = 2, .bytes = 1000}, 4, &id), ITEM_FULL);
  bson_t *unusable = BCON_NEW("_id", BCON_REGEX("^a", ""), "type", "t1");
  assert_int_equal(
      work_item_put(item, &(struct work_item_caps){.documents = 9, .bytes = 1000}, bson_get_data(unusable), unusable->len, &id),
      ITEM_UNUSABLE);
  bson_destroy(unusable);
  assert_int_equal(item->documents, 2);
  assert_true(work_item_range(item, &first, &last));
  assert_memory_equal(first.value, (&(int32_t){1}), 4);
  assert_memory_equal(last.value, (&(int32_t){3}), 4);
  work_item_free(item);
}

/* Each is so large that it has an array of its own. */
TEST(test_large)
{
  struct work_item *item = work_item_new();
  size_t size = WORK_ITEM_IDS_BYTES_MAX + 5;
  uint8_t *text = calloc(1, size);
  struct element id = {.type = BSON_TYPE_UTF8, .value = text, .bytes = size};
  memset(text + 4, 'x', size - 5);
  for (int i = 0; i < 4; i++)
    text[i] = (uint8_t)((size - 4) >> 8 * i);
  for (int i = 0; i < 3; i++)
    assert_true(work_item_add_id(item, &id));
  assert_int_equal(item->ids_count, 3);
  assert_int_equal(work_item_ids_named(item->ids[2]), 1);
  assert_int_equal(strlen(message_id_show(&id).text), strlen("(BSON type 2, 1048581 bytes: ...)") + 80);
  free(text);
  work_item_free(item);
}

TEST(test_deep)
{
  bson_t *inner = bson_new();
  struct element id;
  for (int levels = 2; levels <= 181; levels++) {
    bson_t *outer = BCON_NEW("d", BCON_DOCUMENT(inner));
    bson_destroy(inner);
    inner = outer;
    bson_t *document = BCON_NEW("_id", BCON_DOCUMENT(inner));
    const char *flaw = message_id_find(bson_get_data(document), document->len, &id);
    assert_int_equal(flaw != NULL, levels > 180);
    assert_true(strlen(message_id_show(&id).text) > 5);
    bson_destroy(document);
  }
  bson_destroy(inner);
}

/* Any cut and any byte: the parser ends, and reads nothing after the end (the sanitizers check that). */
TEST(test_malformed)
{
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    bson_t *document = document_of(&values[i]);
    struct element id;
    for (size_t at = 0; at < document->len; at++)
      for (int byte = 0; byte < 256; byte += 5) {
        uint8_t *copy = malloc(document->len);
        memcpy(copy, bson_get_data(document), document->len);
        copy[at] = (uint8_t)byte;
        if (message_id_find(copy, document->len, &id) == NULL)
          assert_true(strlen(message_id_show(&id).text) > 0);
        (void)bundle_items(copy, document->len);
        free(copy);
      }
    bson_destroy(document);
  }
  static const uint8_t none[] = {5, 0, 0, 0, 0};
  struct element id;
  assert_string_equal(message_id_find(none, sizeof none, &id), "is missing");
  assert_string_equal(message_id_show(&id).text, "(none)");
}
