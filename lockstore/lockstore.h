/*
 * lockstore: the mutexes and the ledger of pawl, in MongoDB. Here is what their calls share: the store itself, and the answers.
 * mutex.h has the requests of a mutex (acquire.h is how to use them), ledger.h those of the ledger.
 *
 * A mutex is a document in `locks`; a unique index on {type, slot} decides whose insert succeeds, and its lease runs on the
 * server's clock alone. A lease is advice. The ledger protects the file: one document per type, where every change is a
 * compare-and-set on the epoch (the fencing token; see Kleppmann, "How to do distributed locking", 2016; the deciding insert
 * follows Chubby's and etcd's create-if-absent). docs/protocol.md has all rules.
 *
 * This is one of the seams: lockstore_memory.h is a twin with the same functions, in memory, which tests link in place of this
 * one. One test suite runs against both.
 *
 * Threads: any thread may call any function at any time. Each request waits for at most timeout_ms, or majority_ms. A call may
 * take longer: a connection may have to be made first (finding the server and connecting have that time each), and some calls
 * send several requests (lockstore_prepare; those of acquire.h, two to six). Memory: the caller frees nothing that a function returns,
 * unless its comment says so.
 */
#ifndef PAWL_LOCKSTORE_LOCKSTORE_H
#define PAWL_LOCKSTORE_LOCKSTORE_H

#include "base.h"

/*
 * The possible answers of every call. UNKNOWN is the third beside yes and no: after a time-out, a lost connection or a
 * writeConcernError the request may have been done, or may still be done. `error` is filled for UNKNOWN and REFUSED only.
 * With UNKNOWN error.reason says whether MongoDB did answer and refused the user or a right. That may be put right at the server
 * while a caller waits, so it is worth trying again; base.h has the reasons.
 */
enum outcome {
  OUTCOME_YES,
  OUTCOME_NO,
  OUTCOME_UNKNOWN,
  OUTCOME_REFUSED, /* what is there cannot be used, and trying again will not help: `error` says what is expected */
};

enum { OWNER_BYTES = 16, ADDRESS_BYTES = 8 };
struct owner { /* a nonce: ADDRESS_BYTES of the process, the rest new for every acquisition */
  uint8_t bytes[OWNER_BYTES];
};
struct address { /* the address of a lockstore, and so of its process, for wake-ups (wakeup.h) */
  uint8_t bytes[ADDRESS_BYTES];
};

struct lockstore;

struct lockstore_options {
  const char *uri;     /* its read and write concerns and its time-outs are overridden */
  const char *db;      /* NULL or empty: the URI's, else "pawl" */
  int64_t timeout_ms;  /* of one request */
  int64_t majority_ms; /* of one that waits for the majority: a write, or a read of what was just written; 0: timeout_ms */
  int64_t
      await_ms; /* how long a request may wait on the server, on top of timeout_ms; only for a reader of wake-ups (wakeup.h), otherwise 0 */
  int64_t prepared_ms; /* how long lockstore_is_known relies on lockstore_prepare; 0: until a request gets no answer */
  int connections_max; /* threads that may be in a call at the same time */
  const char *program; /* the application name in the server's log is PROGRAM@DB, then the name in the URI */
  bool retry_writes;   /* the driver sends a failed write a second time; only for inserts into the queue, never for mutex and ledger */
  bool direct;         /* talk to the URI's one host, whatever its role; otherwise discover the replica set's members */
};

/* Does not connect. NULL: the URI is wrong; `error` says why, without the password. */
MUST_CHECK struct lockstore *lockstore_open(const struct lockstore_options *options, struct error *error);
void lockstore_close(struct lockstore *store);
/* Random, new for each lockstore. */
const struct address *lockstore_address(const struct lockstore *store);
void lockstore_random(struct lockstore *store, void *bytes, size_t size);
/*
 * The id of the database, which no other has: that of its collection `ledger`, the same on each member of a replica set. Another one after
 * the collection was dropped, or restored from a dump. NO: there is no such collection. or it has no id. REFUSED: the right to look is
 * missing.
 */
MUST_CHECK enum outcome lockstore_database_id(struct lockstore *store, uint8_t id[16], struct error *error);

/*
 * Checks server and database, and makes what is missing: the collections `messages`, `locks` and `ledger` with their indexes,
 * and `wakeups`. pawl works without `wakeups`, so it is no failure if that cannot be made, or not as a capped one.
 *
 * The check comes first: where everything exists, no right to make collections and indexes is needed. While one thread checks,
 * the others wait for its answer and return the same.
 *
 * REFUSED: mongos; a member of a shard; a server before 5.0, or one that does not keep read concerns; an index on `locks`
 * {type, slot} that is not unique, or partial, or sparse, or that cannot be made; a collation other than simple; a view, a
 * capped or time-series collection; a TTL index; a missing right. A right that is missing after an earlier YES gives UNKNOWN,
 * because it was there, and may come back.
 */
MUST_CHECK enum outcome lockstore_prepare(struct lockstore *store, struct error *error);
/*
 * False: call lockstore_prepare again. Its last answer was not YES; or a request or a reader of wake-ups got no answer since, and the
 * server may be another one now; or the last check is older than options.prepared_ms: since then a TTL index may have been added.
 */
bool lockstore_is_known(struct lockstore *store);
/* When lockstore_prepare last answered, by the boot-time clock: so another value tells that it was called again. 0: it was not YES. */
int64_t lockstore_prepared_at_ms(struct lockstore *store);

/*
 * Checks the own collection of a type (ledger.h) as lockstore_prepare checks `messages`, and changes nothing. YES: it is there, and of use.
 * NO: it is missing. REFUSED, and UNKNOWN, as there.
 */
MUST_CHECK enum outcome lockstore_own_check(struct lockstore *store, const char *type, struct error *error);

/*
 * Checks as lockstore_prepare does, and the own collections of types, and changes nothing. YES: lockstore_prepare would accept what is
 * there, and make what is missing. REFUSED: it would not. UNKNOWN: no answer, or this user has no right to read it.
 */
MUST_CHECK enum outcome lockstore_inspect(struct lockstore *store, struct error *error);

#endif
