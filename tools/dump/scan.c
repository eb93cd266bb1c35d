#include "tools/dump/scan.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>

/* ---- sums ---- */

void totals_add_block(struct totals *totals, const struct block_marker *block)
{
  struct totals one = {
      .blocks = 1,
      .documents = block->count,
      .messages = block->items,
      .stored_bytes = FORMAT_MARKER_BYTES + (int64_t)block->stored_bytes,
      .decoded_bytes = block->kind == BLOCK_DATA ? block->decoded_bytes : 0,
      .seq_first = block->count > 0 ? block->seq : 0,
      .seq_last = block->count > 0 ? block->seq + block->count - 1 : 0,
      .epoch_first = block->epoch,
      .epoch_last = block->epoch,
      .time_first_us = block->time_us,
      .time_last_us = block->time_us,
  };
  totals_add(totals, &one);
}

void totals_add(struct totals *totals, const struct totals *more)
{
  if (more->blocks == 0)
    return;
  if (totals->blocks == 0) {
    totals->epoch_first = more->epoch_first;
    totals->time_first_us = more->time_first_us;
  }
  if (totals->seq_first == 0)
    totals->seq_first = more->seq_first;
  if (more->seq_last > 0)
    totals->seq_last = more->seq_last;
  totals->epoch_last = more->epoch_last;
  totals->time_last_us = more->time_last_us;
  totals->blocks += more->blocks;
  totals->documents += more->documents;
  totals->messages += more->messages;
  totals->stored_bytes += more->stored_bytes;
  totals->decoded_bytes += more->decoded_bytes;
}

int64_t totals_file_bytes(const struct totals *totals, size_t segments)
{
  return totals->stored_bytes + (int64_t)segments * FORMAT_HEADER_BYTES;
}

const char *size_text(int64_t bytes, char text[SIZE_TEXT_SIZE])
{
  static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double size = (double)bytes;
  size_t unit = 0;
  while (size >= 1024 && unit + 1 < sizeof units / sizeof *units) {
    size /= 1024;
    unit++;
  }
  snprintf(text, SIZE_TEXT_SIZE, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
  return text;
}

/* ---- the blocks of a source ---- */

/* Reads only the end of the source. Where that fails, any block may be the last. */
static void find_last(struct scan *scan)
{
  struct walk walk;
  enum walk_event event;
  walk_init(&walk, scan->source, scan->dump->config->unconfirmed);
  walk_seek_seq(&walk, INT64_MAX);
  while ((event = walk_next(&walk)) == WALK_BLOCK || event == WALK_DAMAGED)
    if (event == WALK_BLOCK) {
      scan->last_segment = walk.at.index;
      scan->last_offset = walk_block(&walk)->offset;
    }
  walk_deinit(&walk);
}

void scan_begin(struct scan *scan, struct dump *dump, const struct source *source)
{
  const struct config *config = dump->config;
  memset(scan, 0, sizeof *scan);
  scan->dump = dump;
  scan->source = source;
  scan->from = config->from_seq > 1 ? config->from_seq : 1;
  scan->to = config->to_seq >= 0 ? config->to_seq : INT64_MAX;
  find_last(scan);
  walk_init(&scan->walk, source, config->unconfirmed);
  if (scan->from > 1)
    walk_seek_seq(&scan->walk, scan->from);
  else if (dump->since_us != INT64_MIN)
    walk_seek_time(&scan->walk, dump->since_us);
}

static bool is_selected(const struct scan *scan, const struct block_marker *block)
{
  int64_t last = block->count > 0 ? block->seq + block->count - 1 : block->seq;
  return last >= scan->from && block->seq <= scan->to && block->time_us >= scan->dump->since_us && block->time_us < scan->dump->until_us;
}

static bool is_unconfirmed(const struct scan *scan, const struct block_marker *block)
{
  size_t segment = scan->walk.at.index;
  bool followed = segment < scan->last_segment || (segment == scan->last_segment && block->offset < scan->last_offset);
  return block->kind == BLOCK_DATA && !walk_is_committed(&scan->walk) && !followed;
}

bool scan_next(struct scan *scan)
{
  struct walk *walk = &scan->walk;
  const struct block_marker *block = walk_block(walk);
  for (;;) {
    switch (walk_next(walk)) {
    case WALK_BLOCK:
      scan->unconfirmed = false;
      if (block->seq > scan->to || block->time_us >= scan->dump->until_us)
        return false;
      if (!is_selected(scan, block))
        break;
      scan->unconfirmed = is_unconfirmed(scan, block);
      return !scan->unconfirmed || !scan->dump->config->strict;
    case WALK_DAMAGED:
      walk_say_damage(walk);
      dump_note_exit(scan->dump, DUMP_DAMAGED);
      if (!scan->dump->config->keep_going)
        return false;
      break;
    case WALK_END:
      return false;
    case WALK_NEWER:
      dump_note_status(scan->dump, READ_NEWER, &walk->error);
      return false;
    case WALK_FAILED:
      dump_note_status(scan->dump, READ_FAILED, &walk->error);
      return false;
    }
  }
}

void scan_end(struct scan *scan)
{
  const struct walk *walk = &scan->walk;
  if (walk->torn)
    dump_note(scan->dump, "%s: at offset %" PRId64 " begins an uncommitted tail, not read", walk_segment_name(walk), walk->torn_offset);
  if (scan->unconfirmed) {
    bool strict = scan->dump->config->strict;
    dump_note(scan->dump, "%s: the last block, at offset %" PRId64 ", is unconfirmed%s", walk_segment_name(walk), walk_block(walk)->offset,
              strict ? ": left out" : "");
    if (strict)
      dump_note_exit(scan->dump, DUMP_UNCONFIRMED);
  }
  walk_deinit(&scan->walk);
}

/* ---- blocks ---- */

static const char *kind_text(uint8_t kind, char text[8])
{
  static const char *const names[] = {[BLOCK_DATA] = "data", [BLOCK_OPEN] = "open", [BLOCK_CLOSE] = "close", [BLOCK_PAD] = "pad"};
  snprintf(text, 8, "%u", kind);
  return kind < sizeof names / sizeof *names && names[kind] != NULL ? names[kind] : text;
}

/* The columns (see main.c): file offset kind number epoch first last documents messages stored decoded codec time crc. */
static void print_block_line(FILE *out, const char *name, const struct block_marker *block)
{
  char kind[8], last[24] = "-", time[TIME_TEXT_SIZE];
  if (block->count > 0)
    snprintf(last, sizeof last, "%" PRId64, block->seq + block->count - 1);
  fprintf(out, "%s %" PRId64 " %s %u %" PRId64 " %" PRId64 " %s %u %u %u %u %s %s %08x:%08x\n", name, block->offset,
          kind_text(block->kind, kind), block->number, block->epoch, block->seq, last, block->count, block->items, block->stored_bytes,
          block->decoded_bytes, block->codec == CODEC_ZSTD ? "zstd" : "plain", time_text(block->time_us, time), block->crc,
          block->body_crc);
}

void scan_blocks(struct dump *dump, const struct source *source)
{
  struct scan scan;
  scan_begin(&scan, dump, source);
  while (dump->remaining > 0 && dump_goes_on(dump) && scan_next(&scan)) {
    print_block_line(dump->out, walk_segment_name(&scan.walk), walk_block(&scan.walk));
    dump->remaining--;
  }
  scan_end(&scan);
}

/* ---- summary ---- */

enum { WRITERS_MAX = 8, WRITER_SIZE = 64 };

struct segment_summary {
  struct totals totals;
  bool closed;                            /* its last block is CLOSE */
  char writers[WRITERS_MAX][WRITER_SIZE]; /* hosts, without duplicates */
  size_t writer_count;
  bool more_writers;
};

/* A header or an OPEN may hold any bytes, so replace those that would break the output line. */
static void text_mask(char *at)
{
  for (; *at != 0; at++)
    if ((unsigned char)*at <= ' ' || *at == 0x7f || *at == ',')
      *at = '?';
}

static void writer_add(struct segment_summary *summary, const char *host)
{
  char name[WRITER_SIZE];
  snprintf(name, sizeof name, "%s", host);
  text_mask(name);
  for (size_t i = 0; i < summary->writer_count; i++)
    if (strcmp(summary->writers[i], name) == 0)
      return;
  if (summary->writer_count < WRITERS_MAX)
    memcpy(summary->writers[summary->writer_count++], name, sizeof name);
  else
    summary->more_writers = true;
}

/* The body of an OPEN names the host that writes from there on. */
static void writer_add_open(struct segment_summary *summary, const struct reader *reader)
{
  bson_iter_t at;
  if (bson_iter_init_from_data(&at, reader->messages, reader->messages_bytes) && bson_iter_find(&at, "host") && BSON_ITER_HOLDS_UTF8(&at))
    writer_add(summary, bson_iter_utf8(&at, NULL));
}

/* The size is that of the files, as in --verify: a header for each segment, and the blocks. */
static void print_totals(FILE *out, const struct totals *totals, size_t segments)
{
  char size[SIZE_TEXT_SIZE], first[TIME_TEXT_SIZE], last[TIME_TEXT_SIZE];
  fprintf(out, "%" PRId64 " block%s, %" PRId64 " document%s, %" PRId64 " message%s, %s", totals->blocks, plural(totals->blocks),
          totals->documents, plural(totals->documents), totals->messages, plural(totals->messages),
          size_text(totals_file_bytes(totals, segments), size));
  if (totals->documents > 0)
    fprintf(out, ", seq %" PRId64 "..%" PRId64, totals->seq_first, totals->seq_last);
  if (totals->blocks > 0)
    fprintf(out, ", epochs %" PRId64 "..%" PRId64 ", %s..%s", totals->epoch_first, totals->epoch_last,
            time_text(totals->time_first_us, first), time_text(totals->time_last_us, last));
}

static void print_segment(FILE *out, const char *name, const struct segment *segment, const struct segment_summary *summary)
{
  char reason[sizeof segment->header.reason];
  memcpy(reason, segment->header.reason, sizeof reason);
  text_mask(reason);
  if (segment->headless)
    fprintf(out, "  %s: header damaged, ", name);
  else
    fprintf(out, "  %s: segment %" PRId64 " (%s), ", name, segment->header.number, reason);
  print_totals(out, &summary->totals, 1);
  fputs(summary->closed ? ", closed" : ", not closed", out);
  for (size_t i = 0; i < summary->writer_count; i++)
    fprintf(out, "%s%s", i == 0 ? ", written by " : " ", summary->writers[i]);
  fputs(summary->more_writers ? " and others\n" : "\n", out);
}

static void summary_add(struct segment_summary *summary, const struct reader *reader)
{
  const struct block_marker *block = &reader->block;
  totals_add_block(&summary->totals, block);
  summary->closed = block->kind == BLOCK_CLOSE;
  if (block->kind == BLOCK_OPEN)
    writer_add_open(summary, reader);
}

static void summary_print(FILE *out, const struct source *source, const struct segment_summary *summaries)
{
  const struct chain *chain = &source->chain;
  struct totals sum = {0};
  for (size_t i = 0; i < chain->count; i++)
    totals_add(&sum, &summaries[i].totals);
  fprintf(out, "%s: %zu segment%s, ", source->type, chain->count, plural((int64_t)chain->count));
  print_totals(out, &sum, chain->count);
  putc('\n', out);
  for (size_t i = 0; i < chain->count; i++)
    print_segment(out, source_segment_name(source, &chain->segments[i]), &chain->segments[i], &summaries[i]);
}

void scan_summary(struct dump *dump, const struct source *source)
{
  struct scan scan;
  struct segment_summary *summaries = calloc(source->chain.count + 1, sizeof *summaries);
  if (summaries == NULL) {
    dump_say("%s: no memory", source_name(source));
    dump_note_exit(dump, DUMP_IO);
    return;
  }
  for (size_t i = 0; i < source->chain.count; i++)
    if (!source->chain.segments[i].headless)
      writer_add(&summaries[i], source->chain.segments[i].header.writer.host);
  scan_begin(&scan, dump, source);
  while (scan_next(&scan))
    summary_add(&summaries[scan.walk.at.index], &scan.walk.at.reader);
  summary_print(dump->out, source, summaries);
  scan_end(&scan);
  free(summaries);
}
