/* pawl-enqueue: which lines become messages, which are refused, and that `_id`s rise. */
#include "tools/enqueue/id.h"
#include "tools/enqueue/input.h"
#include "tools/enqueue/insert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static struct error error;
static char t1[][TYPE_BYTES_MAX + 1] = {"t1", "t2"};
static const struct input_types no_types = {NULL, 0}, one_type = {t1, 1}, two_types = {t1, 2};

static void assert_contains(const char *text, const char *part)
{
  if (!strstr(text, part))
    fail_msg("\"%s\" is not in \"%s\"", part, text);
}

/* ---- a whole file ---- */

static struct input input;
static int file;

static void begin(enum input_form form, struct input_types types, const void *bytes, size_t length)
{
  file = memfd_create("input", 0);
  assert_int_equal(write(file, bytes, length), length);
  lseek(file, 0, SEEK_SET);
  input_init(&input, file, "F", form, types);
}

static void begin_text(enum input_form form, struct input_types types, const char *text)
{
  begin(form, types, text, strlen(text));
}

static void end(void)
{
  input_deinit(&input);
  close(file);
}

static void assert_next(enum input_result expected, const char *text)
{
  bson_t message;
  bool id_wanted = false;
  enum input_result result = input_next(&input, &message, &id_wanted, &error);
  if (result != expected)
    fail_msg("got %d instead of %d: %s", result, expected, error.text);
  if (result == INPUT_MESSAGE) {
    char *json = bson_as_relaxed_extended_json(&message, NULL);
    assert_contains(json, text);
    bson_free(json);
    bson_destroy(&message);
  } else if (text) {
    assert_contains(error.text, text);
  }
}

static void test_lines(void **state)
{
  (void)state;
  begin(INPUT_LINES, one_type, "one\n\ntwo\r\n\xff\na\0b\nlast", 20);
  assert_next(INPUT_MESSAGE, "\"type\" : \"t1\", \"payload\" : \"one\" }");
  assert_next(INPUT_MESSAGE, "\"payload\" : \"\" }");
  assert_next(INPUT_MESSAGE, "\"payload\" : \"two\\r\" }");
  assert_next(INPUT_MESSAGE, "\"base64\" : \"/w==\", \"subType\" : \"00\"");
  assert_next(INPUT_MESSAGE, "\"payload\" : \"a\\u0000b\" }");
  assert_next(INPUT_MESSAGE, "\"payload\" : \"last\" }");
  assert_int_equal(input.number, 6);
  assert_next(INPUT_END, NULL);
  assert_next(INPUT_END, NULL);
  end();
}

static void test_utf8(void **state)
{
  (void)state;
  static const char *const binary[] = {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\x80", "\xE2\x82"};
  for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
    begin_text(INPUT_LINES, one_type, binary[i]);
    assert_next(INPUT_MESSAGE, "$binary");
    end();
  }
  begin_text(INPUT_LINES, one_type, "\xE2\x82\xAC \xF0\x9F\x98\x80");
  assert_next(INPUT_MESSAGE, "\"payload\" : \"\xE2\x82\xAC \xF0\x9F\x98\x80\"");
  end();
}

static void test_long_lines(void **state)
{
  (void)state;
  size_t length = MESSAGE_BYTES_MAX + 1000;
  char *text = malloc(length + 2);
  memset(text, 'x', length);
  memcpy(text + length, "\ny", 2);
  begin(INPUT_LINES, one_type, text, length + 2);
  assert_next(INPUT_BAD, "F:1: a line of more than 16777216 bytes");
  assert_next(INPUT_MESSAGE, "\"y\"");
  end();
  begin(INPUT_LINES, one_type, text + 1000, length + 2 - 1000);
  assert_next(INPUT_BAD, "F:1: a message of 16777");
  assert_next(INPUT_MESSAGE, "\"y\"");
  end();
  begin(INPUT_LINES, one_type, text + 1050, length + 2 - 1050);
  assert_next(INPUT_MESSAGE, "xxx");
  end();
  free(text);
}

static void test_ndjson(void **state)
{
  (void)state;
  begin_text(INPUT_NDJSON, one_type,
             "{\"a\": {\"$numberLong\": \"5\"}}\n \t\r\n{\"a\":1\n {\"_id\": 7, \"type\": \"t1\"} \r\n{\"type\":\"t2\"}\n{\"type\":5}\n"
             "{\"a\":1}]\n{\"a\":1}{\"b\":2}\n[{\"a\":1}]\n5\n{\"a\":\"}\\\"\"}\n{\"a\":[}]\n{\"a\":tru}\n{}");
  assert_next(INPUT_MESSAGE, "\"a\" : 5, \"type\" : \"t1\" }");
  assert_next(INPUT_BAD, "F:3: no Extended JSON");
  assert_next(INPUT_MESSAGE, "{ \"_id\" : 7, \"type\" : \"t1\" }");
  assert_next(INPUT_BAD, "F:5: its type is t2");
  assert_next(INPUT_BAD, "F:6: its type is no string");
  assert_next(INPUT_BAD, "F:7: no Extended JSON: something follows");
  assert_next(INPUT_BAD, "F:8: no Extended JSON: something follows");
  assert_next(INPUT_BAD, "F:9: no Extended JSON: a document begins with {");
  assert_next(INPUT_BAD, "F:10: no Extended JSON");
  assert_next(INPUT_MESSAGE, "\"a\" : \"}\\\"\"");
  assert_next(INPUT_BAD, "F:12: no Extended JSON");
  assert_next(INPUT_BAD, "F:13: no Extended JSON");
  assert_next(INPUT_MESSAGE, "\"type\" : \"t1\"");
  assert_next(INPUT_END, NULL);
  end();
}

static void test_types(void **state)
{
  (void)state;
  begin_text(INPUT_NDJSON, no_types, "{\"type\":\"x\"}\n{\"a\":1}\n{\"type\":\".x\"}\n{\"type\":\"a\\u0000\"}\n");
  assert_next(INPUT_MESSAGE, "\"x\"");
  assert_next(INPUT_BAD, "F:2: has no type, and no --type is given");
  assert_next(INPUT_BAD, "F:3: its type is not");
  assert_next(INPUT_BAD, "F:4: ");
  end();
  begin_text(INPUT_NDJSON, two_types, "{\"type\":\"t2\"}\n{\"type\":\"t3\"}\n{}\n");
  assert_next(INPUT_MESSAGE, "\"t2\"");
  assert_next(INPUT_BAD, "F:2: its type is t3");
  assert_next(INPUT_BAD, "F:3: has no type, and --type names several");
  end();
}

/*
 * MongoDB takes 180 levels in a document, so pawl-enqueue must take them, too. An array counts as a level; brackets that are
 * part of an Extended JSON value do not.
 */
static void nested_text(char *text, int levels, bool arrays)
{
  strcpy(text, "{\"a\":");
  for (int i = 1; i < levels; i++)
    strcat(text, arrays && i % 2 ? "[" : i % 3 ? "{\"a\":" : "{\"b\":1,\"a\":");
  strcat(text, "{\"$date\":{\"$numberLong\":\"7\"}}");
  for (int i = levels - 1; i > 0; i--)
    strcat(text, arrays && i % 2 ? "]" : "}");
  strcat(text, "}");
}

static int levels_of(const bson_t *document)
{
  bson_iter_t at, inner;
  int levels = 0;
  assert_true(bson_iter_init_find(&at, document, "a"));
  for (inner = at; BSON_ITER_HOLDS_DOCUMENT(&inner) || BSON_ITER_HOLDS_ARRAY(&inner); at = inner) {
    assert_true(bson_iter_recurse(&at, &inner));
    while (bson_iter_next(&inner) && strcmp(bson_iter_key(&inner), "b") == 0)
      assert_int_equal(bson_iter_int32(&inner), 1);
    levels++;
  }
  assert_true(BSON_ITER_HOLDS_DATE_TIME(&inner) && bson_iter_date_time(&inner) == 7);
  return levels + 1;
}

static void test_nested_as_deep_as_mongodb_takes_it(void **state)
{
  (void)state;
  char text[8000];
  for (int levels = 1; levels <= MESSAGE_DEPTH_MAX + 1; levels++)
    for (int arrays = 0; arrays <= 1; arrays++) {
      bson_t document;
      nested_text(text, levels, arrays);
      bool right = document_from_json((const uint8_t *)text, strlen(text), 0, &document, &error);
      assert_int_equal(right, levels <= MESSAGE_DEPTH_MAX);
      if (!right) {
        assert_contains(error.text, "nested more than 180 levels deep");
        continue;
      }
      assert_int_equal(levels_of(&document), levels);
      assert_int_equal(document_check(bson_get_data(&document), document.len, BUNDLE_DEPTH, &error), levels <= 178);
      bson_destroy(&document);
    }
}

/* To JSON by pawl-dump, and back. */
static void test_raw_stands_for_its_bytes(void **state)
{
  (void)state;
  begin_text(INPUT_NDJSON, one_type,
             "{\"$pawlRaw\":{\"$binary\":{\"base64\":\"DAAAABBhAAEAAAAA\",\"subType\":\"00\"}}}\n"
             "{\"$pawlRaw\":{\"$binary\":{\"base64\":\"CgAAAAJzAP//AA==\",\"subType\":\"00\"}}}\n"
             "{\"$pawlRaw\":{\"$binary\":{\"base64\":\"DAAAABBhAAEAAAAA\",\"subType\":\"00\"}},\"b\":1}\n");
  assert_next(INPUT_MESSAGE, "\"a\" : 1, \"type\" : \"t1\" }");
  assert_next(INPUT_BAD, "no sound BSON document");
  assert_next(INPUT_BAD, "beside $pawlRaw");
  end();
}

/* libbson's reader would take these for other values. */
static void test_a_value_is_exact_or_refused(void **state)
{
  (void)state;
  static const char *const wrong[] = {
      "{\"$numberDecimal\":\"abc\"}",
      "{\"$numberDecimal\":\"\"}",
      "{\"$numberDecimal\":\"1.5x\"}",
      "{\"$numberDecimal\":\"1E99999\"}",
      "{\"$numberDecimal\":\"12345678901234567890123456789012345\"}",
      "{\"\\u0024numberDecimal\":\"abc\"}",
      "{\"$numberDouble\":\"abc\"}",
      "{\"$numberDouble\":\"\"}",
      "{\"$numberDouble\":\"1.5x\"}",
      "{\"$numberDouble\":\"0x10\"}",
      "{\"$numberDouble\":\"1e-400\"}",
      "{\"$numberDouble\":\"1e400\"}",
      "1e-400",
      "1e400",
      "12345678901234567890",
      "{\"$numberLong\":\"abc\"}",
      "{\"$numberInt\":\"2147483648\"}",
      "{\"$date\":\"2024-02-30T00:00:00Z\"}",
      "{\"$date\":\"2023-02-29T00:00:00Z\"}",
      "{\"$date\":\"1900-02-29T00:00:00Z\"}",
      "{\"$date\":\"2024-04-31T00:00:00Z\"}",
      "{\"$date\":\"2024-01-00T00:00:00Z\"}",
      "{\"$date\":\"2024-00-01T00:00:00Z\"}",
      "{\"$date\":\"2024-01-01T24:00:00Z\"}",
      "{\"$date\":\"2024-01-01T23:60:00Z\"}",
      "{\"$date\":\"2024-01-01T23:59:60Z\"}",
      "{\"$date\":\"2024-01-01T00:00:00+9999\"}",
      "{\"$date\":\"10000-01-01T00:00:00Z\"}",
      "{\"$date\":\"+10000-01-01T00:00:00Z\"}",
      "{\"$date\":\"soon\"}",
      "{\"$date\":{\"$numberLong\":\"abc\"}}",
      "{\"$oid\":\"0123456789abcdef0123456g\"}",
      "{\"$uuid\":\"c8edabc3-f738-4ca3-b68d-ab92a91478zz\"}",
      "{\"$binary\":{\"base64\":\"QUJD\",\"subType\":\"1ff\"}}",
      "{\"$binary\":{\"base64\":\"Q!JD\",\"subType\":\"00\"}}",
      "{\"$timestamp\":{\"t\":4294967296,\"i\":1}}",
      "{\"$timestamp\":{\"t\":1,\"i\":99999999999}}",
      "{\"$regularExpression\":{\"pattern\":\"a\",\"options\":\"iz\"}}",
      "{\"$regex\":\"a\",\"$options\":\"z\"}",
      "{\"$code\":\"a\\u0000b\"}",
      "{\"$code\":\"a\\u0000b\",\"$scope\":{}}",
      "{\"$undefined\":false}",
  };
  static const char *const right[][2] = {
      {"{\"$numberDecimal\":\"NaN\"}", "{ \"$numberDecimal\" : \"NaN\" }"},
      {"{\"$numberDecimal\":\"1.10\"}", "{ \"$numberDecimal\" : \"1.10\" }"},
      {"{\"$numberDouble\":\"-Infinity\"}", "{ \"$numberDouble\" : \"-Infinity\" }"},
      {"{\"$numberDouble\":\"-0.0\"}", "-0.0"},
      {"{\"$numberDouble\":\"0e-999\"}", "0.0"},
      {"5e-324", "4.9406564584124654418e-324"},
      {"0.000e-5", "0.0"},
      {"{\"$date\":\"2024-02-29T23:59:59.5Z\"}", "{ \"$date\" : \"2024-02-29T23:59:59.500Z\" }"},
      {"{\"$date\":\"2000-02-29T23:59:59-0130\"}", "{ \"$date\" : \"2000-03-01T01:29:59Z\" }"},
      {"{\"$date\":{\"$numberLong\":\"-5\"}}", "{ \"$date\" : { \"$numberLong\" : \"-5\" } }"},
      {"{\"$timestamp\":{\"t\":4294967295,\"i\":0}}", "{ \"$timestamp\" : { \"t\" : 4294967295, \"i\" : 0 } }"},
      {"{\"$code\":\"a\\\\u0000b\"}", "{ \"$code\" : \"a\\\\u0000b\" }"},
      {"{\"options\":\"any\",\"subType\":\"of it\"}", "{ \"options\" : \"any\", \"subType\" : \"of it\" }"},
      {"\"$numberDecimal\"", "\"$numberDecimal\""},
      {"\"1e-400 $\"", "\"1e-400 $\""},
  };
  char text[200], expected[200];
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    snprintf(text, sizeof text, "{\"a\":%s}", wrong[i]);
    begin_text(INPUT_NDJSON, one_type, text);
    assert_next(INPUT_BAD, "no Extended JSON: ");
    end();
  }
  for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
    snprintf(text, sizeof text, "{\"a\":%s}", right[i][0]);
    snprintf(expected, sizeof expected, "\"a\" : %s,", right[i][1]);
    begin_text(INPUT_NDJSON, one_type, text);
    assert_next(INPUT_MESSAGE, expected);
    end();
  }
}

static void test_depth(void **state)
{
  (void)state;
  char text[2000] = "";
  for (int depth = 180; depth <= 300; depth += 60) {
    memset(text, 0, sizeof text);
    for (int i = 0; i < depth; i++)
      strcat(text, "{\"a\":");
    strcat(text, "{}");
    memset(text + strlen(text), '}', depth);
    begin_text(INPUT_NDJSON, one_type, text);
    if (depth == 180)
      assert_next(INPUT_MESSAGE, "t1");
    else
      assert_next(INPUT_BAD, "F:1: ");
    end();
  }
}

/* Scopes of code within scopes of code: a validator that recurses without a limit crashes. */
static void test_code_depth(void **state)
{
  (void)state;
  bson_t inner = BSON_INITIALIZER;
  for (int i = 0; i < 50000 && inner.len < 100000; i++) {
    bson_t outer = BSON_INITIALIZER;
    bson_append_code_with_scope(&outer, "", 0, "", &inner);
    bson_destroy(&inner);
    bson_copy_to(&outer, &inner);
    bson_destroy(&outer);
  }
  assert_false(document_check(bson_get_data(&inner), inner.len, 0, &error));
  assert_contains(error.text, "deep");
  bson_destroy(&inner);
}

static void test_bson(void **state)
{
  (void)state;
  bson_t *good = BCON_NEW("a", BCON_INT32(1)), *typed = BCON_NEW("_id", BCON_INT32(3), "type", BCON_UTF8("t1"));
  uint8_t bytes[200];
  memcpy(bytes, bson_get_data(good), 12);
  memcpy(bytes + 12, bson_get_data(good), 12);
  bytes[12 + 4] = 0x7e; /* no such element type */
  memcpy(bytes + 24, bson_get_data(typed), typed->len);
  size_t length = 24 + typed->len;

  begin(INPUT_BSON, one_type, bytes, length);
  assert_next(INPUT_MESSAGE, "\"a\" : 1, \"type\" : \"t1\"");
  assert_next(INPUT_BAD, "F: document 2 at byte 12: no sound BSON");
  assert_next(INPUT_MESSAGE, "{ \"_id\" : 3, \"type\" : \"t1\" }");
  assert_next(INPUT_END, NULL);
  end();
  begin(INPUT_BSON, one_type, bytes, 22);
  assert_next(INPUT_MESSAGE, "\"a\" : 1");
  assert_next(INPUT_BROKEN, "F: document 2 at byte 12: the file ends within");
  end();
  begin(INPUT_BSON, one_type, bytes, 14);
  assert_next(INPUT_MESSAGE, "\"a\" : 1");
  assert_next(INPUT_BROKEN, "F: document 2 at byte 12: the file ends within");
  end();
  begin_text(INPUT_BSON, one_type, "{\"a\":1}\n");
  assert_next(INPUT_BROKEN, "F: document 1 at byte 0: no BSON");
  end();
  begin(INPUT_BSON, one_type, "\4\0\0\0\0", 5);
  assert_next(INPUT_BROKEN, "no BSON");
  end();
  bson_destroy(good);
  bson_destroy(typed);
}

static void test_large_bson(void **state)
{
  (void)state;
  size_t length = MESSAGE_BYTES_MAX + 20;
  uint8_t *bytes = calloc(1, length + 5);
  uint32_t little = (uint32_t)length;
  memcpy(bytes, &little, 4);
  bytes[length] = 5;
  begin(INPUT_BSON, one_type, bytes, length + 5);
  assert_next(INPUT_BAD, "F: document 1 at byte 0: a message of 16777236 bytes");
  assert_next(INPUT_MESSAGE, "t1");
  end();
  free(bytes);
}

/* Every cut and every flipped byte of a file gives an answer, and the reader reaches the end. */
static void test_damaged(void **state)
{
  (void)state;
  bson_t *document = BCON_NEW("a", "{", "b", BCON_UTF8("xyz"), "c", BCON_DOUBLE(1), "}", "d", "[", BCON_INT64(1), "]");
  uint8_t bytes[400];
  size_t length = document->len;
  for (size_t i = 0; i < length * 16; i++) {
    bson_t message;
    bool id_wanted;
    memcpy(bytes, bson_get_data(document), length);
    memcpy(bytes + length, bson_get_data(document), length);
    bytes[i % length] ^= (uint8_t)(1 << (i / length % 8));
    begin(INPUT_BSON, one_type, bytes, i < length * 8 ? 2 * length : length + i % length);
    enum input_result result;
    for (int rounds = 0; (result = input_next(&input, &message, &id_wanted, &error)) != INPUT_END && result != INPUT_BROKEN; rounds++) {
      assert_true(rounds < 20);
      if (result == INPUT_MESSAGE)
        bson_destroy(&message);
    }
    end();
  }
  bson_destroy(document);
}

static void test_id_place(void **state)
{
  (void)state;
  bson_t message;
  bool id_wanted;
  bson_iter_t iter;
  begin_text(INPUT_NDJSON, one_type, "{\"a\":1}\n");
  assert_int_equal(input_next(&input, &message, &id_wanted, &error), INPUT_MESSAGE);
  assert_true(id_wanted);
  memcpy((uint8_t *)bson_get_data(&message) + ID_OFFSET, "abcdefghijkl", 12);
  assert_true(bson_iter_init(&iter, &message) && bson_iter_next(&iter));
  assert_string_equal(bson_iter_key(&iter), "_id");
  assert_memory_equal(bson_iter_oid(&iter)->bytes, "abcdefghijkl", 12);
  bson_destroy(&message);
  end();
}

static void test_idle_pipe(void **state)
{
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  input_init(&input, ends[0], "F", INPUT_LINES, one_type);
  assert_int_equal(write(ends[1], "a\nb", 3), 3);
  assert_next(INPUT_MESSAGE, "\"a\"");
  assert_next(INPUT_IDLE, NULL);
  assert_int_equal(write(ends[1], "c\n", 2), 2);
  assert_next(INPUT_MESSAGE, "\"bc\"");
  close(ends[1]);
  assert_next(INPUT_END, NULL);
  input_deinit(&input);
  close(ends[0]);
}

/* ---- bundles ---- */

static void assert_bare(const char *json, const char *type)
{
  bson_t message;
  bool id_wanted = false;
  assert_int_equal(input_next(&input, &message, &id_wanted, &error), INPUT_MESSAGE);
  assert_false(id_wanted);
  char *found = bson_as_relaxed_extended_json(&message, NULL);
  assert_string_equal(found, json);
  assert_string_equal(input.type, type);
  bson_free(found);
  bson_destroy(&message);
}

/* A bundle contains exactly what was read: nothing added, nothing removed. */
static void test_bare(void **state)
{
  (void)state;
  begin_text(INPUT_LINES, one_type, "one\n\xff");
  input.bare = true;
  assert_bare("{ \"payload\" : \"one\" }", "t1");
  assert_bare("{ \"payload\" : { \"$binary\" : { \"base64\" : \"/w==\", \"subType\" : \"00\" } } }", "t1");
  end();
  begin_text(INPUT_NDJSON, one_type, "{\"a\":1}\n{\"_id\":7,\"type\":\"t1\"}\n{\"type\":\"t2\"}\n{}");
  input.bare = true;
  assert_bare("{ \"a\" : 1 }", "t1");
  assert_bare("{ \"_id\" : 7, \"type\" : \"t1\" }", "t1");
  assert_next(INPUT_BAD, "F:3: its type is t2");
  assert_bare("{ }", "t1");
  end();
  begin_text(INPUT_NDJSON, no_types, "{\"a\":1}\n{\"type\":\"x\"}");
  input.bare = true;
  assert_next(INPUT_BAD, "F:1: has no type");
  assert_bare("{ \"type\" : \"x\" }", "x");
  end();
}

static void test_bare_is_small_enough_for_a_bundle(void **state)
{
  (void)state;
  size_t length = MESSAGE_BYTES_MAX - 100;
  char *text = malloc(length);
  memset(text, 'x', length);
  begin(INPUT_LINES, one_type, text, length);
  input.bare = true;
  assert_next(INPUT_BAD, "F:1: a message of 16777");
  end();
  begin(INPUT_LINES, one_type, text, length - 200);
  input.bare = true;
  assert_next(INPUT_MESSAGE, "xxx");
  end();
  free(text);
}

static void put_bundled(struct batch *batch, const char *type, bson_t *message, int64_t number)
{
  batch_bundle(batch, type, message, (struct place){"F", number, 0}, 12);
  bson_destroy(message);
}

/* Newer versions of libbson write one space into an empty document or array, as this test expects, older ones two. */
static void shorten_empty(char *json)
{
  for (char *at = json; (at = strstr(at, "  ")) != NULL;)
    memmove(at, at + 1, strlen(at));
}

static void assert_bundle(const struct batch *batch, size_t i, const char *json, int64_t first, int64_t last)
{
  bson_t document;
  batch_document(batch, i, &document);
  assert_true(bson_validate(&document, BSON_VALIDATE_UTF8, NULL));
  char *found = bson_as_relaxed_extended_json(&document, NULL);
  shorten_empty(found);
  assert_string_equal(found, json);
  assert_int_equal(batch->documents[i].first.number, first);
  assert_int_equal(batch->documents[i].last.number, last);
  assert_int_equal(batch->documents[i].messages, last - first + 1);
  bson_free(found);
}

#define NO_ID "{ \"_id\" : { \"$oid\" : \"000000000000000000000000\" }, "

static void test_batch_bundles(void **state)
{
  (void)state;
  struct batch batch;
  batch_init(&batch, 5);
  assert_false(batch_bundle_takes(&batch, "t1", 5, 12));
  put_bundled(&batch, "t1", BCON_NEW("a", BCON_INT32(1)), 1);
  assert_true(batch_bundle_takes(&batch, "t1", 5, 12) && !batch_bundle_takes(&batch, "t", 5, 12));
  put_bundled(&batch, "t1", bson_new(), 2);
  put_bundled(&batch, "longer", BCON_NEW("b", "[", "]"), 3); /* another type begins another bundle; the first bundle is never continued */
  put_bundled(&batch, "t1", BCON_NEW("c", BCON_INT32(2)), 4);
  for (int64_t i = 5; i <= 16; i++) /* from the eleventh on the key has a digit more; the thirteenth does not fit */
    put_bundled(&batch, "t1", bson_new(), i);
  assert_int_equal(batch.count, 4);
  assert_bundle(&batch, 0, NO_ID "\"type\" : \"t1\", \"batch\" : [ { \"a\" : 1 }, { } ] }", 1, 2);
  assert_bundle(&batch, 1, NO_ID "\"type\" : \"longer\", \"batch\" : [ { \"b\" : [ ] } ] }", 3, 3);
  assert_bundle(&batch, 2,
                NO_ID "\"type\" : \"t1\", \"batch\" : [ { \"c\" : 2 }, { }, { }, { }, { }, { }, { }, { }, { }, { }, { }, { } ] }", 4, 15);
  assert_bundle(&batch, 3, NO_ID "\"type\" : \"t1\", \"batch\" : [ { } ] }", 16, 16);
  assert_int_equal(batch_messages(&batch, 0, 4), 16);
  assert_int_equal(batch_messages(&batch, 1, 2), 13);
  batch_deinit(&batch);
}

static void test_bundles_are_bounded(void **state)
{
  (void)state;
  struct batch batch;
  char *text = calloc(1, 2 * BUNDLE_BYTES_MAX);
  memset(text, 'x', 2 * BUNDLE_BYTES_MAX - 1);
  batch_init(&batch, 10);
  put_bundled(&batch, "t1", BCON_NEW("a", BCON_UTF8(text)), 1); /* a larger message gets a bundle of its own */
  text[BUNDLE_BYTES_MAX / 3] = 0;
  for (int64_t i = 2; i <= 6; i++)
    put_bundled(&batch, "t1", BCON_NEW("a", BCON_UTF8(text)), i);
  assert_int_equal(batch.count, 4);
  for (size_t i = 1; i < 4; i++)
    assert_true(batch.documents[i].length <= BUNDLE_BYTES_MAX && batch.documents[i].messages == (i < 3 ? 2 : 1));
  batch_deinit(&batch);
  free(text);
}

/* With a time to be idle at, the input is read as far as it is there, and not waited for. */
static void test_idle_at(void **state)
{
  (void)state;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  input_init(&input, ends[0], "F", INPUT_LINES, one_type);
  input.idle_at_ms = 1; /* long ago */
  assert_int_equal(write(ends[1], "a\nb\n", 4), 4);
  assert_next(INPUT_MESSAGE, "\"a\"");
  assert_next(INPUT_MESSAGE, "\"b\"");
  assert_next(INPUT_IDLE, NULL);
  close(ends[1]);
  assert_next(INPUT_END, NULL);
  input_deinit(&input);
  close(ends[0]);
}

/* ---- answers ---- */

static struct insert_outcome judge(bool done, const char *reply_json, uint32_t domain, uint32_t code)
{
  bson_t reply;
  bson_error_t reason = {.domain = domain, .code = code, .message = "reason"};
  assert_true(bson_init_from_json(&reply, reply_json, -1, NULL));
  struct insert_outcome outcome = insert_judge(done, &reply, &reason, 10, &error);
  bson_destroy(&reply);
  return outcome;
}

static void assert_outcome(struct insert_outcome outcome, enum insert_answer answer, size_t acknowledged, size_t unknown)
{
  assert_int_equal(outcome.answer, answer);
  assert_int_equal(outcome.acknowledged, acknowledged);
  assert_int_equal(outcome.unknown, unknown);
}

#define REFUSED_AT(index) "\"writeErrors\": [{\"index\": " index ", \"code\": 11000, \"errmsg\": \"E11000\\nx\"}]"
#define BUSY_AT(index, code) "\"writeErrors\": [{\"index\": " index ", \"code\": " code ", \"errmsg\": \"cache full\"}]"
#define DOUBT "\"writeConcernErrors\": [{\"code\": 64}]"
#define WELL "\"writeConcernErrors\": []"

static void test_judge(void **state)
{
  (void)state;
  assert_outcome(judge(true, "{\"nInserted\": 10, \"writeErrors\": []," WELL "}", 0, 0), INSERT_DONE, 10, 0);
  assert_outcome(judge(true, "{\"nInserted\": 9," WELL "}", 0, 0), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{\"nInserted\": 10," DOUBT "}", MONGOC_ERROR_WRITE_CONCERN, 64), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{" REFUSED_AT("3") "," WELL "}", MONGOC_ERROR_SERVER, 11000), INSERT_BAD, 3, 0);
  assert_string_equal(error.text, "E11000 x");
  assert_outcome(judge(false, "{" REFUSED_AT("3") "," DOUBT "}", MONGOC_ERROR_SERVER, 11000), INSERT_UNKNOWN, 0, 3);
  assert_outcome(judge(false, "{" REFUSED_AT("0") "," DOUBT "}", MONGOC_ERROR_SERVER, 11000), INSERT_BAD, 0, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "365") "," WELL "}", MONGOC_ERROR_SERVER, 365), INSERT_BUSY, 3, 0);
  assert_outcome(judge(false, "{" BUSY_AT("0", "112") "," WELL "}", MONGOC_ERROR_SERVER, 112), INSERT_BUSY, 0, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "395") "," DOUBT "}", MONGOC_ERROR_SERVER, 395), INSERT_UNKNOWN, 0, 3);
  assert_outcome(judge(false, "{\"nInserted\": 0}", MONGOC_ERROR_STREAM, 4), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{}", MONGOC_ERROR_SERVER, 10107), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{}", MONGOC_ERROR_STREAM, 13), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{}", MONGOC_ERROR_SERVER, 13), INSERT_NONE, 0, 0);
  assert_outcome(judge(false, "{" DOUBT "}", MONGOC_ERROR_SERVER, 13), INSERT_UNKNOWN, 0, 10);
  struct insert_outcome outcome = judge(false, "{}", MONGOC_ERROR_SERVER_SELECTION, 13053);
  assert_outcome(outcome, INSERT_NONE, 0, 0);
  assert_true(outcome.unreachable);
}

/* The server quotes the whole command, including the documents. */
static void test_refusal_is_short(void **state)
{
  (void)state;
  bson_t reply = BSON_INITIALIZER;
  bson_error_t reason = {.domain = MONGOC_ERROR_SERVER,
                         .code = 13,
                         .message = "not authorized on pawl to execute command { insert: \"messages\", ordered: true, lsid: { id: 1 } }"};
  assert_outcome(insert_judge(false, &reply, &reason, 10, &error), INSERT_NONE, 0, 0);
  assert_string_equal(error.text, "MongoDB does not permit it: not authorized on pawl to execute command { insert: \"messages\", ... }");
  bson_destroy(&reply);
}

/* ---- ids ---- */

static char state_file[] = "/tmp/test_enqueue_XXXXXX";
static struct id_source source;

static int open_ids(void **state)
{
  (void)state;
  strcpy(state_file + strlen(state_file) - 6, "XXXXXX");
  close(mkstemp(state_file));
  return id_source_open_at(&source, state_file, &error) ? 0 : -1;
}

static int close_ids(void **state)
{
  (void)state;
  id_source_close(&source);
  return unlink(state_file);
}

static void test_ids_rise(void **state)
{
  (void)state;
  int64_t now = INT64_C(1700000000999990), first;
  uint8_t last[12] = {0}, id[12];
  for (int round = 0; round < 20; round++) {
    assert_true(id_source_reserve(&source, now, 50, &first, &error));
    for (int64_t tick = first; tick < first + 50; tick++) {
      id_make(&source, tick, id);
      assert_true(memcmp(id, last, 12) > 0);
      memcpy(last, id, 12);
    }
    now += round % 3 == 2 ? -5000000 : 30; /* a clock that also steps back */
  }
  assert_int_equal(last[0] << 24 | last[1] << 16 | last[2] << 8 | last[3], 1700000001);
}

static void test_ids_next_call(void **state)
{
  (void)state;
  int64_t first, second, third;
  struct id_source other;
  assert_true(id_source_reserve(&source, 1000000, 10, &first, &error));
  assert_true(id_source_open_at(&other, state_file, &error));
  assert_true(id_source_reserve(&other, 500, 10, &second, &error));
  assert_true(id_source_reserve(&source, 500, 10, &third, &error));
  assert_int_equal(first, 1000000);
  assert_int_equal(second, 1000010);
  assert_int_equal(third, 1000020);
  id_source_close(&other);
}

/* Several processes at once: each sees its own ticks rise, and no tick is given twice, because the file counts them all. */
static void test_ids_processes(void **state)
{
  (void)state;
  enum { PROCESSES = 4, ROUNDS = 200 };
  int64_t first;
  for (int i = 0; i < PROCESSES; i++)
    if (fork() == 0) {
      struct id_source mine;
      int64_t last = 0;
      bool right = id_source_open_at(&mine, state_file, &error);
      for (int round = 0; right && round < ROUNDS; round++) {
        right = id_source_reserve(&mine, 1, 3, &first, &error) && first > last;
        last = first + 2;
      }
      _exit(right ? 0 : 1);
    }
  for (int i = 0; i < PROCESSES; i++) {
    int status = -1;
    wait(&status);
    assert_int_equal(status, 0);
  }
  assert_true(id_source_reserve(&source, 1, 1, &first, &error));
  assert_int_equal(first, 1 + PROCESSES * ROUNDS * 3);
}

static void test_ids_file(void **state)
{
  (void)state;
  int64_t first, second;
  struct id_source lost;
  assert_false(id_source_open_at(&lost, "/nowhere/last-id", &error));
  assert_contains(error.text, "/nowhere/last-id");
  assert_true(id_source_reserve(&lost, 1000, 5, &first, &error));
  assert_true(id_source_reserve(&lost, 10, 5, &second, &error));
  assert_int_equal(second, first + 5);
  assert_int_equal(pwrite(source.file, "garbage garbage garbage", 23, 0), 23);
  assert_true(id_source_reserve(&source, 7000, 5, &first, &error));
  assert_int_equal(first, 7000);
  close(source.file); /* the file fails, but the range stays valid */
  assert_false(id_source_reserve(&source, 10, 5, &first, &error));
  assert_int_equal(first, 7005);
  assert_true(id_source_reserve(&source, 10, 5, &first, &error));
  assert_int_equal(first, 7010);
}

/* The file where the environment says, of its own for each. */
static void test_ids_place(void **state)
{
  (void)state;
  char home[] = "/tmp/test_enqueue_XXXXXX", path[128], command[64];
  const char *const places[][2] = {{"/one", NULL}, {"/two", ""}, {"/one", "/state"}, {"/two", "relative"}, {NULL, "/state"}};
  const char *const files[] = {"/one/.local/state", "/two/.local/state", "/state", "/two/.local/state", "/state"};
  assert_non_null(mkdtemp(home));
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *user = places[i][0], *chosen = places[i][1];
    struct id_source mine;
    int64_t first;
    snprintf(path, sizeof path, "%s%s", home, user ? user : "");
    assert_int_equal(user ? setenv("HOME", path, 1) : unsetenv("HOME"), 0);
    snprintf(path, sizeof path, "%s%s", chosen && *chosen == '/' ? home : "", chosen ? chosen : "");
    assert_int_equal(chosen ? setenv("XDG_STATE_HOME", path, 1) : unsetenv("XDG_STATE_HOME"), 0);
    assert_true(id_source_open(&mine, &error));
    assert_true(id_source_reserve(&mine, 1000000, 1, &first, &error));
    assert_int_equal(first, i < 3 ? 1000000 : 1000001); /* the fourth and the fifth find the file of an earlier one */
    id_source_close(&mine);
    snprintf(path, sizeof path, "%s%s/pawl/last-id", home, files[i]);
    assert_int_equal(access(path, R_OK | W_OK), 0);
  }
  snprintf(command, sizeof command, "rm -r %s", home);
  assert_int_equal(system(command), 0);
}

static void test_ids_without_a_place(void **state)
{
  (void)state;
  struct id_source lost;
  int64_t first, second;
  assert_int_equal(setenv("HOME", "", 1), 0);
  assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
  assert_false(id_source_open(&lost, &error));
  assert_contains(error.text, "neither XDG_STATE_HOME nor HOME");
  assert_int_equal(setenv("HOME", state_file, 1), 0); /* no directory */
  assert_false(id_source_open(&lost, &error));
  assert_contains(error.text, state_file);
  assert_true(id_source_reserve(&lost, 1000, 5, &first, &error));
  assert_true(id_source_reserve(&lost, 10, 5, &second, &error));
  assert_int_equal(second, first + 5);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_utf8),
      cmocka_unit_test(test_long_lines),
      cmocka_unit_test(test_ndjson),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_depth),
      cmocka_unit_test(test_code_depth),
      cmocka_unit_test(test_nested_as_deep_as_mongodb_takes_it),
      cmocka_unit_test(test_raw_stands_for_its_bytes),
      cmocka_unit_test(test_a_value_is_exact_or_refused),
      cmocka_unit_test(test_bson),
      cmocka_unit_test(test_large_bson),
      cmocka_unit_test(test_damaged),
      cmocka_unit_test(test_id_place),
      cmocka_unit_test(test_idle_pipe),
      cmocka_unit_test(test_bare),
      cmocka_unit_test(test_bare_is_small_enough_for_a_bundle),
      cmocka_unit_test(test_batch_bundles),
      cmocka_unit_test(test_bundles_are_bounded),
      cmocka_unit_test(test_idle_at),
      cmocka_unit_test(test_judge),
      cmocka_unit_test(test_refusal_is_short),
      cmocka_unit_test_setup_teardown(test_ids_rise, open_ids, close_ids),
      cmocka_unit_test_setup_teardown(test_ids_next_call, open_ids, close_ids),
      cmocka_unit_test_setup_teardown(test_ids_processes, open_ids, close_ids),
      cmocka_unit_test_setup_teardown(test_ids_file, open_ids, close_ids),
      cmocka_unit_test(test_ids_place),
      cmocka_unit_test_setup_teardown(test_ids_without_a_place, open_ids, close_ids),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
