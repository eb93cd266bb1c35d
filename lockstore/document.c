#include "lockstore/document.h"

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
    if ((unsigned char)from[i] < ' ' || from[i] == 0x7f)
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
  bson_free(json);
  bson_destroy(&one);
  return shown;
}
