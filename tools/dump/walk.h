/*
 * walk: block after block over a source, from a place to its end.
 *
 * Damage is returned as an event, and the walk can continue after it; the caller decides. A `struct walk` is the caller's memory, between
 * walk_init and walk_deinit.
 */
#ifndef PAWL_TOOLS_DUMP_WALK_H
#define PAWL_TOOLS_DUMP_WALK_H

#include "storage/chain.h"
#include "tools/dump/source.h"

enum walk_event {
  WALK_BLOCK,   /* walk_block() and walk_messages() are valid until the next call */
  WALK_DAMAGED, /* `error` describes it, lost_first..lost_last are the lost messages */
  WALK_END,     /* nothing more now; may be called again after the source has grown */
  WALK_NEWER,
  WALK_FAILED,
};

struct walk {
  const struct source *source;
  struct chain_reader at;
  bool beyond;         /* continue after the committed end of the newest segment (--unconfirmed) */
  bool is_beyond;      /* the walk is now after that end */
  bool torn;           /* at WALK_END: the last block is followed by bytes that are not a block */
  int64_t torn_offset; /* where these bytes begin, in the newest segment */

  struct error error; /* of the last event except WALK_BLOCK and WALK_END */
  char damage_name[FILE_NAME_SIZE];
  int64_t damage_offset;
  int64_t lost_first, lost_last; /* -1: unknown number; otherwise below lost_first: no message is lost */
};

void walk_init(struct walk *walk, const struct source *source, bool beyond);
void walk_deinit(struct walk *walk);
/*
 * Positions the walk so that the next block is the one that holds seq, or (walk_seek_time) the first that may have this time or a later
 * one. If the search finds nothing, at the first block there is.
 */
void walk_seek_seq(struct walk *walk, int64_t seq);
void walk_seek_time(struct walk *walk, int64_t time_us);
MUST_CHECK enum walk_event walk_next(struct walk *walk);

static inline const struct block_marker *walk_block(const struct walk *walk)
{
  return &walk->at.reader.block;
}
/* True if the end of the current segment is known, so that each of its blocks is committed. */
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

/* Reports the damage of the last event: where, what, and which messages are lost. */
void walk_say_damage(const struct walk *walk);

#endif
