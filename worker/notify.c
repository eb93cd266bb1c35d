#include "worker/notify.h"

#if PAWL_SYSTEMD
#include <stdlib.h>
#include <systemd/sd-daemon.h>
#endif

enum { PERIOD_MS = 1000 };

static void tell(struct notify *notify, const char *what, const char *status)
{
  char text[NOTIFY_STATUS_SIZE + 40];
  if (!notify->on)
    return;
  snprintf(notify->status, sizeof notify->status, "%s", status);
  snprintf(text, sizeof text, "%sSTATUS=%s", what, notify->status);
#if PAWL_SYSTEMD
  sd_notify(false, text);
#endif
}

void notify_init(struct notify *notify, int64_t now_ms)
{
  *notify = (struct notify){0};
#if PAWL_SYSTEMD
  uint64_t limit_us = 0;
  notify->on = getenv("NOTIFY_SOCKET") != NULL;
  if (sd_watchdog_enabled(false, &limit_us) > 0)
    notify->watchdog_ms = limit_us < 4000 ? 1 : (int64_t)(limit_us / 2000);
#endif
  notify->watchdog_at = now_ms;
}

int64_t notify_period_ms(const struct notify *notify)
{
  if (!notify->on)
    return 0;
  return notify->watchdog_ms > 0 && notify->watchdog_ms < PERIOD_MS ? notify->watchdog_ms : PERIOD_MS;
}

void notify_tick(struct notify *notify, int64_t now_ms, const char *status)
{
  bool alive = notify->watchdog_ms > 0 && now_ms + notify_period_ms(notify) > notify->watchdog_at; /* the next tick would be late */
  if (alive)
    notify->watchdog_at = now_ms + notify->watchdog_ms;
  if (alive || strcmp(status, notify->status) != 0)
    tell(notify, alive ? "WATCHDOG=1\n" : "", status);
}

void notify_ready(struct notify *notify, const char *status)
{
  tell(notify, "READY=1\n", status);
}

void notify_stopping(struct notify *notify, const char *status)
{
  tell(notify, "STOPPING=1\n", status);
}
