/*
 * metrics: what a worker tells of itself, in the text format of Prometheus, and whether it is ready.
 *
 * Pure but for memory: it reads the consumers, so it is for the loop's thread. docs/monitoring.md lists the metrics.
 */
#ifndef PAWL_WORKER_METRICS_H
#define PAWL_WORKER_METRICS_H

#include "base.h"
#include "worker/consumer.h"

/* The worker at a moment. Borrows all it points to. */
struct metrics_view {
  const struct consumer *const *consumers;
  size_t consumer_count;
  int64_t now_ms;          /* boot-time clock */
  int64_t started_wall_us; /* the process */
  bool asked;              /* MongoDB has answered, or failed to, at least once */
  bool away;               /* it did not answer the last time */
  bool refuses;            /* it refuses a request: user, password, rights */
  bool wakes_messages, wakes_locks;
  bool stopping;
};

/* All metrics, on the heap, *bytes of them. NULL: no memory. */
MUST_CHECK char *metrics_text(const struct metrics_view *view, size_t *bytes);
/* The database answers, each storage agrees with its ledger, no type has stopped, and nobody asked to stop. False: `why` says what is
 * missing. */
MUST_CHECK bool metrics_ready(const struct metrics_view *view, struct error *why);
/* One line for people, in at least 500 bytes: why it is not ready, and which types it holds, waits for, and so on. */
void metrics_summary(const struct metrics_view *view, char *text, size_t size);

#endif
