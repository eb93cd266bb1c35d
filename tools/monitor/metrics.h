/*
 * metrics: what the board knows, in the text format of Prometheus. docs/metrics.md lists the metrics.
 *
 * Locks the board. Any thread.
 */
#ifndef PAWL_TOOLS_MONITOR_METRICS_H
#define PAWL_TOOLS_MONITOR_METRICS_H

#include "tools/monitor/board.h"

/*
 * On the heap, *bytes is the size. NULL: no memory. `started_wall_us`: of the process. While MongoDB gives no answer, what was read last
 * counts for stale_ms. Then the metrics of types and locks are left out, so that no old value looks like a new one.
 */
MUST_CHECK char *metrics_of_board(struct board *board, int64_t now_ms, int64_t started_wall_us, int64_t stale_ms, size_t *bytes);

#endif
