/* pawl-enqueue: which lines become messages, and which are refused. */
#include "tools/enqueue/input.h"
#include "unit_test.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static struct error error;
static char t1[][TYPE_BYTES_MAX + 1] = {"t1", "t2"};
static const struct input_types no_types = {NULL, 0}, one_type = {t1, 1}, two_types = {t1, 2};

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

TEST(test_lines)
{
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

TEST(test_utf8)
{
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

TEST(test_long_lines)
{
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

TEST(test_ndjson)
{
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

TEST(test_types)
{
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

TEST(test_nested_as_deep_as_mongodb_takes_it)
{
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
TEST(test_raw_stands_for_its_bytes)
{
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
TEST(test_a_value_is_exact_or_refused)
{
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
      "18446744073709551617",
      "-18446744073709551617",
      "20000000000000000000",
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

TEST(test_depth)
{
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
TEST(test_code_depth)
{
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

TEST(test_bson)
{
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

TEST(test_large_bson)
{
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
TEST(test_damaged)
{
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

TEST(test_id_place)
{
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

TEST(test_idle_pipe)
{
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

/* ---- messages of bundles ---- */

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
TEST(test_bare)
{
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

TEST(test_bare_is_small_enough_for_a_bundle)
{
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

/* With a time to be idle at, the input is read as far as it is there, and not waited for. */
TEST(test_idle_at)
{
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
