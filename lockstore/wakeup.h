/*
 * wakeup: notifies a waiting process, so that it polls at once instead of by its timer. This only saves time: wake-ups may be
 * lost, late, doubled, or made up by anybody, and nothing depends on them.
 *
 * A wake-up is a document in a small capped collection: {type, about: "message" | "lock" | "lost"}. Wake-ups for all processes
 * that serve the type lie in `wakeups`; anybody may insert {type: "t1", about: "message"} there. A wake-up for one process has
 * its nonce as `to`, and lies in its inbox: `wakeups.0` … `wakeups.7`, by the first byte of the nonce modulo 8. The inboxes
 * exist because an insert wakes each cursor that waits on the collection: 50 cursors cost the server 4.1 ms (and 6.3 ms through
 * change streams, which need a replica set).
 */
#ifndef PAWL_LOCKSTORE_WAKEUP_H
#define PAWL_LOCKSTORE_WAKEUP_H

#include "lockstore/lockstore.h"

enum wakeup_about {
  WAKEUP_MESSAGE, /* a message came in */
  WAKEUP_LOCK,    /* the lock was released, and you are the first waiter */
  WAKEUP_LOST,    /* your lease ran out, and another process has stolen the lock */
};

struct wakeup {
  char type[TYPE_BYTES_MAX + 1];
  enum wakeup_about about;
  int64_t epoch; /* WAKEUP_LOCK: the ledger's epoch as the releaser knew it; 0: not told. If it is wrong, a fence answers NO */
};

/*
 * `to` NULL: to all. The primary alone acknowledges it. The caller may ignore the answer. An insert into a missing collection
 * makes a plain one; lockstore_prepare and watcher_begin convert that.
 */
enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, struct error *error);

/* Reads wake-ups, over a connection of its own. One thread at a time. */
struct watcher;

/*
 * watcher_open: for the wake-ups to all that serve one of the types (at least one). watcher_open_box: for the inbox of this
 * process (the store's nonce). Neither connects. `options` as for the store, with await_ms: how long watcher_next waits on the
 * server. The store must outlive the watcher. NULL: `error` says why.
 */
MUST_CHECK struct watcher *watcher_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types,
                                        size_t type_count, struct error *error);
MUST_CHECK struct watcher *watcher_open_box(struct lockstore *store, const struct lockstore_options *options, struct error *error);
void watcher_close(struct watcher *watcher); /* NULL is allowed */

/*
 * Reads wake-ups from now on, and skips older ones. Makes the collection if it is missing, and makes it capped if it is not.
 * UNKNOWN: try again later. REFUSED: the right is missing, or it is a view.
 */
MUST_CHECK enum outcome watcher_begin(struct watcher *watcher, struct error *error);
/*
 * Call it after a YES of watcher_begin. YES: *wakeup. NO: none came within await_ms. UNKNOWN: the cursor is lost, and perhaps
 * wake-ups with it; begin again. Blocks for await_ms, and, when the server does not answer, for the time-out in addition.
 */
MUST_CHECK enum outcome watcher_next(struct watcher *watcher, struct wakeup *wakeup, struct error *error);

#endif
