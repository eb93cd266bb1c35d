/*
 * lockstore: the mutexes and the ledger of pawl, in MongoDB.
 *
 * A mutex is a document in `locks`; a unique index on {type, slot} decides whose insert succeeds, and its lease runs on the
 * server's clock alone. A lease is advice. The ledger protects the file: one document per type, where every change is a
 * compare-and-set on the epoch (the fencing token; see Kleppmann, "How to do distributed locking", 2016; the deciding insert
 * follows Chubby's and etcd's create-if-absent). docs/protocol.md has all rules.
 *
 * This is one of the seams: lockstore_memory.h is a twin with the same functions, in memory, which tests link in place of this
 * one. One test suite runs against both.
 *
 * Threads: any thread may call any function at any time. Each call blocks for at most the time-out given to lockstore_open. It
 * may take longer when a connection must be made first (finding the server and connecting have that time each), and
 * lockstore_prepare sends several requests. Memory: the caller frees nothing that a function returns, unless its comment says
 * so.
 */
#ifndef PAWL_LOCKSTORE_LOCKSTORE_H
#define PAWL_LOCKSTORE_LOCKSTORE_H

#include "base.h"

/*
 * The possible answers of every call. UNKNOWN is the third beside yes and no: after a time-out, a lost connection or a
 * writeConcernError the request may have been done, or may still be done. `error` is filled for UNKNOWN and REFUSED only.
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
  int64_t await_ms;    /* how long a request may wait on the server, on top of timeout_ms; only for a watcher (wakeup.h), otherwise 0 */
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
 * False: call lockstore_prepare again. Either a request or a watcher got no answer since, and the server may be another one
 * now; or the last check is older than options.prepared_ms, and somebody may have added a TTL index.
 */
bool lockstore_is_known(struct lockstore *store);

/*
 * Checks as lockstore_prepare does, and changes nothing. YES: lockstore_prepare would accept what is there, and make what is
 * missing. REFUSED: it would not. UNKNOWN: no answer, or this user has no right to read it.
 */
MUST_CHECK enum outcome lockstore_inspect(struct lockstore *store, struct error *error);

/* ---- mutex: the requests. acquire.h is how to use them ---- */

enum lock_kind { LOCK_BY_WORKER, LOCK_BY_TOOL }; /* each kind lets the other have its turn */

struct lock_holder { /* for people: names the holder */
  char host[256];
  char boot[MACHINE_SIZE];
  char program[64];
  enum lock_kind kind; /* not only for people: whose turn it is depends on it */
  int64_t pid;
  int64_t started_wall_ms; /* start of the process, since 1970 UTC */
};

/* Fills in this process, with the name of its program. */
void lock_holder_self(struct lock_holder *holder, enum lock_kind kind, const char *program);

struct lock_view {
  struct owner owner;
  struct lock_holder holder;
  int64_t ttl_ms;
  int64_t left_ms; /* rest of the lease, by the server's clock; 0 or below: expired */
  bool stealable;  /* expired, or its end lies so far ahead that a clock must have jumped */
};

/*
 * Inserts the lock document. YES: mine (also if it was already mine: a lost reply). NO: another holds the lock.
 *
 * On slot 0 the primary alone acknowledges the insert. A fail-over may take it back until a later write of the same primary,
 * such as the fence, has its majority. Then the lock was lost early, and the next lock_renew answers NO. A caller that relies
 * on the lock, and not on the epoch, renews it once after the fence, or reads it and finds its own owner and a lease that is
 * not over.
 */
MUST_CHECK enum outcome lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                  const struct lock_holder *holder, struct error *error);
/*
 * YES: held, `*view` names the holder. NO: free. REFUSED: the lock document has no proper `owner`. pawl did not write it, and
 * no call here removes it; `error` says how to. Any other field may be wrong and is still judged: an `expires_at` that is no
 * date counts as expired; a `ttl_ms` that is no number of 1 ms to 1 h counts as 1 h.
 */
MUST_CHECK enum outcome lock_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct error *error);
/*
 * Deletes the lock of the owner that the caller saw, if it may be stolen. NO: it is alive, or belongs to another by now.
 * Notifies the old holder's process (wakeup.h).
 */
MUST_CHECK enum outcome lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error);
/* YES: the lock has a full lease from now. NO: it is lost. */
MUST_CHECK enum outcome lock_renew(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                   struct error *error);
struct lock_renewal {
  const char *type; /* borrowed */
  int slot;
  enum lock_kind kind;
  struct owner owner;
  int64_t ttl_ms;
  enum outcome outcome; /* as lock_renew answers */
  bool awaited;         /* YES: a process of the other kind waits for it */
};
/*
 * Renews several locks: one update for all (at most a thousand per update), and one read of the result. YES: each `outcome` has
 * the answer for its lock. UNKNOWN: so is each `outcome`. A lease counts from before the call.
 */
MUST_CHECK enum outcome lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error);
/* Deletes my lock, as the primary alone acknowledges. NO: it was not there. */
MUST_CHECK enum outcome lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);
/*
 * Deletes my lock if a fail-over has brought it back; as a rule it finds nothing. YES and NO: it is gone, and the majority knows
 * that.
 */
MUST_CHECK enum outcome lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error);

/* ---- ledger ---- */

/* The greatest epoch. Every epoch fits into a segment's name, which has room for 18 digits. */
#define LEDGER_EPOCH_MAX ((int64_t)1 << 59)
/* False: no ledger can have this epoch, so no fence can start from it; `error` says so. */
MUST_CHECK bool ledger_epoch_has_next(const char *type, int64_t epoch, struct error *error);

struct ledger {
  int v;         /* 1. With REFUSED: above 1, a newer pawl is needed; otherwise the document is malformed */
  int64_t epoch; /* 0: there is no ledger yet */
  bool has_owner;
  struct owner owner;
  bool clean;
  struct committed end;
  int64_t settled;
  char machine[MACHINE_SIZE]; /* boot id of the kernel that wrote the end; empty: none */
  int64_t guarded;            /* the last epoch for which the end was vouched for; 0: none */
};

/*
 * Whether every process that may still have a write under way to the file holds its guard. It compares epochs, because each
 * fence raises or removes `guarded`. An older pawl does neither, so the value that it leaves belongs to another epoch.
 */
static inline bool ledger_vouched(const struct ledger *ledger)
{
  return ledger->guarded != 0 && ledger->guarded == ledger->epoch;
}

/* YES: read (majority). NO: there is none; *ledger is all zero. REFUSED: of another v, or malformed. */
MUST_CHECK enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
/*
 * Reads the ledger linearizable (a standalone server: local), as it is at some moment of the call. A primary that was replaced
 * and does not know it yet may answer ledger_read with an old state. That is enough before a compare-and-set or another read,
 * but not before something is removed. Slow: an idle server answers when it next writes its journal, within 100 ms.
 */
MUST_CHECK enum outcome ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
/* What the new epoch may do to the file. */
enum fencer {
  FENCER_LOCAL,   /* write, with the guard: `clean` becomes false; a clean or vouched end is vouched for */
  FENCER_NETWORK, /* write, without a guard that others see: `clean` becomes false, and the end is not vouched for */
  FENCER_READER,  /* nothing: `clean` stays, and a vouched end stays vouched for */
};
/*
 * Moves the ledger from epoch_seen to epoch_seen + 1, and sets the owner; `clean` and `guarded` follow from the fencer. With
 * epoch_seen 0 there was no ledger, and the fence makes one that is not clean.
 *
 * YES: *before is the document as it was; otherwise *before is all zero. NO: another was faster, or the ledger has another v.
 * REFUSED: fenced, but the old document is malformed (ledger_read would have said so); or no ledger can have epoch_seen, and
 * nothing was sent.
 */
MUST_CHECK enum outcome ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                     enum fencer fencer, struct ledger *before, struct error *error);
/*
 * Repeats the fence after UNKNOWN: reads the ledger (majority), which shows whether the fence was done, and fences again only
 * if that is open. `seen` has the epoch, and `clean` and `guarded` as they were when the ledger was read at exactly that epoch.
 *
 * YES: *before as above, as far as that can be known. NO: the epoch belongs to another, or the ledger cannot be used. UNKNOWN:
 * the fence may still be done; ask again, or release the lock.
 */
MUST_CHECK enum outcome ledger_fence_again(struct lockstore *store, const char *type, const struct ledger *seen, const struct owner *owner,
                                           enum fencer fencer, struct ledger *before, struct error *error);

struct ledger_commit {
  int64_t epoch; /* mine */
  struct owner owner;
  struct committed before, after; /* equal: only `settled` and `clean` change */
  int64_t settled;                /* raised to this, never lowered */
  bool set_clean, clean;          /* set_clean: write `clean`, which ends the epoch */
  const char *machine;            /* of the writer; NULL: unchanged */
  bool guarded;                   /* the writer holds the file's guard: the end is vouched for; otherwise unchanged */
};
/* YES: committed (also if it was committed before). NO: fenced. */
MUST_CHECK enum outcome ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error);
/* Repeats the commit after UNKNOWN: reads the ledger (majority) first, and sends the commit only if it was not done. Answers as above. */
MUST_CHECK enum outcome ledger_commit_again(struct lockstore *store, const char *type, const struct ledger_commit *commit,
                                            struct error *error);
/* For adopting: reads as ledger_read does. On REFUSED *found is the document as it was read, otherwise NULL. The caller frees it. */
struct ledger_found;
MUST_CHECK enum outcome ledger_read_found(struct lockstore *store, const char *type, struct ledger *ledger, struct ledger_found **found,
                                          struct error *error);
void ledger_found_free(struct ledger_found *found); /* NULL is allowed */
/*
 * For adopting files whose ledger is lost or wrong: replaces the whole document, if it is still in the state `before` (epoch 0:
 * there was none), or, if it was REFUSED, still equals the document `found`. So a late copy replaces no later ledger. The new
 * end is not vouched for. YES: written. NO: the ledger moved meanwhile. REFUSED: ledger_read would refuse the new one.
 */
MUST_CHECK enum outcome ledger_put(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                                   const struct ledger *ledger, struct error *error);
/* Raises `settled`. NO: fenced. */
MUST_CHECK enum outcome ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                                      struct error *error);

/*
 * Removes the ledger of a lock that shall no longer be shown; nothing else removes a ledger. The caller holds the mutex and has
 * fenced: epoch and owner are the caller's. NO: fenced, or there is, or was, a file; then the ledger stays. Afterwards the
 * epochs of that name begin anew.
 */
MUST_CHECK enum outcome ledger_forget(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner,
                                      struct error *error);
/* After UNKNOWN: reads the ledger and judges; sends the same request again if the ledger is unchanged. YES: it is gone. */
MUST_CHECK enum outcome ledger_forget_again(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner,
                                            struct error *error);

/*
 * For pawl-status: lists every ledger, or every lock, in order of type. `problem` is NULL, or says why the document could not
 * be read; then the other arguments have what could be read. A type that is no string comes as JSON. `each` must not call the
 * lockstore.
 */
typedef void ledger_each(void *context, const char *type, const struct ledger *ledger, const char *problem);
typedef void lock_each(void *context, const char *type, int slot, const struct lock_view *view, const char *problem);
MUST_CHECK enum outcome ledger_list(struct lockstore *store, ledger_each *each, void *context, struct error *error);
MUST_CHECK enum outcome lock_list(struct lockstore *store, lock_each *each, void *context, struct error *error);

#endif
