/*
 * chain: the segments of a type, found by walking backwards from the newest by the predecessor fields.
 *
 * A `struct chain` is the caller's memory; chain_load fills it, chain_free frees it. One thread at a time; blocks on the
 * disk. It is a picture of one moment: a live type may have got another segment since.
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
  char (*orphans)[FILE_NAME_SIZE]; /* segments of the type that no one names: reported, not read */
  size_t orphan_count;
  bool pruned; /* the oldest segment names a predecessor that is not here, and nothing older is: seqs begin later */
};

/*
 * Loads the chain of `type` in `dir`. With `end` (the ledger's) the newest segment is end->file; with NULL it is the one of
 * the highest epoch whose header is whole, unless it is an orphan.
 * from_seq: 0, or the seq to begin with: no segment older than the one that holds it is opened, and orphans are not looked for.
 * READ_OK: `count` may be 0 (no segment: nothing was ever written). READ_DAMAGED: a segment that must be there is missing
 * or is not what its successor names; the chain then holds what is newer, and that segment too if only its header is damaged
 * and it can be read without (`headless`: always the oldest one). READ_NEWER, READ_FAILED.
 */
MUST_CHECK enum read_status chain_load(struct chain *chain, const char *dir, const char *type, const struct committed *end,
                                       int64_t from_seq, struct error *error);
void chain_free(struct chain *chain);

/* Reads the messages of a chain in order, over segment borders. */
struct chain_reader {
  const char *dir;           /* borrowed */
  const struct chain *chain; /* borrowed */
  size_t index;              /* of the segment in hand; chain->count: behind the last */
  bool open;
  struct reader reader;
};
void chain_reader_init(struct chain_reader *at, const char *dir, const struct chain *chain);
void chain_reader_deinit(struct chain_reader *at);
/* To the block that holds the seq (the time), or the first there is. */
MUST_CHECK enum read_status chain_reader_seek_seq(struct chain_reader *at, int64_t seq, struct error *error);
MUST_CHECK enum read_status chain_reader_seek_time(struct chain_reader *at, int64_t time_us, struct error *error);
/*
 * The next block of any kind, in at->reader.block and .messages. READ_END behind the last segment's end (READ_TAIL where
 * that one ends so); otherwise as reader_next. After READ_DAMAGED chain_reader_pass_damage goes on, into the next segment
 * too.
 */
MUST_CHECK enum read_status chain_reader_next(struct chain_reader *at, struct error *error);
MUST_CHECK enum read_status chain_reader_pass_damage(struct chain_reader *at, struct error *error);

/* The types that have a segment in `dir`, sorted; the caller frees the array. */
MUST_CHECK enum read_status chain_list_types(const char *dir, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error);

#endif
