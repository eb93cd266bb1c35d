/*
 * checks: what must hold. Most checks run after a change, some in full now and then and at the end.
 *
 *   after every change of a ledger     epochs, seqs and `settled` only rise; an epoch goes to the process that took the lock last;
 *                                      one process commits in an epoch; what is committed is durable on the disk, is a chain of whole
 *                                      blocks from the previous end to the new one, and holds each message at most once and each
 *                                      producer's in order, over both collections; nothing that is settled is in one; no document of
 *                                      another program is taken; a page has bytes of one kernel
 *                                      and one view; where all see the files as local, a new segment comes from a roll, or its writer
 *                                      found the guard busy; nothing is committed while pawl-lock's command runs
 *   after every removal from the queue the message is in committed file data, once
 *   when leases are renewed            each lease belonged to the sender, and was not over
 *   when a worker renews               the server has renewed its lock since the worker sent the request
 *   when a fence says NO               the majority's ledger does not have the epoch and owner that the fence asked for
 *   when a worker exits because all    each of its queues was empty, at some moment since the worker asked
 *     is empty
 *   when an end becomes clean          its epoch leaves no segment that the ledger does not name
 *   when a worker has synced a block   its file was there afterwards
 *   when a worker reports a failed     a call failed, or another process changed its file
 *     disk
 *   at every call to the disk          committed bytes are not written to, cut or unlinked (disk.c)
 *   when a machine has crashed         committed bytes are unchanged (disk.c)
 *   now and then, and at the end       pawl's own reader accepts the whole chain by the ledger, and finds the messages that were
 *                                      committed (chain_checks.c); without the ledger, those and at most one block more
 */
#ifndef PAWL_TESTS_SIMULATION_CHECKS_H
#define PAWL_TESTS_SIMULATION_CHECKS_H

#include "lockstore/ledger.h"
#include "lockstore/mutex.h"
#include "queue.h"

struct completion;
struct process;
struct type_context;

struct caller {
  int process;
  int64_t incarnation;
};

void checks_begin(void);
void checks_end(void);

/* The lock document now has this owner. */
void checks_taken(int type, const struct owner *owner, struct caller caller, bool late);
/* The ledger, as the majority sees it, may have changed through a request of `caller` (NULL: unknown). */
void checks_ledger(int type, const struct caller *caller);
/* The ledger is about to be seen as pawl-setup --adopt made it. */
void checks_adopted(int type);
/* The server has given this owner's lock a full lease. checks_took_for_renewed: its worker counts the lock as renewed. */
void checks_renewed(int type, const struct owner *owner, int process);
/* What a renewal did to a lock; `before` has no lease if there was no lock. */
void checks_renewal(const struct lock_renewal *renewal, const struct lock_view *before, int process);
void checks_took_for_renewed(const struct type_context *served, const struct owner *owner, int64_t sent_ms);
/* The worker counts the lock as its own, and its lease from `sent_ms`. */
void checks_took(const struct type_context *served, const struct owner *owner, int64_t sent_ms);
/* The worker's last poll before it exits found nothing. */
void checks_exits_empty(const struct process *process);
/* checks_appended: the worker's block is written and synced. checks_disk_failed: the worker reports a disk failure. */
void checks_appended(const struct type_context *served, const struct completion *completion);
void checks_disk_failed(const struct type_context *served, const char *text);
/* The worker's fence answered NO. */
void checks_not_fenced(const struct type_context *served);
/* The majority has removed the message from the queue. */
void checks_removed(struct message *message);

/* Checks the whole chain of a type with pawl's own reader. */
void checks_chain(int type);
void checks_chain_offline(int type);
/* Checks all types; `over`: the queues are empty. */
void checks_full(bool over);

/* Committed so far: the message of seq 1 is [0], that of seq 2 is [1], … */
struct message *const *checks_committed(int type, int64_t *count);
const struct ledger *checks_ledger_last(int type);

#endif
