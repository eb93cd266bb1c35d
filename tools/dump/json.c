#include "tools/dump/json.h"
#include "bson_array.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>

/* ---- UTF-8 ---- */

/*
 * Returns how many bytes at `at` belong together: a character, or, with *valid false, the longest beginning of one (at least 1). The range
 * of the second byte excludes overlong forms, surrogates and everything above U+10FFFF (Unicode, table 3-7).
 */
static size_t utf8_step(const uint8_t *at, size_t left, bool *valid)
{
  uint8_t lead = at[0];
  size_t needed = lead < 0x80                    ? 1
                  : lead >= 0xC2 && lead <= 0xDF ? 2
                  : lead >= 0xE0 && lead <= 0xEF ? 3
                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                 : 0;
  uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  size_t length = 1;
  while (length < needed && length < left && at[length] >= low && at[length] <= high) {
    length++;
    low = 0x80;
    high = 0xBF;
  }
  *valid = length == needed;
  return length;
}

bool json_text_valid(const char *text, size_t bytes)
{
  const uint8_t *at = (const uint8_t *)text;
  bool valid = true;
  for (size_t i = 0; i < bytes && valid;) {
    uint64_t eight;
    if (bytes - i >= sizeof eight && (memcpy(&eight, at + i, sizeof eight), (eight & 0x8080808080808080u) == 0))
      i += sizeof eight;
    else
      i += utf8_step(at + i, bytes - i, &valid);
  }
  return valid;
}

char *json_mend_text(const char *text, size_t bytes, size_t *mended_bytes)
{
  const uint8_t *at = (const uint8_t *)text;
  char *mended = malloc(3 * bytes + 1);
  size_t length = 0;
  for (size_t i = 0, step = 0; mended != NULL && i < bytes; i += step) {
    bool valid = false;
    step = utf8_step(at + i, bytes - i, &valid);
    memcpy(mended + length, valid ? text + i : "\xEF\xBF\xBD", valid ? step : 3);
    length += valid ? step : 3;
  }
  if (mended != NULL)
    mended[length] = 0;
  *mended_bytes = length;
  return mended;
}

/* ---- can it be shown? ---- */

/* libbson prints the year 10000 and later in a form that it cannot read itself; the standard has a number there. */
static const int64_t year_10000_ms = 253402300800000;

static enum json_shown worse(enum json_shown a, enum json_shown b)
{
  return a > b ? a : b;
}

static enum json_shown scan_string(const bson_iter_t *at)
{
  uint32_t bytes = 0;
  const char *text = bson_iter_utf8(at, &bytes);
  return json_text_valid(text, bytes) ? JSON_FAITHFUL : JSON_MENDED;
}

/* Of all text but strings. */
static enum json_shown scan_text(const char *text, size_t bytes)
{
  return json_text_valid(text, bytes) ? JSON_FAITHFUL : JSON_INEXACT;
}

static enum json_shown scan_document(const uint8_t *document, size_t bytes, int depth);

static enum json_shown scan_nested(const bson_iter_t *at, int depth)
{
  const uint8_t *document = NULL;
  uint32_t bytes = 0;
  if (bson_iter_type(at) == BSON_TYPE_ARRAY)
    bson_iter_array(at, &bytes, &document);
  else
    bson_iter_document(at, &bytes, &document);
  return scan_document(document, bytes, depth + 1);
}

/* libbson prints those that it knows, each once, in this order. */
static bool options_faithful(const char *options)
{
  static const char known[] = "ilmsux";
  for (const char *at = known; *at != '\0' && *options != '\0'; at++)
    options += *options == *at;
  return *options == '\0';
}

static enum json_shown scan_value(const bson_iter_t *at, int depth)
{
  uint32_t bytes = 0, scope_bytes = 0;
  const uint8_t *scope = NULL;
  const char *text = NULL, *options = NULL;
  const bson_oid_t *oid = NULL;
  bson_type_t type = bson_iter_type(at);
  if (type == BSON_TYPE_DOCUMENT || type == BSON_TYPE_ARRAY)
    return scan_nested(at, depth);
  if (type == BSON_TYPE_UTF8)
    return scan_string(at);
  if (type == BSON_TYPE_CODE)
    text = bson_iter_code(at, &bytes);
  else if (type == BSON_TYPE_SYMBOL)
    text = bson_iter_symbol(at, &bytes);
  else if (type == BSON_TYPE_DBPOINTER)
    bson_iter_dbpointer(at, &bytes, &text, &oid);
  else if (type == BSON_TYPE_REGEX) {
    text = bson_iter_regex(at, &options);
    if (!options_faithful(options))
      return JSON_INEXACT;
    return worse(scan_text(text, strlen(text)), scan_text(options, strlen(options)));
  } else if (type == BSON_TYPE_CODEWSCOPE) {
    text = bson_iter_codewscope(at, &bytes, &scope_bytes, &scope);
    return worse(scan_text(text, bytes), scan_document(scope, scope_bytes, depth + 1));
  }
  if (type == BSON_TYPE_DATE_TIME && bson_iter_date_time(at) >= year_10000_ms)
    return JSON_LATE;
  return text == NULL ? JSON_FAITHFUL : scan_text(text, bytes);
}

/* libbson's printer recurses without a limit of its own and stops at the first byte that it rejects, so scan first. */
static enum json_shown scan_document(const uint8_t *document, size_t bytes, int depth)
{
  bson_iter_t at;
  enum json_shown shown = JSON_FAITHFUL;
  if (depth > JSON_DEPTH_MAX || bytes > JSON_DOCUMENT_BYTES_MAX || !bson_iter_init_from_data(&at, document, bytes))
    return JSON_RAW;
  while (shown != JSON_RAW && bson_iter_next(&at)) {
    shown = worse(shown, scan_text(bson_iter_key(&at), bson_iter_key_len(&at)));
    shown = worse(shown, scan_value(&at, depth));
  }
  return at.err_off != 0 ? JSON_RAW : shown;
}

bool json_printable(const uint8_t *document, size_t bytes)
{
  return scan_document(document, bytes, 0) != JSON_RAW;
}

/* ---- mending ---- */

static bool mend_document(const uint8_t *document, size_t bytes, bool relaxed, bson_t *to);

static bool mend_nested(const bson_iter_t *at, const char *key, int key_bytes, bool relaxed, bson_t *to)
{
  bool array = bson_iter_type(at) == BSON_TYPE_ARRAY;
  const uint8_t *document = NULL;
  uint32_t bytes = 0;
  bson_t child;
  if (array)
    bson_iter_array(at, &bytes, &document);
  else
    bson_iter_document(at, &bytes, &document);
  if (!(array ? bson_append_array_unsafe_begin(to, key, key_bytes, &child) : bson_append_document_begin(to, key, key_bytes, &child)))
    return false;
  bool done = mend_document(document, bytes, relaxed, &child);
  return (array ? bson_append_array_end(to, &child) : bson_append_document_end(to, &child)) && done;
}

static bool mend_string(const bson_iter_t *at, const char *key, int key_bytes, bson_t *to)
{
  uint32_t bytes = 0;
  const char *text = bson_iter_utf8(at, &bytes);
  size_t length = 0;
  char *mended = json_mend_text(text, bytes, &length);
  bool done = mended != NULL && bson_append_utf8(to, key, key_bytes, mended, (int)length);
  free(mended);
  return done;
}

/* libbson would append such a text only up to its first NUL. */
static bool mend_would_cut(const bson_iter_t *at)
{
  uint32_t bytes = 0, scope_bytes = 0;
  const uint8_t *scope = NULL;
  const char *text = NULL;
  const bson_oid_t *oid = NULL;
  if (bson_iter_type(at) == BSON_TYPE_CODE)
    text = bson_iter_code(at, &bytes);
  else if (bson_iter_type(at) == BSON_TYPE_CODEWSCOPE)
    text = bson_iter_codewscope(at, &bytes, &scope_bytes, &scope);
  else if (bson_iter_type(at) == BSON_TYPE_DBPOINTER)
    bson_iter_dbpointer(at, &bytes, &text, &oid);
  return text != NULL && memchr(text, 0, bytes) != NULL;
}

static bool mend_scope(const bson_iter_t *at, const char *key, int key_bytes, bool relaxed, bson_t *to)
{
  uint32_t bytes = 0, scope_bytes = 0;
  const uint8_t *scope = NULL;
  const char *code = bson_iter_codewscope(at, &bytes, &scope_bytes, &scope);
  bson_t mended = BSON_INITIALIZER;
  bool done = mend_document(scope, scope_bytes, relaxed, &mended) && bson_append_code_with_scope(to, key, key_bytes, code, &mended);
  bson_destroy(&mended);
  return done;
}

/* As libbson prints it in the canonical form. */
static bool mend_late(const bson_iter_t *at, const char *key, int key_bytes, bson_t *to)
{
  char text[32];
  bson_t date, number;
  snprintf(text, sizeof text, "%" PRId64, bson_iter_date_time(at));
  return bson_append_document_begin(to, key, key_bytes, &date) && BSON_APPEND_DOCUMENT_BEGIN(&date, "$date", &number) &&
         BSON_APPEND_UTF8(&number, "$numberLong", text) && bson_append_document_end(&date, &number) && bson_append_document_end(to, &date);
}

static bool mend_element(const bson_iter_t *at, const char *key, int key_bytes, bool relaxed, bson_t *to)
{
  bson_type_t type = bson_iter_type(at);
  if (type == BSON_TYPE_DOCUMENT || type == BSON_TYPE_ARRAY)
    return mend_nested(at, key, key_bytes, relaxed, to);
  if (type == BSON_TYPE_UTF8)
    return mend_string(at, key, key_bytes, to);
  if (mend_would_cut(at))
    return false;
  if (type == BSON_TYPE_CODEWSCOPE)
    return mend_scope(at, key, key_bytes, relaxed, to);
  if (type == BSON_TYPE_DATE_TIME && relaxed && bson_iter_date_time(at) >= year_10000_ms)
    return mend_late(at, key, key_bytes, to);
  return bson_append_iter(to, key, key_bytes, at);
}

/* Copies the document with mended strings and late dates. It was scanned before, so its depth is bounded. */
static bool mend_document(const uint8_t *document, size_t bytes, bool relaxed, bson_t *to)
{
  bson_iter_t at;
  bool done = bson_iter_init_from_data(&at, document, bytes);
  while (done && bson_iter_next(&at))
    done = mend_element(&at, bson_iter_key(&at), (int)bson_iter_key_len(&at), relaxed, to);
  return done;
}

/* ---- printing ---- */

/* The caller frees it with bson_free. NULL: cannot be shown as JSON; *shown is then JSON_RAW. */
static char *json_text(const uint8_t *document, size_t bytes, bool canonical, size_t *length, enum json_shown *shown)
{
  bson_t given, mended = BSON_INITIALIZER;
  char *text = NULL;
  *shown = scan_document(document, bytes, 0);
  bool rebuilt = *shown == JSON_MENDED || (*shown == JSON_LATE && !canonical);
  bool usable =
      rebuilt ? mend_document(document, bytes, !canonical, &mended) : *shown < JSON_INEXACT && bson_init_static(&given, document, bytes);
  if (usable) {
    const bson_t *from = rebuilt ? &mended : &given;
    text = canonical ? bson_as_canonical_extended_json(from, length) : bson_as_relaxed_extended_json(from, length);
  }
  bson_destroy(&mended);
  if (text == NULL)
    *shown = JSON_RAW;
  else if (*shown == JSON_LATE)
    *shown = JSON_FAITHFUL;
  return text;
}

static void write_base64(const uint8_t *bytes, size_t size, FILE *out)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < size; i += 3) {
    size_t left = size - i;
    unsigned three = (unsigned)bytes[i] << 16 | (left > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
    char four[4] = {digits[three >> 18], digits[three >> 12 & 63], left > 1 ? digits[three >> 6 & 63] : '=',
                    left > 2 ? digits[three & 63] : '='};
    fwrite(four, 1, sizeof four, out);
  }
}

static void write_raw(const uint8_t *document, size_t bytes, FILE *out)
{
  fputs("{\"$pawlRaw\":{\"$binary\":{\"base64\":\"", out);
  write_base64(document, bytes, out);
  fputs("\",\"subType\":\"00\"}}}", out);
}

enum json_shown json_write(const uint8_t *document, size_t bytes, bool canonical, FILE *out)
{
  enum json_shown shown;
  size_t length = 0;
  char *text = json_text(document, bytes, canonical, &length, &shown);
  if (text == NULL)
    write_raw(document, bytes, out);
  else
    fwrite(text, 1, length, out);
  bson_free(text);
  return shown;
}

/* Wraps the element in a document of its own, and prints it without the text around it. */
enum json_shown json_write_value(const bson_iter_t *element, FILE *out)
{
  static const char before[] = "{ \"\" : ", after[] = " }";
  /* The value's own bytes, because libbson would append code up to its first NUL. */
  size_t value_bytes = element->next_off - element->d1, bytes = 4 + 2 + value_bytes + 1, length = 0;
  uint8_t *wrapper = malloc(bytes);
  enum json_shown shown = JSON_RAW;
  if (wrapper == NULL)
    return JSON_RAW;
  for (int i = 0; i < 4; i++)
    wrapper[i] = (uint8_t)(bytes >> 8 * i);
  wrapper[4] = (uint8_t)bson_iter_type(element);
  wrapper[5] = 0;
  memcpy(wrapper + 6, element->raw + element->d1, value_bytes);
  wrapper[bytes - 1] = 0;
  char *text = json_text(wrapper, bytes, false, &length, &shown);
  if (text != NULL && length > sizeof before + sizeof after - 2)
    fwrite(text + sizeof before - 1, 1, length - (sizeof before + sizeof after - 2), out);
  else
    write_raw(wrapper, bytes, out);
  bson_free(text);
  free(wrapper);
  return shown;
}
