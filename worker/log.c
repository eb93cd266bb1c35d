#include "worker/log.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

static const char *log_program = "pawl";
static _Atomic enum config_log_level log_level = CONFIG_LOG_INFO;
static _Atomic enum config_log_format log_format = CONFIG_FORMAT_TEXT;
static bool log_journal;
static char *log_kept; /* NULL: lines are written */
static size_t log_kept_size;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_change(enum config_log_level level, enum config_log_format format)
{
  log_level = level;
  log_format = format;
}

void log_init(const char *program, enum config_log_level level, enum config_log_format format)
{
  log_program = program;
  log_change(level, format);
  log_journal = config_journal();
}

/* RFC 3339, UTC, milliseconds. */
static void time_text(char *text, size_t size)
{
  struct timespec now;
  struct tm utc;
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  size_t used = strftime(text, size, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(text + used, size - used, ".%03dZ", (int)(now.tv_nsec / 1000000));
}

struct line {
  char text[4096];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void line_add(struct line *line, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, arguments);
  va_end(arguments);
  line->used += length < 0 ? 0 : (size_t)length;
  if (line->used >= sizeof line->text) { /* cut, and a line all the same */
    line->used = sizeof line->text - 1;
    line->text[line->used - 1] = '\n';
  }
}

/* The journal has a time of its own. */
static void line_text(struct line *line, enum config_log_level level, const struct log_subject *subject, const char *event,
                      const char *text)
{
  char time[64];
  time_text(time, sizeof time);
  line_add(line, "%s%s%-5s ", log_journal ? "" : time, log_journal ? "" : " ", level_names[level]);
  if (subject->type != NULL)
    line_add(line, "%s epoch=%" PRId64 " seq=%" PRId64 " ", subject->type, subject->epoch, subject->seq);
  line_add(line, "%s: %s\n", event, text);
}

static void line_json(struct line *line, enum config_log_level level, const struct log_subject *subject, const char *event,
                      const char *text)
{
  bson_t document = BSON_INITIALIZER;
  char time[64];
  time_text(time, sizeof time);
  BSON_APPEND_UTF8(&document, "time", time);
  BSON_APPEND_UTF8(&document, "level", level_names[level]);
  BSON_APPEND_UTF8(&document, "program", log_program);
  if (subject->type != NULL) {
    BSON_APPEND_UTF8(&document, "type", subject->type);
    BSON_APPEND_INT64(&document, "epoch", subject->epoch);
    BSON_APPEND_INT64(&document, "seq", subject->seq);
  }
  BSON_APPEND_UTF8(&document, "event", event);
  BSON_APPEND_UTF8(&document, "text", bson_utf8_validate(text, strlen(text), false) ? text : "(not UTF-8)");
  char *json = bson_as_relaxed_extended_json(&document, NULL);
  line_add(line, "%s\n", json != NULL ? json : "{}");
  bson_free(json);
  bson_destroy(&document);
}

void log_keep(char *text, size_t size)
{
  log_kept = text;
  log_kept_size = size;
  if (text != NULL)
    text[0] = '\0';
}

bool log_keeps(void)
{
  return log_kept != NULL;
}

static void line_write(const struct line *line)
{
  if (log_kept != NULL) {
    size_t used = strlen(log_kept);
    snprintf(log_kept + used, log_kept_size - used, "%.*s", (int)line->used, line->text);
  } else if (write(STDERR_FILENO, line->text, line->used) < 0) {
    /* A log that cannot be written must not stop the work. */
  }
}

bool log_wants(enum config_log_level level)
{
  return level <= log_level;
}

static void subject_write(enum config_log_level level, const struct log_subject *subject, const char *event, const char *text)
{
  struct line line = {.used = 0};
  line_add(&line, "%s", config_priority(level));
  (log_format == CONFIG_FORMAT_JSON ? line_json : line_text)(&line, level, subject, event, text);
  line_write(&line);
}

void log_line(enum config_log_level level, const struct log_subject *subject, const char *event, const char *text)
{
  if (log_wants(level))
    subject_write(level, subject, event, text);
}

void log_report(const struct log_subject *subject, const char *event, const char *text)
{
  subject_write(CONFIG_LOG_INFO, subject, event, text);
}

void log_say(enum config_log_level level, const char *event, const char *text)
{
  struct line line = {.used = 0};
  if (!log_wants(level))
    return;
  line_add(&line, "%s", config_priority(level));
  if (log_format == CONFIG_FORMAT_JSON)
    line_json(&line, level, &(struct log_subject){0}, event, text);
  else
    line_add(&line, "%s: %s\n", log_program, text);
  line_write(&line);
}
