/*
 * timeline: who held the lock of one type, from when to when, and how each hold ended: as the readings show it. What begins and ends
 * between two readings is not seen. Only where an epoch was left out does anything tell of it.
 *
 * Pure except for memory. Times are in ms by the database server's wall clock, which judges leases, too.
 */
#ifndef PAWL_TOOLS_MONITOR_TIMELINE_H
#define PAWL_TOOLS_MONITOR_TIMELINE_H

#include "lockstore/mutex.h"

enum { TIMELINE_HOLDS_MAX = 200, TIMELINE_MS = 2 * 60 * 60 * 1000, TIMELINE_HOLDER_SIZE = 80 };

enum hold_end {
  HOLD_OPEN,       /* still held */
  HOLD_RELEASED,   /* the lock was released before its lease was over */
  HOLD_TAKEN_OVER, /* the lease was over; another process took the lock */
  HOLD_BROKEN,     /* the lock went before its lease was over, without a clean end of what was written: by --break, or it gave up */
};

struct hold {
  int64_t from_ms, to_ms; /* to_ms: 0 while it is open */
  int64_t expired_ms;     /* since when the lease was over although the lock was still held; 0: it was not seen so */
  int64_t epoch;          /* 0: not known */
  int64_t seq;            /* of the ledger, when it was first seen */
  enum hold_end end;
  struct owner owner;
  char holder[TIMELINE_HOLDER_SIZE]; /* "w1:811" */
};

struct timeline {
  struct hold *holds; /* the oldest first; at most the last one is open */
  int count, room;
  int64_t seen_ms;      /* the last reading; 0: none yet */
  int64_t lease_end_ms; /* of the open hold, as the last reading had it */
  bool unsure;          /* the last hold has ended, and the next reading shows whether with a clean end */
};

/* What a reading shows of a lock. */
struct sighting {
  int64_t now_ms;
  int64_t epoch; /* of the ledger; 0: there is none */
  int64_t seq;   /* the same */
  bool clean;    /* the ledger's end is clean */
  bool has_file; /* so that `clean` says how a holder left */
  bool held;     /* if so: */
  int64_t held_ms, left_ms;
  struct owner owner;
  const char *holder;
};

/* What has happened since the reading before. */
enum timeline_edge {
  EDGE_TAKEN = 1,     /* the last hold is new */
  EDGE_ENDED = 2,     /* the one before it (or, without EDGE_TAKEN, the last one) has ended */
  EDGE_EXPIRED = 4,   /* the last hold's lease is over */
  EDGE_CONTINUED = 8, /* it is not over any more */
  EDGE_BROKEN = 16,   /* the hold that ended at the reading before was broken: it had no clean end */
};

/* Adds what a reading shows; at most `holds_max` holds are kept, and none that ended two hours ago. Returns the edges. */
unsigned timeline_see(struct timeline *timeline, const struct sighting *sighting, int holds_max);
/* The newest hold; NULL: none. */
const struct hold *timeline_last(const struct timeline *timeline);
void timeline_free(struct timeline *timeline);

const char *hold_end_name(enum hold_end end);

#endif
