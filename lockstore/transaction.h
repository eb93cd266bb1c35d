/*
 * transaction: write commands that see the data as of a past cluster time, each in a transaction of its own. Only on a replica set.
 *
 * A transactor holds a connection, and is used by one thread at a time; each call blocks for at most the connection's time-out, three
 * times: the command, its commit, and the abort when that fails.
 */
#ifndef PAWL_LOCKSTORE_TRANSACTION_H
#define PAWL_LOCKSTORE_TRANSACTION_H

#include "lockstore/mongo.h"

struct mongo_transactor;
/* NULL: no memory. */
MUST_CHECK struct mongo_transactor *mongo_transactor_new(struct mongo *mongo);
void mongo_transactor_free(struct mongo_transactor *transactor); /* NULL is allowed */
/*
 * Runs the command as of `at` (seconds << 32 | increment), and commits it (majority) if its reply's `n` is `expected`. YES: committed. NO:
 * nothing was done, and not worth trying again. UNKNOWN: whether it was committed. `command` is without concerns; fields are appended
 * to it. When `at` rises, everything that was committed through this transactor must be older than that.
 */
MUST_CHECK enum outcome mongo_transaction(struct mongo_transactor *transactor, const char *doing, bson_t *command, uint64_t at,
                                          int64_t expected, struct error *error);
/*
 * Ends transactions that a process of this program, database and user began and left (it died, or lost its connection), for what they have
 * touched is closed to others until the server does so by itself, after a minute. One that only pauses loses its transaction, which it
 * takes for any other refusal. Asks for no privilege. YES: looked, and none is left.
 */
MUST_CHECK enum outcome mongo_end_left_transactions(struct mongo *mongo, struct error *error);

#endif
