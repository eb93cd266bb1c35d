#include "worker/last_poll.h"
#include "worker/clock.h"
#include "worker/perform.h"

#include <stdlib.h>

enum {
  AGAIN_MS = 100,
  AGAIN_SHARE = 20, /* or so many times what it took */
  AGAIN_MS_MAX = 10000,
};

static void work(struct job *job)
{
  struct last_poll *last = (struct last_poll *)job;
  struct error ignored; /* it is asked again */
  last->outcome = perform_last_poll(last->store, last->types, last->type_count, &ignored);
}

bool last_poll_init(struct last_poll *last, struct lockstore *store, size_t count)
{
  *last = (struct last_poll){.job.work = work, .store = store, .types = calloc(count, sizeof *last->types)};
  return last->types != NULL;
}

bool last_poll_is_due(const struct last_poll *last)
{
  return !last->running && clock_boot_ms() >= last->next_ms;
}

void last_poll_start(struct last_poll *last, struct executor *executor)
{
  last->running = true;
  last->started_ms = clock_boot_ms();
  executor_submit(executor, &last->job);
}

bool last_poll_done(struct last_poll *last)
{
  int64_t now = clock_boot_ms(), pause = (now - last->started_ms) * AGAIN_SHARE;
  last->running = false;
  last->next_ms = now + (pause < AGAIN_MS ? AGAIN_MS : pause > AGAIN_MS_MAX ? AGAIN_MS_MAX : pause);
  return last->outcome == OUTCOME_NO;
}
