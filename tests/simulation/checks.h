/*
 * checks: what must hold, looked at after every change, and in full now and then and in the end.
 *
 *   after every change of a ledger     epochs, seqs and `settled` only rise; an epoch goes to whoever took the lock last; one process
 *                                      commits in an epoch; what is committed is safe on the disk, is a chain of whole blocks from
 *                                      the end before to the new one, and holds each message at most once and each producer's in order;
 *                                      nothing that is settled is in the queue; a page has bytes of one kernel and one view; where all see
 *                                      the files as local, a new segment is a roll's, or its writer found the guard busy
 *                                      nothing is committed while pawl-lock's command runs
 *   after every removal from the queue the message is in committed file data, once
 *   when leases are renewed            each was the sender's, and not over
 *   when a worker renews               the server has renewed its lock since it asked
 *   when a fence says no               the majority's ledger is not of the epoch and owner that it asked for
 *   when a worker exits because all is empty   each of its queues was, at some moment since it asked
 *   when an end becomes clean          its epoch leaves no segment that the ledger does not name
 *   when a worker has synced a block   its file was there afterwards
 *   when it gives up for its disk      a call failed, or another process changed its file
 *   at every call to the disk          committed bytes are not written to, cut or unlinked (disk.c)
 *   when a machine has crashed         committed bytes are what they were (disk.c)
 *   now and then, and in the end       pawl's own reader accepts the whole chain by the ledger, and finds the messages that were
 *                                      committed (chain_checks.c); without the ledger, those and at most one block more
 */
#ifndef PAWL_TESTS_SIMULATION_CHECKS_H
#define PAWL_TESTS_SIMULATION_CHECKS_H

#include "lockstore/lockstore.h"
#include "queue.h"

struct completion;
struct process;
struct station;

struct caller {
  int process;
  int64_t incarnation;
};

void checks_begin(void);
void checks_end(void);

/* The lock document is this owner's. */
void checks_taken(int type, const struct owner *owner, struct caller caller);
/* The ledger, as the majority sees it, may have changed, by a request of `caller` (NULL: not known). */
void checks_ledger(int type, const struct caller *caller);
/* The ledger is about to be seen as pawl-setup --adopt made it. */
void checks_adopted(int type);
/* The server has given this owner's lock a full lease; and its worker takes it for renewed. */
void checks_renewed(int type, const struct owner *owner, int process);
/* What a renewal has done to a lock; `before` has no lease if there was none. */
void checks_renewal(const struct lock_renewal *renewal, const struct lock_view *before, int process);
void checks_took_for_renewed(const struct station *station, const struct owner *owner, int64_t sent_ms);
/* Its worker takes the lock for its own, and counts its lease from `sent_ms`. */
void checks_took(const struct station *station, const struct owner *owner, int64_t sent_ms);
/* Its last look has found nothing. */
void checks_exits_empty(const struct process *process);
/* Its block is written and synced; its disk has failed. */
void checks_appended(const struct station *station, const struct completion *completion);
void checks_disk_failed(const struct station *station, const char *text);
/* Its fence has said NO. */
void checks_not_fenced(const struct station *station);
/* The majority has removed it from the queue. */
void checks_removed(struct message *message);

/* The whole chain of a type, with pawl's own reader. */
void checks_chain(int type);
void checks_chain_offline(int type);
/* All types; `over`: the queues are empty. */
void checks_full(bool over);

/* Committed so far: the message of seq 1, 2, … is [0], [1], … */
struct message *const *checks_committed(int type, int64_t *count);
const struct ledger *checks_ledger_last(int type);

#endif
