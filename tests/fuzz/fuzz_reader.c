/*
 * reader: one segment, read offline or up to a committed end, in order, by searches, and after damage. Checked, besides that the reader
 * does not crash: reading ends, it only moves forward, seqs rise, bodies are documents, and in a file without fault every search finds what
 * reading in order finds.
 */
#include "image.h"
#include "storage/body.h"
#include "storage/reader.h"
#include "target.h"
#include "unit/memory_disk.h"

enum { STEPS_MAX = 20000, SEEKS_MAX = 24 };

struct walked {
  int64_t offset, seq, count, time_us, items;
  uint8_t kind;
};
static struct walked walked[IMAGE_BLOCKS_MAX * 4];
static struct error error;

struct outcome {
  size_t blocks;
  int damages;
  enum read_status status;
};

static void block_check(const struct reader *reader, bool body, int64_t offset, int64_t seq)
{
  const struct block_marker *block = &reader->block;
  CHECK(block->offset == offset && reader->offset > offset && block->seq >= seq);
  CHECK(reader->next_seq == block->seq + block->count);
  if (reader->has_end)
    CHECK(reader->offset <= reader->end.length);
  if (!body)
    CHECK(reader->messages == NULL);
  else if (block->kind < 128)
    CHECK(body_is_documents(reader->messages, reader->messages_bytes, block->kind == BLOCK_DATA ? block->count : 1));
}

/* To the end; continues after damage if `pass`. */
static struct outcome read_on(struct reader *reader, bool body, bool pass, bool record)
{
  struct outcome outcome = {.status = READ_OK};
  for (int steps = 0;; steps++) {
    CHECK(steps < STEPS_MAX);
    int64_t offset = reader->offset, seq = reader->next_seq;
    bool resync = reader->resync;
    outcome.status = body ? reader_next(reader, &error) : reader_next_marker(reader, &error);
    if (outcome.status == READ_OK) {
      block_check(reader, body, offset, resync ? 0 : seq);
      if (record && outcome.blocks < sizeof walked / sizeof *walked)
        walked[outcome.blocks] =
            (struct walked){offset, reader->block.seq, reader->block.count, reader->block.time_us, reader->block.items, reader->block.kind};
      outcome.blocks++;
      continue;
    }
    CHECK(reader->offset == offset && reader->next_seq == seq);
    if (outcome.status != READ_DAMAGED || !pass)
      return outcome;
    CHECK(reader->lost_first == seq);
    outcome.damages++;
    enum read_status passed = reader_pass_damage(reader, &error);
    CHECK(passed == READ_OK || passed == READ_END);
    CHECK(reader->lost_first == seq && reader->lost_last >= -1);
    if (passed == READ_OK)
      CHECK(reader->offset > offset && reader->next_seq >= seq);
  }
}

static enum read_status seek(struct reader *reader, bool by_time, int64_t wanted)
{
  enum read_status status = by_time ? reader_seek_time(reader, wanted, &error) : reader_seek_seq(reader, wanted, &error);
  CHECK(status == READ_OK);
  return status;
}

static bool begins(const struct walked *block, bool by_time, int64_t wanted)
{
  return by_time ? block->time_us < wanted : block->seq <= wanted;
}

/* In a file without fault the search finds the last block that begins early enough. */
static void seek_check(struct reader *reader, size_t count, bool by_time, int64_t wanted)
{
  size_t expected = 0;
  while (expected + 1 < count && begins(&walked[expected + 1], by_time, wanted))
    expected++;
  seek(reader, by_time, wanted);
  CHECK(reader_next(reader, &error) == READ_OK && reader->block.offset == walked[expected].offset);
  struct outcome rest = read_on(reader, true, false, false);
  CHECK(rest.status == READ_END && rest.blocks == count - expected - 1);
}

static void place_check(struct reader *reader, size_t count)
{
  int64_t counted = 0, items = 0;
  bool closed = false;
  for (size_t i = 0; i < count; i++) {
    CHECK(reader_place_after(reader, walked[i].offset, &error) == READ_OK);
    CHECK(reader->next_seq == walked[i].seq + walked[i].count);
    CHECK(i + 1 == count || reader->offset == walked[i + 1].offset);
    items += walked[i].items;
    closed = closed || walked[i].kind == BLOCK_CLOSE; /* a CLOSE has its own count of messages */
    enum read_status status = reader_count_items(reader, &counted, &error);
    CHECK(closed || (status == READ_OK && counted == items));
  }
}

static void searches(struct reader *reader, const struct image *image, size_t count, bool sound)
{
  int64_t wanted = (int64_t)(image_get64(image->control + CONTROL_SEEK) >> 1),
          time = (int64_t)(image_get64(image->control + CONTROL_TIME) >> 1);
  int64_t items = 0;
  seek(reader, false, wanted);
  read_on(reader, true, true, false);
  if (reader_count_items(reader, &items, &error) == READ_OK)
    items = 0;
  seek(reader, true, time);
  read_on(reader, false, true, false);
  if (!sound || count == 0 || count > SEEKS_MAX)
    return;
  seek_check(reader, count, false, wanted);
  seek_check(reader, count, true, time);
  const struct walked *one = &walked[image->control[CONTROL_BLOCK] % count];
  seek_check(reader, count, false, one->seq);
  seek_check(reader, count, true, one->time_us);
  place_check(reader, count);
}

static void one_file(const struct image *image, const struct image_file *file, const struct committed *end)
{
  struct reader reader;
  char name[FILE_NAME_SIZE];
  image_name(file->epoch, name);
  if (reader_open(&reader, IMAGE_DIR, name, end, &error) != READ_OK)
    return;
  struct outcome in_order = read_on(&reader, true, true, true);
  bool sound = in_order.status == READ_END && in_order.damages == 0;
  if (sound && end != NULL && !reader.resync)
    CHECK(reader.offset == end->length && (reader.has_last ? reader.last.offset : 0) == end->tail && reader.next_seq == end->seq + 1);
  reader_close(&reader);

  CHECK(reader_open(&reader, IMAGE_DIR, name, end, &error) == READ_OK);
  struct outcome first = read_on(&reader, true, false, false);
  CHECK(first.blocks <= in_order.blocks && (first.status == READ_DAMAGED) == (in_order.damages > 0));
  CHECK(reader_place_after(&reader, 0, &error) == READ_OK);
  struct outcome markers = read_on(&reader, false, false, false);
  CHECK(markers.blocks >= first.blocks);
  searches(&reader, image, in_order.blocks, sound);
  if (end != NULL) { /* as if the ledger were lost: what follows the committed end is read too */
    reader_set_end(&reader, NULL);
    read_on(&reader, true, true, false);
  }
  reader_close(&reader);
  CHECK(memory_disk_open_files() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
  struct image image;
  struct committed end;
  image_parse(&image, input, size);
  image_to_disk(&image);
  bool has_end = image_end(&image, &end);
  for (size_t i = 0; i < image.count && i < 2; i++) {
    one_file(&image, &image.files[i], NULL);
    if (has_end)
      one_file(&image, &image.files[i], &end);
  }
  memory_disk_reset();
  return 0;
}
