/*
 * patience: a program that waits for longer than a second prints a line about it, once.
 *
 * One per process. patience_begin and patience_end are called from one thread; another thread writes the line.
 */
#ifndef PAWL_TOOLS_PATIENCE_H
#define PAWL_TOOLS_PATIENCE_H

#include "base.h"

enum { PATIENCE_LINE_SIZE = 4096 };

/* Writes the line to stderr after a second, unless patience_end is called before. It is copied, and cut to PATIENCE_LINE_SIZE. */
void patience_begin(const char *line);
void patience_end(void);

#endif
