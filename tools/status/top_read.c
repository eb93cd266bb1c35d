#include "tools/status/top_private.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PERIOD_MS = 1000, COUNT_MS_MIN = 2000, COUNT_SHARE = 20, INSPECT_MS = 30000 };

struct top_reader {
  struct lockstore *store;
  struct overview_types types;
  int wake;
  int64_t count_at_ms, inspect_at_ms; /* the next ones */
  pthread_mutex_t mutex;
  struct overview *fresh; /* read, and not taken yet */
  struct error error;     /* of the last reading; empty: none */
};

/* Counting may cost a twentieth of the time. */
static void count_when_due(struct top_reader *reader, struct overview *overview)
{
  struct error ignored; /* then the counts are not known */
  int64_t now_ms = overview_now_ms();
  if (now_ms < reader->count_at_ms || !overview->queue_known)
    return;
  (void)!overview_count(overview, reader->store, &reader->types, &ignored);
  int64_t pause_ms = COUNT_SHARE * overview->count_took_ms;
  reader->count_at_ms = overview_now_ms() + (pause_ms > COUNT_MS_MIN ? pause_ms : COUNT_MS_MIN);
}

static struct overview *read_once(struct top_reader *reader, const struct overview *earlier, struct error *error)
{
  struct overview *overview = calloc(1, sizeof *overview);
  if (!overview) {
    error_set(error, "out of memory");
    return NULL;
  }
  if (overview_read(overview, reader->store, &reader->types, earlier, error) != OUTCOME_YES) {
    overview_free(overview);
    free(overview);
    return NULL;
  }
  if (earlier) /* the first one is shown at once */
    count_when_due(reader, overview);
  if (reader->types.count == 0 && overview_now_ms() >= reader->inspect_at_ms) {
    overview_inspect(overview, reader->store);
    reader->inspect_at_ms = overview_now_ms() + INSPECT_MS;
  }
  error->text[0] = '\0';
  return overview;
}

/* Returns what was published before, and never taken. */
static struct overview *publish(struct top_reader *reader, struct overview *overview, const struct error *error)
{
  struct overview *unseen = NULL;
  pthread_mutex_lock(&reader->mutex);
  reader->error = *error;
  if (overview) {
    unseen = reader->fresh;
    reader->fresh = overview;
  }
  pthread_mutex_unlock(&reader->mutex);
  (void)!write(reader->wake, "", 1);
  return unseen;
}

/* `earlier` is the last one that was published: it is freed by nobody before the next one is. */
static void *read_on(void *context)
{
  struct top_reader *reader = context;
  struct overview *earlier = NULL;
  for (;;) {
    struct error error = {.text = ""};
    int64_t began_ms = overview_now_ms();
    struct overview *overview = read_once(reader, earlier, &error);
    struct overview *unseen = publish(reader, overview, &error);
    if (unseen) {
      overview_free(unseen);
      free(unseen);
    }
    bool first = overview && !earlier; /* the counts are wanted at once, too */
    if (overview)
      earlier = overview;
    int64_t left_ms = first ? 0 : PERIOD_MS - (overview_now_ms() - began_ms);
    if (left_ms > 0)
      nanosleep(&(struct timespec){.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000}, NULL);
  }
  return NULL;
}

/* Signals are for the thread that draws. */
struct top_reader *top_reader_start(struct lockstore *store, const struct overview_types *types, int wake)
{
  struct top_reader *reader = calloc(1, sizeof *reader);
  sigset_t all, before;
  pthread_t thread;
  if (!reader)
    return NULL;
  *reader = (struct top_reader){.store = store, .types = *types, .wake = wake};
  pthread_mutex_init(&reader->mutex, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  bool started = pthread_create(&thread, NULL, read_on, reader) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started)
    return reader;
  free(reader);
  return NULL;
}

struct overview *top_reader_take(struct top_reader *reader, struct error *error)
{
  pthread_mutex_lock(&reader->mutex);
  struct overview *overview = reader->fresh;
  reader->fresh = NULL;
  *error = reader->error;
  pthread_mutex_unlock(&reader->mutex);
  return overview;
}
