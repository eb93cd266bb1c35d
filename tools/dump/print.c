#include "tools/dump/print.h"
#include "tools/dump/json.h"

#include <inttypes.h>
#include <time.h>

static const char *const format_names[] = {
    [PRINT_RELAXED] = "relaxed", [PRINT_CANONICAL] = "canonical", [PRINT_PAYLOAD] = "payload", [PRINT_BSON] = "bson",
    [PRINT_HEX] = "hex",         [PRINT_BLOCKS] = "blocks",       [PRINT_SUMMARY] = "summary", [PRINT_NONE] = "none",
};

bool print_format_parse(const char *name, enum print_format *format)
{
  for (size_t i = 0; i < sizeof format_names / sizeof *format_names; i++)
    if (strcmp(name, format_names[i]) == 0) {
      *format = (enum print_format)i;
      return true;
    }
  return false;
}

bool print_format_takes_meta(enum print_format format)
{
  return format == PRINT_RELAXED || format == PRINT_CANONICAL || format == PRINT_BSON;
}

bool print_format_opens(enum print_format format)
{
  return format != PRINT_BSON && format != PRINT_HEX;
}

const char *time_text(int64_t time_us, char text[TIME_TEXT_SIZE])
{
  int64_t us = time_us % 1000000, second = time_us / 1000000;
  struct tm parts;
  if (us < 0) {
    us += 1000000;
    second--;
  }
  time_t when = (time_t)second;
  if (second < -62135596800 || second > 253402300799 || gmtime_r(&when, &parts) == NULL) {
    snprintf(text, TIME_TEXT_SIZE, "%" PRId64, time_us);
    return text;
  }
  size_t length = strftime(text, TIME_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
  /* %Y does not pad with zeros. */
  if (length > 0 && length < 19) {
    memmove(text + 19 - length, text, length + 1);
    memset(text, '0', 19 - length);
  }
  snprintf(text + 19, TIME_TEXT_SIZE - 19, ".%06dZ", (int)us);
  return text;
}

static void count_shown(struct printer *printer, enum json_shown shown)
{
  printer->mended += shown == JSON_MENDED;
  printer->raw += shown == JSON_RAW;
}

static void print_meta(const struct printer *printer, const struct block_marker *block, int64_t seq, int64_t index)
{
  char time[TIME_TEXT_SIZE];
  fprintf(printer->out, "{\"seq\":%" PRId64, seq);
  if (index != INDEX_NONE)
    fprintf(printer->out, ",\"index\":%" PRId64, index);
  fprintf(printer->out, ",\"epoch\":%" PRId64 ",\"offset\":%" PRId64 ",\"time\":\"%s\",\"message\":", block->epoch, block->offset,
          time_text(block->time_us, time));
}

static void print_json(struct printer *printer, const struct block_marker *block, int64_t seq, int64_t index, const uint8_t *message,
                       size_t bytes)
{
  if (printer->with_meta)
    print_meta(printer, block, seq, index);
  count_shown(printer, json_write(message, bytes, printer->format == PRINT_CANONICAL, printer->out));
  fputs(printer->with_meta ? "}\n" : "\n", printer->out);
}

/* ---- bson ---- */

static size_t put_number(uint8_t *at, uint64_t value, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    at[i] = (uint8_t)(value >> 8 * i);
  return bytes;
}

static size_t put_int64(uint8_t *at, const char *name, int64_t value)
{
  size_t length = 0;
  at[length++] = BSON_TYPE_INT64;
  memcpy(at + length, name, strlen(name) + 1);
  length += strlen(name) + 1;
  return length + put_number(at + length, (uint64_t)value, 8);
}

/* Written by hand, so that the message's own bytes stay unchanged, whether they are well-formed inside or not. */
static void print_bson_meta(const struct printer *printer, const struct block_marker *block, int64_t seq, const uint8_t *message,
                            size_t bytes)
{
  static const char time_name[] = "\x02time", message_name[] = "\x03message";
  uint8_t head[160];
  char time[TIME_TEXT_SIZE];
  size_t length = 4, time_bytes = strlen(time_text(block->time_us, time)) + 1;
  length += put_int64(head + length, "seq", seq);
  length += put_int64(head + length, "epoch", block->epoch);
  length += put_int64(head + length, "offset", block->offset);
  memcpy(head + length, time_name, sizeof time_name);
  length += sizeof time_name;
  length += put_number(head + length, time_bytes, 4);
  memcpy(head + length, time, time_bytes);
  length += time_bytes;
  memcpy(head + length, message_name, sizeof message_name);
  length += sizeof message_name;
  put_number(head, length + bytes + 1, 4);
  fwrite(head, 1, length, printer->out);
  fwrite(message, 1, bytes, printer->out);
  putc(0, printer->out);
}

static void print_hex(FILE *out, const uint8_t *message, size_t bytes)
{
  static const char digits[] = "0123456789abcdef";
  char text[512];
  size_t length = 0;
  for (size_t i = 0; i < bytes; i++) {
    text[length++] = digits[message[i] >> 4];
    text[length++] = digits[message[i] & 15];
    if (length == sizeof text) {
      fwrite(text, 1, length, out);
      length = 0;
    }
  }
  fwrite(text, 1, length, out);
  putc('\n', out);
}

/* ---- payload ---- */

static void print_value(struct printer *printer, const bson_iter_t *at)
{
  uint32_t bytes = 0;
  const uint8_t *binary = NULL;
  if (bson_iter_type(at) == BSON_TYPE_BINARY) {
    bson_iter_binary(at, NULL, &bytes, &binary);
    fwrite(binary, 1, bytes, printer->out);
  } else if (bson_iter_type(at) == BSON_TYPE_UTF8) {
    const char *text = bson_iter_utf8(at, &bytes);
    fwrite(text, 1, bytes, printer->out);
  } else
    count_shown(printer, json_write_value(at, printer->out));
}

static void print_payload(struct printer *printer, const uint8_t *message, size_t bytes)
{
  bson_iter_t at;
  if (!bson_iter_init_from_data(&at, message, bytes) || !bson_iter_find(&at, "payload")) {
    printer->without_payload++;
    return;
  }
  print_value(printer, &at);
  fwrite(printer->separator, 1, printer->separator_bytes, printer->out);
}

void printer_put(struct printer *printer, const struct block_marker *block, int64_t seq, int64_t index, const uint8_t *message,
                 size_t bytes)
{
  switch (printer->format) {
  case PRINT_RELAXED:
  case PRINT_CANONICAL:
    print_json(printer, block, seq, index, message, bytes);
    break;
  case PRINT_PAYLOAD:
    print_payload(printer, message, bytes);
    break;
  case PRINT_BSON:
    if (printer->with_meta)
      print_bson_meta(printer, block, seq, message, bytes);
    else
      fwrite(message, 1, bytes, printer->out);
    break;
  case PRINT_HEX:
    print_hex(printer->out, message, bytes);
    break;
  case PRINT_BLOCKS:
  case PRINT_SUMMARY:
  case PRINT_NONE:
    break;
  }
  printer->printed++;
}
