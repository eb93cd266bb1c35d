/*
 * clock: the two clocks of a worker. Any thread; never blocks. A simulation links clocks of its own.
 */
#ifndef PAWL_WORKER_CLOCK_H
#define PAWL_WORKER_CLOCK_H

#include "base.h"

/* Milliseconds of CLOCK_BOOTTIME: like a lease it goes on while the machine sleeps, and it never steps. */
int64_t clock_boot_ms(void);
/* The same in microseconds, to measure how long something takes. */
int64_t clock_boot_us(void);
/* Microseconds since 1970 UTC: for people, and for the times in the file. No decision depends on it. */
int64_t clock_wall_us(void);

#endif
