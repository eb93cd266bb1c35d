#include "lockstore/hasten.h"

#include <signal.h>
#include <time.h>

/* The first one comes when a short read has made its entry. A long read makes it later; then the pause is what is lost at most. */
enum { PAUSE_MS = 4, PAUSE_MAX_MS = 32 };

static bool answered_within(struct hasten *hasten, int ms)
{
  struct timespec until;
  int failed = 0;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += (long)ms * 1000000;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_mutex_lock(&hasten->mutex);
  while (!hasten->answered && failed == 0)
    failed = pthread_cond_timedwait(&hasten->changed, &hasten->mutex, &until);
  bool answered = hasten->answered;
  pthread_mutex_unlock(&hasten->mutex);
  return answered;
}

/* No type is named so: it matches nothing. */
static bool write_journal(struct mongo *mongo)
{
  struct error ignored;
  int64_t count;
  bson_t *command =
      BCON_NEW("delete", "locks", "deletes", "[", "{", "q", "{", "type", "", "slot", BCON_INT32(0), "}", "limit", BCON_INT32(1), "}", "]");
  return mongo_write(mongo, "having the journal written", command, &count, &ignored) == OUTCOME_YES;
}

static void *thread_main(void *argument)
{
  struct hasten *hasten = argument;
  int pause_ms = PAUSE_MS;
  while (!answered_within(hasten, pause_ms) && write_journal(hasten->mongo))
    pause_ms = 2 * pause_ms < PAUSE_MAX_MS ? 2 * pause_ms : PAUSE_MAX_MS;
  return NULL;
}

void hasten_begin(struct hasten *hasten, struct mongo *mongo, bool linearizable)
{
  pthread_condattr_t monotonic;
  sigset_t all, before;
  *hasten = (struct hasten){.mongo = mongo};
  if (!linearizable || !mongo_is_replica_set(mongo))
    return;
  pthread_mutex_init(&hasten->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&hasten->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  hasten->started = pthread_create(&hasten->thread, NULL, thread_main, hasten) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (hasten->started)
    return;
  pthread_cond_destroy(&hasten->changed);
  pthread_mutex_destroy(&hasten->mutex);
}

void hasten_end(struct hasten *hasten)
{
  if (!hasten->started)
    return;
  pthread_mutex_lock(&hasten->mutex);
  hasten->answered = true;
  pthread_cond_broadcast(&hasten->changed);
  pthread_mutex_unlock(&hasten->mutex);
  pthread_join(hasten->thread, NULL);
  pthread_cond_destroy(&hasten->changed);
  pthread_mutex_destroy(&hasten->mutex);
}
