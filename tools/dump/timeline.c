#include "tools/dump/scan.h"
#include "tools/dump/timeline_private.h"

#include <bson/bson.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct timeline *timeline_new(void)
{
  return calloc(1, sizeof(struct timeline));
}

void timeline_free(struct timeline *timeline)
{
  for (int i = 0; timeline != NULL && i < timeline->row_count; i++)
    free(timeline->rows[i]);
  free(timeline);
}

/* ---- sums ---- */

void amount_add(struct amount *amount, const struct amount *more)
{
  amount->blocks += more->blocks;
  amount->documents += more->documents;
  amount->messages += more->messages;
  amount->bytes += more->bytes;
}

/* Whoever wrote most in a part of it counts as the one that wrote most. */
void bin_add(struct bin *bin, const struct bin *more)
{
  if (more->amount.blocks == 0)
    return;
  if (bin->amount.blocks > 0 && bin->writer == more->writer)
    bin->by_writer += more->by_writer;
  else if (bin->amount.blocks == 0 || more->by_writer > bin->by_writer) {
    bin->writer = more->writer;
    bin->by_writer = more->by_writer;
  }
  amount_add(&bin->amount, &more->amount);
}

/* ---- bins ---- */

static void bins_coarsen(struct row *row)
{
  int64_t base = row->first_us >> row->shift;
  for (int64_t i = 0; i < TIMELINE_BINS_MAX; i++) {
    int64_t at = ((base + i) >> 1) - (base >> 1);
    if (at == i)
      continue;
    bin_add(&row->bins[at], &row->bins[i]);
    row->bins[i] = (struct bin){.by_writer = 0};
  }
  row->shift++;
}

static void row_time(struct row *row, int64_t time_us)
{
  if (row->shift == 0) {
    row->shift = TIMELINE_SHIFT_MIN;
    row->first_us = row->last_us = time_us;
  }
  row->last_us = time_us > row->last_us ? time_us : row->last_us;
  while ((row->last_us >> row->shift) - (row->first_us >> row->shift) >= TIMELINE_BINS_MAX)
    bins_coarsen(row);
}

static void row_bin(struct row *row, int64_t time_us, int writer, const struct amount *amount)
{
  struct bin one = {.amount = *amount, .writer = writer, .by_writer = amount->messages};
  int64_t at = (time_us >> row->shift) - (row->first_us >> row->shift);
  bin_add(&row->bins[at > 0 ? at : 0], &one);
}

/* ---- spans ---- */

static void span_join(struct span *span, const struct span *next)
{
  span->takeovers += next->takeovers + (span->writer != next->writer_first);
  span->unclean += next->unclean + !span->closed;
  span->several = span->several || next->several || span->writer != next->writer_first;
  span->epoch_last = next->epoch_last;
  span->epochs += next->epochs;
  span->to_us = next->to_us;
  span->writer = next->writer;
  span->closed = next->closed;
  span->segments += next->segments;
  amount_add(&span->amount, &next->amount);
}

int spans_join(struct span *spans, int count, int shift)
{
  int kept = 0;
  for (int i = 1; i < count; i++)
    if (spans[i].to_us >> shift == spans[kept].from_us >> shift)
      span_join(&spans[kept], &spans[i]);
    else
      spans[++kept] = spans[i];
  return count > 0 ? kept + 1 : 0;
}

static struct span *span_last(struct row *row)
{
  return row->span_count > 0 ? &row->spans[row->span_count - 1] : NULL;
}

static struct span *span_begin(struct row *row, int64_t epoch, int64_t time_us, int writer)
{
  const struct span begun = {.epoch_first = epoch,
                             .epoch_last = epoch,
                             .epochs = 1,
                             .from_us = time_us,
                             .to_us = time_us,
                             .writer_first = writer,
                             .writer = writer};
  if (row->span_count == TIMELINE_SPANS_MAX)
    row->span_count = spans_join(row->spans, row->span_count, row->shift);
  if (row->span_count == TIMELINE_SPANS_MAX) /* it cannot be: each two of them need a bin of their own */
    span_join(span_last(row), &begun);
  else
    row->spans[row->span_count++] = begun;
  return span_last(row);
}

/* ---- writers ---- */

static int writer_find(struct timeline *timeline, const char *host, int64_t pid)
{
  struct writer_name name = {.messages = 0};
  snprintf(name.text, sizeof name.text, "%.255s:%" PRId64, host, pid);
  for (int i = 0; i < timeline->writer_count; i++)
    if (strcmp(timeline->writers[i].text, name.text) == 0)
      return i;
  if (timeline->writer_count == TIMELINE_WRITERS_MAX) {
    timeline->more_writers = true;
    return WRITER_UNKNOWN;
  }
  timeline->writers[timeline->writer_count] = name;
  return timeline->writer_count++;
}

/* The body of an OPEN names the process that writes from there on. */
static int writer_of_open(struct timeline *timeline, const struct reader *reader)
{
  bson_iter_t at;
  char host[256] = "";
  int64_t pid = 0;
  if (!bson_iter_init_from_data(&at, reader->messages, reader->messages_bytes))
    return WRITER_UNKNOWN;
  while (bson_iter_next(&at))
    if (strcmp(bson_iter_key(&at), "host") == 0 && BSON_ITER_HOLDS_UTF8(&at))
      snprintf(host, sizeof host, "%s", bson_iter_utf8(&at, NULL));
    else if (strcmp(bson_iter_key(&at), "pid") == 0)
      pid = bson_iter_as_int64(&at);
  return host[0] != '\0' ? writer_find(timeline, host, pid) : WRITER_UNKNOWN;
}

/* ---- what a source has ---- */

/* A segment is a sign of its epoch, even if it has no block. */
static void segment_add(struct timeline *timeline, struct row *row, const struct dump *dump, const struct segment *segment)
{
  const struct segment_header *header = &segment->header;
  struct span *span = span_last(row);
  if (segment->headless || header->created_us < dump->since_us || header->created_us >= dump->until_us ||
      (span != NULL && header->epoch < span->epoch_last))
    return;
  row_time(row, header->created_us);
  if (span == NULL || span->epoch_last != header->epoch)
    span = span_begin(row, header->epoch, header->created_us, writer_find(timeline, header->writer.host, header->writer.pid));
  span->segments++;
}

static void block_add(struct timeline *timeline, struct row *row, const struct reader *reader)
{
  const struct block_marker *block = &reader->block;
  const struct amount amount = {.blocks = 1,
                                .documents = block->count,
                                .messages = block->items,
                                .bytes = block->kind == BLOCK_DATA ? FORMAT_MARKER_BYTES + (int64_t)block->stored_bytes : 0};
  struct span *span = span_last(row);
  row_time(row, block->time_us);
  if (span == NULL || span->epoch_last != block->epoch) {
    bool made = reader->header.epoch == block->epoch && reader->header.writer.host[0] != '\0';
    int writer = made ? writer_find(timeline, reader->header.writer.host, reader->header.writer.pid) : WRITER_UNKNOWN;
    span = span_begin(row, block->epoch, block->time_us, writer);
  }
  if (block->kind == BLOCK_OPEN && span->epochs == 1) /* a PAD may come before it */
    span->writer = span->writer_first = writer_of_open(timeline, reader);
  span->to_us = block->time_us > span->to_us ? block->time_us : span->to_us;
  span->closed = block->kind == BLOCK_CLOSE;
  if (block->kind != BLOCK_DATA)
    return;
  amount_add(&span->amount, &amount);
  amount_add(&row->amount, &amount);
  row_bin(row, block->time_us, span->writer, &amount);
  if (span->writer >= 0)
    timeline->writers[span->writer].messages += amount.messages;
}

static void row_fill(struct timeline *timeline, struct row *row, struct dump *dump, const struct source *source)
{
  struct scan scan;
  enum dump_exit before = dump->exit;
  size_t segment = 0;
  snprintf(row->name, sizeof row->name, "%s", source_name(source));
  scan_begin(&scan, dump, source);
  while (dump_goes_on(dump) && scan_next(&scan)) {
    for (; segment <= scan.walk.at.index; segment++)
      segment_add(timeline, row, dump, &source->chain.segments[segment]);
    block_add(timeline, row, &scan.walk.at.reader);
  }
  row->stopped = dump->exit != before;
  for (; segment < source->chain.count && !row->stopped; segment++)
    segment_add(timeline, row, dump, &source->chain.segments[segment]);
  scan_end(&scan);
}

void timeline_add(struct timeline *timeline, struct dump *dump, const struct source *source)
{
  if (timeline->row_count == TIMELINE_ROWS_MAX) {
    timeline->rows_left_out++;
    return;
  }
  struct row *row = calloc(1, sizeof *row);
  if (row == NULL) {
    dump_say("%s: no memory", source_name(source));
    dump_note_exit(dump, DUMP_IO);
    return;
  }
  row_fill(timeline, row, dump, source);
  if (row->span_count > 0)
    timeline->rows[timeline->row_count++] = row;
  else
    free(row);
}

/* ---- the file ---- */

static bool to_stdout(const char *name)
{
  return strcmp(name, "-") == 0;
}

static void say_exists(const char *name)
{
  dump_say("--timeline: %s exists already, and is not replaced: remove it, or give another name", name);
}

bool timeline_name_free(const char *name)
{
  struct stat status;
  if (to_stdout(name) || lstat(name, &status) != 0)
    return true;
  say_exists(name);
  return false;
}

/* All of it, or false with errno. */
static bool write_whole(int fd, const char *bytes, size_t size)
{
  while (size > 0) {
    ssize_t written = write(fd, bytes, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes += written;
    size -= (size_t)written;
  }
  return fsync(fd) == 0;
}

/* Under another name first; a link to the name that is wanted fails where that exists. */
static bool write_file(const char *name, const char *bytes, size_t size)
{
  size_t room = strlen(name) + sizeof ".XXXXXX";
  char *temporary = malloc(room);
  if (temporary == NULL)
    return false;
  snprintf(temporary, room, "%s.XXXXXX", name);
  int fd = mkostemp(temporary, O_CLOEXEC);
  mode_t mask = umask(0);
  umask(mask);
  bool written = fd >= 0 && fchmod(fd, 0666 & ~mask) == 0 && write_whole(fd, bytes, size);
  int why = errno;
  if (fd >= 0 && close(fd) != 0 && written) {
    written = false;
    why = errno;
  }
  /* Some file systems have no links, some cannot rename without replacing. */
  bool named =
      written && (link(temporary, name) == 0 || (errno != EEXIST && renameat2(AT_FDCWD, temporary, AT_FDCWD, name, RENAME_NOREPLACE) == 0));
  why = written ? errno : why;
  if (fd >= 0)
    unlink(temporary);
  free(temporary);
  errno = why;
  return named;
}

static void text_write(struct dump *dump, const char *name, const char *text, size_t bytes)
{
  if (to_stdout(name)) {
    fwrite(text, 1, bytes, dump->out);
    return;
  }
  if (write_file(name, text, bytes))
    return;
  if (errno == EEXIST)
    say_exists(name);
  else
    dump_say("--timeline: writing %s: %s", name, strerror(errno));
  dump_note_exit(dump, DUMP_IO);
}

void timeline_write(const struct timeline *timeline, struct dump *dump, const char *name)
{
  char *text = NULL;
  size_t bytes = 0;
  if (timeline->row_count == 0) {
    dump_say("--timeline: nothing to draw: %s", dump->config->dir != NULL
                                                    ? "there is no segment of these types, or none of its blocks is selected"
                                                    : "no block of these files is selected");
    dump_note_exit(dump, DUMP_IO);
    return;
  }
  FILE *out = open_memstream(&text, &bytes);
  if (out != NULL)
    timeline_draw(timeline, out);
  if (out == NULL || fclose(out) != 0 || bytes == 0) {
    dump_say("--timeline: no memory for the picture");
    dump_note_exit(dump, DUMP_IO);
  } else
    text_write(dump, name, text, bytes);
  if (timeline->rows_left_out > 0)
    dump_note(dump, "--timeline: the first %d rows are drawn, and %" PRId64 " are left out: choose with --type", timeline->row_count,
              timeline->rows_left_out);
  free(text);
}
