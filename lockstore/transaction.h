/*
 * transaction: write commands that see the data as of a past cluster time, each in a transaction of its own. Only on a replica
 * set.
 *
 * A transactor holds a connection, and one thread uses it at a time. Each call blocks for at most three times the connection's
 * time-out: for the command, its commit, and the abort when that fails.
 */
#ifndef PAWL_LOCKSTORE_TRANSACTION_H
#define PAWL_LOCKSTORE_TRANSACTION_H

#include "lockstore/mongo.h"

struct mongo_transactor;
/* NULL: no memory. */
MUST_CHECK struct mongo_transactor *mongo_transactor_new(struct mongo *mongo);
void mongo_transactor_free(struct mongo_transactor *transactor); /* NULL is allowed */
/*
 * Runs the command as of `at` (seconds << 32 | increment), and commits it (majority) if its reply's `n` equals `expected`. YES:
 * committed. NO: not done, and another attempt is not worth it. UNKNOWN: it may be committed. `command` comes without concerns;
 * this function appends fields to it. When `at` rises, everything that was committed through this transactor must be older than
 * `at`.
 */
MUST_CHECK enum outcome mongo_transaction(struct mongo_transactor *transactor, const char *doing, bson_t *command, uint64_t at,
                                          int64_t expected, struct error *error);
/*
 * Ends transactions that a process of this program, database and user left open (it died, or lost its connection). Otherwise
 * their documents stay locked for others until the server ends the transactions by itself, after a minute. A process that only
 * pauses loses its transaction, and treats that like any other refusal. Needs no privilege. YES: the search was done, and none
 * is left.
 */
MUST_CHECK enum outcome mongo_end_left_transactions(struct mongo *mongo, struct error *error);

#endif
