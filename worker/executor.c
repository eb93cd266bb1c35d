#include "worker/executor.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct jobs {
  struct job *first, **last;
};

struct executor {
  pthread_mutex_t mutex;
  pthread_cond_t wanted; /* `waiting` is not empty, or `ending` */
  struct jobs waiting, done;
  bool ending;
  void (*notify)(void *context);
  void *context;
  int thread_count;
  pthread_t threads[];
};

static void jobs_init(struct jobs *jobs)
{
  jobs->first = NULL;
  jobs->last = &jobs->first;
}

static void jobs_push(struct jobs *jobs, struct job *job)
{
  job->next = NULL;
  *jobs->last = job;
  jobs->last = &job->next;
}

static struct job *jobs_pop(struct jobs *jobs)
{
  struct job *job = jobs->first;
  if (job != NULL) {
    jobs->first = job->next;
    if (jobs->first == NULL)
      jobs->last = &jobs->first;
  }
  return job;
}

static void *thread_main(void *argument)
{
  struct executor *executor = argument;
  pthread_mutex_lock(&executor->mutex);
  for (;;) {
    struct job *job = NULL;
    while (!executor->ending && (job = jobs_pop(&executor->waiting)) == NULL)
      pthread_cond_wait(&executor->wanted, &executor->mutex);
    if (executor->ending)
      break;
    pthread_mutex_unlock(&executor->mutex);
    job->work(job);
    pthread_mutex_lock(&executor->mutex);
    jobs_push(&executor->done, job);
    executor->notify(executor->context);
  }
  pthread_mutex_unlock(&executor->mutex);
  return NULL;
}

struct executor *executor_new(int threads, void (*notify)(void *context), void *context, struct error *error)
{
  struct executor *executor = calloc(1, sizeof *executor + (size_t)threads * sizeof executor->threads[0]);
  sigset_t all, before;
  if (executor == NULL) {
    error_set(error, "no memory for %d threads", threads);
    return NULL;
  }
  pthread_mutex_init(&executor->mutex, NULL);
  pthread_cond_init(&executor->wanted, NULL);
  jobs_init(&executor->waiting);
  jobs_init(&executor->done);
  executor->notify = notify;
  executor->context = context;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = 0;
  for (int i = 0; i < threads && failed == 0; i++) {
    failed = pthread_create(&executor->threads[i], NULL, thread_main, executor);
    executor->thread_count += failed == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0)
    return executor;
  error_set(error, "starting %d threads: %s", threads, strerror(failed));
  executor_stop(executor);
  executor_free(executor);
  return NULL;
}

void executor_stop(struct executor *executor)
{
  if (executor == NULL)
    return;
  pthread_mutex_lock(&executor->mutex);
  executor->ending = true;
  pthread_cond_broadcast(&executor->wanted);
  pthread_mutex_unlock(&executor->mutex);
  for (int i = 0; i < executor->thread_count; i++)
    pthread_join(executor->threads[i], NULL);
  executor->thread_count = 0;
  for (struct job *job; (job = jobs_pop(&executor->waiting)) != NULL;)
    jobs_push(&executor->done, job);
}

void executor_free(struct executor *executor)
{
  if (executor == NULL)
    return;
  pthread_cond_destroy(&executor->wanted);
  pthread_mutex_destroy(&executor->mutex);
  free(executor);
}

void executor_submit(struct executor *executor, struct job *job)
{
  pthread_mutex_lock(&executor->mutex);
  jobs_push(&executor->waiting, job);
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
