/*
 * The custom mutator of the targets that read storage files: changes one thing in a directory of segments, then usually seals the segments
 * again, so that the first checksum does not hide the change.
 */
#include "image.h"
#include "storage/format.h"
#include "unit/memory_disk.h"

#include <zstd.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { ROOM = 96 * 1024, FRAME_AROUND = 14, DECODED_MAX = 64 * 1024 };

struct work {
  uint8_t epoch;
  size_t size;
  uint8_t bytes[ROOM];
};

static struct work works[IMAGE_FILES_MAX];
static size_t work_count;
static uint8_t control[CONTROL_BYTES];
static uint8_t body[ROOM], plain[DECODED_MAX];
static struct span blocks[IMAGE_BLOCKS_MAX];
static uint64_t chance;

static size_t below(size_t limit)
{
  return memory_disk_random(&chance) % (limit > 0 ? limit : 1);
}

static uint64_t interesting(uint64_t now)
{
  static const uint64_t values[] = {0,
                                    1,
                                    4,
                                    5,
                                    128,
                                    4096,
                                    0x7F,
                                    0xFF,
                                    0xFFFF,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0xFFFFFFFF,
                                    80 << 20,
                                    (80 << 20) + 1,
                                    (uint64_t)1 << 62,
                                    ((uint64_t)1 << 62) - 1,
                                    INT64_MAX,
                                    UINT64_MAX};
  switch (below(4)) {
  case 0:
    return values[below(sizeof values / sizeof *values)];
  case 1:
    return now + 1 + below(3);
  case 2:
    return now - 1 - below(3);
  default:
    return now ^ (uint64_t)1 << below(64);
  }
}

/* ---- fields ---- */

struct field {
  uint8_t at, bytes;
};
static const struct field marker_fields[] = {{16, 1}, {17, 1}, {18, 1}, {19, 1}, {20, 4}, {24, 4}, {28, 4},  {32, 8},  {40, 8},
                                             {48, 8}, {56, 8}, {64, 8}, {72, 8}, {80, 8}, {96, 4}, {104, 4}, {108, 4}, {124, 4}};
static const struct field header_fields[] = {{16, 1}, {17, 1}, {18, 1}, {20, 4},  {24, 4},  {28, 4},  {48, 8},  {56, 8}, {64, 8},
                                             {72, 8}, {96, 8}, {80, 8}, {104, 8}, {112, 8}, {120, 8}, {128, 8}, {136, 8}};

static void field_change(uint8_t *at, const struct field *fields, size_t count)
{
  const struct field *field = &fields[below(count)];
  uint64_t now = 0;
  for (size_t i = 0; i < field->bytes; i++)
    now |= (uint64_t)at[field->at + i] << 8 * i;
  image_put(at + field->at, interesting(now), field->bytes);
}

static void in_place(uint8_t *at, size_t size)
{
  uint8_t copy[512] = {0};
  size_t length = size < sizeof copy ? size : sizeof copy;
  memcpy(copy, at, length);
  LLVMFuzzerMutate(copy, length, length);
  memcpy(at, copy, length);
}

/* ---- blocks ---- */

static bool splice(struct work *work, size_t at, size_t removed, const uint8_t *with, size_t length)
{
  if (work->size - removed + length > ROOM)
    return false;
  memmove(work->bytes + at + length, work->bytes + at + removed, work->size - at - removed);
  if (length > 0)
    memmove(work->bytes + at, with, length);
  work->size += length - removed;
  return true;
}

/* Turns the bytes into documents whose lengths add up to `size`; returns their number. */
static uint32_t documents_mend(uint8_t *bytes, size_t size)
{
  uint32_t count = 0;
  while (size >= 5) {
    size_t length = image_get32(bytes);
    if (length < 5 || length > size || (bytes[length - 1] != 0 && below(2)))
      image_put(bytes, length = size, 4);
    if (size - length < 5)
      image_put(bytes, length = size, 4);
    bytes[length - 1] = 0;
    bytes += length;
    size -= length;
    count++;
  }
  return count;
}

/* The body decoded, into `plain`. */
static size_t body_decoded(const uint8_t *marker, size_t stored)
{
  const uint8_t *at = marker + FORMAT_MARKER_BYTES;
  if (marker[18] == CODEC_ZSTD && stored > FRAME_AROUND) {
    size_t size = ZSTD_decompress(plain, sizeof plain, at + FRAME_AROUND - 1, stored - FRAME_AROUND);
    if (!ZSTD_isError(size))
      return size;
  }
  size_t size = stored < sizeof plain ? stored : sizeof plain;
  memcpy(plain, at, size);
  return size;
}

static size_t body_zstd(size_t size)
{
  size_t frame = ZSTD_compress(body + FRAME_AROUND - 1, sizeof body - FRAME_AROUND, plain, size, 1), total = frame + FRAME_AROUND;
  if (ZSTD_isError(frame))
    return 0;
  image_put(body, total, 4);
  memcpy(body + 4, "\x05_z", 4);
  image_put(body + 8, frame, 4);
  body[12] = 0;
  body[total - 1] = 0;
  return total;
}

static void body_change(struct work *work, const struct span *block)
{
  uint8_t *marker = work->bytes + block->at;
  size_t size = body_decoded(marker, block->size - FORMAT_MARKER_BYTES), room = size + 256 < sizeof plain ? size + 256 : sizeof plain;
  if (below(16) > 0)
    size = LLVMFuzzerMutate(plain, size, room);
  uint32_t count = below(4) > 0 ? documents_mend(plain, size) : image_get32(marker + 28);
  bool data = marker[17] == BLOCK_DATA, zstd = data && below(6) == 0;
  size_t stored = zstd ? body_zstd(size) : size;
  if (zstd && stored == 0)
    return;
  if (zstd && below(8) == 0)
    in_place(body, stored);
  if (!splice(work, block->at + FORMAT_MARKER_BYTES, block->size - FORMAT_MARKER_BYTES, zstd ? body : plain, stored))
    return;
  marker[18] = zstd ? CODEC_ZSTD : CODEC_PLAIN;
  image_put(marker + 20, stored, 4);
  image_put(marker + 24, size, 4);
  if (data)
    image_put(marker + 28, count, 4);
}

static void block_move(struct work *work, const struct span *block, size_t count)
{
  const struct work *from = &works[below(work_count)];
  struct span others[IMAGE_BLOCKS_MAX];
  const struct span *to = &blocks[below(count)];
  size_t other_count = segment_blocks(from->bytes, from->size, others, IMAGE_BLOCKS_MAX), other;
  switch (below(5)) {
  case 0: /* removed */
    splice(work, block->at, block->size, NULL, 0);
    break;
  case 1: /* repeated, there or elsewhere */
    memcpy(body, work->bytes + block->at, block->size);
    splice(work, to->at, 0, body, block->size);
    break;
  case 2: /* replaced by a block of another file, or by another block of this file */
    if (other_count == 0)
      break;
    other = below(other_count);
    memcpy(body, from->bytes + others[other].at, others[other].size);
    splice(work, block->at, block->size, body, others[other].size);
    break;
  case 3: /* bytes inserted */
    in_place(body, 300);
    splice(work, block->at, 0, body, 1 + below(300));
    break;
  default: /* cut off */
    work->size = block->at + below(block->size + 1);
    break;
  }
}

/* ---- files ---- */

static void file_change(size_t index)
{
  struct work *work = &works[index];
  switch (below(5)) {
  case 0:
    work->size = below(work->size + 1);
    break;
  case 1:
    if (work_count > 1)
      memmove(work, &works[--work_count], sizeof *work);
    break;
  case 2:
    if (work_count < IMAGE_FILES_MAX) {
      works[work_count] = *work;
      works[work_count++].epoch = (uint8_t)(work->epoch + 1 + below(3));
    }
    break;
  case 3:
    work->epoch = (uint8_t)below(8);
    break;
  default:
    splice(work, work->size, 0, body, below(600));
    break;
  }
}

/* True: a field was changed, and a full seal would undo the change. */
static bool change(void)
{
  size_t index = below(work_count);
  struct work *work = &works[index];
  size_t count = segment_blocks(work->bytes, work->size, blocks, IMAGE_BLOCKS_MAX), kind = below(16);
  const struct span *block = &blocks[below(count)];
  if (kind == 0 || work->size < FORMAT_HEADER_BYTES) {
    file_change(index);
    return false;
  }
  if (kind == 1 || count == 0) {
    if (below(2))
      in_place(work->bytes + 256, 200); /* info */
    else
      field_change(work->bytes, header_fields, sizeof header_fields / sizeof *header_fields);
    return true;
  }
  if (kind < 5) {
    field_change(work->bytes + block->at, marker_fields, sizeof marker_fields / sizeof *marker_fields);
    return true;
  }
  if (kind < 8)
    block_move(work, block, count);
  else if (kind == 8)
    in_place(work->bytes + block->at, block->size);
  else
    body_change(work, block);
  return false;
}

/* Makes each file the successor of the one before it. */
static void follow_up(void)
{
  for (size_t i = 1; i < work_count; i++) {
    const struct work *before = &works[i - 1];
    struct committed end = {.length = 0};
    if (before->size >= FORMAT_HEADER_BYTES && segment_end(before->bytes, before->size, below(3) > 0 ? SIZE_MAX : below(4), &end))
      segment_follow(works[i].bytes, works[i].size, &end, image_get64(before->bytes + 48), image_get64(before->bytes + 72));
    segment_seal(works[i].bytes, works[i].size, SEAL_SUMS);
  }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
  static struct image image;
  chance = seed | (uint64_t)1 << 32;
  image_parse(&image, data, size);
  if (below(16) == 0 || image.count == 0)
    return LLVMFuzzerMutate(data, size, max_size);
  memcpy(control, image.control, sizeof control);
  work_count = 0;
  for (size_t i = 0; i < image.count; i++) {
    struct work *work = &works[work_count++];
    work->epoch = image.files[i].epoch;
    work->size = image.files[i].size < ROOM ? image.files[i].size : ROOM;
    memcpy(work->bytes, image.files[i].bytes, work->size);
  }
  bool field = false;
  if (below(4) == 0)
    in_place(control, sizeof control);
  else
    for (size_t times = 1 + below(3); times > 0; times--)
      field = change() || field;
  size_t way = below(8);
  enum seal seal = way == 0 ? SEAL_NONE : way < (field ? 7 : 2) ? SEAL_SUMS : SEAL_CHAIN;
  for (size_t i = 0; i < work_count; i++)
    segment_seal(works[i].bytes, works[i].size, seal);
  if (seal != SEAL_NONE && below(4) > 0)
    follow_up();
  size_t at = CONTROL_BYTES < max_size ? CONTROL_BYTES : max_size;
  memcpy(data, control, at);
  for (size_t i = 0; i < work_count && max_size - at >= 4; i++) {
    size_t length = works[i].size < max_size - at - 4 ? works[i].size : max_size - at - 4;
    data[at] = works[i].epoch;
    image_put(data + at + 1, length, 3);
    memcpy(data + at + 4, works[i].bytes, length);
    at += 4 + length;
  }
  return at;
}
