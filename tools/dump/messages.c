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
static int64_t messages_of(const struct feed *feed, int64_t seq, const uint8_t *document, size_t bytes)
{
  int64_t all = feed->opens ? bundle_items(document, bytes) : 1;
  return seq == feed->from ? larger(all - feed->from_index, 0) : all;
}

/* ---- where to begin ---- */

/* The last seq that would be selected without --tail; 0: none. Reads only the end of the source. */
static int64_t find_last(const struct feed *feed)
{
  const struct dump *dump = feed->dump;
  struct walk walk;
  bool reading = true, pending = false;
  int64_t last = 0, proved = 0;
  walk_init(&walk, feed->source, dump->config->unconfirmed);
  if (dump->until_us == INT64_MAX)
    walk_seek_seq(&walk, feed->to);
  else
    walk_seek_time(&walk, dump->until_us);
  while (reading) {
    enum walk_event event = walk_next(&walk);
    const struct block_marker *block = walk_block(&walk);
    reading = event == WALK_BLOCK || event == WALK_DAMAGED;
    if (event != WALK_BLOCK)
      continue;
    proved = block->seq - 1;
    reading = block->seq <= feed->to && block->time_us < dump->until_us;
    if (reading)
      last = last_seq(block);
    pending = reading && block->kind == BLOCK_DATA && !walk_is_committed(&walk);
  }
  walk_deinit(&walk);
  return smaller(pending && feed->holds ? proved : last, feed->to);
}

/* Skips `count` messages from `from` on, and begins after them. Returns how many it skipped: fewer if it reached seq `last` first. */
static int64_t pass_over(struct feed *feed, int64_t last, int64_t count)
{
  struct walk walk;
  int64_t passed = 0;
  bool reading = true, found = false;
  walk_init(&walk, feed->source, feed->dump->config->unconfirmed);
  walk_seek_seq(&walk, feed->from);
  while (reading && !found) {
    enum walk_event event = walk_next(&walk);
    const struct block_marker *block = walk_block(&walk);
    reading = event == WALK_DAMAGED || (event == WALK_BLOCK && block->seq <= last);
    if (!reading || event != WALK_BLOCK || block->kind != BLOCK_DATA)
      continue;
    struct cursor cursor = cursor_at(block, walk.at.reader.messages, walk.at.reader.messages_bytes);
    const uint8_t *document;
    size_t bytes;
    while (!found && cursor.seq <= last && (document = cursor_next(&cursor, &bytes)) != NULL) {
      int64_t seq = cursor.seq - 1, held = seq >= feed->from ? messages_of(feed, seq, document, bytes) : 0;
      found = passed + held > count;
      if (found) {
        feed->from_index = count - passed;
        feed->from = seq;
      } else
        passed += held;
    }
  }
  walk_deinit(&walk);
  return passed;
}

/* Each document holds at least one message, so the last N messages are in the last N documents. */
static void begin_with_tail(struct feed *feed)
{
  int64_t last = find_last(feed), tail = feed->dump->config->tail;
  feed->from = larger(feed->from, tail < last ? last - tail + 1 : 1);
  if (!feed->opens || feed->from > last)
    return;
  int64_t messages = pass_over(feed, last, INT64_MAX);
  if (messages > tail)
    pass_over(feed, last, messages - tail);
}

/* Records the block before the position. If that block turns out not to be committed either, feed_rewind searches anew. */
static void note_confirmed(struct feed *feed)
{
  const struct reader *reader = &feed->walk.at.reader;
  feed->confirmed = feed->walk.at.open && reader->has_last ? reader->last.offset : 0;
  feed->confirmed_end = feed->confirmed; /* it is not known of the block itself */
  if (feed->walk.at.open)
    memcpy(feed->confirmed_id, reader->header.uuid, sizeof feed->confirmed_id);
}

static void seek_begin(struct feed *feed)
{
  if (feed->from > 1)
    walk_seek_seq(&feed->walk, feed->from);
  else if (feed->dump->since_us != INT64_MIN)
    walk_seek_time(&feed->walk, feed->dump->since_us);
  note_confirmed(feed);
}

void feed_init(struct feed *feed, struct dump *dump, const struct source *source)
{
  const struct config *config = dump->config;
  memset(feed, 0, sizeof *feed);
  feed->dump = dump;
  feed->source = source;
  feed->from = config->from_seq > 1 ? config->from_seq : 1;
  feed->to = config->to_seq >= 0 ? config->to_seq : INT64_MAX;
  feed->holds = config->strict || (config->follow && !config->unconfirmed);
  feed->opens = !config->documents && print_format_opens(dump->printer.format);
  if (config->tail >= 0 && source->chain.count > 0)
    begin_with_tail(feed);
  feed->next_seq = feed->from;
  walk_init(&feed->walk, source, config->unconfirmed);
  seek_begin(feed);
}

void feed_deinit(struct feed *feed)
{
  walk_deinit(&feed->walk);
  free(feed->held);
  feed->held = NULL;
}

/* ---- printing ---- */

/* Those of the documents first..last that --limit still allows. */
static struct picked pick(const struct feed *feed, const uint8_t *messages, size_t size, int64_t first, int64_t last)
{
  struct picked picked = {.first = first};
  int64_t left = feed->dump->remaining;
  struct cursor cursor = cursor_at(walk_block(&feed->walk), messages, size);
  const uint8_t *document;
  size_t bytes;
  while (cursor.seq <= last && picked.messages < left && (document = cursor_next(&cursor, &bytes)) != NULL)
    if (cursor.seq > first) {
      picked.messages += smaller(messages_of(feed, cursor.seq - 1, document, bytes), left - picked.messages);
      picked.count++;
    }
  return picked;
}

/* Returns how many of at most `left` messages it printed. */
static int64_t print_bundle(struct feed *feed, const struct block_marker *block, int64_t seq, const uint8_t *elements, uint32_t count,
                            int64_t left)
{
  int64_t index = seq == feed->from ? feed->from_index : 0, end = smaller(count, index + smaller(left, count));
  for (int64_t i = 0; i < end; i++) {
    size_t bytes;
    const uint8_t *element = bundle_next(&elements, &bytes);
    if (i >= index)
      printer_put(&feed->dump->printer, block, seq, i, element, bytes);
  }
  return larger(end - index, 0);
}

static void print_block(struct feed *feed, const struct block_marker *block, const uint8_t *messages, size_t size,
                        const struct picked *picked)
{
  struct dump *dump = feed->dump;
  struct cursor cursor = cursor_at(block, messages, size);
  const uint8_t *document, *elements;
  size_t bytes;
  int64_t left = picked->messages;
  feed->next_seq = picked->first + picked->count;
  dump->selected += picked->messages;
  dump->documents += picked->count;
  if (dump->config->count)
    return;
  while (cursor.seq < feed->next_seq && (document = cursor_next(&cursor, &bytes)) != NULL) {
    if (cursor.seq <= picked->first)
      continue;
    uint32_t count = feed->opens ? bundle_open(document, bytes, &elements) : 0;
    if (count > 0)
      left -= print_bundle(feed, block, cursor.seq - 1, elements, count, left);
    else {
      printer_put(&dump->printer, block, cursor.seq - 1, INDEX_NONE, document, bytes);
      left--;
    }
  }
  dump_say_shown(dump, picked->first, feed->next_seq - 1);
}

/* ---- pending ---- */

static bool hold(struct feed *feed, const uint8_t *bytes, size_t size)
{
  if (feed->held_size < size) {
    free(feed->held);
    feed->held = malloc(size);
    feed->held_size = feed->held != NULL ? size : 0;
  }
  feed->held_bytes = size;
  if (feed->held != NULL)
    memcpy(feed->held, bytes, size);
  return feed->held != NULL;
}

/* Another block follows, so what was pending is committed. */
static void confirm(struct feed *feed)
{
  if (!feed->pending || feed->walk.is_beyond)
    return;
  if (feed->picked.count > 0 && feed->holds)
    print_block(feed, &feed->last, feed->held, feed->held_bytes, &feed->picked);
  feed->confirmed = feed->last.offset;
  feed->confirmed_end = block_end(&feed->last);
  memcpy(feed->confirmed_id, feed->last.file_id, sizeof feed->confirmed_id);
  feed->pending = false;
  feed->picked.count = 0;
  feed->shown.count = 0;
}

/* Compares what is read now with what was printed while pending. If it differs, the printed block was cut off and another written. */
static void compare_shown(struct feed *feed, const struct block_marker *block)
{
  if (feed->shown.count == 0 || block->seq > last_seq(&feed->shown))
    return;
  if (block->seq != feed->shown.seq || format_marker_link(block) != format_marker_link(&feed->shown)) {
    dump_say("seq %" PRId64 "..%" PRId64 " were never committed, and are void; others follow in their place", feed->shown.seq,
             last_seq(&feed->shown));
    feed->next_seq = larger(feed->from, feed->shown.seq);
  }
  feed->shown.count = 0;
}

/* ---- a block ---- */

/* False: no memory. */
static bool take_uncommitted(struct feed *feed, const struct picked *picked)
{
  const struct reader *reader = &feed->walk.at.reader;
  feed->pending = true;
  feed->last = reader->block;
  feed->picked = *picked;
  if (picked->count > 0 && feed->holds)
    return hold(feed, reader->messages, reader->messages_bytes);
  if (feed->dump->config->follow)
    feed->shown = reader->block;
  if (picked->count > 0)
    print_block(feed, &reader->block, reader->messages, reader->messages_bytes, picked);
  if (feed->walk.is_beyond && picked->count > 0) {
    feed->beyond_first = feed->beyond_first == 0 ? picked->first : feed->beyond_first;
    feed->beyond_last = picked->first + picked->count - 1;
  }
  return true;
}

static bool take_data(struct feed *feed)
{
  struct dump *dump = feed->dump;
  const struct reader *reader = &feed->walk.at.reader;
  const struct block_marker *block = &reader->block;
  compare_shown(feed, block);
  int64_t first = larger(block->seq, feed->next_seq), last = smaller(last_seq(block), feed->to);
  struct picked picked = {.first = first};
  if (last >= first && block->time_us >= dump->since_us && block->time_us < dump->until_us)
    picked = pick(feed, reader->messages, reader->messages_bytes, first, last);
  dump->remaining -= picked.messages;
  if (!walk_is_committed(&feed->walk))
    return take_uncommitted(feed, &picked);
  if (picked.count > 0)
    print_block(feed, block, reader->messages, reader->messages_bytes, &picked);
  feed->confirmed = block->offset;
  feed->confirmed_end = block_end(block);
  memcpy(feed->confirmed_id, block->file_id, sizeof feed->confirmed_id);
  return true;
}

static bool is_complete(const struct feed *feed)
{
  const struct block_marker *block = walk_block(&feed->walk);
  return block->seq + block->count > feed->to || block->time_us >= feed->dump->until_us || feed->dump->remaining == 0;
}

/* False: stop. */
static bool take_block(struct feed *feed)
{
  confirm(feed);
  if (!feed->complete && walk_block(&feed->walk)->kind == BLOCK_DATA && !take_data(feed)) {
    dump_say("no memory to hold a block of %zu bytes back", feed->walk.at.reader.messages_bytes);
    dump_note_exit(feed->dump, DUMP_IO);
    return false;
  }
  feed->complete = feed->complete || is_complete(feed);
  feed->done = feed->complete && (feed->picked.count == 0 || feed->walk.is_beyond);
  return !feed->done && dump_goes_on(feed->dump);
}

/* While following, a block that was read may have been cut off and written anew, which looks like damage. So read again, once. */
static bool look_again(struct feed *feed)
{
  if (!feed->dump->config->follow || walk_is_committed(&feed->walk) || feed->looked_again)
    return false;
  feed->looked_again = true;
  feed_rewind(feed, true);
  return true;
}

/* Offline, what proves damage also proves that all before it is committed. False: stop. */
static bool take_damage(struct feed *feed)
{
  if (look_again(feed))
    return true;
  confirm(feed);
  if (feed->complete) {
    feed->done = true;
    return false;
  }
  walk_say_damage(&feed->walk);
  dump_note_exit(feed->dump, DUMP_DAMAGED);
  return feed->dump->config->keep_going;
}

enum feed_status feed_pump(struct feed *feed)
{
  bool going = !feed->done && dump_goes_on(feed->dump);
  feed->looked_again = false;
  while (going) {
    switch (walk_next(&feed->walk)) {
    case WALK_BLOCK:
      going = take_block(feed);
      break;
    case WALK_DAMAGED:
      going = take_damage(feed);
      break;
    case WALK_END:
      return FEED_END;
    case WALK_NEWER:
      dump_note_status(feed->dump, READ_NEWER, &feed->walk.error);
      return FEED_STOPPED;
    case WALK_FAILED:
      dump_note_status(feed->dump, READ_FAILED, &feed->walk.error);
      return FEED_STOPPED;
    }
  }
  return feed->done ? FEED_DONE : FEED_STOPPED;
}

/* ---- again, and the end ---- */

/* Applies what is now known of the segment's end. */
static void renew_end(struct feed *feed)
{
  const struct segment *segment = walk_segment(&feed->walk);
  reader_set_end(&feed->walk.at.reader, segment->has_end ? &segment->end : NULL);
}

void feed_rewind(struct feed *feed, bool afresh)
{
  struct error ignored;
  if (feed->pending && feed->holds)
    feed->dump->remaining += feed->picked.messages;
  feed->pending = false;
  feed->picked.count = 0;
  feed->complete = feed->done;
  const struct reader *reader = &feed->walk.at.reader;
  bool same = feed->walk.at.open && memcmp(feed->confirmed_id, reader->header.uuid, sizeof feed->confirmed_id) == 0;
  if (!afresh && same && !feed->walk.is_beyond) {
    renew_end(feed);
    if (reader_place_after(&feed->walk.at.reader, feed->confirmed, &ignored) == READ_OK)
      return;
  }
  walk_deinit(&feed->walk);
  walk_init(&feed->walk, feed->source, feed->dump->config->unconfirmed);
  walk_seek_seq(&feed->walk, feed->next_seq);
  note_confirmed(feed);
}

static void say_range(const struct feed *feed, int64_t first, int64_t last, const char *what)
{
  if (first == last)
    dump_note(feed->dump, "%s: the document with seq %" PRId64 " is unconfirmed: %s", source_name(feed->source), first, what);
  else
    dump_note(feed->dump, "%s: the documents with seq %" PRId64 "..%" PRId64 " are unconfirmed: %s", source_name(feed->source), first, last,
              what);
}

static void say_beyond(const struct feed *feed)
{
  struct error what;
  error_set(&what, "they lie beyond the end that the ledger in database %s names", config_db_name(feed->dump->config));
  say_range(feed, feed->beyond_first, feed->beyond_last, what.text);
}

void feed_say_held(struct feed *feed)
{
  int64_t last = feed->picked.first + feed->picked.count - 1;
  if (!feed->holds || !feed->pending || feed->picked.count == 0 || last <= feed->held_said)
    return;
  say_range(feed, feed->picked.first, last, "held back until a block follows (--unconfirmed shows it at once, --uri asks the ledger)");
  feed->held_said = last;
}

void feed_finish(struct feed *feed)
{
  if (feed->walk.torn)
    dump_note(feed->dump, "%s: at offset %" PRId64 " begins an uncommitted tail, not read", walk_segment_name(&feed->walk),
              feed->walk.torn_offset);
  if (feed->beyond_first > 0)
    say_beyond(feed);
  if (feed->picked.count == 0 || feed->beyond_first > 0)
    return;
  int64_t last = feed->picked.first + feed->picked.count - 1;
  if (!feed->holds)
    say_range(feed, feed->picked.first, last, "in the last block, which nothing follows yet");
  else if (feed->dump->config->strict)
    say_range(feed, feed->picked.first, last, "left out");
  if (feed->dump->config->strict)
    dump_note_exit(feed->dump, DUMP_UNCONFIRMED);
}
