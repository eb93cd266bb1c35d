/*
 * plants: bugs put in on purpose, one at a time, by name. Each is a rule of the protocol that is not kept; a simulation that does not
 * find them proves nothing. They are put in from outside: into requests, answers and actions on their way.
 */
#ifndef PAWL_TESTS_SIMULATION_PLANTS_H
#define PAWL_TESTS_SIMULATION_PLANTS_H

#include "lockstore/lockstore_memory.h"
#include "worker/consumer.h"

enum plant {
  PLANT_NONE,
  /* the nine of tests/model/append.pml */
  PLANT_SAMEFILE,  /* an unclean file is continued */
  PLANT_NOFENCE,   /* a commit does not look at the epoch */
  PLANT_NOSETTLE,  /* a new holder does not finish the deletes */
  PLANT_NOLINK,    /* a commit does not look at the end it starts from */
  PLANT_CLEAN,     /* a holder that wrote nothing says clean */
  PLANT_NOBARRIER, /* a pass begins before the deletes are acknowledged */
  PLANT_STALE,     /* a pass sees an older snapshot */
  PLANT_EARLY,     /* delete before commit */
  PLANT_NOVERIFY,  /* the epoch is not looked at again after the guard */
  /* and six more */
  PLANT_UNSYNCED,    /* commit before sync */
  PLANT_INCREMENT,   /* fence by plain increment */
  PLANT_RANGE,       /* a range delete trusted by its count alone */
  PLANT_HANGCLEAN,   /* clean: true sent while a write hangs */
  PLANT_STUCK,       /* a renewal that never stops for a stuck writer */
  PLANT_CLIENTCLOCK, /* steal by the client's clock */
  /* of answers that are not known */
  PLANT_FENCELOCAL,  /* a fence is judged by what the primary alone has */
  PLANT_COMMITLOCAL, /* and a commit */
  PLANT_FENCEOLD,    /* a fence that the ledger shows begins where the check saw the end */
  PLANT_FENCENO,     /* a repetition that matches nothing is taken for a fence that was not done */
  PLANT_FENCECLEAN,  /* a fence that the ledger shows found a clean end */
  PLANT_RENEWSUM,    /* of several renewals the sum is looked at: if there is one, all are taken for renewed */
  /* of reading */
  PLANT_GETMOREAGAIN, /* a lost getMore is sent again on the same cursor */
  PLANT_LATEREAD,     /* what was read in one epoch is written in a later one */
  PLANT_EMPTYMISSING, /* an empty reply without the time of a snapshot counts as an empty queue */
  /* of one directory that is local to one and a network's to another */
  PLANT_GUARDCOMMIT, /* no fence, but a commit over the network ends what is vouched for */
  PLANT_GUARDBOOL,   /* vouched for once is vouched for, of whatever epoch */
  PLANT_GUARDIGNORE, /* a free guard is enough */
  PLANT_GUARDALWAYS, /* a local fence vouches for any end */
  PLANT_NETKEEP,     /* a fence over the network goes on vouching */
  PLANT_NETVOUCH,    /* a commit over the network vouches */
  PLANT_ADOPTVOUCH,  /* adopting does */
  PLANT_PADVIEW,     /* PAD by the kernel's id alone */
  /* of deletes that remove fewer messages than they name */
  PLANT_DELETEBLIND, /* nobody looks whether the others are there */
  PLANT_SETTLEBLIND, /* the same, while settling */
  PLANT_ADOPTLATE,   /* a late copy of adopting a ledger replaces the one that came later */
  /* of a primary that was replaced and does not know it */
  PLANT_STALEREAD, /* it answers the read before a cut */
  PLANT_STALENAME, /* the read after a segment's name was found taken */
  PLANT_EXITSTALE, /* and the last look of --exit-when-empty */
  PLANT_EXITBLIND, /* there is no such look */
  /* of files that others change */
  PLANT_NOLOOK,  /* nobody looks after the sync whether the file is there */
  PLANT_UNNAMED, /* clean is said although a segment is left that the ledger does not name */
  PLANT_INEXACT, /* over the network a file is continued that is longer than its clean end */
  /* of deletes by their range */
  PLANT_RANGESHIFT, /* it begins behind the first message, and ends with the one behind the last */
  PLANT_STANDALONE, /* a standalone server is asked for them, and has no snapshot */
  /* of renewals: several in one request */
  PLANT_RENEWANY,    /* the lock is renewed for any owner */
  PLANT_RENEWOVER,   /* a lease that is over is renewed */
  PLANT_LOCKNOFENCE, /* pawl-lock runs its command under the lock alone */
  PLANT_COUNT
};
extern enum plant plant;

const char *plant_name(enum plant which);
/* PLANT_COUNT: no such. */
enum plant plant_named(const char *name);
/* Is this one of the verdicts that the plant in hand must be found by? */
bool plant_is_found_by(const char *failure);

struct station;

/* On the way to a consumer, and from its options. */
void plants_options(struct consumer_options *options);
void plants_completion(struct station *station, struct completion *completion);
/* On the way to the server. */
int64_t plants_epoch_seen(int type, int64_t epoch_seen);
bool plants_steal_anyway(int process, const struct lock_view *view);
void plants_view(int process, struct lock_view *view);
void plants_renewals(struct lock_renewal *renewals, size_t count);
bool plants_renews_anyway(const struct lock_renewal *renewal, const struct lock_view *view);
bool plants_read_locally(void);
bool plants_reads_stale(void);
/* What a fence or a commit has left in the ledger, and what adopting will. */
void plants_fenced(enum fencer fencer, const struct ledger *before, struct ledger *ledger);
void plants_committed(int type, int process);
int64_t plants_adopted(const struct ledger *ledger);
bool plants_adopts_late(void);
bool plants_lock_does_not_fence(void);
void plants_fence(enum outcome outcome);
/* True: done, another way than the ledger would. */
bool plants_commit(int type, const struct ledger_commit *commit, enum outcome *outcome);
/* The queue. */
bool plants_deletes_ranges(void);
bool plants_shifts_ranges(void);
bool plants_ranges_alone(void);
bool plants_trusts_deletes(void);
bool plants_snapshots_are_old(void);
uint64_t plants_operation_seen(uint64_t seen);
bool plants_repeats_getmore(void);
bool plants_reads_on(void);
bool plants_believes_empty(void);
bool plants_looks_stale(void);
bool plants_looks_not(void);
/* The disk. */
void plants_write_begins(void);
bool plants_skips_sync(void);
bool plants_skips_look(void);

#endif
