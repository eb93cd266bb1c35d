/*
 * history: the last quarter of an hour of one type, a point each ten seconds, for its sparkline.
 *
 * Pure. All times are of one clock that does not go back, in ms. A negative value is not known.
 */
#ifndef PAWL_TOOLS_MONITOR_HISTORY_H
#define PAWL_TOOLS_MONITOR_HISTORY_H

#include "base.h"

enum { HISTORY_POINTS = 90, HISTORY_STEP_MS = 10000 };

struct history_point {
  float queued, rate_in, rate_out; /* enough for a picture; ten thousand types have 11 MB of them */
};

struct history {
  struct history_point points[HISTORY_POINTS]; /* by step % HISTORY_POINTS */
  int64_t newest;                              /* the step of the newest; a step is now_ms / HISTORY_STEP_MS */
  int count;                                   /* 0: there is none */
};

/* Of several values within a step, the last that is known counts. */
void history_put(struct history *history, int64_t now_ms, const struct history_point *point);
/* Writes the points up to now, the newest last. Returns how many there are. */
int history_get(const struct history *history, int64_t now_ms, struct history_point points[HISTORY_POINTS]);

#endif
