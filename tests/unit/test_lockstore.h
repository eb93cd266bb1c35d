/*
 * The suite that the real lockstore and its twin must both pass: what its files share, and what they need from the lockstore under
 * test. test_lockstore_twin.c provides the one in memory, test_lockstore_real.c the one at PAWL_TEST_URI, in a database of its own
 * that is dropped at the end.
 */
#ifndef PAWL_TESTS_TEST_LOCKSTORE_H
#define PAWL_TESTS_TEST_LOCKSTORE_H

#include "lockstore/ledger.h"
#include "lockstore/mutex.h"
#include "unit_test.h"

enum { SKIPPED = 77 }; /* exit code: nothing was run */

/* False: the suite cannot run here; the reason was printed. */
bool fixture_begin(void);
void fixture_end(void);
extern struct lockstore *store; /* prepared, and open until fixture_end */
/* Another lockstore, like that of another process, and the reader on a store; the caller closes both. */
struct lockstore *fixture_store_new(void);
struct wakeup_reader *fixture_reader(struct lockstore *store, const char *type);
/* Returns when the lease of the lock is over. */
void fixture_wait_expired(const char *type, int slot);
/* Moves the end of the lease as far ahead as only a clock that jumped can have put it. */
void fixture_jump(const char *type, int slot);
/* As if everybody in the wait queue had come, and had been called, that much earlier, or later; the leases may move with them. */
void fixture_age_queue(const char *type, int ms);
void fixture_put_newer(const char *type);
/* Says in the ledger that a newer pawl is needed, and changes nothing else in it. */
void fixture_make_newer(const char *type);
/* Puts a ledger that ledger_read refuses, and no newer pawl would take. */
void fixture_put_malformed(const char *type);
/* Raises the epoch as the fence of an older pawl does, which knows no `guarded`. */
void fixture_fence_older(const char *type);

#define MY_TYPE __func__ /* each test has a type of its own */
#define LONG_MS 60000
#define SHORT_MS 200

extern struct error error;
extern const struct owner alice, bob;
extern const struct lock_holder someone;

enum outcome take(const char *type, const struct owner *owner, int64_t ttl_ms);

/* The committed end of a file of `seq` messages, and a commit that moves it. */
struct committed end_at(const char *type, int64_t seq);
struct ledger_commit commit_of(const char *type, int64_t epoch, const struct owner *owner, int64_t from, int64_t to);
/* A new segment of alice, as epoch 1; begin_file makes a type that has it. */
struct ledger_commit first_commit(const char *type);
void begin_file(const char *type);
struct ledger read_ledger(const char *type);

#endif
