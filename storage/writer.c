#include "storage/writer.h"
#include "storage/body.h"
#include "storage/foreign.h"

#include <assert.h>
#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>

/* Stays free after a write, for the file system's own needs and for the writers of other types. */
enum { SPACE_MARGIN_BYTES = 64 * 1024 };

/* ---- open and close ---- */

/* True if `file` is the segment that was checked, and not a file that replaced it since. */
static MUST_CHECK bool file_is_checked_one(struct file *file, const struct segment_header *header, struct error *error)
{
  uint8_t bytes[FORMAT_HEADER_BYTES];
  struct segment_header now;
  struct error ignored;
  size_t got = 0;
  bool same = file_read(file, 0, bytes, sizeof bytes, &got, &ignored) == FILE_OK && got == sizeof bytes &&
              format_header_decode(bytes, &now, &ignored) == FORMAT_OK && now.crc == header->crc &&
              memcmp(now.uuid, header->uuid, sizeof now.uuid) == 0;
  if (!same)
    error_set(error, "%s: the file was replaced while it was being opened", file->name);
  return same;
}

static enum check_status segment_open(struct writer *writer, struct reader *reader, struct error *error)
{
  if (file_open(&writer->file, writer->options.dir, writer->end.file, FILE_WRITE, 0, error) != FILE_OK)
    return CHECK_UNTRUSTED;
  writer->has_file = true;
  writer->header = reader->header;
  writer->has_last = reader->has_last;
  writer->last = reader->last;
  writer->path = reader->path;
  return file_is_checked_one(&writer->file, &writer->header, error) ? CHECK_OK : CHECK_UNTRUSTED;
}

enum check_status writer_open(struct writer *writer, const struct writer_options *options, const struct writer_start *start,
                              struct error *error)
{
  const struct committed *end = start->end;
  struct reader reader;
  struct error ignored;
  memset(writer, 0, sizeof *writer);
  writer->options = *options;
  writer->epoch = start->epoch;
  writer->local = start->local;
  writer->end = writer->found = *end;
  /* Even on one kernel, FUSE and the file system below it each have a page cache. */
  writer->foreign = strcmp(start->machine, options->identity.machine) != 0 || start->vouched != start->local;
  enum check_status status = check_storage(&reader, options->dir, options->type, end, start->epoch, error);
  if (status != CHECK_OK || end->file[0] == 0)
    return status;
  status = segment_open(writer, &reader, error);
  reader_close(&reader);
  if (status != CHECK_OK && writer_close(writer, &ignored) != WRITER_OK) {
    /* Nothing was written, so a failed close lost nothing. */
  }
  return status;
}

enum writer_status writer_close(struct writer *writer, struct error *error)
{
  enum writer_status status = WRITER_OK;
  if (writer->has_file && file_close(&writer->file, error) != FILE_OK)
    status = WRITER_FAILED;
  writer->has_file = false;
  free(writer->encoded);
  writer->encoded = NULL;
  writer->encoded_size = 0;
  return status;
}

/* ---- continuing a file ---- */

enum writer_status writer_guard(struct writer *writer, struct continue_check *check, struct error *error)
{
  int64_t size = 0;
  enum file_status status = FILE_OK;
  *check = (struct continue_check){.local = writer->local};
  bool counts = writer->local;
  if (counts && file_local(&writer->file, &counts, error) != FILE_OK)
    return WRITER_FAILED;
  if (counts)
    status = file_guard(&writer->file, error);
  if (status != FILE_OK && status != FILE_BUSY)
    return WRITER_FAILED;
  check->guarded = counts && status == FILE_OK;
  if (file_size(&writer->file, &size, error) != FILE_OK)
    return WRITER_FAILED;
  check->exact = size == writer->end.length;
  return WRITER_OK;
}

enum writer_status writer_cut(struct writer *writer, struct error *error)
{
  int64_t size = 0;
  if (file_size(&writer->file, &size, error) != FILE_OK)
    return WRITER_FAILED;
  if (size == writer->end.length)
    return WRITER_OK;
  if (size < writer->end.length) {
    error_set(error, "%s: it became shorter than its committed end", writer->file.name);
    return WRITER_FAILED;
  }
  /* A cut is a write: if the epoch ends without a block, its end is clean, and the next holder may look through another view. */
  bool cut = file_cut(&writer->file, writer->end.length, error) == FILE_OK && file_sync(&writer->file, error) == FILE_OK;
  return cut ? WRITER_OK : WRITER_FAILED;
}

static enum writer_status space_check(struct writer *writer, size_t bytes, struct error *error)
{
  struct file_place place;
  if (file_place(writer->options.dir, &place, error) != FILE_OK)
    return WRITER_FAILED;
  if (place.free_bytes >= (int64_t)bytes + SPACE_MARGIN_BYTES)
    return WRITER_OK;
  error_set(error, "no space in %s: %zu bytes are to be written and %d kept free, %" PRId64 " are free", writer->options.dir, bytes,
            (int)SPACE_MARGIN_BYTES, place.free_bytes);
  return WRITER_NO_SPACE;
}

/* ---- a new segment ---- */

static void header_make(struct writer *writer, const char *reason, const uint8_t uuid[16], int64_t now_us, struct segment_header *header)
{
  memset(header, 0, sizeof *header);
  memcpy(header->uuid, uuid, sizeof header->uuid);
  header->epoch = writer->epoch;
  header->first_seq = writer->end.seq + 1;
  header->created_us = now_us;
  snprintf(header->type, sizeof header->type, "%s", writer->options.type);
  header->writer = writer->options.identity;
  snprintf(header->version, sizeof header->version, "%s", PAWL_VERSION);
  snprintf(header->reason, sizeof header->reason, "%s", reason);
  if (writer->end.file[0] == 0)
    return;
  /* Times never decrease along the chain either. */
  int64_t time_us = writer->has_last ? writer->last.time_us : writer->header.created_us;
  header->created_us = now_us > time_us ? now_us : time_us;
  header->number = writer->header.number + 1;
  snprintf(header->predecessor, sizeof header->predecessor, "%s", writer->end.file);
  memcpy(header->predecessor_uuid, writer->end.uuid, sizeof header->predecessor_uuid);
  header->predecessor_epoch = writer->header.epoch;
  header->predecessor_length = writer->end.length;
  header->predecessor_seq = writer->end.seq;
  header->predecessor_link = writer->end.link;
  header->predecessor_tail = writer->end.tail;
}

/* The name is taken. Finds out whether by a bare header (a holder died before its commit) or by a file with blocks. */
static enum writer_status name_judge(struct writer *writer, const char *name, struct error *error)
{
  struct file file;
  struct error ignored;
  int64_t size = INT64_MAX;
  if (file_open(&file, writer->options.dir, name, FILE_READ, 0, error) != FILE_OK)
    return WRITER_FAILED;
  bool known = file_size(&file, &size, error) == FILE_OK;
  if (file_close(&file, &ignored) != FILE_OK || !known)
    return WRITER_FAILED;
  if (size <= FORMAT_HEADER_BYTES) {
    error_set(error, "segment %s/%s already exists and holds only a header", path_show(writer->options.dir).text, name);
    return WRITER_NAME_SPENT;
  }
  error_set(error, "segment %s/%s already exists, with %" PRId64 " bytes that the ledger does not name",
            path_show(writer->options.dir).text, name, size);
  return WRITER_NAME_TAKEN;
}

static enum writer_status name_create(struct writer *writer, int64_t name_epoch, struct file *file, struct error *error)
{
  char name[FILE_NAME_SIZE];
  segment_name_make(writer->options.type, name_epoch, name);
  enum file_status status = file_open(file, writer->options.dir, name, FILE_CREATE, writer->options.permissions, error);
  if (status == FILE_EXISTS)
    return name_judge(writer, name, error);
  return status == FILE_OK ? WRITER_OK : WRITER_FAILED;
}

/* The commit of an epoch that began on a local file system vouches for the segment: so the segment must be local, and its guard taken. */
static bool segment_guard(struct file *file, struct error *error)
{
  bool local = false;
  if (file_local(file, &local, error) != FILE_OK)
    return false;
  if (!local)
    error_set(error, "%s: its directory was on a local file system, but the new segment is not", file->name);
  return local && file_guard(file, error) == FILE_OK;
}

static enum writer_status header_write(struct writer *writer, struct file *file, struct segment_header *header, struct error *error)
{
  uint8_t bytes[FORMAT_HEADER_BYTES];
  format_header_encode(header, bytes);
  if ((writer->local && !segment_guard(file, error)) || file_write(file, 0, bytes, sizeof bytes, error) != FILE_OK ||
      file_sync_new(file, writer->options.dir, error) != FILE_OK)
    return WRITER_FAILED;
  return WRITER_OK;
}

static void segment_begin(struct writer *writer, struct file *file, const struct segment_header *header)
{
  struct committed end = {.length = FORMAT_HEADER_BYTES, .seq = writer->end.seq, .items = writer->end.items};
  snprintf(end.file, sizeof end.file, "%s", file->name);
  memcpy(end.uuid, header->uuid, sizeof end.uuid);
  end.link = format_header_link(header);
  writer->file = *file;
  writer->has_file = true;
  writer->created = writer->opened = true;
  writer->foreign = false;
  writer->header = *header;
  writer->end = end;

  writer->has_last = false;
  memset(&writer->path, 0, sizeof writer->path);
}

/*
 * `T.bin`, or the epoch's name where a holder that died has left a bare header under it. If that is another database's, so is the type;
 * without a whole header it cannot be told, and whoever writes it looks afterwards.
 */
static enum writer_status first_create(struct writer *writer, const uint8_t uuid[16], struct file *file, int64_t *name_epoch,
                                       struct error *error)
{
  *name_epoch = 0;
  enum writer_status status = name_create(writer, 0, file, error);
  if (status != WRITER_NAME_SPENT)
    return status;
  if (writer->marked && foreign_look(writer->options.dir, writer->options.type, uuid, error) == FOREIGN_FOUND)
    return WRITER_NAME_TAKEN;
  *name_epoch = writer->epoch;
  return name_create(writer, writer->epoch, file, error);
}

/* After the own header: of two that do this at the same time at least one sees the other. `T.bin` has the precedence. */
static enum writer_status first_look(const struct writer *writer, const uint8_t uuid[16], int64_t name_epoch, struct error *error)
{
  switch (foreign_look(writer->options.dir, writer->options.type, uuid, error)) {
  case FOREIGN_NONE:
    return WRITER_OK;
  case FOREIGN_FOUND:
    return name_epoch == 0 ? WRITER_NAME_SPENT : WRITER_NAME_TAKEN;
  case FOREIGN_FAILED:
    return WRITER_FAILED;
  }
  return WRITER_FAILED;
}

enum writer_status writer_create(struct writer *writer, const char *reason, const uint8_t uuid[16], size_t block_bytes, int64_t now_us,
                                 struct error *error)
{
  struct segment_header header;
  struct file file;
  struct error ignored;
  enum writer_status status = space_check(writer, FORMAT_HEADER_BYTES + BATCH_HEADROOM_BYTES + block_bytes, error);
  if (status != WRITER_OK)
    return status;
  bool first = writer->end.file[0] == 0;
  int64_t name_epoch = writer->epoch;
  status = first ? first_create(writer, uuid, &file, &name_epoch, error) : name_create(writer, name_epoch, &file, error);
  if (status != WRITER_OK)
    return status;
  header_make(writer, reason, uuid, now_us, &header);
  status = header_write(writer, &file, &header, error);
  if (status == WRITER_OK && first && writer->marked)
    status = first_look(writer, uuid, name_epoch, error);
  if (status != WRITER_OK) {
    /* Its commit was not sent. If the file cannot be removed, it stays as a bare header, which is harmless. */
    (void)(file_close(&file, &ignored) == FILE_OK && file_unlink(writer->options.dir, file.name, &ignored) == FILE_OK);
    return status;
  }
  if (writer->has_file && file_close(&writer->file, &ignored) != FILE_OK) {
    /* This epoch wrote nothing to the old segment, so a failed close lost nothing. */
  }
  segment_begin(writer, &file, &header);
  return WRITER_OK;
}

bool writer_discard(struct writer *writer)
{
  struct error ignored;
  assert(writer->created && !writer->has_last);
  /* Synced, or a power cut brings it back. */
  return file_unlink(writer->options.dir, writer->end.file, &ignored) == FILE_OK &&
         file_sync_new(&writer->file, writer->options.dir, &ignored) == FILE_OK;
}

/* ---- blocks ---- */

static void marker_make(const struct writer *writer, enum block_kind kind, int64_t now_us, struct block_marker *marker)
{
  int64_t time_us = writer->has_last ? writer->last.time_us : writer->header.created_us;
  memset(marker, 0, sizeof *marker);
  marker->kind = (uint8_t)kind;
  memcpy(marker->file_id, writer->header.uuid, sizeof marker->file_id);
  marker->offset = writer->end.length;
  marker->epoch = writer->epoch;
  marker->seq = writer->end.seq + 1;
  marker->time_us = now_us > time_us ? now_us : time_us;
  marker->before = writer->has_last ? writer->last.offset : 0;
  marker->skip = skip_path_next(&writer->path);
  marker->link = writer->end.link;
  marker->number = writer->has_last ? writer->last.number + 1 : 0;
}

/* Encodes the marker before its body, which lies at bytes + 128, and moves the end after the block. */
static void block_seal(struct writer *writer, struct block_marker *marker, uint8_t *bytes)
{
  marker->body_crc = format_crc(bytes + FORMAT_MARKER_BYTES, marker->stored_bytes);
  format_marker_encode(marker, bytes);
  skip_path_push(&writer->path, marker->offset);
  writer->last = *marker;
  writer->has_last = true;
  writer->end.length += FORMAT_MARKER_BYTES + (int64_t)marker->stored_bytes;
  writer->end.tail = marker->offset;
  writer->end.link = format_marker_link(marker);
  writer->end.seq += marker->count;
  writer->end.items += marker->items;
  writer->items_written += marker->items;
}

/* Makes a block of one document that pawl itself wrote. Returns its length in bytes. */
static size_t document_block(struct writer *writer, enum block_kind kind, const bson_t *document, int64_t now_us, uint8_t *bytes)
{
  struct block_marker marker;
  marker_make(writer, kind, now_us, &marker);
  marker.stored_bytes = marker.decoded_bytes = document->len;
  memcpy(bytes + FORMAT_MARKER_BYTES, bson_get_data(document), document->len);
  block_seal(writer, &marker, bytes);
  return FORMAT_MARKER_BYTES + document->len;
}

static size_t pad_block(struct writer *writer, int64_t now_us, uint8_t *bytes)
{
  /* {_: binary}: length 4, type 1, name 2, length 4, subtype 1, the zeros, 00 */
  enum { AROUND = 13 };
  static const uint8_t zeros[2 * FORMAT_PAGE_BYTES];
  int64_t size = format_pad_bytes(writer->end.length);
  if (size == 0)
    return 0;
  bson_t document = BSON_INITIALIZER;
  uint32_t fill = (uint32_t)(size - FORMAT_MARKER_BYTES - AROUND);
  bson_append_binary(&document, "_", 1, BSON_SUBTYPE_BINARY, zeros, fill);
  size_t written = document_block(writer, BLOCK_PAD, &document, now_us, bytes);
  bson_destroy(&document);
  assert(written == (size_t)size);
  return written;
}

static size_t open_block(struct writer *writer, int64_t now_us, uint8_t *bytes)
{
  const struct writer_identity *identity = &writer->options.identity;
  bson_t document = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&document, "host", identity->host);
  BSON_APPEND_INT64(&document, "pid", identity->pid);
  BSON_APPEND_UTF8(&document, "machine", identity->machine);
  BSON_APPEND_INT64(&document, "lease_ms", writer->options.lease_ms);
  size_t written = document_block(writer, BLOCK_OPEN, &document, now_us, bytes);
  bson_destroy(&document);
  return written;
}

/* Returns the body to store, with room before it: the batch itself, or its compressed form if that saves enough. */
static uint8_t *body_choose(struct writer *writer, struct batch *batch, struct block_marker *marker)
{
  marker->decoded_bytes = marker->stored_bytes = (uint32_t)batch->bytes;
  marker->codec = CODEC_PLAIN;
  if (!writer->options.codec_zstd)
    return batch_documents(batch);
  size_t needed = BATCH_HEADROOM_BYTES + body_encoded_bytes_max(batch->bytes);
  if (writer->encoded_size < needed) {
    free(writer->encoded);
    writer->encoded = malloc(needed);
    writer->encoded_size = writer->encoded != NULL ? needed : 0;
  }
  if (writer->encoded == NULL)
    return batch_documents(batch); /* no memory for it: plain is always valid */
  size_t encoded = body_encode(batch_documents(batch), batch->bytes, writer->encoded + BATCH_HEADROOM_BYTES, needed - BATCH_HEADROOM_BYTES);
  if (encoded == 0)
    return batch_documents(batch);
  marker->codec = CODEC_ZSTD;
  marker->stored_bytes = (uint32_t)encoded;
  return writer->encoded + BATCH_HEADROOM_BYTES;
}

/* The name must lead to the open file, and the file end at writer->end: if it was cut, the next block would leave a hole before it. */
static enum writer_status end_check(struct writer *writer, struct error *error)
{
  return file_in_place(&writer->file, writer->options.dir, writer->end.length, error) == FILE_OK ? WRITER_OK : WRITER_FAILED;
}

enum writer_status writer_append(struct writer *writer, struct batch *batch, int64_t now_us, struct error *error)
{
  uint8_t front[BATCH_HEADROOM_BYTES];
  size_t front_bytes = 0;
  struct block_marker marker;
  assert(writer->has_file && batch->count > 0 && batch->bytes <= FORMAT_DECODED_BYTES_MAX);
  enum writer_status status = space_check(writer, sizeof front + batch->bytes, error);
  if (status == WRITER_OK)
    status = end_check(writer, error);
  if (status != WRITER_OK)
    return status;
  int64_t offset = writer->end.length;
  if (!writer->opened) {
    if (writer->foreign)
      front_bytes += pad_block(writer, now_us, front);
    front_bytes += open_block(writer, now_us, front + front_bytes);
    writer->opened = true;
    writer->foreign = false;
  }
  marker_make(writer, BLOCK_DATA, now_us, &marker);
  uint8_t *body = body_choose(writer, batch, &marker);
  marker.count = batch->count;
  marker.items = batch->items;
  block_seal(writer, &marker, body - FORMAT_MARKER_BYTES);
  assert(front_bytes + FORMAT_MARKER_BYTES <= BATCH_HEADROOM_BYTES);
  uint8_t *start = body - FORMAT_MARKER_BYTES - front_bytes;
  memcpy(start, front, front_bytes);
  size_t size = front_bytes + FORMAT_MARKER_BYTES + marker.stored_bytes;
  return file_write(&writer->file, offset, start, size, error) == FILE_OK ? WRITER_OK : WRITER_FAILED;
}

/*
 * Counts the messages of this epoch and those that the segment held before. The latter are counted only here and not at writer_open: they
 * cost a read for each block since the last CLOSE, which would slow a take-over, and an old damaged block must not stop new writes.
 */
static enum writer_status segment_items(const struct writer *writer, int64_t *items, struct error *error)
{
  struct reader reader;
  int64_t earlier = 0;
  *items = writer->items_written;
  if (writer->created)
    return WRITER_OK;
  if (reader_open(&reader, writer->options.dir, writer->found.file, &writer->found, error) != READ_OK)
    return WRITER_FAILED;
  enum read_status status = reader_place_after(&reader, writer->found.tail, error);
  if (status == READ_OK)
    status = reader_count_items(&reader, &earlier, error);
  reader_close(&reader);
  *items += earlier;
  return status == READ_OK ? WRITER_OK : WRITER_FAILED;
}

enum writer_status writer_append_close(struct writer *writer, int64_t now_us, struct error *error)
{
  uint8_t bytes[512];
  int64_t items = 0;
  int64_t offset = writer->end.length;
  bson_t document = BSON_INITIALIZER;
  enum writer_status status = space_check(writer, sizeof bytes, error);
  if (status == WRITER_OK)
    status = end_check(writer, error);
  if (status == WRITER_OK)
    status = segment_items(writer, &items, error);
  if (status != WRITER_OK)
    return status;
  BSON_APPEND_INT64(&document, "messages", writer->end.seq - writer->header.first_seq + 1);
  BSON_APPEND_INT64(&document, "items", items);
  size_t size = document_block(writer, BLOCK_CLOSE, &document, now_us, bytes);
  bson_destroy(&document);
  return file_write(&writer->file, offset, bytes, size, error) == FILE_OK ? WRITER_OK : WRITER_FAILED;
}

enum writer_status writer_sync(struct writer *writer, struct error *error)
{
  if (file_sync(&writer->file, error) != FILE_OK)
    return WRITER_FAILED;
  return end_check(writer, error);
}
