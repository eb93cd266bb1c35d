/*
 * mongo: the connection to MongoDB, and the rules for every request of pawl: the primary, `w: majority, j: true`, explicit
 * time-outs, one attempt per call, and three possible answers. Used by lockstore, and by the programs that read and write the
 * queue (worker/queue.c and pawl-enqueue); nothing else includes the driver.
 *
 * Written for libmongoc 1.23 and 2.x.
 *
 * The members of a replica set are discovered from any host that the URI names, as in MongoDB's other drivers; libmongoc alone
 * would use a single host only. `directConnection=true` in the URI, or options.direct, turns that off.
 *
 * Read concerns, as found on 6.0: a standalone takes local, available and majority; it refuses snapshot and linearizable (123
 * NotAReplicaSet) and afterClusterTime (20 IllegalOperation). `count` takes no snapshot anywhere.
 *
 * Any thread may use a `struct mongo`; each request takes a client of its own from the pool and blocks for at most the
 * time-out.
 */
#ifndef PAWL_LOCKSTORE_MONGO_H
#define PAWL_LOCKSTORE_MONGO_H

#include "base.h"
#include "lockstore/lockstore.h"

#include <mongoc/mongoc.h>

struct mongo;

/*
 * heartbeatFrequencyMS of a client without threads. Such a client checks its servers between two requests when this time is
 * over. With one connection the check shows nothing that a request does not show. And where the server is gone, drivers before
 * 1.25 may deadlock in the check (CDRIVER-4666).
 */
enum { MONGO_NEVER_MS = INT32_MAX };

/*
 * mongo_open does it, too. A program that may never open one calls it at its beginning, so that the driver leaves no file behind when
 * the process is killed. Starts no thread.
 */
void mongo_start(void);
/* In a program that may use the driver itself, before the first mongo_open: the driver's log and counters are left alone. */
void mongo_start_as_guest(void);
/* Does not connect. NULL: the URI or the database's name is wrong; the text never quotes the URI (see config_uri_redact). */
MUST_CHECK struct mongo *mongo_open(const struct lockstore_options *options, struct error *error);
void mongo_close(struct mongo *mongo);
const char *mongo_db(const struct mongo *mongo);
const char *mongo_server(const struct mongo *mongo);  /* the hosts of the URI, for people: "db1:27017,db2:27017" */
int64_t mongo_timeout_ms(const struct mongo *mongo);  /* of a request, */
int64_t mongo_majority_ms(const struct mongo *mongo); /* and of one that waits for the majority */
/* A client from the pool, or the single one; the caller gives it back. NULL: none came free within the time-out. */
MUST_CHECK mongoc_client_t *mongo_client_take(struct mongo *mongo, const char *doing, struct error *error);
void mongo_client_give(struct mongo *mongo, mongoc_client_t *client);
/* Call it before mongo_client_give: this client and all that are as old are not used again; the next mongo_client_take gets a new one. */
void mongo_client_leave(struct mongo *mongo, mongoc_client_t *client);
/* The client's connections have lost their login: its holder gives it back, and takes a new one. */
bool mongo_client_is_left(struct mongo *mongo, const mongoc_client_t *client);
/*
 * True: by this code and text the server no longer knows the connection's user, which was dropped, and perhaps made again. All
 * present clients are left. The server did not do the command that it refused so.
 */
bool mongo_login_lost(struct mongo *mongo, mongoc_client_t *client, int code, const char *text);
/* A number for a transaction, greater than any that this process has used. */
int64_t mongo_transaction_number(struct mongo *mongo);
/* The name by which the server knows connections of this program to this database, from any process: their appName is this, or
 * begins with it and a space. */
const char *mongo_program(const struct mongo *mongo);
/* The connection inside a lockstore; it lives as long as the lockstore. */
struct mongo *lockstore_mongo(struct lockstore *store);

/*
 * YES: pawl can work with the server, and it accepts writes. REFUSED: mongos, a member of a shard, or before 5.0. UNKNOWN:
 * everything else, also no primary.
 */
MUST_CHECK enum outcome mongo_hello(struct mongo *mongo, struct error *error);

/*
 * How far this machine's wall clock is ahead of the server's, as the last mongo_hello saw it: right within half the time of that request,
 * half a second at most, and a millisecond. False: not seen yet. For people and alerts; nothing depends on it.
 */
MUST_CHECK bool mongo_clock_offset(const struct mongo *mongo, int64_t *offset_us);

enum mongo_lack { MONGO_LACKS_TIMES, MONGO_LACKS_SNAPSHOTS, MONGO_LACKS };
/*
 * An answer lacked something that every MongoDB sends. UNKNOWN: ask again. REFUSED: this has lasted for five seconds without a
 * call of mongo_lacks_not.
 */
MUST_CHECK enum outcome mongo_lacks(struct mongo *mongo, enum mongo_lack what);
void mongo_lacks_not(struct mongo *mongo, enum mongo_lack what);
/*
 * Whether the last YES of mongo_hello is still valid (lockstore_prepare asks). It is not after a request without an answer, or
 * after the caller reports a lost connection (mongo_forget): the next answer may come from another server, or another version.
 */
bool mongo_is_known(const struct mongo *mongo);
void mongo_forget(struct mongo *mongo);
/* The latest operation time seen in a reply: seconds << 32 | increment; 0: none. */
uint64_t mongo_operation_time(const struct mongo *mongo);
/* True also while nothing is known, because requests for a replica set ask for more. */
bool mongo_is_replica_set(const struct mongo *mongo);
/* Whether the server has clustered collections (5.3 and later). Known after the first mongo_hello. */
bool mongo_makes_clustered(const struct mongo *mongo);
/*
 * For programs that insert, perhaps before any worker has run: makes `messages` as lockstore_prepare would, if it is missing
 * and the user has the right.
 */
void mongo_make_queue(struct mongo *mongo);
/* lockstore_prepare reports whether `messages` is clustered. */
void mongo_note_clustered(struct mongo *mongo, bool clustered);
/* mongo_was_prepared: whether lockstore_prepare has ever answered YES, and so had all rights that it needs. */
void mongo_note_prepared(struct mongo *mongo);
bool mongo_was_prepared(const struct mongo *mongo);
/*
 * The collection `wakeups` does not belong to pawl: pawl neither writes to it nor tails it. lockstore_prepare finds out;
 * mongo_survey_wakeups does so for programs that only insert, if the user may read the list.
 */
void mongo_avoid_wakeups(struct mongo *mongo, bool avoid);
bool mongo_avoids_wakeups(const struct mongo *mongo);
void mongo_survey_wakeups(struct mongo *mongo);
/* lockstore_prepare reports that it found no collection for wake-ups, and may make none. */
void mongo_note_without_wakeups(struct mongo *mongo);
bool mongo_has_wakeups(const struct mongo *mongo);
/* What lockstore_prepare found, for people: "MongoDB 6.0.5, a replica set; messages is clustered; …". */
void mongo_describe(const struct mongo *mongo, char *text, size_t size);

/*
 * Runs one command on the primary, once. YES: ok, with neither writeErrors nor writeConcernError. NO: only a duplicate key
 * (11000). UNKNOWN: everything else, because a time-out is no answer.
 *
 * *reply is initialised in any case, and the caller destroys it. Without YES, `error` begins with `doing` (where user, password
 * or rights are refused, "MongoDB refuses these credentials: " or "MongoDB does not permit it: " comes before it), and *code is
 * the server's code (0: none, a network failure; below 0: the driver's, which does not support this server).
 */
MUST_CHECK enum outcome mongo_command(struct mongo *mongo, const char *doing, const bson_t *command, bson_t *reply, int *code,
                                      struct error *error);
/* The same on a client that the caller holds, with the driver's options (a session, a server). */
MUST_CHECK enum outcome mongo_client_command(struct mongo *mongo, mongoc_client_t *client, const char *doing, const bson_t *command,
                                             const bson_t *opts, bson_t *reply, int *code, struct error *error);

/* The same in another database than pawl's. */
MUST_CHECK enum outcome mongo_db_command(struct mongo *mongo, mongoc_client_t *client, const char *db, const char *doing,
                                         const bson_t *command, const bson_t *opts, bson_t *reply, int *code, struct error *error);

/* How many documents a write matched. False: the answer does not say, and `error` has the reason. */
MUST_CHECK bool mongo_reply_count(const bson_t *reply, const char *doing, int64_t *count, struct error *error);

/* The answer to a find, an aggregate, a list or a getMore: an iterator over the documents inside the reply. */
struct mongo_batch {
  int64_t cursor; /* 0: there are no more */
  bson_iter_t documents;
};
/* False: the reply has no list, which no answer that is YES to a command for one is; the batch is empty then. */
bool mongo_reply_batch(const bson_t *reply, struct mongo_batch *batch);
/* The next document, which borrows the reply's bytes. Elements that are no documents are skipped. */
MUST_CHECK bool mongo_batch_next(struct mongo_batch *batch, bson_t *document);

/*
 * Runs a write, once, and destroys the command. Majority and journal unless the command says otherwise; the
 * server gives up before the client does. YES: *count as above.
 */
MUST_CHECK enum outcome mongo_write(struct mongo *mongo, const char *doing, bson_t *command, int64_t *count, struct error *error);

/*
 * The exit code for this outcome, the same in all programs: 0 YES; 1 NO; 2 what is there cannot be used (REFUSED), or a right
 * is missing; 69 no answer, or the credentials are refused.
 */
int mongo_exit_code(enum outcome outcome, const struct error *error);

/*
 * The driver's error for a request that did not go through these functions, as one printable line, with the same beginnings for
 * a refusal.
 */
void mongo_explain(const bson_error_t *driver, struct error *error);

/* Runs a `find` or `aggregate` with its getMores, in one session, and passes every document to `each`. Answers as above, but never NO. */
typedef void mongo_each(void *context, const bson_t *document);
/* Passes the documents of one reply to `each`. Returns the reply's cursor; 0: there are no more. */
int64_t mongo_batch_each(const bson_t *reply, mongo_each *each, void *context);
MUST_CHECK enum outcome mongo_find(struct mongo *mongo, const char *doing, const bson_t *command, mongo_each *each, void *context,
                                   struct error *error);

/* Appends writeConcern {w: "majority", j: true}. */
void mongo_append_write_concern(bson_t *command);
/*
 * Appends maxTimeMS, a little below the time-out, so that the server gives up first and the connection survives. Not for
 * getMore. Call it after the concerns are appended, because requests that wait for the majority have more time.
 */
void mongo_append_max_time(const struct mongo *mongo, bson_t *command);
/*
 * Appends readConcern `level`; on a standalone server always "local". With `after`, also afterClusterTime (nothing if no time
 * was seen).
 */
void mongo_append_read_concern(struct mongo *mongo, bson_t *command, const char *level, bool after);
/* Appends readConcern snapshot at that cluster time (mongo_operation_time's form); only on a replica set. */
void mongo_append_read_at(bson_t *command, uint64_t at);

#endif
