/*
 * latency: how long a worker's steps take, as histograms with fixed bounds. To count one duration adds to one bucket and to one sum.
 *
 * Pure, over the caller's memory; any thread. docs/metrics.md says what each measures, and why the metrics are of the process and
 * not of a type.
 */
#ifndef PAWL_WORKER_LATENCY_H
#define PAWL_WORKER_LATENCY_H

#include "base.h"

enum latency {
  /* measured where the action is performed (completion.took_us) */
  LATENCY_SYNC,   /* one sync of a block, or of CLOSE */
  LATENCY_COMMIT, /* one commit, until its answer or its time-out */
  LATENCY_DELETE, /* one delete of a committed block, likewise */
  /* measured by the consumer */
  LATENCY_DURABLE,  /* from the ObjectId of a block's first document to the commit of the block, by the wall clocks */
  LATENCY_TAKEOVER, /* from the turn to take the lock to the first pass */
  LATENCY_COUNT,
};
enum { LATENCIES_PERFORMED = LATENCY_DELETE + 1, LATENCY_BOUNDS_MAX = 15 };

struct latencies { /* all zero: nothing was counted */
  struct {
    int64_t counts[LATENCY_BOUNDS_MAX + 1]; /* the one after the last bound: longer */
    int64_t sum_us;
  } of[LATENCY_COUNT];
};

/* The upper bounds of the buckets in milliseconds, rising; *count is how many. */
const int64_t *latency_bounds_ms(enum latency latency, int *count);
/* Below 0 counts as 0. */
void latency_count(struct latencies *latencies, enum latency latency, int64_t us);
void latency_add(struct latencies *to, const struct latencies *from);

#endif
