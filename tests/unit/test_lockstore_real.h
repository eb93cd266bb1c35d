/* Shared by the tests that need a real MongoDB; in addition to the functions of test_lockstore.h. */
#ifndef PAWL_TESTS_TEST_LOCKSTORE_REAL_H
#define PAWL_TESTS_TEST_LOCKSTORE_REAL_H

#include "lockstore/lockstore.h"

#include <bson/bson.h>

#define REAL_PROGRAM "pawl-test-lockstore"

struct lockstore *real_open(const char *name, int64_t timeout_ms);
/* Runs a command; `database` NULL: the store's. The test fails unless the command succeeds. */
void real_send(struct lockstore *at, const char *database, const bson_t *command);
/* The same, given as JSON. */
void real_run(struct lockstore *at, const char *database, const char *json);
/* Inserts a document given as JSON. */
void real_insert(const char *collection, const char *document);
/* The number of documents that a `find` returns; destroys the query. */
int real_count(struct lockstore *at, bson_t *query);
/* The server's fail points, for this program's connections: the next command only, or all but the first `skip` until no more. */
void real_fail_next(const char *data);
void real_fail_after(int skip, const char *data);
void real_fail_no_more(void);
/* Drops the database, and closes the store. */
void real_drop(struct lockstore *at);

#endif
