#include "worker/executor.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct jobs {
  struct job *first, **last;
};

struct executor {
  pthread_mutex_t mutex;
  pthread_cond_t wanted; /* `waiting` is not empty */
  struct jobs waiting, done;
  void (*notify)(void *context);
  void *context;
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

_Noreturn static void *thread_main(void *argument)
{
  struct executor *executor = argument;
  pthread_mutex_lock(&executor->mutex);
  for (;;) {
    struct job *job;
    while ((job = jobs_pop(&executor->waiting)) == NULL)
      pthread_cond_wait(&executor->wanted, &executor->mutex);
    pthread_mutex_unlock(&executor->mutex);
    job->work(job);
    pthread_mutex_lock(&executor->mutex);
    jobs_push(&executor->done, job);
    executor->notify(executor->context);
  }
}

struct executor *executor_new(int threads, void (*notify)(void *context), void *context, struct error *error)
{
  struct executor *executor = calloc(1, sizeof *executor);
  pthread_t thread;
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
  for (int i = 0; i < threads && failed == 0; i++)
    failed = pthread_create(&thread, NULL, thread_main, executor);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed == 0)
    return executor;
  error_set(error, "starting %d threads: %s", threads, strerror(failed));
  return NULL;
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
