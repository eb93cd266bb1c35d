#include "tools/dump/messages.h"
#include "storage/bundle.h"

#include <inttypes.h>
#include <stdlib.h>

static int64_t smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static int64_t last_seq(const struct block_marker *block)
{
  return block->seq + block->count - 1;
}

static int64_t block_end(const struct block_marker *block)
{
  return block->offset + FORMAT_MARKER_BYTES + block->stored_bytes;
}

/* ---- the documents of a block ---- */

struct cursor {
  const uint8_t *at, *end;
  int64_t seq; /* of the document at `at` */
};

static struct cursor cursor_at(const struct block_marker *block, const uint8_t *bytes, size_t size)
{
  return (struct cursor){bytes, bytes + size, block->seq};
}

/* NULL: no more. The reader has checked that the lengths add up; this is a second check. */
static const uint8_t *cursor_next(struct cursor *cursor, size_t *bytes)
{
  const uint8_t *at = cursor->at;
  if (cursor->end - at < 5)
    return NULL;
  *bytes = (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
  if (*bytes < 5 || *bytes > (size_t)(cursor->end - at))
    return NULL;
  cursor->at += *bytes;
  cursor->seq++;
  return at;
}

/* How many messages of the document with this seq are selected. */
static int64_t messages_of(const struct selection *selection, int64_t seq, const uint8_t *document, size_t bytes)
{
  int64_t all = where_count(selection->dump->where, document, bytes, selection->opens);
  return seq == selection->from ? larger(all - selection->from_index, 0) : all;
}

/* ---- where to begin ---- */

/* A search whose disk fails would select too much: nothing is selected. */
static void search_failed(struct selection *selection, const struct walk *walk)
{
  dump_note_status(selection->dump, READ_FAILED, &walk->error);
  selection->done = true;
}

/* The last seq that would be selected without --tail; 0: none. Reads only the end of the source. */
static int64_t find_last(struct selection *selection)
{
  const struct dump *dump = selection->dump;
  struct walk walk;
  bool reading = true, pending = false;
  int64_t last = 0, proved = 0;
  walk_init(&walk, selection->source, dump->config->unconfirmed);
  if (dump->until_us == INT64_MAX)
    walk_seek_seq(&walk, selection->to);
  else
    walk_seek_time(&walk, dump->until_us);
  while (reading) {
    enum walk_event event = walk_next(&walk);
    const struct block_marker *block = walk_block(&walk);
    reading = event == WALK_BLOCK || event == WALK_DAMAGED;
    if (event == WALK_FAILED)
      search_failed(selection, &walk);
    if (event != WALK_BLOCK)
      continue;
    proved = block->seq - 1;
    reading = block->seq <= selection->to && block->time_us < dump->until_us;
    if (reading)
      last = last_seq(block);
    pending = reading && block->kind == BLOCK_DATA && !walk_is_committed(&walk);
  }
  walk_deinit(&walk);
  return smaller(pending && selection->holds ? proved : last, selection->to);
}

/* Skips `count` messages from `from` on, and begins after them. Returns how many it skipped: fewer if it reached seq `last` first. */
static int64_t pass_over(struct selection *selection, int64_t last, int64_t count)
{
  struct walk walk;
  int64_t passed = 0;
  bool reading = true, found = false;
  walk_init(&walk, selection->source, selection->dump->config->unconfirmed);
  walk_seek_seq(&walk, selection->from);
  while (reading && !found) {
    enum walk_event event = walk_next(&walk);
    const struct block_marker *block = walk_block(&walk);
    reading = event == WALK_DAMAGED || (event == WALK_BLOCK && block->seq <= last);
    if (event == WALK_FAILED)
      search_failed(selection, &walk);
    if (!reading || event != WALK_BLOCK || block->kind != BLOCK_DATA)
      continue;
    struct cursor cursor = cursor_at(block, walk.at.reader.messages, walk.at.reader.messages_bytes);
    const uint8_t *document;
    size_t bytes;
    while (!found && cursor.seq <= last && (document = cursor_next(&cursor, &bytes)) != NULL) {
      int64_t seq = cursor.seq - 1, held = seq >= selection->from ? messages_of(selection, seq, document, bytes) : 0;
      found = passed + held > count;
      if (found) {
        selection->from_index = count - passed;
        selection->from = seq;
      } else
        passed += held;
    }
  }
  walk_deinit(&walk);
  return passed;
}

/* Each document holds at least one message, so the last N messages are in the last N documents; those of --where may be anywhere. */
static void begin_with_tail(struct selection *selection)
{
  int64_t last = find_last(selection), tail = selection->dump->config->tail;
  bool all = selection->dump->where == NULL;
  selection->from = larger(selection->from, all && tail < last ? last - tail + 1 : 1);
  if (selection->done || (all && !selection->opens) || selection->from > last)
    return;
  int64_t messages = pass_over(selection, last, INT64_MAX);
  if (messages > tail && !selection->done)
    pass_over(selection, last, messages - tail);
}

/* Records the block before the position. If that block is not committed either, selection_rewind searches again. */
static void note_confirmed(struct selection *selection)
{
  const struct reader *reader = &selection->walk.at.reader;
  selection->confirmed = selection->walk.at.open && reader->has_last ? reader->last.offset : 0;
  selection->confirmed_end = selection->confirmed; /* it is not known of the block itself */
  if (selection->walk.at.open)
    memcpy(selection->confirmed_id, reader->header.uuid, sizeof selection->confirmed_id);
}

static void seek_begin(struct selection *selection)
{
  if (selection->from > 1)
    walk_seek_seq(&selection->walk, selection->from);
  else if (selection->dump->since_us != INT64_MIN)
    walk_seek_time(&selection->walk, selection->dump->since_us);
  note_confirmed(selection);
}

void selection_init(struct selection *selection, struct dump *dump, const struct source *source)
{
  const struct config *config = dump->config;
  memset(selection, 0, sizeof *selection);
  selection->dump = dump;
  selection->source = source;
  selection->from = config->from_seq > 1 ? config->from_seq : 1;
  selection->to = config->to_seq >= 0 ? config->to_seq : INT64_MAX;
  selection->holds = config->strict || (config->follow && !config->unconfirmed);
  selection->opens = !config->documents && print_format_opens(dump->printer.format);
  if (config->tail >= 0 && source->chain.count > 0)
    begin_with_tail(selection);
  selection->next_seq = selection->from;
  walk_init(&selection->walk, source, config->unconfirmed);
  seek_begin(selection);
}

void selection_deinit(struct selection *selection)
{
  walk_deinit(&selection->walk);
  free(selection->held);
  selection->held = NULL;
}

/* ---- printing ---- */

/* Those of the documents first..last that --limit still allows. */
static struct picked pick(const struct selection *selection, const uint8_t *messages, size_t size, int64_t first, int64_t last)
{
  struct picked picked = {.first = first};
  int64_t left = selection->dump->remaining;
  struct cursor cursor = cursor_at(walk_block(&selection->walk), messages, size);
  const uint8_t *document;
  size_t bytes;
  while (cursor.seq <= last && picked.messages < left && (document = cursor_next(&cursor, &bytes)) != NULL)
    if (cursor.seq > first) {
      int64_t taken = smaller(messages_of(selection, cursor.seq - 1, document, bytes), left - picked.messages);
      picked.messages += taken;
      picked.holders += taken > 0;
      picked.count++;
    }
  return picked;
}

/* Returns how many of at most `left` messages it printed. */
static int64_t print_bundle(struct selection *selection, const struct block_marker *block, int64_t seq, const uint8_t *document,
                            size_t document_bytes, int64_t left)
{
  int64_t left_out = seq == selection->from ? selection->from_index : 0, printed = 0;
  const uint8_t *elements;
  uint32_t count = bundle_open(document, document_bytes, &elements);
  for (uint32_t i = 0; i < count && printed < left; i++) {
    size_t bytes;
    const uint8_t *message = bundle_next(&elements, &bytes);
    if (!where_takes(selection->dump->where, document, document_bytes, message, bytes) || left_out-- > 0)
      continue;
    printer_put(&selection->dump->printer, block, seq, i, message, bytes);
    printed++;
  }
  return printed;
}

static void print_block(struct selection *selection, const struct block_marker *block, const uint8_t *messages, size_t size,
                        const struct picked *picked)
{
  struct dump *dump = selection->dump;
  struct cursor cursor = cursor_at(block, messages, size);
  const uint8_t *document;
  size_t bytes;
  int64_t left = picked->messages;
  selection->next_seq = picked->first + picked->count;
  dump->selected += picked->messages;
  dump->documents += picked->holders;
  if (dump->config->count)
    return;
  while (cursor.seq < selection->next_seq && (document = cursor_next(&cursor, &bytes)) != NULL) {
    if (cursor.seq <= picked->first)
      continue;
    const uint8_t *ignored;
    if (selection->opens && bundle_open(document, bytes, &ignored) > 0)
      left -= print_bundle(selection, block, cursor.seq - 1, document, bytes, left);
    else if (where_count(dump->where, document, bytes, selection->opens) > 0 && left > 0) {
      printer_put(&dump->printer, block, cursor.seq - 1, INDEX_NONE, document, bytes);
      left--;
    }
  }
  dump_say_shown(dump, picked->first, selection->next_seq - 1);
}

/* ---- pending ---- */

static bool hold(struct selection *selection, const uint8_t *bytes, size_t size)
{
  if (selection->held_size < size) {
    free(selection->held);
    selection->held = malloc(size);
    selection->held_size = selection->held != NULL ? size : 0;
  }
  selection->held_bytes = size;
  if (selection->held != NULL)
    memcpy(selection->held, bytes, size);
  return selection->held != NULL;
}

/* Another block follows, so what was pending is committed. */
static void confirm(struct selection *selection)
{
  if (!selection->pending || selection->walk.is_beyond)
    return;
  if (selection->picked.count > 0 && selection->holds)
    print_block(selection, &selection->last, selection->held, selection->held_bytes, &selection->picked);
  selection->confirmed = selection->last.offset;
  selection->confirmed_end = block_end(&selection->last);
  memcpy(selection->confirmed_id, selection->last.file_id, sizeof selection->confirmed_id);
  selection->pending = false;
  selection->picked = (struct picked){.first = 0};
  selection->shown.count = 0;
}

/* Compares what is read now with what was printed while pending. If it differs, the printed block was cut off and another written. */
static void compare_shown(struct selection *selection, const struct block_marker *block)
{
  if (selection->shown.count == 0 || block->seq > last_seq(&selection->shown))
    return;
  if (block->seq != selection->shown.seq || format_marker_link(block) != format_marker_link(&selection->shown)) {
    dump_say("seq %" PRId64 "..%" PRId64 " were not committed, and are void; others follow in their place", selection->shown.seq,
             last_seq(&selection->shown));
    selection->next_seq = larger(selection->from, selection->shown.seq);
  }
  selection->shown.count = 0;
}

/* ---- a block ---- */

/* False: no memory. */
static bool take_uncommitted(struct selection *selection, const struct picked *picked)
{
  const struct reader *reader = &selection->walk.at.reader;
  selection->pending = true;
  selection->last = reader->block;
  selection->picked = *picked;
  if (picked->count > 0 && selection->holds)
    return hold(selection, reader->messages, reader->messages_bytes);
  if (selection->dump->config->follow)
    selection->shown = reader->block;
  if (picked->count > 0)
    print_block(selection, &reader->block, reader->messages, reader->messages_bytes, picked);
  if (selection->walk.is_beyond && picked->messages > 0) {
    selection->beyond_first = selection->beyond_first == 0 ? picked->first : selection->beyond_first;
    selection->beyond_last = picked->first + picked->count - 1;
  }
  return true;
}

static bool take_data(struct selection *selection)
{
  struct dump *dump = selection->dump;
  const struct reader *reader = &selection->walk.at.reader;
  const struct block_marker *block = &reader->block;
  compare_shown(selection, block);
  int64_t first = larger(block->seq, selection->next_seq), last = smaller(last_seq(block), selection->to);
  struct picked picked = {.first = first};
  if (last >= first && block->time_us >= dump->since_us && block->time_us < dump->until_us)
    picked = pick(selection, reader->messages, reader->messages_bytes, first, last);
  dump->remaining -= picked.messages;
  if (!walk_is_committed(&selection->walk))
    return take_uncommitted(selection, &picked);
  if (picked.count > 0)
    print_block(selection, block, reader->messages, reader->messages_bytes, &picked);
  selection->confirmed = block->offset;
  selection->confirmed_end = block_end(block);
  memcpy(selection->confirmed_id, block->file_id, sizeof selection->confirmed_id);
  return true;
}

static bool is_complete(const struct selection *selection)
{
  const struct block_marker *block = walk_block(&selection->walk);
  return block->seq + block->count > selection->to || block->time_us >= selection->dump->until_us || selection->dump->remaining == 0;
}

/* False: stop. */
static bool take_block(struct selection *selection)
{
  confirm(selection);
  if (!selection->complete && walk_block(&selection->walk)->kind == BLOCK_DATA && !take_data(selection)) {
    dump_say("no memory to hold a block of %zu bytes back", selection->walk.at.reader.messages_bytes);
    dump_note_exit(selection->dump, DUMP_IO);
    return false;
  }
  selection->complete = selection->complete || is_complete(selection);
  selection->done = selection->complete && (selection->picked.count == 0 || selection->walk.is_beyond);
  return !selection->done && dump_goes_on(selection->dump);
}

/* While --follow reads, a holder may cut off a block and write another, which looks like damage. So read again, once. */
static bool read_again(struct selection *selection)
{
  if (!selection->dump->config->follow || walk_is_committed(&selection->walk) || selection->reread)
    return false;
  selection->reread = true;
  selection_rewind(selection, true);
  return true;
}

/* Offline, what proves damage also proves that all before it is committed. False: stop. */
static bool take_damage(struct selection *selection)
{
  if (read_again(selection))
    return true;
  confirm(selection);
  if (selection->complete) {
    selection->done = true;
    return false;
  }
  walk_say_damage(&selection->walk);
  dump_note_exit(selection->dump, DUMP_DAMAGED);
  return selection->dump->config->keep_going;
}

enum selection_status selection_advance(struct selection *selection)
{
  bool going = !selection->done && dump_goes_on(selection->dump);
  selection->reread = false;
  while (going) {
    switch (walk_next(&selection->walk)) {
    case WALK_BLOCK:
      going = take_block(selection);
      break;
    case WALK_DAMAGED:
      going = take_damage(selection);
      break;
    case WALK_END:
      return SELECTION_END;
    case WALK_NEWER:
      dump_note_status(selection->dump, READ_NEWER, &selection->walk.error);
      return SELECTION_STOPPED;
    case WALK_FAILED:
      dump_note_status(selection->dump, READ_FAILED, &selection->walk.error);
      return SELECTION_STOPPED;
    }
  }
  return selection->done ? SELECTION_DONE : SELECTION_STOPPED;
}

/* ---- again, and the end ---- */

/* Gives the reader the segment's end as it is known now. */
static void renew_end(struct selection *selection)
{
  const struct segment *segment = walk_segment(&selection->walk);
  reader_set_end(&selection->walk.at.reader, segment->has_end ? &segment->end : NULL);
}

void selection_rewind(struct selection *selection, bool afresh)
{
  struct error ignored;
  if (selection->pending && selection->holds)
    selection->dump->remaining += selection->picked.messages;
  selection->pending = false;
  selection->picked = (struct picked){.first = 0};
  selection->complete = selection->done;
  const struct reader *reader = &selection->walk.at.reader;
  bool same = selection->walk.at.open && memcmp(selection->confirmed_id, reader->header.uuid, sizeof selection->confirmed_id) == 0;
  if (!afresh && same && !selection->walk.is_beyond) {
    renew_end(selection);
    if (reader_place_after(&selection->walk.at.reader, selection->confirmed, &ignored) == READ_OK)
      return;
  }
  walk_deinit(&selection->walk);
  walk_init(&selection->walk, selection->source, selection->dump->config->unconfirmed);
  walk_seek_seq(&selection->walk, selection->next_seq);
  note_confirmed(selection);
}

static void say_range(const struct selection *selection, int64_t first, int64_t last, const char *what)
{
  if (first == last)
    dump_note(selection->dump, "%s: the document with seq %" PRId64 " is unconfirmed: %s", source_name(selection->source), first, what);
  else
    dump_note(selection->dump, "%s: the documents with seq %" PRId64 "..%" PRId64 " are unconfirmed: %s", source_name(selection->source),
              first, last, what);
}

static void say_beyond(const struct selection *selection)
{
  struct error what;
  error_set(&what, "they are beyond the committed end in the ledger of database %s", config_db_name(selection->dump->config));
  say_range(selection, selection->beyond_first, selection->beyond_last, what.text);
}

void selection_report_held(struct selection *selection)
{
  int64_t last = selection->picked.first + selection->picked.count - 1;
  if (!selection->holds || !selection->pending || selection->picked.messages == 0 || last <= selection->held_reported)
    return;
  say_range(selection, selection->picked.first, last,
            "held back until a block follows (--unconfirmed shows it at once, --uri asks the ledger)");
  selection->held_reported = last;
}

void selection_finish(struct selection *selection)
{
  if (selection->walk.torn)
    dump_note(selection->dump, "%s: at offset %" PRId64 " begins an uncommitted tail, not read", walk_segment_name(&selection->walk),
              selection->walk.torn_offset);
  if (selection->beyond_first > 0)
    say_beyond(selection);
  if (selection->picked.messages == 0 || selection->beyond_first > 0)
    return;
  int64_t last = selection->picked.first + selection->picked.count - 1;
  if (!selection->holds)
    say_range(selection, selection->picked.first, last, "in the last block, and no block follows yet");
  else if (selection->dump->config->strict)
    say_range(selection, selection->picked.first, last, "left out");
  if (selection->dump->config->strict)
    dump_note_exit(selection->dump, DUMP_UNCONFIRMED);
}
