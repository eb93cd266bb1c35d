/*
 * drain: reading, writing and deleting beside one another. Reading runs ahead by at most ITEMS_READY_MAX items; a block is
 * written only when the one before it is committed; deletes come last, of at most ITEMS_COMMITTED_MAX items. Private to epoch.c.
 */
#ifndef PAWL_WORKER_DRAIN_H
#define PAWL_WORKER_DRAIN_H

#include "worker/epoch.h"

/* DRAINING: MAIN's completions, and what can be started now. */
void drain_done(struct turn *turn, const struct completion *completion);
void drain_step(struct turn *turn);

#endif
