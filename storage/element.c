#include "storage/element.h"

#include <bson/bson.h>

enum { DOCUMENT_BYTES_MIN = 5, NO_LENGTH = -1 };

static uint32_t length_at(const uint8_t *at)
{
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* The first byte after a string that ends in NUL; NULL: there is no NUL, or `at` is NULL. */
static const uint8_t *after_text(const uint8_t *at, const uint8_t *end)
{
  const uint8_t *zero = at == NULL ? NULL : memchr(at, 0, (size_t)(end - at));
  return zero == NULL ? NULL : zero + 1;
}

/* The length at `at`, plus `more` bytes that it does not count. NO_LENGTH: it is cut, below `least`, or above INT32_MAX. */
static int64_t by_length(const uint8_t *at, size_t left, uint32_t least, int64_t more)
{
  if (left < 4 || length_at(at) < least || length_at(at) > INT32_MAX)
    return NO_LENGTH;
  return (int64_t)length_at(at) + more;
}

static int64_t value_bytes(uint8_t type, const uint8_t *at, size_t left)
{
  switch (type) {
  case BSON_TYPE_UNDEFINED:
  case BSON_TYPE_NULL:
  case BSON_TYPE_MAXKEY:
  case BSON_TYPE_MINKEY:
    return 0;
  case BSON_TYPE_BOOL:
    return 1;
  case BSON_TYPE_INT32:
    return 4;
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DATE_TIME:
  case BSON_TYPE_TIMESTAMP:
  case BSON_TYPE_INT64:
    return 8;
  case BSON_TYPE_OID:
    return 12;
  case BSON_TYPE_DECIMAL128:
    return 16;
  case BSON_TYPE_UTF8:
  case BSON_TYPE_CODE:
  case BSON_TYPE_SYMBOL:
    return by_length(at, left, 1, 4);
  case BSON_TYPE_DBPOINTER:
    return by_length(at, left, 1, 4 + 12);
  case BSON_TYPE_BINARY:
    return by_length(at, left, 0, 4 + 1);
  case BSON_TYPE_DOCUMENT:
  case BSON_TYPE_ARRAY:
  case BSON_TYPE_CODEWSCOPE:
    return by_length(at, left, DOCUMENT_BYTES_MIN, 0);
  case BSON_TYPE_REGEX: {
    const uint8_t *after = after_text(after_text(at, at + left), at + left);
    return after == NULL ? NO_LENGTH : after - at;
  }
  default:
    return NO_LENGTH;
  }
}

void elements_init(struct elements *elements, const uint8_t *document, size_t bytes)
{
  bool whole = bytes >= DOCUMENT_BYTES_MIN && length_at(document) == bytes && document[bytes - 1] == 0;
  elements->malformed = !whole;
  elements->at = whole ? document + 4 : NULL;
  elements->end = whole ? document + bytes - 1 : NULL;
}

bool elements_next(struct elements *elements, struct element *element)
{
  if (elements->at == elements->end)
    return false;
  const uint8_t *key = elements->at + 1, *value = after_text(key, elements->end);
  int64_t bytes = value == NULL ? NO_LENGTH : value_bytes(elements->at[0], value, (size_t)(elements->end - value));
  if (bytes < 0 || bytes > elements->end - value) {
    elements->malformed = true;
    elements->at = elements->end;
    return false;
  }
  *element = (struct element){.type = elements->at[0], .key = (const char *)key, .value = value, .bytes = (size_t)bytes};
  elements->at = value + bytes;
  return true;
}

bool element_find(const uint8_t *document, size_t bytes, const char *key, struct element *element)
{
  struct elements elements;
  elements_init(&elements, document, bytes);
  while (elements_next(&elements, element))
    if (strcmp(element->key, key) == 0)
      return true;
  return false;
}
