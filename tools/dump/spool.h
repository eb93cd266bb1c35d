/*
 * spool: a pipe as a file. The reader seeks back and forth, so the data are first copied into a file without a name.
 *
 * The copy is in $TMPDIR, else in /tmp, only this user can read it, and it disappears with the process. Blocks until the pipe ends; on a
 * named pipe that no process opens for writing, at most SPOOL_WAIT_S.
 */
#ifndef PAWL_TOOLS_DUMP_SPOOL_H
#define PAWL_TOOLS_DUMP_SPOOL_H

#include "base.h"

enum { SPOOL_WAIT_S = 5 };

/* Does FILE mean a pipe: `-`, or something like /dev/stdin or /dev/fd/63 that leads to one? */
MUST_CHECK bool spool_wanted(const char *path);
/* The copy, to be opened with FILE_DIR_OPEN and the number as name; the caller closes it with close(2). -1: `error` says why. */
MUST_CHECK int spool_copy(const char *path, struct error *error);

#endif
