/*
 * The lock library in an event loop of libev: takes each NAME, holds it for a second, and releases it. No call blocks.
 *
 *   cc libev.c -o libev $(pkg-config --cflags --libs pawl-lock) -lev
 *   ./libev mongodb://localhost pawl NAME...
 */
#include <pawl/lock.h>

#include <ev.h>
#include <stdio.h>

enum { NAMES_MAX = 16 };

struct job {
  ev_timer timer; /* of the work; the first field: libev gives its address back */
  const char *name;
  pawl_hold hold;
};

static struct pawl *pawl;
static struct job jobs[NAMES_MAX];
static int job_count, over;

/* Before each step that needs the lock: whether it is still held costs no request. */
static void work_end(struct ev_loop *loop, ev_timer *timer, int events)
{
  struct job *job = (struct job *)timer;
  (void)loop, (void)events;
  if (pawl_left_ms(pawl, job->hold) > 0)
    printf("%s: worked under token %lld\n", job->name, (long long)pawl_token(pawl, job->hold));
  (void)pawl_release_begin(pawl, job->hold, NULL);
}

static void told(struct ev_loop *loop, const struct pawl_event *event)
{
  struct job *job = jobs;
  while (job < jobs + job_count - 1 && job->hold != event->hold)
    job++;
  switch (event->kind) {
  case PAWL_EVENT_HELD:
    printf("%s: held\n", job->name);
    ev_timer_init(&job->timer, work_end, 1, 0);
    ev_timer_start(loop, &job->timer);
    break;
  case PAWL_EVENT_LOST: /* the work ends by its timer, and does nothing */
  case PAWL_EVENT_WAITS:
  case PAWL_EVENT_AWAY:
    printf("%s: %s\n", job->name, event->error.text);
    break;
  case PAWL_EVENT_FAILED: /* it was never held */
  case PAWL_EVENT_RELEASED:
    printf("%s: %s\n", job->name, event->result == PAWL_OK ? "released" : event->error.text);
    over++;
    break;
  case PAWL_EVENT_BACK:
    break;
  }
}

static void library_tells(struct ev_loop *loop, ev_io *io, int events)
{
  struct pawl_event event = {.size = sizeof event};
  (void)io, (void)events;
  while (pawl_next(pawl, &event))
    told(loop, &event);
  if (over == job_count)
    ev_break(loop, EVBREAK_ALL);
}

int main(int argc, char **argv)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_FOR_EVER};
  struct ev_loop *loop = EV_DEFAULT;
  struct pawl_error error;
  ev_io library;
  if (argc < 4 || argc > 3 + NAMES_MAX)
    return 2;
  const struct pawl_options options = {.size = sizeof options, .uri = argv[1], .db = argv[2], .program = "libev example"};
  if (pawl_open(&options, &pawl, &error) != PAWL_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  ev_io_init(&library, library_tells, pawl_fd(pawl), EV_READ);
  ev_io_start(loop, &library);
  for (int i = 3; i < argc; i++) {
    struct job *job = &jobs[job_count];
    const struct pawl_want want = {.name = argv[i]};
    job->name = argv[i];
    if (pawl_take_begin(pawl, &want, 1, &terms, &job->hold, &error) == PAWL_OK)
      job_count++;
    else
      fprintf(stderr, "%s\n", error.text);
  }
  if (job_count > 0)
    ev_run(loop, 0);
  pawl_close(pawl);
  return 0;
}
