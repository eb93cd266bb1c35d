/*
 * plants: planted bugs, one at a time, by name. Each breaks a rule of the protocol; a simulation that does not find them proves
 * nothing. They are put in from outside: into requests, answers and actions on their way.
 */
#ifndef PAWL_TESTS_SIMULATION_PLANTS_H
#define PAWL_TESTS_SIMULATION_PLANTS_H

#include "lockstore/lockstore_memory.h"
#include "worker/consumer.h"

enum plant {
  PLANT_NONE,
  /* the nine of tests/model/append.pml */
  PLANT_SAMEFILE,  /* a holder continues an unclean file */
  PLANT_NOFENCE,   /* a commit does not check the epoch */
  PLANT_NOSETTLE,  /* a new holder does not finish the deletes */
  PLANT_NOLINK,    /* a commit does not check the end that it starts from */
  PLANT_CLEAN,     /* a holder that wrote nothing sets `clean` */
  PLANT_NOBARRIER, /* a pass begins before the deletes are acknowledged */
  PLANT_STALE,     /* a pass sees an older snapshot */
  PLANT_EARLY,     /* delete before commit */
  PLANT_NOVERIFY,  /* the holder does not check the epoch again after the guard */
  /* and six more */
  PLANT_UNSYNCED,    /* commit before sync */
  PLANT_INCREMENT,   /* a fence that only increments the epoch */
  PLANT_RANGE,       /* a range delete is trusted by its count alone */
  PLANT_HANGCLEAN,   /* the holder sends `clean: true` while a write hangs */
  PLANT_STUCK,       /* the holder of a stuck writer never stops its renewals */
  PLANT_CLIENTCLOCK, /* a waiter steals by its own clock */
  /* answers that are unknown */
  PLANT_FENCELOCAL,  /* a fence is judged by what the primary alone has */
  PLANT_COMMITLOCAL, /* a commit is judged by what the primary alone has */
  PLANT_FENCEOLD,    /* a fence that the ledger shows begins at the end that the check saw */
  PLANT_FENCENO,     /* a repeated fence that matches nothing counts as not done */
  PLANT_FENCECLEAN,  /* a fence that the ledger shows is assumed to have found a clean end */
  PLANT_RENEWSUM,    /* only the sum of several renewals is read: if one matched, all count as renewed */
  /* reading */
  PLANT_GETMOREAGAIN, /* a lost getMore is sent again on the same cursor */
  PLANT_LATEREAD,     /* the holder writes in a later epoch what it read in an earlier one */
  PLANT_EMPTYMISSING, /* an empty reply without the time of a snapshot counts as an empty queue */
  /* one directory that is local to one machine and on a network for another */
  PLANT_GUARDCOMMIT, /* a commit over the network removes `guarded`, a fence does not */
  PLANT_GUARDBOOL,   /* an end counts as vouched for, whatever the epoch in `guarded` */
  PLANT_GUARDIGNORE, /* a free guard is enough */
  PLANT_GUARDALWAYS, /* a local fence vouches for any end */
  PLANT_NETKEEP,     /* a fence over the network leaves the end vouched for */
  PLANT_NETVOUCH,    /* a commit over the network vouches for the end */
  PLANT_ADOPTVOUCH,  /* adopting vouches for the end */
  PLANT_PADVIEW,     /* PAD by the kernel's id alone */
  /* deletes that remove fewer messages than they name */
  PLANT_DELETEBLIND, /* the worker does not check whether the others are still there */
  PLANT_SETTLEBLIND, /* the same, while settling */
  PLANT_ADOPTLATE,   /* a late copy of an adoption replaces a later ledger */
  /* a primary that was replaced and does not know it */
  PLANT_STALEREAD, /* that primary answers the read before a cut */
  PLANT_STALENAME, /* that primary answers the read after a segment's name was found taken */
  PLANT_EXITSTALE, /* that primary answers the last poll of --exit-when-empty */
  PLANT_EXITBLIND, /* there is no last poll */
  /* files that others change */
  PLANT_NOLOOK,  /* the worker does not check after the sync whether the file is there */
  PLANT_UNNAMED, /* the holder sets `clean` although it leaves a segment that the ledger does not name */
  PLANT_INEXACT, /* over the network a holder continues a file that is longer than its clean end */
  /* deletes by range */
  PLANT_RANGESHIFT, /* the range begins after the first message, and ends with the message after the last */
  PLANT_STANDALONE, /* a standalone server, which has no snapshot, is asked for a range delete */
  /* renewals: several in one request */
  PLANT_RENEWANY,    /* the lock is renewed for any owner */
  PLANT_RENEWOVER,   /* a lease that is over is renewed */
  PLANT_LOCKNOFENCE, /* pawl-lock runs its command under the lock alone */
  PLANT_FLOORSTAYS,  /* a ledger is forgotten, and the floor is not raised */
  PLANT_PAUSEPLAIN,  /* a pause is a field beside v 1, and raises no epoch */
  PLANT_RESUMELATE,  /* a pause ends without its id */
  /* a type with a collection of its own */
  PLANT_EMPTYOWN,   /* an empty reply of the own collection counts without the time of a snapshot */
  PLANT_OWNFIRST,   /* a pass reads the own collection before `messages` */
  PLANT_OWNLATER,   /* a pass reads the own collection at a later time than `messages` */
  PLANT_OWNEARLY,   /* a pass goes on to the own collection before all that it saw in `messages` is committed */
  PLANT_FROMLOST,   /* a commit does not set `from` */
  PLANT_FROMEARLY,  /* `from` names the own collection before all that came from `messages` is settled */
  PLANT_OWNV1,      /* the switch leaves v at 1, so that an older worker works on */
  PLANT_OWNEXISTS,  /* a collection that has the name of an own one is taken for it */
  PLANT_EXITSHARED, /* the last poll of --exit-when-empty does not look into the own collection */
  PLANT_TYPEALONG,  /* a worker reads and deletes there whatever `type` a document has */
  PLANT_BACKBLIND,  /* pawl-setup shares the type again, and messages are in its own collection */
  PLANT_COUNT
};
extern enum plant plant;

const char *plant_name(enum plant which);
/* PLANT_COUNT: no plant has this name. */
enum plant plant_named(const char *name);
/* Whether this failure is one that must find the current plant. */
bool plant_is_found_by(const char *failure);

struct type_context;
struct request;

/* On the way to a consumer, and in its options. */
void plants_options(struct consumer_options *options);
void plants_action(struct type_context *served, struct action *action);
void plants_completion(struct type_context *served, struct completion *completion);
/* On the way to the server. */
int64_t plants_epoch_seen(int type, int64_t epoch_seen);
bool plants_steal_anyway(int process, const struct lock_view *view);
void plants_view(int process, struct lock_view *view);
void plants_renewals(struct lock_renewal *renewals, size_t count);
bool plants_renews_anyway(const struct lock_renewal *renewal, const struct lock_view *view);
bool plants_read_locally(void);
bool plants_reads_stale(void);
enum outcome plants_verified(struct ledger *ledger, enum outcome outcome);
void plants_commit_begins(void);
/* What a fence or a commit has left in the ledger, and what adopting will leave. */
void plants_fenced(enum fencer fencer, const struct ledger *before, struct ledger *ledger);
void plants_committed(int type, int process);
int64_t plants_adopted(const struct ledger *ledger);
bool plants_adopts_late(void);
bool plants_lock_does_not_fence(void);
bool plants_floor_stays(void);
bool plants_pauses_plainly(void);
bool plants_resumes_any(void);
/* A worker reads the ledger. */
enum outcome plants_paused(int type, struct ledger *ledger, enum outcome outcome);
void plants_fence(enum outcome outcome);
/* True: done, in another way than the ledger would do it. */
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
bool plants_believes_empty(enum queue_source source);
bool plants_takes_along(void);
enum queue_source plants_source(int type, enum queue_source source);
bool plants_reads_own_later(void);
bool plants_goes_on_early(int type, enum queue_source source);
bool plants_exits_shared(void);
void plants_ledger_seen(struct ledger *ledger);
struct ledger_commit plants_commit_source(const struct request *request);
/* The tool that switches the collection back. */
bool plants_shares_blindly(void);
/* The bug shows only where another holder comes and goes while one freezes just before its first write: the faults aim at that. */
bool plants_come_and_go(void);
bool plants_looks_stale(void);
bool plants_looks_not(void);
/* The disk. */
void plants_write_begins(void);
bool plants_ignores_guards(void);
int64_t plants_size(const char *file, int64_t size);
bool plants_skips_sync(void);
bool plants_skips_look(void);

#endif
