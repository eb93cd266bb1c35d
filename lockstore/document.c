#include "lockstore/document.h"

/* Of ASCII, or of the C1 set (U+0080 to U+009F, in UTF-8 C2 80 to C2 9F), which terminals obey as well. */
static bool control_begins(const char *at)
{
  unsigned char byte = (unsigned char)at[0];
  return byte < ' ' || byte == 0x7f || (byte == 0xc2 && ((unsigned char)at[1] & 0xe0) == 0x80);
}

void document_make_printable(char *text)
{
  for (char *at = text; *at; at++)
    if (control_begins(at)) {
      if (*at == '\xc2')
        *at++ = ' ';
      *at = ' ';
    }
  /* A last character that was cut: its first byte is among the last three, and asks for more than there are. */
  size_t length = strlen(text);
  for (size_t back = 1; back <= 3 && back <= length; back++) {
    unsigned char byte = (unsigned char)text[length - back];
    if (byte >= 0xc0 && (back == 1 || (back == 2 && byte >= 0xe0) || (back == 3 && byte >= 0xf0)))
      text[length - back] = '\0';
    if (byte < 0x80 || byte >= 0xc0)
      return;
  }
}

bool document_has(const bson_t *document, const char *field)
{
  return bson_has_field(document, field);
}

bool document_int64(const bson_t *document, const char *field, int64_t *value)
{
  bson_iter_t at;
  if (!bson_iter_init_find(&at, document, field))
    return false;
  if (BSON_ITER_HOLDS_INT32(&at) || BSON_ITER_HOLDS_INT64(&at)) {
    *value = bson_iter_as_int64(&at);
    return true;
  }
  if (!BSON_ITER_HOLDS_DOUBLE(&at))
    return false;
  double number = bson_iter_double(&at);
  if (!(number >= -9007199254740992.0 && number <= 9007199254740992.0) || number != (double)(int64_t)number)
    return false;
  *value = (int64_t)number;
  return true;
}

bool document_date(const bson_t *document, const char *field, int64_t *ms)
{
  bson_iter_t at;
  if (!bson_iter_init_find(&at, document, field) || !BSON_ITER_HOLDS_DATE_TIME(&at))
    return false;
  *ms = bson_iter_date_time(&at);
  return true;
}

bool document_bool(const bson_t *document, const char *field, bool *value)
{
  bson_iter_t at;
  if (!bson_iter_init_find(&at, document, field) || !BSON_ITER_HOLDS_BOOL(&at))
    return false;
  *value = bson_iter_bool(&at);
  return true;
}

bool document_binary(const bson_t *document, const char *field, uint8_t *bytes, size_t size)
{
  bson_iter_t at;
  bson_subtype_t subtype;
  uint32_t length;
  const uint8_t *data;
  if (!bson_iter_init_find(&at, document, field) || !BSON_ITER_HOLDS_BINARY(&at))
    return false;
  bson_iter_binary(&at, &subtype, &length, &data);
  if (subtype != BSON_SUBTYPE_BINARY || length != size)
    return false;
  memcpy(bytes, data, size);
  return true;
}

void document_make_utf8(char *text)
{
  size_t length = strlen(text);
  if (bson_utf8_validate(text, length, false))
    return;
  for (size_t at = 0; at < length;) {
    size_t left = length - at, whole = 0;
    for (size_t bytes = 1; bytes <= 4 && bytes <= left && whole == 0; bytes++)
      whole = bson_utf8_validate(text + at, bytes, false) ? bytes : 0;
    if (whole == 0)
      text[at] = '?';
    at += whole > 0 ? whole : 1;
  }
}

bool document_text(const bson_t *document, const char *field, char *text, size_t size)
{
  bson_iter_t at;
  uint32_t length;
  text[0] = '\0';
  if (!bson_iter_init_find(&at, document, field) || !BSON_ITER_HOLDS_UTF8(&at))
    return false;
  const char *from = bson_iter_utf8(&at, &length);
  if (length >= size)
    return false;
  for (uint32_t i = 0; i < length; i++)
    if (control_begins(from + i))
      return false;
  memcpy(text, from, length);
  text[length] = '\0';
  return true;
}

bool document_document(const bson_t *document, const char *field, bson_t *value)
{
  bson_iter_t at;
  uint32_t length;
  const uint8_t *bytes;
  if (!bson_iter_init_find(&at, document, field) || !BSON_ITER_HOLDS_DOCUMENT(&at))
    return false;
  bson_iter_document(&at, &length, &bytes);
  return bson_init_static(value, bytes, length);
}

struct document_shown document_show(const bson_t *document, const char *field)
{
  struct document_shown shown = {.text = "absent"};
  bson_iter_t at;
  if (!bson_iter_init_find(&at, document, field))
    return shown;
  bson_t one = BSON_INITIALIZER;
  bson_append_value(&one, "", 0, bson_iter_value(&at));
  char *json = bson_as_relaxed_extended_json(&one, NULL);
  /* { "" : VALUE } */
  size_t length = json ? strlen(json) : 0;
  if (length > 9)
    snprintf(shown.text, sizeof shown.text, "%.*s", (int)(length - 9), json + 7);
  else
    strcpy(shown.text, "unreadable");
  document_make_printable(shown.text);
  bson_free(json);
  bson_destroy(&one);
  return shown;
}
