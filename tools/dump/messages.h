/*
 * messages: the selected messages of a source, printed or counted.
 *
 * A seq belongs to a stored document. A bundle is one document, and is opened into its messages, unless --documents or the format leaves it
 * as it is. --limit, --tail and --count count messages, so they may begin or end within a bundle. With --where they count those that it
 * selects.
 *
 * Offline the last valid block of the newest segment may not have been committed. So a block is *pending* until another block after it has
 * been read, which proves that it is committed (docs/format.md, "How files are written"). By default it is printed at once, and what is
 * still pending at the end is reported as unconfirmed; with --strict, and with --follow, it is held back until then.
 *
 * A `struct selection` is the caller's memory, between selection_init and selection_deinit; the source must outlive it. When the source
 * has grown, call selection_rewind, which makes unconfirmed blocks be read again, and then selection_advance. Memory: one block more than
 * the reader's.
 */
#ifndef PAWL_TOOLS_DUMP_MESSAGES_H
#define PAWL_TOOLS_DUMP_MESSAGES_H

#include "tools/dump/walk.h"

/* The selected documents of one block. */
struct picked {
  int64_t first, count; /* documents, by seq */
  int64_t messages;     /* selected ones in these documents: --where leaves some out, --limit may end within a bundle */
  int64_t holders;      /* how many of these documents hold such a message */
};

struct selection {
  struct dump *dump;
  const struct source *source;
  struct walk walk;
  bool opens;              /* opens bundles into their messages */
  int64_t from, to;        /* seqs, both included */
  int64_t from_index;      /* number of messages of the bundle `from` that are left out (--tail), of those that --where selects */
  int64_t next_seq;        /* the next document to print */
  int64_t confirmed;       /* offset of the last DATA block known to be committed; 0: the beginning */
  int64_t confirmed_end;   /* the segment has at least this length, because no holder cuts off committed bytes */
  uint8_t confirmed_id[8]; /* file_id of the segment of `confirmed`: not always the current one, which may be its successor by now */
  bool holds;              /* pending messages wait in `held` instead of being printed */
  bool complete;           /* the next message is not selected */
  bool done;               /* complete, and nothing is pending */
  bool reread;             /* this call of selection_advance has read a damaged block a second time */
  int64_t held_reported;   /* the seq up to which selection_report_held has reported */

  bool pending; /* `last` is a DATA block not known to be committed */
  struct block_marker last;
  struct picked picked;              /* of `last` */
  int64_t beyond_first, beyond_last; /* printed although the ledger does not count them as committed; 0: none */
  uint8_t *held;                     /* the bytes of the pending messages, if `holds` */
  size_t held_bytes, held_size;

  struct block_marker shown; /* --follow --unconfirmed: the pending block that was printed; count 0: none */
};

enum selection_status {
  SELECTION_END,     /* nothing more now */
  SELECTION_DONE,    /* all that was selected was printed or counted */
  SELECTION_STOPPED, /* damage, a newer format, an error: printed and recorded; or dump_goes_on() is false */
};

void selection_init(struct selection *selection, struct dump *dump, const struct source *source);
void selection_deinit(struct selection *selection);
MUST_CHECK enum selection_status selection_advance(struct selection *selection);
/* Goes back to after the last block that is known to be committed, or, with `afresh` (the chain is another one), to next_seq. */
void selection_rewind(struct selection *selection, bool afresh);

/* Reports, once for each block, that the block is held back until it is known to be committed. */
void selection_report_held(struct selection *selection);
/* At the very end: reports the messages that are still pending; with --strict also records the exit code. */
void selection_finish(struct selection *selection);

#endif
