/* Shared by the tests that need a real MongoDB; in addition to the functions of test_lockstore.h. */
#ifndef PAWL_TESTS_TEST_LOCKSTORE_REAL_H
#define PAWL_TESTS_TEST_LOCKSTORE_REAL_H

#include "lockstore/lockstore.h"

#define REAL_PROGRAM "pawl-test-lockstore"

struct lockstore *real_open(const char *name, int64_t timeout_ms);
/* Runs a command given as JSON; `database` NULL: the store's. The test fails unless the command succeeds. */
void real_run(struct lockstore *at, const char *database, const char *json);
/* Drops the database, and closes the store. */
void real_drop(struct lockstore *at);

#endif
