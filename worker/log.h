/*
 * log: one line an event, to stderr, as text or JSON. Any thread; a line is written at once and whole.
 *
 * As JSON a line of any program has the keys time, level, program, event and text, and about a type also type, epoch and seq. Where
 * the journal reads stderr (config_journal), each line begins with its priority, and the text has no time of its own.
 */
#ifndef PAWL_WORKER_LOG_H
#define PAWL_WORKER_LOG_H

#include "base.h"
#include "config/config.h"

/* Before the first line. `program` is borrowed for ever. */
void log_init(const char *program, enum config_log_level level, enum config_log_format format);

/* What a line is about; type NULL: the whole process. */
struct log_subject {
  const char *type;
  int64_t epoch, seq;
};

/* A service's line. `event` is a short word to filter by; `text` is for people. */
void log_line(enum config_log_level level, const struct log_subject *subject, const char *event, const char *text);
/* A tool's line, for a person who just started it: as text it is "PROGRAM: TEXT". */
void log_say(enum config_log_level level, const char *event, const char *text);
/* From now on lines are put into `text`, cut to `size`, for one who says them later. NULL: they are written again. One thread. */
void log_keep(char *text, size_t size);
bool log_keeps(void);

#endif
