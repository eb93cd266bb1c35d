#include "storage/format.h"

#include <assert.h>
#include <bson/bson.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdlib.h>

/* The constant first bytes: a BSON length, then the head of a binary element "_pawl" with its length and subtype 0x80. */
static const uint8_t header_constant[FORMAT_CONSTANT_BYTES] = {0x00, 0x10, 0, 0, 0x05, '_', 'p', 'a', 'w', 'l', 0, 0xF0, 0, 0, 0, 0x80};
static const uint8_t marker_constant[FORMAT_CONSTANT_BYTES] = {0x80, 0x00, 0, 0, 0x05, '_', 'p', 'a', 'w', 'l', 0, 0x6F, 0, 0, 0, 0x80};

enum {
  FORMAT_VERSION = 1,
  HEADER_SIZE_LOG2 = 12,
  HEADER_CRC_AT = 252,
  INFO_AT = 256,
  MARKER_CRC_AT = 120,
};

uint32_t format_crc(const void *bytes, size_t size)
{
  /* ISA-L takes an int for the length and leaves the inversions of RFC 3720 to the caller. */
  uint32_t crc = 0xFFFFFFFF;
  for (const uint8_t *at = bytes; size > 0;) {
    int step = size > (1 << 30) ? 1 << 30 : (int)size;
    crc = crc32_iscsi((unsigned char *)(uintptr_t)at, step, crc);
    at += step;
    size -= (size_t)step;
  }
  return crc ^ 0xFFFFFFFF;
}

/* ---- little-endian fields ---- */

static void put_u32(uint8_t *at, uint32_t value)
{
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(value >> 8 * i);
}

static void put_u64(uint8_t *at, uint64_t value)
{
  put_u32(at, (uint32_t)value);
  put_u32(at + 4, (uint32_t)(value >> 32));
}

static void put_i64(uint8_t *at, int64_t value)
{
  assert(value >= 0);
  put_u64(at, (uint64_t)value);
}

static uint32_t get_u32(const uint8_t *at)
{
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint64_t get_u64(const uint8_t *at)
{
  return (uint64_t)get_u32(at) | (uint64_t)get_u32(at + 4) << 32;
}

/* Counts, offsets and times are below 2^62, so that the sum of two does not overflow; a larger value clears `*valid`. */
static int64_t get_i64(const uint8_t *at, bool *valid)
{
  uint64_t value = get_u64(at);
  if (value > INT64_MAX / 2) {
    *valid = false;
    return 0;
  }
  return (int64_t)value;
}

static bool all_zero(const uint8_t *bytes, size_t size)
{
  for (size_t i = 0; i < size; i++)
    if (bytes[i] != 0)
      return false;
  return true;
}

/* ---- the header ---- */

bool format_header_foreign(const uint8_t *bytes, size_t size)
{
  size_t alike = 0;
  for (size_t i = 0; i < size && i < sizeof header_constant; i++)
    alike += bytes[i] == header_constant[i];
  return size > 0 && 2 * alike < (size < sizeof header_constant ? size : sizeof header_constant) && !all_zero(bytes, size);
}

static uint32_t header_crc(const uint8_t bytes[FORMAT_HEADER_BYTES])
{
  uint8_t covered[FORMAT_HEADER_BYTES - 4];
  memcpy(covered, bytes, HEADER_CRC_AT);
  memcpy(covered + HEADER_CRC_AT, bytes + HEADER_CRC_AT + 4, FORMAT_HEADER_BYTES - HEADER_CRC_AT - 4);
  return format_crc(covered, sizeof covered);
}

static void header_fixed_encode(const struct segment_header *header, uint8_t *bytes)
{
  memcpy(bytes, header_constant, sizeof header_constant);
  bytes[16] = FORMAT_VERSION;
  bytes[18] = HEADER_SIZE_LOG2;
  put_u32(bytes + 20, header->incompat);
  put_u32(bytes + 24, header->ro_compat);
  put_u32(bytes + 28, header->compat);
  memcpy(bytes + 32, header->uuid, 16);
  put_i64(bytes + 48, header->epoch);
  put_i64(bytes + 56, header->first_seq);
  put_i64(bytes + 64, header->created_us);
  put_i64(bytes + 72, header->number);
  memcpy(bytes + 80, header->predecessor_uuid, 16);
  put_i64(bytes + 96, header->predecessor_epoch);
  put_i64(bytes + 104, header->predecessor_length);
  put_i64(bytes + 112, header->predecessor_seq);
  put_u64(bytes + 120, header->predecessor_link);
  put_i64(bytes + 128, header->predecessor_tail);
}

void format_header_encode(struct segment_header *header, uint8_t bytes[FORMAT_HEADER_BYTES])
{
  assert(type_name_valid(header->type));
  memset(bytes, 0, FORMAT_HEADER_BYTES);
  header_fixed_encode(header, bytes);

  bson_t info = BSON_INITIALIZER, elements = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&info, "type", header->type);
  BSON_APPEND_UTF8(&info, "predecessor", header->predecessor);
  BSON_APPEND_UTF8(&info, "host", header->writer.host);
  BSON_APPEND_INT64(&info, "pid", header->writer.pid);
  BSON_APPEND_UTF8(&info, "machine", header->writer.machine);
  BSON_APPEND_UTF8(&info, "version", header->version);
  BSON_APPEND_UTF8(&info, "reason", header->reason);
  BSON_APPEND_DOCUMENT(&elements, "info", &info);
  /* A document without its first 4 bytes (the length) and its closing 00 is its elements. */
  uint32_t size = elements.len - 5;
  static const uint8_t fill[] = {0x05, '_', 'f', 'i', 'l', 'l', 0};
  uint32_t fill_at = INFO_AT + size, fill_bytes = FORMAT_HEADER_BYTES - 1 - fill_at - (uint32_t)sizeof fill - 5;
  assert(fill_at + sizeof fill + 5 < FORMAT_HEADER_BYTES);
  memcpy(bytes + INFO_AT, bson_get_data(&elements) + 4, size);
  memcpy(bytes + fill_at, fill, sizeof fill);
  put_u32(bytes + fill_at + sizeof fill, fill_bytes);
  bson_destroy(&info);
  bson_destroy(&elements);

  header->crc = header_crc(bytes);
  put_u32(bytes + HEADER_CRC_AT, header->crc);
}

static bool header_fixed_decode(const uint8_t *bytes, struct segment_header *header)
{
  bool valid = true;
  header->incompat = get_u32(bytes + 20);
  header->ro_compat = get_u32(bytes + 24);
  header->compat = get_u32(bytes + 28);
  memcpy(header->uuid, bytes + 32, 16);
  header->epoch = get_i64(bytes + 48, &valid);
  header->first_seq = get_i64(bytes + 56, &valid);
  header->created_us = get_i64(bytes + 64, &valid);
  header->number = get_i64(bytes + 72, &valid);
  memcpy(header->predecessor_uuid, bytes + 80, 16);
  header->predecessor_epoch = get_i64(bytes + 96, &valid);
  header->predecessor_length = get_i64(bytes + 104, &valid);
  header->predecessor_seq = get_i64(bytes + 112, &valid);
  header->predecessor_link = get_u64(bytes + 120);
  header->predecessor_tail = get_i64(bytes + 128, &valid);
  header->crc = get_u32(bytes + HEADER_CRC_AT);
  return valid && bytes[17] == 0 && bytes[18] == HEADER_SIZE_LOG2 && bytes[19] == 0 && all_zero(bytes + 136, 116) && header->first_seq >= 1;
}

/* Copies the string element `name`; false if it is missing, not a string, too long, or contains a NUL. */
static bool info_string(const bson_t *info, const char *name, char *text, size_t size)
{
  bson_iter_t at;
  uint32_t length = 0;
  if (!bson_iter_init_find(&at, info, name) || !BSON_ITER_HOLDS_UTF8(&at))
    return false;
  const char *value = bson_iter_utf8(&at, &length);
  if (length >= size || memchr(value, 0, length) != NULL)
    return false;
  memcpy(text, value, length);
  text[length] = 0;
  return true;
}

static bool header_info_decode(const uint8_t *bytes, struct segment_header *header)
{
  bson_t document, info;
  bson_iter_t at;
  uint32_t length = 0;
  const uint8_t *data = NULL;
  /* The constant bytes and the fill make the whole header a valid BSON document, unless it was tampered with. */
  if (!bson_init_static(&document, bytes, FORMAT_HEADER_BYTES) || !bson_iter_init_find(&at, &document, "info") ||
      !BSON_ITER_HOLDS_DOCUMENT(&at))
    return false;
  bson_iter_document(&at, &length, &data);
  if (!bson_init_static(&info, data, length))
    return false;
  header->writer.pid = bson_iter_init_find(&at, &info, "pid") ? bson_iter_as_int64(&at) : 0;
  return info_string(&info, "type", header->type, sizeof header->type) &&
         info_string(&info, "predecessor", header->predecessor, sizeof header->predecessor) &&
         info_string(&info, "host", header->writer.host, sizeof header->writer.host) &&
         info_string(&info, "machine", header->writer.machine, sizeof header->writer.machine) &&
         info_string(&info, "version", header->version, sizeof header->version) &&
         info_string(&info, "reason", header->reason, sizeof header->reason) && type_name_valid(header->type);
}

/* Without a predecessor all its fields are zero; otherwise its name is a bare segment name of the same type. */
static bool header_predecessor_valid(const uint8_t *bytes, const struct segment_header *header)
{
  if (header->predecessor[0] == 0)
    return all_zero(bytes + 80, 56) && header->number == 0 && header->first_seq == 1;
  int64_t epoch = 0;
  return segment_name_is(header->predecessor, header->type, &epoch) && header->number >= 1 &&
         header->first_seq - 1 == header->predecessor_seq && header->predecessor_epoch < header->epoch &&
         header->predecessor_length >= FORMAT_HEADER_BYTES && header->predecessor_tail < header->predecessor_length;
}

enum format_status format_header_decode(const uint8_t bytes[FORMAT_HEADER_BYTES], struct segment_header *header, struct error *error)
{
  memset(header, 0, sizeof *header);
  if (memcmp(bytes, header_constant, sizeof header_constant) != 0) {
    error_set(error, "the header does not begin as a pawl file's does");
    return FORMAT_INVALID;
  }
  if (header_crc(bytes) != get_u32(bytes + HEADER_CRC_AT)) {
    error_set(error, "the header's CRC is %08" PRIx32 ", its bytes give %08" PRIx32, get_u32(bytes + HEADER_CRC_AT), header_crc(bytes));
    return FORMAT_INVALID;
  }
  if (bytes[16] != FORMAT_VERSION || get_u32(bytes + 20) != 0) {
    error_set(error, "the file is of format %u with incompatible features %08" PRIx32 ": a newer pawl is needed", bytes[16],
              get_u32(bytes + 20));
    return FORMAT_NEWER;
  }
  bool fixed_valid = header_fixed_decode(bytes, header);
  if (!fixed_valid || !header_info_decode(bytes, header) || !header_predecessor_valid(bytes, header)) {
    error_set(error, "the header's CRC is right, but its fields contradict one another");
    return FORMAT_INVALID;
  }
  return FORMAT_OK;
}

/* ---- the marker ---- */

void format_marker_encode(struct block_marker *marker, uint8_t bytes[FORMAT_MARKER_BYTES])
{
  memset(bytes, 0, FORMAT_MARKER_BYTES);
  memcpy(bytes, marker_constant, sizeof marker_constant);
  bytes[16] = FORMAT_VERSION;
  bytes[17] = marker->kind;
  bytes[18] = marker->codec;
  bytes[19] = marker->flags;
  put_u32(bytes + 20, marker->stored_bytes);
  put_u32(bytes + 24, marker->decoded_bytes);
  put_u32(bytes + 28, marker->count);
  memcpy(bytes + 32, marker->file_id, 8);
  put_i64(bytes + 40, marker->offset);
  put_i64(bytes + 48, marker->epoch);
  put_i64(bytes + 56, marker->seq);
  put_i64(bytes + 64, marker->time_us);
  put_i64(bytes + 72, marker->before);
  put_i64(bytes + 80, marker->skip);
  put_u64(bytes + 88, marker->link);
  put_u32(bytes + 96, marker->number);
  put_u32(bytes + 100, marker->body_crc);
  put_u32(bytes + 104, marker->items);
  marker->crc = format_crc(bytes, MARKER_CRC_AT);
  put_u32(bytes + MARKER_CRC_AT, marker->crc);
}

bool format_marker_begins(const uint8_t *bytes)
{
  return memcmp(bytes, marker_constant, sizeof marker_constant) == 0;
}

/* The rules that concern one marker alone. */
static bool marker_valid(const struct block_marker *marker)
{
  if (marker->seq < 1)
    return false;
  if (marker->kind == BLOCK_DATA)
    return marker->count >= 1 && (marker->codec != CODEC_PLAIN || marker->stored_bytes == marker->decoded_bytes);
  return marker->count == 0 && marker->items == 0 && marker->codec == CODEC_PLAIN && marker->stored_bytes == marker->decoded_bytes;
}

enum format_status format_marker_decode(const uint8_t bytes[FORMAT_MARKER_BYTES], struct block_marker *marker, struct error *error)
{
  bool valid = true;
  memset(marker, 0, sizeof *marker);
  if (!format_marker_begins(bytes)) {
    error_set(error, "no block begins here");
    return FORMAT_INVALID;
  }
  marker->crc = get_u32(bytes + MARKER_CRC_AT);
  if (format_crc(bytes, MARKER_CRC_AT) != marker->crc) {
    error_set(error, "the marker's CRC is %08" PRIx32 ", its bytes give %08" PRIx32, marker->crc, format_crc(bytes, MARKER_CRC_AT));
    return FORMAT_INVALID;
  }
  marker->kind = bytes[17];
  marker->codec = bytes[18];
  marker->flags = bytes[19];
  marker->stored_bytes = get_u32(bytes + 20);
  marker->decoded_bytes = get_u32(bytes + 24);
  marker->count = get_u32(bytes + 28);
  memcpy(marker->file_id, bytes + 32, 8);
  marker->offset = get_i64(bytes + 40, &valid);
  marker->epoch = get_i64(bytes + 48, &valid);
  marker->seq = get_i64(bytes + 56, &valid);
  marker->time_us = get_i64(bytes + 64, &valid);
  marker->before = get_i64(bytes + 72, &valid);
  marker->skip = get_i64(bytes + 80, &valid);
  marker->link = get_u64(bytes + 88);
  marker->number = get_u32(bytes + 96);
  marker->body_crc = get_u32(bytes + 100);
  marker->items = get_u32(bytes + 104);
  if (bytes[16] != FORMAT_VERSION || marker->flags != 0 || marker->codec > CODEC_ZSTD ||
      (marker->kind < 128 && (marker->kind < BLOCK_DATA || marker->kind > BLOCK_PAD))) {
    error_set(error, "the block is of version %u, kind %u, codec %u, flags %02x: a newer pawl is needed", bytes[16], marker->kind,
              marker->codec, marker->flags);
    return FORMAT_NEWER;
  }
  if (!valid || !all_zero(bytes + 108, 12) || !all_zero(bytes + 124, 4) || !marker_valid(marker)) {
    error_set(error, "the marker's CRC is right, but its fields contradict one another");
    return FORMAT_INVALID;
  }
  return FORMAT_OK;
}

/* ---- PAD and skip ---- */

int64_t format_pad_bytes(int64_t offset)
{
  int64_t past = offset % FORMAT_PAGE_BYTES;
  if (past == 0)
    return 0;
  int64_t left = FORMAT_PAGE_BYTES - past;
  return left < FORMAT_PAD_BYTES_MIN ? left + FORMAT_PAGE_BYTES : left;
}

/*
 * With p the last block, s = skip(p) and ss = skip(s): the next block's skip is ss if p - s == s - ss, else p. Block 0 is its own skip, so
 * the next skip is p for a path of one or two blocks.
 */
static bool skip_path_merges(const struct skip_path *path)
{
  if (path->depth < 3)
    return false;
  uint32_t p = path->entry[path->depth - 1].number, s = path->entry[path->depth - 2].number, ss = path->entry[path->depth - 3].number;
  return p - s == s - ss;
}

int64_t skip_path_next(const struct skip_path *path)
{
  if (path->depth == 0)
    return 0;
  return path->entry[path->depth - (skip_path_merges(path) ? 3 : 1)].offset;
}

void skip_path_push(struct skip_path *path, int64_t offset)
{
  uint32_t number = path->depth == 0 ? 0 : path->entry[path->depth - 1].number + 1;
  if (skip_path_merges(path))
    path->depth -= 2;
  assert(path->depth < (int)(sizeof path->entry / sizeof path->entry[0]));
  path->entry[path->depth].number = number;
  path->entry[path->depth].offset = offset;
  path->depth++;
}

/* ---- names ---- */

bool segment_name_parse(const char *name, char type[TYPE_BYTES_MAX + 1], int64_t *epoch)
{
  size_t length = strlen(name);
  if (length < 5 || length >= FILE_NAME_SIZE || strcmp(name + length - 4, ".bin") != 0)
    return false;
  size_t stem = length - 4;
  const char *at = memchr(name, '@', stem);
  size_t type_bytes = at ? (size_t)(at - name) : stem;
  if (type_bytes > TYPE_BYTES_MAX)
    return false;
  memcpy(type, name, type_bytes);
  type[type_bytes] = 0;
  *epoch = 0;
  if (!type_name_valid(type))
    return false;
  if (at == NULL)
    return true;
  size_t digits = stem - type_bytes - 1;
  if (digits < 1 || digits > 18 || at[1] == '0' || strspn(at + 1, "0123456789") != digits)
    return false;
  *epoch = strtoll(at + 1, NULL, 10);
  return true;
}

bool segment_name_is(const char *name, const char *type, int64_t *epoch)
{
  char named[TYPE_BYTES_MAX + 1];
  return strncmp(name, type, strlen(type)) == 0 && segment_name_parse(name, named, epoch) && strcmp(named, type) == 0;
}

void segment_name_make(const char *type, int64_t epoch, char name[FILE_NAME_SIZE])
{
  if (epoch == 0)
    snprintf(name, FILE_NAME_SIZE, "%s.bin", type);
  else
    snprintf(name, FILE_NAME_SIZE, "%s@%" PRId64 ".bin", type, epoch);
}
