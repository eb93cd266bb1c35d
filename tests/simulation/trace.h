/* trace: the last changes of a run: states, faults, the ledger. A failure prints them; --verbose prints them as they come. */
#ifndef PAWL_TESTS_SIMULATION_TRACE_H
#define PAWL_TESTS_SIMULATION_TRACE_H

#include "base.h"
#include <stdio.h>

extern bool trace_verbose;

void trace_clear(void);
/* A line "12.345678 process: text"; `process` and `type` below 0: none. */
__attribute__((format(printf, 3, 4))) void trace_add(int process, int type, const char *format, ...);
void trace_print(FILE *stream, int lines_max);

#endif
