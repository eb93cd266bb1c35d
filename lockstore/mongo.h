/*
 * mongo: the connection to MongoDB and the habits that every request of pawl keeps: the primary, `w: majority, j: true`,
 * explicit time-outs, one attempt a call, and the three-valued reading of a reply. Used by lockstore, and by the programs
 * that read and write the queue (worker/queue.c and pawl-enqueue); nothing else includes the driver.
 *
 * Written for libmongoc 1.23 and 2.x.
 *
 * The members of a replica set are discovered from whichever host the URI names, as in MongoDB's other drivers; libmongoc alone
 * would stick to a single host. `directConnection=true` in the URI, or options.direct, turns that off.
 *
 * Read concerns, as found on 6.0: a standalone takes local, available and majority; it refuses snapshot and linearizable
 * (123 NotAReplicaSet) and afterClusterTime (20 IllegalOperation). `count` takes no snapshot anywhere.
 *
 * A `struct mongo` may be used from any thread; each request takes a client of its own from the pool and blocks for at most
 * the time-out.
 */
#ifndef PAWL_LOCKSTORE_MONGO_H
#define PAWL_LOCKSTORE_MONGO_H

#include "base.h"
#include "lockstore/lockstore.h"

#include <mongoc/mongoc.h>

struct mongo;

/*
 * heartbeatFrequencyMS of a client without threads, which looks at its servers between two requests when that time is over. With one
 * connection the look tells nothing that a request does not tell; and where the server is gone, drivers before 1.25 may wait for themselves
 * for good (CDRIVER-4666).
 */
enum { MONGO_NEVER_MS = INT32_MAX };

/* Does not connect. NULL: the URI or the database's name is wrong; the text never quotes the URI (see config_uri_redact). */
MUST_CHECK struct mongo *mongo_open(const struct lockstore_options *options, struct error *error);
void mongo_close(struct mongo *mongo);
const char *mongo_db(const struct mongo *mongo);
const char *mongo_server(const struct mongo *mongo);  /* the hosts of the URI, for people: "db1:27017,db2:27017" */
int64_t mongo_timeout_ms(const struct mongo *mongo);  /* of a request, */
int64_t mongo_majority_ms(const struct mongo *mongo); /* and of one that waits for the majority */
/* A client of the pool, or that one; the caller gives it back. NULL: none came free within the time-out. */
MUST_CHECK mongoc_client_t *mongo_client_take(struct mongo *mongo, const char *doing, struct error *error);
void mongo_client_give(struct mongo *mongo, mongoc_client_t *client);
/* Before it is given back: it and all that are as old are not used again; who asks for one then gets a new one. */
void mongo_client_leave(struct mongo *mongo, mongoc_client_t *client);
/* Its connections have lost their login: to be given back by who keeps it, for a new one. */
bool mongo_client_is_left(struct mongo *mongo, const mongoc_client_t *client);
/*
 * True: by this code and text the server does not know the connection's user any more, who was dropped, and perhaps made again. All clients
 * of now are left; a command that was so refused was not done.
 */
bool mongo_login_lost(struct mongo *mongo, mongoc_client_t *client, int code, const char *text);
/* A number that this process has not used for a transaction yet, above all it has. */
int64_t mongo_transaction_number(struct mongo *mongo);
/* By which the server knows connections of this program to this database, of any process: their appName is that, or begins with it and a
 * space. */
const char *mongo_program(const struct mongo *mongo);
/* The connection inside a lockstore; it lives as long as the lockstore does. */
struct mongo *lockstore_mongo(struct lockstore *store);

/*
 * YES: a server that pawl can work with, and it takes writes. REFUSED: mongos, a member of a shard, or before 5.0. UNKNOWN: all else, no
 * primary too.
 */
MUST_CHECK enum outcome mongo_hello(struct mongo *mongo, struct error *error);

enum mongo_lack { MONGO_LACKS_TIMES, MONGO_LACKS_SNAPSHOTS, MONGO_LACKS };
/* What each MongoDB has was not in an answer. UNKNOWN: ask again; REFUSED: it has been so for five seconds, without mongo_lacks_not. */
MUST_CHECK enum outcome mongo_lacks(struct mongo *mongo, enum mongo_lack what);
void mongo_lacks_not(struct mongo *mongo, enum mongo_lack what);
/*
 * Whether what mongo_hello said YES to still stands (lockstore_prepare calls it): no longer when a request had no answer, or a connection
 * was lost that the caller knows of, for the next answer may come from another server, or another version.
 */
bool mongo_is_known(const struct mongo *mongo);
void mongo_forget(struct mongo *mongo);
/* The latest that was seen in a reply: seconds << 32 | increment; 0: none. */
uint64_t mongo_operation_time(const struct mongo *mongo);
/* As long as nothing is known: true, for it asks more. */
bool mongo_is_replica_set(const struct mongo *mongo);
/* Clustered collections, 5.3 and later. Known after the first mongo_hello. */
bool mongo_makes_clustered(const struct mongo *mongo);
/* For who inserts, perhaps before any worker was there: makes `messages` as lockstore_prepare would, if it is missing, and it may. */
void mongo_make_queue(struct mongo *mongo);
/* Whether `messages` is clustered: lockstore_prepare says so. */
void mongo_note_clustered(struct mongo *mongo, bool clustered);
/* Whether lockstore_prepare has ever said YES, and so had all rights that it needs. */
void mongo_note_prepared(struct mongo *mongo);
bool mongo_was_prepared(const struct mongo *mongo);
/*
 * The collections for wake-ups that are not pawl's, and are neither written to nor watched: by number (bit 0: `wakeups`, 1 + N:
 * `wakeups.N`). The others may be missing. lockstore_prepare finds out; and mongo_survey_wakeups for who only inserts, if this user may
 * look.
 */
void mongo_avoid(struct mongo *mongo, uint32_t numbers);
uint32_t mongo_avoided(const struct mongo *mongo);
bool mongo_avoids(const struct mongo *mongo, const char *collection);
void mongo_survey_wakeups(struct mongo *mongo);
/* lockstore_prepare and lockstore_prepare_boxes say that they found no collections for wake-ups, and may make none. */
void mongo_note_without_wakeups(struct mongo *mongo);
bool mongo_has_wakeups(const struct mongo *mongo);
/* What lockstore_prepare found, for people: "MongoDB 6.0.5, a replica set; messages is clustered; …". */
void mongo_describe(const struct mongo *mongo, char *text, size_t size);

/*
 * Runs one command on the primary, once. YES: ok, with neither writeErrors nor writeConcernError; *reply is initialised in any case and
 * the caller destroys it. Otherwise `error` begins with `doing` (where user, password or rights are refused, with
 * "MongoDB refuses these credentials: " or "MongoDB does not permit it: " before it), and *code is the server's code (0: none: the
 * network; below 0: the driver's, which does not speak to this server). Only a duplicate key (11000) is NO; all else is UNKNOWN, for a
 * time-out is no answer.
 */
MUST_CHECK enum outcome mongo_command(struct mongo *mongo, const char *doing, const bson_t *command, bson_t *reply, int *code,
                                      struct error *error);
/* The same on a client that the caller holds, with the driver's options (a session, a server). */
MUST_CHECK enum outcome mongo_client_command(struct mongo *mongo, mongoc_client_t *client, const char *doing, const bson_t *command,
                                             const bson_t *opts, bson_t *reply, int *code, struct error *error);

/* And in another database than pawl's. */
MUST_CHECK enum outcome mongo_db_command(struct mongo *mongo, mongoc_client_t *client, const char *db, const char *doing,
                                         const bson_t *command, const bson_t *opts, bson_t *reply, int *code, struct error *error);

/* How many documents a write has met. False: the answer does not say, and `error` does. */
MUST_CHECK bool mongo_reply_count(const bson_t *reply, const char *doing, int64_t *count, struct error *error);

/* What a find, an aggregate, a list or a getMore answers: a walk over its documents, inside the reply. */
struct mongo_batch {
  int64_t cursor; /* 0: there is no more */
  bson_iter_t documents;
};
/* False: the reply has no such shape; the batch is empty then. */
bool mongo_reply_batch(const bson_t *reply, struct mongo_batch *batch);
/* The next document, which borrows the reply's bytes; what is none is passed over. */
MUST_CHECK bool mongo_batch_next(struct mongo_batch *batch, bson_t *document);

/*
 * A write of one statement: the command, destroyed, once; majority and journal unless it says otherwise; the server gives up first. YES:
 * *count as above.
 */
MUST_CHECK enum outcome mongo_write(struct mongo *mongo, const char *doing, bson_t *command, int64_t *count, struct error *error);

/*
 * The exit code of a program that ends with this outcome, the same in all: 0 YES; 1 NO; 2 what is there cannot be used (REFUSED), or a
 * right is missing; 69 no answer, or the credentials are refused.
 */
int mongo_exit_code(enum outcome outcome, const struct error *error);

/* What the driver says of a request that was not made by these: as one printable line, with the same beginnings for a refusal. */
void mongo_explain(const bson_error_t *driver, struct error *error);

/*
 * Runs a `find` or `aggregate`, with the getMores it takes, in one session, and hands every document to `each`. The outcome as above, never
 * NO.
 */
typedef void mongo_each(void *context, const bson_t *document);
/* Those of one reply. Returns its cursor; 0: there is no more. */
int64_t mongo_batch_each(const bson_t *reply, mongo_each *each, void *context);
MUST_CHECK enum outcome mongo_find(struct mongo *mongo, const char *doing, const bson_t *command, mongo_each *each, void *context,
                                   struct error *error);

/* Appends writeConcern {w: "majority", j: true}. */
void mongo_append_write_concern(bson_t *command);
/*
 * Appends maxTimeMS, a little below the time-out: the server gives up first, and the connection survives. Not for getMore. After the
 * concerns, for what waits for the majority has more time.
 */
void mongo_append_max_time(const struct mongo *mongo, bson_t *command);
/* Appends readConcern `level`; on a standalone server always "local". With `after`, afterClusterTime as well (nothing if none was seen). */
void mongo_append_read_concern(struct mongo *mongo, bson_t *command, const char *level, bool after);

#endif
