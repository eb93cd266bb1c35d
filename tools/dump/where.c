#include "tools/dump/where.h"
#include "config/config.h"
#include "storage/bundle.h"

#include <bson/bson.h>
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- VALUE ---- */

/* Whole bytes from hexadecimal digits; a dash before the bytes 4, 6, 8 and 10 if `dashes`. */
static bool parse_hex(const char *text, bool dashes, uint8_t *bytes, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (dashes && (i == 4 || i == 6 || i == 8 || i == 10) && *text++ != '-')
      return false;
    unsigned byte;
    if (!isxdigit((unsigned char)text[0]) || !isxdigit((unsigned char)text[1]) || sscanf(text, "%2x", &byte) != 1)
      return false;
    bytes[i] = (uint8_t)byte;
    text += 2;
  }
  return *text == '\0';
}

static void parse_numbers(struct where *where)
{
  const char *text = where->value;
  char *end;
  size_t sign = *text == '-';
  if (!isdigit((unsigned char)text[sign]) && text[sign] != '.')
    return; /* neither blanks nor words such as inf */
  errno = 0;
  where->integer = strtoll(text, &end, 10);
  where->is_integer = errno == 0 && *end == '\0';
  where->number = strtod(text, &end);
  where->is_number = *end == '\0' && isfinite(where->number) && strpbrk(text, "xXpP") == NULL;
}

void where_init(struct where *where, const char *text)
{
  const char *equals = strchr(text, '=');
  int64_t time_us;
  memset(where, 0, sizeof *where);
  field_path_init(&where->path, text, (size_t)(equals - text));
  where->value = equals + 1;
  parse_numbers(where);
  where->is_oid = parse_hex(where->value, false, where->oid, sizeof where->oid);
  where->is_uuid = parse_hex(where->value, true, where->uuid, sizeof where->uuid);
  where->is_time = strchr(where->value, ':') != NULL && config_parse_time(where->value, 0, &time_us);
  if (where->is_time)
    where->time_ms = time_us / 1000;
}

/* ---- one value ---- */

static uint64_t number_at(const uint8_t *at, size_t bytes)
{
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint64_t)at[i] << 8 * i;
  return value;
}

/* A whole double such as 42.0 is compared as the whole number it is: a double cannot tell large ones apart. */
static bool is_integer(const struct where *where, int64_t value)
{
  if (where->is_integer)
    return where->integer == value;
  return where->is_number && fabs(where->number) < 0x1p63 && (double)(int64_t)where->number == where->number &&
         (int64_t)where->number == value;
}

static bool is_double(const struct where *where, const uint8_t *value)
{
  uint64_t bits = number_at(value, 8);
  double number;
  memcpy(&number, &bits, sizeof number);
  return where->is_number && number == where->number;
}

static bool is_decimal(const struct where *where, const uint8_t *value)
{
  bson_decimal128_t decimal = {.low = number_at(value, 8), .high = number_at(value + 8, 8)};
  char text[BSON_DECIMAL128_STRING];
  bson_decimal128_to_string(&decimal, text);
  return strcmp(text, where->value) == 0;
}

/* The length of a string, and of a binary, comes first. */
static bool is_text(const struct where *where, const struct element *element)
{
  size_t length = strlen(where->value);
  return element->bytes == 4 + length + 1 && memcmp(element->value + 4, where->value, length) == 0;
}

static bool is_uuid(const struct where *where, const struct element *element)
{
  bool uuid = element->bytes == 4 + 1 + sizeof where->uuid && (element->value[4] == 4 || element->value[4] == 3);
  return uuid && where->is_uuid && memcmp(element->value + 5, where->uuid, sizeof where->uuid) == 0;
}

static bool value_is(const void *context, const struct element *element)
{
  const struct where *where = context;
  const uint8_t *value = element->value;
  switch (element->type) {
  case BSON_TYPE_UTF8:
  case BSON_TYPE_SYMBOL:
    return is_text(where, element);
  case BSON_TYPE_INT32:
    return is_integer(where, (int32_t)number_at(value, 4));
  case BSON_TYPE_INT64:
    return is_integer(where, (int64_t)number_at(value, 8));
  case BSON_TYPE_DOUBLE:
    return is_double(where, value);
  case BSON_TYPE_DECIMAL128:
    return is_decimal(where, value);
  case BSON_TYPE_OID:
    return where->is_oid && memcmp(value, where->oid, sizeof where->oid) == 0;
  case BSON_TYPE_BOOL:
    return strcmp(where->value, *value ? "true" : "false") == 0;
  case BSON_TYPE_NULL:
    return strcmp(where->value, "null") == 0;
  case BSON_TYPE_DATE_TIME:
    return where->is_time ? where->time_ms == (int64_t)number_at(value, 8) : is_integer(where, (int64_t)number_at(value, 8));
  case BSON_TYPE_BINARY:
    return is_uuid(where, element);
  default:
    return false;
  }
}

/* ---- messages ---- */

static bool matches(const struct where *where, const uint8_t *document, size_t bytes)
{
  return field_find(&where->path, document, bytes, value_is, where);
}

bool where_takes(const struct where *where, const uint8_t *document, size_t document_bytes, const uint8_t *message, size_t bytes)
{
  if (where == NULL || matches(where, message, bytes))
    return true;
  return message != document && field_is_bundles(&where->path) && matches(where, document, document_bytes);
}

int64_t where_count(const struct where *where, const uint8_t *document, size_t bytes, bool opens)
{
  const uint8_t *elements;
  if (where == NULL)
    return opens ? bundle_items(document, bytes) : 1;
  int64_t taken = 0;
  uint32_t count = bundle_open(document, bytes, &elements);
  if (count == 0 || !opens)
    taken = matches(where, document, bytes);
  for (uint32_t i = 0; i < count && (opens || taken == 0); i++) {
    size_t size;
    const uint8_t *message = bundle_next(&elements, &size);
    taken += where_takes(where, document, bytes, message, size);
  }
  return taken;
}
