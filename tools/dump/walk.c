#include "tools/dump/walk.h"

#include <inttypes.h>

void walk_init(struct walk *walk, const struct source *source, bool beyond)
{
  memset(walk, 0, sizeof *walk);
  walk->source = source;
  walk->beyond = beyond;
  chain_reader_init(&walk->at, source->dir, &source->chain);
}

void walk_deinit(struct walk *walk)
{
  chain_reader_deinit(&walk->at);
}

/* If the search fails, reading from the start meets the same fault and reports it. */
static void seek_done(struct walk *walk, enum read_status status)
{
  if (status == READ_OK)
    return;
  chain_reader_deinit(&walk->at);
  chain_reader_init(&walk->at, walk->source->dir, &walk->source->chain);
}

void walk_seek_seq(struct walk *walk, int64_t seq)
{
  struct error ignored;
  seek_done(walk, chain_reader_seek_seq(&walk->at, seq, &ignored));
}

void walk_seek_time(struct walk *walk, int64_t time_us)
{
  struct error ignored;
  seek_done(walk, chain_reader_seek_time(&walk->at, time_us, &ignored));
}

/* A segment that cannot be opened is lost as a whole. */
static void damage_of_segment(struct walk *walk)
{
  const struct segment *segment = walk_segment(walk);
  snprintf(walk->damage_name, sizeof walk->damage_name, "%s", walk_segment_name(walk));
  walk->damage_offset = 0;
  walk->lost_first = segment->header.first_seq;
  walk->lost_last = segment->has_end ? segment->end.seq : -1;
}

static enum walk_event damaged(struct walk *walk)
{
  struct error error;
  bool whole_segment = !walk->at.open;
  if (whole_segment)
    damage_of_segment(walk);
  else {
    snprintf(walk->damage_name, sizeof walk->damage_name, "%s", walk_segment_name(walk));
    walk->damage_offset = walk->at.reader.damage_offset;
  }
  enum read_status status = chain_reader_pass_damage(&walk->at, &error);
  if (!whole_segment) {
    walk->lost_first = walk->at.reader.lost_first;
    walk->lost_last = walk->at.reader.lost_last;
  }
  if (status != READ_FAILED)
    return WALK_DAMAGED;
  walk->error = error;
  return WALK_FAILED;
}

static bool goes_beyond(struct walk *walk)
{
  if (!walk->beyond || walk->is_beyond || !walk->at.open || !walk->at.reader.has_end || walk->at.index + 1 != walk->at.chain->count)
    return false;
  reader_set_end(&walk->at.reader, NULL);
  walk->is_beyond = true;
  return true;
}

enum walk_event walk_next(struct walk *walk)
{
  enum read_status status;
  walk->torn = false;
  do
    status = chain_reader_next(&walk->at, &walk->error);
  while (status == READ_END && goes_beyond(walk));
  switch (status) {
  case READ_OK:
    return WALK_BLOCK;
  case READ_TAIL:
    walk->torn = true;
    walk->torn_offset = walk->at.reader.offset;
    return WALK_END;
  case READ_END:
    return WALK_END;
  case READ_DAMAGED:
    if (!walk->is_beyond)
      return damaged(walk);
    /* Beyond the committed end nothing counts as damage. */
    walk->torn = true;
    walk->torn_offset = walk->at.reader.offset;
    return WALK_END;
  case READ_NEWER:
    return WALK_NEWER;
  case READ_ABSENT:
  case READ_FAILED:
    break;
  }
  return WALK_FAILED;
}

void walk_say_damage(const struct walk *walk)
{
  dump_say("damaged: %s", walk->error.text);
  if (walk->lost_last < 0)
    dump_say("%s: documents from seq %" PRId64 " on are gone; how many is not known", walk->damage_name, walk->lost_first);
  else if (walk->lost_last < walk->lost_first)
    dump_say("%s: no document is gone", walk->damage_name);
  else if (walk->lost_last == walk->lost_first)
    dump_say("%s: the document with seq %" PRId64 " is gone", walk->damage_name, walk->lost_first);
  else
    dump_say("%s: the documents with seq %" PRId64 "..%" PRId64 " are gone (%" PRId64 ")", walk->damage_name, walk->lost_first,
             walk->lost_last, walk->lost_last - walk->lost_first + 1);
}
