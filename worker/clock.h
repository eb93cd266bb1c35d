/*
 * clock: the two clocks of a worker. Any thread; never blocks. A simulation links clocks of its own.
 */
#ifndef PAWL_WORKER_CLOCK_H
#define PAWL_WORKER_CLOCK_H

#include "base.h"

/* Milliseconds of CLOCK_BOOTTIME: it goes on while the machine sleeps, as a lease does, and never steps. */
int64_t clock_boot_ms(void);
/* Microseconds since 1970 UTC: for people, and for the times in the file. Nothing is decided by it. */
int64_t clock_wall_us(void);

#endif
