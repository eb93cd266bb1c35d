#include "image.h"
#include "storage/format.h"
#include "unit/memory_disk.h"

enum { NUMBER_MAX_LOG2 = 62, MARKER_CRC_AT = 120, HEADER_CRC_AT = 252 };

uint32_t image_get32(const uint8_t *at)
{
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

uint64_t image_get64(const uint8_t *at)
{
  return image_get32(at) | (uint64_t)image_get32(at + 4) << 32;
}

void image_put(uint8_t *at, uint64_t value, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    at[i] = (uint8_t)(value >> 8 * i);
}

/* ---- images ---- */

void image_parse(struct image *image, const uint8_t *input, size_t size)
{
  size_t at = size < CONTROL_BYTES ? size : CONTROL_BYTES;
  memset(image, 0, sizeof *image);
  if (at > 0)
    memcpy(image->control, input, at);
  while (image->count < IMAGE_FILES_MAX && size - at >= 4) {
    struct image_file *file = &image->files[image->count++];
    size_t length = image_get32(input + at) >> 8;
    file->epoch = input[at];
    at += 4;
    file->bytes = input + at;
    file->size = length < size - at ? length : size - at;
    at += file->size;
  }
}

void image_name(uint8_t epoch, char name[FILE_NAME_SIZE])
{
  segment_name_make(IMAGE_TYPE, epoch, name);
}

void image_to_disk(const struct image *image)
{
  char name[FILE_NAME_SIZE];
  memory_disk_reset();
  for (size_t i = 0; i < image->count; i++) {
    image_name(image->files[i].epoch, name);
    memory_disk_put(IMAGE_DIR, name, image->files[i].bytes, image->files[i].size);
  }
}

static int64_t control_number(const struct image *image, enum control_at at)
{
  return (int64_t)(image_get64(image->control + at) >> 1);
}

bool image_end(const struct image *image, struct committed *end)
{
  enum control_end mode = image->control[CONTROL_MODE] & 3;
  memset(end, 0, sizeof *end);
  if (mode == END_NONE || image->count == 0)
    return false;
  const struct image_file *file = &image->files[image->control[CONTROL_FILE] % image->count];
  if (!segment_end(file->bytes, file->size, image->control[CONTROL_BLOCK], end))
    return false;
  image_name(file->epoch, end->file);
  if (mode == END_GIVEN)
    end->length = end->tail = end->seq = 0, end->link = 0;
  if (mode != END_TRUE) {
    end->length ^= control_number(image, CONTROL_LENGTH);
    end->tail ^= control_number(image, CONTROL_TAIL);
    end->seq ^= control_number(image, CONTROL_SEQ);
    end->link ^= image_get64(image->control + CONTROL_LINK);
  }
  return true;
}

/* ---- segments ---- */

size_t segment_blocks(const uint8_t *bytes, size_t size, struct span *blocks, size_t max)
{
  size_t count = 0;
  for (size_t at = FORMAT_HEADER_BYTES; count < max && at + FORMAT_MARKER_BYTES <= size;) {
    size_t length = FORMAT_MARKER_BYTES + (size_t)image_get32(bytes + at + 20);
    if (!format_marker_begins(bytes + at) || length > size - at)
      break;
    blocks[count++] = (struct span){at, length};
    at += length;
  }
  return count;
}

bool segment_end(const uint8_t *bytes, size_t size, size_t index, struct committed *end)
{
  struct span blocks[IMAGE_BLOCKS_MAX];
  if (size < FORMAT_HEADER_BYTES)
    return false;
  size_t count = segment_blocks(bytes, size, blocks, IMAGE_BLOCKS_MAX);
  memcpy(end->uuid, bytes + 32, sizeof end->uuid);
  end->length = FORMAT_HEADER_BYTES;
  end->link = (uint64_t)image_get32(bytes + HEADER_CRC_AT) << 32;
  end->seq = (int64_t)((image_get64(bytes + 56) - 1) & INT64_MAX);
  if (count == 0)
    return true;
  const struct span *last = &blocks[index < count ? index : count - 1];
  const uint8_t *marker = bytes + last->at;
  end->length = (int64_t)(last->at + last->size);
  end->tail = (int64_t)last->at;
  end->link = (uint64_t)image_get32(marker + MARKER_CRC_AT) << 32 | image_get32(marker + 100);
  end->seq = (int64_t)((image_get64(marker + 56) + image_get32(marker + 28) - 1) & INT64_MAX);
  return true;
}

static uint64_t number_in_range(uint64_t value, uint64_t least)
{
  return value < least || value >> NUMBER_MAX_LOG2 != 0 ? least : value;
}

static void header_seal(uint8_t *bytes)
{
  uint8_t covered[FORMAT_HEADER_BYTES - 4];
  memcpy(covered, bytes, HEADER_CRC_AT);
  memcpy(covered + HEADER_CRC_AT, bytes + HEADER_CRC_AT + 4, FORMAT_HEADER_BYTES - HEADER_CRC_AT - 4);
  image_put(bytes + HEADER_CRC_AT, format_crc(covered, sizeof covered), 4);
}

/* What each block passes on to the next one of the chain. */
struct chained {
  uint64_t before, link, seq, time, epoch;
  struct skip_path path;
};

static void marker_continue(const uint8_t *header, uint8_t *marker, size_t at, size_t number, struct chained *chained)
{
  bool data = marker[17] == BLOCK_DATA, opens = marker[17] == BLOCK_OPEN || marker[17] == BLOCK_PAD;
  uint64_t epoch = number_in_range(image_get64(marker + 48), chained->epoch);
  if (!data)
    image_put(marker + 28, 0, 4), image_put(marker + 104, 0, 4), marker[18] = CODEC_PLAIN;
  if (marker[18] == CODEC_PLAIN)
    memcpy(marker + 24, marker + 20, 4);
  memcpy(marker + 32, header + 32, 8);
  image_put(marker + 40, at, 8);
  image_put(marker + 48, opens ? epoch : chained->epoch, 8);
  image_put(marker + 56, chained->seq, 8);
  image_put(marker + 64, number_in_range(image_get64(marker + 64), chained->time), 8);
  image_put(marker + 72, chained->before, 8);
  image_put(marker + 80, (uint64_t)skip_path_next(&chained->path), 8);
  image_put(marker + 96, number, 4);
  memset(marker + 108, 0, 12);
  memset(marker + 124, 0, 4);
}

void segment_seal(uint8_t *bytes, size_t size, enum seal seal)
{
  struct span blocks[IMAGE_BLOCKS_MAX];
  if (seal == SEAL_NONE || size < FORMAT_HEADER_BYTES)
    return;
  size_t count = segment_blocks(bytes, size, blocks, IMAGE_BLOCKS_MAX);
  header_seal(bytes);
  struct chained chained = {.link = (uint64_t)image_get32(bytes + HEADER_CRC_AT) << 32,
                            .seq = image_get64(bytes + 56),
                            .time = image_get64(bytes + 64),
                            .epoch = image_get64(bytes + 48)};
  for (size_t i = 0; i < count; i++) {
    uint8_t *marker = bytes + blocks[i].at;
    if (seal == SEAL_CHAIN)
      marker_continue(bytes, marker, blocks[i].at, i, &chained);
    image_put(marker + 88, chained.link, 8);
    image_put(marker + 100, format_crc(marker + FORMAT_MARKER_BYTES, blocks[i].size - FORMAT_MARKER_BYTES), 4);
    image_put(marker + MARKER_CRC_AT, format_crc(marker, MARKER_CRC_AT), 4);
    chained.before = blocks[i].at;
    chained.link = (uint64_t)image_get32(marker + MARKER_CRC_AT) << 32 | image_get32(marker + 100);
    chained.seq = image_get64(marker + 56) + image_get32(marker + 28);
    chained.time = image_get64(marker + 64);
    chained.epoch = image_get64(marker + 48);
    skip_path_push(&chained.path, (int64_t)blocks[i].at);
  }
}

void segment_follow(uint8_t *bytes, size_t size, const struct committed *end, uint64_t epoch, uint64_t number)
{
  if (size < FORMAT_HEADER_BYTES)
    return;
  image_put(bytes + 56, (uint64_t)end->seq + 1, 8);
  image_put(bytes + 72, number + 1, 8);
  memcpy(bytes + 80, end->uuid, 16);
  image_put(bytes + 96, epoch, 8);
  image_put(bytes + 104, (uint64_t)end->length, 8);
  image_put(bytes + 112, (uint64_t)end->seq, 8);
  image_put(bytes + 120, end->link, 8);
  image_put(bytes + 128, (uint64_t)end->tail, 8);
}
