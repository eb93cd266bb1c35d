/*
 * reader: whatever happens to a file, a reader delivers no wrong message, accepts no changed block, and reports every fault
 * below the committed end as damage.
 */
#include "storage_fixture.h"

#include <stdlib.h>

STORAGE_TEST(test_reads_all)
{
  static const uint8_t kinds[] = {BLOCK_DATA, BLOCK_DATA, BLOCK_CLOSE, BLOCK_PAD,  BLOCK_OPEN,
                                  BLOCK_DATA, BLOCK_DATA, BLOCK_OPEN,  BLOCK_DATA, BLOCK_CLOSE};
  for (int zstd = 0; zstd < 2; zstd++) {
    storage_begin(NULL);
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

STORAGE_TEST(test_header_only_and_absent)
{
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

STORAGE_TEST(test_cut_at_every_offset)
{
  sample_write(false);
  cut_everywhere();
}

STORAGE_TEST(test_cut_at_every_offset_zstd)
{
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

STORAGE_TEST(test_flip_every_bit)
{
  sample_write(false);
  flip_everything(true);
}

STORAGE_TEST(test_flip_every_byte_zstd)
{
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
STORAGE_TEST(test_header_flipped)
{
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

STORAGE_TEST(test_header_and_more_flipped)
{
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
STORAGE_TEST(test_headless_is_refused)
{
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
STORAGE_TEST(test_headless_takes_block_0_only)
{
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
/* An older block that lies there is not taken: what follows has no lower epoch, number, time or block before it than the last known one. */
STORAGE_TEST(test_what_is_older_does_not_follow_damage)
{
  for (int which = 0; which < 5; which++) {
    storage_begin(NULL);
    sample_write(false);
    size_t size = 0;
    uint8_t *bytes = sample(&size);
    struct block_marker stale = blocks[6];
    assert_true(blocks[5].kind == BLOCK_DATA && stale.kind == BLOCK_DATA && stale.epoch == 2 && stale.count == 1);
    bytes[blocks[5].offset + 5] ^= 1;
    if (which == 0)
      stale.epoch = 1;
    else if (which == 1)
      stale.number = blocks[4].number;
    else if (which == 2)
      stale.time_us = blocks[4].time_us - 1;
    else if (which == 3)
      stale.before = blocks[3].offset;
    else
      stale.seq = blocks[5].seq - 1;
    format_marker_encode(&stale, bytes + stale.offset);
    read_segment("t1.bin", &holder.committed, true, &reading);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.damages, 1);
    assert_int_equal(reading.seen[blocks[6].seq], 2);
    assert_true(all_accounted_for());
  }
}

STORAGE_TEST(test_two_damages)
{
  holder_create(&holder, "first");
  for (int i = 0; i < 8; i++)
    holder_append(&holder, 2);
  blocks_list("t1.bin", NULL);
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

/* Without a ledger: what proves the first loss lies before the second, which has a proof of its own. */
STORAGE_TEST(test_two_damages_offline)
{
  size_t size = 0;
  sample_write(false);
  uint8_t *bytes = sample(&size);
  bytes[blocks[1].offset + FORMAT_MARKER_BYTES + 12] ^= 1;
  bytes[blocks[2].offset + 5] ^= 1;
  read_segment("t1.bin", NULL, true, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.damages, 2);
  assert_true(all_accounted_for());
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

STORAGE_TEST(test_misplaced_blocks)
{
  uint8_t copy[8192];
  size_t size = 0;
  holder_create(&holder, "first");
  for (int i = 0; i < 6; i++)
    holder_append(&holder, 1);
  blocks_list("t1.bin", NULL);
  for (int from = 0; from < 6; from++) {
    size = (size_t)(block_end(from) - blocks[from].offset);
    memcpy(copy, sample(&(size_t){0}) + blocks[from].offset, size);
    for (int to = 0; to < 6; to++)
      if (to != from)
        misplace(to, copy, size);
  }
}

/* The same messages at the same offsets in a file of another uuid. */
STORAGE_TEST(test_foreign_blocks)
{
  struct holder other;
  size_t size = 0;
  first_segment(1);
  holder_append(&holder, 1);
  blocks_list("t1.bin", NULL);
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
STORAGE_TEST(test_block_inside_a_message)
{
  uint8_t message[1024] = {0}, inside[512];
  first_segment(1);
  blocks_list("t1.bin", NULL);
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
