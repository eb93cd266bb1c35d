/*
 * What the lockstore suite needs of the thing it runs against. test_lockstore_twin.c is the one in memory, test_lockstore_real.c
 * the one at PAWL_TEST_URI, in a database of its own that is dropped at the end.
 */
#ifndef PAWL_TESTS_TEST_LOCKSTORE_H
#define PAWL_TESTS_TEST_LOCKSTORE_H

#include "lockstore/lockstore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SKIPPED = 77 }; /* exit code: nothing was run */

/* False: it cannot run here, and has said why. */
bool fixture_begin(void);
void fixture_end(void);
/* Prepared, and open until fixture_end. */
struct lockstore *fixture_store(void);
/* Another one, as another process has it; the caller closes it. And the watchers on one: for all of that type, and its box. */
struct lockstore *fixture_store_new(void);
struct watcher *fixture_watcher(struct lockstore *store, const char *type);
struct watcher *fixture_box(struct lockstore *store);
/* Returns when the lease of that lock is over. */
void fixture_wait_expired(const char *type, int slot);
/* Moves the end of that lock as far ahead as only a clock that jumped can have. */
void fixture_jump(const char *type, int slot);
void fixture_put_v2(const char *type);
/* Makes that ledger one of v 2, all else as it was. */
void fixture_raise_v(const char *type);
/* One that ledger_read refuses, of no newer v. */
void fixture_put_malformed(const char *type);
/* Raises the epoch as the fence of an older pawl does, which knows no `guarded`. */
void fixture_fence_older(const char *type);

#endif
