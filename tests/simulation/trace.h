/* trace: the last changes of a run: states, faults, the ledger. Printed when it fails; with --verbose as they come. */
#ifndef PAWL_TESTS_SIMULATION_TRACE_H
#define PAWL_TESTS_SIMULATION_TRACE_H

#include "base.h"
#include <stdio.h>

extern bool trace_verbose;

void trace_clear(void);
/* "12.345678 who: text"; `process` and `type` below 0: none. */
__attribute__((format(printf, 3, 4))) void trace_add(int process, int type, const char *format, ...);
void trace_print(FILE *stream, int lines_max);

#endif
