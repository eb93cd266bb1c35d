/*
 * metrics: a worker's metrics, in the text format of Prometheus, and whether the worker is ready.
 *
 * Pure except for memory, and for what metrics_text asks the kernel about the process. It reads the consumers, so only the loop's thread
 * may call it. docs/metrics.md lists the metrics.
 */
#ifndef PAWL_WORKER_METRICS_H
#define PAWL_WORKER_METRICS_H

#include "base.h"
#include "worker/consumer.h"
#include "worker/space.h"

/* The types that patterns find. */
struct found_view {
  size_t held, max;  /* that have a place, and how many places there are */
  size_t waiting;    /* with messages, and no process served them at the last look */
  size_t aside;      /* whose pause is not over */
  int64_t looked_ms; /* when the last look that was answered came back; 0: none was */
};

/* The state of a worker at one moment. All pointers are borrowed. */
struct metrics_view {
  const struct consumer *const *consumers;
  size_t consumer_count;
  size_t listed_count;                     /* the first ones are of types that are served for good, the others were found */
  const struct consumer_counts *forgotten; /* of types that were found, and are not served at present; NULL: none are looked for */
  struct found_view found;                 /* empty: the same */
  int64_t now_ms;                          /* boot-time clock */
  int64_t started_wall_us;                 /* start of the process */
  bool asked;                              /* MongoDB has answered, or failed to answer, at least once */
  bool away;                               /* MongoDB did not answer the last request */
  bool refuses;                            /* MongoDB refuses a request: user, password, rights */
  bool wakes;                              /* wake-ups come */
  bool stopping;
  bool clock_seen; /* clock_offset_us: how far this machine's wall clock is ahead of the database server's */
  int64_t clock_offset_us;
  struct space_view space;                         /* of the file system of --dir */
  int64_t memory_used_bytes, memory_max_bytes;     /* of --memory */
  int threads, threads_max, lasting, jobs_waiting; /* for the actions of all types; worker/executor.h */
};

/* All metrics, on the heap; *bytes is their size. NULL: no memory. */
MUST_CHECK char *metrics_text(const struct metrics_view *view, size_t *bytes);
/* True: the database answers, each storage agrees with its ledger, no type has stopped, and no stop was requested. False: `why`
 * says what is missing. */
MUST_CHECK bool metrics_ready(const struct metrics_view *view, struct error *why);
/* One line for people, in at least 500 bytes: why the worker is not ready, which types it holds, which it waits for, and so on. */
void metrics_summary(const struct metrics_view *view, char *text, size_t size);

#endif
