/* writer: what it writes, byte for byte; what it reports when the disk fails; and that a reader always reads back what was committed. */
#include "holder.h"

#include <bson/bson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct holder holder;
static struct reading reading;
static struct error error;

enum { BLOCKS_MAX = 64 };
static struct block_marker blocks[BLOCKS_MAX];
static bson_t documents[BLOCKS_MAX]; /* the bodies of blocks without messages */
static int block_count;

static void blocks_forget(void)
{
  for (int i = 0; i < block_count; i++)
    if (blocks[i].kind != BLOCK_DATA)
      bson_destroy(&documents[i]);
  block_count = 0;
}

static void blocks_list(const char *name)
{
  struct reader reader;
  blocks_forget();
  assert_int_equal(reader_open(&reader, DIR, name, &holder.committed, &error), READ_OK);
  for (; reader_next(&reader, &error) == READ_OK; block_count++) {
    assert_true(block_count < BLOCKS_MAX);
    blocks[block_count] = reader.block;
    bson_t view;
    if (reader.block.kind == BLOCK_DATA)
      continue;
    assert_true(bson_init_static(&view, reader.messages, reader.messages_bytes));
    bson_copy_to(&view, &documents[block_count]);
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
  blocks_forget();
  if (holder.writer.has_file)
    holder_drop(&holder);
  assert_int_equal(memory_disk_open_files(), 0);
  memory_disk_reset();
  return 0;
}

static int64_t file_length(const char *name)
{
  size_t size = 0;
  assert_non_null(memory_disk_bytes(DIR, name, &size));
  return (int64_t)size;
}

static bool exists(const char *name)
{
  size_t size = 0;
  return memory_disk_bytes(DIR, name, &size) != NULL;
}

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

/* The file's blocks, as one letter each. */
static void assert_kinds(const char *name, const char *expected)
{
  char kinds[BLOCKS_MAX + 1] = "";
  blocks_list(name);
  for (int i = 0; i < block_count; i++)
    kinds[i] = "?DOCP"[blocks[i].kind];
  assert_string_equal(kinds, expected);
}

/* ---- what is written ---- */

static void test_first_segment(void **state)
{
  (void)state;
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

static void test_open_when_continuing(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 2);
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
static void test_one_write(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 2);
  holder_drop(&holder);
  holder_continue(&holder, "B");
  int64_t writes = memory_disk.calls[DISK_WRITE], syncs = memory_disk.calls[DISK_SYNC];
  holder_append(&holder, 2);
  assert_kinds("t1.bin", "DPOD");
  assert_int_equal(memory_disk.calls[DISK_WRITE] - writes, 1);
  assert_int_equal(memory_disk.calls[DISK_SYNC] - syncs, 1);
}

/* After another machine's bytes the next block begins a new page, wherever they ended. */
static void test_pad(void **state)
{
  (void)state;
  uint8_t document[4096] = {0};
  static const int64_t left[] = {1, 100, 159, 160, 161, 1000, 3900, 4096};
  for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
    begin(NULL);
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
static void test_pad_where_the_view_changes(void **state)
{
  (void)state;
  static const struct {
    bool vouched, local; /* by the last writer; for this writer */
    const char *kinds;
  } table[] = {{true, true, "DOD"}, {true, false, "DPOD"}, {false, true, "DPOD"}, {false, false, "DOD"}};
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    begin(NULL);
    holder_create(&holder, "first");
    holder_append(&holder, 1);
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

static void test_close_counts(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 4);
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
static void test_close_counts_late(void **state)
{
  (void)state;
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
  blocks_list("t1.bin");
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

static void test_roll_header(void **state)
{
  (void)state;
  struct segment_header header;
  size_t size = 0;
  holder_create(&holder, "first");
  holder_append(&holder, 3);
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
static void test_time_never_falls(void **state)
{
  (void)state;
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

static void test_zstd_where_it_pays(void **state)
{
  (void)state;
  holder.options.codec_zstd = true;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
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

/* ---- a disk that fails ---- */

/* Each call on the way to a commit fails once; the ledger's end stays unchanged, and the next epoch continues from there. */
static void test_each_failure_once(void **state)
{
  (void)state;
  static const struct {
    enum disk_call call;
    size_t written;
  } failures[] = {{DISK_WRITE, 0}, {DISK_WRITE, 1}, {DISK_WRITE, 130}, {DISK_WRITE, SIZE_MAX}, {DISK_SYNC, 0}, {DISK_PLACE, 0}};
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
    begin(NULL);
    holder_create(&holder, "first");
    holder_append(&holder, 3);
    memory_disk.failed_write_bytes = failures[i].written;
    memory_disk.fail_in[failures[i].call] = 1;
    assert_int_equal(holder_write(&holder, 2), WRITER_FAILED);
    assert_contains(holder.error.text, "as the test wants");
    holder_drop(&holder);
    holder_continue(&holder, "A");
    assert_int_equal(file_length("t1.bin"), holder.committed.length);
    holder_append(&holder, 2);
    read_segment("t1.bin", &holder.committed, false, &reading);
    assert_int_equal(reading.status, READ_END);
    assert_int_equal(reading.messages, 5);
    holder_drop(&holder);
  }
}

static void test_close_of_the_segment_fails(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  memory_disk.fail_in[DISK_WRITE] = 1;
  assert_int_equal(writer_append_close(&holder.writer, holder.now_us, &error), WRITER_FAILED);
  memory_disk.fail_in[DISK_CLOSE] = 1;
  assert_int_equal(writer_close(&holder.writer, &error), WRITER_FAILED);
  assert_contains(error.text, "closing t1.bin");
  assert_false(holder.writer.has_file);
}

/* The writer detects a full disk before it writes a byte; when there is room again the same epoch goes on. */
static void test_no_space(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  int64_t writes = memory_disk.calls[DISK_WRITE];
  struct committed end = holder.writer.end;
  for (int64_t space = 0; space <= 64 * 1024; space += 16 * 1024) {
    memory_disk.free_bytes = space;
    assert_int_equal(holder_write(&holder, 2), WRITER_NO_SPACE);
    assert_contains(holder.error.text, "no space in d");
    assert_int_equal(writer_append_close(&holder.writer, 0, &error), WRITER_NO_SPACE);
  }
  assert_memory_equal(&holder.writer.end, &end, sizeof end);
  assert_int_equal(memory_disk.calls[DISK_WRITE], writes);
  memory_disk.free_bytes = 1 << 20;
  holder_append(&holder, 2);
  holder_leave(&holder);
  assert_kinds("t1.bin", "DDC");

  memory_disk.free_bytes = 1000;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(writer_create(&holder.writer, "roll", end.uuid, 0, 0, &error), WRITER_NO_SPACE);
  assert_false(exists("t1@2.bin"));
  assert_true(holder.writer.has_file); /* the old one may still be continued */
}

/* The writer makes a segment only where its first block has room, too. */
static void test_room_for_a_header_alone(void **state)
{
  (void)state;
  enum { BLOCK = 300000 };
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  holder_drop(&holder);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  for (memory_disk.free_bytes = 4096; memory_disk.free_bytes < BLOCK + 64 * 1024; memory_disk.free_bytes += 30000) {
    assert_int_equal(writer_create(&holder.writer, "unclean", holder.committed.uuid, BLOCK, 0, &error), WRITER_NO_SPACE);
    assert_contains(error.text, "no space in d");
    assert_false(exists("t1@2.bin"));
  }
  memory_disk.free_bytes = 4096 + 8192 + BLOCK + 64 * 1024;
  assert_int_equal(writer_create(&holder.writer, "unclean", (const uint8_t *)"a uuid like none", BLOCK, 0, &error), WRITER_OK);
}

/* There was space at the check, and there is none at the write. */
static void test_space_goes_meanwhile(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  memory_disk.free_bytes = 80 * 1024;
  struct batch batch = messages_batch(1, 1);
  static uint8_t large[60000] = {0x60, 0xEA};
  assert_true(batch_add(&batch, large, sizeof large, 1));
  assert_int_equal(writer_append(&holder.writer, &batch, 0, &error), WRITER_NO_SPACE);
  memory_disk.free_bytes = 1 << 20;
  memory_disk.failed_write_bytes = 30000;
  memory_disk.fail_in[DISK_WRITE] = 1;
  assert_int_equal(writer_append(&holder.writer, &batch, 0, &error), WRITER_FAILED);
  batch_deinit(&batch);
  assert_int_equal(file_length("t1.bin"), 4096 + 30000);
}

/* ---- names ---- */

static enum writer_status create(const char *reason)
{
  return writer_create(&holder.writer, reason, (const uint8_t *)"0123456789abcdef", 0, 5, &error);
}

static void test_name_taken_by_a_header(void **state)
{
  (void)state;
  memory_disk_put(DIR, "t1.bin", "torn", 4);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(create("first"), WRITER_OK);
  assert_string_equal(holder.writer.end.file, "t1@1.bin");
  assert_int_equal(file_length("t1.bin"), 4);
  /* It is the first segment all the same. */
  assert_int_equal(holder.writer.header.number, 0);
  assert_string_equal(holder.writer.header.predecessor, "");
}

static void test_epochs_name_spent(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_drop(&holder);
  memory_disk_put(DIR, "t1@2.bin", "torn", 4);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(create("roll"), WRITER_NAME_SPENT);
  assert_contains(error.text, "t1@2.bin");
  assert_true(holder.writer.has_file);
}

static void test_name_taken_by_blocks(void **state)
{
  (void)state;
  uint8_t bytes[4097] = {0};
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  memory_disk_put(DIR, "t1.bin", bytes, sizeof bytes); /* created since the check */
  assert_int_equal(create("first"), WRITER_NAME_TAKEN);
  assert_contains(error.text, "d/t1.bin");
  memory_disk_put(DIR, "t1.bin", bytes, 4096);
  memory_disk_put(DIR, "t1@1.bin", bytes, sizeof bytes);
  assert_int_equal(create("first"), WRITER_NAME_TAKEN);
  assert_contains(error.text, "d/t1@1.bin");
}

/* Whichever call fails, no segment stays that a check could take for a valid one, and the old file is unchanged. */
static void test_create_fails(void **state)
{
  (void)state;
  static const enum disk_call calls[] = {DISK_PLACE, DISK_CREATE, DISK_GUARD, DISK_WRITE, DISK_SYNC_NEW};
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  holder_drop(&holder);
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
    memory_disk.fail_in[calls[i]] = 1;
    assert_int_equal(create("roll"), WRITER_FAILED);
    char name[FILE_NAME_SIZE];
    segment_name_make("t1", holder.epoch, name);
    assert_false(exists(name));
    holder_drop(&holder);
    read_chain("t1", NULL, &reading);
    assert_int_equal(reading.messages, 1);
  }
}

static void test_discard(void **state)
{
  (void)state;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(create("first"), WRITER_OK);
  assert_true(writer_discard(&holder.writer));
  assert_false(exists("t1.bin"));
  holder.writer.has_file = false;               /* its descriptor goes with the machine */
  memory_disk_crash(FATE_LOST, &(uint64_t){1}); /* a power cut does not bring it back: the end may be said to be clean */
  assert_false(exists("t1.bin"));
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(create("first"), WRITER_OK);
  memory_disk.fail_in[DISK_SYNC_NEW] = 1;
  assert_false(writer_discard(&holder.writer));
}

/* The fence recorded that the directory is local, and commits will vouch for what is written in it. */
static void test_segment_on_another_file_system(void **state)
{
  (void)state;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  memory_disk.local = false;
  assert_int_equal(create("first"), WRITER_FAILED);
  assert_contains(error.text, "local file system");
  assert_false(exists("t1.bin"));
  memory_disk.local = true;
  assert_int_equal(create("first"), WRITER_OK);
  assert_int_equal(writer_close(&holder.writer, &error), WRITER_OK);
}

/* Over a network the writer takes no guard, whatever the open file says: other machines would not see it. */
static void test_no_guard_over_a_network(void **state)
{
  (void)state;
  struct continue_check check;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  holder_drop(&holder);
  memory_disk.local = false;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  memory_disk.local = true;
  int64_t guards = memory_disk.calls[DISK_GUARD];
  assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  assert_true(!check.local && !check.guarded && check.exact);
  assert_int_equal(memory_disk.calls[DISK_GUARD], guards);
  holder_drop(&holder);
}

/* ---- continuing ---- */

static void test_ground(void **state)
{
  (void)state;
  struct continue_check check;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  assert_int_equal(holder_write(&holder, 1), WRITER_OK); /* not committed */
  struct holder frozen = holder;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  assert_true(check.local && !check.guarded && !check.exact); /* the frozen holder has the guard */
  holder_drop(&frozen);
  memory_disk.local = false; /* for this file only: another file system is mounted in */
  assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  assert_true(check.local && !check.guarded && !check.exact);
  memory_disk.local = true;
  assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  assert_true(check.local && check.guarded && !check.exact);
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_OK);
  assert_int_equal(file_length("t1.bin"), holder.committed.length);
  assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  assert_true(check.exact);

  static const enum disk_call calls[] = {DISK_LOCAL, DISK_SIZE, DISK_GUARD};
  for (size_t i = 0; i < 3; i++) {
    memory_disk.fail_in[calls[i]] = 1;
    assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_FAILED);
  }
}

/* A cut is safe before anything follows: whatever the next holder sees of the disk, no cut is on its way. */
static void test_cut_is_synced(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  struct committed end = holder.committed;
  holder_append(&holder, 1);
  holder_drop(&holder);
  holder.committed = end;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  int64_t syncs = memory_disk.calls[DISK_SYNC];
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_OK);
  assert_int_equal(memory_disk.calls[DISK_SYNC], syncs + 1);
  holder.writer.has_file = false;
  memory_disk_crash(FATE_LOST, &(uint64_t){1});
  assert_int_equal(file_length("t1.bin"), end.length);
}

static void test_cut_fails(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  struct committed end = holder.committed;
  holder_append(&holder, 1);
  holder_drop(&holder);
  holder.committed = end;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  memory_disk.fail_in[DISK_CUT] = 1;
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_FAILED);
  memory_disk_bytes(DIR, "t1.bin", &(size_t){0});
  assert_int_equal(file_cut(&holder.writer.file, end.length - 1, &error), FILE_OK);
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_FAILED); /* a cut never makes a file longer */
  assert_contains(error.text, "shorter");
}

static void test_open_refuses(void **state)
{
  (void)state;
  size_t size = 0;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  holder_drop(&holder);
  memory_disk_bytes(DIR, "t1.bin", &size)[4200] ^= 1;
  assert_int_equal(holder_open(&holder, "A"), CHECK_UNTRUSTED);
  assert_false(holder.writer.has_file);
  memory_disk_bytes(DIR, "t1.bin", &size)[4200] ^= 1;
  for (int n = 1;; n++) { /* any open or read may fail */
    memory_disk.fail_in[n % 2 ? DISK_OPEN : DISK_READ] = (n + 1) / 2;
    enum check_status status = holder_open(&holder, "A");
    bool failed = memory_disk.fail_in[DISK_OPEN] == 0 && memory_disk.fail_in[DISK_READ] == 0;
    memory_disk.fail_in[DISK_OPEN] = memory_disk.fail_in[DISK_READ] = 0;
    if (status == CHECK_OK)
      holder_drop(&holder);
    if (!failed && n % 2 == 0)
      break;
  }
  /* No open descriptor was left, which would hold a guard. */
  holder_continue(&holder, "A");
}

/* Just before the writer opens the file that it has checked, another file of the same length takes its place. */
static void file_replaced(enum disk_call call)
{
  static const uint8_t other[8192];
  if (call == DISK_OPEN && memory_disk.calls[DISK_OPEN] == 2)
    memory_disk_put(DIR, "t1.bin", other, sizeof other);
}

static void test_file_replaced_meanwhile(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 1);
  holder_drop(&holder);
  memory_disk.calls[DISK_OPEN] = 0;
  memory_disk.before = file_replaced;
  assert_int_equal(holder_open(&holder, "A"), CHECK_UNTRUSTED);
  assert_contains(holder.error.text, "replaced");
  assert_false(holder.writer.has_file);
}

/* A block after the end of a file that somebody cut would leave a hole in the committed part, and the length would still be right. */
static void test_file_cut_meanwhile(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 3);
  int64_t length = holder.writer.end.length;
  assert_int_equal(file_cut(&holder.writer.file, length - 1, &holder.error), FILE_OK);
  assert_int_equal(holder_write(&holder, 1), WRITER_FAILED);
  assert_contains(holder.error.text, "while it was open");
  assert_int_equal(writer_append_close(&holder.writer, holder.now_us, &holder.error), WRITER_FAILED);
  size_t size = 0;
  memory_disk_bytes(DIR, "t1.bin", &size);
  assert_int_equal(size, length - 1);
}

/* What others do to the file between the write of a block and the end of its sync. */
enum meddling { REMOVED, REPLACED, CUT, LENGTHENED, MEDDLINGS };
static enum meddling meddling;

static void meddle(enum disk_call call)
{
  struct error ignored;
  size_t size = 0;
  uint8_t copy[8192] = {0};
  if (call != DISK_SYNC)
    return;
  memory_disk.before = NULL;
  const uint8_t *bytes = memory_disk_bytes(DIR, "t1.bin", &size);
  assert_true(size <= sizeof copy);
  memcpy(copy, bytes, size);
  if (meddling == REMOVED)
    memory_disk_remove(DIR, "t1.bin");
  else if (meddling == REPLACED)
    memory_disk_put(DIR, "t1.bin", copy, size); /* the same bytes, but another file */
  else if (meddling == CUT)
    assert_int_equal(file_cut(&holder.writer.file, holder.committed.length, &ignored), FILE_OK);
  else
    assert_int_equal(file_write(&holder.writer.file, (int64_t)size, "late", 4, &ignored), FILE_OK);
}

/* The sync reports success, but the block is out of reach: it must not be committed, because then its messages would be deleted. */
static void test_file_changed_before_the_sync(void **state)
{
  (void)state;
  for (meddling = REMOVED; meddling < MEDDLINGS; meddling++) {
    begin(NULL);
    holder_create(&holder, "first");
    holder_append(&holder, 3);
    memory_disk.before = meddle;
    assert_int_equal(holder_write(&holder, 2), WRITER_FAILED);
    assert_contains(holder.error.text, "while it was open");
    assert_null(memory_disk.before);
    holder_drop(&holder);
  }
}

/* The same for CLOSE: the ledger must not name a clean end that nobody can read. */
static void test_file_changed_before_the_sync_of_close(void **state)
{
  (void)state;
  for (meddling = REMOVED; meddling < MEDDLINGS; meddling++) {
    begin(NULL);
    holder_create(&holder, "first");
    holder_append(&holder, 3);
    assert_int_equal(writer_append_close(&holder.writer, holder.now_us, &error), WRITER_OK);
    memory_disk.before = meddle;
    assert_int_equal(writer_sync(&holder.writer, &error), WRITER_FAILED);
    assert_contains(error.text, "while it was open");
    holder_drop(&holder);
  }
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
static void test_golden(void **state)
{
  (void)state;
  uint64_t link = 0;
  holder_create(&holder, "first");
  holder_append(&holder, 3);
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
static void test_golden_zstd(void **state)
{
  (void)state;
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

/* ---- random lives ---- */

enum { SEEDS = 300, EPOCHS = 12 };

static uint64_t random_state;

static int64_t pick(int64_t count)
{
  return (int64_t)(memory_disk_random(&random_state) % (uint64_t)count);
}

/* The table of docs/protocol.md, "May the file be continued?". True: the file was continued, or a new segment was made. */
static bool epoch_begin(void)
{
  struct continue_check check = {0};
  const char *machine = (const char *[]){"A", "B"}[pick(2)];
  bool was_clean = holder.clean, was_vouched = holder.vouched, first = holder.committed.file[0] == 0;
  if (holder_open(&holder, machine) != CHECK_OK)
    fail_msg("%s", holder.error.text);
  holder.clean = false;
  if (!first)
    assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  bool roll = first || pick(6) == 0;
  bool in_order = was_clean && check.exact;
  if (!roll && (check.local ? check.guarded && (was_vouched || in_order) : in_order))
    return !check.guarded || writer_cut(&holder.writer, &error) == WRITER_OK;
  uint8_t uuid[16];
  for (int i = 0; i < 16; i++)
    uuid[i] = (uint8_t)pick(256);
  const char *reason = first ? "first" : roll ? "roll" : "unclean";
  if (writer_create(&holder.writer, reason, uuid, 0, holder.now_us, &error) != WRITER_OK)
    return false;
  if (pick(8) == 0)
    return false; /* the holder dies before the commit */
  holder_commit(&holder);
  return true;
}

/* Writes blocks until the end of the epoch; true: the epoch ended clean. */
static bool epoch_write(void)
{
  for (int64_t n = pick(6); n > 0; n--) {
    if (holder_write(&holder, 1 + (int)pick(4)) != WRITER_OK || pick(10) == 0)
      return false;
    holder_commit(&holder);
  }
  if (!holder.writer.opened || pick(3) == 0)
    return false;
  if (writer_append_close(&holder.writer, holder.now_us, &error) != WRITER_OK || writer_sync(&holder.writer, &error) != WRITER_OK)
    return false;
  if (pick(10) == 0 || writer_close(&holder.writer, &error) != WRITER_OK)
    return false;
  holder_commit(&holder);
  holder.clean = true;
  return true;
}

/* A reader reads everything that was committed; beyond that it may read only the one uncommitted block. */
static void everything_read(void)
{
  struct error why = {.text = ""};
  if (holder.committed.file[0] != 0) {
    read_chain("t1", &holder.committed, &reading);
    if (reading.status != READ_END || reading.messages != holder.committed.seq)
      fail_msg("with the ledger: %d, %lld messages: %s", reading.status, (long long)reading.messages, reading.error.text);
  }
  read_chain("t1", NULL, &reading);
  why = reading.error;
  if ((reading.status != READ_END && reading.status != READ_TAIL) || reading.messages < holder.committed.seq ||
      reading.messages > holder.committed.seq + 4)
    fail_msg("offline: %d, %lld of %lld messages: %s", reading.status, (long long)reading.messages, (long long)holder.committed.seq,
             why.text);
}

/* A holder that freezes in the middle of its epoch, and wakes up after others have gone on. */
static struct holder frozen;
static int frozen_process; /* 0: there is none */

static void frozen_end(void)
{
  if (frozen_process == 0)
    return;
  memory_disk_kill(frozen_process);
  free(frozen.writer.encoded);
  frozen_process = 0;
}

/* The frozen holder finishes the one write that it may have been in, at the offset where it believed the end to be. */
static void frozen_wake(void)
{
  if (frozen_process != 0 && frozen.writer.has_file && memcmp(&frozen.writer.end, &frozen.committed, sizeof frozen.committed) == 0)
    if (holder_write(&frozen, 1 + (int)pick(4)) == WRITER_OK)
      everything_read();
  frozen_end();
}

static void epoch_break(void)
{
  int64_t how = pick(3);
  if (how == 0) {
    frozen_end();
    frozen = holder;
    frozen_process = memory_disk.process;
    return;
  }
  if (how == 1)
    memory_disk_kill(memory_disk.process);
  else {
    frozen_end();
    memory_disk_crash(FATE_MIXED, &random_state);
  }
  free(holder.writer.encoded);
}

static void one_life(uint64_t number)
{
  static const enum disk_call calls[] = {DISK_WRITE, DISK_SYNC, DISK_PLACE, DISK_CLOSE};
  begin(NULL);
  random_state = number * 0x9E3779B97F4A7C15U + 1;
  memory_disk.local = pick(3) != 0;
  holder.options.codec_zstd = pick(4) == 0;
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    memory_disk.process++;
    bool begun = epoch_begin();
    memory_disk.failed_write_bytes = (size_t)pick(1000);
    if (pick(3) == 0)
      memory_disk.fail_in[calls[pick(4)]] = 1 + (int)pick(3);
    bool clean = begun && epoch_write();
    memset(memory_disk.fail_in, 0, sizeof memory_disk.fail_in);
    if (!clean)
      epoch_break();
    everything_read();
    if (pick(2) == 0)
      frozen_wake();
  }
  frozen_end();
  holder.writer.has_file = false;
}

static uint64_t seed;

/* PAWL_TEST_SEED=n plays one life only. */
static void test_whatever_happens(void **state)
{
  (void)state;
  const char *only = getenv("PAWL_TEST_SEED");
  uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1, last = only != NULL ? first : SEEDS;
  for (seed = first; seed <= last; seed++)
    one_life(seed);
  seed = 0;
}

static int finish_life(void **state)
{
  if (seed != 0)
    print_error("it failed with PAWL_TEST_SEED=%llu\n", (unsigned long long)seed);
  return finish(state);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, finish)
  const struct CMUnitTest tests[] = {
      TEST(test_first_segment),
      TEST(test_open_when_continuing),
      TEST(test_one_write),
      TEST(test_pad),
      TEST(test_pad_where_the_view_changes),
      TEST(test_close_counts),
      TEST(test_close_counts_late),
      TEST(test_roll_header),
      TEST(test_time_never_falls),
      TEST(test_zstd_where_it_pays),
      TEST(test_each_failure_once),
      TEST(test_close_of_the_segment_fails),
      TEST(test_no_space),
      TEST(test_room_for_a_header_alone),
      TEST(test_space_goes_meanwhile),
      TEST(test_name_taken_by_a_header),
      TEST(test_epochs_name_spent),
      TEST(test_name_taken_by_blocks),
      TEST(test_create_fails),
      TEST(test_discard),
      TEST(test_segment_on_another_file_system),
      TEST(test_no_guard_over_a_network),
      TEST(test_ground),
      TEST(test_cut_is_synced),
      TEST(test_cut_fails),
      TEST(test_open_refuses),
      TEST(test_file_replaced_meanwhile),
      TEST(test_file_cut_meanwhile),
      TEST(test_file_changed_before_the_sync),
      TEST(test_file_changed_before_the_sync_of_close),
      TEST(test_golden),
      TEST(test_golden_zstd),
      cmocka_unit_test_setup_teardown(test_whatever_happens, begin, finish_life),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
