/*
 * notifications: a thread that waits for wake-ups with one reader of wake-ups (lockstore/wakeup.h) and passes them to the loop. It does
 * nothing before notifications_go, because a reader makes missing collections, and a database that is refused must stay
 * unchanged. When the reader's cursor is lost, the thread begins again, with a back-off, as long as the process lasts.
 *
 * Only the loop's thread may call these functions.
 */
#ifndef PAWL_WORKER_NOTIFICATIONS_H
#define PAWL_WORKER_NOTIFICATIONS_H

#include "base.h"
#include "lockstore/wakeup.h"

struct notifications;

enum notification_kind {
  NOTIFICATIONS_BEGUN,  /* wake-ups come from now on */
  NOTIFICATIONS_LOST,   /* wake-ups no longer come: `error` */
  NOTIFICATIONS_DENIED, /* wake-ups cannot come at present: `error`; the thread goes on trying */
  NOTIFICATION_WAKEUP,  /* `wakeup` */
};

struct notification {
  enum notification_kind kind;
  struct wakeup wakeup;
  struct error error;
};

/*
 * Takes over the reader, even if it fails. The thread calls `notify` when there is something to take, so `notify` must be safe
 * there (ev_async_send is). NULL: no thread; or `reader` is NULL, and `error` is as wakeup_reader_open left it.
 */
MUST_CHECK struct notifications *notifications_start(struct wakeup_reader *reader, void (*notify)(void *context), void *context,
                                                     struct error *error);
/* Starts the work; later calls have no effect. */
void notifications_go(struct notifications *notifications);
/* Whether wake-ups were dropped since the last call, because too many came at once. */
MUST_CHECK bool notifications_dropped(struct notifications *notifications);
/* False: there is nothing at the moment. */
MUST_CHECK bool notifications_take(struct notifications *notifications, struct notification *news);
#endif
