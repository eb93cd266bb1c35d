/* What the writer writes, byte for byte, and the golden files. */
#include "storage_fixture.h"

static int64_t field(int block, const char *name)
{
  bson_iter_t at;
  assert_true(bson_iter_init_find(&at, &documents[block], name) && BSON_ITER_HOLDS_INT64(&at));
  return bson_iter_int64(&at);
}

static const char *field_text(int block, const char *name)
{
  bson_iter_t at;
  assert_true(bson_iter_init_find(&at, &documents[block], name) && BSON_ITER_HOLDS_UTF8(&at));
  return bson_iter_utf8(&at, NULL);
}

STORAGE_TEST(test_first_segment)
{
  struct segment_header header;
  size_t size = 0;
  holder_create(&holder, "first");
  assert_int_equal(format_header_decode(memory_disk_bytes(DIR, "t1.bin", &size), &header, &error), FORMAT_OK);
  assert_int_equal(size, 4096);
  assert_int_equal(header.epoch, 1);
  assert_int_equal(header.first_seq, 1);
  assert_string_equal(header.writer.host, "host");
  assert_string_equal(header.writer.machine, "A");
  assert_string_equal(header.reason, "first");
  assert_string_equal(header.version, PAWL_VERSION);
  assert_int_equal(holder.committed.link, (uint64_t)header.crc << 32);
  assert_int_equal(memory_disk.calls[DISK_SYNC_NEW], 1);
  /* The header names the holder already: no OPEN, whatever the machine. */
  holder_append(&holder, 2);
  holder_append(&holder, 1);
  holder_leave(&holder);
  assert_kinds("t1.bin", "DDC");
}

STORAGE_TEST(test_open_when_continuing)
{
  first_segment(2);
  holder_drop(&holder);
  holder_continue(&holder, "A");
  holder_append(&holder, 2);
  holder_append(&holder, 2);
  assert_kinds("t1.bin", "DODD");
  assert_int_equal(blocks[1].epoch, 2);
  assert_string_equal(field_text(1, "host"), "host");
  assert_string_equal(field_text(1, "machine"), "A");
  assert_int_equal(field(1, "pid"), 77);
  assert_int_equal(field(1, "lease_ms"), 30000);
}

/* OPEN and DATA are one write and one sync. */
STORAGE_TEST(test_one_write)
{
  first_segment(2);
  holder_drop(&holder);
  holder_continue(&holder, "B");
  int64_t writes = memory_disk.calls[DISK_WRITE], syncs = memory_disk.calls[DISK_SYNC];
  holder_append(&holder, 2);
  assert_kinds("t1.bin", "DPOD");
  assert_int_equal(memory_disk.calls[DISK_WRITE] - writes, 1);
  assert_int_equal(memory_disk.calls[DISK_SYNC] - syncs, 1);
}

/* After another machine's bytes the next block begins a new page, wherever they ended. */
STORAGE_TEST(test_pad)
{
  uint8_t document[4096] = {0};
  static const int64_t left[] = {1, 100, 159, 160, 161, 1000, 3900, 4096};
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
    storage_begin(NULL);
    holder_create(&holder, "first");
    /* One block that ends this far before the end of a page. */
    size_t size = (size_t)(2 * 4096 - 128 - left[i]) % 4096;
    size = size < 5 ? size + 4096 : size;
    struct batch batch;
    batch_init(&batch);
    document[0] = (uint8_t)size, document[1] = (uint8_t)(size >> 8);
    assert_true(size <= sizeof document && batch_add(&batch, document, size, 1));
    assert_int_equal(writer_append(&holder.writer, &batch, holder.now_us, &error), WRITER_OK);
    batch_deinit(&batch);
    holder_commit(&holder);
    int64_t end = holder.committed.length;
    assert_int_equal((4096 - end % 4096), left[i]);
    holder_drop(&holder);
    holder_continue(&holder, "B");
    holder_append(&holder, 1);
    assert_kinds("t1.bin", end % 4096 == 0 ? "DOD" : "DPOD");
    const struct block_marker *open = &blocks[block_count - 2];
    assert_int_equal(open->offset, left[i] < 160 ? end + left[i] + 4096 : end + left[i] % 4096);
    holder_drop(&holder);
  }
}

/* One kernel may see a file on a local file system and on a network one: each view has a page cache of its own. */
STORAGE_TEST(test_pad_where_the_view_changes)
{
  static const struct {
    bool vouched, local; /* by the last writer; for this writer */
    const char *kinds;
  } table[] = {{true, true, "DOD"}, {true, false, "DPOD"}, {false, true, "DPOD"}, {false, false, "DOD"}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    storage_begin(NULL);
    first_segment(1);
    holder_drop(&holder);
    holder.vouched = table[i].vouched;
    memory_disk.local = table[i].local;
    assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
    holder_append(&holder, 1);
    assert_kinds("t1.bin", table[i].kinds);
    assert_int_equal(holder.vouched, table[i].local);
    holder_drop(&holder);
  }
}

STORAGE_TEST(test_close_counts)
{
  first_segment(4);
  holder_append(&holder, 3); /* seq 5 is a bundle of three */
  holder_leave(&holder);
  holder_continue(&holder, "A");
  holder_append(&holder, 4); /* seq 10 is one, too */
  holder_leave(&holder);
  assert_kinds("t1.bin", "DDCODC");
  assert_int_equal(blocks[1].count, 3);
  assert_int_equal(blocks[1].items, 5);
  assert_int_equal(field(2, "messages"), 7);
  assert_int_equal(field(2, "items"), 9);
  assert_int_equal(field(5, "messages"), 11);
  assert_int_equal(field(5, "items"), 15);
  assert_int_equal(holder.committed.items, 15);
  /* In a new segment CLOSE counts the messages of that segment. */
  holder_create(&holder, "roll");
  holder_append(&holder, 5);
  holder_leave(&holder);
  assert_kinds("t1@3.bin", "DC");
  assert_int_equal(field(1, "messages"), 5);
  assert_int_equal(field(1, "items"), 7);
  assert_int_equal(holder.committed.items, 22);
}

/* Opening a file does not wait for this count; damage far before the end keeps no message from being written. */
STORAGE_TEST(test_close_counts_late)
{
  size_t size = 0;
  holder_create(&holder, "first");
  for (int i = 0; i < 50; i++)
    holder_append(&holder, 1);
  holder_drop(&holder);
  memory_disk.calls[DISK_READ] = 0;
  holder_continue(&holder, "A");
  assert_true(memory_disk.calls[DISK_READ] < 30);
  holder_append(&holder, 1);
  holder_leave(&holder);
  blocks_list("t1.bin", &holder.committed);
  assert_int_equal(field(52, "messages"), 51);
  assert_int_equal(field(52, "items"), 51 + 2 * 10);
  /* The marker of a block in the middle. */
  holder_continue(&holder, "A");
  holder_append(&holder, 1);
  holder_drop(&holder);
  memory_disk_bytes(DIR, "t1.bin", &size)[blocks[52].offset + 40] ^= 1;
  holder_continue(&holder, "A");
  holder_append(&holder, 1);
  assert_int_equal(writer_append_close(&holder.writer, 1, &holder.error), WRITER_FAILED);
  assert_contains(holder.error.text, "t1.bin");
}

/* Its count goes into those of all later ones. */
STORAGE_TEST(test_a_close_does_not_count_on_a_damaged_one)
{
  size_t size = 0;
  holder_create(&holder, "first");
  holder_append(&holder, 5);
  holder_leave(&holder);
  holder_continue(&holder, "A");
  holder_append(&holder, 1);
  blocks_list("t1.bin", NULL);
  assert_int_equal(blocks[1].kind, BLOCK_CLOSE);
  const char *items = memmem(memory_disk_bytes(DIR, "t1.bin", &size) + blocks[1].offset, 512, "items", 6);
  assert_non_null(items);
  ((char *)(uintptr_t)items)[6] ^= 1;
  assert_int_equal(writer_append_close(&holder.writer, 1, &holder.error), WRITER_FAILED);
  assert_contains(holder.error.text, "t1.bin");
}

STORAGE_TEST(test_roll_header)
{
  struct segment_header header;
  size_t size = 0;
  first_segment(3);
  holder_leave(&holder);
  struct committed end = holder.committed;
  holder_create(&holder, "roll");
  assert_int_equal(format_header_decode(memory_disk_bytes(DIR, "t1@2.bin", &size), &header, &error), FORMAT_OK);
  assert_string_equal(header.reason, "roll");
  assert_string_equal(header.predecessor, "t1.bin");
  assert_memory_equal(header.predecessor_uuid, end.uuid, 16);
  assert_int_equal(header.predecessor_epoch, 1);
  assert_int_equal(header.predecessor_length, end.length);
  assert_int_equal(header.predecessor_tail, end.tail);
  assert_int_equal(header.predecessor_link, end.link);
  assert_int_equal(header.predecessor_seq, 3);
  assert_int_equal(header.first_seq, 4);
  assert_int_equal(header.number, 1);
  assert_int_equal(holder.committed.tail, 0);
  assert_int_equal(holder.committed.seq, 3);
}

/* When a clock is set back, times do not fall: within a file, over epochs, over segments. */
STORAGE_TEST(test_time_never_falls)
{
  struct segment_header header;
  size_t size = 0;
  holder_create(&holder, "first");
  int64_t created_us = holder.now_us;
  holder.now_us = 1000;
  holder_append(&holder, 1);
  holder.now_us = created_us + 5000000;
  holder_append(&holder, 1);
  int64_t latest_us = holder.now_us;
  holder.now_us = 1000;
  holder_leave(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 1);
  assert_kinds("t1.bin", "DDCPOD");
  assert_int_equal(blocks[0].time_us, created_us);
  for (int i = 1; i < block_count; i++)
    assert_int_equal(blocks[i].time_us, latest_us);
  holder_drop(&holder);
  holder_create(&holder, "roll");
  assert_int_equal(format_header_decode(memory_disk_bytes(DIR, "t1@3.bin", &size), &header, &error), FORMAT_OK);
  assert_int_equal(header.created_us, latest_us);
}

STORAGE_TEST(test_zstd_where_it_pays)
{
  holder.options.codec_zstd = true;
  first_segment(1);
  holder_append(&holder, 200);
  holder_append(&holder, 1);
  assert_kinds("t1.bin", "DDD");
  assert_int_equal(blocks[0].codec, CODEC_PLAIN);
  assert_int_equal(blocks[1].codec, CODEC_ZSTD);
  assert_true(blocks[1].stored_bytes <= blocks[1].decoded_bytes - blocks[1].decoded_bytes / 8);
  assert_int_equal(blocks[2].codec, CODEC_PLAIN);
  read_segment("t1.bin", &holder.committed, false, &reading);
  assert_int_equal(reading.messages, 202);
}

/* ---- the golden files ---- */

enum { GOLDEN_BYTES_MAX = 32768 };

/*
 * The bytes as this version would have written them: the version is in the header, and every link depends on the header's
 * checksum. With the version of the golden files nothing changes.
 */
static void golden_update(uint8_t *bytes, size_t size, uint64_t predecessor_link, uint64_t *end_link)
{
  struct segment_header header;
  struct block_marker marker;
  assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
  snprintf(header.version, sizeof header.version, "%s", PAWL_VERSION);
  if (header.predecessor[0] != 0)
    header.predecessor_link = predecessor_link;
  format_header_encode(&header, bytes);
  *end_link = format_header_link(&header);
  for (size_t at = FORMAT_HEADER_BYTES; at < size; at += FORMAT_MARKER_BYTES + marker.stored_bytes) {
    assert_int_equal(format_marker_decode(bytes + at, &marker, &error), FORMAT_OK);
    marker.link = *end_link;
    format_marker_encode(&marker, bytes + at);
    *end_link = format_marker_link(&marker);
  }
}

static void golden_compare(const char *name, uint64_t *link)
{
  char path[64];
  size_t size = 0, written = 0;
  snprintf(path, sizeof path, "golden/%s", name);
  memory_disk_load("golden", name, path);
  uint8_t *golden = memory_disk_bytes("golden", name, &size);
  golden_update(golden, size, *link, link);
  const uint8_t *bytes = memory_disk_bytes(DIR, name, &written);
  assert_int_equal(written, size);
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != golden[i])
      fail_msg("%s differs at %zu", name, i);
}

/*
 * These calls wrote tests/golden once, and it is never written again: a difference means that the format changed. t1: first
 * segment; clean end; another machine (PAD, OPEN); unclean end, same machine (OPEN); roll.
 */
STORAGE_TEST(test_golden)
{
  uint64_t link = 0;
  first_segment(3);
  holder_append(&holder, 3);
  holder_leave(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 2);
  holder_drop(&holder);
  holder_continue(&holder, "B");
  holder_append(&holder, 1);
  holder_append(&holder, 4);
  holder_leave(&holder);
  holder_create(&holder, "roll");
  holder_append(&holder, 2);
  holder_leave(&holder);
  golden_compare("t1.bin", &link);
  golden_compare("t1@4.bin", &link);
  assert_int_equal(link, holder.committed.link);
  read_chain("t1", NULL, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.messages, 15);
}

/* z1.bin has a compressed block. It is only read, because another version of zstd may compress differently. */
STORAGE_TEST(test_golden_zstd)
{
  memory_disk_load(DIR, "z1.bin", "golden/z1.bin");
  struct reader reader;
  assert_int_equal(reader_open(&reader, DIR, "z1.bin", NULL, &error), READ_OK);
  assert_int_equal(reader_next(&reader, &error), READ_OK);
  assert_int_equal(reader.block.codec, CODEC_PLAIN);
  assert_int_equal(reader_next(&reader, &error), READ_OK);
  assert_int_equal(reader.block.codec, CODEC_ZSTD);
  reader_close(&reader);
  read_segment("z1.bin", NULL, false, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.messages, 51);
  assert_int_equal(reading.blocks, 3);
}
