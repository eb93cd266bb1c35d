/*
 * writer: appends blocks to a type's current segment, and makes new segments. It writes only at the committed end that it was given, in the
 * order of the calls. The caller (worker/consumer.c) decides whether it may write, and commits what was synced before it writes the next
 * block.
 *
 * The caller owns the memory of a `struct writer`. It has descriptors between writer_open and writer_close, and belongs to one thread at a
 * time. Every call blocks on the disk.
 *
 * After WRITER_FAILED this process must not use the segment again: call writer_close and nothing else. Never sync a second time: the first
 * sync may have lost the pages, and the second would report success.
 */
#ifndef PAWL_STORAGE_WRITER_H
#define PAWL_STORAGE_WRITER_H

#include "base.h"
#include "storage/batch.h"
#include "storage/check.h"
#include "storage/file.h"
#include "storage/format.h"

enum writer_status {
  WRITER_OK,
  WRITER_NO_SPACE,   /* found before the write: nothing was written, try again later */
  WRITER_NAME_TAKEN, /* a file with blocks already has the segment's name: the storage cannot be trusted */
  WRITER_NAME_SPENT, /* a bare header already has the name of the epoch's segment: give the epoch up */
  WRITER_FAILED,
};

struct writer_options {
  const char *dir, *type; /* borrowed */
  unsigned permissions;   /* of new files */
  bool codec_zstd;        /* compress a block if that saves an eighth */
  int64_t lease_ms;       /* recorded in OPEN, for diagnosis */
  struct writer_identity identity;
};

struct writer {
  struct writer_options options;
  int64_t epoch;    /* of this writer */
  bool has_file;    /* `file` is open */
  struct file file; /* opened for reading and writing */
  bool created;     /* this epoch made the segment */
  bool opened;      /* the epoch's OPEN is written, or not needed */
  bool local;       /* as in writer_start */
  bool marked;      /* the caller says which database a first segment is for: foreign_mark; another's is looked for */
  bool foreign;     /* another kernel wrote the bytes at the end, or they came through another view of the file: PAD first */
  struct segment_header header;
  struct committed end;   /* after the last block written; not necessarily committed yet */
  struct committed found; /* the end at writer_open */
  int64_t items_written;  /* messages that this epoch wrote, for CLOSE */
  bool has_last;
  struct block_marker last;
  struct skip_path path;
  uint8_t *encoded; /* buffer for compressed blocks */
  size_t encoded_size;
};

/* The state in which an epoch begins. */
struct writer_start {
  int64_t epoch;               /* the new one */
  bool local;                  /* the directory was on a local file system just before the fence: guards count */
  const struct committed *end; /* the ledger's, as it was before this epoch */
  const char *machine;         /* the ledger's */
  bool vouched;                /* the ledger vouched for the end: its writer saw a local file system */
};
/*
 * Opens the ledger's file again and checks it (storage/check.h) against start->end. If the ledger names no file, only the directory is
 * checked. On any status but CHECK_OK the writer is closed. The data that `start` points to is not needed afterwards.
 */
MUST_CHECK enum check_status writer_open(struct writer *writer, const struct writer_options *options, const struct writer_start *start,
                                         struct error *error);
/* Closes the file and writes nothing more. WRITER_FAILED: a late write error; what was not committed may be lost. */
MUST_CHECK enum writer_status writer_close(struct writer *writer, struct error *error);

/* The facts that decide whether the file may be continued (docs/protocol.md, "May the file be continued?"). */
struct continue_check {
  bool local;   /* as in writer_start */
  bool guarded; /* directory and open file are local, and the writer has taken the guard now */
  bool exact;   /* the file is exactly as long as committed; measured after the guard was taken */
};
/* Takes the guard where guards count, and fills *check. WRITER_OK also if the guard is busy. */
MUST_CHECK enum writer_status writer_guard(struct writer *writer, struct continue_check *check, struct error *error);
/* Cuts off the bytes beyond the committed end. Call it only with the guard held, and after a check that the ledger still has this epoch. */
MUST_CHECK enum writer_status writer_cut(struct writer *writer, struct error *error);

/*
 * Makes the next segment: `T.bin` for the first (`T@<epoch>.bin` if a bare header has that name), else `T@<epoch>.bin`. Syncs header and
 * directory, and closes the old segment. Where guards count, it takes the new segment's guard. After WRITER_OK writer->end is that of the
 * new segment; the caller must commit it before it appends. `block_bytes`: the size of the documents that come first. WRITER_NO_SPACE
 * unless there is room for them, too: otherwise each retry would leave one more segment without a block. `now_us`: µs since 1970 UTC. With
 * `marked`, the first segment is made only if no worker of another database makes one there: NAME_TAKEN; or NAME_SPENT, where that one has
 * come later and may give way.
 */
MUST_CHECK enum writer_status writer_create(struct writer *writer, const char *reason, const uint8_t uuid[16], size_t block_bytes,
                                            int64_t now_us, struct error *error);
/* Unlinks the segment that writer_create made. Call it only if its commit was never sent. False: the file is still there, an orphan. */
MUST_CHECK bool writer_discard(struct writer *writer);

/* Writes one DATA block, and before it, in the same write, the PAD and OPEN that the format requires. writer->end is then after the block.
 * The call may overwrite the batch's headroom; the batch keeps its documents. */
MUST_CHECK enum writer_status writer_append(struct writer *writer, struct batch *batch, int64_t now_us, struct error *error);
/* Writes the CLOSE block. If an earlier epoch made the segment, it reads the markers that earlier epochs wrote since the last CLOSE. */
MUST_CHECK enum writer_status writer_append_close(struct writer *writer, int64_t now_us, struct error *error);
/* Syncs, then checks that the file's name still leads to it and that it ends at writer->end. Only after WRITER_OK may the caller commit
 * what was written, and delete its documents from the queue. */
MUST_CHECK enum writer_status writer_sync(struct writer *writer, struct error *error);

#endif
