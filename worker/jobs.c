#include "worker/jobs.h"
#include "worker/clock.h"

#include <stdlib.h>
#include <string.h>

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
  /*
   * A type that was found to have something begins when fewer than BUSY_MANY are busy, and otherwise FOUND_MS after the one before it,
   * whatever the others do: none waits for a disk that hangs. With a thousand types at the same time each had so little of the
   * memory that the drain took twice as long.
   */
  BUSY_MANY = 32,
  FOUND_MS = 50,
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
  perform_renewals(jobs->renewed, jobs->renewals.running_count);
}

static void poll_work(struct job *job)
{
  struct jobs *jobs = (struct jobs *)((char *)job - offsetof(struct jobs, poll));
  struct poll_together *together = &jobs->together;
  if (!atomic_load(&jobs->stopping)) {
    poll_together(together);
    return;
  }
  for (size_t i = 0; i < together->count; i++) /* answered: poll_all has begun them as that */
    perform_skip(together->polls[i].action, together->polls[i].completion);
}

bool jobs_start(struct jobs *jobs, struct lockstore *store, int64_t memory_bytes, void (*notify)(void *context), void *context,
                struct error *error)
{
  jobs->renew.work = renew_work;
  jobs->poll.work = poll_work;
  jobs->together.types.store = store;
  jobs->budget.most = memory_bytes;
  jobs->reads_last = &jobs->reads;
  jobs->found_last = &jobs->found;
  static const struct executor_size actions = {THREADS, THREADS_MOST, LASTS_MS}, polls = {POLLERS, POLLERS, LASTS_MS},
                                    deletes = {DELETERS, DELETERS, LASTS_MS}, renewals = {1, 1, LASTS_MS};
  return (jobs->executor = executor_new(&actions, notify, context, error)) != NULL &&
         (jobs->poller = executor_new(&polls, notify, context, error)) != NULL &&
         (jobs->deleter = executor_new(&deletes, notify, context, error)) != NULL &&
         (jobs->renewer = executor_new(&renewals, notify, context, error)) != NULL;
}

static struct executor *executor_for(const struct jobs *jobs, enum action_kind kind)
{
  return kind == ACTION_DELETE ? jobs->deleter : jobs->executor;
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

static void line_wait(struct jobs_line *line, struct action_job *work)
{
  line->waiting = room_for(line->waiting, line->waiting_count, &line->waiting_room, sizeof(struct action_job *));
  line->waiting[line->waiting_count++] = work;
}

/* Those that wait run. */
static void line_begin(struct jobs_line *line)
{
  struct action_job **begun = line->waiting;
  size_t room = line->waiting_room;
  line->waiting = line->running;
  line->waiting_room = line->running_room;
  line->running = begun;
  line->running_room = room;
  line->running_count = line->waiting_count;
  line->waiting_count = 0;
}

/* ---- polls ---- */

static void poll_alone(struct jobs *jobs, struct action_job *work)
{
  jobs->polls_alone++;
  executor_submit(jobs->poller, &work->job);
}

/* In the order of the index: what lies behind a type's messages is then still there, and not deleted entries that each read goes over. */
static int by_type(const void *a, const void *b)
{
  const struct action_job *one = *(struct action_job *const *)a, *other = *(struct action_job *const *)b;
  return strcmp(one->performer->options.writer.type, other->performer->options.writer.type);
}

static void poll_all(struct jobs *jobs)
{
  struct poll_together *together = &jobs->together;
  struct jobs_line *line = &jobs->polls;
  line_begin(line);
  for (size_t i = POLL_TOGETHER_MAX; i < line->running_count; i++)
    line_wait(line, line->running[i]); /* in their order: otherwise some would wait for ever */
  if (line->running_count > POLL_TOGETHER_MAX)
    line->running_count = POLL_TOGETHER_MAX;
  qsort(line->running, line->running_count, sizeof(struct action_job *), by_type);
  if (together->room < line->running_count) {
    free(together->polls);
    together->room = line->running_count;
    together->polls = calloc(together->room, sizeof *together->polls);
    if (together->polls == NULL)
      abort(); /* a few bytes a type, as for the job itself */
  }
  for (together->count = 0; together->count < line->running_count; together->count++) {
    struct action_job *work = line->running[together->count];
    together->polls[together->count] =
        (struct poll_one){.performer = work->performer, .action = &work->action, .completion = &work->completion};
  }
  executor_submit(jobs->poller, &jobs->poll);
}

static void found_add(struct jobs *jobs, struct action_job *work)
{
  work->job.next = NULL;
  *jobs->found_last = work;
  jobs->found_last = (struct action_job **)&work->job.next;
}

/* Returns when the next one begins at the latest. */
static int64_t found_begin(struct jobs *jobs, size_t busy)
{
  struct action_job *work;
  int64_t now_ms = clock_boot_ms();
  while ((work = jobs->found) != NULL) {
    bool few = busy + jobs->polls_alone < BUSY_MANY || atomic_load(&jobs->stopping);
    if (!few && now_ms - jobs->found_ms < FOUND_MS)
      return jobs->found_ms + FOUND_MS;
    jobs->found = (struct action_job *)work->job.next;
    if (jobs->found == NULL)
      jobs->found_last = &jobs->found;
    jobs->found_ms = now_ms;
    poll_alone(jobs, work);
  }
  return INT64_MAX;
}

static void polls_begin(struct jobs *jobs)
{
  struct jobs_line *line = &jobs->polls;
  if (line->waiting_count == 0)
    return;
  bool stopping = atomic_load(&jobs->stopping);
  if (line->waiting_count >= POLL_TOGETHER_MIN && !stopping) {
    if (line->running_count == 0)
      poll_all(jobs);
    return;
  }
  size_t begun = 0;
  for (; begun < line->waiting_count && (jobs->polls_alone < POLLERS || stopping); begun++)
    poll_alone(jobs, line->waiting[begun]);
  line->waiting_count -= begun;
  memmove(line->waiting, line->waiting + begun, line->waiting_count * sizeof *line->waiting);
}

/* ---- memory ---- */

static void read_unlink(struct jobs *jobs, struct action_job **at)
{
  *at = (struct action_job *)(*at)->job.next;
  if (*at == NULL)
    jobs->reads_last = at;
}

/*
 * Begins the reads for which there is memory, in their order. A read that waits keeps the later ones waiting, unless its type holds
 * messages already: then its disk may hang. Returns when the next read has waited long enough; INT64_MAX: none waits.
 */
static int64_t reads_begin(struct jobs *jobs)
{
  struct action_job **at = &jobs->reads, *work;
  int64_t now_ms = clock_boot_ms(), wake_ms = INT64_MAX;
  while ((work = *at) != NULL) {
    struct performer *performer = work->performer;
    int64_t patient_ms = work->since_ms + BUDGET_PATIENCE_MS;
    work->action.ask_documents =
        budget_ask(&jobs->budget, &performer->share, atomic_load(&performer->batch_messages), now_ms >= patient_ms);
    if (work->action.ask_documents > 0) {
      read_unlink(jobs, at);
      executor_submit(jobs->executor, &work->job);
      continue;
    }
    int64_t due_ms = now_ms >= patient_ms ? now_ms + BUDGET_PATIENCE_MS : patient_ms;
    wake_ms = due_ms < wake_ms ? due_ms : wake_ms;
    if (performer->share.held == 0)
      break;
    at = (struct action_job **)&work->job.next;
  }
  return wake_ms;
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
    line_wait(&jobs->renewals, work);
  else if (action->kind == ACTION_POLL)
    line_wait(&jobs->polls, work);
  else if (action->kind == ACTION_READ && performer->answer_bytes == 0)
    read_wait(jobs, work);
  else
    executor_submit(executor_for(jobs, action->kind), &work->job);
}

void jobs_renew(struct jobs *jobs)
{
  struct jobs_line *line = &jobs->renewals;
  if (line->running_count > 0 || line->waiting_count == 0)
    return;
  line_begin(line);
  free(jobs->renewed);
  jobs->renewed = calloc(line->running_count, sizeof *jobs->renewed);
  if (jobs->renewed == NULL)
    abort();
  for (size_t i = 0; i < line->running_count; i++) {
    struct action_job *work = line->running[i];
    jobs->renewed[i] = (struct renewal){.performer = work->performer, .action = &work->action, .completion = &work->completion};
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

int64_t jobs_tend(struct jobs *jobs, size_t busy)
{
  polls_begin(jobs);
  int64_t found_ms = found_begin(jobs, busy), reads_ms = reads_begin(jobs), threads_ms = executor_tend(jobs->executor);
  int64_t wake_ms = reads_ms < threads_ms ? reads_ms : threads_ms;
  return found_ms < wake_ms ? found_ms : wake_ms;
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
  struct jobs_line *line = &jobs->renewals;
  for (size_t i = 0; i < line->running_count; i++)
    action_done(jobs, taker, line->running[i]);
  line->running_count = 0;
}

static void polls_done(struct jobs *jobs, const struct jobs_taker *taker)
{
  size_t count = jobs->polls.running_count;
  jobs->polls.running_count = 0;
  for (size_t i = 0; i < count; i++) {
    const struct poll_one *one = &jobs->together.polls[i];
    if (one->told == POLL_ANSWERED)
      action_done(jobs, taker, jobs->polls.running[i]);
    else if (one->told == POLL_FOUND && one->action->idle)
      found_add(jobs, jobs->polls.running[i]);
    else
      poll_alone(jobs, jobs->polls.running[i]);
  }
}

/* It had a thread for itself. */
static void job_done(struct jobs *jobs, const struct jobs_taker *taker, struct action_job *work)
{
  if (work->action.kind == ACTION_POLL)
    jobs->polls_alone--;
  action_done(jobs, taker, work);
}

static void take_from(struct jobs *jobs, struct executor *executor, const struct jobs_taker *taker)
{
  struct job *job;
  while ((job = executor_take(executor)) != NULL) {
    if (job == &jobs->renew)
      renewals_done(jobs, taker);
    else if (job == &jobs->poll)
      polls_done(jobs, taker);
    else if (job->work == action_work)
      job_done(jobs, taker, (struct action_job *)job);
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
