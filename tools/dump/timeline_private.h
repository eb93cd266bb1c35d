/*
 * timeline_private: what timeline.c collects, and timeline_draw.c draws. Private to these files.
 */
#ifndef PAWL_TOOLS_DUMP_TIMELINE_PRIVATE_H
#define PAWL_TOOLS_DUMP_TIMELINE_PRIVATE_H

#include "tools/dump/timeline.h"

enum {
  TIMELINE_BINS_MAX = 512,
  TIMELINE_SPANS_MAX = 2 * TIMELINE_BINS_MAX + 2, /* of those that do not lie within one bin there are no more */
  TIMELINE_ROWS_MAX = 100,
  TIMELINE_WRITERS_MAX = 64, /* further ones are one, "others" */
  TIMELINE_SHIFT_MIN = 10,   /* a bin has 2^shift µs: about a millisecond at least */
};
enum { WRITER_UNKNOWN = -1, WRITER_SEVERAL = -2 };

/* What was written: sums of blocks. */
struct amount {
  int64_t blocks, documents, messages, bytes;
};

struct bin {
  struct amount amount;
  int writer;        /* the one that wrote most, and */
  int64_t by_writer; /* how many messages */
};

/* One epoch, or several that lie so near to each other that they are one bar. */
struct span {
  int64_t epoch_first, epoch_last;
  int64_t epochs;           /* how many of these were seen */
  int64_t from_us, to_us;   /* the first and the last sign of it */
  int writer_first, writer; /* of the first and of the last epoch */
  bool several;             /* writers */
  int64_t takeovers;        /* changes of the writer within it */
  int64_t unclean;          /* epochs without a clean end, the last one not counted */
  bool closed;              /* the last one ended with CLOSE */
  int64_t segments;         /* made by it */
  struct amount amount;
};

struct row {
  char name[FILE_NAME_SIZE];
  int64_t first_us, last_us;
  int shift;
  struct bin bins[TIMELINE_BINS_MAX]; /* [0] begins at first_us >> shift */
  struct span spans[TIMELINE_SPANS_MAX];
  int span_count;
  struct amount amount;
  bool stopped; /* reading stopped early, at damage or a newer format */
};

struct writer_name {
  char text[300]; /* host:pid */
  int64_t messages;
};

struct timeline {
  struct row *rows[TIMELINE_ROWS_MAX];
  int row_count;
  int64_t rows_left_out;
  struct writer_name writers[TIMELINE_WRITERS_MAX];
  int writer_count;
  bool more_writers;
};

void amount_add(struct amount *amount, const struct amount *more);
void bin_add(struct bin *bin, const struct bin *more);
/* Makes one of the spans that follow each other within one bin of 2^shift µs. Returns how many there are then. */
int spans_join(struct span *spans, int count, int shift);

/* Writes the whole picture; at least one row. */
void timeline_draw(const struct timeline *timeline, FILE *out);

#endif
