/* Converts texts to values: every number is checked for range and overflow, and nothing may follow it. */
#include "config/options.h"
#include "visible.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

struct unit {
  const char *name;
  int64_t factor;
};
/* Smallest first; a value is shown in the largest unit that divides it. */
static const struct unit duration_units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0}};
static const struct unit bytes_units[] = {{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {NULL, 0}};

static void *field(struct config *config, const struct option_row *row)
{
  return (char *)config + row->offset;
}

/* Digits only; *end is the first byte after them. */
static bool parse_digits(const char *text, int base, const char **end, int64_t *value)
{
  int64_t result = 0;
  const char *at = text;
  for (; *at >= '0' && *at < '0' + base; at++)
    if (__builtin_mul_overflow(result, (int64_t)base, &result) || __builtin_add_overflow(result, (int64_t)(*at - '0'), &result))
      return false;
  *end = at;
  *value = result;
  return at > text;
}

static bool parse_with_unit(const char *text, const struct unit *units, bool bare, int64_t *value)
{
  const char *end;
  int64_t number;
  if (!parse_digits(text, 10, &end, &number))
    return false;
  if (*end == '\0' && bare) {
    *value = number;
    return true;
  }
  for (; units->name; units++)
    if (strcmp(end, units->name) == 0)
      return !__builtin_mul_overflow(number, units->factor, value);
  return false;
}

static void unit_text(const struct unit *units, int64_t value, char *text, size_t size)
{
  const struct unit *best = units;
  for (; units->name && value > 0; units++)
    if (value % units->factor == 0)
      best = units;
  snprintf(text, size, "%lld%s", (long long)(value / best->factor), best->name);
}

void value_duration_text(int64_t ms, char *text, size_t size)
{
  if (ms == 0)
    snprintf(text, size, "0s");
  else
    unit_text(duration_units, ms, text, size);
}

/* ---- times ---- */

/* Exactly `width` digits; moves *at after them. */
static bool take_number(const char **at, int width, int max, int *value)
{
  *value = 0;
  for (int i = 0; i < width; i++, (*at)++) {
    if (**at < '0' || **at > '9')
      return false;
    *value = *value * 10 + (**at - '0');
  }
  return *value <= max;
}

static bool take_byte(const char **at, const char *set)
{
  return **at && strchr(set, **at) && (*at)++;
}

/* Z, +hh:mm or -hh:mm, which must end the text. */
static bool take_zone(const char **at, int *offset_s)
{
  int hours, minutes, sign = **at == '-' ? -1 : 1;
  *offset_s = 0;
  if (take_byte(at, "zZ"))
    return **at == '\0';
  if (!take_byte(at, "+-") || !take_number(at, 2, 23, &hours) || !take_byte(at, ":") || !take_number(at, 2, 59, &minutes))
    return false;
  *offset_s = sign * (hours * 3600 + minutes * 60);
  return **at == '\0';
}

static int64_t take_fraction(const char **at)
{
  int64_t us = 0, weight = 100000;
  for (; **at >= '0' && **at <= '9'; (*at)++, weight /= 10)
    us += weight * (**at - '0');
  return us;
}

static bool parse_rfc3339(const char *text, int64_t *time_us)
{
  struct tm tm = {0};
  int year, month, second, offset_s;
  int64_t us = 0;
  const char *at = text;
  if (!take_number(&at, 4, 9999, &year) || !take_byte(&at, "-") || !take_number(&at, 2, 12, &month) || !take_byte(&at, "-") ||
      !take_number(&at, 2, 31, &tm.tm_mday) || !take_byte(&at, "tT ") || !take_number(&at, 2, 23, &tm.tm_hour) || !take_byte(&at, ":") ||
      !take_number(&at, 2, 59, &tm.tm_min) || !take_byte(&at, ":") || !take_number(&at, 2, 60, &second))
    return false;
  if (take_byte(&at, ".")) {
    if (*at < '0' || *at > '9')
      return false;
    us = take_fraction(&at);
  }
  if (!take_zone(&at, &offset_s))
    return false;
  tm.tm_year = year - 1900;
  tm.tm_mon = month - 1;
  int day = tm.tm_mday;
  time_t minute = timegm(&tm);
  if (tm.tm_mon != month - 1 || tm.tm_mday != day)
    return false; /* timegm has changed a date such as 30 February */
  *time_us = ((int64_t)minute + second - offset_s) * 1000000 + us;
  return true;
}

bool config_parse_time(const char *text, int64_t now_us, int64_t *time_us)
{
  int64_t ago_ms, ago_us;
  if (parse_with_unit(text, duration_units, false, &ago_ms))
    return !__builtin_mul_overflow(ago_ms, (int64_t)1000, &ago_us) && !__builtin_sub_overflow(now_us, ago_us, time_us);
  return parse_rfc3339(text, time_us);
}

/* ---- the kinds ---- */

static bool store_number(struct config *config, const struct option_row *row, const char *text)
{
  const char *end = text;
  int64_t value;
  bool good = false;
  if (row->none && strcmp(text, row->none) == 0) {
    *(int64_t *)field(config, row) = row->none_value;
    return true;
  }
  if (row->kind == OPTION_DURATION)
    good = parse_with_unit(text, duration_units, false, &value);
  else if (row->kind == OPTION_BYTES)
    good = parse_with_unit(text, bytes_units, true, &value);
  else
    good = parse_digits(text, 10, &end, &value) && *end == '\0';
  if (!good || value < row->min || value > row->max)
    return false;
  *(int64_t *)field(config, row) = value;
  return true;
}

/* The owner must be able to read and write: a later holder opens the file again. */
static bool store_mode(struct config *config, const struct option_row *row, const char *text)
{
  const char *end;
  int64_t value;
  if (!parse_digits(text, 8, &end, &value) || *end || value < row->min || value > row->max || (value & 0600) != 0600)
    return false;
  *(unsigned *)field(config, row) = (unsigned)value;
  return true;
}

bool value_bool(const char *text, bool *value)
{
  static const char *const words[] = {"false", "true", "no", "yes", "0", "1"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcasecmp(text, words[i]) == 0) {
      *value = i % 2;
      return true;
    }
  return false;
}

static bool store_bool(struct config *config, const struct option_row *row, const char *text)
{
  return value_bool(text, field(config, row));
}

static bool store_choice(struct config *config, const struct option_row *row, const char *text)
{
  for (unsigned i = 0; row->choices[i]; i++)
    if (strcmp(text, row->choices[i]) == 0) {
      if (row->kind == OPTION_ENUM)
        memcpy(field(config, row), &i, sizeof i);
      else
        *(const char **)field(config, row) = row->choices[i];
      return true;
    }
  return false;
}

static bool store_text(struct config *config, const struct option_row *row, const char *text)
{
  *(const char **)field(config, row) = text;
  return *text != '\0';
}

/* config cannot parse a URI. It checks that the text is one, so that a mistake is found early and the text is not passed on. */
static bool uri_plausible(const char *text)
{
  return (strncmp(text, "mongodb://", 10) == 0 && text[10]) || (strncmp(text, "mongodb+srv://", 14) == 0 && text[14]);
}

bool db_reserved(const char *name)
{
  /* MongoDB treats names that differ only in case as one name. */
  return strcasecmp(name, "admin") == 0 || strcasecmp(name, "local") == 0 || strcasecmp(name, "config") == 0;
}

static bool db_valid(const struct option_row *row, const char *text)
{
  int64_t length = (int64_t)strlen(text);
  return length >= row->min && length <= row->max && !strpbrk(text, "/\\. \"$*<>:|?") && !db_reserved(text);
}

static bool store_separator(struct config *config, const struct option_row *row, const char *text)
{
  static const char names[] = "nrt0\\", bytes[] = "\n\r\t\0\\";
  char *decoded = config_keep(config, malloc(strlen(text) + 1)), *to = decoded;
  for (; *text; text++) {
    const char *name = NULL;
    if (*text == '\\' && (text[1] == '\0' || !(name = strchr(names, *++text))))
      return false;
    *to++ = name ? bytes[name - names] : *text;
  }
  *to = '\0';
  config->separator_bytes = (size_t)(to - decoded);
  *(const char **)field(config, row) = decoded;
  return true;
}

/* PORT, ADDR:PORT, [ADDR]:PORT; an IPv6 address needs the brackets, because it contains colons. */
static bool store_address(struct config *config, const struct option_row *row, const char *text)
{
  struct config_address *address = field(config, row);
  uint8_t bytes[16];
  const char *end;
  int64_t port;
  *address = (struct config_address){0};
  if (strcmp(text, row->none) == 0)
    return true;
  const char *colon = strrchr(text, ':');
  if (!parse_digits(colon ? colon + 1 : text, 10, &end, &port) || *end || port < row->min || port > row->max)
    return false;
  address->port = (uint16_t)port;
  if (colon == NULL)
    return true;
  bool brackets = *text == '[' && colon[-1] == ']';
  char *host = config_keep(config, strndup(text + brackets, (size_t)(colon - text) - 2 * brackets));
  address->host = host;
  return inet_pton(brackets ? AF_INET6 : AF_INET, host, bytes) == 1;
}

bool value_store(struct config *config, const struct option_row *row, char *text)
{
  int64_t ignored;
  switch (row->kind) {
  case OPTION_TEXT:
    return store_text(config, row, text);
  case OPTION_URI:
    return uri_plausible(text) && store_text(config, row, text);
  case OPTION_DB:
    return db_valid(row, text) && store_text(config, row, text);
  case OPTION_NAME:
    return process_name_valid(text) && store_text(config, row, text);
  case OPTION_SEPARATOR:
    return store_separator(config, row, text);
  case OPTION_TIME:
    return config_parse_time(text, INT64_MAX / 2, &ignored) && store_text(config, row, text);
  case OPTION_WORD:
  case OPTION_ENUM:
    return store_choice(config, row, text);
  case OPTION_DURATION:
  case OPTION_BYTES:
  case OPTION_COUNT:
    return store_number(config, row, text);
  case OPTION_MODE:
    return store_mode(config, row, text);
  case OPTION_BOOL:
    return store_bool(config, row, text);
  case OPTION_TYPES:
    return types_store(config, row, text);
  case OPTION_ADDRESS:
    return store_address(config, row, text);
  case OPTION_FILE:
    return *text != '\0';
  case OPTION_ACTION:
    return true;
  }
  return false;
}

/* ---- describing what an option takes ---- */

static void bound_text(const struct option_row *row, int64_t bound, char *text, size_t size)
{
  if (row->kind == OPTION_DURATION)
    value_duration_text(bound, text, size);
  else if (row->kind == OPTION_BYTES)
    unit_text(bytes_units, bound, text, size);
  else
    snprintf(text, size, row->kind == OPTION_MODE ? "%04llo" : "%lld", (long long)bound);
}

void value_range(const struct option_row *row, char *text, size_t size)
{
  char min[32], max[32];
  text[0] = '\0';
  if (row->kind != OPTION_DURATION && row->kind != OPTION_BYTES && row->kind != OPTION_COUNT && row->kind != OPTION_MODE)
    return;
  bound_text(row, row->min, min, sizeof min);
  bound_text(row, row->max, max, sizeof max);
  if (row->max == INT64_MAX)
    snprintf(text, size, "%s or more", min);
  else
    snprintf(text, size, "%s to %s", min, max);
}

static void choices_text(const struct option_row *row, char *text, size_t size)
{
  size_t used = (size_t)snprintf(text, size, "one of");
  for (int i = 0; row->choices[i] && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s %s", i ? "," : "", row->choices[i]);
}

/* Writes the range with the text before and after it. */
static void number_takes(const struct option_row *row, const char *what, const char *example, char *text, size_t size)
{
  char range[80];
  value_range(row, range, sizeof range);
  const char *from = row->max == INT64_MAX ? " of " : " from ";
  snprintf(text, size, "%s%s%s%s%s%s", what, from, range, row->none ? ", or " : "", row->none ? row->none : "", example);
}

void value_takes(const struct option_row *row, char *text, size_t size)
{
  switch (row->kind) {
  case OPTION_TEXT:
  case OPTION_FILE:
    snprintf(text, size, "a text that is not empty");
    return;
  case OPTION_URI:
    snprintf(text, size, "mongodb://HOST[:PORT]... or mongodb+srv://HOST...");
    return;
  case OPTION_DB:
    snprintf(text, size,
             "a database name: 1 to 63 bytes, no blank and none of / \\ . \" $ * < > : | ?, and not MongoDB's own admin, local and config");
    return;
  case OPTION_NAME:
    snprintf(text, size, "1 to 64 bytes of UTF-8, no control or invisible characters, and no blank at either end");
    return;
  case OPTION_SEPARATOR:
    snprintf(text, size, "a text in which a backslash is followed by one of n r t 0 \\");
    return;
  case OPTION_TIME:
    snprintf(text, size, "an RFC 3339 time, e.g. 2024-05-01T12:00:00Z, or a duration for that long ago, e.g. 15m");
    return;
  case OPTION_WORD:
  case OPTION_ENUM:
    choices_text(row, text, size);
    return;
  case OPTION_DURATION:
    number_takes(row, "a duration with its unit", ", e.g. 250ms, 10s, 2m, 1h", text, size);
    return;
  case OPTION_BYTES:
    number_takes(row, "a size", ", e.g. 65536, 64KiB, 8MiB, 1GiB", text, size);
    return;
  case OPTION_COUNT:
    number_takes(row, "a whole number", "", text, size);
    return;
  case OPTION_MODE:
    number_takes(row, "octal permissions", " in which the owner may read and write, e.g. 0640", text, size);
    return;
  case OPTION_BOOL:
    snprintf(text, size, "true or false (or yes, no, 1, 0)");
    return;
  case OPTION_TYPES:
    snprintf(text, size, "types, each 1 to 128 bytes of A-Z a-z 0-9 _ . -, the first neither . nor -%s",
             option_taken(row, CONFIG_WORKER) ? ", and patterns of these in which * stands for any characters" : "");
    return;
  case OPTION_ADDRESS:
    snprintf(text, size, "a port from 1 to 65535, alone or after a numeric address, e.g. 9464, 127.0.0.1:9464, [::1]:9464, or none");
    return;
  case OPTION_ACTION:
    snprintf(text, size, "no value");
    return;
  }
}
