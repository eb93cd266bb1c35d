/*
 * progress: one line on a terminal that says how far a program is; erased at the end. No library for this is packaged for C.
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

/* `out` counts only if it is a terminal. */
void progress_init(struct progress *progress, FILE *out, int64_t total_bytes, int64_t now_ms);
/* `messages` lie in so many `documents`: told if there are fewer. */
void progress_update(struct progress *progress, int64_t bytes, int64_t messages, int64_t documents, int64_t now_ms);
/* Takes the line away, before something else is written and at the end. */
void progress_clear(struct progress *progress);

#endif
