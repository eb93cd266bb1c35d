/*
 * top: pawl-status --top: an overview full screen, again each second, until a key or a signal ends it.
 *
 * Two threads: one reads from MongoDB, so that a server that does not answer holds up no key; the caller's draws and takes the keys. Call
 * it once, from main, while no other thread runs: it handles signals.
 */
#ifndef PAWL_TOOLS_STATUS_TOP_H
#define PAWL_TOOLS_STATUS_TOP_H

#include "tools/status/status.h"

/* Returns the exit code; the terminal is as it was before. `store` stays in use: end the process by stop_now. */
MUST_CHECK int status_top(const struct config *config, struct lockstore *store);

#endif
