/*
 * show: --list, --show and --break: what is held and who waits, and the end of another's hold. Private to pawl-lock.
 */
#ifndef PAWL_TOOLS_LOCK_SHOW_H
#define PAWL_TOOLS_LOCK_SHOW_H

#include "tools/lock/session.h"

#include <bson/bson.h>

/* Appends the host of an entry as `host`, and the name of the process, if it has one, under that key. */
void show_append_host(bson_t *line, const struct pawl_entry *entry, const char *key);
/* Return the exit code; what went wrong has been said. */
int show_run(const struct session *session);
int break_run(const struct session *session);

#endif
