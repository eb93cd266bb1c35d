/*
 * The suite that the lock library must pass on MongoDB and in memory: what its files share, and what they need from the backend.
 * test_lock_memory.c provides the one in memory, test_lock_real.c the one at PAWL_TEST_URI, in a database that is dropped at the
 * end.
 */
#ifndef PAWL_TESTS_TEST_LOCK_H
#define PAWL_TESTS_TEST_LOCK_H

#include "unit_test.h"

#include <bson/bson.h>
#include <pawl/lock.h>

#define MY_NAME __func__ /* each test has a lock of its own */
#define LOCK_TEST(name) TEST_WITH(name, NULL, world_end)

/* Closes what a test has opened. */
int world_end(void **state);

extern const int64_t lease_ms;
extern struct pawl_error error;

/* Another handle, as of another process; closed by the end of the test at the latest. */
struct pawl *handle_open(void);
void handle_close(struct pawl *pawl);
/* Opens one with these options, and with what the backend needs, and closes it. */
enum pawl_result handle_try(struct pawl_options options);
/* Time passes, for all of them. */
void pass_ms(int64_t ms);
/* The next one that tells how a hold goes on; WAITS, AWAY and BACK are passed over. At most some leases pass until then. */
struct pawl_event event_of(struct pawl *pawl);
/* The database gives it no answer, or does so again. */
void handle_cut_off(struct pawl *pawl, bool away);

/* A document of a collection, and how the first is now that matches, for the caller to destroy; NULL: none. */
void document_put(const char *collection, const bson_t *document);
bson_t *document_get(const char *collection, const bson_t *filter);

/* pawl_take, which must succeed. */
pawl_hold take(struct pawl *pawl, const char *name);
/* pawl_take_begin of one name; it must begin. */
pawl_hold begin(struct pawl *pawl, const char *name, int slots, int64_t wait_ms);
void release(struct pawl *pawl, pawl_hold hold);

#define assert_result(call, expected)                                                                                  \
  do {                                                                                                                 \
    enum pawl_result result_ = (call);                                                                                 \
    if (result_ != (expected))                                                                                         \
      fail_msg("%s is %s, expected %s: %s", #call, pawl_result_name(result_), pawl_result_name(expected), error.text); \
  } while (0)

#endif
