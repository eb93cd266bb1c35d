/*
 * fault: the points at which tests make a worker die or freeze. The code names each point at its place.
 *
 * Off unless the environment sets PAWL_FAULT=NAME[:N] (SIGKILL to itself when the point is reached for the Nth time, by default
 * the first) or PAWL_FAULT_STOP=NAME[:N] (SIGSTOP). -DPAWL_FAULTS=OFF leaves the points out of the build. Any thread.
 */
#ifndef PAWL_WORKER_FAULT_H
#define PAWL_WORKER_FAULT_H

enum fault {
  FAULT_LOCK_INSERTED,   /* lock-inserted: the lock document is inserted, the ledger not yet moved */
  FAULT_FENCED,          /* fenced */
  FAULT_SEGMENT_CREATED, /* segment-created: synced, not yet in the ledger */
  FAULT_BLOCK_WRITTEN,   /* block-written: not yet synced */
  FAULT_BLOCK_SYNCED,    /* block-synced: not yet committed */
  FAULT_BLOCK_COMMITTED, /* block-committed: its messages are still in the queue */
  FAULT_DELETED,         /* deleted: not yet recorded as settled */
  FAULT_CLOSE_WRITTEN,   /* close-written: CLOSE is synced, the ledger not yet clean */
  FAULT_RELEASED,        /* released: the ledger is clean, the lock document is still there */
  FAULT_COUNT,
};

/* Reads the environment. Call it before any thread is started. */
void fault_init(void);

#if PAWL_FAULTS
void fault_point(enum fault fault);
#else
static inline void fault_point(enum fault fault)
{
  (void)fault;
}
#endif

#endif
