/*
 * follow: --follow: the messages of the sources, and then those that are added, until SIGINT or SIGTERM (exit 0), until the selection is
 * complete, or until no process reads the output any more.
 *
 * A message is printed when it is known to be committed: offline when another block follows its block, with --uri when the ledger has moved
 * on. With --unconfirmed it is printed at once; if it is later cut off and replaced by others, follow reports that and prints those too. So
 * without --uri the last block of a type is printed when the next one comes, or its holder's CLOSE.
 *
 * When follow has held messages back for a second, it reports that. It stops following a file that is removed, replaced, or cut below what
 * was read as committed: it reports that, and the exit code is 1, or 3 where the file was cut.
 *
 * Rolls are followed into the new segment. For a FILE only that file is followed: it ends when a successor names it.
 *
 * follow waits for inotify. inotify does not report changes made by other machines on a network file system, so follow also polls once a
 * second.
 */
#ifndef PAWL_TOOLS_DUMP_FOLLOW_H
#define PAWL_TOOLS_DUMP_FOLLOW_H

#include "tools/dump/dump.h"

void follow(struct dump *dump);

#endif
