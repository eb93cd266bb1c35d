#include "worker/executor.h"
#include "worker/clock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

enum { IDLE = -1, AGAIN_MS = 1000 };

struct jobs {
  struct job *first, **last;
  int count;
};

struct place { /* of a thread */
  struct executor *executor;
  bool taken;
  int64_t began_ms; /* its job; IDLE: it has none */
};

struct executor {
  pthread_mutex_t mutex;
  pthread_cond_t wanted; /* `waiting` is not empty */
  struct executor_size size;
  struct jobs waiting, done;
  struct place *places; /* size.threads_most */
  int threads;
  int idle; /* of these, the ones without a job */
  void (*notify)(void *context);
  void *context;
};

static void jobs_init(struct jobs *jobs)
{
  *jobs = (struct jobs){.last = &jobs->first};
}

static void jobs_push(struct jobs *jobs, struct job *job)
{
  job->next = NULL;
  *jobs->last = job;
  jobs->last = &job->next;
  jobs->count++;
}

static struct job *jobs_pop(struct jobs *jobs)
{
  struct job *job = jobs->first;
  if (job == NULL)
    return NULL;
  jobs->first = job->next;
  jobs->count--;
  if (jobs->first == NULL)
    jobs->last = &jobs->first;
  return job;
}

/* Jobs that last. *next_ms: when the next one will, if it still runs; INT64_MAX: none runs that does not last yet. */
static int lasting(const struct executor *executor, int64_t now_ms, int64_t *next_ms)
{
  int count = 0, seen = 0;
  *next_ms = INT64_MAX;
  for (const struct place *place = executor->places; seen < executor->threads; place++) {
    int64_t lasts_ms = place->began_ms + executor->size.lasts_ms;
    seen += place->taken;
    if (!place->taken || place->began_ms == IDLE)
      continue;
    if (lasts_ms <= now_ms)
      count++;
    else if (lasts_ms < *next_ms)
      *next_ms = lasts_ms;
  }
  return count;
}

static int threads_allowed(const struct executor *executor, int64_t *next_ms)
{
  int allowed = executor->size.threads + lasting(executor, clock_boot_ms(), next_ms);
  return allowed < executor->size.threads_most ? allowed : executor->size.threads_most;
}

/* A job that lasted is over, and the thread that was made for it is one too many. */
static bool is_one_too_many(const struct executor *executor)
{
  int64_t ignored;
  return executor->threads > executor->size.threads && executor->threads > threads_allowed(executor, &ignored);
}

static void *thread_main(void *argument)
{
  struct place *place = argument;
  struct executor *executor = place->executor;
  pthread_mutex_lock(&executor->mutex);
  while (!is_one_too_many(executor)) {
    struct job *job;
    while ((job = jobs_pop(&executor->waiting)) == NULL)
      pthread_cond_wait(&executor->wanted, &executor->mutex);
    executor->idle--;
    place->began_ms = clock_boot_ms();
    pthread_mutex_unlock(&executor->mutex);
    job->work(job);
    pthread_mutex_lock(&executor->mutex);
    place->began_ms = IDLE;
    executor->idle++;
    jobs_push(&executor->done, job);
    executor->notify(executor->context);
  }
  executor->threads--;
  executor->idle--;
  place->taken = false;
  pthread_mutex_unlock(&executor->mutex);
  return NULL;
}

/* With the mutex, and all signals blocked. Returns what pthread_create does. */
static int thread_add(struct executor *executor)
{
  pthread_t thread;
  struct place *place = executor->places;
  while (place->taken)
    place++;
  *place = (struct place){.executor = executor, .taken = true, .began_ms = IDLE};
  int failed = pthread_create(&thread, NULL, thread_main, place);
  if (failed != 0) {
    place->taken = false;
    return failed;
  }
  pthread_detach(thread);
  executor->threads++;
  executor->idle++;
  return 0;
}

/* Threads for what waits, as far as there may be more; with the mutex. Returns when there may be another. */
static int64_t threads_add(struct executor *executor, int waiting)
{
  int64_t next_ms;
  int wanted = executor->threads + waiting - executor->idle, failed = 0;
  if (waiting <= executor->idle || executor->threads == executor->size.threads_most)
    return INT64_MAX;
  int allowed = threads_allowed(executor, &next_ms);
  if (executor->threads >= allowed)
    return next_ms;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (executor->threads < wanted && executor->threads < allowed && failed == 0)
    failed = thread_add(executor);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return failed != 0 ? clock_boot_ms() + AGAIN_MS : executor->threads < wanted ? next_ms : INT64_MAX;
}

struct executor *executor_new(const struct executor_size *size, void (*notify)(void *context), void *context, struct error *error)
{
  struct executor *executor = calloc(1, sizeof *executor);
  if (executor == NULL || (executor->places = calloc((size_t)size->threads_most, sizeof *executor->places)) == NULL) {
    free(executor);
    error_set(error, "no memory for %d threads", size->threads_most);
    return NULL;
  }
  pthread_mutex_init(&executor->mutex, NULL);
  pthread_cond_init(&executor->wanted, NULL);
  jobs_init(&executor->waiting);
  jobs_init(&executor->done);
  executor->size = *size;
  executor->notify = notify;
  executor->context = context;
  pthread_mutex_lock(&executor->mutex);
  (void)threads_add(executor, 1);
  int threads = executor->threads;
  pthread_mutex_unlock(&executor->mutex);
  if (threads > 0)
    return executor;
  error_set(error, "the system gives no thread: check the limits on processes and memory");
  return NULL;
}

void executor_submit(struct executor *executor, struct job *job)
{
  pthread_mutex_lock(&executor->mutex);
  jobs_push(&executor->waiting, job);
  (void)threads_add(executor, executor->waiting.count);
  pthread_cond_signal(&executor->wanted);
  pthread_mutex_unlock(&executor->mutex);
}

struct job *executor_take(struct executor *executor)
{
  pthread_mutex_lock(&executor->mutex);
  struct job *job = jobs_pop(&executor->done);
  pthread_mutex_unlock(&executor->mutex);
  return job;
}

int64_t executor_tend(struct executor *executor)
{
  pthread_mutex_lock(&executor->mutex);
  int64_t next_ms = threads_add(executor, executor->waiting.count);
  pthread_mutex_unlock(&executor->mutex);
  return next_ms;
}

void executor_look(struct executor *executor, struct executor_state *state)
{
  int64_t ignored;
  pthread_mutex_lock(&executor->mutex);
  *state = (struct executor_state){.threads = executor->threads,
                                   .threads_most = executor->size.threads_most,
                                   .lasting = lasting(executor, clock_boot_ms(), &ignored),
                                   .waiting = executor->waiting.count};
  pthread_mutex_unlock(&executor->mutex);
}
