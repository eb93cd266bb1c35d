#include "worker/log.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

static enum config_log_level log_level = CONFIG_LOG_INFO;
static enum config_log_format log_format = CONFIG_FORMAT_TEXT;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_init(enum config_log_level level, enum config_log_format format)
{
  log_level = level;
  log_format = format;
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

static int line_text(char *line, size_t size, const char *time, const char *level, const struct log_subject *subject, const char *event,
                     const char *text)
{
  if (subject->type == NULL)
    return snprintf(line, size, "%s %-5s %s: %s\n", time, level, event, text);
  return snprintf(line, size, "%s %-5s %s epoch=%" PRId64 " seq=%" PRId64 " %s: %s\n", time, level, subject->type, subject->epoch,
                  subject->seq, event, text);
}

static int line_json(char *line, size_t size, const char *time, const char *level, const struct log_subject *subject, const char *event,
                     const char *text)
{
  bson_t document = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&document, "time", time);
  BSON_APPEND_UTF8(&document, "level", level);
  if (subject->type != NULL) {
    BSON_APPEND_UTF8(&document, "type", subject->type);
    BSON_APPEND_INT64(&document, "epoch", subject->epoch);
    BSON_APPEND_INT64(&document, "seq", subject->seq);
  }
  BSON_APPEND_UTF8(&document, "event", event);
  if (bson_utf8_validate(text, strlen(text), false))
    BSON_APPEND_UTF8(&document, "text", text);
  else
    BSON_APPEND_UTF8(&document, "text", "(not UTF-8)");
  char *json = bson_as_relaxed_extended_json(&document, NULL);
  int length = snprintf(line, size, "%s\n", json != NULL ? json : "{}");
  bson_free(json);
  bson_destroy(&document);
  return length;
}

void log_line(enum config_log_level level, const struct log_subject *subject, const char *event, const char *text)
{
  char line[4096], time[64];
  if (level > log_level)
    return;
  time_text(time, sizeof time);
  int length =
      (log_format == CONFIG_FORMAT_JSON ? line_json : line_text)(line, sizeof line, time, level_names[level], subject, event, text);
  if ((size_t)length >= sizeof line) {
    length = sizeof line - 1;
    line[length - 1] = '\n';
  }
  if (write(STDERR_FILENO, line, (size_t)length) < 0) {
    /* A log that cannot be written must not stop the work. */
  }
}
