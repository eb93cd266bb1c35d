/* Reading a file that grows, and seeking in one with many blocks. */
#include "storage_fixture.h"

STORAGE_TEST(test_file_grows)
{
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
STORAGE_TEST(test_tail_becomes_a_block)
{
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
STORAGE_TEST(test_writer_is_faster)
{
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
  storage_begin(state);
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

TEST_WITH(test_seek_seq, many_begin, storage_end)
{
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
TEST_WITH(test_seek_time, many_begin, storage_end)
{
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
TEST_WITH(test_seek_over_damage, many_begin, storage_end)
{
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

TEST_WITH(test_place_after_each, many_begin, storage_end)
{
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

TEST_WITH(test_count_items, many_begin, storage_end)
{
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
 * The first write of an epoch is OPEN and DATA in one, on another machine with a PAD before them. When what is before the DATA is torn, the
 * whole DATA after it was never committed, and a search must not land on it.
 */
STORAGE_TEST(test_seek_into_a_torn_write)
{
  static const char *const machines[] = {"A", "B"};
  struct reader reader;
  size_t size = 0;
  for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
    storage_begin(NULL);
    holder_create(&holder, "first");
    for (int n = 0; n < 3; n++)
      holder_append(&holder, 2);
    holder_drop(&holder);
    holder_continue(&holder, machines[i]);
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
}
