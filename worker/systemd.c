#include "worker/systemd.h"

#include <time.h>

#if PAWL_SYSTEMD
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#endif

enum { PERIOD_MS = 1000 };

static void tell(struct systemd *systemd, const char *what, const char *status)
{
  char text[SYSTEMD_STATUS_SIZE + 100];
  if (!systemd->on)
    return;
  snprintf(systemd->status, sizeof systemd->status, "%s", status);
  snprintf(text, sizeof text, "%sSTATUS=%s", what, systemd->status);
#if PAWL_SYSTEMD
  sd_notify(false, text);
#endif
}

void systemd_init(struct systemd *systemd, int64_t now_ms)
{
  *systemd = (struct systemd){0};
#if PAWL_SYSTEMD
  uint64_t limit_us = 0;
  systemd->on = getenv("NOTIFY_SOCKET") != NULL;
  if (sd_watchdog_enabled(false, &limit_us) > 0)
    systemd->watchdog_ms = limit_us < 4000 ? 1 : (int64_t)(limit_us / 2000);
#endif
  systemd->watchdog_at = now_ms;
}

int64_t systemd_period_ms(const struct systemd *systemd)
{
  if (!systemd->on)
    return 0;
  return systemd->watchdog_ms > 0 && systemd->watchdog_ms < PERIOD_MS ? systemd->watchdog_ms : PERIOD_MS;
}

void systemd_tick(struct systemd *systemd, int64_t now_ms, const char *status)
{
  bool alive = systemd->watchdog_ms > 0 && now_ms + systemd_period_ms(systemd) > systemd->watchdog_at; /* the next tick would be late */
  if (alive)
    systemd->watchdog_at = now_ms + systemd->watchdog_ms;
  if (alive || strcmp(status, systemd->status) != 0)
    tell(systemd, alive ? "WATCHDOG=1\n" : "", status);
}

void systemd_ready(struct systemd *systemd, const char *status)
{
  tell(systemd, "READY=1\n", status);
}

/* With the time by which systemd (Type=notify-reload) knows which reload is meant. */
void systemd_reloading(struct systemd *systemd, const char *status)
{
  struct timespec now;
  char text[80];
  clock_gettime(CLOCK_MONOTONIC, &now);
  snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%lld\n", (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
  tell(systemd, text, status);
}

void systemd_stopping(struct systemd *systemd, const char *status)
{
  tell(systemd, "STOPPING=1\n", status);
}
