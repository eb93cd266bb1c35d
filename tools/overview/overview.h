/*
 * overview: what the database knows of every type at one moment: what waits and how old it is, who holds it and who waits for it, and
 * where its file ends. For pawl-status and pawl-monitor. It only reads, and makes no collection and no index.
 *
 * Three readings, so that a caller paces each of them by what it costs:
 *
 *   overview_read      ledgers, locks, wait queues, and of each type the oldest document: the server visits one index entry a type, however
 *                      many documents wait
 *   overview_count     how many documents wait: the server visits the index entry of each document, about a second for a few million; in
 *                      own collections it visits none, and the number may be wrong after a crash of the server
 *   overview_inspect   whether workers take the database: a few requests that read no documents
 *
 * Where the index {type: 1, _id: 1} on `messages` is missing (no worker and no pawl-setup has run yet) there is no cheap way to the oldest
 * document: then overview_read leaves this to overview_count (by_count), which reads each document. Where a document's `type` was ever an
 * array, MongoDB cannot skip in the index: then overview_read asks once for each type, and gives up after the time of one request.
 *
 * The age of a document comes from its ObjectId, by the server's clock, to the second. Where the oldest document's _id is none, the age is
 * the time since an overview of this process first saw exactly this document as the oldest of its type (`oldest_seen`): so it begins at 0
 * with the process, and again when the document before it was taken.
 *
 * One thread at a time uses an overview. The three readings block: for some requests, each at most the lockstore's time-out.
 * Memory: overview_free frees all that an overview owns; rows are valid until the next reading of the same overview.
 */
#ifndef PAWL_TOOLS_OVERVIEW_OVERVIEW_H
#define PAWL_TOOLS_OVERVIEW_OVERVIEW_H

#include "lockstore/ledger.h"
#include "lockstore/mutex.h"

enum { OVERVIEW_UNKNOWN = -1, OVERVIEW_WAITERS_MAX = 10 };

enum overview_kind {
  OVERVIEW_TYPE,
  OVERVIEW_LOCK,    /* of pawl-lock: it has never had a file */
  OVERVIEW_INVALID, /* not a valid type name: no worker can serve it. `type` is JSON then, in ASCII, cut to 80 bytes */
  OVERVIEW_UNTYPED, /* documents whose `type` is not a string: no worker takes them. `type` is OVERVIEW_UNTYPED_NAME */
  OVERVIEW_KINDS,
};
#define OVERVIEW_UNTYPED_NAME "(untyped)"
/* "type", "lock", "invalid", "untyped": for JSON. */
const char *overview_kind_name(enum overview_kind kind);
/* Why no worker takes documents of that kind, for people; NULL: nothing is wrong. */
const char *overview_kind_remark(enum overview_kind kind);

struct overview_row {
  char type[TYPE_BYTES_MAX + 1];
  enum overview_kind kind;

  /* the queue */
  bool waits;        /* at least one document is in the queue */
  int64_t queued;    /* documents, a bundle being one, as of overview.counted_at_ms; OVERVIEW_UNKNOWN. 0 as soon as none waits */
  int64_t oldest_ms; /* age of the oldest that waits; OVERVIEW_UNKNOWN: none waits, or it is not known (always for OVERVIEW_UNTYPED) */
  bool oldest_seen;  /* the age is the time since this process first saw it */

  /* Of a type with its own collection (ledger.own); queued, oldest and waits are over both collections. */
  bool own_waits;     /* at least one document is in its own collection */
  int64_t own_queued; /* of `queued`; OVERVIEW_UNKNOWN also where there is none */
  bool own_unknown;   /* its own collection could not be read: what waits in all is not known */
  int64_t refused;    /* so many documents there are no worker's, for their `type` is another; the first few are looked at */

  int64_t still_ms; /* for so long this process has seen documents wait and the ledger's seq stay the same; 0: it moves, or none waits */

  struct ledger ledger; /* all zero: there is none. Its pause, too; of a type that was moved away `moved` alone is set */
  bool ledger_malformed; /* it cannot be used: what is in `ledger` is not known to be so, `problem` says why */

  bool held;
  int holders;           /* of a lock with slots there may be several; `lock` is that of the first slot that is held */
  bool lock_malformed;   /* a lock document not written by pawl: `lock` is not valid, `problem` describes the document */
  struct lock_view lock; /* valid if held */

  int waiting;                 /* processes in the wait queue whose entries count */
  struct lock_holder *waiters; /* the first of them, in order: min(waiting, OVERVIEW_WAITERS_MAX). Of each host, pid, program and kind */

  char *problem; /* why the ledger or the lock cannot be used; NULL: nothing is wrong */

  /* A second; negative: not known. */
  double rate_out;      /* documents committed to the file since the earlier overview */
  double rate_messages; /* the same in messages: a bundle has many */
  double rate_in;       /* documents inserted between the last two counts */

  /* private */
  uint64_t oldest_hash;             /* of its _id */
  int64_t oldest_at_ms;             /* boot-time clock: first seen */
  int64_t still_at_ms;              /* since when; 0: not */
  int64_t counted, counted_settled; /* at the last count; OVERVIEW_UNKNOWN: not counted */
  int64_t counted_own;
};

struct overview {
  struct overview_row *rows; /* in order of type, by bytes */
  size_t count;
  char db[64];
  bool queue_known;         /* false: which types have messages could not be read: a time-out, a right */
  bool by_count;            /* there is no index: `waits` and the oldest are those of the last count */
  struct error queue_error; /* why it could not be read, or the own collection of a type (own_unknown); empty: all was */
  enum outcome usable;      /* workers take the database. REFUSED: they do not. UNKNOWN: not known, or overview_inspect was not called */
  struct error unusable;    /* unless YES; empty: overview_inspect was not called */
  int64_t server_ms;        /* wall clock by the database server, at the reading; milliseconds since 1970 */
  int64_t read_at_ms;       /* this process's boot-time clock; 0: never */
  int64_t counted_at_ms;    /* the same; 0: not counted yet, or the last count failed before it was known */
  int64_t count_took_ms;    /* how long the last count took */
};

/* Which types; count 0: all. The names are borrowed for the call. */
struct overview_types {
  const char (*names)[TYPE_BYTES_MAX + 1];
  size_t count;
};

/* The boot-time clock of read_at_ms and counted_at_ms. */
int64_t overview_now_ms(void);

/*
 * Fills *overview, which is all zero. `earlier` (NULL: none) is the last overview of the same types: counts, what overview_inspect found,
 * first-seen times, and rates come from it; it stays as it is, and the caller frees it. overview_free must follow, whatever the answer.
 *
 * UNKNOWN: no server, or no primary. REFUSED: a server that pawl cannot use, or no memory. YES also if the queue alone could not be read:
 * queue_known.
 */
MUST_CHECK enum outcome overview_read(struct overview *overview, struct lockstore *store, const struct overview_types *types,
                                      const struct overview *earlier, struct error *error);
/*
 * Counts what waits, in one request for all types, and computes rate_in from the count before. Types that came since overview_read get
 * rows, so pointers to rows end. Call it right after overview_read: rate_in compares the counts with the ledgers that this read.
 * Not YES: `queued` of each row is OVERVIEW_UNKNOWN, except where none waits.
 */
MUST_CHECK enum outcome overview_count(struct overview *overview, struct lockstore *store, const struct overview_types *types,
                                       struct error *error);
/* Sets `usable` and `unusable`. */
void overview_inspect(struct overview *overview, struct lockstore *store);
/* What overview_cut took away. */
struct overview_rest {
  size_t rows;
  int64_t unusable; /* documents of these that no worker takes, as far as they were counted */
};
/*
 * Keeps at most `max` rows: first those that somebody serves, served or waits for, then the others in order. So a producer that makes
 * up names takes no place from a type that has a file.
 */
void overview_cut(struct overview *overview, size_t max, struct overview_rest *rest);
void overview_free(struct overview *overview);

/* The row of that name; NULL: none. Fast. */
struct overview_row *overview_find(const struct overview *overview, const char *type);

#endif
