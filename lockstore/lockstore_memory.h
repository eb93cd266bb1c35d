/*
 * lockstore_memory: the twin of lockstore, in memory. It defines every function of lockstore.h, mutex.h,
 * ledger.h, wait_queue.h and wakeup.h except lockstore_open, with the same answers (a reader of wake-ups never waits, and falls behind by
 * at most 64 wake-ups). A test links it in place of the real one, and one suite (tests/unit/test_lockstore*.c) runs against both.
 *
 * A server is what the workers share: documents and a clock, which only memory_server_set_now moves. A lockstore is one
 * worker's way to it. The test itself plays a request that arrives late: the call answers UNKNOWN without effect
 * (lockstore_memory_fail), and the test makes the same call again when the request shall arrive.
 *
 * Threads: one mutex per server; any thread. Nothing blocks. A server outlives its lockstores. Without memory the twin aborts.
 */
#ifndef PAWL_LOCKSTORE_LOCKSTORE_MEMORY_H
#define PAWL_LOCKSTORE_LOCKSTORE_MEMORY_H

#include "lockstore/ledger.h"
#include "lockstore/mutex.h"

struct memory_server;

struct memory_server *memory_server_new(void);
void memory_server_free(struct memory_server *server);
/* The server's clock, in ms since 1970. It may go backwards. */
void memory_server_set_now(struct memory_server *server, int64_t now_ms);
int64_t memory_server_now(struct memory_server *server);
/* Away: every call of every lockstore answers UNKNOWN, and has no effect. */
void memory_server_set_away(struct memory_server *server, bool away);
/* Puts a ledger there unchecked: of a newer pawl, adopted, or inconsistent (reading does not check it either). */
void memory_server_put_ledger(struct memory_server *server, const char *type, const struct ledger *ledger);
/* Makes a ledger that is there one that cannot be read. */
void memory_server_spoil_ledger(struct memory_server *server, const char *type);
/* Removes the wait queue of the type, as if somebody had deleted the document. */
void memory_server_forget_queue(struct memory_server *server, const char *type);
/* Copies the documents of `from` to `to`; the clock of `to` stays. For a server that loses what reached no majority. */
void memory_server_copy(struct memory_server *to, const struct memory_server *from);

/* A document of a user's own collection (document_lock.h); copied. */
struct _bson_t;
void memory_server_put_document(struct memory_server *server, const char *collection, const struct _bson_t *document);
/* The first that matches; NULL: none. */
const struct _bson_t *memory_server_document(const struct memory_server *server, const char *collection, const struct _bson_t *filter);

struct lockstore *lockstore_memory_open(struct memory_server *server);
/* Cuts off this lockstore alone. */
void lockstore_memory_set_away(struct lockstore *store, bool away);
/* The next `calls` calls through this lockstore answer UNKNOWN; with `applied` they are done all the same (the reply was lost). */
void lockstore_memory_fail(struct lockstore *store, int calls, bool applied);
/* The same, after `skip` more calls. */
void lockstore_memory_fail_after(struct lockstore *store, int skip, int calls, bool applied);
/* Called when a call has been done and before it returns, by its thread: it may set the clock, for an answer that comes late. */
void lockstore_memory_on_answer(struct lockstore *store, void (*answered)(void *context), void *context);

#endif
