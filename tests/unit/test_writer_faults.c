/* What the writer reports when the disk fails or others meddle with its file, and what it then leaves. */
#include "storage_fixture.h"

/* Each call on the way to a commit fails once; the ledger's end stays unchanged, and the next epoch continues from there. */
STORAGE_TEST(test_each_failure_once)
{
  static const struct {
    enum disk_call call;
    size_t written;
  } failures[] = {{DISK_WRITE, 0}, {DISK_WRITE, 1}, {DISK_WRITE, 130}, {DISK_WRITE, SIZE_MAX}, {DISK_SYNC, 0}, {DISK_PLACE, 0}};
  for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
    storage_begin(NULL);
    first_segment(3);
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

STORAGE_TEST(test_close_of_the_segment_fails)
{
  holder_create(&holder, "first");
  memory_disk.fail_in[DISK_WRITE] = 1;
  assert_int_equal(writer_append_close(&holder.writer, holder.now_us, &error), WRITER_FAILED);
  memory_disk.fail_in[DISK_CLOSE] = 1;
  assert_int_equal(writer_close(&holder.writer, &error), WRITER_FAILED);
  assert_contains(error.text, "closing t1.bin");
  assert_false(holder.writer.has_file);
}

/* The writer detects a full disk before it writes a byte; when there is room again the same epoch goes on. */
STORAGE_TEST(test_no_space)
{
  first_segment(1);
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
STORAGE_TEST(test_room_for_a_header_alone)
{
  enum { BLOCK = 300000 };
  first_segment(1);
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
STORAGE_TEST(test_space_goes_meanwhile)
{
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

STORAGE_TEST(test_name_taken_by_a_header)
{
  memory_disk_put(DIR, "t1.bin", "torn", 4);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(create("first"), WRITER_OK);
  assert_string_equal(holder.writer.end.file, "t1@1.bin");
  assert_int_equal(file_length("t1.bin"), 4);
  /* It is the first segment all the same. */
  assert_int_equal(holder.writer.header.number, 0);
  assert_string_equal(holder.writer.header.predecessor, "");
}

STORAGE_TEST(test_epochs_name_spent)
{
  holder_create(&holder, "first");
  holder_drop(&holder);
  memory_disk_put(DIR, "t1@2.bin", "torn", 4);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(create("roll"), WRITER_NAME_SPENT);
  assert_contains(error.text, "t1@2.bin");
  assert_true(holder.writer.has_file);
}

STORAGE_TEST(test_name_taken_by_blocks)
{
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

/* As its first segment, another database's worker makes that one while the own header is written. */
static const char *theirs;

static void another_database(enum disk_call call)
{
  uint8_t bytes[FORMAT_HEADER_BYTES];
  struct segment_header header = {.epoch = 1, .first_seq = 1, .created_us = 5, .type = "t1", .reason = "first", .version = "1"};
  if (call != DISK_WRITE)
    return;
  memory_disk.before = NULL;
  memcpy(header.uuid, "0123456789ABCDEF", sizeof header.uuid);
  format_header_encode(&header, bytes);
  memory_disk_put(DIR, theirs, bytes, sizeof bytes);
}

/* Of two that do so at the same time at least one sees the other; `t1.bin` has the precedence. */
STORAGE_TEST(test_first_segments_of_two_databases)
{
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  holder.writer.marked = true;
  theirs = "t1@1.bin";
  memory_disk.before = another_database;
  assert_int_equal(create("first"), WRITER_NAME_SPENT);
  assert_contains(error.text, "for the ledger of another database");
  assert_false(exists("t1.bin"));
  memory_disk_remove(DIR, theirs);

  memory_disk_put(DIR, "t1.bin", "torn", 4);
  theirs = "t1.bin";
  memory_disk.before = another_database;
  assert_int_equal(create("first"), WRITER_NAME_TAKEN);
  assert_false(exists("t1@1.bin"));
}

/* Whichever call fails, no segment stays that a check could take for a valid one, and the old file is unchanged. */
STORAGE_TEST(test_create_fails)
{
  static const enum disk_call calls[] = {DISK_PLACE, DISK_CREATE, DISK_GUARD, DISK_WRITE, DISK_SYNC_NEW};
  first_segment(1);
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

STORAGE_TEST(test_discard)
{
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
STORAGE_TEST(test_segment_on_another_file_system)
{
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
STORAGE_TEST(test_no_guard_over_a_network)
{
  struct continue_check check;
  first_segment(1);
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

STORAGE_TEST(test_ground)
{
  struct continue_check check;
  first_segment(1);
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

/* The file has one more block than was committed. Returns the committed end. */
static struct committed open_to_cut(void)
{
  first_segment(1);
  struct committed end = holder.committed;
  holder_append(&holder, 1);
  holder_drop(&holder);
  holder.committed = end;
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  return end;
}

/* A cut is safe before anything follows: whatever the next holder sees of the disk, no cut is on its way. */
STORAGE_TEST(test_cut_is_synced)
{
  struct committed end = open_to_cut();
  int64_t syncs = memory_disk.calls[DISK_SYNC];
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_OK);
  assert_int_equal(memory_disk.calls[DISK_SYNC], syncs + 1);
  holder.writer.has_file = false;
  memory_disk_crash(FATE_LOST, &(uint64_t){1});
  assert_int_equal(file_length("t1.bin"), end.length);
}

STORAGE_TEST(test_cut_fails)
{
  struct committed end = open_to_cut();
  memory_disk.fail_in[DISK_CUT] = 1;
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_FAILED);
  memory_disk_bytes(DIR, "t1.bin", &(size_t){0});
  assert_int_equal(file_cut(&holder.writer.file, end.length - 1, &error), FILE_OK);
  assert_int_equal(writer_cut(&holder.writer, &error), WRITER_FAILED); /* a cut never makes a file longer */
  assert_contains(error.text, "shorter");
}

STORAGE_TEST(test_open_refuses)
{
  size_t size = 0;
  first_segment(1);
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

STORAGE_TEST(test_file_replaced_meanwhile)
{
  first_segment(1);
  holder_drop(&holder);
  memory_disk.calls[DISK_OPEN] = 0;
  memory_disk.before = file_replaced;
  assert_int_equal(holder_open(&holder, "A"), CHECK_UNTRUSTED);
  assert_contains(holder.error.text, "replaced");
  assert_false(holder.writer.has_file);
}

/* A block after the end of a file that somebody cut would leave a hole in the committed part, and the length would still be right. */
STORAGE_TEST(test_file_cut_meanwhile)
{
  first_segment(3);
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
STORAGE_TEST(test_file_changed_before_the_sync)
{
  for (meddling = REMOVED; meddling < MEDDLINGS; meddling++) {
    storage_begin(NULL);
    first_segment(3);
    memory_disk.before = meddle;
    assert_int_equal(holder_write(&holder, 2), WRITER_FAILED);
    assert_contains(holder.error.text, "while it was open");
    assert_null(memory_disk.before);
    holder_drop(&holder);
  }
}

/* The same for CLOSE: the ledger must not name a clean end that nobody can read. */
STORAGE_TEST(test_file_changed_before_the_sync_of_close)
{
  for (meddling = REMOVED; meddling < MEDDLINGS; meddling++) {
    storage_begin(NULL);
    first_segment(3);
    assert_int_equal(writer_append_close(&holder.writer, holder.now_us, &error), WRITER_OK);
    memory_disk.before = meddle;
    assert_int_equal(writer_sync(&holder.writer, &error), WRITER_FAILED);
    assert_contains(error.text, "while it was open");
    holder_drop(&holder);
  }
}

/* What the directory has is not known: the segment is not made. */
STORAGE_TEST(test_first_segment_where_the_look_fails)
{
  static const enum disk_call calls[] = {DISK_LIST, DISK_OPEN, DISK_READ};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    storage_begin(NULL);
    assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
    holder.writer.marked = true;
    memory_disk.fail_in[calls[i]] = 1;
    assert_int_equal(create("first"), WRITER_FAILED);
    assert_int_equal(memory_disk.fail_in[calls[i]], 0);
    assert_false(exists("t1.bin"));
    assert_int_equal(create("first"), WRITER_OK);
    holder_drop(&holder);
  }
}
