#include "tools/patience.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 1 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char waiting[PATIENCE_LINE_SIZE]; /* empty: no wait, or already printed */
static timer_t timer;
static bool has_timer;

static void on_timer(union sigval ignored)
{
  (void)ignored;
  pthread_mutex_lock(&mutex);
  ssize_t written = write(STDERR_FILENO, waiting, strlen(waiting));
  (void)written; /* stderr may be closed */
  waiting[0] = '\0';
  pthread_mutex_unlock(&mutex);
}

static void arm(const char *line, time_t seconds)
{
  pthread_mutex_lock(&mutex);
  snprintf(waiting, sizeof waiting, "%s", line);
  pthread_mutex_unlock(&mutex);
  if (has_timer)
    timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_sec = seconds}, NULL);
}

void patience_begin(const char *line)
{
  struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
  if (!has_timer)
    has_timer = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
  arm(line, PATIENCE_S);
}

void patience_end(void)
{
  arm("", 0);
}
