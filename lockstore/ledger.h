/*
 * ledger: where a type's file ends, and who may write it: one document a type, where every change is a compare-and-set on the
 * epoch, the fencing token. docs/protocol.md, The ledger, has the rules.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_LEDGER_H
#define PAWL_LOCKSTORE_LEDGER_H

#include "lockstore/lockstore.h"

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
  int slots;                  /* it is a lock with so many slots, and has no file; 0: it is not */
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
  bool clean;                     /* sets `clean`, which ends the epoch; otherwise unchanged */
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
 * Draws the token of a lock with several slots: raises the epoch by one, and sets the owner. The first makes the ledger. After
 * UNKNOWN it may be drawn again: then a token is left out.
 *
 * YES: *token. NO: the name has another number of slots, or it is a type, or a mutex: *slots; 0: it has none.
 */
MUST_CHECK enum outcome ledger_draw(struct lockstore *store, const char *type, int slots, const struct owner *owner, int64_t *token,
                                    int *found, struct error *error);

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
 * For pawl-status: lists every ledger, in order of type. `problem` is NULL, or says why the document could not be read; then the
 * other arguments have what could be read. A type that is not a string is given as JSON. `each` must not call the lockstore.
 */
typedef void ledger_each(void *context, const char *type, const struct ledger *ledger, const char *problem);
MUST_CHECK enum outcome ledger_list(struct lockstore *store, ledger_each *each, void *context, struct error *error);

#endif
