/*
 * follow: --follow: the messages of the sources, and then those that are added, until SIGINT or SIGTERM (exit 0), until
 * the selection is complete, or until nobody reads the output any more.
 *
 * A message is printed when it is known to be committed: offline when another block follows its own, with --uri when the
 * ledger has moved on; with --unconfirmed at once (should it be cut off and others be written in its place, that is said and
 * they are printed, too). So without --uri the last block of a type comes with the next one, or with its holder's CLOSE.
 * What is held back so for a second is said. A file that is removed, replaced, or cut below what was read as committed is not followed
 * any more: that is said, and the exit code is 1, or 3 where it was cut.
 * Rolls are followed into the new segment. A FILE is only followed itself: it ends when a successor names it.
 *
 * It waits for inotify, and, as changes made by other machines on a network file system are not told, looks once a second.
 */
#ifndef PAWL_TOOLS_DUMP_FOLLOW_H
#define PAWL_TOOLS_DUMP_FOLLOW_H

#include "tools/dump/dump.h"

void follow(struct dump *dump);

#endif
