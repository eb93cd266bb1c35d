/*
 * check: does the storage agree with what the ledger says is committed? Read-only; for a worker before it competes, and
 * again, on a file opened afresh, when it has become the holder.
 *
 * Blocks on the disk; any thread.
 */
#ifndef PAWL_STORAGE_CHECK_H
#define PAWL_STORAGE_CHECK_H

#include "base.h"
#include "storage/reader.h"

enum check_status {
  CHECK_OK,
  CHECK_UNTRUSTED, /* it disagrees, or cannot be read: nothing may be written; the text names file and offset */
  CHECK_NEWER,     /* a newer pawl is needed to append to it */
};

/*
 * `end` is the ledger's committed end and `epoch` its epoch (0: there is no ledger). On CHECK_OK, if there is a file, *reader
 * is open (the caller closes it) and stands at the committed end, so that a writer can go on from it. On anything else, and without
 * a file, it is closed.
 */
MUST_CHECK enum check_status check_storage(struct reader *reader, const char *dir, const char *type, const struct committed *end,
                                           int64_t epoch, struct error *error);

/*
 * Could pawl-setup --adopt make a ledger of these files? It needs a chain with whole headers, blocks that are whole from the one with
 * `seq` on, and the right to write to the newest segment. Not all of the files is read, so it may still refuse them.
 */
MUST_CHECK bool check_adoptable(const char *dir, const char *type, int64_t seq);

#endif
