/*
 * type_text.h: the `type` of a document as text.
 *
 * It is a string, or a symbol, as old drivers write: MongoDB compares the two as equal, so a filter for the string finds both.
 */
#ifndef PAWL_TYPE_TEXT_H
#define PAWL_TYPE_TEXT_H

#include <bson/bson.h>

/* NULL: it is neither. */
static inline const char *type_text(const bson_iter_t *at, uint32_t *bytes)
{
  if (BSON_ITER_HOLDS_SYMBOL(at))
    return bson_iter_symbol(at, bytes);
  return BSON_ITER_HOLDS_UTF8(at) ? bson_iter_utf8(at, bytes) : NULL;
}

static inline bool type_is_text(uint8_t bson_type)
{
  return bson_type == BSON_TYPE_UTF8 || bson_type == BSON_TYPE_SYMBOL;
}

#endif
