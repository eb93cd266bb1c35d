/* format: known bytes, skip offsets, PAD lengths, names, and the invalid values of headers and markers. */
#include "storage/format.h"
#include "unit_test.h"

#include <stdlib.h>

static struct error error;

static uint8_t *file_load(const char *path, size_t *size)
{
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  fseek(stream, 0, SEEK_END);
  *size = (size_t)ftell(stream);
  rewind(stream);
  uint8_t *bytes = malloc(*size);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, stream), *size);
  fclose(stream);
  return bytes;
}

TEST(test_crc)
{
  assert_int_equal(format_crc("123456789", 9), 0xE3069283);
  assert_int_equal(format_crc("", 0), 0);
  uint8_t zeros[32] = {0}; /* RFC 3720, B.4 */
  assert_int_equal(format_crc(zeros, sizeof zeros), 0x8A9136AA);
}

/* What was decoded from another writer's file encodes to the same bytes again. */
TEST(test_vectors_again)
{
  static const char *const paths[] = {"vectors/t1.bin", "vectors/t1@4.bin", "vectors/t1@5.bin", "vectors/t1@6.bin"};
  int markers = 0;
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    size_t size = 0;
    uint8_t *bytes = file_load(paths[i], &size), again[FORMAT_HEADER_BYTES];
    struct segment_header header;
    struct block_marker marker;
    assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
    /* The info of a header may have other elements; ours decodes to the same values after encoding. */
    struct segment_header copy = header, decoded;
    format_header_encode(&copy, again);
    assert_memory_equal(again, bytes, 252);
    assert_int_equal(format_header_decode(again, &decoded, &error), FORMAT_OK);
    assert_memory_equal(&decoded, &copy, sizeof decoded);
    for (size_t at = FORMAT_HEADER_BYTES; at + FORMAT_MARKER_BYTES <= size; at += FORMAT_MARKER_BYTES + marker.stored_bytes) {
      if (format_marker_decode(bytes + at, &marker, &error) != FORMAT_OK)
        break; /* the uncommitted tail */
      assert_int_equal(marker.offset, at);
      format_marker_encode(&marker, again);
      assert_memory_equal(again, bytes + at, FORMAT_MARKER_BYTES);
      markers++;
    }
    free(bytes);
  }
  assert_true(markers > 20);
}

/* The formula as docs/format.md writes it. */
TEST(test_skip_offsets)
{
  enum { BLOCKS = 2000 };
  static int skip[BLOCKS];
  struct skip_path path = {0};
  for (int n = 0; n < BLOCKS; n++) {
    int p = n - 1;
    if (n > 0)
      skip[n] = p - skip[p] == skip[p] - skip[skip[p]] ? skip[skip[p]] : p;
    /* Block n lies at 4096 + 1000 n; block 0 stores 0. */
    assert_int_equal(skip_path_next(&path), n == 0 ? 0 : 4096 + 1000 * skip[n]);
    skip_path_push(&path, 4096 + 1000 * n);
  }
  /* p - 0 == 0 - 0 holds for block 0 only: block 1 skips to block 0, as block 2 does. */
  assert_int_equal(skip[1], 0);
  assert_int_equal(skip[2], 1);
}

TEST(test_skip_path_is_short)
{
  struct skip_path path = {0};
  int deepest = 0;
  for (int n = 0; n < 1 << 22; n++) {
    skip_path_push(&path, n);
    deepest = path.depth > deepest ? path.depth : deepest;
  }
  assert_uint_in_range(deepest, 22, 44);
}

TEST(test_pad_bytes)
{
  assert_int_equal(format_pad_bytes(4096), 0);
  assert_int_equal(format_pad_bytes(8192), 0);
  assert_int_equal(format_pad_bytes(4097), 4095);
  assert_int_equal(format_pad_bytes(8192 - 160), 160);
  assert_int_equal(format_pad_bytes(8192 - 159), 159 + 4096);
  assert_int_equal(format_pad_bytes(8191), 1 + 4096);
  for (int64_t offset = 4096; offset < 3 * 4096; offset++) {
    int64_t size = format_pad_bytes(offset);
    assert_int_equal((offset + size) % 4096, 0);
    assert_true(size == 0 || (size >= 160 && size < 4096 + 160));
  }
}

TEST(test_names)
{
  char type[TYPE_BYTES_MAX + 1], name[FILE_NAME_SIZE], longest[300];
  int64_t epoch = -1;
  static const struct {
    const char *name, *type;
    int64_t epoch;
  } good[] = {{"t1.bin", "t1", 0},       {"t1@7.bin", "t1", 7},
              {"a.bin.bin", "a.bin", 0}, {"a.b-c_D@10.bin", "a.b-c_D", 10},
              {"_@1.bin", "_", 1},       {"t@999999999999999999.bin", "t", 999999999999999999}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_true(segment_name_parse(good[i].name, type, &epoch));
    assert_string_equal(type, good[i].type);
    assert_int_equal(epoch, good[i].epoch);
    segment_name_make(type, epoch, name);
    assert_string_equal(name, good[i].name);
  }
  static const char *const bad[] = {"",          ".bin",       "t1",        "t1.bi",         "t1.bin.tmp",
                                    "@1.bin",    "t1@.bin",    "t1@0.bin",  "t1@01.bin",     "t1@-1.bin",
                                    "t1@+1.bin", "t1@1@2.bin", "t1@1x.bin", "t1@ 1.bin",     "../t1.bin",
                                    "/t1.bin",   "a/t1.bin",   "-t.bin",    ".t.bin",        "t 1.bin",
                                    "t1.BIN",    "t\n.bin",    "..bin",     "t\xc3\xa4.bin", "t@1000000000000000000.bin",
                                    "t1@1.bin ", "t1@0x1.bin"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    if (segment_name_parse(bad[i], type, &epoch))
      fail_msg("%s was taken for a segment", bad[i]);
  memset(longest, 'x', sizeof longest);
  strcpy(longest + 128, ".bin");
  assert_true(segment_name_parse(longest, type, &epoch));
  memset(longest, 'x', sizeof longest);
  strcpy(longest + 129, ".bin");
  assert_false(segment_name_parse(longest, type, &epoch));
  strcpy(longest + 290, ".bin");
  memset(longest, 'x', 290);
  assert_false(segment_name_parse(longest, type, &epoch));
}

/* ---- headers ---- */

static struct segment_header header_example(void)
{
  struct segment_header header = {.uuid = {1, 2, 3}, .epoch = 4, .first_seq = 11, .created_us = 5, .number = 1, .type = "t1"};
  memcpy(header.predecessor_uuid, "predecessor uuid", 16);
  header.predecessor_epoch = 3;
  header.predecessor_length = 5000;
  header.predecessor_seq = 10;
  header.predecessor_link = UINT64_MAX;
  header.predecessor_tail = 4500;
  strcpy(header.predecessor, "t1.bin");
  strcpy(header.writer.host, "h");
  strcpy(header.reason, "roll");
  return header;
}

static uint8_t header_bytes[FORMAT_HEADER_BYTES];

static enum format_status header_status(struct segment_header header)
{
  struct segment_header decoded;
  format_header_encode(&header, header_bytes);
  return format_header_decode(header_bytes, &decoded, &error);
}

/* Sets one byte and corrects the CRC, as a program that writes invalid values would. */
static enum format_status header_status_with(struct segment_header header, size_t at, uint8_t value)
{
  struct segment_header decoded;
  uint8_t covered[FORMAT_HEADER_BYTES - 4];
  format_header_encode(&header, header_bytes);
  header_bytes[at] = value;
  memcpy(covered, header_bytes, 252);
  memcpy(covered + 252, header_bytes + 256, FORMAT_HEADER_BYTES - 256);
  uint32_t crc = format_crc(covered, sizeof covered);
  for (int i = 0; i < 4; i++)
    header_bytes[252 + i] = (uint8_t)(crc >> 8 * i);
  return format_header_decode(header_bytes, &decoded, &error);
}

TEST(test_header_known_bytes)
{
  struct segment_header header = header_example();
  format_header_encode(&header, header_bytes);
  assert_memory_equal(header_bytes, "\x00\x10\x00\x00\x05_pawl\x00\xF0\x00\x00\x00\x80\x01\x00\x0C\x00", 20);
  assert_memory_equal(header_bytes + 48, "\x04\0\0\0\0\0\0\0\x0B\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0predecessor uuid\x03",
                      49);
  assert_memory_equal(header_bytes + 104, "\x88\x13\0\0\0\0\0\0\x0A\0\0\0\0\0\0\0\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x94\x11", 26);
  assert_memory_equal(header_bytes + 256, "\x03info\0", 6);
  assert_int_equal(header_bytes[4095], 0);
}

TEST(test_header_newer)
{
  struct segment_header header = header_example();
  assert_int_equal(header_status(header), FORMAT_OK);
  assert_int_equal(header_status_with(header, 16, 2), FORMAT_NEWER);
  header.incompat = 0x80000000;
  assert_int_equal(header_status(header), FORMAT_NEWER);
  /* These two words do not stop a reader. */
  header.incompat = 0;
  header.ro_compat = 1;
  header.compat = 0xFFFFFFFF;
  assert_int_equal(header_status(header), FORMAT_OK);
}

TEST(test_header_contradictions)
{
  static const struct {
    size_t at;
    uint8_t value;
  } bytes[] = {{17, 1},     {18, 13},    {19, 1},     {55, 0x80}, {71, 0x80}, {79, 0xFF}, {103, 0x80},
               {111, 0x80}, {119, 0x80}, {135, 0x80}, {136, 1},   {251, 1},   {256, 0x02}};
  for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
    if (header_status_with(header_example(), bytes[i].at, bytes[i].value) != FORMAT_INVALID)
      fail_msg("a header with %02x at %zu was taken", bytes[i].value, bytes[i].at);

#define INVALID(change)                              \
  do {                                               \
    struct segment_header header = header_example(); \
    change;                                          \
    if (header_status(header) != FORMAT_INVALID)     \
      fail_msg("taken: %s", #change);                \
  } while (0)
  INVALID(header.first_seq = 0);
  INVALID(header.first_seq = 12);
  INVALID(header.number = 0);
  INVALID(header.predecessor_epoch = 4);
  INVALID(header.predecessor_length = 4095);
  INVALID(header.predecessor_tail = 5000);
  INVALID(strcpy(header.predecessor, "t2.bin"));
  INVALID(strcpy(header.predecessor, "d/t1.bin"));
  INVALID(strcpy(header.predecessor, "/t1.bin"));
  INVALID(strcpy(header.predecessor, "../t1.bin"));
  INVALID(strcpy(header.predecessor, "t1@03.bin"));
  INVALID(strcpy(header.predecessor, "t1.tmp"));
  INVALID(strcpy(header.predecessor, "")); /* but the fields of a predecessor are set */
  INVALID((strcpy(header.predecessor, ""), header.number = 0, header.first_seq = 1));
#undef INVALID
}

TEST(test_header_without_predecessor)
{
  struct segment_header first = {.epoch = 1, .first_seq = 1, .type = "t1"};
  assert_int_equal(header_status(first), FORMAT_OK);
  first.number = 1;
  assert_int_equal(header_status(first), FORMAT_INVALID);
  first.number = 0;
  first.first_seq = 2;
  assert_int_equal(header_status(first), FORMAT_INVALID);
}

/* The longest value of every field must fit. */
TEST(test_header_full)
{
  struct segment_header header = header_example(), decoded;
  memset(header.type, 't', sizeof header.type - 1);
  segment_name_make(header.type, 999999999999999999, header.predecessor);
  memset(header.writer.host, 'h', sizeof header.writer.host - 1);
  memset(header.writer.machine, 'm', sizeof header.writer.machine - 1);
  memset(header.version, 'v', sizeof header.version - 1);
  memset(header.reason, 'r', sizeof header.reason - 1);
  format_header_encode(&header, header_bytes);
  assert_int_equal(format_header_decode(header_bytes, &decoded, &error), FORMAT_OK);
  assert_memory_equal(&decoded, &header, sizeof header);
}

TEST(test_header_flips)
{
  struct segment_header header = header_example(), decoded;
  format_header_encode(&header, header_bytes);
  for (size_t bit = 0; bit < 8 * FORMAT_HEADER_BYTES; bit++) {
    header_bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (format_header_decode(header_bytes, &decoded, &error) != FORMAT_INVALID)
      fail_msg("bit %zu", bit);
    header_bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}

/* ---- markers ---- */

static struct block_marker marker_example(void)
{
  return (struct block_marker){.kind = BLOCK_DATA,
                               .stored_bytes = 0x01020304,
                               .decoded_bytes = 0x01020304,
                               .count = 2,
                               .items = 6,
                               .file_id = "file_id",
                               .offset = 0x0102030405060708,
                               .epoch = 3,
                               .seq = 9,
                               .time_us = 10,
                               .before = 11,
                               .skip = 12,
                               .link = 0xF1F2F3F4F5F6F7F8,
                               .number = 13,
                               .body_crc = 0xA1A2A3A4};
}

static uint8_t marker_bytes[FORMAT_MARKER_BYTES];

/* Changes one byte and corrects the CRC. */
static enum format_status marker_status_with(struct block_marker marker, size_t at, uint8_t value)
{
  struct block_marker decoded;
  format_marker_encode(&marker, marker_bytes);
  marker_bytes[at] = value;
  uint32_t crc = format_crc(marker_bytes, 120);
  for (int i = 0; i < 4; i++)
    marker_bytes[120 + i] = (uint8_t)(crc >> 8 * i);
  return format_marker_decode(marker_bytes, &decoded, &error);
}

TEST(test_marker_known_bytes)
{
  struct block_marker marker = marker_example();
  format_marker_encode(&marker, marker_bytes);
  static const uint8_t expected[120] = "\x80\0\0\0\x05_pawl\0\x6F\0\0\0\x80"
                                       "\x01\x01\0\0\x04\x03\x02\x01\x04\x03\x02\x01\x02\0\0\0"
                                       "file_id\0\x08\x07\x06\x05\x04\x03\x02\x01\x03\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0"
                                       "\x0A\0\0\0\0\0\0\0\x0B\0\0\0\0\0\0\0\x0C\0\0\0\0\0\0\0\xF8\xF7\xF6\xF5\xF4\xF3\xF2\xF1"
                                       "\x0D\0\0\0\xA4\xA3\xA2\xA1\x06\0\0\0";
  assert_memory_equal(marker_bytes, expected, sizeof expected);
  assert_true(format_marker_begins(marker_bytes));
  assert_int_equal(format_marker_link(&marker), (uint64_t)format_crc(marker_bytes, 120) << 32 | 0xA1A2A3A4);
}

TEST(test_marker_newer)
{
  assert_int_equal(marker_status_with(marker_example(), 16, 1), FORMAT_OK);
  assert_int_equal(marker_status_with(marker_example(), 16, 2), FORMAT_NEWER);
  assert_int_equal(marker_status_with(marker_example(), 16, 0), FORMAT_NEWER);
  assert_int_equal(marker_status_with(marker_example(), 17, 0), FORMAT_NEWER);
  assert_int_equal(marker_status_with(marker_example(), 17, 5), FORMAT_NEWER);
  assert_int_equal(marker_status_with(marker_example(), 17, 127), FORMAT_NEWER);
  assert_int_equal(marker_status_with(marker_example(), 18, 2), FORMAT_NEWER);
  assert_int_equal(marker_status_with(marker_example(), 19, 1), FORMAT_NEWER);
}

TEST(test_marker_contradictions)
{
  static const struct {
    size_t at;
    uint8_t value;
  } bytes[] = {{20, 5},    {28, 0},    {47, 0x80}, {55, 0x80}, {63, 0x80}, {56, 0}, {71, 0x80},
               {79, 0x80}, {87, 0x80}, {108, 1},   {119, 1},   {124, 1},   {127, 1}};
  for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
    if (marker_status_with(marker_example(), bytes[i].at, bytes[i].value) != FORMAT_INVALID)
      fail_msg("a marker with %02x at %zu was taken", bytes[i].value, bytes[i].at);
}

/* Blocks without messages have a count of zero. */
TEST(test_marker_without_messages)
{
  static const uint8_t kinds[] = {BLOCK_OPEN, BLOCK_CLOSE, BLOCK_PAD, 128, 255};
  struct block_marker decoded, marker = marker_example();
  marker.count = marker.items = 0;
  for (size_t i = 0; i < sizeof kinds; i++) {
    marker.kind = kinds[i];
    format_marker_encode(&marker, marker_bytes);
    assert_int_equal(format_marker_decode(marker_bytes, &decoded, &error), FORMAT_OK);
    assert_int_equal(marker_status_with(marker, 28, 1), FORMAT_INVALID);  /* count */
    assert_int_equal(marker_status_with(marker, 104, 1), FORMAT_INVALID); /* items */
    assert_int_equal(marker_status_with(marker, 18, 1), FORMAT_INVALID);  /* codec */
    assert_int_equal(marker_status_with(marker, 24, 5), FORMAT_INVALID);  /* decoded length */
  }
}

TEST(test_marker_flips)
{
  struct block_marker marker = marker_example(), decoded;
  format_marker_encode(&marker, marker_bytes);
  for (size_t bit = 0; bit < 8 * FORMAT_MARKER_BYTES; bit++) {
    marker_bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    if (format_marker_decode(marker_bytes, &decoded, &error) != FORMAT_INVALID)
      fail_msg("bit %zu", bit);
    marker_bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
  }
}
