/*
 * chain: a directory of segments: which of them belong together, and reading across their borders. Checked: reading ends, no two segments
 * are the same, each fits its successor, seqs rise, and a chain without fault returns every seq once.
 */
#include "image.h"
#include "storage/chain.h"
#include "target.h"
#include "unit/memory_disk.h"

enum { STEPS_MAX = 20000 };

static struct error error;

static void chain_check(const struct chain *chain, size_t files)
{
  CHECK(chain->count + chain->orphan_count <= files);
  for (size_t i = 0; i + 1 < chain->count; i++) {
    const struct segment *segment = &chain->segments[i], *next = &chain->segments[i + 1];
    CHECK(strcmp(segment->name, next->header.predecessor) == 0);
    CHECK(segment->has_end && segment->end.length == next->header.predecessor_length);
    CHECK(segment->header.number + 1 == next->header.number && segment->header.epoch < next->header.epoch);
    CHECK(memcmp(segment->header.uuid, next->header.predecessor_uuid, 16) == 0);
  }
}

/* Reads from the present position to the end; true: no fault on the way. */
static bool read_on(struct chain_reader *at, int64_t next_seq, bool exact)
{
  bool sound = true;
  for (int steps = 0;; steps++) {
    CHECK(steps < STEPS_MAX);
    enum read_status status = chain_reader_next(at, &error);
    if (status == READ_OK) {
      CHECK(!exact || !sound || at->reader.block.seq == next_seq);
      next_seq = at->reader.next_seq;
      continue;
    }
    if (status != READ_DAMAGED)
      return sound && (status == READ_END || status == READ_TAIL);
    sound = false;
    enum read_status passed = chain_reader_pass_damage(at, &error);
    CHECK(passed == READ_OK || passed == READ_END);
  }
}

static void read_all(const struct image *image, const struct chain *chain)
{
  struct chain_reader at;
  int64_t seq = (int64_t)(image_get64(image->control + CONTROL_SEEK) >> 1),
          time = (int64_t)(image_get64(image->control + CONTROL_TIME) >> 1);
  chain_reader_init(&at, IMAGE_DIR, chain);
  read_on(&at, chain->count > 0 ? chain->segments[0].header.first_seq : 1, true);
  chain_reader_deinit(&at);
  for (int by_time = 0; by_time < 2; by_time++) {
    chain_reader_init(&at, IMAGE_DIR, chain);
    enum read_status status = by_time ? chain_reader_seek_time(&at, time, &error) : chain_reader_seek_seq(&at, seq, &error);
    if (status == READ_OK || status == READ_DAMAGED)
      read_on(&at, 0, false);
    chain_reader_deinit(&at);
  }
}

static void load(const struct image *image, const struct committed *end)
{
  struct chain chain;
  enum read_status status = chain_load(&chain, IMAGE_DIR, IMAGE_TYPE, end, 0, &error);
  CHECK(status == READ_OK || status == READ_DAMAGED || status == READ_NEWER);
  chain_check(&chain, image->count);
  read_all(image, &chain);
  chain_free(&chain);
  CHECK(memory_disk_open_files() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
  struct image image;
  struct committed end;
  char(*types)[TYPE_BYTES_MAX + 1] = NULL;
  size_t count = 0;
  image_parse(&image, input, size);
  image_to_disk(&image);
  load(&image, NULL);
  if (image_end(&image, &end))
    load(&image, &end);
  CHECK(chain_list_types(IMAGE_DIR, &types, &count, &error) == READ_OK && count == (image.count > 0));
  free(types);
  memory_disk_reset();
  return 0;
}
