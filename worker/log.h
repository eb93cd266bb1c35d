/*
 * log: one line an event, to stderr, as text or JSON. Any thread; a line is written at once and whole.
 */
#ifndef PAWL_WORKER_LOG_H
#define PAWL_WORKER_LOG_H

#include "base.h"
#include "config/config.h"

void log_init(enum config_log_level level, enum config_log_format format);

/* What a line is about; type NULL: the whole process. */
struct log_subject {
  const char *type;
  int64_t epoch, seq;
};

/* `event` is a short word to filter by; `text` is for people. */
void log_line(enum config_log_level level, const struct log_subject *subject, const char *event, const char *text);

#endif
