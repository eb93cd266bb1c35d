/*
 * reader: reads one segment, block by block. It is the only reader in pawl: take-over, settling, pawl-dump and the tests use it.
 *
 * It opens the file read-only, takes no lock, maps nothing, and works beside a live writer. The caller owns the memory of a
 * `struct reader`. The struct owns a descriptor and buffers between reader_open and reader_close, and belongs to one thread at a time.
 * Every call blocks on the disk. Memory: one block as stored and, for zstd, as decoded; both bounded by FORMAT_DECODED_BYTES_MAX.
 *
 * There are two kinds of end. With `end` (from the ledger, or the successor's header) all bytes below end->length are committed: an error
 * there is READ_DAMAGED, never a tail, and at the end tail, link and seq must agree. Without it (offline, the newest segment) the end is
 * where the last valid block ends. READ_TAIL then says that bytes follow that are not a block, and that no later marker proves that
 * committed messages are missing.
 */
#ifndef PAWL_STORAGE_READER_H
#define PAWL_STORAGE_READER_H

#include "base.h"
#include "storage/file.h"
#include "storage/format.h"

enum read_status {
  READ_OK,
  READ_END,     /* no block here: the committed end, or offline the end of the file */
  READ_TAIL,    /* offline: what follows the last valid block is an uncommitted tail (normal after a crash) */
  READ_DAMAGED, /* committed data is damaged; reader->lost_* say which documents are lost, as far as that is known */
  READ_NEWER,   /* a newer format */
  READ_ABSENT,  /* no such file */
  READ_FAILED,  /* the system reported an error */
};

struct reader {
  struct file file;
  struct segment_header header;
  struct committed end;
  bool has_end;
  int64_t offset; /* where the next block lies */
  bool has_last;  /* there is a block before it: `last` */
  struct block_marker last;
  struct skip_path path; /* of `last` */
  bool path_known;       /* false after damage was passed over: skip offsets are not checked until the next seek */
  int64_t next_seq;      /* the seq expected in the next block */
  bool resync;           /* damage was passed over: the next block is not compared with `last` */
  int64_t open_epoch;    /* a PAD raised the epoch to this: an OPEN of this epoch must follow; 0: none */

  /* the block that reader_next found; valid until the next call */
  struct block_marker block;
  const uint8_t *messages; /* decoded body: for DATA `block.count` BSON documents back to back */
  size_t messages_bytes;

  /* after READ_DAMAGED */
  int64_t damage_offset;
  int64_t lost_first, lost_last; /* seqs; lost_last is -1: unknown how many; else, if it is below lost_first: none */
  bool damage_in_body;           /* the marker is whole: the next block can be found */

  int64_t proof_offset; /* offline: the marker that proved the last loss; 0: none */

  uint8_t *stored, *decoded; /* buffers, owned by the reader */
  size_t stored_size, decoded_size;
};

/*
 * Opens `dir`/`name` and checks its header. `end`: NULL if not known; else copied. READ_DAMAGED: the header is damaged or torn, the uuid is
 * not end->uuid, or the file is shorter than end->length. On any status but READ_OK the reader is closed.
 */
MUST_CHECK enum read_status reader_open(struct reader *reader, const char *dir, const char *name, const struct committed *end,
                                        struct error *error);
/*
 * The same for a file of which reader_open returned READ_DAMAGED only because of the header: it reads what can still be proved
 * (--keep-going). Block 0 takes the place of the header: its marker must pass its own checks at its place, and have the file_id of
 * end->uuid if that is known. It gives the file_id, the epoch, the first seq, the time and the header's CRC. The rest of reader->header is
 * empty. READ_DAMAGED: this is not possible for this file.
 */
MUST_CHECK enum read_status reader_open_headless(struct reader *reader, const char *dir, const char *name, const struct committed *end,
                                                 struct error *error);
void reader_close(struct reader *reader);

/* Reads the next block and checks it in full, as docs/format.md, "Reading", says. On any status but READ_OK the position stays. */
MUST_CHECK enum read_status reader_next(struct reader *reader, struct error *error);

/* The same without reading the body: `messages` is NULL, body and body CRC are not checked. For searching. */
MUST_CHECK enum read_status reader_next_marker(struct reader *reader, struct error *error);

/*
 * After READ_DAMAGED: continues after the damage (--keep-going). READ_OK: the position is a block again, or the end;
 * lost_first..lost_last are the lost seqs. READ_END: no whole marker follows.
 */
MUST_CHECK enum read_status reader_pass_damage(struct reader *reader, struct error *error);

/*
 * Moves to the last block whose seq is at most `seq` (whose time is before `time_us`), by the skip offsets: a logarithmic number of reads.
 * The caller reads on from there and drops what is too early. READ_OK also if the file begins later than that, or if a marker on the way
 * is damaged: the position is then the beginning.
 */
MUST_CHECK enum read_status reader_seek_seq(struct reader *reader, int64_t seq, struct error *error);
MUST_CHECK enum read_status reader_seek_time(struct reader *reader, int64_t time_us, struct error *error);

/* Makes the marker at `offset` the last one read, with its skip path; the next block is the one after it. 0: the beginning. */
MUST_CHECK enum read_status reader_place_after(struct reader *reader, int64_t offset, struct error *error);

/*
 * Counts the messages in the segment up to the position. Walks back to the nearest CLOSE, which holds the count up to there: only an epoch
 * that did not end cleanly has blocks after it.
 */
MUST_CHECK enum read_status reader_count_items(struct reader *reader, int64_t *items, struct error *error);

/* Sets a new, later `end` (the ledger moved on, or became known), or NULL. Copies it. */
void reader_set_end(struct reader *reader, const struct committed *end);

#endif
