/*
 * wakeup: telling a process that waits, so that it looks at once instead of by its timer. An accelerator: wake-ups may be lost, late,
 * doubled or made up by anybody, and nothing depends on them.
 *
 * A wake-up is a document in a small capped collection: {type, about: "message" | "lock" | "lost"}. What is for all that watch the type
 * lies in `wakeups`; anybody may insert {type: "t1", about: "message"} there. What is for one process bears its nonce as `to`, and lies in
 * its box: `wakeups.0` … `wakeups.7`, by the first byte of the nonce modulo 8. For an insert wakes each cursor that waits on the
 * collection: 50 cost the server 4.1 ms (and 6.3 ms by change streams, which need a replica set).
 */
#ifndef PAWL_LOCKSTORE_WAKEUP_H
#define PAWL_LOCKSTORE_WAKEUP_H

#include "lockstore/lockstore.h"

enum wakeup_about {
  WAKEUP_MESSAGE, /* one came in */
  WAKEUP_LOCK,    /* it was released, and you are first in the row */
  WAKEUP_LOST,    /* your lease ran out, and somebody has taken the lock away */
};

struct wakeup {
  char type[TYPE_BYTES_MAX + 1];
  enum wakeup_about about;
  int64_t epoch; /* WAKEUP_LOCK: of the ledger, as who released knew it; 0: not told. A wrong one costs a fence that says NO */
};

/*
 * `to` NULL: to all. Acknowledged by the primary alone. The caller need not care for the answer. Inserting makes the collection where
 * it is missing, and not as it should be; lockstore_prepare and watcher_begin mend that.
 */
enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, struct error *error);

/* Reads wake-ups, over a connection of its own. One thread at a time. */
struct watcher;

/*
 * One for what is for all that watch one of the types (at least one), and one for the box of this process (store's nonce). Do not connect.
 * `options` as for the store, with await_ms: how long watcher_next waits on the server. The store must outlive it. NULL: `error` says why.
 */
MUST_CHECK struct watcher *watcher_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types,
                                        size_t type_count, struct error *error);
MUST_CHECK struct watcher *watcher_open_box(struct lockstore *store, const struct lockstore_options *options, struct error *error);
void watcher_close(struct watcher *watcher); /* NULL is allowed */

/*
 * Watches from now on; what is there already is skipped. A collection that is missing is made, one that is not capped is made so. UNKNOWN:
 * try again later. REFUSED: no right to, or it is a view.
 */
MUST_CHECK enum outcome watcher_begin(struct watcher *watcher, struct error *error);
/*
 * After watcher_begin said YES. YES: *wakeup. NO: none came within await_ms. UNKNOWN: the watch is lost, and so may wake-ups be; begin
 * again. Blocks for await_ms, and when nothing answers for the time-out on top.
 */
MUST_CHECK enum outcome watcher_next(struct watcher *watcher, struct wakeup *wakeup, struct error *error);

#endif
