/*
 * judge: what is wrong with a type, from one overview. For --check and --top. Pure; any thread.
 */
#ifndef PAWL_TOOLS_STATUS_JUDGE_H
#define PAWL_TOOLS_STATUS_JUDGE_H

#include "tools/overview/overview.h"

/* The worst first. A type has one. */
enum finding {
  FINDING_NONE,
  FINDING_PROBLEM,  /* its ledger or its lock cannot be used */
  FINDING_EXPIRED,  /* documents wait, and the lease of the holder is over: it froze or died, and no other worker waits */
  FINDING_UNSERVED, /* documents wait, and no worker holds the type or waits for it */
  FINDING_MOVED,    /* documents wait here, and the type was moved to another database */
  FINDING_STILL,    /* documents wait, and the worker that holds the type writes nothing */
  FINDING_TOOL,     /* documents wait, and a pawl-lock or another tool has had the lock for long */
  FINDING_UNUSABLE, /* documents that no worker can take */
  FINDING_REFUSED,  /* the same, in the own collection of a type */
  FINDING_PAUSED,   /* a person keeps the workers away: what waits is meant to */
  FINDINGS,
};

/* A worker that looks at the queue takes a document much sooner. */
enum { UNSERVED_MS = 10000, STILL_MS = 30000 };

enum finding judge_row(const struct overview_row *row);
/* Nothing is broken: something is as it was left by a person. */
bool judge_is_mild(enum finding finding);
/* What it means, as the rest of a sentence about the type: "no worker serves it". Not for FINDING_NONE. */
const char *judge_text(enum finding finding);

#endif
