/*
 * lease: the lock while it is held: how long it may be relied on, when it is renewed, when it is lost. docs/protocol.md, Lease.
 */
#ifndef PAWL_WORKER_LEASE_H
#define PAWL_WORKER_LEASE_H

#include "worker/turn.h"

struct lease {
  bool held;    /* the lock document may be there */
  bool lost;    /* and it is known not to be mine any more */
  bool awaited; /* a tool waits for it */
  bool logged_stall;
  int64_t safe_until_ms; /* two thirds of the lease: no new block and no delete after that */
  int64_t end_ms;        /* all of it: the lock may be another's */
  int64_t renew_ms;      /* when the next renewal is due */
  int64_t least_ms;      /* the shortest lease of a renewal without an answer, which may still come late; INT64_MAX: none */
  uint64_t taken_number; /* of the TAKE: a renewal with a lower number belongs to an earlier lock */
};

/* TAKE came back, with YES or without an answer: the lock document may be there. */
void lease_taken(struct turn *turn, const struct completion *completion);
/* RENEW came back. */
void lease_renewed(struct turn *turn, const struct completion *completion);
/* A wake-up says that another has stolen the lock: a renewal finds out. */
void lease_warned(struct turn *turn);
/* The option has changed: the database is told at once. */
void lease_changed(struct turn *turn);
/* Renews, if that is due; notes when the lease is over. */
void lease_step(struct turn *turn);
/* It is known to be another's. */
void lease_lose(struct turn *turn);
/* The lock document is gone, or left to its end. */
void lease_drop(struct turn *turn);

/* Whether a holder may begin something that needs the lock: not when the lock is lost, nor after two thirds of the lease. */
bool lease_alive(const struct turn *turn);
/* When it ends unless it is renewed, by this machine's clock. */
int64_t lease_end_ms(const struct lease *lease);
/* When the timer is due; INT64_MAX: not. */
int64_t lease_wake_ms(const struct lease *lease, bool renewing);

#endif
