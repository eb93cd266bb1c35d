#include "lock/jobs.h"

#include <assert.h>
#include <stdlib.h>

bool jobs_reserve(struct jobs *jobs, size_t count)
{
  if (count < jobs->room)
    return true;
  size_t room = jobs->room < 16 ? 16 : jobs->room;
  while (room <= count)
    room *= 2;
  struct job **heap = realloc(jobs->heap, room * sizeof *heap);
  if (heap == NULL)
    return false;
  jobs->heap = heap;
  jobs->room = room;
  return true;
}

void jobs_free(struct jobs *jobs)
{
  free(jobs->heap);
  *jobs = (struct jobs){0};
}

static void set(struct jobs *jobs, size_t place, struct job *job)
{
  jobs->heap[place] = job;
  job->place = place;
}

static void rise(struct jobs *jobs, struct job *job)
{
  size_t place = job->place;
  for (; place > 1 && jobs->heap[place / 2]->due_ms > job->due_ms; place /= 2)
    set(jobs, place, jobs->heap[place / 2]);
  set(jobs, place, job);
}

static void sink(struct jobs *jobs, struct job *job)
{
  size_t place = job->place;
  for (;;) {
    size_t child = 2 * place;
    if (child < jobs->count && jobs->heap[child + 1]->due_ms < jobs->heap[child]->due_ms)
      child++;
    if (child > jobs->count || jobs->heap[child]->due_ms >= job->due_ms)
      break;
    set(jobs, place, jobs->heap[child]);
    place = child;
  }
  set(jobs, place, job);
}

void jobs_put(struct jobs *jobs, struct job *job, int64_t due_ms)
{
  if (job->place == 0) {
    assert(jobs->count + 1 < jobs->room);
    set(jobs, ++jobs->count, job);
  }
  job->due_ms = due_ms;
  rise(jobs, job);
  sink(jobs, job);
}

void jobs_drop(struct jobs *jobs, struct job *job)
{
  if (job->place == 0)
    return;
  struct job *last = jobs->heap[jobs->count--];
  size_t place = job->place;
  job->place = 0;
  if (last == job)
    return;
  set(jobs, place, last);
  rise(jobs, last);
  sink(jobs, last);
}

struct job *jobs_first(const struct jobs *jobs)
{
  return jobs->count > 0 ? jobs->heap[1] : NULL;
}
