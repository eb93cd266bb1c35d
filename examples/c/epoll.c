/*
 * The lock library in an event loop of epoll: takes each NAME, holds it for a second, and releases it. No call blocks.
 *
 *   cc epoll.c -o epoll $(pkg-config --cflags --libs pawl-lock)
 *   ./epoll mongodb://localhost pawl NAME...
 */
#include <pawl/lock.h>

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { NAMES_MAX = 16 };

struct job {
  const char *name;
  pawl_hold hold;
  int timer; /* of the work; -1: it has not begun */
};

static struct pawl *pawl;
static struct job jobs[NAMES_MAX];
static int job_count, over;

static void watch(int loop, int fd, void *of)
{
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = of};
  epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event);
}

static void work_begin(int loop, struct job *job)
{
  const struct itimerspec second = {.it_value = {.tv_sec = 1}};
  job->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
  timerfd_settime(job->timer, 0, &second, NULL);
  watch(loop, job->timer, job);
}

/* Before each step that needs the lock: whether it is still held costs no request. */
static void work_end(struct job *job)
{
  if (pawl_left_ms(pawl, job->hold) > 0)
    printf("%s: worked under token %lld\n", job->name, (long long)pawl_token(pawl, job->hold));
  close(job->timer);
  job->timer = -1;
  (void)pawl_release_begin(pawl, job->hold, NULL);
}

static void told(int loop, const struct pawl_event *event)
{
  struct job *job = jobs;
  while (job < jobs + job_count - 1 && job->hold != event->hold)
    job++;
  switch (event->kind) {
  case PAWL_EVENT_HELD:
    printf("%s: held\n", job->name);
    work_begin(loop, job);
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

int main(int argc, char **argv)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_FOR_EVER};
  struct pawl_error error;
  if (argc < 4 || argc > 3 + NAMES_MAX)
    return 2;
  const struct pawl_options options = {.size = sizeof options, .uri = argv[1], .db = argv[2], .program = "epoll example"};
  if (pawl_open(&options, &pawl, &error) != PAWL_OK) {
    fprintf(stderr, "%s\n", error.text);
    return 1;
  }
  int loop = epoll_create1(EPOLL_CLOEXEC);
  watch(loop, pawl_fd(pawl), NULL);
  for (int i = 3; i < argc; i++) {
    struct job *job = &jobs[job_count];
    const struct pawl_want want = {.name = argv[i]};
    *job = (struct job){.name = argv[i], .timer = -1};
    if (pawl_take_begin(pawl, &want, 1, &terms, &job->hold, &error) == PAWL_OK)
      job_count++;
    else
      fprintf(stderr, "%s\n", error.text);
  }
  while (over < job_count) {
    struct epoll_event ready;
    struct pawl_event event = {.size = sizeof event};
    if (epoll_wait(loop, &ready, 1, -1) < 1)
      continue;
    if (ready.data.ptr != NULL)
      work_end(ready.data.ptr);
    else
      while (pawl_next(pawl, &event))
        told(loop, &event);
  }
  close(loop);
  pawl_close(pawl);
  return 0;
}
