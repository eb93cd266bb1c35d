/* dump_print and dump_json: the output for one message, whatever it contains. */
#include "tools/dump/json.h"
#include "tools/dump/print.h"
#include "unit_test.h"

/* The output, in memory. */
struct printed {
  FILE *out;
  char *text;
  size_t bytes;
};

static void printed_begin(struct printed *printed)
{
  memset(printed, 0, sizeof *printed);
  printed->out = open_memstream(&printed->text, &printed->bytes);
  assert_non_null(printed->out);
}

static void assert_printed(struct printed *printed, const char *text, size_t bytes)
{
  fclose(printed->out);
  assert_int_equal(printed->bytes, bytes);
  assert_memory_equal(printed->text, text, bytes);
  free(printed->text);
}
#define ASSERT_PRINTED(printed, literal) assert_printed(printed, literal, sizeof literal - 1)

TEST(test_text_valid)
{
  static const char *const valid[] = {
      "", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF", "12345678\xC3\xA9"};
  static const char *const invalid[] = {
      "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
      "\xFF", "\xC3",     "\xE2\x82", "1234567\xC3",  "12345678\xFE"};
  for (size_t i = 0; i < sizeof valid / sizeof *valid; i++)
    assert_true(json_text_valid(valid[i], strlen(valid[i])));
  for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
    assert_false(json_text_valid(invalid[i], strlen(invalid[i])));
}

static void assert_mended(const char *text, const char *expected)
{
  size_t bytes = 0;
  char *mended = json_mend_text(text, strlen(text), &bytes);
  assert_string_equal(mended, expected);
  assert_int_equal(bytes, strlen(expected));
  free(mended);
}

#define FFFD "\xEF\xBF\xBD"

TEST(test_mend_replaces_maximal_parts)
{
  assert_mended("fine", "fine");
  assert_mended("a\xFFz", "a" FFFD "z");
  assert_mended("\xE2\x82z", FFFD "z");          /* the beginning of one character: one replacement */
  assert_mended("\xED\xA0\x80", FFFD FFFD FFFD); /* a surrogate is not valid UTF-8 from its first byte on: a replacement for each byte */
  assert_mended("\xF0\x9F\x98", FFFD);
  assert_mended("\xC0\x80", FFFD FFFD);
  assert_mended("\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80");
}

static const struct block_marker some_block = {.epoch = 7, .offset = 4096, .time_us = 1700000000000001, .seq = 5, .count = 9};

static void print_one(struct printer *printer, const bson_t *message)
{
  printer_put(printer, &some_block, 6, INDEX_NONE, bson_get_data(message), message->len);
}

TEST(test_meta_is_around_the_message)
{
  struct printed printed;
  bson_t *message = BCON_NEW("n", BCON_INT64(3));
  printed_begin(&printed);
  struct printer printer = {.format = PRINT_RELAXED, .with_meta = true, .out = printed.out};
  print_one(&printer, message);
  printer.format = PRINT_CANONICAL;
  print_one(&printer, message);
  ASSERT_PRINTED(&printed, "{\"seq\":6,\"epoch\":7,\"offset\":4096,\"time\":\"2023-11-14T22:13:20.000001Z\",\"message\":{ \"n\" : 3 }}\n"
                           "{\"seq\":6,\"epoch\":7,\"offset\":4096,\"time\":\"2023-11-14T22:13:20.000001Z\",\"message\":"
                           "{ \"n\" : { \"$numberLong\" : \"3\" } }}\n");
  bson_destroy(message);
}

TEST(test_meta_of_a_bundle_has_the_index)
{
  struct printed printed;
  bson_t *message = BCON_NEW("n", BCON_INT64(3));
  printed_begin(&printed);
  struct printer printer = {.format = PRINT_RELAXED, .with_meta = true, .out = printed.out};
  printer_put(&printer, &some_block, 6, 0, bson_get_data(message), message->len);
  printer.with_meta = false;
  printer_put(&printer, &some_block, 6, 1, bson_get_data(message), message->len);
  ASSERT_PRINTED(&printed, "{\"seq\":6,\"index\":0,\"epoch\":7,\"offset\":4096,\"time\":\"2023-11-14T22:13:20.000001Z\",\"message\":"
                           "{ \"n\" : 3 }}\n{ \"n\" : 3 }\n");
  bson_destroy(message);
}

TEST(test_bson_with_meta_is_one_document)
{
  struct printed printed;
  bson_t *message = BCON_NEW("n", BCON_INT64(3));
  printed_begin(&printed);
  struct printer printer = {.format = PRINT_BSON, .with_meta = true, .out = printed.out};
  print_one(&printer, message);
  fclose(printed.out);
  bson_t *expected = BCON_NEW("seq", BCON_INT64(6), "epoch", BCON_INT64(7), "offset", BCON_INT64(4096), "time",
                              BCON_UTF8("2023-11-14T22:13:20.000001Z"), "message", BCON_DOCUMENT(message));
  assert_int_equal(printed.bytes, expected->len);
  assert_memory_equal(printed.text, bson_get_data(expected), expected->len);
  bson_destroy(expected);
  bson_destroy(message);
  free(printed.text);
}

static void print_payloads(struct printer *printer)
{
  bson_t *one = BCON_NEW("payload", BCON_UTF8("one")), *none = BCON_NEW("n", BCON_INT32(1));
  bson_t *binary = BCON_NEW("payload", BCON_BIN(BSON_SUBTYPE_BINARY, (const uint8_t *)"\0\xFF", 2));
  bson_t *number = BCON_NEW("payload", BCON_INT32(4));
  print_one(printer, none);
  print_one(printer, one);
  print_one(printer, none);
  print_one(printer, binary);
  print_one(printer, number);
  bson_destroy(one);
  bson_destroy(none);
  bson_destroy(binary);
  bson_destroy(number);
}

TEST(test_each_payload_ends_with_the_separator)
{
  struct printed printed;
  printed_begin(&printed);
  struct printer printer = {.format = PRINT_PAYLOAD, .separator = "\n", .separator_bytes = 1, .out = printed.out};
  print_payloads(&printer);
  ASSERT_PRINTED(&printed, "one\n\0\xFF\n4\n");
  assert_int_equal(printer.without_payload, 2);
  assert_int_equal(printer.printed, 5);
}

TEST(test_separator_may_hold_a_nul)
{
  struct printed printed;
  printed_begin(&printed);
  struct printer printer = {.format = PRINT_PAYLOAD, .separator = "\0;", .separator_bytes = 2, .out = printed.out};
  print_payloads(&printer);
  ASSERT_PRINTED(&printed, "one\0;\0\xFF\0;4\0;");
}

TEST(test_hex)
{
  struct printed printed;
  bson_t empty = BSON_INITIALIZER;
  printed_begin(&printed);
  struct printer printer = {.format = PRINT_HEX, .out = printed.out};
  print_one(&printer, &empty);
  ASSERT_PRINTED(&printed, "0500000000\n");
}

/* {"s": "a\xFF", "n": 1} and {"s": "a", "\xFE": 1} by hand: libbson would not append them. */
static const uint8_t invalid_string[] = "\x16\0\0\0\x02s\0\x03\0\0\0a\xFF\0\x10n\0\x01\0\0\0";
static const uint8_t invalid_key[] = "\x15\0\0\0\x02s\0\x02\0\0\0a\0\x10\xFE\0\x01\0\0\0";

TEST(test_an_invalid_string_is_mended)
{
  struct printed printed;
  printed_begin(&printed);
  assert_int_equal(json_write(invalid_string, sizeof invalid_string, false, printed.out), JSON_MENDED);
  ASSERT_PRINTED(&printed, "{ \"s\" : \"a" FFFD "\", \"n\" : 1 }");
}

TEST(test_other_invalid_text_is_raw)
{
  struct printed printed;
  printed_begin(&printed);
  assert_int_equal(json_write(invalid_key, sizeof invalid_key, false, printed.out), JSON_RAW);
  ASSERT_PRINTED(&printed, "{\"$pawlRaw\":{\"$binary\":{\"base64\":\"FQAAAAJzAAIAAABhABD+AAEAAAAA\",\"subType\":\"00\"}}}");
  assert_true(json_printable(invalid_key, sizeof invalid_key)); /* not what --verify --deep calls malformed */
}

/* libbson prints only the options that it knows, in its own order. */
TEST(test_a_regex_with_other_options_is_raw)
{
  static const char *const options[][2] = {{"im", NULL}, {"", NULL}, {"gi", "raw"}, {"mi", "raw"}, {"ii", "raw"}};
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    struct printed printed;
    uint8_t document[32] = "\0\0\0\0\x0Br\0a";
    size_t bytes = 9;
    memcpy(document + bytes, options[i][0], strlen(options[i][0]));
    bytes += strlen(options[i][0]) + 2;
    document[0] = (uint8_t)bytes;
    printed_begin(&printed);
    assert_int_equal(json_write(document, bytes, false, printed.out), options[i][1] != NULL ? JSON_RAW : JSON_FAITHFUL);
    fclose(printed.out);
    free(printed.text);
  }
}

TEST(test_malformed_is_raw)
{
  struct printed printed;
  static const uint8_t malformed[] = "\x0A\0\0\0\x02s\0\xFF\xFF"; /* 10 bytes with the NUL: a string without an end */
  printed_begin(&printed);
  assert_int_equal(json_write(malformed, sizeof malformed, true, printed.out), JSON_RAW);
  ASSERT_PRINTED(&printed, "{\"$pawlRaw\":{\"$binary\":{\"base64\":\"CgAAAAJzAP//AA==\",\"subType\":\"00\"}}}");
}

/* In relaxed JSON a date from the year 10000 on is a number: as text some readers would take it for another date, and others for none. */
TEST(test_late_dates)
{
  bson_t *late = BCON_NEW("a", BCON_DATE_TIME(253402300799999), "b", "[", BCON_DATE_TIME(253402300800000), "]", "c", "{", "d",
                          BCON_DATE_TIME(INT64_MAX), "}", "e", BCON_DATE_TIME(-62135596800001));
  struct printed printed;
  printed_begin(&printed);
  assert_int_equal(json_write(bson_get_data(late), late->len, false, printed.out), JSON_FAITHFUL);
  ASSERT_PRINTED(&printed, "{ \"a\" : { \"$date\" : \"9999-12-31T23:59:59.999Z\" }, "
                           "\"b\" : [ { \"$date\" : { \"$numberLong\" : \"253402300800000\" } } ], "
                           "\"c\" : { \"d\" : { \"$date\" : { \"$numberLong\" : \"9223372036854775807\" } } }, "
                           "\"e\" : { \"$date\" : { \"$numberLong\" : \"-62135596800001\" } } }");
  bson_iter_t at;
  printed_begin(&printed);
  assert_true(bson_iter_init_find(&at, late, "c"));
  assert_int_equal(json_write_value(&at, printed.out), JSON_FAITHFUL);
  ASSERT_PRINTED(&printed, "{ \"d\" : { \"$date\" : { \"$numberLong\" : \"9223372036854775807\" } } }");
  bson_destroy(late);
}

/* {"payload": Code("a\0b")} by hand, and the same with invalid UTF-8 beside it. */
static const uint8_t code_with_nul[] = "\x16\0\0\0\x0Dpayload\0\x04\0\0\0a\0b\0";
static const uint8_t code_with_nul_to_mend[] = "\x20\0\0\0\x0Dpayload\0\x04\0\0\0a\0b\0\x02s\0\x03\0\0\0a\xFF\0";

TEST(test_code_with_a_nul)
{
  bson_iter_t at;
  struct printed printed;
  printed_begin(&printed);
  assert_int_equal(json_write(code_with_nul, sizeof code_with_nul, true, printed.out), JSON_FAITHFUL);
  ASSERT_PRINTED(&printed, "{ \"payload\" : { \"$code\" : \"a\\u0000b\" } }");
  printed_begin(&printed);
  assert_true(bson_iter_init_from_data(&at, code_with_nul, sizeof code_with_nul) && bson_iter_next(&at));
  assert_int_equal(json_write_value(&at, printed.out), JSON_FAITHFUL);
  ASSERT_PRINTED(&printed, "{ \"$code\" : \"a\\u0000b\" }");
  printed_begin(&printed);
  assert_int_equal(json_write(code_with_nul_to_mend, sizeof code_with_nul_to_mend, true, printed.out), JSON_RAW);
  ASSERT_PRINTED(&printed, "{\"$pawlRaw\":{\"$binary\":{\"base64\":\"IAAAAA1wYXlsb2FkAAQAAABhAGIAAnMAAwAAAGH/AAA=\",\"subType\":\"00\"}}}");
}

static bson_t *nested(int levels)
{
  bson_t *document = bson_new();
  for (int i = 0; i < levels; i++) {
    bson_t *outer = bson_new();
    bson_append_document(outer, "d", 1, document);
    bson_destroy(document);
    document = outer;
  }
  return document;
}

TEST(test_depth)
{
  struct printed printed;
  bson_t *deepest = nested(JSON_DEPTH_MAX), *deeper = nested(JSON_DEPTH_MAX + 1);
  printed_begin(&printed);
  assert_int_equal(json_write(bson_get_data(deepest), deepest->len, false, printed.out), JSON_FAITHFUL);
  assert_int_equal(json_write(bson_get_data(deeper), deeper->len, false, printed.out), JSON_RAW);
  fclose(printed.out);
  assert_null(strstr(printed.text, "..."));
  free(printed.text);
  bson_destroy(deepest);
  bson_destroy(deeper);
}

TEST(test_times)
{
  char text[TIME_TEXT_SIZE];
  assert_string_equal(time_text(0, text), "1970-01-01T00:00:00.000000Z");
  assert_string_equal(time_text(-1, text), "1969-12-31T23:59:59.999999Z");
  assert_string_equal(time_text(INT64_MAX, text), "9223372036854775807");
  assert_string_equal(time_text(INT64_MIN, text), "-9223372036854775808");
  assert_string_equal(time_text(-62135596800000000, text), "0001-01-01T00:00:00.000000Z");
}

TEST(test_formats)
{
  enum print_format format;
  assert_true(print_format_parse("canonical", &format));
  assert_int_equal(format, PRINT_CANONICAL);
  assert_false(print_format_parse("xml", &format));
  assert_true(print_format_opens(PRINT_PAYLOAD) && print_format_opens(PRINT_CANONICAL) && !print_format_opens(PRINT_BSON));
}

/* {"p": DBPointer("a\0b", 12 times 0), "s": "a\xFF"} */
static const uint8_t pointer_with_nul_to_mend[] = "\x26\0\0\0\x0Cp\0\x04\0\0\0a\0b\0\0\0\0\0\0\0\0\0\0\0\0\0\x02s\0\x03\0\0\0a\xFF\0";

TEST(test_dbpointer_with_a_nul)
{
  struct printed printed;
  printed_begin(&printed);
  assert_int_equal(sizeof pointer_with_nul_to_mend, 0x26);
  assert_int_equal(json_write(pointer_with_nul_to_mend, sizeof pointer_with_nul_to_mend, true, printed.out), JSON_RAW);
  fclose(printed.out);
  free(printed.text);
}
