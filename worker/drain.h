/*
 * drain: reading, writing and deleting beside one another. Reading runs ahead by at most ITEMS_READY_MAX items; a block is
 * written only when the one before it is committed; deletes come last, of at most ITEMS_COMMITTED_MAX items. A part of the epoch.
 */
#ifndef PAWL_WORKER_DRAIN_H
#define PAWL_WORKER_DRAIN_H

#include "worker/epoch.h"

/* DRAINING: MAIN's completions, and what can be started now, is. */
void drain_done(struct turn *turn, const struct completion *completion);
void drain_step(struct turn *turn);

/* The completions of READ and of the deletes, which may also come while the epoch ends. */
void drain_read(struct turn *turn, const struct completion *completion);
void drain_deleted(struct turn *turn, const struct completion *completion);
/* A wake-up: the pause between two passes ends now. */
void drain_wake(struct turn *turn);
/* When the timer is due, of all that lies ahead of now_ms; INT64_MAX: not. */
int64_t drain_wake_ms(const struct epoch *epoch, const struct core *core);

#endif
