/* chain: which segments a type has, in what order, and what is missing. */
#include "holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct holder holder;
static struct reading reading;
static struct chain chain;
static struct error error;

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
  chain_free(&chain);
  if (holder.writer.has_file)
    holder_drop(&holder);
  assert_int_equal(memory_disk_open_files(), 0);
  memory_disk_reset();
  return 0;
}

static enum read_status load_from(const struct committed *end, int64_t from_seq)
{
  chain_free(&chain);
  return chain_load(&chain, DIR, "t1", end, from_seq, &error);
}

static enum read_status load(const struct committed *end)
{
  return load_from(end, 0);
}

/* The chain is these segments, oldest first, and these orphans: "t1.bin t1@2.bin | t1@3.bin". */
static void assert_chain(const char *expected)
{
  char text[1000] = "";
  for (size_t i = 0; i < chain.count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "", chain.segments[i].name);
  for (size_t i = 0; i < chain.orphan_count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s %s", i > 0 ? "" : " |", chain.orphans[i]);
  assert_string_equal(text, expected);
}

static void assert_reads(const struct committed *end, int64_t first, int64_t last)
{
  read_chain("t1", end, &reading);
  assert_int_equal(reading.status, READ_END);
  for (int64_t seq = 1; seq <= last + 1; seq++)
    assert_int_equal(reading.seen[seq], seq >= first && seq <= last);
}

/* t1.bin, t1@2.bin, t1@3.bin, t1@4.bin with 5 messages each. */
static void four_segments(void)
{
  for (int i = 0; i < 4; i++) {
    holder_create(&holder, i ? "roll" : "first");
    holder_append(&holder, 2);
    holder_append(&holder, 3);
    holder_leave(&holder);
  }
}

static void header_change(const char *name, void (*change)(struct segment_header *))
{
  size_t size = 0;
  uint8_t *bytes = memory_disk_bytes(DIR, name, &size);
  struct segment_header header;
  assert_int_equal(format_header_decode(bytes, &header, &error), FORMAT_OK);
  change(&header);
  format_header_encode(&header, bytes);
}

/* ---- files of other programs ---- */

static void vectors_load(void)
{
  static const char *const names[] = {"t1.bin", "t1@4.bin", "t1@5.bin", "t1@6.bin"};
  char path[64];
  for (size_t i = 0; i < 4; i++) {
    snprintf(path, sizeof path, "vectors/%s", names[i]);
    memory_disk_load(DIR, names[i], path);
  }
}

static void test_vectors(void **state)
{
  (void)state;
  struct committed end = {.file = "t1@6.bin", .length = 4914, .tail = 4748, .link = 6773072169215741448, .seq = 33, .items = 35};
  for (int i = 0; i < 16; i++)
    end.uuid[i] = (uint8_t)(0xC8 + i);
  vectors_load();
  for (int offline = 0; offline < 2; offline++) {
    assert_int_equal(load(offline ? NULL : &end), READ_OK);
    assert_chain("t1.bin t1@4.bin t1@6.bin | t1@5.bin");
    assert_false(chain.pruned);
    struct chain_reader at;
    int64_t seq = 0, items = 0;
    enum read_status status;
    chain_reader_init(&at, DIR, &chain);
    while ((status = chain_reader_next(&at, &error)) == READ_OK) {
      assert_int_equal(at.reader.block.seq, seq + 1);
      seq += at.reader.block.count;
      items += at.reader.block.items;
    }
    assert_int_equal(status, READ_END);
    assert_int_equal(seq, 33);
    assert_int_equal(items, 35);
    chain_reader_deinit(&at);
  }
}

/* ---- whole chains ---- */

static void test_nothing(void **state)
{
  (void)state;
  memory_disk_put(DIR, "other.txt", "x", 1);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("");
  assert_int_equal(load(&(struct committed){.seq = 0}), READ_OK);
  assert_chain("");
  assert_reads(NULL, 1, 0);
}

static void test_four_segments(void **state)
{
  (void)state;
  four_segments();
  assert_int_equal(load(&holder.committed), READ_OK);
  assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin");
  for (size_t i = 0; i < 4; i++) {
    assert_true(chain.segments[i].has_end);
    assert_int_equal(chain.segments[i].end.seq, 5 * (i + 1));
  }
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin");
  assert_false(chain.segments[3].has_end);
  assert_reads(&holder.committed, 1, 20);
  assert_reads(NULL, 1, 20);
}

static void test_seek(void **state)
{
  (void)state;
  struct chain_reader at;
  four_segments();
  assert_int_equal(load(NULL), READ_OK);
  chain_reader_init(&at, DIR, &chain);
  for (int64_t seq = 20; seq >= 1; seq--) {
    assert_int_equal(chain_reader_seek_seq(&at, seq, &error), READ_OK);
    do
      assert_int_equal(chain_reader_next(&at, &error), READ_OK);
    while (at.reader.block.kind != BLOCK_DATA);
    assert_true(at.reader.block.seq <= seq && seq < at.reader.block.seq + at.reader.block.count);
    /* Reading starts at that time; the segments before it are not read. */
    int64_t time_us = at.reader.block.time_us;
    assert_int_equal(chain_reader_seek_time(&at, time_us, &error), READ_OK);
    assert_int_equal(at.index, (seq - 1) / 5);
    assert_true(at.reader.next_seq <= seq);
  }
  assert_int_equal(chain_reader_seek_seq(&at, 21, &error), READ_OK);
  while (chain_reader_next(&at, &error) == READ_OK)
    assert_true(at.reader.block.seq + at.reader.block.count > 18);
  chain_reader_deinit(&at);
}

static void test_header_only_newest(void **state)
{
  (void)state;
  four_segments();
  holder_create(&holder, "roll");
  assert_reads(&holder.committed, 1, 20);
  assert_reads(NULL, 1, 20);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin t1@5.bin");
}

/*
 * `t1.bin` has no epoch in its name. Here it is younger than t1@3.bin. The maker of t1@3.bin found the name t1.bin taken by a
 * bare header, and was fenced before its commit. So was the maker of that header, which then removed it.
 */
static void test_plain_name_is_the_newest(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_drop(&holder);
  memset(&holder.committed, 0, sizeof holder.committed);
  holder.epoch = 2;
  holder_create(&holder, "first");
  holder_drop(&holder);
  assert_int_equal(file_unlink(DIR, "t1.bin", &error), FILE_OK);
  memset(&holder.committed, 0, sizeof holder.committed);
  holder.epoch = 4;
  holder_create(&holder, "first");
  holder_append(&holder, 3);
  holder_leave(&holder);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin | t1@3.bin");
  assert_reads(NULL, 1, 3);
}

/* ---- what is missing ---- */

static void test_pruned(void **state)
{
  (void)state;
  four_segments();
  memory_disk_remove(DIR, "t1.bin");
  memory_disk_remove(DIR, "t1@2.bin");
  assert_int_equal(load(NULL), READ_OK);
  assert_true(chain.pruned);
  assert_chain("t1@3.bin t1@4.bin");
  assert_reads(&holder.committed, 11, 20);
  assert_reads(NULL, 11, 20);
}

static void test_missing_in_the_middle(void **state)
{
  (void)state;
  four_segments();
  memory_disk_remove(DIR, "t1@2.bin");
  for (int offline = 0; offline < 2; offline++) {
    assert_int_equal(load(offline ? NULL : &holder.committed), READ_DAMAGED);
    assert_contains(error.text, "t1@2.bin");
    assert_chain("t1@3.bin t1@4.bin | t1.bin");
  }
}

static void test_newest_of_the_ledger_missing(void **state)
{
  (void)state;
  four_segments();
  memory_disk_remove(DIR, "t1@4.bin");
  assert_int_equal(load(&holder.committed), READ_DAMAGED);
  assert_reads(NULL, 1, 15); /* without the ledger nothing shows the loss */
}

/* A crash leaves such headers: no block followed yet. */
static void test_torn_newest_header(void **state)
{
  (void)state;
  static const size_t sizes[] = {0, 1, 100, 4095, 4096};
  uint8_t zeros[4096] = {0};
  four_segments();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    memory_disk_put(DIR, "t1@5.bin", zeros, sizes[i]);
    assert_int_equal(load(NULL), READ_OK);
    assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin | t1@5.bin");
  }
}

static void test_flipped_header(void **state)
{
  (void)state;
  static const char *const names[] = {"t1.bin", "t1@2.bin", "t1@4.bin"};
  size_t size = 0;
  four_segments();
  for (size_t i = 0; i < 3; i++) {
    memory_disk_bytes(DIR, names[i], &size)[300] ^= 1;
    assert_int_equal(load(NULL), READ_DAMAGED);
    assert_contains(error.text, names[i]);
    assert_int_equal(load(&holder.committed), READ_DAMAGED);
    memory_disk_bytes(DIR, names[i], &size)[300] ^= 1;
  }
}

/* Such a segment is placed in the chain by its blocks; the segments before it cannot be found any more. */
static void test_flipped_header_is_read_without(void **state)
{
  (void)state;
  static const struct {
    const char *name, *chain;
    int64_t first; /* the first seq that can be reached */
  } cases[] = {
      {"t1.bin", "t1.bin t1@2.bin t1@3.bin t1@4.bin", 1},
      {"t1@2.bin", "t1@2.bin t1@3.bin t1@4.bin | t1.bin", 6},
      {"t1@4.bin", "t1@4.bin | t1.bin t1@2.bin t1@3.bin", 16},
  };
  size_t size = 0;
  four_segments();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    for (int offline = 0; offline < 2; offline++) {
      struct chain_reader at;
      int64_t seq = cases[i].first;
      memory_disk_bytes(DIR, cases[i].name, &size)[300] ^= 1;
      assert_int_equal(load(offline ? NULL : &holder.committed), READ_DAMAGED);
      assert_chain(cases[i].chain);
      for (size_t k = 0; k < chain.count; k++)
        assert_int_equal(chain.segments[k].headless, k == 0);
      assert_int_equal(chain.segments[0].header.first_seq, seq);
      chain_reader_init(&at, DIR, &chain);
      while (chain_reader_next(&at, &error) == READ_OK)
        if (at.reader.block.kind == BLOCK_DATA) {
          assert_int_equal(at.reader.block.seq, seq);
          seq += at.reader.block.count;
        }
      assert_int_equal(seq, 21);
      assert_int_equal(chain_reader_seek_seq(&at, cases[i].first + 3, &error), READ_OK);
      assert_int_equal(at.index, 0);
      chain_reader_deinit(&at);
      memory_disk_bytes(DIR, cases[i].name, &size)[300] ^= 1;
    }
}

/* Another file under that name is not read so, whatever its header says. */
static void test_flipped_header_of_another_file(void **state)
{
  (void)state;
  size_t size = 0;
  uint8_t copy[65536];
  four_segments();
  const uint8_t *bytes = memory_disk_bytes(DIR, "t1@3.bin", &size);
  assert_true(size <= sizeof copy);
  memcpy(copy, bytes, size);
  copy[300] ^= 1;
  memory_disk_put(DIR, "t1@2.bin", copy, size);
  assert_int_equal(load(&holder.committed), READ_DAMAGED);
  assert_chain("t1@3.bin t1@4.bin | t1.bin t1@2.bin");
}

static void incompat(struct segment_header *header)
{
  header->incompat = 1;
}

static void test_newer_newest(void **state)
{
  (void)state;
  four_segments();
  header_change("t1@4.bin", incompat);
  assert_int_equal(load(NULL), READ_NEWER);
}

/* ---- from a seq on ---- */

/* Segments older than the one that holds the seq are not even opened, so damage in them does not matter. */
static void test_from_seq(void **state)
{
  (void)state;
  static const char *const names[] = {"t1.bin", "t1@2.bin", "t1@3.bin", "t1@4.bin"};
  static const char *const chains[] = {"t1.bin t1@2.bin t1@3.bin t1@4.bin", "t1@2.bin t1@3.bin t1@4.bin", "t1@3.bin t1@4.bin", "t1@4.bin"};
  size_t size = 0;
  four_segments();
  for (int64_t seq = 20; seq >= 1; seq--) {
    struct chain_reader at;
    size_t holds = (size_t)(seq - 1) / 5;
    if (holds > 0)
      memory_disk_bytes(DIR, names[holds - 1], &size)[300] ^= 1;
    memory_disk.calls[DISK_OPEN] = 0;
    assert_int_equal(load_from(&holder.committed, seq), READ_OK);
    assert_int_equal(memory_disk.calls[DISK_OPEN], 4 - holds);
    assert_chain(chains[holds]);
    chain_reader_init(&at, DIR, &chain);
    assert_int_equal(chain_reader_seek_seq(&at, seq, &error), READ_OK);
    do
      assert_int_equal(chain_reader_next(&at, &error), READ_OK);
    while (at.reader.block.kind != BLOCK_DATA);
    assert_true(at.reader.block.seq <= seq && seq < at.reader.block.seq + at.reader.block.count);
    chain_reader_deinit(&at);
    if (holds > 0)
      memory_disk_bytes(DIR, names[holds - 1], &size)[300] ^= 1;
  }
}

/* The segment that holds the seq, and all newer ones, must be there and whole. */
static void test_from_seq_in_what_is_damaged(void **state)
{
  (void)state;
  size_t size = 0;
  four_segments();
  memory_disk_bytes(DIR, "t1@2.bin", &size)[300] ^= 1;
  assert_int_equal(load_from(&holder.committed, 11), READ_OK);
  assert_int_equal(load_from(&holder.committed, 10), READ_DAMAGED);
  assert_contains(error.text, "t1@2.bin");
  assert_int_equal(load_from(&holder.committed, 1), READ_DAMAGED);
  memory_disk_remove(DIR, "t1@2.bin");
  assert_int_equal(load_from(&holder.committed, 11), READ_OK);
  assert_int_equal(load_from(&holder.committed, 10), READ_DAMAGED);
  assert_contains(error.text, "t1@2.bin");
}

/* A newest segment without messages: the seq is in a segment before it. */
static void test_from_seq_before_a_bare_header(void **state)
{
  (void)state;
  four_segments();
  holder_create(&holder, "roll");
  assert_int_equal(load_from(&holder.committed, 20), READ_OK);
  assert_chain("t1@4.bin t1@5.bin");
}

/* ---- orphans ---- */

/* Epoch 2 makes a segment, and is fenced before its commit; the next epoch continues the old file. */
static void fenced_segment(void)
{
  holder_create(&holder, "first");
  holder_append(&holder, 2);
  holder_drop(&holder);
  assert_int_equal(holder_open(&holder, "A"), CHECK_OK);
  assert_int_equal(writer_create(&holder.writer, "unclean", (const uint8_t *)"a uuid like none", 0, holder.now_us, &error), WRITER_OK);
  holder_drop(&holder);
}

static void test_orphan(void **state)
{
  (void)state;
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

/* A frozen holder of a lower epoch writes a late block; that does not make its successor's segment an orphan. */
static void test_late_block_makes_no_orphan(void **state)
{
  (void)state;
  holder_create(&holder, "first");
  holder_append(&holder, 2);
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

static void test_renamed(void **state)
{
  (void)state;
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

static void test_other_types_content(void **state)
{
  (void)state;
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

static void test_headers_that_lie(void **state)
{
  (void)state;
  static void (*const lies[])(struct segment_header *) = {number_five, names_itself, names_newer, names_oldest, epoch_two_before};
  for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
    begin(NULL);
    four_segments();
    header_change("t1@4.bin", lies[i]);
    assert_int_equal(load(NULL), READ_DAMAGED);
  }
  begin(NULL);
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

static void test_pass_damage_over_borders(void **state)
{
  (void)state;
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
static void test_segment_lost_meanwhile(void **state)
{
  (void)state;
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

static void test_failing_calls(void **state)
{
  (void)state;
  static const enum disk_call calls[] = {DISK_LIST, DISK_OPEN, DISK_READ, DISK_SIZE};
  four_segments();
  for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
    for (int n = 1;; n++) {
      memory_disk.fail_in[calls[i]] = n;
      read_chain("t1", &holder.committed, &reading);
      bool failed = memory_disk.fail_in[calls[i]] == 0;
      memory_disk.fail_in[calls[i]] = 0;
      assert_int_equal(reading.status, failed ? READ_FAILED : READ_END);
      if (!failed)
        break;
    }
}

static void test_types(void **state)
{
  (void)state;
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

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, finish)
  const struct CMUnitTest tests[] = {
      TEST(test_vectors),
      TEST(test_nothing),
      TEST(test_four_segments),
      TEST(test_seek),
      TEST(test_header_only_newest),
      TEST(test_plain_name_is_the_newest),
      TEST(test_pruned),
      TEST(test_missing_in_the_middle),
      TEST(test_newest_of_the_ledger_missing),
      TEST(test_torn_newest_header),
      TEST(test_flipped_header),
      TEST(test_flipped_header_is_read_without),
      TEST(test_flipped_header_of_another_file),
      TEST(test_newer_newest),
      TEST(test_from_seq),
      TEST(test_from_seq_in_what_is_damaged),
      TEST(test_from_seq_before_a_bare_header),
      TEST(test_orphan),
      TEST(test_late_block_makes_no_orphan),
      TEST(test_renamed),
      TEST(test_other_types_content),
      TEST(test_headers_that_lie),
      TEST(test_pass_damage_over_borders),
      TEST(test_segment_lost_meanwhile),
      TEST(test_failing_calls),
      TEST(test_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
