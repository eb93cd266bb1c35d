#include "worker/watch.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
  NEWS_MAX = 64, /* of a flood the rest is dropped: looking once is as good as looking often */
  PAUSE_MS = 100,
  PAUSE_MAX_MS = 5000,
  PAUSE_DENIED_MS = 30000,
};

struct watch {
  struct watcher *watcher;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* `going` */
  bool going;
  struct watch_news news[NEWS_MAX]; /* a ring */
  size_t first, count;
  void (*notify)(void *context);
  void *context;
};

/* ---- the thread ---- */

/*
 * Two places are kept for what is not a mere wake-up: as a rule a loss, and PAUSE_MS later the beginning that follows on it. In a flood a
 * third is dropped, if the loop has taken nothing meanwhile.
 */
static void tell(struct watch *watch, enum watch_news_kind kind, const struct wakeup *wakeup, const struct error *error)
{
  pthread_mutex_lock(&watch->mutex);
  if (watch->count < NEWS_MAX - (kind == WATCH_WOKEN ? 2 : 0)) {
    struct watch_news *news = &watch->news[(watch->first + watch->count++) % NEWS_MAX];
    news->kind = kind;
    if (wakeup)
      news->wakeup = *wakeup;
    if (error)
      news->error = *error;
  }
  pthread_mutex_unlock(&watch->mutex);
  watch->notify(watch->context);
}

static void pause_for(int64_t ms)
{
  struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

static void wait_to_go(struct watch *watch)
{
  pthread_mutex_lock(&watch->mutex);
  while (!watch->going)
    pthread_cond_wait(&watch->changed, &watch->mutex);
  pthread_mutex_unlock(&watch->mutex);
}

/* Watches until the watch is lost. */
static void watch_on(struct watch *watch)
{
  struct wakeup wakeup;
  struct error error;
  enum outcome outcome = OUTCOME_NO;
  tell(watch, WATCH_BEGUN, NULL, NULL);
  while (outcome != OUTCOME_UNKNOWN) {
    outcome = watcher_next(watch->watcher, INT64_MAX, &wakeup, &error);
    if (outcome == OUTCOME_YES)
      tell(watch, WATCH_WOKEN, &wakeup, NULL);
  }
  tell(watch, WATCH_LOST, NULL, &error);
}

_Noreturn static void *thread_main(void *argument)
{
  struct watch *watch = argument;
  struct error error;
  int64_t pause_ms = PAUSE_MS;
  wait_to_go(watch);
  for (;;) {
    enum outcome outcome = watcher_begin(watch->watcher, &error);
    if (outcome == OUTCOME_YES) {
      pause_ms = PAUSE_MS;
      watch_on(watch);
    } else if (outcome == OUTCOME_REFUSED) {
      tell(watch, WATCH_DENIED, NULL, &error);
      pause_ms = PAUSE_DENIED_MS;
    }
    pause_for(pause_ms);
    pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
  }
}

/* ---- begin and end ---- */

static void watch_free(struct watch *watch)
{
  watcher_close(watch->watcher);
  pthread_cond_destroy(&watch->changed);
  pthread_mutex_destroy(&watch->mutex);
  free(watch);
}

struct watch *watch_start(struct watcher *watcher, void (*notify)(void *context), void *context, struct error *error)
{
  struct watch *watch = watcher != NULL ? calloc(1, sizeof *watch) : NULL;
  pthread_t thread;
  sigset_t all, before;
  if (watch == NULL) {
    if (watcher != NULL)
      error_set(error, "no memory");
    watcher_close(watcher);
    return NULL;
  }
  watch->watcher = watcher;
  pthread_mutex_init(&watch->mutex, NULL);
  pthread_cond_init(&watch->changed, NULL);
  watch->notify = notify;
  watch->context = context;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread, NULL, thread_main, watch);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0)
    return watch;
  error_set(error, "starting a thread: %s", strerror(failed));
  watch_free(watch);
  return NULL;
}

void watch_go(struct watch *watch)
{
  pthread_mutex_lock(&watch->mutex);
  watch->going = true;
  pthread_cond_broadcast(&watch->changed);
  pthread_mutex_unlock(&watch->mutex);
}

bool watch_take(struct watch *watch, struct watch_news *news)
{
  pthread_mutex_lock(&watch->mutex);
  bool any = watch->count > 0;
  if (any) {
    *news = watch->news[watch->first];
    watch->first = (watch->first + 1) % NEWS_MAX;
    watch->count--;
  }
  pthread_mutex_unlock(&watch->mutex);
  return any;
}
