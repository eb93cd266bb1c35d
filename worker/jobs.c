#include "worker/jobs.h"

#include <stdlib.h>

enum {
  THREADS_PER_TYPE = 2, /* MAIN and READ: a stuck one delays no other type's */
  /*
   * For all types together: a delete waits for nothing but the server, whose work does not get less by many at once. With 16 types
   * and 48 at once each took longer than the time-out.
   */
  DELETERS = 4,
  /*
   * The same for polls, each of which may go over all that was deleted in the last minutes. With a thousand types and as many polls at
   * once none came within the time-out. Fewer would keep many types from being polled where each poll is a slow round trip.
   */
  POLLERS = 8,
};

struct action_job {
  struct job job; /* first: a job is an action_job */
  struct jobs *jobs;
  struct performer *performer;
  void *of;
  struct action action;
  struct completion completion;
};

int jobs_connections(size_t type_count)
{
  /* Of each type: what its threads ask at one time, the renewals, its deletes. A deleter has its own. */
  return (int)type_count * (THREADS_PER_TYPE + 1 + DELETES_MAX) + DELETERS + 2;
}

static void renew_work(struct job *job)
{
  const struct jobs *jobs = (struct jobs *)((char *)job - offsetof(struct jobs, renew));
  perform_renewals(jobs->renewals, jobs->running_count);
}

bool jobs_start(struct jobs *jobs, size_t type_count, void (*notify)(void *context), void *context, struct error *error)
{
  error_set(error, "no memory");
  jobs->renew.work = renew_work;
  jobs->waiting = calloc(type_count, sizeof *jobs->waiting);
  jobs->running = calloc(type_count, sizeof *jobs->running);
  jobs->renewals = calloc(type_count, sizeof *jobs->renewals);
  return jobs->waiting != NULL && jobs->running != NULL && jobs->renewals != NULL &&
         (jobs->executor = executor_new((int)type_count * THREADS_PER_TYPE, notify, context, error)) != NULL &&
         (jobs->poller = executor_new(type_count < POLLERS ? (int)type_count : POLLERS, notify, context, error)) != NULL &&
         (jobs->deleter = executor_new(DELETERS, notify, context, error)) != NULL &&
         (jobs->renewer = executor_new(1, notify, context, error)) != NULL;
}

static struct executor *executor_for(const struct jobs *jobs, enum action_kind kind)
{
  return kind == ACTION_DELETE ? jobs->deleter : kind == ACTION_POLL ? jobs->poller : jobs->executor;
}

static void action_work(struct job *job)
{
  struct action_job *work = (struct action_job *)job;
  if (work->action.kind == ACTION_POLL && atomic_load(&work->jobs->stopping))
    perform_skip(&work->action, &work->completion); /* of many types many wait for a thread */
  else
    perform(work->performer, &work->action, &work->completion);
}

void jobs_submit(struct jobs *jobs, struct performer *performer, void *of, const struct action *action)
{
  struct action_job *work = calloc(1, sizeof *work);
  if (work == NULL)
    abort(); /* a few kilobytes; there is nothing sensible left to do, and a crash is safe */
  *work = (struct action_job){.job.work = action_work, .jobs = jobs, .performer = performer, .of = of, .action = *action};
  if (action->kind == ACTION_READ && action->begin)
    performer_take_up_read(performer);
  if (action->kind == ACTION_RENEW)
    jobs->waiting[jobs->waiting_count++] = work; /* one a type, so there is room */
  else
    executor_submit(executor_for(jobs, action->kind), &work->job);
}

void jobs_renew(struct jobs *jobs)
{
  if (jobs->running_count > 0 || jobs->waiting_count == 0)
    return;
  for (size_t i = 0; i < jobs->waiting_count; i++) {
    struct action_job *work = jobs->running[i] = jobs->waiting[i];
    jobs->renewals[i] = (struct renewal){.performer = work->performer, .action = &work->action, .completion = &work->completion};
  }
  jobs->running_count = jobs->waiting_count;
  jobs->waiting_count = 0;
  executor_submit(jobs->renewer, &jobs->renew);
}

static void action_done(const struct jobs_taker *taker, struct action_job *work)
{
  taker->action(taker->context, work->of, &work->completion);
  free(work);
}

static void renewals_done(struct jobs *jobs, const struct jobs_taker *taker)
{
  for (size_t i = 0; i < jobs->running_count; i++)
    action_done(taker, jobs->running[i]);
  jobs->running_count = 0;
}

static void take_from(struct jobs *jobs, struct executor *executor, const struct jobs_taker *taker)
{
  struct job *job;
  while ((job = executor_take(executor)) != NULL) {
    if (job == &jobs->renew)
      renewals_done(jobs, taker);
    else if (job->work == action_work)
      action_done(taker, (struct action_job *)job);
    else
      taker->other(taker->context, job);
  }
}

void jobs_take(struct jobs *jobs, const struct jobs_taker *taker)
{
  take_from(jobs, jobs->renewer, taker);
  take_from(jobs, jobs->executor, taker);
  take_from(jobs, jobs->poller, taker);
  take_from(jobs, jobs->deleter, taker);
}
