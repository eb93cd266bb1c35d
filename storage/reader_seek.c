#include "storage/reader_parts.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- seeking ---- */

enum { WINDOW_BYTES = 1 << 20, BLOCKS_IN_A_WRITE = 3 /* PAD, OPEN, DATA */ };

static bool fits_any(const void *reader, const struct block_marker *marker)
{
  (void)reader, (void)marker;
  return true;
}

/* Reads the marker at `offset` and makes only the marker's own checks. */
static enum read_status marker_load(struct reader *reader, int64_t offset, struct block_marker *marker, struct error *error)
{
  uint8_t bytes[FORMAT_MARKER_BYTES];
  size_t got = 0;
  struct error cause = {.text = "it is cut"};
  enum file_status status = file_read(&reader->file, offset, bytes, sizeof bytes, &got, error);
  if (status != FILE_OK)
    return reader_status_of(status);
  if (got == sizeof bytes && format_marker_decode(bytes, marker, &cause) != FORMAT_INVALID) {
    if (reader_marker_is_here(reader, marker, offset))
      return READ_OK;
    error_set(&cause, "it belongs to another place or file");
  }
  error_set(error, "%s: the marker at offset %" PRId64 ": %s", reader->file.name, offset, cause.text);
  return reader_damaged(reader, offset);
}

/* Loads the skip path of `last`, from its own entry down to block 0, and then reverses it. */
static enum read_status path_load(struct reader *reader, const struct block_marker *last, struct error *error)
{
  struct skip_path *path = &reader->path;
  struct block_marker at = *last;
  int depth = 0, depth_max = (int)(sizeof path->entry / sizeof path->entry[0]);
  for (;; depth++) {
    path->entry[depth].number = at.number;
    path->entry[depth].offset = at.offset;
    if (at.number == 0)
      break;
    uint32_t number = at.number;
    enum read_status status = marker_load(reader, at.skip, &at, error);
    if (status != READ_OK)
      return status;
    if (at.number >= number || depth + 1 == depth_max) {
      error_set(error, "%s: the skip offsets from %" PRId64 " do not lead to block 0", reader->file.name, last->offset);
      return reader_damaged(reader, last->offset);
    }
  }
  path->depth = depth + 1;
  for (int low = 0, high = depth; low < high; low++, high--) {
    __typeof__(path->entry[0]) swap = path->entry[low];
    path->entry[low] = path->entry[high];
    path->entry[high] = swap;
  }
  return READ_OK;
}

enum read_status reader_place_after(struct reader *reader, int64_t offset, struct error *error)
{
  struct block_marker last, before;
  reader_position_begin(reader);
  if (offset == 0)
    return READ_OK;
  enum read_status status = marker_load(reader, offset, &last, error);
  if (status == READ_OK)
    status = path_load(reader, &last, error);
  int64_t epoch_before = reader->header.epoch;
  if (status == READ_OK && last.kind == BLOCK_PAD && last.before != 0) {
    status = marker_load(reader, last.before, &before, error);
    epoch_before = before.epoch;
  }
  if (status != READ_OK) {
    reader_position_begin(reader);
    return status;
  }
  reader->last = last;
  reader->has_last = true;
  reader->offset = last.offset + FORMAT_MARKER_BYTES + last.stored_bytes;
  reader->next_seq = last.seq + last.count;
  reader->open_epoch = last.kind == BLOCK_PAD && last.epoch > epoch_before ? last.epoch : 0;
  return READ_OK;
}

static bool begins_by_seq(const struct block_marker *marker, int64_t seq)
{
  return marker->seq <= seq;
}

static bool begins_by_time(const struct block_marker *marker, int64_t time_us)
{
  return marker->time_us < time_us;
}

/* Finds a block near the end from which to search back: the last committed one, or offline the last whole marker. */
static enum read_status seek_start(struct reader *reader, struct block_marker *tail, struct error *error)
{
  if (reader->has_end)
    return reader->end.tail == 0 ? READ_END : marker_load(reader, reader->end.tail, tail, error);
  int64_t size = 0;
  if (file_size(&reader->file, &size, error) != FILE_OK)
    return READ_FAILED;
  /* A body has at most FORMAT_DECODED_BYTES_MAX bytes, so the last 2 * that many bytes contain a marker. */
  int64_t reach = 2 * (int64_t)FORMAT_DECODED_BYTES_MAX, to = size;
  for (int64_t step = WINDOW_BYTES; to > FORMAT_HEADER_BYTES && size - to < reach;) {
    int64_t from = to - step > FORMAT_HEADER_BYTES ? to - step : FORMAT_HEADER_BYTES;
    enum read_status status = reader_find_last(reader, from, to, fits_any, tail, error);
    if (status != READ_END)
      return status;
    to = from + FORMAT_MARKER_BYTES - 1 < to ? from + FORMAT_MARKER_BYTES - 1 : from;
    if (from == FORMAT_HEADER_BYTES)
      break;
  }
  return READ_END;
}

/* Goes from `at` back to the last block that begins early enough. *after is the offset of the block before that one (0: none). */
static enum read_status seek_back(struct reader *reader, struct block_marker at, bool (*begins)(const struct block_marker *, int64_t),
                                  int64_t wanted, int64_t *after, struct error *error)
{
  while (!begins(&at, wanted) && at.number != 0) {
    struct block_marker back;
    uint32_t number = at.number;
    enum read_status status = marker_load(reader, at.skip, &back, error);
    if (status == READ_OK && begins(&back, wanted))
      status = marker_load(reader, at.before, &back, error);
    if (status != READ_OK)
      return status;
    if (back.number >= number) {
      error_set(error, "%s: the marker at offset %" PRId64 " leads forward", reader->file.name, at.offset);
      return reader_damaged(reader, at.offset);
    }
    at = back;
  }
  *after = at.before;
  return READ_OK;
}

/*
 * Offline, any part of the last write may be torn, so a marker there proves nothing about the block before it: the last few blocks are read
 * and not skipped. If that ends early, the position stays there, and the next read tells why.
 */
static enum read_status place_read(struct reader *reader, struct block_marker at, int64_t after, struct error *error)
{
  for (int i = 0; i < BLOCKS_IN_A_WRITE && at.before != 0; i++) {
    enum read_status status = marker_load(reader, at.before, &at, error);
    if (status != READ_OK)
      return status;
  }
  if (after < at.offset)
    return reader_place_after(reader, after, error);
  enum read_status status = reader_place_after(reader, at.before, error);
  while (status == READ_OK && (!reader->has_last || reader->last.offset < after))
    status = reader_next(reader, error);
  return status == READ_FAILED ? status : READ_OK;
}

/* If a marker on the way is damaged, the position becomes the beginning: reading from there tells what is lost. */
static enum read_status seek(struct reader *reader, bool (*begins)(const struct block_marker *, int64_t), int64_t wanted,
                             struct error *error)
{
  struct block_marker tail;
  int64_t after = 0;
  enum read_status status = seek_start(reader, &tail, error);
  if (status == READ_OK)
    status = seek_back(reader, tail, begins, wanted, &after, error);
  if (status == READ_OK)
    status = reader->has_end ? reader_place_after(reader, after, error) : place_read(reader, tail, after, error);
  if (status == READ_FAILED)
    return status;
  if (status != READ_OK)
    reader_position_begin(reader);
  return READ_OK;
}

enum read_status reader_seek_seq(struct reader *reader, int64_t seq, struct error *error)
{
  return seek(reader, begins_by_seq, seq, error);
}

enum read_status reader_seek_time(struct reader *reader, int64_t time_us, struct error *error)
{
  return seek(reader, begins_by_time, time_us, error);
}

/* ---- counting ---- */

/* Adds `items` of a CLOSE, whose body is {messages, items}: the number of messages in its segment up to there. */
static enum read_status close_items(struct reader *reader, const struct block_marker *marker, int64_t *items, struct error *error)
{
  uint8_t body[256];
  size_t got = 0;
  bson_t document;
  bson_iter_t field;
  if (marker->stored_bytes > sizeof body ||
      file_read(&reader->file, marker->offset + FORMAT_MARKER_BYTES, body, marker->stored_bytes, &got, error) != FILE_OK ||
      got != marker->stored_bytes || format_crc(body, got) != marker->body_crc || !bson_init_static(&document, body, got) ||
      !bson_iter_init_find(&field, &document, "items")) {
    error_set(error, "%s: the CLOSE at offset %" PRId64 " does not tell how many items there were", reader->file.name, marker->offset);
    return reader_damaged(reader, marker->offset);
  }
  *items += bson_iter_as_int64(&field);
  return READ_OK;
}

enum read_status reader_count_items(struct reader *reader, int64_t *items, struct error *error)
{
  *items = 0;
  if (!reader->has_last)
    return READ_OK;
  struct block_marker at = reader->last;
  for (;;) {
    if (at.kind == BLOCK_CLOSE)
      return close_items(reader, &at, items, error);
    *items += at.items;
    if (at.before == 0)
      return READ_OK;
    int64_t offset = at.offset;
    enum read_status status = marker_load(reader, at.before, &at, error);
    if (status != READ_OK)
      return status;
    if (at.offset >= offset) {
      error_set(error, "%s: the marker at offset %" PRId64 " leads forward", reader->file.name, offset);
      return reader_damaged(reader, offset);
    }
  }
}
