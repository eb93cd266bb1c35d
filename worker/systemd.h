/*
 * systemd: reports to the service manager, by sd_notify(3): ready, the current status, alive, stopping.
 *
 * Only for the loop's thread. It does nothing without a service manager (NOTIFY_SOCKET), or if pawl was built without
 * libsystemd. No function here fails, because a lost report must not stop the work. sd_notify blocks while the manager's queue
 * is full, which happens only when the manager itself hangs.
 */
#ifndef PAWL_WORKER_SYSTEMD_H
#define PAWL_WORKER_SYSTEMD_H

#include "base.h"

enum { SYSTEMD_STATUS_SIZE = 600 }; /* a longer status is cut off */

struct systemd {
  bool on;
  int64_t watchdog_ms;              /* the time between two keep-alive messages; 0: none are wanted */
  int64_t watchdog_at;              /* when the next one is due */
  char status[SYSTEMD_STATUS_SIZE]; /* the last status sent */
};

/* `now_ms`, here and below, comes from any clock that does not go back. */
void systemd_init(struct systemd *systemd, int64_t now_ms);
/* How often systemd_tick must be called, in ms; 0: never. */
int64_t systemd_period_ms(const struct systemd *systemd);
/* Sends the keep-alive message when it is due, and the status if it has changed. */
void systemd_tick(struct systemd *systemd, int64_t now_ms, const char *status);
void systemd_ready(struct systemd *systemd, const char *status);
/* The configuration is read again; systemd_ready tells when that is done. */
void systemd_reloading(struct systemd *systemd, const char *status);
void systemd_stopping(struct systemd *systemd, const char *status);

#endif
