/*
 * wakeup: notifies a waiting process, so that it polls at once instead of by its timer. This only saves time: wake-ups may be
 * lost, late, doubled, or made up by anybody, and nothing depends on them.
 *
 * A wake-up is a document in the small capped collection `wakeups`: {type, about: "message" | "lock" | "lost", to: [process, …],
 * owners: [owner, …], epoch}. Those about messages have no `to`: they are for all processes that serve the type, and anybody may
 * insert {type: "t1", about: "message"}. The others name a process, and which acquisition of it they are for. An insert wakes
 * each cursor that waits on the collection: 50 cursors cost the server 1.7 ms.
 */
#ifndef PAWL_LOCKSTORE_WAKEUP_H
#define PAWL_LOCKSTORE_WAKEUP_H

#include "lockstore/lockstore.h"

enum wakeup_about {
  WAKEUP_MESSAGE, /* a message came in */
  WAKEUP_LOCK,    /* the lock was released, and you are the first waiter */
  WAKEUP_LOST,    /* your lease ran out, and another process has stolen the lock */
};

enum { WAKEUP_WHY_SIZE = 256 };
struct wakeup {
  char type[TYPE_BYTES_MAX + 1];
  enum wakeup_about about;
  struct owner owner;        /* WAKEUP_LOCK, WAKEUP_LOST: the acquisition of this process that it is for */
  char why[WAKEUP_WHY_SIZE]; /* WAKEUP_LOST: a person has broken the lock, for this reason; empty: it was stolen */
  int64_t epoch;             /* WAKEUP_LOCK: the ledger's epoch as the releaser knew it; 0: not told. If it is wrong, a fence answers NO */
};

/*
 * `to`: the acquisition that it is for; NULL: for all. `epoch`: 0: none. The primary alone acknowledges it, and the caller may
 * ignore the answer. An insert into a missing collection makes a plain one; lockstore_prepare and wakeup_reader_begin convert that.
 */
enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                         struct error *error);

/* A WAKEUP_LOST with a reason, cut to WAKEUP_WHY_SIZE. */
enum outcome wakeup_send_broken(struct lockstore *store, const char *type, const struct owner *to, const char *why, struct error *error);

/* Reads wake-ups, over a connection of its own. One thread at a time. */
struct wakeup_reader;

/*
 * For the wake-ups to this process (to the store's address), and for those to all that serve one of the types (there may be none; one with
 * a `*` is a pattern, type_pattern.h).
 * Does not connect. `options` as for the store, with await_ms: how long wakeup_reader_next waits on the server. The store must outlive
 * the reader. NULL: `error` says why.
 */
MUST_CHECK struct wakeup_reader *wakeup_reader_open(struct lockstore *store, const struct lockstore_options *options,
                                                    const char *const *types, size_t type_count, struct error *error);
void wakeup_reader_close(struct wakeup_reader *reader); /* NULL is allowed */

/*
 * Reads wake-ups from now on, and skips older ones. Makes the collection if it is missing, and makes it capped if it is not.
 * UNKNOWN: try again later. REFUSED: the right is missing, or it is a view.
 */
MUST_CHECK enum outcome wakeup_reader_begin(struct wakeup_reader *reader, struct error *error);
/*
 * Call it after a YES of wakeup_reader_begin. YES: *wakeup. NO: none came within await_ms. UNKNOWN: the cursor is lost, and perhaps
 * wake-ups with it; begin again. Blocks for await_ms, and, when the server does not answer, for the time-out in addition.
 */
MUST_CHECK enum outcome wakeup_reader_next(struct wakeup_reader *reader, int64_t await_ms, struct wakeup *wakeup, struct error *error);

#endif
