/*
 * workers: a row for each worker process that finds types by patterns: how many it holds, and whom it asks for some (worker/spread.h).
 * The collection `workers` is advice: it may be missing, old, or written by anybody.
 *
 * Each call is one or two requests, and blocks for at most their time-out. Any thread.
 */
#ifndef PAWL_LOCKSTORE_WORKERS_H
#define PAWL_LOCKSTORE_WORKERS_H

#include "lockstore/lockstore.h"

struct worker_row {
  struct address id; /* of the process's store */
  uint64_t group;    /* those that find the same types have the same */
  int64_t held, max; /* types; max: at the same time */
  int64_t stopped;   /* of those that are held; they cannot be given to another process */
  int64_t lease_ms;  /* the process's --lease */
  int64_t age_ms;    /* since it was written, by the server's clock */
  bool asks;         /* `asked` is asked for a type */
  struct address asked;
};

enum { WORKER_ROWS_MAX = 1000 };

/* Writes the row of this process; `id` and `age_ms` are ignored. The primary alone acknowledges it. With `clean`, rows are removed
 * that nobody has written for a long time. */
MUST_CHECK enum outcome workers_write(struct lockstore *store, const struct worker_row *row, const char *host, int64_t pid, bool clean,
                                      struct error *error);
/* Reads the rows of the others in the group, at most WORKER_ROWS_MAX. Rows that make no sense are left out. */
MUST_CHECK enum outcome workers_read(struct lockstore *store, uint64_t group, struct worker_row *rows, size_t *count, struct error *error);
/* Removes the row of this process. */
MUST_CHECK enum outcome workers_remove(struct lockstore *store, struct error *error);

#endif
