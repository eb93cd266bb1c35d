/*
 * pause: keeps the workers away from a type, and lets them go on. docs/protocol.md, Pause, has the rules.
 *
 * One thread; each call blocks: for as long as a holder has the lock, but not longer than its lease, and some requests. What was done is
 * told on stdout, what went wrong on stderr.
 */
#ifndef PAWL_TOOLS_STATUS_PAUSE_H
#define PAWL_TOOLS_STATUS_PAUSE_H

#include "lockstore/lockstore.h"

/* The exit code: 0 paused; 1 it is paused already, or is no type; 2 the database cannot be used; 69 MongoDB does not answer. */
MUST_CHECK int status_pause(struct lockstore *store, const char *type, const char *reason);
/* The exit code: 0 the workers go on; 1 the type is not paused; 2 and 69 as above. */
MUST_CHECK int status_resume(struct lockstore *store, const char *type);

#endif
