/*
 * foreign: finds out whether a worker of another database makes a type's first segment in the same directory, at the same time. Such a
 * segment has no block yet, so the check (check.h) does not see it. docs/protocol.md, The first segment and other databases.
 *
 * Blocks on the disk; any thread.
 */
#ifndef PAWL_STORAGE_FOREIGN_H
#define PAWL_STORAGE_FOREIGN_H

#include "base.h"

/* The second half of a first segment's uuid says which database its ledger is in. */
void foreign_mark(uint8_t uuid[16], const uint8_t database[16]);

enum foreign_status {
  FOREIGN_NONE,
  FOREIGN_FOUND, /* a segment of the type with a whole header is another database's; `error` names it */
  FOREIGN_FAILED,
};
/* `uuid`: marked. What has no whole header yet is passed over: whoever writes that header looks after it. */
MUST_CHECK enum foreign_status foreign_look(const char *dir, const char *type, const uint8_t uuid[16], struct error *error);

#endif
