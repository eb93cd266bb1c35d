/*
 * timeline: --timeline FILE: a picture (SVG) of who wrote when and how much, from the files alone.
 *
 * The files know: of each segment when it was made, and by which process; of each epoch the process that wrote it (header or OPEN); of each
 * block when it was written, and what is in it; and whether an epoch ended with CLOSE. A row of the picture is a type, or a FILE.
 *
 * The blocks are read once, one after the other. Memory and picture are bounded, whatever the size of the files: times are counted in bins
 * that grow with the range, and epochs that would lie within one bin become one bar. One thread.
 */
#ifndef PAWL_TOOLS_DUMP_TIMELINE_H
#define PAWL_TOOLS_DUMP_TIMELINE_H

#include "tools/dump/source.h"

struct timeline;

/* NULL: no memory. */
MUST_CHECK struct timeline *timeline_new(void);
void timeline_free(struct timeline *timeline);

/* Reads the selected blocks of a source into a row of the picture. Damage is reported and recorded as by the other formats. */
void timeline_add(struct timeline *timeline, struct dump *dump, const struct source *source);
/*
 * Writes the picture: to stdout if the name is `-`, otherwise to a new file, which appears whole or not at all. An existing file is not
 * replaced: it is an error, as no row with a block is.
 */
void timeline_write(const struct timeline *timeline, struct dump *dump, const char *name);
/* Before anything is read. False: the file exists already, which is reported. */
MUST_CHECK bool timeline_name_free(const char *name);

#endif
