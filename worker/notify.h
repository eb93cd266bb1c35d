/*
 * notify: reports to the service manager, by sd_notify(3): ready, the current status, alive, stopping.
 *
 * Only for the loop's thread. It does nothing without a service manager (NOTIFY_SOCKET), or if pawl was built without
 * libsystemd. No function here fails, because a lost report must not stop the work. sd_notify blocks while the manager's queue
 * is full, which happens only when the manager itself hangs.
 */
#ifndef PAWL_WORKER_NOTIFY_H
#define PAWL_WORKER_NOTIFY_H

#include "base.h"

enum { NOTIFY_STATUS_SIZE = 600 }; /* a longer status is cut off */

struct notify {
  bool on;
  int64_t watchdog_ms;             /* the time between two keep-alive messages; 0: none are wanted */
  int64_t watchdog_at;             /* when the next one is due */
  char status[NOTIFY_STATUS_SIZE]; /* the last status sent */
};

/* `now_ms`, here and below, comes from any clock that does not go back. */
void notify_init(struct notify *notify, int64_t now_ms);
/* How often notify_tick must be called, in ms; 0: never. */
int64_t notify_period_ms(const struct notify *notify);
/* Sends the keep-alive message when it is due, and the status if it has changed. */
void notify_tick(struct notify *notify, int64_t now_ms, const char *status);
void notify_ready(struct notify *notify, const char *status);
void notify_stopping(struct notify *notify, const char *status);

#endif
