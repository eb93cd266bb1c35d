/*
 * walk: block after block over a source, from a place to its end.
 *
 * Damage is told as an event, and the walk goes on behind it; whether to go on is the caller's to decide. A `struct walk` is
 * the caller's memory, between walk_init and walk_deinit.
 */
#ifndef PAWL_TOOLS_DUMP_WALK_H
#define PAWL_TOOLS_DUMP_WALK_H

#include "storage/chain.h"
#include "tools/dump/source.h"

enum walk_event {
  WALK_BLOCK,   /* walk_block() and walk_messages() are valid until the next call */
  WALK_DAMAGED, /* `error` says what, lost_first..lost_last which messages are gone */
  WALK_END,     /* nothing more now; may be called again after the source has grown */
  WALK_NEWER,
  WALK_FAILED,
};

struct walk {
  const struct source *source;
  struct chain_reader at;
  bool beyond;         /* go on behind the committed end of the newest segment (--unconfirmed) */
  bool is_beyond;      /* and that is where it is */
  bool torn;           /* at WALK_END: what follows the last block is none */
  int64_t torn_offset; /* where it begins, in the newest segment */

  struct error error; /* of the last event but WALK_BLOCK and WALK_END */
  char damage_name[FILE_NAME_SIZE];
  int64_t damage_offset;
  int64_t lost_first, lost_last; /* -1: not known how many; else, below lost_first: no message is */
};

void walk_init(struct walk *walk, const struct source *source, bool beyond);
void walk_deinit(struct walk *walk);
/* Places it so that the next block is the one that holds seq, or (walk_seek_time) the first that may be as young as time. Where a
 * search finds nothing, at the first block there is. */
void walk_seek_seq(struct walk *walk, int64_t seq);
void walk_seek_time(struct walk *walk, int64_t time_us);
MUST_CHECK enum walk_event walk_next(struct walk *walk);

static inline const struct block_marker *walk_block(const struct walk *walk)
{
  return &walk->at.reader.block;
}
/* Is the end of the segment in hand known, so that each of its blocks is committed? */
static inline bool walk_is_committed(const struct walk *walk)
{
  return walk->at.reader.has_end;
}
static inline const struct segment *walk_segment(const struct walk *walk)
{
  return &walk->source->chain.segments[walk->at.index];
}

static inline const char *walk_segment_name(const struct walk *walk)
{
  return source_segment_name(walk->source, walk_segment(walk));
}

/* Says the damage of the last event: where, what, and which messages are gone. */
void walk_say_damage(const struct walk *walk);

#endif
