#include "worker/notifications.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
  QUEUED_MAX = 64, /* of a flood the rest is dropped: looking once is as good as looking often */
  PAUSE_MS = 100,
  PAUSE_MAX_MS = 5000,
  PAUSE_DENIED_MS = 30000,
};

struct notifications {
  struct wakeup_reader *reader;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* `going` */
  bool going;
  struct notification news[QUEUED_MAX]; /* a ring */
  size_t first, count;
  bool dropped;
  void (*notify)(void *context);
  void *context;
};

/* ---- the thread ---- */

/*
 * Two places are kept for what is not a mere wake-up: as a rule a loss, and PAUSE_MS later the beginning that follows on it. In a flood a
 * third is dropped, if the loop has taken nothing meanwhile.
 */
static void tell(struct notifications *notifications, enum notification_kind kind, const struct wakeup *wakeup, const struct error *error)
{
  pthread_mutex_lock(&notifications->mutex);
  if (notifications->count < QUEUED_MAX - (kind == NOTIFICATION_WAKEUP ? 2 : 0)) {
    struct notification *news = &notifications->news[(notifications->first + notifications->count++) % QUEUED_MAX];
    news->kind = kind;
    if (wakeup)
      news->wakeup = *wakeup;
    if (error)
      news->error = *error;
  } else {
    notifications->dropped = true;
  }
  pthread_mutex_unlock(&notifications->mutex);
  notifications->notify(notifications->context);
}

static void pause_for(int64_t ms)
{
  struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

static void wait_to_go(struct notifications *notifications)
{
  pthread_mutex_lock(&notifications->mutex);
  while (!notifications->going)
    pthread_cond_wait(&notifications->changed, &notifications->mutex);
  pthread_mutex_unlock(&notifications->mutex);
}

/* Until the cursor is lost. */
static void notifications_on(struct notifications *notifications)
{
  struct wakeup wakeup;
  struct error error;
  enum outcome outcome = OUTCOME_NO;
  tell(notifications, NOTIFICATIONS_BEGUN, NULL, NULL);
  while (outcome != OUTCOME_UNKNOWN) {
    outcome = wakeup_reader_next(notifications->reader, INT64_MAX, &wakeup, &error);
    if (outcome == OUTCOME_YES)
      tell(notifications, NOTIFICATION_WAKEUP, &wakeup, NULL);
  }
  tell(notifications, NOTIFICATIONS_LOST, NULL, &error);
}

_Noreturn static void *thread_main(void *argument)
{
  struct notifications *notifications = argument;
  struct error error;
  int64_t pause_ms = PAUSE_MS;
  wait_to_go(notifications);
  for (;;) {
    enum outcome outcome = wakeup_reader_begin(notifications->reader, &error);
    if (outcome == OUTCOME_YES) {
      pause_ms = PAUSE_MS;
      notifications_on(notifications);
    } else if (outcome == OUTCOME_REFUSED) {
      tell(notifications, NOTIFICATIONS_DENIED, NULL, &error);
      pause_ms = PAUSE_DENIED_MS;
    }
    pause_for(pause_ms);
    pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
  }
}

/* ---- begin and end ---- */

static void notifications_free(struct notifications *notifications)
{
  wakeup_reader_close(notifications->reader);
  pthread_cond_destroy(&notifications->changed);
  pthread_mutex_destroy(&notifications->mutex);
  free(notifications);
}

struct notifications *notifications_start(struct wakeup_reader *reader, void (*notify)(void *context), void *context, struct error *error)
{
  struct notifications *notifications = reader != NULL ? calloc(1, sizeof *notifications) : NULL;
  pthread_t thread;
  sigset_t all, before;
  if (notifications == NULL) {
    if (reader != NULL)
      error_set(error, "no memory");
    wakeup_reader_close(reader);
    return NULL;
  }
  notifications->reader = reader;
  pthread_mutex_init(&notifications->mutex, NULL);
  pthread_cond_init(&notifications->changed, NULL);
  notifications->notify = notify;
  notifications->context = context;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread, NULL, thread_main, notifications);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0)
    return notifications;
  error_set(error, "starting a thread: %s", strerror(failed));
  notifications_free(notifications);
  return NULL;
}

void notifications_go(struct notifications *notifications)
{
  pthread_mutex_lock(&notifications->mutex);
  notifications->going = true;
  pthread_cond_broadcast(&notifications->changed);
  pthread_mutex_unlock(&notifications->mutex);
}

bool notifications_dropped(struct notifications *notifications)
{
  pthread_mutex_lock(&notifications->mutex);
  bool dropped = notifications->dropped;
  notifications->dropped = false;
  pthread_mutex_unlock(&notifications->mutex);
  return dropped;
}

bool notifications_take(struct notifications *notifications, struct notification *news)
{
  pthread_mutex_lock(&notifications->mutex);
  bool any = notifications->count > 0;
  if (any) {
    *news = notifications->news[notifications->first];
    notifications->first = (notifications->first + 1) % QUEUED_MAX;
    notifications->count--;
  }
  pthread_mutex_unlock(&notifications->mutex);
  return any;
}
