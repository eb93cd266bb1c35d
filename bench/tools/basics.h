/*
 * basics: shared by the benchmark's C programs. Arguments are name=value. Any error ends the program with a text on stderr.
 */
#ifndef PAWL_BENCH_TOOLS_BASICS_H
#define PAWL_BENCH_TOOLS_BASICS_H

#include "base.h"

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);

/* The value of name=…; if `otherwise` is NULL, the argument is required. */
const char *argument(char **arguments, const char *name, const char *otherwise);
int64_t argument_number(char **arguments, const char *name, const char *otherwise);

int64_t wall_ns(void); /* since 1970 UTC */

/* Exits with 0, without the half second that the driver would wait for its own threads. */
_Noreturn void end_at_once(void);

#endif
