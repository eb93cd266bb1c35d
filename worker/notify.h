/*
 * notify: what a worker tells the service manager, by sd_notify(3): that it is ready, what it does, that it is alive, that it stops.
 *
 * For the loop's thread. It does nothing where no service manager listens (NOTIFY_SOCKET), or where pawl was built without libsystemd.
 * Nothing here fails: what is not heard must not stop the work. sd_notify waits while the manager's queue is full, which it is only when
 * the manager itself hangs.
 */
#ifndef PAWL_WORKER_NOTIFY_H
#define PAWL_WORKER_NOTIFY_H

#include "base.h"

enum { NOTIFY_STATUS_SIZE = 600 }; /* more of a status is cut off */

struct notify {
  bool on;
  int64_t watchdog_ms;             /* a sign of life is given as often; 0: none is wanted */
  int64_t watchdog_at;             /* the next one */
  char status[NOTIFY_STATUS_SIZE]; /* the last that was told */
};

/* `now_ms`, here and below, is of any clock that does not go back. */
void notify_init(struct notify *notify, int64_t now_ms);
/* How often notify_tick wants to be called, in ms; 0: not at all. */
int64_t notify_period_ms(const struct notify *notify);
/* Gives the sign of life when it is due, and tells the status if it is another than the last. */
void notify_tick(struct notify *notify, int64_t now_ms, const char *status);
void notify_ready(struct notify *notify, const char *status);
void notify_stopping(struct notify *notify, const char *status);

#endif
