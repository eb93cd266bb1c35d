/*
 * lockstore: the mutexes and the ledger of pawl, in MongoDB.
 *
 * A mutex is a document in `locks` whose insert a unique index on {type, slot} decides; its lease runs on the server's
 * clock alone. A lease is advice: what protects the file is the ledger, one document a type, every change of which is a
 * compare-and-set on the epoch (the fencing token; see Kleppmann, "How to do distributed locking", 2016; the insert as the
 * decider follows Chubby's and etcd's create-if-absent). docs/protocol.md tells the whole.
 *
 * One of the seams: lockstore_memory.h is a twin with the same functions, in memory, which tests link in place of this one;
 * one suite runs against both.
 *
 * Threads: every function may be called from any thread at once. Each blocks for at most the time-out given to
 * lockstore_open (longer when a connection must be made first: finding the server and connecting have that time each; and
 * lockstore_prepare sends several requests). Memory: nothing that is returned needs freeing.
 */
#ifndef PAWL_LOCKSTORE_LOCKSTORE_H
#define PAWL_LOCKSTORE_LOCKSTORE_H

#include "base.h"

/*
 * Every call has one of these answers. UNKNOWN is the third beside yes and no: a time-out, a lost connection, a
 * writeConcernError: it may have happened, or may still happen. `error` is filled for UNKNOWN and REFUSED only.
 */
enum outcome {
  OUTCOME_YES,
  OUTCOME_NO,
  OUTCOME_UNKNOWN,
  OUTCOME_REFUSED, /* what is there cannot be used as it is, and trying again will not help: the text says what is expected */
};

enum { OWNER_BYTES = 16 };
struct owner { /* a random nonce, new for every acquisition */
  uint8_t bytes[OWNER_BYTES];
};

struct lockstore;

struct lockstore_options {
  const char *uri;     /* what it says about read and write concerns and time-outs is overridden */
  const char *db;      /* NULL or empty: the URI's, else "pawl" */
  int64_t timeout_ms;  /* of one request */
  int64_t majority_ms; /* of one that waits for the majority: a write, or a read of what was just written; 0: timeout_ms */
  int64_t await_ms;    /* a request may wait so long on the server, on top of timeout_ms; for a watcher (wakeup.h) alone, else 0 */
  int64_t prepared_ms; /* how long lockstore_is_known relies on what lockstore_prepare saw; 0: as long as nothing goes wrong */
  int connections_max; /* threads that may be in a call at once */
  const char *program; /* the server's log shows it as application name: PROGRAM@DB, and what the URI says behind it */
  bool retry_writes;   /* the driver sends a write a second time; for inserting into the queue, never for mutex and ledger */
  bool direct;         /* talk to the one host of the URI, whatever it is; else the replica set's members are discovered */
};

/* Does not connect. NULL: the URI is wrong; `error` says how, without the password. */
MUST_CHECK struct lockstore *lockstore_open(const struct lockstore_options *options, struct error *error);
void lockstore_close(struct lockstore *store);
/* Random, new for each lockstore: by it this process is woken (wakeup.h). */
const struct owner *lockstore_process(const struct lockstore *store);

/*
 * Looks at server and database, and makes what is missing: collections `messages`, `locks`, `ledger` and their indexes, and `wakeups`,
 * without which one can do: where it may not be made, or be made capped, that is no failure. The boxes beside it (wakeup.h) are made by
 * lockstore_prepare_boxes, for all processes, or by each watcher as it needs one.
 * Looking comes first: where all is there, the right to make collections and indexes is not needed. While a thread is at it, others wait
 * for its answer, which is theirs as well.
 * REFUSED: mongos; a member of a shard; a server before 5.0, or one that does not keep read concerns; an index on `locks` {type, slot} that
 * is not unique, or partial, or sparse, or that cannot be made; a collation other than simple; a view, a capped or time-series collection;
 * a TTL index; a right that is missing, unless it has said YES before: then that is UNKNOWN, for the right was there, and may come back.
 */
MUST_CHECK enum outcome lockstore_prepare(struct lockstore *store, struct error *error);
/*
 * False: to be prepared again. A request or a watcher had no answer since, and it may be another server now; or it is longer ago than
 * options.prepared_ms, and somebody may have put a TTL index there.
 */
bool lockstore_is_known(struct lockstore *store);
/* After lockstore_prepare; as it does it with `wakeups`. REFUSED: one of them is a view. */
MUST_CHECK enum outcome lockstore_prepare_boxes(struct lockstore *store, struct error *error);

/*
 * Only looks, as lockstore_prepare does. YES: it would take what is there, and make what is missing. REFUSED: it would not. UNKNOWN: no
 * answer, or this user has no right to look.
 */
MUST_CHECK enum outcome lockstore_inspect(struct lockstore *store, struct error *error);

/* ---- mutex ---- */

struct lock_holder { /* for people: who it is */
  char host[256];
  char boot[MACHINE_SIZE];
  char program[64];
  int64_t pid;
  int64_t started_wall_ms; /* the process; since 1970 UTC */
};

/* This process, under the name of its program. */
void lock_holder_self(struct lock_holder *holder, const char *program);

struct lock_view {
  struct owner owner;
  struct lock_holder holder;
  int64_t ttl_ms;
  int64_t left_ms; /* of the lease, by the server's clock; not above 0: expired */
  bool stealable;  /* expired, or its end lies so far ahead that a clock must have jumped */
  bool waits;      /* this process is in the row of those that are to be woken */
};

/*
 * Insert. YES: mine (also if it was already mine: a lost reply). NO: another holds it. On slot 0 it is acknowledged by the primary alone: a
 * fail-over may take it back as long as no later write of the same primary has its majority, such as the fence. Then it is a lock lost
 * early: the next lock_renew says NO. Who rests on the lock and not on the epoch renews it once after the fence, or reads it and finds his
 * owner there and the lease not over.
 */
MUST_CHECK enum outcome lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                  const struct lock_holder *holder, struct error *error);
/*
 * YES: held, `*view` tells by whom. NO: free. REFUSED: a lock document without a proper `owner`, which pawl did not write and no
 * call here removes; the text says how to. Any other field may be wrong and stays judged: an `expires_at` that is no date has
 * expired; a `ttl_ms` that is no number of 1 ms to 1 h counts as 1 h.
 */
MUST_CHECK enum outcome lock_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct error *error);
/*
 * Deletes the lock of the owner that was seen, if it may be stolen. NO: it is alive, or another's by now. Tells its process (wakeup.h), and
 * keeps the row of those that wait for the lock that is taken next.
 */
MUST_CHECK enum outcome lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error);
/* YES: a full lease from now. NO: lost. */
MUST_CHECK enum outcome lock_renew(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                                   struct error *error);
struct lock_renewal {
  const char *type; /* borrowed */
  int slot;
  struct owner owner;
  int64_t ttl_ms;
  enum outcome outcome; /* as of lock_renew */
};
/*
 * Several at once: one update for all of them (a thousand at most in one), and one look at what became of it. The answer is that of the
 * whole: YES, and the outcomes say more; or UNKNOWN, and so is each. A lease counts from before the call.
 */
MUST_CHECK enum outcome lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error);
/*
 * Puts this process into the row of those that are to be woken, one by one in the order in which they came, when the lock of that owner
 * is released: at the end, or where it was when it was woken and another was faster. YES: it is in it. NO: the lock is no longer that
 * owner's; look again. Whoever waits still looks by a timer: rows get lost with those that hold them.
 */
MUST_CHECK enum outcome lock_wait(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error);
/*
 * YES: deleted. NO: it was not there any more. Either way it is not mine afterwards, and never will be again. The first of those that wait
 * is woken before that is known for sure: when the primary alone has deleted it. `epoch` is the ledger's, if the caller knows it, else 0:
 * the wake-up carries it to whom it wakes, who may then take and fence without having read the ledger.
 */
MUST_CHECK enum outcome lock_release(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t epoch,
                                     struct error *error);

/* ---- ledger ---- */

/* The greatest epoch: a segment's name has room for 18 digits, so for every one. */
#define LEDGER_EPOCH_MAX ((int64_t)1 << 59)
/* False: no ledger has it, so none is fenced from it; `error` says so. */
MUST_CHECK bool ledger_epoch_has_next(const char *type, int64_t epoch, struct error *error);

struct ledger {
  int v;         /* 1. With REFUSED: above 1, a newer pawl is needed; else the document is malformed */
  int64_t epoch; /* 0: there is no ledger yet */
  bool has_owner;
  struct owner owner;
  bool clean;
  struct committed end;
  int64_t settled;
  char machine[MACHINE_SIZE]; /* boot id of the kernel that wrote the end; empty: none */
  int64_t guarded;            /* the epoch for which the end was vouched for last; 0: none */
};

/*
 * Does every process that may still have a write under way to the file hold its guard? By the number, which each fence moves on or
 * removes: an older pawl does neither, and what it leaves behind is of another epoch.
 */
static inline bool ledger_vouched(const struct ledger *ledger)
{
  return ledger->guarded != 0 && ledger->guarded == ledger->epoch;
}

/* YES: read (majority). NO: there is none; *ledger is all zero. REFUSED: of another v, or malformed. */
MUST_CHECK enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
/*
 * The same, linearizable (a standalone server: local): as it is at some moment of the call. ledger_read may be answered by a primary that
 * was replaced and does not know it yet, with what was true before; that will do where a compare-and-set or another look follows, and not
 * where something is taken away. Slow: a server with nothing to do answers when it next writes its journal, within 100 ms.
 */
MUST_CHECK enum outcome ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
/* What the new epoch may do to the file. */
enum fencer {
  FENCER_LOCAL,   /* write, with the guard: `clean` becomes false; a clean or vouched end is vouched for */
  FENCER_NETWORK, /* write, without a guard that others see: `clean` becomes false, and nothing is vouched for */
  FENCER_READER,  /* nothing: `clean` stays, and a vouched end stays vouched for */
};
/*
 * epoch_seen -> epoch_seen + 1, and owner; `clean` and `guarded` by the fencer. YES: *before is the document as it was; otherwise all
 * zero. NO: another was faster, or the ledger is of another v. REFUSED: fenced, but what was there is malformed (ledger_read would have
 * said so); or no ledger can have epoch_seen, and nothing was sent. epoch_seen 0: there was no ledger; it is made, not clean.
 */
MUST_CHECK enum outcome ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                     enum fencer fencer, struct ledger *before, struct error *error);
/*
 * The same once more, after UNKNOWN: reads the ledger (majority), which says what became of it, and fences only where that is open. `seen`:
 * the epoch, and `clean` and `guarded` as they were when the ledger was read at exactly that epoch. YES: *before as above, as far as that
 * can be known. NO: it is another's, or of no use. UNKNOWN: it may still come about; ask again, or let the lock go.
 */
MUST_CHECK enum outcome ledger_fence_again(struct lockstore *store, const char *type, const struct ledger *seen, const struct owner *owner,
                                           enum fencer fencer, struct ledger *before, struct error *error);

struct ledger_commit {
  int64_t epoch; /* mine */
  struct owner owner;
  struct committed before, after; /* equal: only `settled` and `clean` move */
  int64_t settled;                /* raised to this, never lowered */
  bool set_clean, clean;          /* set_clean: `clean` is written; it ends the epoch */
  const char *machine;            /* of the writer; NULL: left as it is */
  bool guarded;                   /* the writer holds the guard of the file: the end is vouched for; else that is left as it is */
};
/* YES: committed (also a repetition). NO: fenced. */
MUST_CHECK enum outcome ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error);
/* The same once more, after UNKNOWN: reads the ledger (majority) first, and sends it only where it was not done. Answers as above. */
MUST_CHECK enum outcome ledger_commit_again(struct lockstore *store, const char *type, const struct ledger_commit *commit,
                                            struct error *error);
/*
 * For adopting: as ledger_read, and where that says REFUSED, *found is the document as it was read, else NULL. The caller frees it.
 */
struct ledger_found;
MUST_CHECK enum outcome ledger_read_found(struct lockstore *store, const char *type, struct ledger *ledger, struct ledger_found **found,
                                          struct error *error);
void ledger_found_free(struct ledger_found *found); /* NULL is allowed */
/*
 * For adopting files whose ledger is lost or wrong: replaces the whole document, if it still is in the state `before` (epoch 0: there
 * was none), or, where it was REFUSED, still is the document `found`; nothing is vouched for. So a late copy replaces no later ledger. YES:
 * written. NO: it moved meanwhile. REFUSED: the new one is none that ledger_read would take.
 */
MUST_CHECK enum outcome ledger_put(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                                   const struct ledger *ledger, struct error *error);
/* Raises `settled`. NO: fenced. */
MUST_CHECK enum outcome ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                                      struct error *error);

/*
 * Removes the ledger of a lock that is not to be shown any more: the only way in which one goes. The caller holds the mutex and has fenced:
 * epoch and owner are his. NO: fenced, or there is, or was, a file: then it stays. The epochs of that name begin anew.
 */
MUST_CHECK enum outcome ledger_forget(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner,
                                      struct error *error);
/* After UNKNOWN: reads the ledger and judges, and sends the same once more where it is as it was. YES: it is gone. */
MUST_CHECK enum outcome ledger_forget_again(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner,
                                            struct error *error);

/*
 * For pawl-status: each ledger and each lock there is, in order of type. `problem` is NULL, or says why the document could not be
 * read; the rest is then what could. A type that is no string comes as JSON. `each` must not call back.
 */
typedef void ledger_each(void *context, const char *type, const struct ledger *ledger, const char *problem);
typedef void lock_each(void *context, const char *type, int slot, const struct lock_view *view, const char *problem);
MUST_CHECK enum outcome ledger_list(struct lockstore *store, ledger_each *each, void *context, struct error *error);
MUST_CHECK enum outcome lock_list(struct lockstore *store, lock_each *each, void *context, struct error *error);

#endif
