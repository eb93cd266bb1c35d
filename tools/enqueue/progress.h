/*
 * progress: one line on a terminal that shows how far a program is; erased at the end. No library for this is packaged for C.
 *
 * Threads: one at a time. The clock comes as an argument; the line is drawn at most five times a second.
 */
#ifndef PAWL_TOOLS_ENQUEUE_PROGRESS_H
#define PAWL_TOOLS_ENQUEUE_PROGRESS_H

#include "base.h"

struct progress {
  FILE *out;           /* NULL: nothing is shown */
  int64_t total_bytes; /* 0: not known */
  int64_t started_ms, drawn_ms;
  bool shown;
};

/* `out` is used only if it is a terminal. */
void progress_init(struct progress *progress, FILE *out, int64_t total_bytes, int64_t now_ms);
/* `messages` in `documents`: shown if there are fewer documents. */
void progress_update(struct progress *progress, int64_t bytes, int64_t messages, int64_t documents, int64_t now_ms);
/* Erases the line, before other output and at the end. */
void progress_clear(struct progress *progress);

#endif
