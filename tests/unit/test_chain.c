/* chain: which segments a type has, in what order, and what is missing. */
#include "chain_fixture.h"

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

CHAIN_TEST(test_vectors)
{
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

CHAIN_TEST(test_nothing)
{
  memory_disk_put(DIR, "other.txt", "x", 1);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("");
  assert_int_equal(load(&(struct committed){.seq = 0}), READ_OK);
  assert_chain("");
  assert_reads(NULL, 1, 0);
}

CHAIN_TEST(test_four_segments)
{
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

CHAIN_TEST(test_seek)
{
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

CHAIN_TEST(test_header_only_newest)
{
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
CHAIN_TEST(test_plain_name_is_the_newest)
{
  holder_create(&holder, "first");
  holder_drop(&holder);
  memset(&holder.committed, 0, sizeof holder.committed);
  holder.epoch = 2;
  holder_create(&holder, "first");
  holder_drop(&holder);
  assert_int_equal(file_unlink(DIR, "t1.bin", &error), FILE_OK);
  memset(&holder.committed, 0, sizeof holder.committed);
  holder.epoch = 4;
  first_segment(3);
  holder_leave(&holder);
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin | t1@3.bin");
  assert_reads(NULL, 1, 3);
}

/* ---- what is missing ---- */

CHAIN_TEST(test_pruned)
{
  four_segments();
  memory_disk_remove(DIR, "t1.bin");
  memory_disk_remove(DIR, "t1@2.bin");
  assert_int_equal(load(NULL), READ_OK);
  assert_true(chain.pruned);
  assert_chain("t1@3.bin t1@4.bin");
  assert_reads(&holder.committed, 11, 20);
  assert_reads(NULL, 11, 20);
}

/* The header of a dead holder, without blocks, is nothing older. */
CHAIN_TEST(test_pruned_but_for_a_header)
{
  size_t size = 0;
  four_segments();
  uint8_t header[FORMAT_HEADER_BYTES];
  memcpy(header, memory_disk_bytes(DIR, "t1.bin", &size), sizeof header);
  memory_disk_remove(DIR, "t1@2.bin");
  memory_disk_put(DIR, "t1.bin", header, sizeof header);
  assert_int_equal(load(NULL), READ_OK);
  assert_true(chain.pruned);
  assert_chain("t1@3.bin t1@4.bin | t1.bin");
}

/* When it was read, and before it is asked whether there are blocks after it. */
static void header_becomes_visible(enum disk_call call)
{
  size_t size = 0;
  if (call != DISK_SIZE)
    return;
  memory_disk.before = NULL;
  memory_disk_bytes(DIR, "t1@4.bin", &size)[300] ^= 1;
}

/* Over a network the header may be seen later than the blocks: it is read once more. */
CHAIN_TEST(test_header_that_is_seen_late)
{
  size_t size = 0;
  four_segments();
  memory_disk_bytes(DIR, "t1@4.bin", &size)[300] ^= 1;
  assert_int_equal(load(NULL), READ_DAMAGED);
  memory_disk.before = header_becomes_visible;
  assert_int_equal(load(NULL), READ_OK);
  assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin");
}

CHAIN_TEST(test_missing_in_the_middle)
{
  four_segments();
  memory_disk_remove(DIR, "t1@2.bin");
  for (int offline = 0; offline < 2; offline++) {
    assert_int_equal(load(offline ? NULL : &holder.committed), READ_DAMAGED);
    assert_contains(error.text, "t1@2.bin");
    assert_chain("t1@3.bin t1@4.bin | t1.bin");
  }
}

CHAIN_TEST(test_newest_of_the_ledger_missing)
{
  four_segments();
  memory_disk_remove(DIR, "t1@4.bin");
  assert_int_equal(load(&holder.committed), READ_DAMAGED);
  assert_reads(NULL, 1, 15); /* without the ledger nothing shows the loss */
}

/* A crash leaves such headers: no block followed yet. */
CHAIN_TEST(test_torn_newest_header)
{
  static const size_t sizes[] = {0, 1, 100, 4095, 4096};
  uint8_t zeros[4096] = {0};
  four_segments();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    memory_disk_put(DIR, "t1@5.bin", zeros, sizes[i]);
    assert_int_equal(load(NULL), READ_OK);
    assert_chain("t1.bin t1@2.bin t1@3.bin t1@4.bin | t1@5.bin");
  }
}

CHAIN_TEST(test_flipped_header)
{
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
CHAIN_TEST(test_flipped_header_is_read_without)
{
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
CHAIN_TEST(test_flipped_header_of_another_file)
{
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

CHAIN_TEST(test_newer_newest)
{
  four_segments();
  header_change("t1@4.bin", incompat);
  assert_int_equal(load(NULL), READ_NEWER);
}

/* ---- from a seq on ---- */

/* Segments older than the one that holds the seq are not even opened, so damage in them does not matter. */
CHAIN_TEST(test_from_seq)
{
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
CHAIN_TEST(test_from_seq_in_what_is_damaged)
{
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
CHAIN_TEST(test_from_seq_before_a_bare_header)
{
  four_segments();
  holder_create(&holder, "roll");
  assert_int_equal(load_from(&holder.committed, 20), READ_OK);
  assert_chain("t1@4.bin t1@5.bin");
}

/* After a clock was set back a segment begins at the time of the last block before it. */
CHAIN_TEST(test_seek_time_at_the_begin_of_a_segment)
{
  struct chain_reader at;
  first_segment(2);
  holder_append(&holder, 3);
  int64_t time_us = holder.writer.last.time_us;
  holder.now_us = 1000;
  holder_leave(&holder);
  holder_create(&holder, "roll");
  holder_append(&holder, 2);
  assert_int_equal(load(NULL), READ_OK);
  assert_int_equal(chain.segments[1].header.created_us, time_us);
  chain_reader_init(&at, DIR, &chain);
  assert_int_equal(chain_reader_seek_time(&at, time_us, &error), READ_OK);
  do
    assert_int_equal(chain_reader_next(&at, &error), READ_OK);
  while (at.reader.block.kind != BLOCK_DATA || at.reader.block.time_us < time_us);
  assert_int_equal(at.reader.block.seq, 3);
  chain_reader_deinit(&at);
}
