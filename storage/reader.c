#include "storage/reader.h"
#include "storage/body.h"
#include "storage/reader_parts.h"
#include "storage/search.h"

#include <inttypes.h>
#include <stdlib.h>

enum read_status reader_status_of(enum file_status status)
{
  return status == FILE_OK ? READ_OK : status == FILE_ABSENT ? READ_ABSENT : READ_FAILED;
}

/* ---- position ---- */

void reader_position_begin(struct reader *reader)
{
  reader->offset = FORMAT_HEADER_BYTES;
  reader->has_last = false;
  memset(&reader->path, 0, sizeof reader->path);
  reader->path_known = true;
  reader->resync = false;
  reader->next_seq = reader->header.first_seq;
  reader->open_epoch = 0;
  reader->proof_offset = 0;
}

static int64_t last_epoch(const struct reader *reader)
{
  return reader->has_last ? reader->last.epoch : reader->header.epoch;
}

/* Moves the position after the block that was read (if its body is damaged, only its marker was read). */
static void position_advance(struct reader *reader)
{
  const struct block_marker *block = &reader->block;
  bool raised = block->kind == BLOCK_PAD && block->epoch > last_epoch(reader);
  reader->open_epoch = raised ? block->epoch : 0;
  reader->offset = block->offset + FORMAT_MARKER_BYTES + block->stored_bytes;
  reader->next_seq = block->seq + block->count;
  reader->last = *block;
  reader->has_last = true;
  reader->resync = false;
  if (reader->path_known)
    skip_path_push(&reader->path, block->offset);
}

void reader_set_end(struct reader *reader, const struct committed *end)
{
  reader->has_end = end != NULL;
  if (end != NULL)
    reader->end = *end;
}

/* ---- open ---- */

enum read_status reader_damaged(struct reader *reader, int64_t offset)
{
  reader->damage_offset = offset;
  reader->damage_in_body = false;
  reader->lost_first = reader->next_seq;
  reader->lost_last = reader->has_end ? reader->end.seq : -1;
  return READ_DAMAGED;
}

static enum read_status header_read(struct reader *reader, struct error *error)
{
  uint8_t bytes[FORMAT_HEADER_BYTES];
  size_t got = 0;
  struct error cause = {.text = ""};
  enum file_status status = file_read(&reader->file, 0, bytes, sizeof bytes, &got, error);
  if (status != FILE_OK)
    return reader_status_of(status);
  if (got == 0 || format_header_foreign(bytes, got < FORMAT_CONSTANT_BYTES ? got : FORMAT_CONSTANT_BYTES)) {
    error_set(error, "%s: %s", reader->file.name, got == 0 ? "it is empty" : "it does not begin with the header of a pawl file");
    return reader_damaged(reader, 0);
  }
  if (got < sizeof bytes) {
    error_set(error, "%s: its header is torn: the file has %zu of %d bytes", reader->file.name, got, FORMAT_HEADER_BYTES);
    return reader_damaged(reader, 0);
  }
  enum format_status format = format_header_decode(bytes, &reader->header, &cause);
  if (format == FORMAT_OK)
    return READ_OK;
  error_set(error, "%s: %s", reader->file.name, cause.text);
  return format == FORMAT_NEWER ? READ_NEWER : reader_damaged(reader, 0);
}

/* Checks what the ledger, or the successor, says about the file as a whole. */
static enum read_status header_check_end(struct reader *reader, struct error *error)
{
  int64_t size = 0;
  enum file_status status = file_size(&reader->file, &size, error);
  if (status != FILE_OK)
    return reader_status_of(status);
  if (memcmp(reader->header.uuid, reader->end.uuid, sizeof reader->end.uuid) != 0) {
    error_set(error, "%s: another file lies under this name: its uuid is not the one recorded", reader->file.name);
    return reader_damaged(reader, 0);
  }
  if (size < reader->end.length) {
    error_set(error, "%s: it is cut: %" PRId64 " bytes are committed, the file has %" PRId64, reader->file.name, reader->end.length, size);
    return reader_damaged(reader, size);
  }
  return READ_OK;
}

static enum read_status file_begin(struct reader *reader, const char *dir, const char *name, const struct committed *end,
                                   struct error *error)
{
  memset(reader, 0, sizeof *reader);
  reader_set_end(reader, end);
  reader->next_seq = 1;
  enum file_status opened = file_open(&reader->file, dir, name, FILE_READ, 0, error);
  if (opened != FILE_OK)
    reader->file.fd = -1;
  return reader_status_of(opened);
}

static enum read_status open_finish(struct reader *reader, enum read_status status)
{
  if (status == READ_OK)
    reader_position_begin(reader);
  else
    reader_close(reader);
  return status;
}

enum read_status reader_open(struct reader *reader, const char *dir, const char *name, const struct committed *end, struct error *error)
{
  enum read_status status = file_begin(reader, dir, name, end, error);
  if (status == READ_OK)
    status = header_read(reader, error);
  if (status == READ_OK && end != NULL)
    status = header_check_end(reader, error);
  return open_finish(reader, status);
}

/* ---- open without a header ---- */

/* Checks everything in block 0 that does not need the header. */
static bool block_0_stands_alone(const struct reader *reader, const struct block_marker *block)
{
  return block->offset == FORMAT_HEADER_BYTES && block->number == 0 && block->before == 0 && block->skip == 0 &&
         (uint32_t)block->link == 0 && (!reader->has_end || memcmp(block->file_id, reader->end.uuid, sizeof block->file_id) == 0);
}

static enum read_status header_infer(struct reader *reader, struct error *error)
{
  uint8_t bytes[FORMAT_MARKER_BYTES];
  size_t got = 0;
  struct block_marker block;
  struct error ignored;
  enum file_status status = file_read(&reader->file, FORMAT_HEADER_BYTES, bytes, sizeof bytes, &got, error);
  if (status != FILE_OK)
    return reader_status_of(status);
  if (got < sizeof bytes || format_marker_decode(bytes, &block, &ignored) != FORMAT_OK || !block_0_stands_alone(reader, &block)) {
    error_set(error, "%s: neither its header nor its first block tells what it is", reader->file.name);
    return reader_damaged(reader, 0);
  }
  memset(&reader->header, 0, sizeof reader->header);
  memcpy(reader->header.uuid, block.file_id, sizeof block.file_id);
  if (reader->has_end)
    memcpy(reader->header.uuid, reader->end.uuid, sizeof reader->end.uuid);
  reader->header.epoch = block.epoch;
  reader->header.first_seq = block.seq;
  reader->header.created_us = block.time_us;
  reader->header.crc = (uint32_t)(block.link >> 32);
  return READ_OK;
}

enum read_status reader_open_headless(struct reader *reader, const char *dir, const char *name, const struct committed *end,
                                      struct error *error)
{
  enum read_status status = file_begin(reader, dir, name, end, error);
  if (status == READ_OK)
    status = header_read(reader, error);
  /* A whole header is not ignored: the file was refused because of what it says (another file, another type). */
  if (status == READ_OK) {
    error_set(error, "%s: its header is whole", name);
    status = READ_DAMAGED;
  } else if (status == READ_DAMAGED)
    status = header_infer(reader, error);
  return open_finish(reader, status);
}

void reader_close(struct reader *reader)
{
  struct error ignored;
  if (reader->file.fd >= 0 && file_close(&reader->file, &ignored) != FILE_OK) {
    /* The file was open for reading only: a late error from close means nothing. */
  }
  free(reader->stored);
  free(reader->decoded);
  reader->stored = reader->decoded = NULL;
  reader->stored_size = reader->decoded_size = 0;
}

/* ---- one block ---- */

/* Compares the block with the block before it, in the order of docs/format.md. Returns what is wrong, or NULL. */
static const char *block_contradicts_last(const struct reader *reader)
{
  const struct block_marker *block = &reader->block, *last = &reader->last;
  bool has_last = reader->has_last;
  bool opens = block->kind == BLOCK_OPEN || block->kind == BLOCK_PAD;
  if (block->before != (has_last ? last->offset : 0))
    return "it names another block as the one before it";
  if (block->link != (has_last ? format_marker_link(last) : format_header_link(&reader->header)))
    return "its link is not the checksums of the block before it";
  if (block->number != (has_last ? last->number + 1 : 0))
    return "its number does not follow";
  if (block->seq != reader->next_seq)
    return "its seq does not follow";
  if (block->time_us < (has_last ? last->time_us : reader->header.created_us))
    return "its time is before that of the block before it";
  if (block->epoch < last_epoch(reader))
    return "its epoch is below that of the block before it";
  if (block->epoch > last_epoch(reader) && !opens)
    return "its epoch rises without an OPEN";
  if (reader->open_epoch != 0 && (block->kind != BLOCK_OPEN || block->epoch != reader->open_epoch))
    return "a PAD raised the epoch and no OPEN of that epoch follows";
  if (reader->path_known && block->skip != skip_path_next(&reader->path))
    return "its skip offset is wrong";
  return NULL;
}

bool reader_marker_is_here(const struct reader *reader, const struct block_marker *marker, int64_t offset)
{
  return search_marker_is_here(marker, reader->header.uuid, offset);
}

static enum read_status find(struct reader *reader, int64_t from, int64_t to, bool last, reader_fits *fits, struct block_marker *found,
                             struct error *error)
{
  const struct search search = {
      .file = &reader->file, .uuid = reader->header.uuid, .from = from, .to = to, .last = last, .fits = fits, .context = reader};
  switch (search_marker(&search, found, error)) {
  case SEARCH_FOUND:
    return READ_OK;
  case SEARCH_NONE:
    return READ_END;
  case SEARCH_FAILED:
    return READ_FAILED;
  }
  return READ_FAILED;
}

enum read_status reader_find_first(struct reader *reader, int64_t from, int64_t to, reader_fits *fits, struct block_marker *found,
                                   struct error *error)
{
  return find(reader, from, to, false, fits, found, error);
}

enum read_status reader_find_last(struct reader *reader, int64_t from, int64_t to, reader_fits *fits, struct block_marker *found,
                                  struct error *error)
{
  return find(reader, from, to, true, fits, found, error);
}

static MUST_CHECK bool buffer_reserve(uint8_t **buffer, size_t *size, size_t needed)
{
  if (*size >= needed)
    return true;
  free(*buffer);
  *buffer = malloc(needed);
  *size = *buffer != NULL ? needed : 0;
  return *buffer != NULL;
}

/* READ_END stands for "no valid block here", with the reason in `error`; the caller knows what that means at this position. */
static enum read_status wrong(const struct reader *reader, const char *what, struct error *error)
{
  error_set(error, "%s: the block at offset %" PRId64 ": %s", reader->file.name, reader->offset, what);
  return READ_END;
}

static enum read_status marker_read(struct reader *reader, int64_t limit, struct error *error)
{
  uint8_t bytes[FORMAT_MARKER_BYTES];
  size_t got = 0;
  struct error cause = {.text = ""};
  enum file_status status = file_read(&reader->file, reader->offset, bytes, sizeof bytes, &got, error);
  if (status != FILE_OK)
    return reader_status_of(status);
  if (got < sizeof bytes || reader->offset + FORMAT_MARKER_BYTES > limit)
    return wrong(reader, "it is cut", error);
  enum format_status format = format_marker_decode(bytes, &reader->block, &cause);
  if (format == FORMAT_INVALID)
    return wrong(reader, cause.text, error);
  if (!reader_marker_is_here(reader, &reader->block, reader->offset))
    return wrong(reader, "its marker belongs to another place or file", error);
  if (format == FORMAT_NEWER) {
    error_set(error, "%s: the block at offset %" PRId64 ": %s", reader->file.name, reader->offset, cause.text);
    return READ_NEWER;
  }
  const char *contradiction = reader->resync ? NULL : block_contradicts_last(reader);
  if (contradiction != NULL)
    return wrong(reader, contradiction, error);
  if (reader->block.stored_bytes > limit - reader->offset - FORMAT_MARKER_BYTES)
    return wrong(reader, "its body is cut", error);
  if (reader->block.decoded_bytes > FORMAT_DECODED_BYTES_MAX || reader->block.stored_bytes > FORMAT_DECODED_BYTES_MAX)
    return wrong(reader, "it claims more than 80 MiB", error);
  return READ_OK;
}

/* Decodes the body that body_read has read. */
static enum read_status body_decode(struct reader *reader, struct error *error)
{
  const struct block_marker *block = &reader->block;
  reader->messages = reader->stored;
  reader->messages_bytes = block->stored_bytes;
  if (block->kind >= 128)
    return READ_OK;
  if (block->codec == CODEC_ZSTD) {
    const uint8_t *frame = NULL;
    size_t frame_bytes = 0;
    if (!body_find_frame(reader->stored, block->stored_bytes, block->decoded_bytes, &frame, &frame_bytes))
      return wrong(reader, "its body is not one zstd frame of the promised size", error);
    if (!buffer_reserve(&reader->decoded, &reader->decoded_size, block->decoded_bytes)) {
      error_set(error, "%s: no memory for %u bytes", reader->file.name, block->decoded_bytes);
      return READ_FAILED;
    }
    if (!body_decode_frame(frame, frame_bytes, reader->decoded, block->decoded_bytes))
      return wrong(reader, "its zstd frame cannot be decoded", error);
    reader->messages = reader->decoded;
    reader->messages_bytes = block->decoded_bytes;
  }
  if (!body_is_documents(reader->messages, reader->messages_bytes, block->kind == BLOCK_DATA ? block->count : 1))
    return wrong(reader, "its body is not the promised number of BSON documents", error);
  return READ_OK;
}

static enum read_status body_read(struct reader *reader, struct error *error)
{
  const struct block_marker *block = &reader->block;
  size_t got = 0;
  if (!buffer_reserve(&reader->stored, &reader->stored_size, (size_t)block->stored_bytes + 1)) {
    error_set(error, "%s: no memory for %u bytes", reader->file.name, block->stored_bytes);
    return READ_FAILED;
  }
  enum file_status status =
      file_read(&reader->file, reader->offset + FORMAT_MARKER_BYTES, reader->stored, block->stored_bytes, &got, error);
  if (status != FILE_OK)
    return reader_status_of(status);
  if (got < block->stored_bytes)
    return wrong(reader, "its body is cut", error);
  if (format_crc(reader->stored, block->stored_bytes) != block->body_crc)
    return wrong(reader, "its body's CRC is wrong", error);
  return body_decode(reader, error);
}

/* ---- next ---- */

/* At the committed end the last block must be the one that was recorded. */
static enum read_status end_check(struct reader *reader, struct error *error)
{
  uint64_t link = reader->has_last ? format_marker_link(&reader->last) : format_header_link(&reader->header);
  int64_t tail = reader->has_last ? reader->last.offset : 0;
  if (reader->resync || (tail == reader->end.tail && link == reader->end.link && reader->next_seq - 1 == reader->end.seq))
    return READ_END;
  error_set(error,
            "%s: at its committed end %" PRId64 " the last block is (offset %" PRId64 ", link %016" PRIx64 ", seq %" PRId64
            "), expected (%" PRId64 ", %016" PRIx64 ", %" PRId64 ")",
            reader->file.name, reader->end.length, tail, link, reader->next_seq - 1, reader->end.tail, reader->end.link, reader->end.seq);
  return reader_damaged(reader, tail);
}

static enum read_status block_read(struct reader *reader, int64_t limit, bool body, struct error *error)
{
  reader->damage_in_body = false;
  reader->messages = NULL;
  reader->messages_bytes = 0;
  enum read_status status = marker_read(reader, limit, error);
  if (status != READ_OK || !body)
    return status;
  status = body_read(reader, error);
  reader->damage_in_body = status == READ_END;
  return status;
}

/* True if `marker` proves that committed messages are missing at the position. */
static bool fits_above_expected(const void *context, const struct block_marker *marker)
{
  const struct reader *reader = context;
  return marker->seq > reader->next_seq;
}

/* True if `marker` may follow the damage at the position. */
static bool fits_after_damage(const void *context, const struct block_marker *marker)
{
  const struct reader *reader = context;
  if (marker->seq < reader->next_seq || marker->epoch < last_epoch(reader))
    return false;
  if (!reader->has_last)
    return marker->time_us >= reader->header.created_us;
  const struct block_marker *last = &reader->last;
  return marker->number > last->number && marker->time_us >= last->time_us && marker->before >= last->offset;
}

/*
 * There is no valid block at the position, and the end is not known. A whole later marker of a higher seq proves a loss. Then the block is
 * read once more, because a live writer may have finished it (and written more) since.
 */
static enum read_status tail_or_damage(struct reader *reader, bool body, struct error *error)
{
  struct block_marker found;
  struct error failure;
  int64_t size = 0;
  if (file_size(&reader->file, &size, error) != FILE_OK)
    return READ_FAILED;
  enum read_status proof = READ_END;
  /* The proof of the last loss may prove this one, too. Otherwise each of many bad blocks would cost a search of the rest of the file. */
  if (reader->proof_offset > reader->offset)
    proof =
        reader_find_first(reader, reader->proof_offset, reader->proof_offset + FORMAT_MARKER_BYTES, fits_above_expected, &found, &failure);
  if (proof == READ_END)
    proof = reader_find_first(reader, reader->offset, size, fits_above_expected, &found, &failure);
  if (proof == READ_FAILED)
    *error = failure;
  if (proof != READ_OK)
    return proof == READ_END ? READ_TAIL : proof;
  reader->proof_offset = found.offset;
  enum read_status again = block_read(reader, size, body, error);
  if (again != READ_END)
    return again;
  bool in_body = reader->damage_in_body;
  enum read_status status = reader_damaged(reader, reader->offset);
  reader->damage_in_body = in_body;
  reader->lost_last = in_body ? reader->next_seq + reader->block.count - 1 : found.seq - 1;
  return status;
}

static enum read_status next(struct reader *reader, bool body, struct error *error)
{
  int64_t limit = reader->end.length;
  if (reader->has_end && reader->offset == reader->end.length)
    return end_check(reader, error);
  if (!reader->has_end) {
    if (file_size(&reader->file, &limit, error) != FILE_OK)
      return READ_FAILED;
    if (reader->offset == limit)
      return READ_END;
  }
  enum read_status status = block_read(reader, limit, body, error);
  if (status == READ_END && !reader->has_end)
    status = tail_or_damage(reader, body, error);
  else if (status == READ_END) {
    bool in_body = reader->damage_in_body;
    status = reader_damaged(reader, reader->offset);
    reader->damage_in_body = in_body;
    if (in_body)
      reader->lost_last = reader->next_seq + reader->block.count - 1;
  }
  if (status == READ_OK)
    position_advance(reader);
  return status;
}

enum read_status reader_next(struct reader *reader, struct error *error)
{
  return next(reader, true, error);
}

enum read_status reader_next_marker(struct reader *reader, struct error *error)
{
  return next(reader, false, error);
}

enum read_status reader_pass_damage(struct reader *reader, struct error *error)
{
  struct block_marker found;
  int64_t limit = reader->end.length;
  reader->lost_first = reader->next_seq;
  if (reader->damage_in_body) {
    reader->damage_in_body = false;
    reader->lost_last = reader->next_seq + reader->block.count - 1;
    position_advance(reader);
    return READ_OK;
  }
  if (!reader->has_end && file_size(&reader->file, &limit, error) != FILE_OK)
    return READ_FAILED;
  enum read_status status = reader_find_first(reader, reader->offset + 1, limit, fits_after_damage, &found, error);
  if (status == READ_FAILED)
    return status;
  reader->resync = true;
  reader->path_known = false;
  reader->open_epoch = 0;
  if (status == READ_OK) {
    reader->offset = found.offset;
    reader->lost_last = found.seq - 1;
    reader->next_seq = found.seq;
    return READ_OK;
  }
  reader->offset = limit;
  reader->lost_last = reader->has_end ? reader->end.seq : -1;
  return READ_END;
}
