/*
 * writer: appends blocks to a type's current segment, and makes new segments. It writes only at the committed end it was
 * given, in the order in which it is called; whether it may is decided by its caller (worker/consumer.c), who also commits what was
 * synced before the next block is written.
 *
 * A `struct writer` is the caller's memory, has descriptors between writer_open and writer_close, and belongs to one
 * thread at a time. Every call blocks on the disk.
 *
 * After WRITER_FAILED the segment is dead to this process: writer_close, and nothing else (never a second sync: the first may
 * have lost the pages and the second would say that all is well).
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
  WRITER_NO_SPACE,   /* looked at first: nothing was written, try again later */
  WRITER_NAME_TAKEN, /* the segment's name is taken by a file with blocks: the storage cannot be trusted */
  WRITER_NAME_SPENT, /* the epoch's own name is taken by a bare header: give the epoch up */
  WRITER_FAILED,
};

struct writer_options {
  const char *dir, *type; /* borrowed */
  unsigned permissions;   /* of new files */
  bool codec_zstd;        /* blocks are compressed where that saves an eighth */
  int64_t lease_ms;       /* noted in OPEN, for people */
  struct writer_identity identity;
};

struct writer {
  struct writer_options options;
  int64_t epoch;        /* mine */
  bool has_file;        /* `file` is open, */
  struct file file;     /* for reading and writing */
  bool created;         /* this epoch made the segment */
  bool opened;          /* the epoch's OPEN is written, or not needed */
  bool local;           /* as in writer_start */
  bool foreign;         /* the bytes at the end were written by another kernel, or through another view of the file: PAD first */
  struct segment_header header;
  struct committed end;   /* behind the last block written; not necessarily committed yet */
  struct committed found; /* as it was opened */
  int64_t items_written;  /* by this epoch, for CLOSE */
  bool has_last;
  struct block_marker last;
  struct skip_path path;
  uint8_t *encoded; /* buffer for compressed blocks */
  size_t encoded_size;
};

/* Where an epoch begins. */
struct writer_start {
  int64_t epoch;               /* mine */
  bool local;                  /* the directory is on a local file system, as asked before the fence: guards count */
  const struct committed *end; /* the ledger's, as it was before my epoch */
  const char *machine;         /* the ledger's */
  bool vouched;                /* the ledger vouched for the end: its writer saw a local file system */
};
/*
 * Opens the ledger's file afresh and checks it (storage/check.h) against start->end. With no file in the ledger only the directory is
 * looked at. On anything but CHECK_OK it is closed. What `start` points to is not needed afterwards.
 */
MUST_CHECK enum check_status writer_open(struct writer *writer, const struct writer_options *options, const struct writer_start *start,
                                         struct error *error);
/* Closes without another word. A late write error is reported: what was not committed may be lost. */
MUST_CHECK enum writer_status writer_close(struct writer *writer, struct error *error);

/* What the decision about continuing the file rests on (docs/protocol.md, "May the file be continued?"). */
struct writer_ground {
  bool local;   /* as in writer_start */
  bool guarded; /* local, by the open file's own word too, and the guard is taken now */
  bool exact;   /* the file is exactly as long as committed; looked at with the guard in hand */
};
/* Takes the guard where it counts. */
MUST_CHECK enum writer_status writer_guard(struct writer *writer, struct writer_ground *ground, struct error *error);
/* Cuts off what lies beyond the committed end. Only with the guard, and only after the epoch was seen to be still mine. */
MUST_CHECK enum writer_status writer_cut(struct writer *writer, struct error *error);

/*
 * Makes the next segment: `T.bin` for the first, else `T@<epoch>.bin`; header synced, directory too. The old one is closed. After WRITER_OK
 * writer->end is the new segment's, to be committed before anything is appended. Where guards count, its guard is taken. `block_bytes`: of
 * the documents that come first. WRITER_NO_SPACE unless there is room for them too: a segment that takes no block would be one more with
 * each try.
 */
MUST_CHECK enum writer_status writer_create(struct writer *writer, const char *reason, const uint8_t uuid[16], size_t block_bytes,
                                            int64_t now_us, struct error *error);
/* Unlinks the segment that writer_create made; only if its commit was never sent. False: it lies there still, named by nobody. */
MUST_CHECK bool writer_discard(struct writer *writer);

/* Writes one DATA block (before it, in the same write, what the format asks for: PAD, OPEN). writer->end is behind it. The batch's
 * headroom is used; its documents stay. */
MUST_CHECK enum writer_status writer_append(struct writer *writer, struct batch *batch, int64_t now_us, struct error *error);
/* Writes the CLOSE block. Reads back, marker by marker, what was written since the last CLOSE, if this epoch did not make the segment. */
MUST_CHECK enum writer_status writer_append_close(struct writer *writer, int64_t now_us, struct error *error);
/* Syncs, and then sees that the file is still the one of that name and ends where the writer does: only then may what was written be
 * committed, and its messages be deleted from the queue. */
MUST_CHECK enum writer_status writer_sync(struct writer *writer, struct error *error);

#endif
