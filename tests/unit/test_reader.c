/*
 * reader: whatever happens to a file, a reader delivers no wrong message, accepts no changed block, and reports every fault
 * below the committed end as damage.
 */
#include "holder.h"
#include "storage/body.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmocka_range.h"

static struct holder holder;
static struct reading reading;
static struct error error;

enum { BLOCKS_MAX = 64 };
static struct block_marker blocks[BLOCKS_MAX]; /* the blocks of the sample */
static int block_count;

static int64_t block_end(int i)
{
  return blocks[i].offset + FORMAT_MARKER_BYTES + blocks[i].stored_bytes;
}

static void blocks_list(const char *name)
{
  struct reader reader;
  assert_int_equal(reader_open(&reader, DIR, name, NULL, &error), READ_OK);
  for (block_count = 0; reader_next(&reader, &error) == READ_OK; block_count++) {
    assert_true(block_count < BLOCKS_MAX);
    blocks[block_count] = reader.block;
  }
  reader_close(&reader);
}

static int begin(void **state)
{
  (void)state;
  memory_disk_reset();
  holder_init(&holder, "t1");
  return 0;
}

static int finish(void **state)
{
  (void)state;
  if (holder.writer.has_file)
    holder_drop(&holder);
  assert_int_equal(memory_disk_open_files(), 0);
  memory_disk_reset();
  return 0;
}

/* All kinds of blocks, four epochs, two machines, one unclean end. */
static void sample_write(bool zstd)
{
  holder.options.codec_zstd = zstd;
  holder_create(&holder, "first");
  holder_append(&holder, 3);
  holder_append(&holder, zstd ? 30 : 1);
  holder_leave(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 2);
  holder_append(&holder, zstd ? 40 : 1);
  holder_drop(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 2);
  holder_leave(&holder);
  blocks_list("t1.bin");
}

static uint8_t *sample(size_t *size)
{
  uint8_t *bytes = memory_disk_bytes(DIR, "t1.bin", size);
  assert_non_null(bytes);
  return bytes;
}

static void test_reads_all(void **state)
{
  (void)state;
  static const uint8_t kinds[] = {BLOCK_DATA, BLOCK_DATA, BLOCK_CLOSE, BLOCK_PAD,  BLOCK_OPEN,
                                  BLOCK_DATA, BLOCK_DATA, BLOCK_OPEN,  BLOCK_DATA, BLOCK_CLOSE};
  for (int zstd = 0; zstd < 2; zstd++) {
    begin(NULL);
    sample_write(zstd);
    assert_int_equal(block_count, sizeof kinds);
    for (int i = 0; i < block_count; i++)
      assert_int_equal(blocks[i].kind, kinds[i]);
    assert_int_equal(blocks[1].codec, zstd ? CODEC_ZSTD : CODEC_PLAIN);
    for (int offline = 0; offline < 2; offline++) {
      read_segment("t1.bin", offline ? NULL : &holder.committed, false, &reading);
      assert_int_equal(reading.status, READ_END);
      assert_int_equal(reading.messages, zstd ? 77 : 9);
      assert_int_equal(reading.blocks, sizeof kinds);
    }
  }
}

static void test_header_only_and_absent(void **state)
{
  (void)state;
  read_segment("t1.bin", NULL, false, &reading);
  assert_int_equal(reading.status, READ_ABSENT);
  holder_create(&holder, "first");
  read_segment("t1.bin", NULL, false, &reading);
  assert_int_equal(reading.status, READ_END);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.blocks, 0);
}

/* ---- cuts and flips ---- */

static void cut_everywhere(void)
{
  size_t size = 0;
  uint8_t *whole = sample(&size);
  uint8_t *copy = malloc(size);
  assert_non_null(copy);
  memcpy(copy, whole, size);
  for (size_t length = 0; length < size; length++) {
    memory_disk_put(DIR, "cut.bin", copy, length);
    read_segment("cut.bin", &holder.committed, true, &reading);
    assert_int_equal(reading.status, READ_DAMAGED);
    assert_int_equal(reading.messages, 0);
    read_segment("cut.bin", NULL, false, &reading);
    int whole_blocks = 0;
    bool border = length == FORMAT_HEADER_BYTES;
    for (int i = 0; i < block_count && block_end(i) <= (int64_t)length; i++, whole_blocks++)
      border = block_end(i) == (int64_t)length;
    assert_int_equal(reading.status, length < FORMAT_HEADER_BYTES ? READ_DAMAGED : border ? READ_END : READ_TAIL);
    assert_int_equal(reading.blocks, whole_blocks);
  }
  free(copy);
}

static void test_cut_at_every_offset(void **state)
{
  (void)state;
  sample_write(false);
  cut_everywhere();
}

static void test_cut_at_every_offset_zstd(void **state)
{
  (void)state;
  sample_write(true);
  cut_everywhere();
}

/* Whether each seq is either delivered or reported lost. */
static bool all_accounted_for(void)
{
  for (int64_t seq = 1; seq <= holder.committed.seq; seq++)
    if (reading.seen[seq] == 0)
      return false;
  return true;
}

/* Without a ledger a bad block is damage if a whole marker after it has a higher seq. */
static bool loss_is_proved(int bad)
{
  for (int i = bad + 1; i < block_count; i++)
    if (blocks[i].seq > blocks[bad].seq)
      return true;
  return false;
}

static int block_at(size_t offset)
{
  int block = -1;
  while (block + 1 < block_count && blocks[block + 1].offset <= (int64_t)offset)
    block++;
  return block;
}

static void flip_check(size_t at)
{
  int bad = block_at(at);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  assert_int_equal(reading.blocks, bad < 0 ? 0 : bad);
  if (bad < 0)
    return;
  /* A bad body still has its marker, so the loss is known exactly; a bad marker gives only an upper limit. */
  bool in_body = (int64_t)at >= blocks[bad].offset + FORMAT_MARKER_BYTES;
  assert_int_equal(reading.lost_first, blocks[bad].seq);
  assert_int_equal(reading.lost_last, in_body ? blocks[bad].seq + blocks[bad].count - 1 : holder.committed.seq);
}

static void flip_check_passing(size_t at)
{
  int bad = block_at(at);
  if (bad < 0)
    return;
  read_segment("t1.bin", &holder.committed, true, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.damages, 1);
  assert_int_equal(reading.messages, holder.committed.seq - blocks[bad].count);
  assert_true(all_accounted_for());
}

static void flip_check_offline(size_t at)
{
  int bad = block_at(at);
  bool proved = bad < 0 || loss_is_proved(bad);
  read_segment("t1.bin", NULL, false, &reading);
  assert_int_equal(reading.status, proved ? READ_DAMAGED : READ_TAIL);
  assert_int_equal(reading.blocks, bad < 0 ? 0 : bad);
  if (bad < 0 || !proved)
    return;
  read_segment("t1.bin", NULL, true, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.damages, 1);
  assert_true(all_accounted_for());
}

/* Flips one bit of each byte, or (`every_bit`, after the header) each bit and all bits. */
static void flip_everything(bool every_bit)
{
  static const uint8_t flips[] = {1, 2, 4, 8, 16, 32, 64, 128, 0xFF};
  size_t size = 0;
  uint8_t *bytes = sample(&size);
  for (size_t at = 0; at < size; at++)
    for (size_t i = 0; i < sizeof flips; i++)
      if (i == at % sizeof flips || (every_bit && at >= FORMAT_HEADER_BYTES)) {
        bytes[at] ^= flips[i];
        flip_check(at);
        if (i == at % sizeof flips) { /* these cases search, which takes longer */
          flip_check_passing(at);
          flip_check_offline(at);
        }
        bytes[at] ^= flips[i];
      }
}

static void test_flip_every_bit(void **state)
{
  (void)state;
  sample_write(false);
  flip_everything(true);
}

static void test_flip_every_byte_zstd(void **state)
{
  (void)state;
  sample_write(true);
  flip_everything(false);
}

/* ---- without a header ---- */

static enum read_status open_headless(const struct committed *end)
{
  struct reader reader;
  enum read_status status = reader_open_headless(&reader, DIR, "t1.bin", end, &error);
  if (status != READ_OK)
    return status;
  memset(&reading, 0, sizeof reading);
  read_on(&reader, true, &reading);
  reader_close(&reader);
  return READ_OK;
}

/* Block 0 has all values of the header that the blocks need. */
static void test_header_flipped(void **state)
{
  (void)state;
  size_t size = 0;
  sample_write(true);
  uint8_t *bytes = sample(&size);
  for (size_t at = 0; at < FORMAT_HEADER_BYTES; at += 7) {
    bytes[at] ^= 0x20;
    for (int offline = 0; offline < 2; offline++) {
      assert_int_equal(open_headless(offline ? NULL : &holder.committed), READ_OK);
      assert_int_equal(reading.status, READ_END);
      assert_int_equal(reading.damages, 0);
      assert_int_equal(reading.messages, holder.committed.seq);
    }
    bytes[at] ^= 0x20;
  }
}

static void test_header_and_more_flipped(void **state)
{
  (void)state;
  size_t size = 0;
  sample_write(false);
  uint8_t *bytes = sample(&size);
  bytes[100] ^= 1;
  for (int i = 0; i < block_count; i++) {
    uint8_t *byte = &bytes[blocks[i].offset + FORMAT_MARKER_BYTES];
    *byte ^= 1;
    assert_int_equal(open_headless(&holder.committed), READ_OK);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.damages, 1);
    assert_int_equal(reading.messages, holder.committed.seq - blocks[i].count);
    assert_true(all_accounted_for());
    *byte ^= 1;
  }
  /* No byte of block 0's marker may change. */
  for (int i = 0; i < FORMAT_MARKER_BYTES; i++) {
    bytes[FORMAT_HEADER_BYTES + i] ^= 4;
    assert_int_equal(open_headless(NULL), READ_DAMAGED);
    assert_int_equal(open_headless(&holder.committed), READ_DAMAGED);
    bytes[FORMAT_HEADER_BYTES + i] ^= 4;
  }
}

/* Only a damaged file is read so: not another file, nor one without a block. */
static void test_headless_is_refused(void **state)
{
  (void)state;
  size_t size = 0;
  struct reader reader;
  sample_write(false);
  assert_int_equal(open_headless(NULL), READ_DAMAGED);
  assert_contains(error.text, "its header is whole");
  uint8_t *bytes = sample(&size);
  bytes[100] ^= 1;
  struct committed end = holder.committed;
  end.uuid[7] ^= 1;
  assert_int_equal(open_headless(&end), READ_DAMAGED);
  memory_disk_put(DIR, "bare.bin", bytes, FORMAT_HEADER_BYTES + 127);
  assert_int_equal(reader_open_headless(&reader, DIR, "bare.bin", NULL, &error), READ_DAMAGED);
  assert_int_equal(reader_open_headless(&reader, DIR, "none.bin", NULL, &error), READ_ABSENT);
  memory_disk.fail_in[DISK_READ] = 2;
  assert_int_equal(open_headless(NULL), READ_FAILED);
}

/* A valid marker that is not block 0's does not replace the header. */
static void test_headless_takes_block_0_only(void **state)
{
  (void)state;
  size_t size = 0;
  sample_write(false);
  uint8_t *bytes = sample(&size);
  bytes[100] ^= 1;
  for (int i = 0; i < 6; i++) {
    struct block_marker marker = blocks[0];
    marker.offset += i == 1;
    marker.number += i == 2;
    marker.before += i == 3 ? FORMAT_HEADER_BYTES : 0;
    marker.skip += i == 4 ? FORMAT_HEADER_BYTES : 0;
    marker.link += i == 5;
    format_marker_encode(&marker, bytes + FORMAT_HEADER_BYTES);
    assert_int_equal(open_headless(NULL), i == 0 ? READ_OK : READ_DAMAGED);
  }
}

/* Two bad blocks, far apart and side by side: the reader reports the loss exactly. */
static void test_two_damages(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  for (int i = 0; i < 8; i++)
    holder_append(&holder, 2);
  blocks_list("t1.bin");
  size_t size = 0;
  uint8_t *bytes = sample(&size);
  for (int one = 0; one < 8; one++)
    for (int two = one + 1; two < 8; two++)
      for (int where = 0; where < 4; where++) {
        size_t first = (size_t)blocks[one].offset + (where & 1 ? 5 : 140), second = (size_t)blocks[two].offset + (where & 2 ? 5 : 140);
        bytes[first] ^= 1;
        bytes[second] ^= 1;
        read_segment("t1.bin", &holder.committed, true, &reading);
        assert_int_equal(reading.status, READ_END);
        assert_int_equal(reading.messages, 12);
        assert_true(all_accounted_for());
        bytes[first] ^= 1;
        bytes[second] ^= 1;
      }
}

/* ---- blocks of another place ---- */

/* Copies what lies at `from` to `to`, and expects that reading ends there. */
static void misplace(int to, const uint8_t *block, size_t size)
{
  size_t length = 0;
  uint8_t *bytes = sample(&length);
  uint8_t kept[8192];
  memcpy(kept, bytes + blocks[to].offset, size);
  memcpy(bytes + blocks[to].offset, block, size);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  assert_int_equal(reading.blocks, to);
  read_segment("t1.bin", &holder.committed, true, &reading);
  assert_true(all_accounted_for());
  read_segment("t1.bin", NULL, false, &reading);
  assert_true(reading.status == READ_DAMAGED || reading.status == READ_TAIL);
  assert_int_equal(reading.blocks, to);
  memcpy(bytes + blocks[to].offset, kept, size);
}

static void test_misplaced_blocks(void **state)
{
  (void)state;
  uint8_t copy[8192];
  size_t size = 0;
  holder_create(&holder, "first");
  for (int i = 0; i < 6; i++)
    holder_append(&holder, 1);
  blocks_list("t1.bin");
  for (int from = 0; from < 6; from++) {
    size = (size_t)(block_end(from) - blocks[from].offset);
    memcpy(copy, sample(&(size_t){0}) + blocks[from].offset, size);
    for (int to = 0; to < 6; to++)
      if (to != from)
        misplace(to, copy, size);
  }
}

/* The same messages at the same offsets in a file of another uuid. */
static void test_foreign_blocks(void **state)
{
  (void)state;
  struct holder other;
  size_t size = 0;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  holder_append(&holder, 1);
  blocks_list("t1.bin");
  holder_init(&other, "t2");
  other.epoch = 40;
  holder_create(&other, "first");
  holder_append(&other, 1);
  holder_append(&other, 1);
  holder_drop(&other);
  const uint8_t *foreign = memory_disk_bytes(DIR, "t2.bin", &size);
  uint8_t copy[8192];
  for (int i = 0; i < 2; i++) {
    memcpy(copy, foreign + blocks[i].offset, (size_t)(block_end(i) - blocks[i].offset));
    misplace(i, copy, (size_t)(block_end(i) - blocks[i].offset));
  }
  read_segment("t2.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  assert_contains(reading.error.text, "uuid");
}

/* A message that holds a copy of the file's first block: the reader does not take it for a block when what is around it is damaged. */
static void test_block_inside_a_message(void **state)
{
  (void)state;
  uint8_t message[1024] = {0}, inside[512];
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  blocks_list("t1.bin");
  size_t size = 0, taken = (size_t)(block_end(0) - blocks[0].offset), total = 4 + taken + 1;
  memcpy(inside, sample(&size) + blocks[0].offset, taken);
  message[0] = (uint8_t)total;
  message[1] = (uint8_t)(total >> 8);
  memcpy(message + 4, inside, taken);
  struct block_marker marker = forge_marker(&holder, BLOCK_DATA);
  marker.count = marker.items = 1;
  forge_block(&holder, &marker, message, total);
  holder_append(&holder, 1);
  sample(&size)[marker.offset + 20] ^= 1;
  read_segment("t1.bin", &holder.committed, true, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.messages, 2);
  assert_int_equal(reading.seen[2], 2);
}

/* ---- the rules, one by one ---- */

static uint8_t message[MESSAGE_BYTES_MAX];

/* Three DATA blocks and the marker of a fourth, for one message. */
static struct block_marker fourth(int kind)
{
  finish(NULL);
  begin(NULL);
  holder_create(&holder, "first");
  holder_append(&holder, 2);
  holder_append(&holder, 1);
  holder_append(&holder, 1);
  struct block_marker marker = forge_marker(&holder, kind);
  if (kind == BLOCK_DATA)
    marker.count = marker.items = 1;
  return marker;
}

static void fourth_read(struct block_marker *marker)
{
  size_t size = message_make(5, message);
  forge_block(&holder, marker, message, size);
  read_segment("t1.bin", &holder.committed, false, &reading);
}

#define REFUSED(kind, change, says)                            \
  do {                                                         \
    struct block_marker marker = fourth(kind);                 \
    change;                                                    \
    fourth_read(&marker);                                      \
    if (reading.status != READ_DAMAGED || reading.blocks != 3) \
      fail_msg("%s: taken", #change);                          \
    assert_contains(reading.error.text, says);                 \
  } while (0)

static void test_rules(void **state)
{
  (void)state;
  struct block_marker right = fourth(BLOCK_DATA);
  fourth_read(&right);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.blocks, 4);

  REFUSED(BLOCK_DATA, marker.file_id[7] ^= 1, "another place or file");
  REFUSED(BLOCK_DATA, marker.offset++, "another place or file");
  REFUSED(BLOCK_DATA, marker.before = 4096, "names another block");
  REFUSED(BLOCK_DATA, marker.link ^= 1, "link");
  REFUSED(BLOCK_DATA, marker.link ^= (uint64_t)1 << 63, "link");
  REFUSED(BLOCK_DATA, marker.number++, "number");
  REFUSED(BLOCK_DATA, marker.seq++, "seq");
  REFUSED(BLOCK_DATA, marker.seq--, "seq");
  REFUSED(BLOCK_DATA, marker.time_us--, "time");
  REFUSED(BLOCK_DATA, marker.epoch--, "epoch is below");
  REFUSED(BLOCK_DATA, marker.epoch++, "rises without an OPEN");
  REFUSED(BLOCK_CLOSE, marker.epoch++, "rises without an OPEN");
  REFUSED(200, marker.epoch++, "rises without an OPEN");
  REFUSED(BLOCK_DATA, marker.skip = marker.before, "skip offset");
  REFUSED(BLOCK_DATA, marker.skip = 0, "skip offset");
  REFUSED(BLOCK_DATA, marker.decoded_bytes = 1, "contradict");
  REFUSED(BLOCK_DATA, marker.count = 2, "promised number");
  REFUSED(BLOCK_DATA, marker.count = UINT32_MAX, "promised number");
  REFUSED(BLOCK_DATA, marker.stored_bytes = UINT32_MAX, "body is cut");
  REFUSED(BLOCK_DATA, (marker.codec = CODEC_ZSTD, marker.decoded_bytes = FORMAT_DECODED_BYTES_MAX + 1), "80 MiB");
  REFUSED(BLOCK_DATA, (marker.codec = CODEC_ZSTD, marker.decoded_bytes = 5), "zstd frame");
}
#undef REFUSED

static void test_newer_block(void **state)
{
  (void)state;
  struct block_marker marker = fourth(5);
  fourth_read(&marker);
  assert_int_equal(reading.status, READ_NEWER);
  assert_int_equal(reading.blocks, 3);
  marker = fourth(BLOCK_DATA);
  marker.flags = 0x80;
  fourth_read(&marker);
  assert_int_equal(reading.status, READ_NEWER);
  read_segment("t1.bin", NULL, false, &reading);
  assert_int_equal(reading.status, READ_NEWER);
}

/* For these kinds the reader checks only the chain and the body CRC; the body need not be a document. */
static void test_unknown_kind_passed_over(void **state)
{
  (void)state;
  struct block_marker marker = fourth(200);
  forge_block(&holder, &marker, "\xFF not BSON", 10);
  holder_append(&holder, 1);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.blocks, 5);
  size_t size = 0;
  sample(&size)[marker.offset + FORMAT_MARKER_BYTES] ^= 1;
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
}

/* A PAD may raise the epoch only for the OPEN after it; at the committed end the OPEN may still be missing. */
static void test_epoch_raised_by_pad(void **state)
{
  (void)state;
  static const struct {
    int kind;
    int64_t rise; /* of the block after the PAD, above the PAD's epoch */
    enum read_status status;
  } behind[] = {{BLOCK_OPEN, 0, READ_END},      {BLOCK_OPEN, 1, READ_DAMAGED}, {BLOCK_DATA, 0, READ_DAMAGED},
                {BLOCK_CLOSE, 0, READ_DAMAGED}, {BLOCK_PAD, 0, READ_DAMAGED},  {200, 0, READ_DAMAGED}};
  for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
    struct block_marker pad = fourth(BLOCK_PAD), next;
    pad.epoch++;
    forge_block(&holder, &pad, "\x05\0\0\0", 5);
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, READ_END);
    next = forge_marker(&holder, behind[i].kind);
    next.epoch += behind[i].rise;
    next.count = next.items = behind[i].kind == BLOCK_DATA;
    forge_block(&holder, &next, message, message_make(5, message));
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, behind[i].status);
    /* The same when the reader was placed after the PAD. */
    struct reader reader;
    assert_int_equal(reader_open(&reader, DIR, "t1.bin", &holder.committed, &error), READ_OK);
    assert_int_equal(reader_place_after(&reader, pad.offset, &error), READ_OK);
    assert_int_equal(reader_next(&reader, &error), behind[i].status == READ_END ? READ_OK : READ_DAMAGED);
    reader_close(&reader);
  }
}

/* ---- the committed end ---- */

static void assert_end_refused(struct committed end, const char *text)
{
  read_segment("t1.bin", &end, false, &reading);
  assert_int_equal(reading.status, READ_DAMAGED);
  assert_contains(reading.error.text, text);
}

static void test_end_disagrees(void **state)
{
  (void)state;
  sample_write(false);
  struct committed end = holder.committed;
  end.tail--;
  assert_end_refused(end, "at its committed end");
  end = holder.committed, end.link ^= 1;
  assert_end_refused(end, "at its committed end");
  end = holder.committed, end.seq++;
  assert_end_refused(end, "at its committed end");
  end = holder.committed, end.uuid[15] ^= 1;
  assert_end_refused(end, "uuid");
  end = holder.committed, end.length++;
  assert_end_refused(end, "cut");
  /* Every limit that is not a block's end is damage; a block's end with a wrong tail is damage, too. */
  for (end = holder.committed; end.length >= FORMAT_HEADER_BYTES; end.length--) {
    read_segment("t1.bin", &end, false, &reading);
    assert_int_equal(reading.status, end.length == holder.committed.length ? READ_END : READ_DAMAGED);
  }
}

/* For a reader nothing exists beyond the end. */
static void test_limit_inside(void **state)
{
  (void)state;
  sample_write(false);
  for (int i = 0; i < block_count; i++) {
    struct committed end = holder.committed;
    end.length = block_end(i);
    end.tail = blocks[i].offset;
    end.link = format_marker_link(&blocks[i]);
    end.seq = blocks[i].seq + blocks[i].count - 1;
    read_segment("t1.bin", &end, false, &reading);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.blocks, i + 1);
    assert_int_equal(reading.messages, end.seq);
  }
}

/* Zeros, noise, a torn block, a block of an older epoch after the last valid one: an uncommitted tail, and nothing else. */
static void test_tails(void **state)
{
  (void)state;
  sample_write(false);
  size_t size = 0;
  uint8_t tail[9000] = {0}, *bytes = sample(&size), whole[32768];
  uint64_t random = 7;
  assert_true(size + sizeof tail <= sizeof whole);
  memcpy(whole, bytes, size);
  for (int which = 0; which < 3; which++) {
    for (size_t i = 0; which == 1 && i < sizeof tail; i++)
      tail[i] = (uint8_t)memory_disk_random(&random);
    if (which == 2) /* the first blocks once more */
      memcpy(tail, whole + 4096, 500);
    memcpy(whole + size, tail, sizeof tail);
    memory_disk_put(DIR, "t1.bin", whole, size + sizeof tail);
    read_segment("t1.bin", NULL, false, &reading);
    assert_int_equal(reading.status, READ_TAIL);
    assert_int_equal(reading.messages, holder.committed.seq);
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, READ_END);
  }
}

/* The search finds a whole marker after the damage, wherever it lies relative to the search windows. */
static void test_proof_is_found_anywhere(void **state)
{
  (void)state;
  enum { WINDOW = 1 << 20 };
  uint8_t *large = calloc(1, 2 * WINDOW);
  assert_non_null(large);
  for (int64_t gap = WINDOW - FORMAT_MARKER_BYTES - 2; gap <= WINDOW + 2; gap++) {
    finish(NULL);
    begin(NULL);
    holder_create(&holder, "first");
    size_t size = (size_t)(gap - FORMAT_MARKER_BYTES);
    struct batch batch;
    batch_init(&batch);
    large[0] = (uint8_t)size, large[1] = (uint8_t)(size >> 8), large[2] = (uint8_t)(size >> 16);
    assert_true(batch_add(&batch, large, size, 1));
    assert_int_equal(writer_append(&holder.writer, &batch, holder.now_us, &error), WRITER_OK);
    batch_deinit(&batch);
    holder_append(&holder, 1);
    sample(&size)[4096] ^= 1;
    read_segment("t1.bin", NULL, true, &reading);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.damages, 1);
    assert_int_equal(reading.seen[1], 2);
    assert_int_equal(reading.seen[2], 1);
  }
  free(large);
}

/* A disk error is reported as a disk error: never as damage or an end, whatever the file is like. */
static void failing_reads(const struct committed *end)
{
  static const enum disk_call calls[] = {DISK_OPEN, DISK_READ, DISK_SIZE};
  read_segment("t1.bin", end, false, &reading);
  enum read_status expected = reading.status;
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (int n = 1;; n++) {
      memory_disk.fail_in[calls[i]] = n;
      read_segment("t1.bin", end, false, &reading);
      bool failed = memory_disk.fail_in[calls[i]] == 0;
      memory_disk.fail_in[calls[i]] = 0;
      assert_int_equal(reading.status, failed ? READ_FAILED : expected);
      if (!failed)
        break;
      assert_contains(reading.error.text, "as the test wants");
    }
}

static void test_failing_reads(void **state)
{
  (void)state;
  size_t size = 0;
  sample_write(false);
  failing_reads(&holder.committed);
  failing_reads(NULL);
  uint8_t *bytes = sample(&size);
  bytes[size - 1] ^= 1; /* a torn tail */
  failing_reads(NULL);
  bytes[blocks[1].offset] ^= 1; /* damage */
  failing_reads(NULL);
}

/* ---- live ---- */

static void test_file_grows(void **state)
{
  (void)state;
  struct reader offline, with_end;
  holder_create(&holder, "first");
  assert_int_equal(reader_open(&offline, DIR, "t1.bin", NULL, &error), READ_OK);
  assert_int_equal(reader_open(&with_end, DIR, "t1.bin", &holder.committed, &error), READ_OK);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(reader_next(&offline, &error), READ_END);
    assert_int_equal(reader_next(&with_end, &error), READ_END);
    assert_int_equal(holder_write(&holder, 2), WRITER_OK);
    assert_int_equal(reader_next(&with_end, &error), READ_END); /* not committed yet */
    holder_commit(&holder);
    reader_set_end(&with_end, &holder.committed);
    assert_int_equal(reader_next(&offline, &error), READ_OK);
    assert_int_equal(offline.block.seq, 1 + 2 * i);
    assert_int_equal(reader_next(&with_end, &error), READ_OK);
    assert_int_equal(with_end.block.seq, 1 + 2 * i);
  }
  reader_close(&offline);
  reader_close(&with_end);
}

/* A reader that met a half-written block reads it when it is whole. */
static void test_tail_becomes_a_block(void **state)
{
  (void)state;
  struct reader reader;
  sample_write(false);
  size_t size = 0;
  uint8_t whole[16384];
  const uint8_t *bytes = sample(&size);
  assert_true(size <= sizeof whole);
  memcpy(whole, bytes, size);
  memory_disk_put(DIR, "t1.bin", whole, FORMAT_HEADER_BYTES);
  assert_int_equal(reader_open(&reader, DIR, "t1.bin", NULL, &error), READ_OK);
  struct file file;
  assert_int_equal(file_open(&file, DIR, "t1.bin", FILE_WRITE, 0, &error), FILE_OK);
  for (int i = 0; i < block_count; i++) {
    int64_t half = (blocks[i].offset + block_end(i)) / 2;
    assert_int_equal(file_write(&file, blocks[i].offset, whole + blocks[i].offset, (size_t)(half - blocks[i].offset), &error), FILE_OK);
    assert_int_equal(reader_next(&reader, &error), READ_TAIL);
    assert_int_equal(file_write(&file, half, whole + half, (size_t)(block_end(i) - half), &error), FILE_OK);
    assert_int_equal(reader_next(&reader, &error), READ_OK);
    assert_int_equal(reader.block.offset, blocks[i].offset);
  }
  assert_int_equal(file_close(&file, &error), FILE_OK);
  reader_close(&reader);
}

static uint8_t torn_byte;

/* The writer finishes the block while the reader is about to ask for the file's length. */
static void writer_finishes(enum disk_call call)
{
  if (call != DISK_SIZE || memory_disk.calls[DISK_SIZE] != 2)
    return;
  size_t size = 0;
  sample(&size)[blocks[0].offset] = torn_byte;
}

/* More blocks lie after the half-written block by the time the reader searches: that is not damage. */
static void test_writer_is_faster(void **state)
{
  (void)state;
  struct reader reader;
  size_t size = 0;
  sample_write(false);
  uint8_t *bytes = sample(&size);
  torn_byte = bytes[blocks[0].offset];
  bytes[blocks[0].offset] ^= 1;
  assert_int_equal(reader_open(&reader, DIR, "t1.bin", NULL, &error), READ_OK);
  memory_disk.calls[DISK_SIZE] = 0;
  memory_disk.before = writer_finishes;
  for (int i = 0; i < block_count; i++) {
    assert_int_equal(reader_next(&reader, &error), READ_OK);
    assert_int_equal(reader.block.offset, blocks[i].offset);
  }
  assert_int_equal(reader_next(&reader, &error), READ_END);
  reader_close(&reader);
}

/* ---- seeking ---- */

enum { MANY = 2000, LOGARITHMIC = 66 /* 6·log2(MANY) reads */ };
static struct block_marker many[MANY];
static int many_count;

/* Hundreds of blocks, some changes of epoch between them, several with the same time. */
static void many_write(void)
{
  struct reader reader;
  holder_create(&holder, "first");
  while (holder.committed.seq < 7 * MANY / 2) {
    for (int i = 0; i < 97; i++) {
      holder_append(&holder, 1 + i % 7);
      holder.now_us -= i % 3 == 0 ? 1000000 : 0;
    }
    holder_leave(&holder);
    holder_continue(&holder, holder.epoch % 2 ? "A" : "B");
  }
  holder_append(&holder, 1);
  assert_int_equal(reader_open(&reader, DIR, "t1.bin", &holder.committed, &error), READ_OK);
  for (many_count = 0; reader_next_marker(&reader, &error) == READ_OK; many_count++) {
    assert_true(many_count < MANY);
    assert_null(reader.messages);
    many[many_count] = reader.block;
  }
  reader_close(&reader);
  assert_true(many_count > MANY * 3 / 4);
}

static int many_begin(void **state)
{
  begin(state);
  many_write();
  return 0;
}

/* The next block is `many[expected]`, and it came with few reads. */
static void assert_sought(struct reader *reader, int expected, int64_t reads_before)
{
  int64_t reads = memory_disk.calls[DISK_READ] - reads_before;
  if (reads > LOGARITHMIC)
    fail_msg("%lld reads", (long long)reads);
  assert_int_equal(reader_next(reader, &error), READ_OK);
  assert_int_equal(reader->block.number, expected);
  if (expected + 1 < many_count) { /* the reader knows the skip path of the next block, too */
    assert_int_equal(reader_next(reader, &error), READ_OK);
    assert_int_equal(reader->block.number, expected + 1);
  }
}

static void test_seek_seq(void **state)
{
  (void)state;
  struct reader reader;
  for (int offline = 0; offline < 2; offline++) {
    assert_int_equal(reader_open(&reader, DIR, "t1.bin", offline ? NULL : &holder.committed, &error), READ_OK);
    int expected = 0;
    for (int64_t seq = 0; seq <= holder.committed.seq + 2; seq += offline ? 37 : 1) {
      while (expected + 1 < many_count && many[expected + 1].seq <= seq)
        expected++;
      int64_t reads = memory_disk.calls[DISK_READ];
      assert_int_equal(reader_seek_seq(&reader, seq, &error), READ_OK);
      assert_sought(&reader, expected, reads);
    }
    reader_close(&reader);
  }
}

/* Seeks to the last block that begins before the time: with equal times it must not miss the first of them. */
static void test_seek_time(void **state)
{
  (void)state;
  struct reader reader;
  for (int offline = 0; offline < 2; offline++) {
    assert_int_equal(reader_open(&reader, DIR, "t1.bin", offline ? NULL : &holder.committed, &error), READ_OK);
    for (int i = 0; i < many_count; i += offline ? 23 : 1)
      for (int64_t off = -1; off <= 1; off++) {
        int expected = 0;
        for (int k = 0; k < many_count && many[k].time_us < many[i].time_us + off; k++)
          expected = k;
        int64_t reads = memory_disk.calls[DISK_READ];
        assert_int_equal(reader_seek_time(&reader, many[i].time_us + off, &error), READ_OK);
        assert_sought(&reader, expected, reads);
      }
    reader_close(&reader);
  }
}

/* A damaged marker on the way of a search hides nothing: reading from the found place on reports the loss. */
static void test_seek_over_damage(void **state)
{
  (void)state;
  struct reader reader;
  size_t size = 0;
  uint8_t *bytes = sample(&size);
  for (int bad = 0; bad < many_count; bad += 41) {
    bytes[many[bad].offset + 60] ^= 4;
    assert_int_equal(reader_open(&reader, DIR, "t1.bin", &holder.committed, &error), READ_OK);
    for (int64_t seq = 1; seq <= holder.committed.seq; seq += 1009) {
      assert_int_equal(reader_seek_seq(&reader, seq, &error), READ_OK);
      memset(&reading, 0, sizeof reading);
      reading.last_seq = seq > reader.next_seq ? 0 : reader.next_seq - 1;
      read_on(&reader, true, &reading);
      assert_int_equal(reading.status, READ_END);
      for (int64_t i = seq; i <= holder.committed.seq; i++)
        assert_int_equal(reading.seen[i], i >= many[bad].seq && i < many[bad].seq + many[bad].count ? 2 : 1);
    }
    reader_close(&reader);
    bytes[many[bad].offset + 60] ^= 4;
  }
}

static void test_place_after_each(void **state)
{
  (void)state;
  struct reader walked, placed;
  assert_int_equal(reader_open(&walked, DIR, "t1.bin", &holder.committed, &error), READ_OK);
  assert_int_equal(reader_open(&placed, DIR, "t1.bin", &holder.committed, &error), READ_OK);
  for (int i = 0; i < many_count; i++) {
    assert_int_equal(reader_next(&walked, &error), READ_OK);
    assert_int_equal(reader_place_after(&placed, many[i].offset, &error), READ_OK);
    assert_int_equal(placed.offset, walked.offset);
    assert_int_equal(placed.next_seq, walked.next_seq);
    assert_int_equal(placed.open_epoch, walked.open_epoch);
    assert_int_equal(placed.path.depth, walked.path.depth);
    assert_memory_equal(placed.path.entry, walked.path.entry, (size_t)walked.path.depth * sizeof walked.path.entry[0]);
  }
  assert_int_equal(reader_place_after(&placed, many[5].offset + 1, &error), READ_DAMAGED);
  assert_int_equal(placed.offset, FORMAT_HEADER_BYTES);
  reader_close(&walked);
  reader_close(&placed);
}

static void test_count_items(void **state)
{
  (void)state;
  struct reader reader;
  int64_t items = 0, expected = 0;
  assert_int_equal(reader_open(&reader, DIR, "t1.bin", &holder.committed, &error), READ_OK);
  assert_int_equal(reader_count_items(&reader, &items, &error), READ_OK);
  assert_int_equal(items, 0);
  for (int i = 0; i < many_count; i++) {
    expected += many[i].items;
    assert_int_equal(reader_next(&reader, &error), READ_OK);
    assert_int_equal(reader_count_items(&reader, &items, &error), READ_OK);
    assert_int_equal(items, expected);
  }
  assert_int_equal(expected, holder.committed.items);
  /* The search goes back no further than to the last CLOSE. */
  int64_t reads = memory_disk.calls[DISK_READ];
  assert_int_equal(reader_count_items(&reader, &items, &error), READ_OK);
  assert_uint_in_range(memory_disk.calls[DISK_READ] - reads, 1, 100);
  assert_true(expected > holder.committed.seq);
  reader_close(&reader);
}

/*
 * The first write of an epoch is OPEN and DATA in one. When the OPEN is torn, the whole DATA after it was never committed, and
 * a search must not land on it.
 */
static void test_seek_into_a_torn_write(void **state)
{
  (void)state;
  struct reader reader;
  size_t size = 0;
  holder_create(&holder, "first");
  for (int i = 0; i < 3; i++)
    holder_append(&holder, 2);
  holder_drop(&holder);
  holder_continue(&holder, "A");
  assert_int_equal(holder_write(&holder, 2), WRITER_OK);
  sample(&size)[holder.committed.length + FORMAT_MARKER_BYTES + 12] ^= 1;
  for (int64_t seq = 1; seq <= 9; seq++) {
    assert_int_equal(reader_open(&reader, DIR, "t1.bin", NULL, &error), READ_OK);
    assert_int_equal(reader_seek_seq(&reader, seq, &error), READ_OK);
    memset(&reading, 0, sizeof reading);
    reading.last_seq = reader.next_seq - 1;
    read_on(&reader, false, &reading);
    assert_int_equal(reading.status, READ_TAIL);
    assert_int_equal(reading.last_seq, 6);
    reader_close(&reader);
  }
  holder_drop(&holder);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, finish)
#define TEST_MANY(test) cmocka_unit_test_setup_teardown(test, many_begin, finish)
  const struct CMUnitTest tests[] = {
      TEST(test_reads_all),
      TEST(test_header_only_and_absent),
      TEST(test_cut_at_every_offset),
      TEST(test_cut_at_every_offset_zstd),
      TEST(test_flip_every_bit),
      TEST(test_flip_every_byte_zstd),
      TEST(test_header_flipped),
      TEST(test_header_and_more_flipped),
      TEST(test_headless_is_refused),
      TEST(test_headless_takes_block_0_only),
      TEST(test_two_damages),
      TEST(test_misplaced_blocks),
      TEST(test_foreign_blocks),
      TEST(test_block_inside_a_message),
      TEST(test_rules),
      TEST(test_newer_block),
      TEST(test_unknown_kind_passed_over),
      TEST(test_epoch_raised_by_pad),
      TEST(test_end_disagrees),
      TEST(test_limit_inside),
      TEST(test_tails),
      TEST(test_proof_is_found_anywhere),
      TEST(test_failing_reads),
      TEST(test_file_grows),
      TEST(test_tail_becomes_a_block),
      TEST(test_writer_is_faster),
      TEST_MANY(test_seek_seq),
      TEST_MANY(test_seek_time),
      TEST_MANY(test_seek_over_damage),
      TEST_MANY(test_place_after_each),
      TEST_MANY(test_count_items),
      TEST(test_seek_into_a_torn_write),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
