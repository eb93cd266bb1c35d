/*
 * watch: a thread that waits for wake-ups with one watcher (lockstore/wakeup.h) and hands them to the loop. It does nothing until it is
 * told to go, for a watcher makes what it watches, and a database that is refused is to be left as it is. When the watch is lost it begins
 * again, with a back-off, for as long as it takes, and as the process lasts. A process has two: one for what is for all, one for its box.
 *
 * Everything here is called from the loop's thread.
 */
#ifndef PAWL_WORKER_WATCH_H
#define PAWL_WORKER_WATCH_H

#include "base.h"
#include "lockstore/wakeup.h"

struct watch;

enum watch_news_kind {
  WATCH_BEGUN,  /* wake-ups come from now on */
  WATCH_LOST,   /* they do no longer: `error` */
  WATCH_DENIED, /* they cannot come as things are: `error`; it goes on trying */
  WATCH_WOKEN,  /* `wakeup` */
};

struct watch_news {
  enum watch_news_kind kind;
  struct wakeup wakeup;
  struct error error;
};

/*
 * The watcher is the watch's from now on, even if it cannot start. `notify` is called on the watch's thread when there are news: it must be
 * safe there (ev_async_send is). NULL: no thread; or there is no watcher, and `error` is as watcher_open left it.
 */
MUST_CHECK struct watch *watch_start(struct watcher *watcher, void (*notify)(void *context), void *context, struct error *error);
/* From the first time on. */
void watch_go(struct watch *watch);
/* False: there are none at the moment. */
MUST_CHECK bool watch_take(struct watch *watch, struct watch_news *news);
#endif
