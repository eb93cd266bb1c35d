#include "storage/check.h"
#include "storage/chain.h"

#include <inttypes.h>

/* ---- unexpected segments ---- */

struct unexpected {
  const char *dir, *type;
  int64_t epoch;      /* the ledger's */
  int64_t file_epoch; /* in the name of the ledger's segment; `T.bin`: 0 */
  bool has_file;      /* the ledger names a segment */
  bool found;
  struct error error;
};

/* A file that is gone again has no bytes. */
static enum file_status name_size(const char *dir, const char *name, int64_t *size, struct error *error)
{
  struct file file;
  struct error ignored;
  *size = 0;
  enum file_status status = file_open(&file, dir, name, FILE_READ, 0, error);
  if (status != FILE_OK)
    return status == FILE_ABSENT ? FILE_OK : status;
  status = file_size(&file, size, error);
  return file_close(&file, status == FILE_OK ? error : &ignored) == FILE_OK ? status : FILE_FAILED;
}

/*
 * The ledger names a new segment before its first block is written. So no segment can have blocks if the ledger names no file, nor if the
 * segment's epoch is above the ledger's epoch or above that of the segment that the ledger names.
 */
static void unexpected_check(void *context, const char *name)
{
  struct unexpected *unexpected = context;
  int64_t epoch = 0, size = 0;
  if (unexpected->found || !segment_name_is(name, unexpected->type, &epoch))
    return;
  bool later = epoch > unexpected->epoch || !unexpected->has_file || epoch > unexpected->file_epoch;
  if (!later)
    return;
  unexpected->found = name_size(unexpected->dir, name, &size, &unexpected->error) != FILE_OK;
  if (unexpected->found || size <= FORMAT_HEADER_BYTES)
    return; /* a bare header, left by a holder that died before its commit: writer_create handles it */
  unexpected->found = true;
  if (epoch > unexpected->epoch)
    error_set(&unexpected->error,
              "%s/%s was made in epoch %" PRId64 ", and the ledger is at %" PRId64 ": it is not the ledger of these files",
              path_show(unexpected->dir).text, name, epoch, unexpected->epoch);
  else if (unexpected->has_file)
    error_set(&unexpected->error, "%s/%s holds %" PRId64 " bytes, and the ledger names an earlier segment: an older ledger was restored",
              path_show(unexpected->dir).text, name, size);
  else
    error_set(&unexpected->error, "%s/%s holds %" PRId64 " bytes, and the ledger knows no file of this type",
              path_show(unexpected->dir).text, name, size);
}

/* ---- the committed end ---- */

/* READ_END: the block at `tail` is whole and ends at `length`, and its link and last seq are the ledger's. Leaves the reader there. */
static enum read_status end_check(struct reader *reader, struct error *error)
{
  struct committed end = reader->end;
  enum read_status status = READ_OK;
  if (end.tail != 0) {
    /* The check needs only the block before it, whose offset is in the marker at `tail`. */
    status = reader_place_after(reader, end.tail, error);
    if (status == READ_OK)
      status = reader_place_after(reader, reader->last.before, error);
    if (status == READ_OK && reader->offset != end.tail) {
      error_set(error, "%s: the block before the one at offset %" PRId64 " ends at %" PRId64, reader->file.name, end.tail, reader->offset);
      return READ_DAMAGED;
    }
    if (status == READ_OK)
      status = reader_next(reader, error);
  }
  if (status == READ_OK && reader->offset != end.length) {
    error_set(error, "%s: the block at offset %" PRId64 " ends at %" PRId64 ", the committed end is %" PRId64, reader->file.name, end.tail,
              reader->offset, end.length);
    return READ_DAMAGED;
  }
  return status == READ_OK ? reader_next(reader, error) : status;
}

/*
 * One crash can leave only these beyond the committed end: PAD, OPEN and one DATA block, or a CLOSE, of an epoch that the ledger has
 * reached. A holder fences before it writes, and writes nothing after a DATA block until it is committed. Anything else was committed
 * in another ledger, or in a later state of this one.
 */
static const char *beyond_contradicts(const struct reader *reader, int64_t epoch, bool after_data)
{
  if (after_data)
    return "follows a block of messages, which must have been committed";
  return reader->last.epoch > epoch ? "has an epoch that the ledger has not reached" : NULL;
}

static enum read_status beyond_check(struct reader *reader, int64_t epoch, struct error *error)
{
  struct reader at_end = *reader;
  const char *contradiction = NULL;
  bool after_data = false;
  enum read_status status = READ_OK;
  reader_set_end(reader, NULL);
  while (contradiction == NULL && (status = reader_next_marker(reader, error)) == READ_OK) {
    contradiction = beyond_contradicts(reader, epoch, after_data);
    after_data = after_data || reader->last.kind == BLOCK_DATA;
  }
  int64_t offset = status == READ_OK ? reader->last.offset : reader->offset;
  if (status == READ_DAMAGED)
    contradiction = "is broken, and a later one follows";
  /* Go back to the committed end; only the buffers may have moved. */
  at_end.stored = reader->stored, at_end.stored_size = reader->stored_size;
  at_end.decoded = reader->decoded, at_end.decoded_size = reader->decoded_size;
  *reader = at_end;
  if (contradiction == NULL)
    return status == READ_FAILED || status == READ_NEWER ? status : READ_OK;
  error_set(error,
            "%s: beyond the committed end %" PRId64 " the block at offset %" PRId64
            " %s: another ledger wrote here, or an older one was restored",
            reader->file.name, reader->end.length, offset, contradiction);
  return READ_DAMAGED;
}

static enum check_status segment_check(struct reader *reader, const char *dir, const char *type, const struct committed *end, int64_t epoch,
                                       struct error *error)
{
  struct error cause = {.text = ""};
  enum read_status status = reader_open(reader, dir, end->file, end, &cause);
  if (status == READ_OK) {
    if (reader->header.ro_compat != 0) {
      error_set(error, "%s/%s has features %08" PRIx32 " that forbid appending: a newer pawl is needed", path_show(dir).text, end->file,
                reader->header.ro_compat);
      reader_close(reader);
      return CHECK_NEWER;
    }
    if (strcmp(reader->header.type, type) != 0) {
      error_set(&cause, "%s holds messages of type %s", end->file, reader->header.type);
      status = READ_DAMAGED;
    }
    if (status == READ_OK)
      status = end_check(reader, &cause);
    if (status == READ_END)
      status = beyond_check(reader, epoch, &cause);
    if (status == READ_OK && file_writable(dir, end->file, error) != FILE_OK) {
      reader_close(reader);
      return CHECK_UNTRUSTED;
    }
    if (status == READ_OK)
      return CHECK_OK;
    reader_close(reader);
  }
  if (status == READ_ABSENT)
    error_set(error, "%s/%s, of which the ledger has %" PRId64 " bytes as committed, is not there (is this the right directory?)",
              path_show(dir).text, end->file, end->length);
  else
    error_set(error, "%s: %s", path_show(dir).text, cause.text);
  return status == READ_NEWER ? CHECK_NEWER : CHECK_UNTRUSTED;
}

enum check_status check_storage(struct reader *reader, const char *dir, const char *type, const struct committed *end, int64_t epoch,
                                struct error *error)
{
  struct unexpected unexpected = {.dir = dir, .type = type, .epoch = epoch, .has_file = end->file[0] != 0};
  char named[TYPE_BYTES_MAX + 1];
  if (unexpected.has_file && !segment_name_parse(end->file, named, &unexpected.file_epoch))
    unexpected.file_epoch = epoch; /* segment_check finds the error when it opens the file */
  if (file_list(dir, unexpected_check, &unexpected, error) != FILE_OK)
    return CHECK_UNTRUSTED;
  if (unexpected.found) {
    *error = unexpected.error;
    return CHECK_UNTRUSTED;
  }
  return unexpected.has_file ? segment_check(reader, dir, type, end, epoch, error) : CHECK_OK;
}

bool check_adoptable(const char *dir, const char *type, int64_t seq)
{
  struct chain chain;
  struct chain_reader at;
  struct error ignored;
  enum read_status status = chain_load(&chain, dir, type, NULL, 0, &ignored);
  if (status == READ_OK && chain.count > 0) {
    const struct segment *newest = &chain.segments[chain.count - 1];
    chain_reader_init(&at, dir, &chain);
    status = chain_reader_seek_seq(&at, seq > 0 ? seq : INT64_MAX, &ignored);
    while (status == READ_OK)
      status = chain_reader_next(&at, &ignored);
    chain_reader_deinit(&at);
    if (newest->header.ro_compat != 0 || file_writable(dir, newest->name, &ignored) != FILE_OK)
      status = READ_FAILED;
  }
  chain_free(&chain);
  return status == READ_END || status == READ_TAIL;
}
