/*
 * log: one line per event, to stderr, as text or JSON. Any thread; each line is written at once and as a whole.
 *
 * In JSON a line of every program has the keys time, level, program, event and text, and a line about a type also type, epoch
 * and seq. Where the journal reads stderr (config_journal), each line begins with its priority, and text lines have no time of
 * their own.
 */
#ifndef PAWL_WORKER_LOG_H
#define PAWL_WORKER_LOG_H

#include "base.h"
#include "config/config.h"

/* Call it before the first line. `program` is borrowed for ever. */
void log_init(const char *program, enum config_log_level level, enum config_log_format format);

/* Sets level and form anew. */
void log_change(enum config_log_level level, enum config_log_format format);
/* Whether lines of this level are written. */
bool log_wants(enum config_log_level level);

/* The subject of a line; type NULL: the whole process. */
struct log_subject {
  const char *type;
  int64_t epoch, seq;
};

/* Writes a service's line. `event` is a short word for filters; `text` is for people. */
void log_line(enum config_log_level level, const struct log_subject *subject, const char *event, const char *text);
/* The same at info, whatever the level is: for what somebody has asked for. */
void log_report(const struct log_subject *subject, const char *event, const char *text);
/* Writes a tool's line, for the person who started it: in text form "PROGRAM: TEXT". */
void log_say(enum config_log_level level, const char *event, const char *text);
/* From now on lines go to `text`, cut to `size`, so that the caller can print them later. NULL: lines are written again. One thread. */
void log_keep(char *text, size_t size);
bool log_keeps(void);

#endif
