/*
 * spool: a pipe as a file: the reader goes back and forth, so what comes is first copied into a file without a name.
 *
 * The copy lies in $TMPDIR, else /tmp, can be read by this user alone, and is gone with the process. Blocks until the pipe ends; on a
 * named pipe that no one opens for writing, at most SPOOL_WAIT_S.
 */
#ifndef PAWL_TOOLS_DUMP_SPOOL_H
#define PAWL_TOOLS_DUMP_SPOOL_H

#include "base.h"

enum { SPOOL_WAIT_S = 5 };

/* Does FILE mean a pipe: `-`, or something like /dev/stdin or /dev/fd/63 that leads to one? */
MUST_CHECK bool spool_wanted(const char *path);
/* The copy, to be opened as FILE_DIR_OPEN and the number; close(2) it. -1: `error` says why. */
MUST_CHECK int spool_copy(const char *path, struct error *error);

#endif
