/*
 * transaction: write commands that see the data as of a past cluster time, each in a transaction of its own; or several commands in one.
 * Only on a replica set.
 *
 * Each call blocks for at most the connection's time-out for each command, and twice more: for the commit, and the abort when that
 * fails.
 */
#ifndef PAWL_LOCKSTORE_TRANSACTION_H
#define PAWL_LOCKSTORE_TRANSACTION_H

#include "lockstore/mongo.h"

/*
 * From any thread: it takes one of the process's transactors, of which there are as many as there were such calls at once. Each holds
 * a connection, and thousands of sessions where passes last. Runs the command as of `at` (seconds << 32 | increment), and commits it
 * (majority) if its reply's `n` equals `expected`. YES: committed. NO: not done, and another attempt is not worth it. UNKNOWN: it may be
 * committed. `command` comes without concerns; this function appends fields to it.
 */
MUST_CHECK enum outcome mongo_transaction(struct mongo *mongo, const char *doing, bson_t *command, uint64_t at, int64_t expected,
                                          struct error *error);

struct mongo_transactor; /* holds a connection, and one thread uses it at a time */
/* NULL: no memory. */
MUST_CHECK struct mongo_transactor *mongo_transactor_new(struct mongo *mongo);
void mongo_transactor_free(struct mongo_transactor *transactor); /* NULL is allowed */
/* A command of a transaction of several. It comes without concerns, and fields are appended to it. */
struct mongo_step {
  const char *doing;
  bson_t *command;
  int64_t expected;     /* what `n` of its reply must be, */
  const bson_t *result; /* or, for a find: the one document that must come back, byte for byte; NULL: none */
};
/*
 * Runs the commands in one transaction on the data as it is now, and commits it (majority) if all went as expected. YES: all of it is done.
 * NO: nothing is, and `error` says why. UNKNOWN: all of it or nothing. Never a part.
 */
MUST_CHECK enum outcome mongo_transaction_steps(struct mongo_transactor *transactor, const struct mongo_step *steps, size_t count,
                                                struct error *error);
/* After a NO: it met another's change, or its lock, so another attempt may succeed. */
bool mongo_transaction_conflicted(const struct mongo_transactor *transactor);
/*
 * Ends transactions that a process of this program, database and user left open (it died, or lost its connection). Otherwise
 * their documents stay locked for others until the server ends the transactions by itself, after a minute. A process that only
 * pauses loses its transaction, and treats that like any other refusal. Needs no privilege. YES: the search was done, and none
 * is left.
 */
MUST_CHECK enum outcome mongo_end_left_transactions(struct mongo *mongo, struct error *error);

#endif
