/*
 * seek: the way to the lock and to an epoch, and the way back: from idle to fencing, and unlocking. docs/protocol.md, Life of a
 * holder and The mutex.
 */
#ifndef PAWL_WORKER_SEEK_H
#define PAWL_WORKER_SEEK_H

#include "worker/turn.h"

struct seek {
  struct acquisition acquisition;
  int64_t look_ms;        /* WAITING: when the next look is due */
  bool poll_first;        /* WAITING: poll for a message before that */
  bool may_take;          /* WAITING, CHECKING: it is its turn to take the mutex */
  bool checked;           /* the storage was checked after the mutex was last seen busy */
  int64_t fence_until_ms; /* FENCING: until then an unknown fence is asked again */
  enum place place;       /* FENCING: once it was asked */
  bool logged_lock;
  bool woken; /* IDLE: told of a message, and no poll has come back since */
};

void seek_init(struct seek *seek, const struct consumer_options *options);

/* MAIN's completions in these states; and what can be started now, is. */
void seek_done(struct turn *turn, const struct completion *completion);
void seek_step(struct turn *turn);
/* Whether it checks the storage now and then during its pauses: idle or waiting. */
bool seek_checks_aside(const struct core *core);
/* Such a check came back. */
void seek_checked_aside(struct turn *turn, const struct completion *completion);
/* A wake-up for the mutex, to this acquisition. */
void seek_called(struct turn *turn);

void seek_idle(struct turn *turn, const char *why);

#endif
