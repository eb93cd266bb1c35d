/*
 * messages: the selected messages of a source, printed or counted.
 *
 * A seq is that of a stored document; a bundle is one, and is opened into its messages, unless --documents or the format
 * leaves it as it is. --limit, --tail and --count count messages, so they may begin or end within a bundle.
 *
 * Offline the last valid block of the newest segment may not have been committed. So a block is *pending* until another one
 * has been seen behind it, which proves it (docs/format.md, "Writing"). By default it is printed at once, and what is still
 * pending at the end is said to be unconfirmed; with --strict, and with --follow, it is held back until then.
 *
 * A `struct feed` is the caller's memory, between feed_init and feed_deinit; the source must outlive it. feed_pump may be called
 * again and again while the source grows: feed_rewind before it, so that what was seen but not proved is read afresh.
 * Memory: one block more than the reader's.
 */
#ifndef PAWL_TOOLS_DUMP_MESSAGES_H
#define PAWL_TOOLS_DUMP_MESSAGES_H

#include "tools/dump/walk.h"

/* Of one block. */
struct picked {
  int64_t first, count; /* documents, by seq */
  int64_t messages;     /* of them; fewer than they hold where --limit ends within a bundle */
};

struct feed {
  struct dump *dump;
  const struct source *source;
  struct walk walk;
  bool opens;              /* bundles into their messages */
  int64_t from, to;        /* seqs, both included */
  int64_t from_index;      /* so many messages of the bundle `from` are left out (--tail) */
  int64_t next_seq;        /* the first that was not printed yet */
  int64_t confirmed;       /* offset of the last DATA block known to be committed; 0: the beginning */
  int64_t confirmed_end;   /* the segment is at least so long: no holder cuts off what is committed */
  uint8_t confirmed_id[8]; /* in the segment of this file_id: not always the one in hand, which may be its successor by now */
  bool holds;              /* pending messages wait in `held` instead of being printed */
  bool complete;           /* what comes next is not selected */
  bool done;               /* complete, and nothing is pending */
  bool looked_again;       /* at damage, in this pump */
  int64_t held_said;       /* the seq up to which feed_say_held has said it */

  bool pending; /* `last` is a DATA block not known to be committed */
  struct block_marker last;
  struct picked picked;              /* of it */
  int64_t beyond_first, beyond_last; /* printed although the ledger does not count them as committed; 0: none */
  uint8_t *held;                     /* their bytes, if it holds */
  size_t held_bytes, held_size;

  struct block_marker shown; /* --follow --unconfirmed: the pending block that was printed; count 0: none */
};

enum feed_status {
  FEED_END,     /* nothing more now */
  FEED_DONE,    /* everything that was asked for */
  FEED_STOPPED, /* damage, a newer format, an error: said and noted; or dump_goes_on() is false */
};

void feed_init(struct feed *feed, struct dump *dump, const struct source *source);
void feed_deinit(struct feed *feed);
MUST_CHECK enum feed_status feed_pump(struct feed *feed);
/* Back to behind the last block that is known to be committed, or, `afresh` (the chain is another one), to next_seq. */
void feed_rewind(struct feed *feed, bool afresh);

/* Says, once a block, that it is held back until it is proved to be committed. */
void feed_say_held(struct feed *feed);
/* What --strict and --follow do with messages still pending, at the very end. */
void feed_finish(struct feed *feed);

#endif
