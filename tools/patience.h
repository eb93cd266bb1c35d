/*
 * patience: a program that waits for longer than a second says so, once.
 *
 * Of a process there is one. patience_begin and patience_end are called from one thread; the line is written from another.
 */
#ifndef PAWL_TOOLS_PATIENCE_H
#define PAWL_TOOLS_PATIENCE_H

#include "base.h"

enum { PATIENCE_LINE_SIZE = 4096 };

/* In a second, unless patience_end comes before, the line goes to stderr. It is copied, and cut to PATIENCE_LINE_SIZE. */
void patience_begin(const char *line);
void patience_end(void);

#endif
