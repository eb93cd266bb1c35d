/*
 * chaos: which faults a run has, how often they strike, and how the workers are set up. All of it follows from the seed. Each
 * run has some of the faults, not all ("swarm testing", Groce et al. 2012), so that common faults do not hide rare ones.
 */
#ifndef PAWL_TESTS_SIMULATION_CHAOS_H
#define PAWL_TESTS_SIMULATION_CHAOS_H

#include "worker/consumer.h"

enum chaos {
  /* at any time: the rate is a mean pause, in seconds */
  CHAOS_KILL,       /* SIGKILL */
  CHAOS_MACHINE,    /* a machine loses power */
  CHAOS_FREEZE,     /* a process freezes, perhaps for longer than the lease */
  CHAOS_SUSPEND,    /* a machine sleeps */
  CHAOS_AWAY,       /* the database is away, for all */
  CHAOS_CUT_OFF,    /* the database is away, for one process */
  CHAOS_ELECTION,   /* writes reach no majority; afterwards they are confirmed, or rolled back */
  CHAOS_REPLACED,   /* some processes still talk to a primary that was replaced */
  CHAOS_CLOCK,      /* the server's clock jumps */
  CHAOS_WALL,       /* a machine's clock jumps */
  CHAOS_TERM,       /* SIGTERM */
  CHAOS_FULL,       /* the disk is full for a while */
  CHAOS_THEFT,      /* a lock document is deleted */
  CHAOS_WRITE_BACK, /* the kernel writes pages back on its own */
  CHAOS_SCRIBBLE,   /* another program writes after a clean end */
  CHAOS_ADOPT,      /* pawl-setup --adopt builds a new ledger */
  CHAOS_LOCK,       /* pawl-lock takes a type's mutex, fences, and is killed */
  CHAOS_PAUSE,      /* a type is paused, and resumed some time later */
  CHAOS_OWN,        /* a type gets a collection of its own, or is shared again */
  CHAOS_TIMED,
  /* at a call: the rate is a probability */
  CHAOS_POINT = CHAOS_TIMED, /* the process dies between two calls */
  CHAOS_NAP,                 /* the process freezes between two calls, while it is or becomes a holder */
  CHAOS_WRITE_NAP,           /* the process freezes in a write, which lands when it wakes up */
  CHAOS_LOST,                /* a request is lost */
  CHAOS_REPLY,               /* only the reply is lost */
  CHAOS_LATE,                /* the request arrives after the sender has given up */
  CHAOS_COPY,                /* the request arrives a second time, later */
  CHAOS_PART,                /* the server carries out a part of a delete, and the reply is lost */
  CHAOS_FEWER,               /* a delete does not find all that it names, and reports how many it removed; the next delete finds them */
  CHAOS_PASS,                /* a pass ends early: a reply is lost */
  CHAOS_TRICKLE,             /* a reply to a pass takes long, because its bytes come slowly */
  CHAOS_MISSING,             /* a collection is missing for a moment: it reads as empty, without the time of a snapshot */
  CHAOS_SNAPSHOT,            /* a pass sees an older state of the queue, but none from before what this process knows */
  CHAOS_SLOW,                /* a call takes long */
  CHAOS_HANG,                /* a call to the disk takes longer than a lease */
  CHAOS_WRITE,               /* a write fails, short */
  CHAOS_SYNC,                /* a sync fails, and the kernel drops the unsynced data */
  CHAOS_CLOSE,               /* a close reports that data was lost */
  CHAOS_REMOVED,             /* another process moves a file away for a moment, just while a worker syncs it */
  CHAOS_MISC,                /* another call to the disk fails: unlink, place, size, guard, create */
  CHAOS_COUNT
};

enum files {
  FILES_LOCAL,   /* one machine; guards count */
  FILES_NETWORK, /* two machines, each with a page cache of its own */
  FILES_BOTH,    /* the first machine is the file server: the directory is local to it, and on a network for the other */
};

struct chaos_plan {
  double rate[CHAOS_COUNT];
  double yield; /* how often a call lets other processes go first */
  int types, processes, machines, producers;
  unsigned own_types; /* one bit each: the type may get a collection of its own */
  enum files files;
  bool one_kernel; /* FILES_BOTH: the other machine is another view of the same one (FUSE) */
  bool older;      /* FILES_BOTH: workers over the network run an older pawl, which does not know `guarded` */
  bool early;      /* network: other machines see unsynced data */
  bool zstd;
  int64_t name_lag_us; /* network: other machines see a new file this much later (directory caches) */
  bool wakeups;        /* workers receive wake-ups */
  double wakeups_lost; /* the share of wake-ups that do not arrive */
  bool all_serve_all;  /* each worker serves all types; otherwise some of them */
  bool standalone;     /* the server: no elections, no snapshots */
  bool exits;          /* some workers exit when their queues are empty, and are started again */
  bool stuck_for_ever; /* after all other faults have stopped, one write never returns */
  int64_t lease_ms, timeout_ms;
  int64_t batch_messages, batch_bytes;
  int64_t insert_us;   /* a producer's mean pause */
  int64_t duration_us; /* the faults stop after this time */
  struct consumer_options consumer;
};
extern struct chaos_plan chaos_plan;
extern int64_t chaos_struck[CHAOS_COUNT]; /* counted over all runs of this process */

const char *chaos_name(enum chaos chaos);
/* Whether the machine sees the files on a local file system. */
bool chaos_is_local(int machine);
bool chaos_may_be_own(int type);
/* Makes the plan from the world's seed, and starts the faults. */
void chaos_begin(void);
/* Stops the faults; what is frozen, cut off or away comes back. */
void chaos_end(void);
/* Whether the fault strikes this call; if so, counts it. */
bool chaos_strikes(enum chaos chaos);
/* A call may be a moment at which others go first, or at which the process dies. */
void chaos_point(void);
void chaos_disk_point(void);
void chaos_write_point(void);
bool chaos_disk_full(void);

/* Prints the plan of a run that failed. */
void chaos_print(FILE *stream);

#endif
