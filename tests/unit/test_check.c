/* check: when the storage agrees with the ledger (docs/protocol.md, Check). */
#include "storage_fixture.h"

#include <stdlib.h>

/* t1.bin with three blocks, committed, and held open for more. */
static int begin(void **state)
{
  storage_begin(state);
  first_segment(2);
  holder_append(&holder, 1);
  holder_append(&holder, 3);
  return 0;
}

static enum check_status check(const struct committed *end, int64_t epoch)
{
  struct reader reader;
  enum check_status status = check_storage(&reader, DIR, "t1", end, epoch, &error);
  if (status == CHECK_OK && end->file[0] != 0) {
    /* The reader stands at the committed end. */
    assert_int_equal(reader.offset, end->length);
    assert_int_equal(reader.next_seq, end->seq + 1);
    assert_int_equal(reader.has_last ? reader.last.offset : 0, end->tail);
    assert_int_equal(reader_next(&reader, &error), READ_END);
    reader_close(&reader);
  }
  return status;
}

static enum check_status check_now(void)
{
  return check(&holder.committed, holder.epoch);
}

static void assert_refused(enum check_status status, const char *part)
{
  assert_int_equal(status, CHECK_UNTRUSTED);
  assert_contains(error.text, part);
  assert_contains(error.text, DIR);
}

TEST_WITH(test_agrees, begin, storage_end)
{
  assert_int_equal(check_now(), CHECK_OK);
  holder_leave(&holder);
  assert_int_equal(check_now(), CHECK_OK);
  holder_continue(&holder, "B");
  holder_append(&holder, 1);
  assert_int_equal(check_now(), CHECK_OK);
  holder_drop(&holder);
  holder_create(&holder, "roll"); /* only a header */
  assert_int_equal(check_now(), CHECK_OK);
}

/* The check reads only the end, whatever the file's length. */
TEST_WITH(test_few_reads, begin, storage_end)
{
  for (int i = 0; i < 1000; i++)
    holder_append(&holder, 1);
  int64_t reads = memory_disk.calls[DISK_READ];
  assert_int_equal(check_now(), CHECK_OK);
  assert_uint_in_range(memory_disk.calls[DISK_READ] - reads, 5, 60);
}

TEST_WITH(test_end_differs, begin, storage_end)
{
  struct committed end = holder.committed;
  end.length--;
  assert_refused(check(&end, 1), "t1.bin");
  end = holder.committed, end.length++;
  assert_refused(check(&end, 1), "is cut");
  end = holder.committed, end.uuid[0] ^= 1;
  assert_refused(check(&end, 1), "uuid");
  end = holder.committed, end.link ^= 1;
  assert_refused(check(&end, 1), "link");
  end = holder.committed, end.seq++;
  assert_refused(check(&end, 1), "seq");
  end = holder.committed, end.seq--;
  assert_refused(check(&end, 1), "seq");
  end = holder.committed, end.tail = 4096; /* a block, but not the last one */
  assert_refused(check(&end, 1), "t1.bin");
  end = holder.committed, end.tail = 4097;
  assert_refused(check(&end, 1), "t1.bin");
  end = holder.committed, end.tail = 0;
  assert_refused(check(&end, 1), "t1.bin");
  end = holder.committed, strcpy(end.file, "t1@1.bin");
  assert_refused(check(&end, 1), "t1@1.bin");
}

TEST_WITH(test_last_block_damaged, begin, storage_end)
{
  size_t size = 0;
  uint8_t *bytes = sample(&size);
  for (size_t at = (size_t)holder.committed.tail; at < size; at++) {
    bytes[at] ^= 16;
    assert_int_equal(check_now(), CHECK_UNTRUSTED);
    bytes[at] ^= 16;
  }
  bytes[200] ^= 1;
  assert_refused(check_now(), "CRC");
}

TEST_WITH(test_header_only_differs, begin, storage_end)
{
  holder_drop(&holder);
  holder_create(&holder, "roll");
  struct committed end = holder.committed;
  end.link ^= (uint64_t)1 << 32;
  assert_refused(check(&end, 2), "link");
  end = holder.committed, end.length = 4097;
  assert_refused(check(&end, 2), "cut");
  end = holder.committed, end.seq = 0;
  assert_refused(check(&end, 2), "seq");
}

/* ---- beyond the committed end ---- */

TEST_WITH(test_uncommitted_block, begin, storage_end)
{
  size_t size = 0;
  assert_int_equal(holder_write(&holder, 2), WRITER_OK);
  assert_int_equal(check_now(), CHECK_OK);
  /* However that block is torn. */
  sample(&size)[size - 1] ^= 1;
  assert_int_equal(check_now(), CHECK_OK);
  sample(&size)[holder.committed.length + 9] ^= 1;
  assert_int_equal(check_now(), CHECK_OK);
}

TEST_WITH(test_uncommitted_first_write, begin, storage_end)
{
  size_t size = 0;
  holder_drop(&holder);
  holder_continue(&holder, "B"); /* PAD, OPEN, DATA in one write */
  assert_int_equal(holder_write(&holder, 2), WRITER_OK);
  assert_int_equal(check_now(), CHECK_OK);
  sample(&size)[holder.committed.length] ^= 1; /* only its later pages reached the disk */
  assert_int_equal(check_now(), CHECK_OK);
}

TEST_WITH(test_uncommitted_close, begin, storage_end)
{
  struct committed end = holder.committed;
  holder_leave(&holder);
  assert_int_equal(check(&end, 1), CHECK_OK);
}

TEST_WITH(test_two_uncommitted_blocks, begin, storage_end)
{
  assert_int_equal(holder_write(&holder, 2), WRITER_OK);
  assert_int_equal(holder_write(&holder, 1), WRITER_OK);
  assert_refused(check_now(), "beyond the committed end");
  /* The first block is torn; the second proves that the first was there. */
  size_t size = 0;
  sample(&size)[holder.committed.length] ^= 1;
  assert_refused(check_now(), "beyond the committed end");
}

/*
 * A holder writes blocks only after its fence. So a block of an epoch that the ledger has not reached was written under another
 * ledger.
 */
TEST_WITH(test_uncommitted_block_of_a_later_epoch, begin, storage_end)
{
  assert_int_equal(holder_write(&holder, 2), WRITER_OK);
  assert_int_equal(check(&holder.committed, holder.epoch), CHECK_OK);
  assert_refused(check(&holder.committed, holder.epoch - 1), "has an epoch that the ledger has not reached");
}

/* ---- does the ledger belong to these files? ---- */

TEST_WITH(test_ledger_without_file, begin, storage_end)
{
  static const struct committed none = {.file = ""};
  static const uint8_t zeros[5000];
  assert_refused(check(&none, 0), "t1.bin");
  assert_refused(check(&none, 5), "the ledger knows no file");
  memory_disk_put(DIR, "t1.bin", sample(&(size_t){0}), 4096);
  assert_int_equal(check(&none, 1), CHECK_OK); /* a bare header, left by a holder that died before its commit */
  assert_int_equal(check(&none, 0), CHECK_OK);
  memory_disk_put(DIR, "t1@3.bin", "", 0);
  assert_int_equal(check(&none, 3), CHECK_OK);
  memory_disk_remove(DIR, "t1.bin");
  memory_disk_remove(DIR, "t1@3.bin");
  assert_int_equal(check(&none, 0), CHECK_OK);
  memory_disk_put(DIR, "t2.bin", zeros, sizeof zeros); /* a file of another type or directory */
  memory_disk_put("elsewhere", "t1.bin", zeros, sizeof zeros);
  assert_int_equal(check(&none, 0), CHECK_OK);
}

TEST_WITH(test_segment_of_a_higher_epoch, begin, storage_end)
{
  static const uint8_t bytes[FORMAT_HEADER_BYTES + 1];
  memory_disk_put(DIR, "t1@7.bin", bytes, FORMAT_HEADER_BYTES); /* a bare header, left by a holder that died before its commit */
  assert_int_equal(check(&holder.committed, 6), CHECK_OK);
  memory_disk_put(DIR, "t1@7.bin", bytes, sizeof bytes);
  assert_refused(check(&holder.committed, 7), "and the ledger names an earlier segment");
  assert_refused(check(&holder.committed, 6), "t1@7.bin was made in epoch 7");
}

/* Whether it has blocks is not known. */
TEST_WITH(test_segment_of_a_higher_epoch_where_the_look_fails, begin, storage_end)
{
  static const uint8_t bytes[FORMAT_HEADER_BYTES];
  static const enum disk_call calls[] = {DISK_OPEN, DISK_SIZE, DISK_CLOSE};
  memory_disk_put(DIR, "t1@7.bin", bytes, sizeof bytes);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    memory_disk.fail_in[calls[i]] = 1;
    assert_int_equal(check(&holder.committed, 6), CHECK_UNTRUSTED);
    assert_contains(error.text, "t1@7.bin");
    assert_int_equal(check(&holder.committed, 6), CHECK_OK);
  }
}

/* The ledger as it was before a roll: it has reached the new segment's epoch, and names the segment before it. */
TEST_WITH(test_ledger_from_before_a_roll, begin, storage_end)
{
  holder_leave(&holder);
  struct committed old = holder.committed;
  int64_t epoch = holder.epoch + 1;
  holder_continue(&holder, "B");
  holder_drop(&holder);
  holder_create(&holder, "roll");
  assert_int_equal(check(&old, epoch), CHECK_OK);
  holder_append(&holder, 1);
  assert_refused(check(&old, epoch + 1), "and the ledger names an earlier segment: an older ledger was restored");
  assert_int_equal(check_now(), CHECK_OK);
}

TEST_WITH(test_other_types_content, begin, storage_end)
{
  struct holder other;
  struct committed end;
  size_t size = 0;
  holder_init(&other, "t2");
  holder_create(&other, "first");
  holder_append(&other, 1);
  holder_drop(&other);
  const uint8_t *bytes = memory_disk_bytes(DIR, "t2.bin", &size);
  memory_disk_put(DIR, "t1.bin", bytes, size);
  end = other.committed;
  strcpy(end.file, "t1.bin");
  assert_refused(check(&end, 1), "type t2");
}

TEST_WITH(test_features, begin, storage_end)
{
  size_t size = 0;
  struct segment_header header;
  holder_drop(&holder);
  holder_create(&holder, "roll");
  uint8_t *bytes = memory_disk_bytes(DIR, "t1@2.bin", &size);
  assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
  struct committed end = holder.committed;

  header.compat = 1;
  format_header_encode(&header, bytes);
  end.link = format_header_link(&header);
  assert_int_equal(check(&end, 2), CHECK_OK);
  header.ro_compat = 4;
  format_header_encode(&header, bytes);
  assert_int_equal(check(&end, 2), CHECK_NEWER);
  assert_contains(error.text, "forbid appending");
  header.ro_compat = 0;
  header.incompat = 1;
  format_header_encode(&header, bytes);
  assert_int_equal(check(&end, 2), CHECK_NEWER);
}

TEST_WITH(test_failing_calls, begin, storage_end)
{
  static const enum disk_call calls[] = {DISK_LIST, DISK_OPEN, DISK_READ, DISK_SIZE};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (int n = 1;; n++) {
      memory_disk.fail_in[calls[i]] = n;
      enum check_status status = check_now();
      bool failed = memory_disk.fail_in[calls[i]] == 0;
      memory_disk.fail_in[calls[i]] = 0;
      /* After the call that fails check() itself reads once more. */
      if (!failed || status == CHECK_OK)
        break;
      assert_refused(status, "as the test wants");
    }
  assert_int_equal(check_now(), CHECK_OK);
}

/* Who may not write does not take the lock from those that may. */
TEST_WITH(test_may_not_write, begin, storage_end)
{
  memory_disk.fail_in[DISK_WRITABLE] = 1;
  assert_refused(check_now(), "write access to");
  assert_int_equal(check_now(), CHECK_OK);
}

/* A very long path is shortened in its middle, so that the reason is not cut off. */
TEST_WITH(test_long_path, begin, storage_end)
{
  char dir[4000] = "/begin/";
  struct reader reader;
  for (size_t used = strlen(dir); used < sizeof dir - 10; used += strlen("ä/"))
    strcpy(dir + used, "ä/");
  strcat(dir, "/end");
  assert_int_equal(check_storage(&reader, dir, "t1", &holder.committed, 1, &error), CHECK_UNTRUSTED);
  assert_contains(error.text, "/begin/");
  assert_contains(error.text, "/end/t1.bin, of which the ledger has");
  assert_contains(error.text, "is not there (is this the right directory?)");
  assert_true(bson_utf8_validate(error.text, strlen(error.text), false));
}

/* A check must not call files adoptable that --adopt would refuse. */
TEST_WITH(test_adoptable, begin, storage_end)
{
  size_t size = 0;
  assert_true(check_adoptable(DIR, "t1", 0));
  assert_true(check_adoptable(DIR, "t1", holder.committed.seq));
  assert_false(check_adoptable(DIR, "t2", 0));
  uint8_t *bytes = sample(&size);
  bytes[size - 1] ^= 1; /* the last block, as if torn by a crash */
  assert_true(check_adoptable(DIR, "t1", holder.committed.seq));
  bytes[size - 1] ^= 1;
  int64_t last = holder.committed.tail;
  holder_append(&holder, 1);
  bytes = sample(&size);
  bytes[last + 70] ^= 1; /* the block before it */
  assert_false(check_adoptable(DIR, "t1", holder.committed.seq - 1));
  bytes[last + 70] ^= 1;
  bytes[200] ^= 1; /* the header */
  assert_false(check_adoptable(DIR, "t1", 0));
  bytes[200] ^= 1;
  memory_disk.fail_in[DISK_WRITABLE] = 1;
  assert_false(check_adoptable(DIR, "t1", 0));
  assert_true(check_adoptable(DIR, "t1", 0));
  assert_int_equal(memory_disk_open_files(), 1);
}

/* What a newer pawl may append is not known. */
TEST_WITH(test_a_newer_segment_is_not_adoptable, begin, storage_end)
{
  struct segment_header header;
  size_t size = 0;
  holder_leave(&holder);
  holder_create(&holder, "roll");
  uint8_t *bytes = memory_disk_bytes(DIR, "t1@2.bin", &size);
  assert_true(check_adoptable(DIR, "t1", 0));
  assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
  header.ro_compat = 4;
  format_header_encode(&header, bytes);
  assert_false(check_adoptable(DIR, "t1", 0));
}

/* A newer pawl may have committed what it wrote there, so it is not cut off as a tail. */
TEST_WITH(test_newer_block_beyond, begin, storage_end)
{
  struct committed end = holder.committed;
  struct block_marker marker = forge_marker(&holder, 5); /* a kind that this version does not know */
  forge_block(&holder, &marker, "\x05\0\0\0", 5);
  assert_int_equal(check(&end, 1), CHECK_NEWER);
  assert_contains(error.text, "a newer pawl is needed");
}

/* It proves that the torn block before it was committed. */
TEST_WITH(test_newer_block_after_a_torn_one, begin, storage_end)
{
  struct committed end = holder.committed;
  size_t size = 0;
  assert_int_equal(holder_write(&holder, 1), WRITER_OK);
  struct block_marker marker = forge_marker(&holder, 5);
  forge_block(&holder, &marker, "\x05\0\0\0", 5);
  sample(&size)[end.length] ^= 1;
  assert_refused(check(&end, 1), "beyond the committed end");
}
