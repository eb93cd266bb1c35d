/* chain: orphans, files that are not what their names say, and damage on the way. */
#include "chain_fixture.h"

#include <inttypes.h>

/* ---- orphans ---- */

/* Epoch 2 makes a segment, and is fenced before its commit; the next epoch continues the old file. */
static void fenced_segment(void)
{
  first_segment(2);
  holder_drop(&holder);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(writer_create(&holder.writer, "unclean", (const uint8_t *)"a uuid like none", 0, holder.now_us, &error), WRITER_OK);
  holder_drop(&holder);
}

CHAIN_TEST(test_orphan)
{
  fenced_segment();
  /* At this point it may be the newest segment. */
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin t1@2.bin");
  assert_reads(NULL, 1, 2);
  holder_continue(&holder, "A");
  assert_int_equal(holder_write(&holder, 3), WRITER_OK);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin | t1@2.bin");
  holder_commit(&holder);
  assert_reads(NULL, 1, 5);
  assert_reads(&holder.committed, 1, 5);
}

static void another_uuid(struct segment_header *header)
{
  header->uuid[sizeof header->uuid - 1] ^= 1;
}

/* A file that lies under the predecessor's name tells nothing about the segment. */
CHAIN_TEST(test_another_file_makes_no_orphan)
{
  fenced_segment();
  holder_continue(&holder, "A");
  holder_append(&holder, 3);
  header_change("t1.bin", another_uuid);
  assert_int_equal(load(NULL), READ_DAMAGED);
  assert_contains(error.text, "t1.bin: another file lies under this name");
}

/* A frozen holder of a lower epoch writes a late block; that does not make its successor's segment an orphan. */
CHAIN_TEST(test_late_block_makes_no_orphan)
{
  first_segment(2);
  struct holder frozen = holder;
  holder_create(&holder, "unclean");
  holder_append(&holder, 3);
  holder_leave(&holder);
  assert_int_equal(holder_write(&frozen, 1), WRITER_OK);
  holder_drop(&frozen);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin t1@2.bin");
  assert_reads(NULL, 1, 5);
  assert_reads(&holder.committed, 1, 5);
}

/* ---- files that are not what their names say ---- */

static void rename_to(const char *from, const char *to)
{
  size_t size = 0;
  const uint8_t *bytes = memory_disk_bytes(DIR, from, &size);
  memory_disk_put(DIR, to, bytes, size);
}

CHAIN_TEST(test_renamed)
{
  four_segments();
  rename_to("t1@4.bin", "t1@9.bin");
  assert_int_equal(load(NULL), READ_DAMAGED);
  assert_contains(error.text, "its name is another file's");
  memory_disk_remove(DIR, "t1@4.bin");
  assert_int_equal(load(NULL), READ_DAMAGED);
  memory_disk_remove(DIR, "t1@9.bin");
  rename_to("t1@3.bin", "t1@2.bin"); /* in the middle */
  assert_int_equal(load(NULL), READ_DAMAGED);
  assert_contains(error.text, "t1@2.bin: another file lies under this name");
}

CHAIN_TEST(test_other_types_content)
{
  struct holder other;
  four_segments();
  holder_init(&other, "t2");
  holder_create(&other, "first");
  holder_append(&other, 1);
  holder_leave(&other);
  rename_to("t2.bin", "t1@7.bin");
  assert_int_equal(load(NULL), READ_DAMAGED);
  assert_contains(error.text, "type t2");
  /* With a ledger it is a segment that nothing names. */
  assert_int_equal(load(&holder.committed), READ_OK);
  assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin | t1@7.bin");
}

static void number_five(struct segment_header *header)
{
  header->number = 5;
}

static void names_itself(struct segment_header *header)
{
  snprintf(header->predecessor, sizeof header->predecessor, "t1@4.bin");
}

static void names_newer(struct segment_header *header)
{
  snprintf(header->predecessor, sizeof header->predecessor, "t1@9.bin");
}

static void names_oldest(struct segment_header *header)
{
  snprintf(header->predecessor, sizeof header->predecessor, "t1.bin");
}

/* The oldest segment names itself as its predecessor: a loop. */
static void becomes_a_loop(struct segment_header *header)
{
  memcpy(header->predecessor_uuid, header->uuid, sizeof header->uuid);
  snprintf(header->predecessor, sizeof header->predecessor, "t1.bin");
  header->predecessor_length = 4096;
  header->number = 1;
}

static void epoch_two_before(struct segment_header *header)
{
  header->predecessor_epoch = 2;
}

CHAIN_TEST(test_headers_that_lie)
{
  static void (*const lies[])(struct segment_header *) = {number_five, names_itself, names_newer, names_oldest, epoch_two_before};
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    storage_begin(NULL);
    four_segments();
    header_change("t1@4.bin", lies[i]);
    assert_int_equal(load(NULL), READ_DAMAGED);
  }
  storage_begin(NULL);
  four_segments();
  header_change("t1.bin", becomes_a_loop);
  assert_int_equal(load(NULL), READ_DAMAGED);
}

/* ---- damage on the way ---- */

static int64_t block_offset(const char *name, int number)
{
  struct reader reader;
  assert_int_equal(reader_open(&reader, DIR, name, NULL, &error), READ_OK);
  for (int i = 0; i <= number; i++)
    assert_int_equal(reader_next(&reader, &error), READ_OK);
  reader_close(&reader);
  return reader.block.offset;
}

CHAIN_TEST(test_pass_damage_over_borders)
{
  struct chain_reader at;
  size_t size = 0;
  int64_t messages = 0, lost = 0;
  int damages = 0;
  enum read_status status;
  four_segments();
  /* The last DATA of t1.bin, and the first of t1@3.bin; their CLOSEs too. */
  int64_t second = block_offset("t1.bin", 1), first = block_offset("t1@3.bin", 0);
  for (int i = 0; i < 2; i++) {
    uint8_t *bytes = memory_disk_bytes(DIR, i ? "t1@3.bin" : "t1.bin", &size);
    bytes[i ? first : second + FORMAT_MARKER_BYTES] ^= 1;
    bytes[size - 1] ^= 1;
  }
  assert_int_equal(load(&holder.committed), READ_OK);
  chain_reader_init(&at, DIR, &chain);
  while ((status = chain_reader_next(&at, &error)) == READ_OK || status == READ_DAMAGED) {
    assert_true(damages < 10);
    if (status == READ_OK) {
      messages += at.reader.block.count;
      continue;
    }
    damages++;
    status = chain_reader_pass_damage(&at, &error);
    assert_true(status == READ_OK || status == READ_END);
    if (at.reader.lost_last >= at.reader.lost_first)
      lost += at.reader.lost_last - at.reader.lost_first + 1;
  }
  assert_int_equal(status, READ_END);
  assert_int_equal(damages, 4);
  assert_int_equal(lost, 3 + 2);
  assert_int_equal(messages, 20 - lost);
  chain_reader_deinit(&at);
}

/* When a segment disappears while the chain is read, the whole segment is lost, and the next ones are read. */
CHAIN_TEST(test_segment_lost_meanwhile)
{
  struct chain_reader at;
  int64_t messages = 0;
  enum read_status status;
  four_segments();
  assert_int_equal(load(&holder.committed), READ_OK);
  memory_disk_remove(DIR, "t1@3.bin");
  chain_reader_init(&at, DIR, &chain);
  while ((status = chain_reader_next(&at, &error)) == READ_OK)
    messages += at.reader.block.count;
  assert_int_equal(status, READ_DAMAGED);
  assert_int_equal(messages, 10);
  assert_false(at.open);
  assert_int_equal(chain_reader_pass_damage(&at, &error), READ_OK);
  while ((status = chain_reader_next(&at, &error)) == READ_OK)
    messages += at.reader.block.count;
  assert_int_equal(status, READ_END);
  assert_int_equal(messages, 15);
  chain_reader_deinit(&at);
}

/* whole: what is read without a failure. */
static void calls_fail(const struct committed *end, enum read_status whole)
{
  static const enum disk_call calls[] = {DISK_LIST, DISK_OPEN, DISK_READ, DISK_SIZE};
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (int n = 1;; n++) {
      memory_disk.fail_in[calls[i]] = n;
      read_chain("t1", end, &reading);
      bool failed = memory_disk.fail_in[calls[i]] == 0;
      memory_disk.fail_in[calls[i]] = 0;
      if (reading.status != (failed ? READ_FAILED : whole))
        fail_msg("call %d of kind %d: %d, with %" PRId64 " messages", n, calls[i], reading.status, reading.messages);
      if (!failed)
        break;
    }
}

CHAIN_TEST(test_failing_calls)
{
  four_segments();
  calls_fail(&holder.committed, READ_END);
  calls_fail(NULL, READ_END);
}

/* What cannot be read is not damaged. */
CHAIN_TEST(test_failing_calls_behind_a_damaged_header)
{
  first_segment(5);
  size_t size;
  memory_disk_bytes(DIR, "t1.bin", &size)[300] ^= 1;
  calls_fail(&holder.committed, READ_DAMAGED);
  calls_fail(NULL, READ_DAMAGED);
}

/* Else the orphan would be the newest, and what its predecessor got after it would not be read. */
CHAIN_TEST(test_failing_calls_beside_an_orphan)
{
  fenced_segment();
  holder_continue(&holder, "A");
  holder_append(&holder, 3);
  calls_fail(NULL, READ_END);
}

CHAIN_TEST(test_types)
{
  static const char *const names[] = {"t2@3.bin", "t1.bin", "t10@7.bin", "t1@4.bin", "notes.txt", "t3@0.bin", ".hidden.bin", "t2.bin"};
  char(*types)[TYPE_BYTES_MAX + 1] = NULL;
  size_t count = 9;
  assert_int_equal(chain_list_types(DIR, &types, &count, &error), READ_OK);
  assert_int_equal(count, 0);
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    memory_disk_put(DIR, names[i], "", 0);
  memory_disk_put("elsewhere", "t9.bin", "", 0);
  assert_int_equal(chain_list_types(DIR, &types, &count, &error), READ_OK);
  assert_int_equal(count, 3);
  assert_string_equal(types[0], "t1");
  assert_string_equal(types[1], "t10");
  assert_string_equal(types[2], "t2");
  free(types);
}
