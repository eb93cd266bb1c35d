/*
 * ledger: where a type's file ends, and who may write it: one document a type, where every change is a compare-and-set on the
 * epoch, the fencing token. docs/protocol.md, The ledger, has the rules.
 *
 * Threads, blocking and memory: as lockstore.h says.
 */
#ifndef PAWL_LOCKSTORE_LEDGER_H
#define PAWL_LOCKSTORE_LEDGER_H

#include "lockstore/lockstore.h"
#include "lockstore/queue_name.h"

/* The greatest epoch. Every epoch fits into a segment's name, which has room for 18 digits. */
#define LEDGER_EPOCH_MAX ((int64_t)1 << 59)
/* False: no ledger can have this epoch, so no fence can start from it; `error` says so. */
MUST_CHECK bool ledger_epoch_has_next(const char *type, int64_t epoch, struct error *error);

/* Somebody keeps the workers away from a type. */
struct ledger_pause {
  uint8_t id[16]; /* drawn by the process that paused it */
  char by[128];   /* for people */
  char reason[256];
  int64_t at_ms; /* since 1970, by the server's clock */
};

/* A type goes on at another database. */
struct ledger_move {
  uint8_t id[16];        /* drawn by the process that moved it */
  uint8_t database[16];  /* lockstore_database_id of the new place */
  char to[256], by[128]; /* for people */
  int64_t at_ms;         /* since 1970, by the server's clock */
};

struct ledger {
  bool newer;    /* with REFUSED: a newer pawl is needed; otherwise the document is malformed */
  int64_t epoch; /* 0: there is no ledger yet */
  int64_t birth; /* epoch 0: one is being made, under this number; otherwise 0 */
  bool has_owner;
  struct owner owner;
  bool clean;
  struct committed end;
  int64_t settled;
  char machine[MACHINE_SIZE]; /* boot id of the kernel that wrote the end; empty: none */
  int slots;                  /* it is a lock with so many slots, and has no file; 0: it is not */
  int64_t guarded;            /* the last epoch for which the end was vouched for; 0: none */
  bool paused;                /* no worker takes the type; pawl-lock and adopting do */
  struct ledger_pause pause;
  bool own;               /* the type has a collection of its own beside `messages`; with REFUSED as far as `needs` could be read */
  enum queue_source from; /* of the block at `end`, and so of all that is not settled */
  bool moved;             /* no worker takes the type, and nothing fences: it goes on at another database (ledger_carry.h) */
  struct ledger_move move;
  bool carried; /* it came from another database, by the move with this id */
  uint8_t carried_id[16];
};

/*
 * Whether every process that may still have a write under way to the file holds its guard. It compares epochs, because each
 * fence raises or removes `guarded`. An older pawl does neither, so the value that it leaves belongs to another epoch.
 */
static inline bool ledger_vouched(const struct ledger *ledger)
{
  return ledger->guarded != 0 && ledger->guarded == ledger->epoch;
}

/* YES: read (majority). NO: there is none, or it is just being made; *ledger is all zero but for `birth`. REFUSED: a newer pawl is
 * needed, or it is malformed. */
MUST_CHECK enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error);
/* For a program that would fence the name: an outcome of ledger_read; REFUSED, with the reason, if the type was moved to another database.
 */
MUST_CHECK enum outcome ledger_moved(enum outcome outcome, const char *type, const struct ledger *ledger, struct error *error);
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
 * epoch_seen 0 there was no ledger, and the fence makes one that is not clean: its epoch is above all that the name ever had,
 * and some requests go before it.
 *
 * YES: *before is the document as it was, and mine is the epoch that follows on before->epoch: where there was no ledger, *before has
 * this number alone. Otherwise *before is all zero. NO: another was faster; the ledger needs a newer pawl; or
 * a worker must keep off it (it is paused), and the fencer is none that only reads. REFUSED: fenced, but the old
 * document is malformed (ledger_read would have said so); or no ledger can have epoch_seen, and nothing was sent.
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

/*
 * Pauses the type, with `id`, `by` and `reason` of *pause: the fence of a FENCER_READER that in the same step keeps the workers away. So
 * no worker that has read the ledger before takes it up. Answers as ledger_fence; after UNKNOWN the ledger says whether the pause with this
 * id is there.
 */
MUST_CHECK enum outcome ledger_pause_begin(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                           const struct ledger_pause *pause, struct ledger *before, struct error *error);
/* Ends the pause with this id. The epoch stays. NO: the type is not paused, or by another pause. After UNKNOWN it may be sent again. */
MUST_CHECK enum outcome ledger_pause_end(struct lockstore *store, const char *type, const uint8_t id[16], struct error *error);

/*
 * The type has its own collection from now on (begin), or no more (end): the fence of a FENCER_READER that in the same step says so. So a
 * holder that has read the ledger before is fenced. Answers as ledger_fence; after UNKNOWN the ledger says whether epoch and owner are
 * these. Before ledger_own_end the caller has seen, under an epoch of its own, that the own collection is empty and everything settled.
 */
MUST_CHECK enum outcome ledger_own_begin(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                         struct ledger *before, struct error *error);
MUST_CHECK enum outcome ledger_own_end(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner,
                                       struct ledger *before, struct error *error);

struct ledger_commit {
  int64_t epoch; /* mine */
  struct owner owner;
  struct committed before, after; /* equal: only `settled` and `clean` change */
  int64_t settled;                /* raised to this, never lowered */
  bool clean;                     /* sets `clean`, which ends the epoch; otherwise unchanged */
  const char *machine;            /* of the writer; NULL: unchanged */
  bool guarded;                   /* the writer holds the file's guard: the end is vouched for; otherwise unchanged */
  enum queue_source from; /* of the block that is committed, if there is one. Where it is another than before, all before it is settled */
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
 * end is not vouched for; a pause, and that it has its own collection, stay as *ledger has them. What is to be settled of such a type is
 * then looked for in both (SOURCE_BOTH). Where there was none, the epoch is raised above the floor, if it is not. YES:
 * written. NO: the ledger moved meanwhile. REFUSED: ledger_read would refuse the new one.
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
 * Removes the ledgers of unused names, many at once: each only if it is as it was seen, and no file is or was there. Before it
 * the floor is raised to the greatest of their epochs, so that no name's epochs ever go back. A name that somebody takes meanwhile is left
 * alone; *removed is how many were not (it may be too low if UNKNOWN came in between). After UNKNOWN the same call may be made again.
 */
struct ledger_name {
  char type[TYPE_BYTES_MAX + 1];
  int64_t epoch, birth; /* as seen */
};
MUST_CHECK enum outcome ledger_forget(struct lockstore *store, const struct ledger_name *names, size_t count, size_t *removed,
                                      struct error *error);
/* The floor (majority): the epochs of a ledger that is made from now on are above it. */
MUST_CHECK enum outcome ledger_floor(struct lockstore *store, int64_t *floor, struct error *error);

/*
 * Lists every ledger, in order of type, or that of one type. `problem` is NULL, or says why the document could not be read; then the
 * other arguments have what could be read. A type that is not a string is given as JSON. A ledger that is just being made has
 * epoch 0. `each` must not call the lockstore.
 */
typedef void ledger_each(void *context, const char *type, const struct ledger *ledger, const char *problem);
/* Calls `each` for every type that has its own collection (majority), from `from` on and before `before` (empty: to the end). */
typedef void ledger_each_own(void *context, const char *type);
MUST_CHECK enum outcome ledger_list_own(struct lockstore *store, const char *from, const char *before, ledger_each_own *each, void *context,
                                        struct error *error);
/* own[i]: whether types[i] has its own collection. Majority, and not before what this process has seen. */
MUST_CHECK enum outcome ledger_find_own(struct lockstore *store, const char *const *types, size_t count, bool *own, struct error *error);
/* `type` may be NULL: all. */
MUST_CHECK enum outcome ledger_list(struct lockstore *store, const char *type, ledger_each *each, void *context, struct error *error);

#endif
