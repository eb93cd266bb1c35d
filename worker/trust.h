/*
 * trust: what checks of the storage have shown, and what follows from that: whether this worker competes for the lock, and when
 * it gives the storage up. docs/protocol.md, Check.
 */
#ifndef PAWL_WORKER_TRUST_H
#define PAWL_WORKER_TRUST_H

#include "worker/turn.h"

/* The result of the last check. */
enum storage_view {
  STORAGE_UNSEEN,
  STORAGE_AGREES,
  STORAGE_DISAGREES, /* it does not agree with the ledger, or cannot be read, or not be written to */
  STORAGE_NEWER,     /* the storage, or the ledger, needs a newer pawl */
  STORAGE_PAUSED,    /* not looked at: the type is paused */
};

struct trust {
  enum storage_view view;
  enum storage_view told;        /* the last one that was set, by this consumer or by the one before it: PAUSED and NEWER are logged once */
  struct error why;              /* DISAGREES, NEWER, PAUSED */
  int64_t due_ms;                /* the next check, while idle or waiting; INT64_MAX: after the first poll */
  char file[FILE_NAME_SIZE];     /* DISAGREES: the current segment then */
  int64_t distrust_since_ms;     /* checks have failed since then, with a message waiting at first; -1: no */
  bool clean_seen, vouched_seen; /* of the ledger, at core.epoch_seen */
  int64_t open_refused_since_ms; /* OPEN has failed since then, although the check succeeded; -1: it has not */
  uint64_t open_refused_link;    /* the committed end at that failure; if others move the end, the file is in order for them */
};

void trust_init(struct trust *trust);

void trust_check_start(struct turn *turn);
enum trust_answer {
  TRUST_SILENT, /* the check says nothing about the storage: a holder was at work, or no answer */
  TRUST_AGREES,
  TRUST_PAUSES, /* not now: the next check is due at due_ms */
  TRUST_PAUSED, /* the same, and no process shall wait for this one: the type is paused */
  TRUST_ENDS,   /* the storage cannot be trusted: the type shall stop */
};
/* CHECK came back. */
MUST_CHECK enum trust_answer trust_checked(struct turn *turn, const struct completion *completion);
/* A first poll was made: from now on checks are due. */
void trust_begin(struct turn *turn);
/* Nothing was learned: the next check is due soon. */
void trust_soon(struct turn *turn);
/* A check is due by then, if any is. */
void trust_by(struct turn *turn, int64_t ms);
/* Whether a check is due beside polls and looks at the mutex, which come first; but not without end. */
bool trust_is_due(const struct turn *turn);

/* What this process itself has left in the ledger: the end of an epoch, which a roll goes on from. */
void trust_left(struct turn *turn, int64_t epoch, bool vouched);
/* OPEN came back, for the end with this link. False: it was refused for so long that the storage cannot be trusted. */
void trust_opened(struct turn *turn);
MUST_CHECK bool trust_open_refused(struct turn *turn, const struct completion *completion, uint64_t link);
/* Whether one more refusal of OPEN at this end is final. */
bool trust_judges_open(const struct turn *turn, uint64_t link);
/* Refused since then (-1: not yet): whether one more refusal now is believed. */
bool trust_judges(const struct turn *turn, int64_t since_ms);

/* Sets the result of a look at the storage, and notes it if it is new. */
void trust_set(struct turn *turn, enum storage_view view, const struct error *why);
/* Notes an error: the storage cannot be trusted, and what to do, if anything helps. */
void trust_ends(struct turn *turn, const struct completion *completion);

/* For readiness. False: `why` is filled, and names the type. */
MUST_CHECK bool trust_tells(const struct trust *trust, const struct core *core, int64_t now_ms, struct error *why);

#endif
