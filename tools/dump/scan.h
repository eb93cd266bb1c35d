/*
 * scan: reads the blocks of a source for the formats that show no messages: `blocks`, one line a block; `summary`, one line a segment.
 * Also the totals that --verify prints.
 */
#ifndef PAWL_TOOLS_DUMP_SCAN_H
#define PAWL_TOOLS_DUMP_SCAN_H

#include "tools/dump/walk.h"

struct totals {
  int64_t blocks;                  /* of any kind */
  int64_t documents, messages;     /* a bundle is one document and has many messages */
  int64_t stored_bytes;            /* of the blocks, markers included */
  int64_t decoded_bytes;           /* of the documents */
  int64_t seq_first, seq_last;     /* 0: none */
  int64_t epoch_first, epoch_last; /* 0: none */
  int64_t time_first_us, time_last_us;
};

void totals_add_block(struct totals *totals, const struct block_marker *block);
void totals_add(struct totals *totals, const struct totals *more);

/* Includes the headers of this many segments. */
int64_t totals_file_bytes(const struct totals *totals, size_t segments);

/* The selected blocks of a source, one after the other. The selection by seq and time applies to whole blocks. */
struct scan {
  struct dump *dump;
  const struct source *source;
  struct walk walk;
  int64_t from, to;
  size_t last_segment; /* where the last block of the source is: another one follows each that is before it */
  int64_t last_offset;
  bool unconfirmed; /* the last selected block is DATA, and is not known to be committed */
};
void scan_begin(struct scan *scan, struct dump *dump, const struct source *source);
/* The next one is walk_block(&scan->walk). False: no more; an error was printed and recorded. --strict leaves out what is unconfirmed. */
MUST_CHECK bool scan_next(struct scan *scan);
void scan_end(struct scan *scan);

/* Large enough for a text such as 1.1 GiB. */
enum { SIZE_TEXT_SIZE = 32 };
const char *size_text(int64_t bytes, char text[SIZE_TEXT_SIZE]);

/* Prints the source as dump->printer.format says. The selection by seq and time applies to whole blocks, --limit to lines. */
void scan_blocks(struct dump *dump, const struct source *source);
void scan_summary(struct dump *dump, const struct source *source);

#endif
