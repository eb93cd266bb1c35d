#include "worker/space.h"
#include "storage/file.h"
#include "worker/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { PERIOD_S = 10, FRESH_MS = 60000 };

struct space {
  const char *dir;
  pthread_mutex_t mutex;
  struct space_view view;
  int64_t seen_ms; /* when `view` was made */
};

static void space_see(struct space *space)
{
  struct file_place place;
  struct error ignored; /* who writes there says it */
  bool told = file_place(space->dir, &place, &ignored) == FILE_OK && place.free_bytes != INT64_MAX;
  pthread_mutex_lock(&space->mutex);
  space->view = (struct space_view){.known = told};
  if (told)
    space->view = (struct space_view){.known = true, .free_bytes = place.free_bytes, .size_bytes = place.size_bytes};
  space->seen_ms = clock_boot_ms();
  pthread_mutex_unlock(&space->mutex);
}

_Noreturn static void *thread_main(void *argument)
{
  for (;;) {
    nanosleep(&(struct timespec){.tv_sec = PERIOD_S}, NULL);
    space_see(argument);
  }
}

struct space *space_watch(const char *dir, struct error *error)
{
  struct space *space = calloc(1, sizeof *space);
  pthread_t thread;
  sigset_t all, before;
  if (space == NULL) {
    error_set(error, "no memory");
    return NULL;
  }
  space->dir = dir;
  pthread_mutex_init(&space->mutex, NULL);
  space_see(space);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&thread, NULL, thread_main, space);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0)
    return space;
  error_set(error, "starting a thread: %s", strerror(failed));
  pthread_mutex_destroy(&space->mutex);
  free(space);
  return NULL;
}

void space_look(struct space *space, int64_t now_ms, struct space_view *view)
{
  pthread_mutex_lock(&space->mutex);
  *view = space->view;
  view->known = view->known && now_ms - space->seen_ms < FRESH_MS;
  pthread_mutex_unlock(&space->mutex);
}
