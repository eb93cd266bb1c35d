#include "tools/json_exact.h"
#include "tools/enqueue/input.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

enum {
  BRACKETS_MAX = 3 * MESSAGE_DEPTH_MAX, /* a value in Extended JSON has up to two brackets of its own */
  TEXT_SIZE = 512,                      /* no number, date or identifier is longer */
  LONG_DIGITS = 20,                     /* 2^63 has 19 */
};

/* ---- text ---- */

/* Returns the end of the string that begins here; NULL: it does not end. */
const char *json_string_end(const char *at, const char *end)
{
  for (at++; at < end && *at != '"'; at++)
    if (*at == '\\')
      at++;
  return at < end ? at + 1 : NULL;
}

/*
 * Returns the end of the object or array that begins here; NULL: brackets that do not match, or too many. libbson's reader looks at more
 * than the object that it returns, and does not handle a stray bracket after it correctly, so it gets the object and nothing else.
 */
const char *json_object_end(const char *at, const char *end, size_t *depth_max)
{
  char open[BRACKETS_MAX];
  size_t depth = 0;
  *depth_max = 0;
  while (at && at < end) {
    if (*at == '"') {
      at = json_string_end(at, end);
      continue;
    }
    if (*at == '{' || *at == '[') {
      if (depth == sizeof open)
        return NULL;
      open[depth++] = *at == '{' ? '}' : ']';
      *depth_max = depth > *depth_max ? depth : *depth_max;
    } else if (*at == '}' || *at == ']') {
      if (depth == 0 || open[--depth] != *at)
        return NULL;
      if (depth == 0)
        return at + 1;
    }
    at++;
  }
  return NULL;
}

const char *json_blanks_end(const char *at, const char *end)
{
  while (at < end && *at && strchr(" \t\r\n", *at))
    at++;
  return at;
}

/* Where the value begins of the key whose string ends at `at`; NULL: that string is not a key. */
const char *json_value_of_key(const char *at, const char *end)
{
  at = json_blanks_end(at, end);
  return at < end && *at == ':' ? json_blanks_end(at + 1, end) : NULL;
}

/* Returns \x01 for an escape outside of ASCII, because no number, date or key of Extended JSON holds such a character. */
static char unescape(const char **at, const char *end)
{
  static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
  const char *found;
  char hex[5] = "";
  char escaped = *++*at;
  if (escaped == 'u' && end - *at > 4) {
    memcpy(hex, *at + 1, 4);
    unsigned long code = strtoul(hex, NULL, 16);
    *at += 4;
    return code > 0 && code < 0x80 ? (char)code : '\x01';
  }
  return (found = strchr(letters, escaped)) != NULL && escaped ? meant[found - letters] : escaped;
}

/* Copies the string that begins here. False: it is not a string, or too long. */
static bool string_text(const char *at, const char *end, char text[TEXT_SIZE])
{
  size_t length = 0;
  const char *after = at < end && *at == '"' ? json_string_end(at, end) : NULL;
  if (!after)
    return false;
  for (at++; at < after - 1; at++) {
    if (length == TEXT_SIZE - 1)
      return false;
    text[length++] = *at == '\\' ? unescape(&at, after) : *at;
  }
  text[length] = '\0';
  return true;
}

bool json_error(struct error *error, const char *format, ...)
{
  char text[300];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  error_set(error, "no Extended JSON: %s", text);
  for (char *c = error->text; *c; c++)
    if (iscntrl((unsigned char)*c))
      *c = ' ';
  return false;
}

/* ---- exact values ---- */

static bool decimal_exact(const char *text)
{
  bson_decimal128_t ignored;
  return bson_decimal128_from_string(text, &ignored);
}

/* A number that is not 0 must not be read as 0. */
static bool number_exact(const char *text)
{
  char *end;
  double value = strtod(text, &end);
  return *end == '\0' && isfinite(value) && (value != 0 || strcspn(text, "123456789") >= strcspn(text, "eE"));
}

static bool double_exact(const char *text)
{
  static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strcmp(text, words[i]) == 0)
      return true;
  return *text && strspn(text, "+-.0123456789eE") == strlen(text) && number_exact(text);
}

static bool oid_exact(const char *text)
{
  return strlen(text) == 24 && strspn(text, "0123456789abcdefABCDEF") == 24;
}

static bool uuid_exact(const char *text)
{
  return strlen(text) == 36 && strspn(text, "0123456789abcdefABCDEF-") == 36;
}

/* The reader checks the form. It does not check that the day, the second and the zone exist. */
static bool date_exact(const char *text)
{
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int year, month, day, hour, minute, second = 0, zone = 0;
  if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d", &year, &month, &day, &hour, &minute, &second) < 5 || month < 1 || month > 12)
    return false;
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  const char *sign = strpbrk(text + strcspn(text, "T"), "+-");
  if (sign)
    zone = atoi(sign + 1);
  return day >= 1 && day <= days[month - 1] + (leap && month == 2) && hour <= 23 && minute <= 59 && second <= 59 && zone <= 2359 &&
         zone % 100 <= 59;
}

static bool options_exact(const char *text)
{
  return strspn(text, "ilmsux") == strlen(text);
}

static bool subtype_exact(const char *text)
{
  return strlen(text) <= 2 && strspn(text, "0123456789abcdefABCDEF") == strlen(text);
}

/* Values that are strings. The reader refuses other kinds of values there. */
static const struct exact {
  const char *key;
  bool (*right)(const char *text);
  const char *takes;
} exacts[] = {
    {"$numberDecimal", decimal_exact, "a decimal number of at most 34 digits"},
    {"$numberDouble", double_exact, "a number that a double can hold, Infinity, -Infinity or NaN"},
    {"$oid", oid_exact, "24 hexadecimal digits"},
    {"$uuid", uuid_exact, "a UUID with its dashes"},
    {"$date", date_exact, "a time that exists, such as 2024-02-29T23:59:59.123Z, or a $numberLong"},
    {"$options", options_exact, "letters of ilmsux"},
    {"options", options_exact, "letters of ilmsux"}, /* these two only inside $regularExpression and $binary */
    {"subType", subtype_exact, "2 hexadecimal digits"},
};

static bool text_check(const char *key, const char *value, const char *end, struct error *error)
{
  char text[TEXT_SIZE] = "...";
  for (size_t i = 0; i < sizeof exacts / sizeof *exacts; i++)
    if (strcmp(key, exacts[i].key) == 0 && value < end && *value == '"') {
      if (string_text(value, end, text) && exacts[i].right(text))
        return true;
      return json_error(error, "%s: got \"%.60s\", expected %s", key, text, exacts[i].takes);
    }
  return true;
}

/* The strings and numbers inside the value of a wrapper such as $binary. */
static bool inside_check(const char *key, const char *at, const char *end, struct error *error)
{
  size_t depth;
  char inner[TEXT_SIZE];
  const char *after = at < end && *at == '{' ? json_object_end(at, end, &depth) : NULL, *value;
  bool timestamp = strcmp(key, "$timestamp") == 0;
  for (; after && at && at < after; at++) {
    if (*at == '"') {
      const char *behind = json_string_end(at, after);
      if (behind && (value = json_value_of_key(behind, after)) != NULL && string_text(at, after, inner) &&
          !text_check(inner, value, after, error))
        return false;
      at = behind ? behind - 1 : NULL;
    } else if (timestamp && isdigit((unsigned char)*at)) {
      size_t digits = strspn(at, "0123456789");
      if (digits > 10 || strtoll(at, NULL, 10) > UINT32_MAX)
        return json_error(error, "$timestamp: got %.*s, expected at most 4294967295", digits > 40 ? 40 : (int)digits, at);
      at += digits - 1;
    }
    if (!at)
      break;
  }
  return true;
}

/* The reader would cut code at a NUL. */
static bool code_check(const char *at, const char *end, struct error *error)
{
  const char *after = at < end && *at == '"' ? json_string_end(at, end) : NULL;
  for (; after && at < after; at++)
    if (*at == '\\' && *++at == 'u' && after - at > 4 && memcmp(at + 1, "0000", 4) == 0)
      return json_error(error, "$code: got a \\u0000 in it, which this form cannot hold: use --from bson");
  return true;
}

static bool wrapper_check(const char *key, const char *value, const char *end, struct error *error)
{
  if (strcmp(key, "$timestamp") == 0 || strcmp(key, "$binary") == 0 || strcmp(key, "$regularExpression") == 0)
    return inside_check(key, value, end, error);
  if (strcmp(key, "$code") == 0)
    return code_check(value, end, error);
  if (strcmp(key, "$undefined") == 0 && (end - value < 4 || memcmp(value, "true", 4) != 0))
    return json_error(error, "$undefined: expected true");
  return text_check(key, value, end, error);
}

/* The reader would take it modulo 2^64. */
static bool overflows(const char *at, size_t length)
{
  size_t sign = *at == '-', digits = strspn(at + sign, "0123456789");
  return sign + digits == length && digits >= LONG_DIGITS;
}

static bool number_check(const char *at, size_t length, struct error *error)
{
  char text[TEXT_SIZE];
  if (overflows(at, length))
    return json_error(error, "got %.*s, which an integer of 64 bits cannot hold", length > 60 ? 60 : (int)length, at);
  snprintf(text, sizeof text, "%.*s", (int)length, at);
  if (length >= sizeof text || number_exact(text))
    return true;
  return json_error(error, "got %.60s, which a double cannot hold", text);
}

/* False: the reader would change a value. The structure of the text is valid, or the reader will refuse it. */
bool json_exact_check(const char *at, const char *end, struct error *error)
{
  char key[TEXT_SIZE];
  while (at && at < end) {
    size_t digits = strspn(at, "-0123456789") > 0 ? strspn(at, "+-.0123456789eE") : 0;
    if (*at == '"') {
      const char *after = json_string_end(at, end), *value = after ? json_value_of_key(after, end) : NULL;
      if (value && string_text(at, end, key) && key[0] == '$' && !wrapper_check(key, value, end, error))
        return false;
      at = after;
    } else if (digits > 0) {
      if (!number_check(at, digits, error))
        return false;
      at += digits;
    } else
      at++;
  }
  return true;
}

/* One digit of each such run is at a multiple of its length. */
static bool has_long_number(const char *text, size_t length)
{
  for (size_t at = LONG_DIGITS - 1; at < length; at += LONG_DIGITS) {
    size_t begin = at, end = at;
    while (end < length && isdigit((unsigned char)text[end]))
      end++;
    while (begin > 0 && isdigit((unsigned char)text[begin - 1]))
      begin--;
    if (end > at && end - begin >= LONG_DIGITS)
      return true;
  }
  return false;
}

/* Most lines have no value that the reader could change, and need no check. */
bool json_exact_wanted(const char *text, size_t length)
{
  return memchr(text, '$', length) || memmem(text, length, "\\u0024", 6) || memmem(text, length, "e-", 2) ||
         memmem(text, length, "E-", 2) || has_long_number(text, length);
}
