/*
 * leave: how an epoch ends: released, rolled, or abandoned; and the commits of what is in the file. A part of
 * the epoch.
 */
#ifndef PAWL_WORKER_LEAVE_H
#define PAWL_WORKER_LEAVE_H

#include "worker/epoch.h"

/* Decides how the epoch ends, and what comes then: draining goes on until what runs has come back. */
void leave_by(struct turn *turn, enum leave leave, enum consumer_state after, const char *why);
/* A tool waits, and this epoch has got on: it has written, settled, or found nothing to do. */
bool leave_for_tool(const struct turn *turn);
/* The epoch belongs to another by now, or the file is dead to this process: nothing more is written or committed. */
void leave_fenced(struct turn *turn);
void leave_failed_disk(struct turn *turn, const char *text);
/* Releases (docs/protocol.md, Release): closes what was written and commits it as clean, or sets `clean` back to its old value. */
void leave_release(struct turn *turn, enum consumer_state after, const char *why);

/* RELEASING: MAIN's completions, and what can be started now. */
void leave_done(struct turn *turn, const struct completion *completion);
void leave_step(struct turn *turn);

/* The commit of what follows on the known end; `after` is that end until it is known better. */
void leave_commit_fill(const struct turn *turn, struct ledger_commit *commit);
/* Once more the commit whose answer is unknown. */
void leave_commit_start(struct turn *turn);

#endif
