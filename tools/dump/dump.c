#include "tools/dump/dump.h"

#include <inttypes.h>

volatile sig_atomic_t dump_interrupted;

static void say(enum config_log_level level, const char *format, va_list arguments)
{
  char line[2048];
  vsnprintf(line, sizeof line, format, arguments);
  for (char *at = line; *at != 0; at++)
    if ((unsigned char)*at < ' ' || *at == 0x7f)
      *at = '?';
  fprintf(stderr, "%spawl-dump: %s\n", config_priority(level), line);
}

void dump_say(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  say(CONFIG_LOG_ERROR, format, arguments);
  va_end(arguments);
}

void dump_note(const struct dump *dump, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (dump->config->log_level >= CONFIG_LOG_INFO)
    say(CONFIG_LOG_INFO, format, arguments);
  va_end(arguments);
}

static int gravity(enum dump_exit exit)
{
  switch (exit) {
  case DUMP_FINE:
    return 0;
  case DUMP_UNCONFIRMED:
    return 1;
  case DUMP_NEWER:
    return 2;
  case DUMP_IO:
    return 3;
  case DUMP_DAMAGED:
    return 4;
  case DUMP_USAGE:
    return 5;
  }
  return 0;
}

void dump_note_exit(struct dump *dump, enum dump_exit exit)
{
  if (gravity(exit) > gravity(dump->exit))
    dump->exit = exit;
}

void dump_note_status(struct dump *dump, enum read_status status, const struct error *error)
{
  switch (status) {
  case READ_OK:
  case READ_END:
  case READ_TAIL:
    return;
  case READ_DAMAGED:
    dump_note_exit(dump, DUMP_DAMAGED);
    return; /* source_say_damage and walk_say_damage report the details */
  case READ_NEWER:
    dump_say("%s", error->text);
    dump_note_exit(dump, DUMP_NEWER);
    return;
  case READ_ABSENT:
  case READ_FAILED:
    dump_say("%s", error->text);
    dump_note_exit(dump, DUMP_IO);
    return;
  }
}

void dump_say_shown(struct dump *dump, int64_t first_seq, int64_t last_seq)
{
  const struct printer *printer = &dump->printer;
  if (printer->mended > 0 && !dump->reported_mended) {
    dump->reported_mended = true;
    dump_note(dump, "a message of seq %" PRId64 "..%" PRId64 " holds invalid UTF-8, shown as U+FFFD (reported once)", first_seq, last_seq);
  }
  if (printer->raw > 0 && !dump->reported_raw) {
    dump->reported_raw = true;
    dump_note(dump, "a message of seq %" PRId64 "..%" PRId64 " cannot be shown as JSON, and is printed as $pawlRaw (reported once)",
              first_seq, last_seq);
  }
}

bool dump_goes_on(const struct dump *dump)
{
  return dump->out_errno == 0 && !dump_interrupted;
}
