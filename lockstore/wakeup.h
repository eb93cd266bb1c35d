/*
 * wakeup: telling a process that waits, so that it looks at once instead of by its timer. An accelerator: wake-ups may be lost, late,
 * doubled or made up by anybody, and nothing depends on them.
 *
 * A wake-up is a document in the small capped collection `wakeups`: {type, about: "message" | "lock" | "lost"}, and `to`, the nonce
 * of the one process that it is for; without it, it is for all that watch the type. Anybody may insert {type: "t1", about: "message"}.
 * Measured with 50 processes that watch: 4.1 ms of the server's time for a wake-up this way, by tailable cursors, and 6.3 ms by change
 * streams; and this works on a standalone server.
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
};

/*
 * `to` NULL: to all. Acknowledged by the primary alone. The caller need not care for the answer. Inserting makes the collection where
 * it is missing, and not as it should be; lockstore_prepare mends that.
 */
enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, struct error *error);

/*
 * Reads the wake-ups for this process (store's nonce) and for all that watch one of the types, over a connection of its own. One thread
 * at a time, but watcher_interrupt.
 */
struct watcher;

/*
 * Does not connect. `options` as for the store, with await_ms: how long watcher_next waits on the server. The store must outlive it. NULL:
 * `error` says why.
 */
MUST_CHECK struct watcher *watcher_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types,
                                        size_t type_count, struct error *error);
void watcher_close(struct watcher *watcher); /* NULL is allowed */

/* Watches from now on; what is there already is skipped. UNKNOWN: try again later. REFUSED: no right to, or the collection is not capped.
 */
MUST_CHECK enum outcome watcher_begin(struct watcher *watcher, struct error *error);
/*
 * After watcher_begin said YES. YES: *wakeup. NO: none came within await_ms. UNKNOWN: the watch is lost, and so may wake-ups be; begin
 * again. Blocks for await_ms, and when nothing answers for the time-out on top.
 */
MUST_CHECK enum outcome watcher_next(struct watcher *watcher, struct wakeup *wakeup, struct error *error);
/* From another thread: ends the wait of watcher_next (NO), if the database answers and lets this user insert. */
void watcher_interrupt(struct watcher *watcher);

#endif
