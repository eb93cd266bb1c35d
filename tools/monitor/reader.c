#include "tools/monitor/reader.h"
#include "lockstore/mongo.h"
#include "tools/monitor/pace.h"
#include "worker/log.h"

#include <time.h>

/* ---- one reading ---- */

/* What the log has said last. */
enum standing { STANDING_NEW, STANDING_ANSWERS, STANDING_AWAY };

static void say_failed(enum standing *standing, const struct error *why)
{
  if (*standing != STANDING_AWAY)
    log_line(CONFIG_LOG_WARN, &(struct log_subject){0}, "database", why->text);
  *standing = STANDING_AWAY;
}

static void say_answers(enum standing *standing, struct lockstore *store)
{
  struct error text;
  error_set(&text, "%.800s answers", mongo_server(lockstore_mongo(store)));
  if (*standing != STANDING_ANSWERS)
    log_line(CONFIG_LOG_INFO, &(struct log_subject){0}, "database", text.text);
  *standing = STANDING_ANSWERS;
}

/* A count that fails leaves the lengths of the queues unknown. */
static bool count(const struct reader *reader, struct pace *pace, struct overview *overview)
{
  struct error ignored;
  int64_t begin = overview_now_ms();
  bool counted = overview_count(overview, reader->store, &reader->types, &ignored) == OUTCOME_YES;
  pace_count_done(pace, begin, overview_now_ms());
  return counted;
}

static void read_once(struct reader *reader, struct pace *pace, enum standing *standing)
{
  struct overview overview = {0};
  struct error error = {.text = ""};
  bool counted = false;
  int64_t begin = overview_now_ms();
  enum outcome outcome = overview_read(&overview, reader->store, &reader->types, &reader->board->overview, &error);
  int64_t end = overview_now_ms();
  pace_read_done(pace, outcome == OUTCOME_YES ? begin : end, end);
  if (outcome != OUTCOME_YES) {
    board_fail(reader->board, &error);
    say_failed(standing, &error);
    overview_free(&overview);
    return;
  }
  if (pace_count_due(pace, end))
    counted = count(reader, pace, &overview);
  if (pace_check_due(pace, end))
    overview_inspect(&overview, reader->store);
  board_take(reader->board, &overview, end - begin, counted);
  say_answers(standing, reader->store);
}

/* ---- the thread ---- */

/* Until then, or until somebody wants the first documents of a type. Returns when a client last asked for something. */
static int64_t wait_until(struct reader *reader, int64_t end_ms)
{
  pthread_mutex_lock(&reader->mutex);
  while (!reader->woken) {
    int64_t left = end_ms - overview_now_ms();
    struct timespec end;
    if (left <= 0)
      break;
    clock_gettime(CLOCK_MONOTONIC, &end);
    int64_t ns = end.tv_nsec + left % 1000 * 1000000;
    end.tv_sec += left / 1000 + ns / 1000000000;
    end.tv_nsec = ns % 1000000000;
    pthread_cond_timedwait(&reader->wake, &reader->mutex, &end);
  }
  reader->woken = false;
  int64_t asked = reader->asked_ms;
  pthread_mutex_unlock(&reader->mutex);
  return asked;
}

static void *reader_run(void *context)
{
  struct reader *reader = context;
  enum standing standing = STANDING_NEW;
  struct pace pace;
  pace_init(&pace, reader->interval_ms, overview_now_ms());
  for (;;) {
    int64_t now = overview_now_ms();
    if (pace_read_at(&pace, now) <= now)
      read_once(reader, &pace, &standing);
    now = overview_now_ms();
    if (firsts_read_at(reader->firsts) <= now)
      firsts_read(reader->firsts, reader->store, pace_read_at(&pace, now));
    int64_t end = pace_read_at(&pace, overview_now_ms()), first = firsts_read_at(reader->firsts);
    pace_asked(&pace, wait_until(reader, first < end ? first : end));
  }
  return NULL;
}

bool reader_start(struct reader *reader, struct error *error)
{
  pthread_condattr_t attributes;
  pthread_t thread;
  reader->asked_ms = overview_now_ms();
  pthread_mutex_init(&reader->mutex, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&reader->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  int reason = pthread_create(&thread, NULL, reader_run, reader);
  if (reason != 0) {
    error_set(error, "cannot start a thread: %s", strerror(reason));
    return false;
  }
  pthread_detach(thread);
  return true;
}

void reader_asked(struct reader *reader, bool wakes)
{
  pthread_mutex_lock(&reader->mutex);
  int64_t now = overview_now_ms();
  bool slept = now - reader->asked_ms > PACE_IDLE_MS; /* what it shows should be fresh again at once */
  reader->asked_ms = now;
  if (wakes || slept) {
    reader->woken = true;
    pthread_cond_signal(&reader->wake);
  }
  pthread_mutex_unlock(&reader->mutex);
}
