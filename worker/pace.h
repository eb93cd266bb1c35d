/*
 * pace: when to poll the queue next, and from where. Polls cost the server what they go over; wake-ups save most of them.
 * docs/protocol.md, Polls and Wake-ups.
 */
#ifndef PAWL_WORKER_PACE_H
#define PAWL_WORKER_PACE_H

#include "worker/turn.h"

struct pace {
  bool notified;          /* wake-ups come */
  int64_t poll_all_ms;    /* when the next poll from the beginning is due; until then only tail polls */
  int64_t polled_ms;      /* the last poll of MAIN */
  bool empty;             /* and it found nothing */
  int64_t empty_until_ms; /* how long the last pass counts as a poll that found nothing; -1: no such pass, or a wake-up came since */
  int64_t called_ms;      /* the last wake-up for the mutex: the next messages are for this consumer to write */
};

void pace_init(struct pace *pace);

/* Polls the queue. */
void pace_poll_start(struct turn *turn);
/* POLL came back: what it cost, and what it found. Returns how long a poll that found nothing is to rest. */
int64_t pace_polled(struct turn *turn, const struct completion *completion);
/* Whether a poll was made so recently that another would tell nothing new. */
bool pace_polled_lately(const struct turn *turn);
/* A pass that took so long found nothing: it counts as a poll. Returns the time until the next one, for a queue empty since then. */
int64_t pace_passed_empty(struct turn *turn, int64_t took_ms, int64_t empty_since_ms);
/* A pass found something. */
void pace_passed(struct turn *turn);

/* A regular pause, which a wake-up ends; one that came meanwhile already has. pace_pause: after a poll that found nothing. */
void pace_pause(struct turn *turn, int64_t ms);
void pace_pause_until(struct turn *turn, int64_t at_ms);
/* After a hold whose last pass found nothing a moment ago, this is as good as a poll, unless a wake-up has come since. */
void pace_released(struct turn *turn, bool lost);

/* A wake-up for MAIN: a regular pause ends now; a poll that is under way may be older than it, so another follows. */
void pace_wake(struct turn *turn);
/* A wake-up for the mutex: the same, and the next messages are for this consumer. */
void pace_called(struct turn *turn);
/* Some wake-up came, whatever about: the last pass does not count as a poll any more. */
void pace_heard(struct turn *turn);

#endif
