/*
 * clock_skew: preloaded into a worker by the chaos test, shifts the wall clock of that process alone.
 *
 * The file that CLOCK_SKEW_FILE names holds the offset in seconds (8 bytes, host order); it may change at any time. The monotonic and the
 * boot-time clock stay as they are, as on a machine whose clock was set. A wait until a time on the wall clock is translated back, because
 * the kernel does not know the offset.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *offset_s;
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void clock_skew_init(void)
{
  *(void **)&real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
  *(void **)&real_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  const char *path = getenv("CLOCK_SKEW_FILE");
  int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file >= 0) {
    void *map = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    offset_s = map != MAP_FAILED ? map : NULL;
    close(file);
  }
}

static time_t offset(void)
{
  return offset_s != NULL ? (time_t)*offset_s : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
  if (real_clock_gettime == NULL)
    clock_skew_init();
  int result = real_clock_gettime(clock, now);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += offset();
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
  (void)zone;
  struct timespec time;
  int result = clock_gettime(CLOCK_REALTIME, &time);
  *now = (struct timeval){.tv_sec = time.tv_sec, .tv_usec = time.tv_nsec / 1000};
  return result;
}

time_t time(time_t *where)
{
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where != NULL)
    *where = now.tv_sec;
  return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
  struct timespec real = *until;
  if (real.tv_sec > 1000000000) /* the clocks that count from the start of the machine have far smaller values */
    real.tv_sec -= offset();
  return real_timedwait(condition, mutex, &real);
}
