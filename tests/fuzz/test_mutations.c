/*
 * mutations: readers refuse every change below the committed end: bytes flipped, parts cut out, blocks swapped, repeated, removed, put in
 * from another file or from an earlier life of this one, in any segment of a chain, alone and several at once. Each message that a reader
 * returns is the right one in its right place, and a reader never reaches the end of a changed chain without an error.
 */
#include "unit/holder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEGMENTS = 3, BLOCKS_MAX = 32, FILE_BYTES_MAX = 64 * 1024, ROUNDS = 6000 };

struct file_copy {
  char name[FILE_NAME_SIZE];
  uint8_t bytes[FILE_BYTES_MAX];
  size_t size, committed;
  struct {
    size_t at, size;
  } blocks[BLOCKS_MAX];
  int count;
};

static struct holder holder;
static struct reading reading;
static struct file_copy pristine[SEGMENTS], stranger, now;
static uint64_t chance;

static size_t below(size_t limit)
{
  return memory_disk_random(&chance) % limit;
}

static void copy_take(struct file_copy *copy, const char *name, const struct committed *end)
{
  struct reader reader;
  struct error error;
  size_t size = 0;
  const uint8_t *bytes = memory_disk_bytes(DIR, name, &size);
  assert_non_null(bytes);
  assert_true(size <= FILE_BYTES_MAX);
  memset(copy, 0, sizeof *copy);
  snprintf(copy->name, sizeof copy->name, "%s", name);
  memcpy(copy->bytes, bytes, size);
  copy->size = size;
  assert_int_equal(reader_open(&reader, DIR, name, end, &error), READ_OK);
  while (reader_next(&reader, &error) == READ_OK) {
    assert_true(copy->count < BLOCKS_MAX);
    copy->blocks[copy->count].at = (size_t)reader.block.offset;
    copy->blocks[copy->count++].size = FORMAT_MARKER_BYTES + reader.block.stored_bytes;
  }
  copy->committed = (size_t)reader.offset;
  reader_close(&reader);
}

/* Two epochs in a segment, a roll, plain and zstd, an uncommitted tail; then the same offsets and seqs in a file with another uuid. */
static void chain_write(struct holder *to, const char *type, bool zstd)
{
  holder_init(to, type);
  to->options.codec_zstd = zstd;
  for (int segment = 0; segment < SEGMENTS; segment++) {
    holder_create(to, segment == 0 ? "first" : "unclean");
    holder_append(to, 2);
    holder_append(to, zstd ? 25 : 1);
    holder_leave(to);
    holder_continue(to, segment % 2 ? "A" : "B");
    holder_append(to, 1);
    holder_append(to, 2);
    if (segment + 1 < SEGMENTS)
      holder_drop(to);
  }
}

static void chain_copy(void)
{
  struct chain chain;
  struct error error;
  assert_int_equal(chain_load(&chain, DIR, "t1", &holder.committed, 0, &error), READ_OK);
  assert_int_equal(chain.count, SEGMENTS);
  for (size_t i = 0; i < SEGMENTS; i++)
    copy_take(&pristine[i], chain.segments[i].name, &chain.segments[i].end);
  chain_free(&chain);
}

static void chain_prepare(bool zstd)
{
  struct holder other;
  memory_disk_reset();
  chain_write(&other, "t2", zstd);
  holder_drop(&other);
  copy_take(&stranger, other.committed.file, &other.committed);
  chain_write(&holder, "t1", zstd);
  assert_int_equal(holder_write(&holder, 2), WRITER_OK); /* never committed */
  holder_drop(&holder);
  chain_copy();
}

static void chain_restore(void)
{
  for (int i = 0; i < SEGMENTS; i++)
    memory_disk_put(DIR, pristine[i].name, pristine[i].bytes, pristine[i].size);
}

/* ---- changes ---- */

static void splice(size_t at, size_t removed, const uint8_t *with, size_t length)
{
  static uint8_t copy[FILE_BYTES_MAX];
  if (now.size - removed + length > sizeof now.bytes)
    return;
  if (length > 0)
    memcpy(copy, with, length); /* `with` may lie in the bytes that move */
  memmove(now.bytes + at + length, now.bytes + at + removed, now.size - at - removed);
  if (length > 0)
    memcpy(now.bytes + at, copy, length);
  now.size += length - removed;
}

static void blocks_swap(size_t one, size_t two)
{
  if (one == two)
    return;
  size_t low = one < two ? one : two, high = one < two ? two : one, first = now.blocks[low].size;
  splice(now.blocks[high].at, now.blocks[high].size, now.bytes + now.blocks[low].at, first);
  const struct file_copy *from = &pristine[0];
  for (int i = 0; i < SEGMENTS; i++)
    from = strcmp(pristine[i].name, now.name) == 0 ? &pristine[i] : from;
  splice(now.blocks[low].at, first, from->bytes + from->blocks[high].at, from->blocks[high].size);
}

/* One change below the committed end. */
static void change(void)
{
  const struct file_copy *other = below(2) ? &stranger : &pristine[below(SEGMENTS)];
  size_t one = below((size_t)now.count), two = below((size_t)now.count), from = below((size_t)other->count), at = below(now.committed);
  switch (below(9)) {
  case 0:
    now.bytes[at] ^= (uint8_t)(1 << below(8));
    break;
  case 1:
    for (size_t i = at; i < now.committed && i < at + 600; i++)
      now.bytes[i] = (uint8_t)below(256);
    break;
  case 2:
    memset(now.bytes + at, 0, now.committed - at < 512 ? now.committed - at : 512); /* a lost sector */
    break;
  case 3:
    now.size = at;
    break;
  case 4:
    splice(at, below(now.committed - at) + 1, NULL, 0);
    break;
  case 5:
    splice(now.blocks[two].at, 0, now.bytes + now.blocks[one].at, now.blocks[one].size);
    break;
  case 6:
    blocks_swap(one, two);
    break;
  case 7:
    splice(now.blocks[one].at, below(2) ? now.blocks[one].size : 0, other->bytes + other->blocks[from].at, other->blocks[from].size);
    break;
  default:
    splice(now.blocks[one].at, now.blocks[one].size, NULL, 0);
    break;
  }
}

static bool changed_below_end(const struct file_copy *was)
{
  return now.size < was->committed || memcmp(now.bytes, was->bytes, was->committed) != 0;
}

/* read_chain asserts that each returned message is the one of its seq. */
static void assert_refused(const char *what)
{
  read_chain("t1", &holder.committed, &reading);
  if (reading.status != READ_DAMAGED && reading.status != READ_NEWER)
    fail_msg("%s: read with status %d", what, reading.status);
}

static void mutate_everything(bool zstd)
{
  chain_prepare(zstd);
  read_chain("t1", &holder.committed, &reading);
  assert_int_equal(reading.status, READ_END);
  assert_int_equal(reading.messages, holder.committed.seq);
  for (int round = 0; round < ROUNDS; round++) {
    chance = (uint64_t)round + 1 + (zstd ? 1 << 20 : 0);
    below(1);
    int times = below(4) == 0 ? 3 : 1;
    bool changed = false;
    for (int i = 0; i < times; i++) {
      const struct file_copy *was = &pristine[below(SEGMENTS)];
      now = *was;
      change();
      changed = changed || changed_below_end(was);
      memory_disk_put(DIR, now.name, now.bytes, now.size);
    }
    char what[64];
    snprintf(what, sizeof what, "round %d%s", round, zstd ? ", zstd" : "");
    if (changed && (times == 1 || changed_below_end(&now)))
      assert_refused(what);
    chain_restore();
    if (round % 500 == 499) /* the memory disk keeps replaced files */
      chain_prepare(zstd);
  }
}

static void test_mutations_plain(void **state)
{
  (void)state;
  mutate_everything(false);
}

static void test_mutations_zstd(void **state)
{
  (void)state;
  mutate_everything(true);
}

/*
 * The same file in another life: after a take-over the last block was cut off and another one written in its place, valid in itself and a
 * correct continuation of what is before it. Only the recorded end tells the two apart.
 */
static void test_another_life(void **state)
{
  (void)state;
  for (int segment = 0; segment < SEGMENTS; segment++) {
    chain_prepare(false);
    now = pristine[segment];
    size_t last = (size_t)now.count - 1;
    uint8_t *marker = now.bytes + now.blocks[last].at;
    struct block_marker block;
    struct error error;
    assert_int_equal(format_marker_decode(marker, &block, &error), FORMAT_OK);
    block.time_us++;
    format_marker_encode(&block, marker);
    memory_disk_put(DIR, now.name, now.bytes, now.size);
    read_segment(now.name, NULL, false, &reading);
    assert_true(reading.status == READ_END || reading.status == READ_TAIL); /* the file alone shows no fault */
    assert_int_equal(reading.blocks, now.count);
    assert_refused(now.name);
    assert_contains(reading.error.text, "committed end");
  }
}

/* Whole files swapped, removed, or empty. */
static void test_files(void **state)
{
  (void)state;
  chain_prepare(false);
  for (int i = 0; i < SEGMENTS; i++)
    for (int k = 0; k <= SEGMENTS; k++) {
      const struct file_copy *other = k < SEGMENTS ? &pristine[k] : &stranger;
      if (other == &pristine[i])
        continue;
      memory_disk_put(DIR, pristine[i].name, other->bytes, other->size);
      assert_refused(pristine[i].name);
      chain_restore();
    }
  for (int i = 0; i < SEGMENTS; i++) {
    memory_disk_put(DIR, pristine[i].name, pristine[i].bytes, 0);
    assert_refused(pristine[i].name);
    memory_disk_remove(DIR, pristine[i].name);
    if (i > 0) /* the oldest segment may have been moved away on purpose */
      assert_refused(pristine[i].name);
    chain_restore();
  }
}

static int finish(void **state)
{
  (void)state;
  assert_int_equal(memory_disk_open_files(), 0);
  memory_disk_reset();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_mutations_plain, finish),
      cmocka_unit_test_teardown(test_mutations_zstd, finish),
      cmocka_unit_test_teardown(test_another_life, finish),
      cmocka_unit_test_teardown(test_files, finish),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
