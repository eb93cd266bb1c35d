/*
 * status: reads the state of every type once, for pawl-status; and the two ways to show it.
 *
 * One thread. Only status_gather blocks: for a few requests, each at most the lockstore's time-out.
 */
#ifndef PAWL_TOOLS_STATUS_STATUS_H
#define PAWL_TOOLS_STATUS_STATUS_H

#include "config/config.h"
#include "lockstore/ledger.h"
#include "lockstore/mutex.h"

#include <time.h>

enum { QUEUED_UNKNOWN = -1 };

enum status_kind {
  STATUS_TYPE,
  STATUS_LOCK,    /* of pawl-lock: it has never had a file */
  STATUS_INVALID, /* not a valid type name: no worker can serve it. `type` is JSON then, in ASCII */
  STATUS_UNTYPED, /* documents whose `type` is not a string: no worker takes them. `type` is STATUS_UNTYPED_NAME */
  STATUS_KINDS,
};
#define STATUS_UNTYPED_NAME "(untyped)"

struct status_row {
  char type[TYPE_BYTES_MAX + 1];
  enum status_kind kind;
  int64_t queued; /* documents */
  struct ledger ledger;
  bool held;
  int holders; /* of a lock with slots there may be several; `lock` is the first one's */
  bool lock_malformed; /* a lock document not written by pawl: `lock` is not valid, `problem` describes the document */
  struct lock_view lock;
  struct error problem; /* empty: none */
  double rate;          /* messages a second; negative: not known */
};

struct status_table {
  const struct config *config;
  struct status_row *rows; /* in order of type */
  size_t count;
  char db[64];
  enum outcome usable;   /* whether workers take the database: REFUSED: they do not; UNKNOWN: not checked. `--type`: YES, without a check */
  struct error unusable; /* unless YES */
  struct timespec at;
  bool failed; /* no memory */
};

/*
 * Fills a table that is all zero except for `config`; the caller frees its rows, whatever the answer. UNKNOWN: no server, or no primary.
 * REFUSED: a server that pawl cannot use. It creates nothing there.
 */
MUST_CHECK enum outcome status_gather(struct status_table *table, struct lockstore *store, struct error *error);
/* Computes the rates from the table of an earlier time; a table that is all zero gives no rates. */
void status_compute_rates(struct status_table *table, const struct status_table *earlier);

/* To stdout. */
void status_print_text(const struct status_table *table);
void status_print_json(const struct status_table *table);

#endif
