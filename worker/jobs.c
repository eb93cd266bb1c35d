#include "worker/jobs.h"
#include "worker/clock.h"

#include <stdlib.h>

enum {
  /*
   * Tens of requests at once, for links whose round trip is slow. A disk that hangs keeps a thread for each type that writes to it,
   * and another is made in its place. At the bound the other types wait until one comes back.
   */
  THREADS = 64,
  THREADS_MOST = 512,
  LASTS_MS = 1000,
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
  int64_t since_ms; /* a READ: it waits for memory */
};

int jobs_connections(void)
{
  return THREADS_MOST + POLLERS + 2 * DELETERS + 1; /* a delete by its range keeps one, and may need another */
}

static void renew_work(struct job *job)
{
  const struct jobs *jobs = (struct jobs *)((char *)job - offsetof(struct jobs, renew));
  perform_renewals(jobs->renewals, jobs->running_count);
}

bool jobs_start(struct jobs *jobs, int64_t memory_bytes, void (*notify)(void *context), void *context, struct error *error)
{
  jobs->renew.work = renew_work;
  jobs->budget.most = memory_bytes;
  jobs->reads_last = &jobs->reads;
  static const struct executor_size actions = {THREADS, THREADS_MOST, LASTS_MS}, polls = {POLLERS, POLLERS, LASTS_MS},
                                    deletes = {DELETERS, DELETERS, LASTS_MS}, renewals = {1, 1, LASTS_MS};
  return (jobs->executor = executor_new(&actions, notify, context, error)) != NULL &&
         (jobs->poller = executor_new(&polls, notify, context, error)) != NULL &&
         (jobs->deleter = executor_new(&deletes, notify, context, error)) != NULL &&
         (jobs->renewer = executor_new(&renewals, notify, context, error)) != NULL;
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

/* Room for one more. The few bytes a type must be there, as for the job itself. */
static void *room_for(void *array, size_t count, size_t *room, size_t size)
{
  if (count < *room)
    return array;
  *room = *room == 0 ? 16 : 2 * *room;
  void *grown = realloc(array, *room * size);
  if (grown == NULL)
    abort();
  return grown;
}

static void renewal_wait(struct jobs *jobs, struct action_job *work)
{
  jobs->waiting = room_for(jobs->waiting, jobs->waiting_count, &jobs->waiting_room, sizeof *jobs->waiting);
  jobs->waiting[jobs->waiting_count++] = work;
}

/* ---- memory ---- */

static void read_unlink(struct jobs *jobs, struct action_job **at)
{
  *at = (struct action_job *)(*at)->job.next;
  if (*at == NULL)
    jobs->reads_last = at;
}

/* Those for which there is memory, in their order. Returns when the next one has waited long enough; INT64_MAX: none waits. */
static int64_t reads_begin(struct jobs *jobs)
{
  struct action_job *work;
  int64_t now_ms = clock_boot_ms();
  while ((work = jobs->reads) != NULL) {
    struct performer *performer = work->performer;
    int64_t patient_ms = work->since_ms + BUDGET_PATIENCE_MS;
    work->action.ask_documents =
        budget_ask(&jobs->budget, &performer->share, atomic_load(&performer->batch_messages), now_ms >= patient_ms);
    if (work->action.ask_documents == 0)
      return now_ms >= patient_ms ? now_ms + BUDGET_PATIENCE_MS : patient_ms;
    read_unlink(jobs, &jobs->reads);
    executor_submit(jobs->executor, &work->job);
  }
  return INT64_MAX;
}

static void read_wait(struct jobs *jobs, struct action_job *work)
{
  work->since_ms = clock_boot_ms();
  work->job.next = NULL;
  *jobs->reads_last = work;
  jobs->reads_last = (struct action_job **)&work->job.next;
  (void)reads_begin(jobs);
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
    renewal_wait(jobs, work);
  else if (action->kind == ACTION_READ && performer->answer_bytes == 0)
    read_wait(jobs, work);
  else
    executor_submit(executor_for(jobs, action->kind), &work->job);
}

void jobs_renew(struct jobs *jobs)
{
  if (jobs->running_count > 0 || jobs->waiting_count == 0)
    return;
  struct action_job **begun = jobs->waiting;
  size_t room = jobs->waiting_room;
  jobs->waiting = jobs->running;
  jobs->waiting_room = jobs->running_room;
  jobs->running = begun;
  jobs->running_room = room;
  jobs->running_count = jobs->waiting_count;
  jobs->waiting_count = 0;
  free(jobs->renewals);
  jobs->renewals = calloc(jobs->running_count, sizeof *jobs->renewals);
  if (jobs->renewals == NULL)
    abort();
  for (size_t i = 0; i < jobs->running_count; i++) {
    struct action_job *work = jobs->running[i];
    jobs->renewals[i] = (struct renewal){.performer = work->performer, .action = &work->action, .completion = &work->completion};
  }
  executor_submit(jobs->renewer, &jobs->renew);
}

void jobs_hold(struct jobs *jobs, struct performer *performer, int64_t bytes)
{
  budget_hold(&jobs->budget, &performer->share, bytes + performer->answer_bytes);
}

void jobs_forget(struct jobs *jobs, struct performer *performer)
{
  performer->answer_bytes = 0;
  jobs_hold(jobs, performer, 0);
}

void jobs_drop_read(struct jobs *jobs, struct performer *performer)
{
  performer_drop_read(performer);
  for (struct action_job **at = &jobs->reads; *at != NULL; at = (struct action_job **)&(*at)->job.next) {
    struct action_job *work = *at;
    if (work->performer != performer)
      continue;
    read_unlink(jobs, at);
    executor_submit(jobs->executor, &work->job); /* it ends at once */
    return;
  }
}

int64_t jobs_tend(struct jobs *jobs)
{
  int64_t reads_ms = reads_begin(jobs), threads_ms = executor_tend(jobs->executor);
  return reads_ms < threads_ms ? reads_ms : threads_ms;
}

void jobs_look(const struct jobs *jobs, struct jobs_state *state)
{
  executor_look(jobs->executor, &state->threads);
  state->memory_used = jobs->budget.used;
  state->memory_most = jobs->budget.most;
}

static void read_done(struct jobs *jobs, struct performer *performer, const struct completion *completion)
{
  const struct work_item *item = completion->item;
  budget_answered(&jobs->budget, &performer->share, item != NULL ? (int64_t)item->batch.bytes : 0, item != NULL ? item->documents : 0);
  performer->answer_bytes = completion->answer_bytes + completion->left_bytes;
}

static void action_done(struct jobs *jobs, const struct jobs_taker *taker, struct action_job *work)
{
  if (work->action.kind == ACTION_READ)
    read_done(jobs, work->performer, &work->completion);
  if (work->action.kind == ACTION_CLOSE)
    work->performer->answer_bytes = 0;
  taker->action(taker->context, work->of, &work->completion);
  free(work);
}

static void renewals_done(struct jobs *jobs, const struct jobs_taker *taker)
{
  for (size_t i = 0; i < jobs->running_count; i++)
    action_done(jobs, taker, jobs->running[i]);
  jobs->running_count = 0;
}

static void take_from(struct jobs *jobs, struct executor *executor, const struct jobs_taker *taker)
{
  struct job *job;
  while ((job = executor_take(executor)) != NULL) {
    if (job == &jobs->renew)
      renewals_done(jobs, taker);
    else if (job->work == action_work)
      action_done(jobs, taker, (struct action_job *)job);
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
