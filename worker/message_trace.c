#include "worker/message_trace.h"
#include "storage/bundle.h"
#include "visible.h"
#include "worker/log.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum {
  LINE_VALUES_MAX = 20,
  LINE_BYTES_MAX = 1400, /* of the text: in JSON each byte may become two, and a line of the log has 4096 */
  VALUE_BYTES_MAX = 64,  /* of a string; the rest is left out */
  VALUE_SIZE = 6 * VALUE_BYTES_MAX + 16,
  BLOCK_VALUES_MAX = 20000,
};

bool message_trace_wanted(const struct message_trace *trace)
{
  return trace != NULL && log_wants(CONFIG_LOG_DEBUG);
}

/* ---- one value as text: one line, whatever the producer sent ---- */

struct text {
  char bytes[VALUE_SIZE];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void text_add(struct text *text, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, arguments);
  va_end(arguments);
  size_t left = sizeof text->bytes - text->used - 1;
  text->used += length < 0 ? 0 : (size_t)length < left ? (size_t)length : left;
}

/* The bytes of the UTF-8 character at `at`; 0: it is none, or one that must not reach a terminal. */
static size_t character_bytes(const char *at, size_t left)
{
  unsigned char first = (unsigned char)*at;
  size_t bytes = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes > left || !bson_utf8_validate(at, bytes, false))
    return 0;
  bson_unichar_t character = bson_utf8_get_char(at);
  return visible_not(character) ? 0 : bytes;
}

static void string_add(struct text *text, const char *string, size_t bytes)
{
  size_t shown = bytes < VALUE_BYTES_MAX ? bytes : VALUE_BYTES_MAX, step;
  text_add(text, "\"");
  for (size_t i = 0; i < shown; i += step) {
    size_t whole = character_bytes(string + i, bytes - i);
    step = whole > 0 ? whole : 1;
    if (whole == 0 || string[i] == '"' || string[i] == '\\')
      text_add(text, whole == 0 ? "\\x%02x" : "\\%c", (unsigned char)string[i]);
    else
      text_add(text, "%.*s", (int)whole, string + i);
  }
  text_add(text, shown < bytes ? "…\"" : "\"");
}

static uint64_t number_at(const uint8_t *at, size_t bytes)
{
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; i++)
    value |= (uint64_t)at[i] << 8 * i;
  return value;
}

static void hex_add(struct text *text, const uint8_t *bytes, size_t count)
{
  for (size_t i = 0; i < count; i++)
    text_add(text, "%02x", bytes[i]);
}

static void double_add(struct text *text, const uint8_t *value)
{
  uint64_t bits = number_at(value, 8);
  double number;
  memcpy(&number, &bits, sizeof number);
  text_add(text, "%.17g", number);
}

static void date_add(struct text *text, int64_t ms)
{
  char shown[40];
  time_t second = (time_t)(ms >= 0 ? ms / 1000 : (ms - 999) / 1000);
  struct tm utc;
  if (gmtime_r(&second, &utc) != NULL && utc.tm_year + 1900 >= 1000 && utc.tm_year + 1900 <= 9999 &&
      strftime(shown, sizeof shown, "%Y-%m-%dT%H:%M:%S", &utc) > 0)
    text_add(text, "%s.%03dZ", shown, (int)(ms - (int64_t)second * 1000));
  else
    text_add(text, "date %" PRId64, ms);
}

static void decimal_add(struct text *text, const uint8_t *value)
{
  bson_decimal128_t decimal = {.low = number_at(value, 8), .high = number_at(value + 8, 8)};
  char shown[BSON_DECIMAL128_STRING];
  bson_decimal128_to_string(&decimal, shown);
  text_add(text, "%s", shown);
}

static void value_add(struct text *text, const struct element *element)
{
  const uint8_t *value = element->value;
  switch (element->type) {
  case BSON_TYPE_UTF8:
  case BSON_TYPE_SYMBOL:
    string_add(text, (const char *)value + 4, element->bytes - 5);
    return;
  case BSON_TYPE_INT32:
    text_add(text, "%" PRId32, (int32_t)number_at(value, 4));
    return;
  case BSON_TYPE_INT64:
    text_add(text, "%" PRId64, (int64_t)number_at(value, 8));
    return;
  case BSON_TYPE_DOUBLE:
    double_add(text, value);
    return;
  case BSON_TYPE_DECIMAL128:
    decimal_add(text, value);
    return;
  case BSON_TYPE_OID:
    hex_add(text, value, 12);
    return;
  case BSON_TYPE_BOOL:
    text_add(text, *value ? "true" : "false");
    return;
  case BSON_TYPE_NULL:
    text_add(text, "null");
    return;
  case BSON_TYPE_DATE_TIME:
    date_add(text, (int64_t)number_at(value, 8));
    return;
  case BSON_TYPE_BINARY: /* a UUID, say: as much as a value may have */
    hex_add(text, value + 5, element->bytes - 5 < 16 ? element->bytes - 5 : 16);
    text_add(text, element->bytes - 5 > 16 ? "…" : "");
    return;
  case BSON_TYPE_DOCUMENT:
  case BSON_TYPE_ARRAY:
    text_add(text, element->type == BSON_TYPE_ARRAY ? "[%zu bytes]" : "{%zu bytes}", element->bytes);
    return;
  default:
    text_add(text, "(BSON type %u)", element->type);
  }
}

/* ---- the lines ---- */

struct lines {
  const struct message_trace *trace;
  const struct traced_block *block;
  char line[LINE_BYTES_MAX + VALUE_SIZE + 80];
  size_t used, values;                /* of the line; used 0: none is begun */
  int64_t seq;                        /* of its first value */
  int64_t listed, absent, not_listed; /* messages: with the field, without it, and too many for a log */
};

static void line_begin(struct lines *lines, int64_t seq)
{
  const struct committed *end = lines->block->end;
  struct text field = {.used = 0};
  string_add(&field, lines->trace->field, strlen(lines->trace->field));
  lines->seq = seq;
  lines->values = 0;
  lines->used = (size_t)snprintf(lines->line, sizeof lines->line, "%s %s in file=%s offset=%" PRId64 ":", field.bytes,
                                 lines->block->outcome, end->file, end->tail);
}

static void line_end(struct lines *lines)
{
  struct log_subject subject = {.type = lines->block->type, .epoch = lines->block->epoch, .seq = lines->seq};
  if (lines->used > 0)
    log_line(CONFIG_LOG_DEBUG, &subject, "trace", lines->line);
  lines->used = 0;
}

static void value_write(struct lines *lines, int64_t seq, int64_t index, const struct element *element)
{
  struct text value = {.used = 0};
  text_add(&value, index >= 0 ? "%" PRId64 "[%" PRId64 "]=" : "%" PRId64 "=", seq, index);
  value_add(&value, element);
  if (lines->values == LINE_VALUES_MAX || lines->used + value.used + 2 > LINE_BYTES_MAX)
    line_end(lines);
  if (lines->used == 0)
    line_begin(lines, seq);
  lines->used +=
      (size_t)snprintf(lines->line + lines->used, sizeof lines->line - lines->used, "%s %s", lines->values > 0 ? "," : "", value.bytes);
  lines->values++;
}

/* `bundle`: the document that the message is in, or NULL. */
static void message_write(struct lines *lines, int64_t seq, int64_t index, const uint8_t *message, size_t bytes, const uint8_t *bundle,
                          size_t bundle_bytes)
{
  const struct field_path *path = &lines->trace->path;
  struct element element;
  bool found = field_first(path, message, bytes, &element) ||
               (bundle != NULL && field_is_bundles(path) && field_first(path, bundle, bundle_bytes, &element));
  if (!found)
    lines->absent++;
  else if (lines->listed == BLOCK_VALUES_MAX)
    lines->not_listed++;
  else {
    lines->listed++;
    value_write(lines, seq, index, &element);
  }
}

static void document_write(struct lines *lines, int64_t seq, const uint8_t *document, size_t bytes)
{
  const uint8_t *elements;
  uint32_t count = bundle_open(document, bytes, &elements);
  if (count == 0)
    message_write(lines, seq, -1, document, bytes, NULL, 0);
  for (uint32_t i = 0; i < count; i++) {
    size_t size;
    const uint8_t *message = bundle_next(&elements, &size);
    message_write(lines, seq, i, message, size, document, bytes);
  }
}

/* What is not there is said, too: FIELD may be mistyped. */
static void rest_write(struct lines *lines, int64_t seq)
{
  if (lines->absent + lines->not_listed == 0)
    return;
  if (lines->used == 0)
    line_begin(lines, seq);
  if (lines->not_listed > 0)
    lines->used += (size_t)snprintf(lines->line + lines->used, sizeof lines->line - lines->used, "; %" PRId64 " more are not listed",
                                    lines->not_listed);
  if (lines->absent > 0)
    lines->used += (size_t)snprintf(lines->line + lines->used, sizeof lines->line - lines->used, "%s %" PRId64 " message%s without it",
                                    lines->values > 0 ? ";" : "", lines->absent, plural(lines->absent));
}

void message_trace_block(const struct message_trace *trace, const struct traced_block *block)
{
  const struct batch *batch = block->batch;
  const uint8_t *at = batch_documents(batch);
  int64_t seq = block->end->seq - batch->count + 1;
  struct lines *lines = calloc(1, sizeof *lines);
  if (lines == NULL)
    return; /* a line of the log, and nothing more */
  lines->trace = trace;
  lines->block = block;
  for (uint32_t i = 0; i < batch->count; i++) {
    size_t bytes = (size_t)number_at(at, 4);
    document_write(lines, seq + i, at, bytes);
    at += bytes;
  }
  rest_write(lines, seq);
  line_end(lines);
  free(lines);
}
