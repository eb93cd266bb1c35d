/*
 * space: how much room the file system of --dir has, for the metrics. A thread of its own asks, every ten seconds: a file system that
 * hangs keeps that thread waiting, and nothing else.
 */
#ifndef PAWL_WORKER_SPACE_H
#define PAWL_WORKER_SPACE_H

#include "base.h"

struct space;

struct space_view {
  bool known; /* it was told within the last minute */
  int64_t free_bytes, size_bytes;
};

/* The first look is made by the caller, so it may block. `dir` is borrowed. The thread lasts as long as the process. NULL: no memory, or no
 * thread; `error` says which. */
MUST_CHECK struct space *space_watch(const char *dir, struct error *error);
/* What was seen last. Any thread; does not block. `now_ms`: boot-time clock. */
void space_look(struct space *space, int64_t now_ms, struct space_view *view);

#endif
