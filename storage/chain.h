/*
 * chain: the segments of a type, found by walking backwards from the newest by the predecessor fields.
 *
 * The caller owns the memory of a `struct chain`; chain_load fills it, chain_free frees what it holds. One thread at a time; blocks on
 * the disk. A chain is a snapshot: a live type may have got another segment since.
 */
#ifndef PAWL_STORAGE_CHAIN_H
#define PAWL_STORAGE_CHAIN_H

#include "base.h"
#include "storage/reader.h"

struct segment {
  char name[FILE_NAME_SIZE];
  struct segment_header header;
  bool has_end; /* the end is known: from the ledger, or from the successor's header */
  struct committed end;
  bool headless; /* its header is damaged: `header` holds what block 0, the name and the successor tell (reader_open_headless) */
};

struct chain {
  struct segment *segments; /* oldest first */
  size_t count;
  char (*orphans)[FILE_NAME_SIZE]; /* segments of the type that neither the ledger nor a segment names: reported, not read */
  size_t orphan_count;
  bool pruned; /* the predecessor of the oldest segment is missing, and there is nothing older with blocks: the seqs begin later */
};

/*
 * Loads the chain of `type` in `dir`. With `end` (from the ledger) the newest segment is end->file. With NULL it is the segment of the
 * highest epoch whose header is whole and that is not an orphan.
 * from_seq: 0, or the first seq that is needed. Then no segment older than the one that holds it is opened, and no orphans are reported.
 * READ_OK: `count` may be 0 (no segment: nothing was ever written). READ_DAMAGED: a required segment is missing or is not the one that
 * its successor names. The chain then holds the newer segments. It also holds the damaged segment if only its header is damaged and the
 * rest can be read without it (`headless`: always the oldest one). READ_ABSENT: there is no `dir`. READ_NEWER, READ_FAILED.
 * chain_free must follow, whatever the result is.
 */
MUST_CHECK enum read_status chain_load(struct chain *chain, const char *dir, const char *type, const struct committed *end,
                                       int64_t from_seq, struct error *error);
void chain_free(struct chain *chain);

/* Reads the blocks of a chain in order, across its segments. */
struct chain_reader {
  const char *dir;           /* borrowed */
  const struct chain *chain; /* borrowed */
  size_t index;              /* of the current segment; chain->count: after the last */
  bool open;
  struct reader reader;
};
void chain_reader_init(struct chain_reader *at, const char *dir, const struct chain *chain);
void chain_reader_deinit(struct chain_reader *at);
/* Moves to the block that holds the seq (or the time), or to the first block there is; compare reader_seek_seq. */
MUST_CHECK enum read_status chain_reader_seek_seq(struct chain_reader *at, int64_t seq, struct error *error);
MUST_CHECK enum read_status chain_reader_seek_time(struct chain_reader *at, int64_t time_us, struct error *error);
/*
 * Reads the next block of any kind into at->reader.block and .messages. READ_END: after the end of the last segment (READ_TAIL if that
 * one ends in an uncommitted tail); otherwise as reader_next. After READ_DAMAGED chain_reader_pass_damage continues after the damage, if
 * necessary in the next segment.
 */
MUST_CHECK enum read_status chain_reader_next(struct chain_reader *at, struct error *error);
MUST_CHECK enum read_status chain_reader_pass_damage(struct chain_reader *at, struct error *error);

/* The types that have a segment in `dir`, sorted; the caller frees the array. */
MUST_CHECK enum read_status chain_list_types(const char *dir, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error);

#endif
