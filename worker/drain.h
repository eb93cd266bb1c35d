/*
 * drain: reading, writing and deleting beside one another. Reading runs ahead by at most LOADS_READY_MAX loads; a block is
 * written only when the one before it is committed; deletes come last, of at most LOADS_COMMITTED_MAX loads. Private to epoch.c.
 */
#ifndef PAWL_WORKER_DRAIN_H
#define PAWL_WORKER_DRAIN_H

#include "worker/epoch.h"

/* DRAINING: MAIN's completions, and what can be started now. */
void drain_done(struct turn *turn, const struct completion *completion);
void drain_step(struct turn *turn);

#endif
