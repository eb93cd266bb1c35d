/*
 * check: compares the storage with what the ledger says is committed. Read-only. A worker checks before it competes for the lock, and
 * again, on a newly opened file, after the fence.
 *
 * Blocks on the disk; any thread.
 */
#ifndef PAWL_STORAGE_CHECK_H
#define PAWL_STORAGE_CHECK_H

#include "base.h"
#include "storage/reader.h"

enum check_status {
  CHECK_OK,
  CHECK_UNTRUSTED, /* the storage disagrees or cannot be read: nothing may be written; `error` names file and offset */
  CHECK_NEWER,     /* a newer pawl is needed to append to it */
};

/*
 * `end` is the ledger's committed end and `epoch` its epoch (0: there is no ledger). On CHECK_OK, if the ledger names a file, *reader is
 * open (the caller closes it) and stands at the committed end, so that a writer can continue from there. On any other result, and without
 * a file, *reader is not open.
 */
MUST_CHECK enum check_status check_storage(struct reader *reader, const char *dir, const char *type, const struct committed *end,
                                           int64_t epoch, struct error *error);

/*
 * True if pawl-setup --adopt can probably build a ledger from these files. That needs a chain with whole headers, whole blocks from the one
 * with `seq` on, and the right to write to the newest segment. The call does not read all of the files, so --adopt may still refuse them.
 */
MUST_CHECK bool check_adoptable(const char *dir, const char *type, int64_t seq);

#endif
