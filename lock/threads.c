#include "lock/seam.h"
#include "lockstore/lease.h"
#include "lockstore/mongo.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>

/*
 * On MongoDB. The threads of a handle, all made when they are first needed:
 *   requesters  up to four; takes and releases: whatever job is due
 *   renewer     the renewals, so that no slow take keeps them waiting
 *   listener    one cursor on the wake-ups, while something is held or waits near the front
 */

enum {
  REQUESTERS_MAX = 4,
  CALLERS_MAX = 32, /* threads of the user's in calls that send requests themselves: more of them wait */
  STACK_BYTES = 512 * 1024,
  AWAIT_MS = 1000,        /* longest wait for a wake-up in one request */
  LISTEN_AGAIN_MS = 5000, /* pause after the cursor was lost, or could not be opened */
};

struct seam {
  pthread_cond_t work;    /* for the requesters */
  pthread_cond_t renewal; /* for the renewer */
  pthread_cond_t listen;  /* for the listener */
  pthread_cond_t changed; /* for threads in a call */
  bool stops;
  pthread_t threads[REQUESTERS_MAX + 2];
  int thread_count, requesters, idle;
  bool renews, listens; /* these threads are there */
  struct wakeup_reader *reader;
  char *uri, *db, *application; /* the last: the first word of the program's name, by which the server knows it */
  struct lockstore_options options;
};

/* ---- time ---- */

int64_t seam_now_ms(const struct pawl *pawl)
{
  struct timespec now;
  (void)pawl;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_on(struct pawl *pawl, pthread_cond_t *cond, int64_t until_ms)
{
  enum { WAIT_MS_MAX = 60000 };
  struct timespec at;
  int64_t ms = until_ms - seam_now_ms(pawl);
  ms = ms < 0 ? 0 : ms > WAIT_MS_MAX ? WAIT_MS_MAX : ms;
  clock_gettime(CLOCK_MONOTONIC, &at);
  at.tv_sec += ms / 1000;
  at.tv_nsec += (ms % 1000) * 1000000;
  if (at.tv_nsec >= 1000000000) {
    at.tv_nsec -= 1000000000;
    at.tv_sec++;
  }
  (void)pthread_cond_timedwait(cond, &pawl->mutex, &at);
}

int seam_fd_new(void)
{
  return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void seam_fd_set(const struct pawl *pawl, int fd, int64_t at_ms)
{
  struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000}};
  (void)pawl;
  if (at_ms <= 0)
    when.it_value.tv_nsec = 1; /* long ago: at once */
  timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, NULL);
}

/* ---- the threads ---- */

static void *requester(void *context)
{
  struct pawl *pawl = context;
  struct seam *seam = pawl->seam;
  pthread_mutex_lock(&pawl->mutex);
  while (!seam->stops) {
    struct job *job = jobs_first(&pawl->jobs);
    if (job == NULL || job->due_ms > seam_now_ms(pawl)) {
      seam->idle++;
      wait_on(pawl, &seam->work, job != NULL ? job->due_ms : INT64_MAX);
      seam->idle--;
      continue;
    }
    jobs_drop(&pawl->jobs, job);
    if (jobs_first(&pawl->jobs) != NULL)
      seam_job_put(pawl); /* the next one is another's, while this one waits for its answer */
    job->run(pawl, job);
  }
  pthread_mutex_unlock(&pawl->mutex);
  return NULL;
}

static void *renewer(void *context)
{
  struct pawl *pawl = context;
  struct seam *seam = pawl->seam;
  pthread_mutex_lock(&pawl->mutex);
  while (!seam->stops) {
    if (pawl->renewal.due_ms > seam_now_ms(pawl))
      wait_on(pawl, &seam->renewal, pawl->renewal.due_ms);
    else
      pawl->renewal.run(pawl, &pawl->renewal);
  }
  pthread_mutex_unlock(&pawl->mutex);
  return NULL;
}

/* Without the mutex. */
static enum outcome listen_once(struct pawl *pawl, bool begun, struct wakeup *wakeup)
{
  struct seam *seam = pawl->seam;
  struct error ignored; /* the timers see everything as well */
  if (seam->reader == NULL)
    seam->reader = wakeup_reader_open(pawl->store, &seam->options, NULL, 0, &ignored);
  if (seam->reader == NULL)
    return OUTCOME_UNKNOWN;
  if (!begun)
    return wakeup_reader_begin(seam->reader, &ignored) == OUTCOME_YES ? OUTCOME_NO : OUTCOME_UNKNOWN;
  return wakeup_reader_next(seam->reader, AWAIT_MS, wakeup, &ignored);
}

/* Each job wakes it. */
static void pause_listening(struct pawl *pawl)
{
  int64_t until_ms = seam_now_ms(pawl) + LISTEN_AGAIN_MS;
  while (!pawl->seam->stops && seam_now_ms(pawl) < until_ms)
    wait_on(pawl, &pawl->seam->listen, until_ms);
}

static void *listener(void *context)
{
  struct pawl *pawl = context;
  struct seam *seam = pawl->seam;
  struct wakeup wakeup;
  pthread_mutex_lock(&pawl->mutex);
  while (!seam->stops) {
    if (!handle_listens(pawl)) {
      handle_listening(pawl, false);
      wait_on(pawl, &seam->listen, INT64_MAX);
      continue;
    }
    bool begun = pawl->listening;
    pthread_mutex_unlock(&pawl->mutex);
    enum outcome outcome = listen_once(pawl, begun, &wakeup);
    pthread_mutex_lock(&pawl->mutex);
    handle_listening(pawl, outcome == OUTCOME_YES || outcome == OUTCOME_NO);
    if (outcome == OUTCOME_YES)
      handle_notified(pawl, &wakeup);
    else if (outcome != OUTCOME_NO)
      pause_listening(pawl);
  }
  pthread_mutex_unlock(&pawl->mutex);
  return NULL;
}

/* False: no thread; what is to be done waits for the threads that there are. */
static bool thread_start(struct pawl *pawl, void *(*run)(void *))
{
  struct seam *seam = pawl->seam;
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&seam->threads[seam->thread_count], &attributes, run, pawl) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  seam->thread_count += started;
  return started;
}

bool seam_start(struct pawl *pawl)
{
  struct seam *seam = pawl->seam;
  if (seam->requesters == 0)
    seam->requesters += thread_start(pawl, requester);
  if (!seam->renews)
    seam->renews = thread_start(pawl, renewer);
  return seam->requesters > 0 && seam->renews;
}

void seam_job_put(struct pawl *pawl)
{
  struct seam *seam = pawl->seam;
  if (seam->stops)
    return;
  if (seam->idle == 0 && seam->requesters < REQUESTERS_MAX && jobs_first(&pawl->jobs) != NULL)
    seam->requesters += thread_start(pawl, requester);
  if (!seam->listens && handle_listens(pawl))
    seam->listens = thread_start(pawl, listener);
  pthread_cond_signal(&seam->work);
  pthread_cond_signal(&seam->renewal);
  if (!pawl->listening)
    pthread_cond_signal(&seam->listen);
}

void seam_changed(struct pawl *pawl)
{
  pthread_cond_broadcast(&pawl->seam->changed);
}

void seam_wait(struct pawl *pawl, int64_t until_ms)
{
  wait_on(pawl, &pawl->seam->changed, until_ms);
}

/* The listener waits on the server for up to a second: a wake-up of its own ends that. */
void seam_stop(struct pawl *pawl)
{
  struct seam *seam = pawl->seam;
  struct error ignored;
  struct owner me = {.bytes = {0}};
  memcpy(me.bytes, lockstore_address(pawl->store)->bytes, ADDRESS_BYTES);
  bool listening = pawl->listening;
  seam->stops = true;
  pthread_cond_broadcast(&seam->work);
  pthread_cond_broadcast(&seam->renewal);
  pthread_cond_broadcast(&seam->listen);
  pthread_mutex_unlock(&pawl->mutex);
  if (listening)
    (void)wakeup_send(pawl->store, "closing", WAKEUP_LOCK, &me, 0, &ignored);
  for (int i = 0; i < seam->thread_count; i++)
    pthread_join(seam->threads[i], NULL);
  wakeup_reader_close(seam->reader);
  pthread_mutex_lock(&pawl->mutex);
}

/* ---- open ---- */

static void strings_free(struct seam *seam)
{
  free(seam->uri);
  free(seam->db);
  free(seam->application);
}

static struct seam *seam_new(const struct pawl_options *options, const char *program)
{
  struct seam *seam = calloc(1, sizeof *seam);
  pthread_condattr_t monotonic;
  if (seam == NULL)
    return NULL;
  seam->uri = strdup(options->uri != NULL ? options->uri : "mongodb://localhost:27017");
  seam->db = strdup(options->db != NULL ? options->db : "");
  seam->application = strndup(program, strcspn(program, " "));
  if (seam->uri == NULL || seam->db == NULL || seam->application == NULL) {
    strings_free(seam);
    free(seam);
    return NULL;
  }
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&seam->work, &monotonic);
  pthread_cond_init(&seam->renewal, &monotonic);
  pthread_cond_init(&seam->listen, &monotonic);
  pthread_cond_init(&seam->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return seam;
}

void seam_free(struct pawl *pawl)
{
  struct seam *seam = pawl->seam;
  if (seam == NULL)
    return;
  pthread_cond_destroy(&seam->work);
  pthread_cond_destroy(&seam->renewal);
  pthread_cond_destroy(&seam->listen);
  pthread_cond_destroy(&seam->changed);
  strings_free(seam);
  free(seam);
}

static bool store_open(struct pawl *pawl, struct error *error)
{
  struct seam *seam = pawl->seam;
  mongo_start_as_guest(); /* pawl-lock has started it as its own */
  seam->options = (struct lockstore_options){.uri = seam->uri,
                                             .db = seam->db,
                                             .timeout_ms = lease_request_ms(pawl->lease_ms),
                                             .majority_ms = lease_majority_ms(pawl->lease_ms),
                                             .connections_max = REQUESTERS_MAX + 1 + CALLERS_MAX, /* and the renewer */
                                             .program = seam->application};
  pawl->store = lockstore_open(&seam->options, error);
  seam->options.await_ms = AWAIT_MS; /* from now on they are the listener's */
  return pawl->store != NULL;
}

enum pawl_result pawl_open(const struct pawl_options *given, struct pawl **made, struct pawl_error *error)
{
  struct pawl *pawl;
  struct pawl_options options;
  struct error wrong;
  enum pawl_result result = handle_new(given, &options, &pawl, error);
  *made = NULL;
  if (result != PAWL_OK)
    return result;
  pawl->seam = seam_new(&options, pawl->holder.program);
  if (pawl->seam == NULL)
    result = result_set(error, PAWL_MEMORY, "pawl_open: no memory");
  else if (!store_open(pawl, &wrong))
    result = result_set(error, PAWL_INVALID, "pawl_open: uri or db: %s", wrong.text);
  if (result == PAWL_OK)
    *made = pawl;
  else
    handle_free(pawl);
  return result;
}
