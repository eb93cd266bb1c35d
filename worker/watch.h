/*
 * watch: a thread that waits for wake-ups with one watcher (lockstore/wakeup.h) and passes them to the loop. It does nothing
 * before watch_go, because a watcher makes missing collections, and a database that is refused must stay unchanged. When the
 * watcher's cursor is lost, the thread begins again, with a back-off, as long as the process lasts.
 *
 * Only the loop's thread may call these functions.
 */
#ifndef PAWL_WORKER_WATCH_H
#define PAWL_WORKER_WATCH_H

#include "base.h"
#include "lockstore/wakeup.h"

struct watch;

enum watch_news_kind {
  WATCH_BEGUN,  /* wake-ups come from now on */
  WATCH_LOST,   /* wake-ups no longer come: `error` */
  WATCH_DENIED, /* wake-ups cannot come at present: `error`; the thread goes on trying */
  WATCH_WOKEN,  /* `wakeup` */
};

struct watch_news {
  enum watch_news_kind kind;
  struct wakeup wakeup;
  struct error error;
};

/*
 * From now on the watcher belongs to the watch, even if the watch cannot start. The watch's thread calls `notify` when there is
 * news, so it must be safe there (ev_async_send is). NULL: no thread; or `watcher` is NULL, and `error` is as watcher_open left
 * it.
 */
MUST_CHECK struct watch *watch_start(struct watcher *watcher, void (*notify)(void *context), void *context, struct error *error);
/* Starts the work; later calls have no effect. */
void watch_go(struct watch *watch);
/* False: there is no news at the moment. */
MUST_CHECK bool watch_take(struct watch *watch, struct watch_news *news);
#endif
