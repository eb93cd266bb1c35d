/*
 * messages: the selected messages of a source, printed or counted.
 *
 * A seq belongs to a stored document. A bundle is one document, and is opened into its messages, unless --documents or the format leaves it
 * as it is. --limit, --tail and --count count messages, so they may begin or end within a bundle.
 *
 * Offline the last valid block of the newest segment may not have been committed. So a block is *pending* until another block after it has
 * been read, which proves that it is committed (docs/format.md, "How files are written"). By default it is printed at once, and what is
 * still pending at the end is reported as unconfirmed; with --strict, and with --follow, it is held back until then.
 *
 * A `struct feed` is the caller's memory, between feed_init and feed_deinit; the source must outlive it. feed_pump may be called again and
 * again while the source grows: call feed_rewind before it, so that what was read but not proved is read again. Memory: one block more than
 * the reader's.
 */
#ifndef PAWL_TOOLS_DUMP_MESSAGES_H
#define PAWL_TOOLS_DUMP_MESSAGES_H

#include "tools/dump/walk.h"

/* Of one block. */
struct picked {
  int64_t first, count; /* documents, by seq */
  int64_t messages;     /* of these documents; fewer than they hold where --limit ends within a bundle */
};

struct feed {
  struct dump *dump;
  const struct source *source;
  struct walk walk;
  bool opens;              /* opens bundles into their messages */
  int64_t from, to;        /* seqs, both included */
  int64_t from_index;      /* number of messages of the bundle `from` that are left out (--tail) */
  int64_t next_seq;        /* the first that is not printed yet */
  int64_t confirmed;       /* offset of the last DATA block known to be committed; 0: the beginning */
  int64_t confirmed_end;   /* the segment has at least this length: no holder cuts off what is committed */
  uint8_t confirmed_id[8]; /* file_id of the segment of `confirmed`: not always the current one, which may be its successor by now */
  bool holds;              /* pending messages wait in `held` instead of being printed */
  bool complete;           /* the next message is not selected */
  bool done;               /* complete, and nothing is pending */
  bool looked_again;       /* after damage, in this call of feed_pump */
  int64_t held_said;       /* the seq up to which feed_say_held has reported */

  bool pending; /* `last` is a DATA block not known to be committed */
  struct block_marker last;
  struct picked picked;              /* of `last` */
  int64_t beyond_first, beyond_last; /* printed although the ledger does not count them as committed; 0: none */
  uint8_t *held;                     /* the bytes of the pending messages, if `holds` */
  size_t held_bytes, held_size;

  struct block_marker shown; /* --follow --unconfirmed: the pending block that was printed; count 0: none */
};

enum feed_status {
  FEED_END,     /* nothing more now */
  FEED_DONE,    /* everything that was selected */
  FEED_STOPPED, /* damage, a newer format, an error: printed and recorded; or dump_goes_on() is false */
};

void feed_init(struct feed *feed, struct dump *dump, const struct source *source);
void feed_deinit(struct feed *feed);
MUST_CHECK enum feed_status feed_pump(struct feed *feed);
/* Goes back to after the last block that is known to be committed, or, with `afresh` (the chain is another one), to next_seq. */
void feed_rewind(struct feed *feed, bool afresh);

/* Reports, once a block, that the block is held back until it is known to be committed. */
void feed_say_held(struct feed *feed);
/* At the very end: reports the messages that are still pending; with --strict also records the exit code. */
void feed_finish(struct feed *feed);

#endif
