/*
 * epoch: what a holder does, from the fence to the release: open, settle, drain, leave. docs/protocol.md, Life of a holder.
 *
 * epoch.c opens and settles, drain.c drains, leave.c ends; each leads only to those that follow.
 */
#ifndef PAWL_WORKER_EPOCH_H
#define PAWL_WORKER_EPOCH_H

#include "worker/turn.h"

enum { ITEMS_READY_MAX = 2, ITEMS_COMMITTED_MAX = 4 };

/* What is in the file, and not known to be in the ledger: only the commit is repeated. */
enum uncommitted {
  UNCOMMITTED_NOTHING,
  UNCOMMITTED_SEGMENT,
  UNCOMMITTED_BLOCK,
  UNCOMMITTED_CLEAN, /* nothing more is written; the ledger's `clean` is open */
};

enum leave { LEAVE_NOT, LEAVE_RELEASE, LEAVE_ROLL, LEAVE_ABANDON };

struct epoch {
  struct ledger before;            /* as the fence found it */
  struct committed committed;      /* the known committed end */
  enum queue_source from;          /* the collection that its last block came from */
  bool rolling;                    /* the lock is held from before: the first block makes a new segment, reason "roll" */
  int64_t settle_refused_since_ms; /* SETTLE has been refused since then; -1: it has not */
  enum place place;

  /* the file */
  bool begun;                /* it is decided which file this epoch writes */
  bool guarded;              /* that file is local and I hold its guard: commits vouch for the end */
  bool wrote;                /* this epoch has written a block */
  bool unnamed;              /* a segment of this epoch is there that the ledger does not name */
  struct work_item *current; /* the item being written */
  int64_t writing_bytes;     /* of the item that an APPEND has */
  enum uncommitted uncommitted;
  struct committed written; /* where what is uncommitted ends */
  bool no_space;

  /* the queue */
  struct work_item *ready[ITEMS_READY_MAX]; /* read and not yet written */
  int ready_count;
  bool pass_open;
  enum queue_source pass_source; /* what is read now, or next: an own collection follows on `messages`, at the same cluster time */
  uint64_t pass_at;              /* that time, once `messages` has been read to its end */
  int64_t pass_documents;        /* read in this pass, of both collections */
  int64_t pass_took_ms;          /* and how long the server took for it */
  int64_t read_ms;               /* no pass begins before */
  int64_t read_unknown_row;
  int64_t empty_since_ms;                                 /* the queue has been empty since; -1: it is not */
  struct work_item *committed_items[ITEMS_COMMITTED_MAX]; /* committed and not yet deleted; oldest first */
  int committed_count;
  int64_t delete_ms; /* no delete begins before (back-off) */
  int64_t delete_unknown_row;

  /* the end */
  enum leave leave;
  const char *leave_why; /* static text */
};

void epoch_init(struct epoch *epoch);
/* Frees its items; nothing else is allocated. */
void epoch_drop_items(struct epoch *epoch);
/* What its items have in memory, the one that is being written included. */
int64_t epoch_bytes(const struct epoch *epoch);
/* FENCE came back with YES. */
void epoch_start(struct turn *turn, const struct completion *completion);
/* The epoch is over: its items and what was known of it are dropped. */
void epoch_forget(struct turn *turn);

/* OPENING to RELEASING: MAIN's completions, and what can be started now, is. */
void epoch_main(struct turn *turn, const struct completion *completion);
void epoch_step(struct turn *turn);

#endif
