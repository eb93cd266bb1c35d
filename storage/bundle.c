#include "storage/bundle.h"

#include <bson/bson.h>

static uint32_t count_documents(const bson_iter_t *array)
{
  bson_iter_t at;
  uint32_t count = 0;
  if (!BSON_ITER_HOLDS_ARRAY(array) || !bson_iter_recurse(array, &at))
    return 0;
  for (; bson_iter_next(&at); count++)
    if (!BSON_ITER_HOLDS_DOCUMENT(&at))
      return 0;
  return at.err_off == 0 ? count : 0;
}

/* It is asked of every message that is drained: most are left at the first key that a bundle has not. */
uint32_t bundle_open(const uint8_t *message, size_t bytes, const uint8_t **elements)
{
  enum { ID = 1, TYPE = 2, BATCH = 4 };
  bson_iter_t at;
  unsigned seen = 0;
  uint32_t array_bytes, count = 0;
  if (!bson_iter_init_from_data(&at, message, bytes))
    return 0;
  while (bson_iter_next(&at)) {
    const char *key = bson_iter_key(&at);
    unsigned field = strcmp(key, "_id") == 0 ? ID : strcmp(key, "type") == 0 ? TYPE : strcmp(key, "batch") == 0 ? BATCH : 0;
    if (field == 0 || (seen & field) != 0)
      return 0;
    seen |= field;
    if (field != BATCH)
      continue;
    count = count_documents(&at);
    if (count == 0)
      return 0;
    bson_iter_array(&at, &array_bytes, elements);
    *elements += 4;
  }
  return seen == (ID | TYPE | BATCH) && at.err_off == 0 ? count : 0;
}

/* Element type, key, document: bundle_open has been over all of them. */
const uint8_t *bundle_next(const uint8_t **elements, size_t *bytes)
{
  const uint8_t *document = *elements + 1;
  document += strlen((const char *)document) + 1;
  *bytes = (size_t)document[0] | (size_t)document[1] << 8 | (size_t)document[2] << 16 | (size_t)document[3] << 24;
  *elements = document + *bytes;
  return document;
}

uint32_t bundle_items(const uint8_t *message, size_t bytes)
{
  const uint8_t *elements;
  uint32_t count = bundle_open(message, bytes, &elements);
  return count > 0 ? count : 1;
}
