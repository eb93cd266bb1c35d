/* clock: which of the system's clocks a lease goes by. */
#include "lock/seam.h"
#include "unit_test.h"
#include "worker/clock.h"

#include <time.h>

/* The linker puts this in the place of the C library's: the machine has slept for an hour since it was started. */
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
  (void)__real_clock_gettime(CLOCK_MONOTONIC, now);
  if (clock == CLOCK_BOOTTIME)
    now->tv_sec += 3600;
  return clock == CLOCK_REALTIME ? __real_clock_gettime(clock, now) : 0;
}

/* Else a holder would believe after a sleep that it still has the lock. */
TEST(test_sleep_counts)
{
  struct timespec now;
  assert_int_equal(__real_clock_gettime(CLOCK_MONOTONIC, &now), 0);
  assert_true(clock_boot_ms() >= (now.tv_sec + 3600) * 1000);
  assert_true(clock_boot_us() >= (now.tv_sec + 3600) * 1000000);
}

/* The same of the lock library, and of pawl-lock. */
TEST(test_sleep_counts_for_locks)
{
  struct timespec now;
  assert_int_equal(__real_clock_gettime(CLOCK_MONOTONIC, &now), 0);
  assert_true(seam_now_ms(NULL) >= (now.tv_sec + 3600) * 1000);
}

int main(void)
{
  return tests_run(NULL, NULL);
}
