/*
 * chaos: which faults a run has, how often they strike, and how the workers are set up. All of it follows from the seed: each
 * run has some of the faults, not all ("swarm testing", Groce et al. 2012), so that rare ones are not drowned by common ones.
 */
#ifndef PAWL_TESTS_SIMULATION_CHAOS_H
#define PAWL_TESTS_SIMULATION_CHAOS_H

#include "worker/consumer.h"

enum chaos {
  /* at any time: the rate is a mean pause, in seconds */
  CHAOS_KILL,       /* SIGKILL */
  CHAOS_MACHINE,    /* a machine loses power */
  CHAOS_FREEZE,     /* a process, perhaps for longer than the lease */
  CHAOS_SUSPEND,    /* a machine */
  CHAOS_AWAY,       /* the database, for all */
  CHAOS_CUT_OFF,    /* the database, for one */
  CHAOS_ELECTION,   /* writes reach no majority; afterwards they are there, or rolled back */
  CHAOS_REPLACED,   /* some processes go on to talk to a primary that was replaced */
  CHAOS_CLOCK,      /* the server's clock jumps */
  CHAOS_WALL,       /* a machine's clock jumps */
  CHAOS_TERM,       /* SIGTERM */
  CHAOS_FULL,       /* no space, then space */
  CHAOS_THEFT,      /* somebody deletes a lock document */
  CHAOS_WRITE_BACK, /* the kernel writes something back on its own */
  CHAOS_SCRIBBLE,   /* a stranger writes behind a clean end */
  CHAOS_ADOPT,      /* pawl-setup --adopt makes a ledger anew */
  CHAOS_LOCK,       /* pawl-lock takes a type's mutex, fences, and is killed */
  CHAOS_TIMED,
  /* at a call: the rate is a probability */
  CHAOS_POINT = CHAOS_TIMED, /* the process dies between two calls */
  CHAOS_NAP,                 /* it is frozen between two calls, while it is or becomes a holder */
  CHAOS_WRITE_NAP,           /* it is frozen in a write, which lands when it wakes up */
  CHAOS_LOST,                /* a request is lost, */
  CHAOS_REPLY,               /* or only its reply, */
  CHAOS_LATE,                /* or it arrives after the sender has given up */
  CHAOS_COPY,                /* it arrives a second time, later */
  CHAOS_PART,                /* a delete is carried out in part, and its reply lost */
  CHAOS_FEWER,               /* a delete does not find all that it names, and says how many it removed; the next one does */
  CHAOS_PASS,                /* a pass ends early: a reply is lost */
  CHAOS_TRICKLE,             /* a reply to a pass takes long, for its bytes come slowly */
  CHAOS_MISSING,             /* `messages` is missing for a moment: it reads as empty, without the time of a snapshot */
  CHAOS_SNAPSHOT,            /* a pass sees the queue as it was a while ago, but not before what this process knows */
  CHAOS_SLOW,                /* a call takes long */
  CHAOS_HANG,                /* a call to the disk takes longer than leases */
  CHAOS_WRITE,               /* a write fails, short */
  CHAOS_SYNC,                /* a sync fails, and what was to be synced is dropped */
  CHAOS_CLOSE,               /* a close reports that something was lost */
  CHAOS_REMOVED,             /* a file is moved away for a moment, just while it is synced */
  CHAOS_MISC,                /* another call to the disk fails: unlink, place, size, guard, create */
  CHAOS_COUNT
};

enum files {
  FILES_LOCAL,   /* one machine, guards count */
  FILES_NETWORK, /* two machines, each with a page cache of its own */
  FILES_BOTH,    /* the first is the file server: local to it, and a network's to the other */
};

struct chaos_plan {
  double rate[CHAOS_COUNT];
  double yield; /* how often a call lets others go first */
  int types, processes, machines, producers;
  enum files files;
  bool one_kernel; /* FILES_BOTH: the other machine is another view of the same one (FUSE) */
  bool older;      /* FILES_BOTH: workers over the network are of an older pawl, which knows no `guarded` */
  bool early;      /* network: other machines see what is not yet synced */
  bool zstd;
  int64_t name_lag_us; /* network: other machines see a new file only so much later (directory caches) */
  bool wakeups;        /* workers watch for wake-ups */
  double wakeups_lost; /* so many of them do not arrive */
  bool all_serve_all;  /* each worker serves all types; else some of them */
  bool standalone;     /* the server: no elections, no snapshots */
  bool exits;          /* some workers end when all is empty, and are started again */
  bool stuck_for_ever; /* when all else is well, one write never returns */
  int64_t lease_ms, timeout_ms;
  int64_t batch_messages, batch_bytes;
  int64_t insert_us;   /* a producer's mean pause */
  int64_t duration_us; /* then the faults stop */
  struct consumer_options consumer;
};
extern struct chaos_plan chaos_plan;
extern int64_t chaos_struck[CHAOS_COUNT]; /* in all runs of this process */

const char *chaos_name(enum chaos chaos);
/* Does a machine see the files as those of a local file system? */
bool chaos_is_local(int machine);
/* Makes the plan of the world's seed, and lets the faults begin. */
void chaos_begin(void);
/* Faults stop; what is frozen, cut off or away comes back. */
void chaos_end(void);
/* Does it strike this call? Counted if so. */
bool chaos_strikes(enum chaos chaos);
/* Some calls are a moment at which others go first, or at which the process dies. */
void chaos_point(void);
void chaos_disk_point(void);
void chaos_write_point(void);
bool chaos_disk_full(void);

/* What is printed of a plan when it failed. */
void chaos_print(FILE *stream);

#endif
