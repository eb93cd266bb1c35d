#include "storage/bundle.h"
#include "storage/element.h"

#include <bson/bson.h>

static uint32_t count_documents(const struct element *array)
{
  struct elements documents;
  struct element document;
  uint32_t count = 0;
  if (array->type != BSON_TYPE_ARRAY)
    return 0;
  elements_init(&documents, array->value, array->bytes);
  for (; elements_next(&documents, &document); count++)
    if (document.type != BSON_TYPE_DOCUMENT)
      return 0;
  return documents.malformed ? 0 : count;
}

/* Hot path, called for every drained document: most are rejected at the first non-bundle key. */
uint32_t bundle_open(const uint8_t *message, size_t bytes, const uint8_t **elements)
{
  enum { ID = 1, TYPE = 2, BATCH = 4 };
  struct elements fields;
  struct element at;
  unsigned seen = 0;
  uint32_t count = 0;
  elements_init(&fields, message, bytes);
  while (elements_next(&fields, &at)) {
    unsigned field = strcmp(at.key, "_id") == 0 ? ID : strcmp(at.key, "type") == 0 ? TYPE : strcmp(at.key, "batch") == 0 ? BATCH : 0;
    if (field == 0 || (seen & field) != 0)
      return 0;
    seen |= field;
    if (field != BATCH)
      continue;
    count = count_documents(&at);
    if (count == 0)
      return 0;
    *elements = at.value + 4;
  }
  return seen == (ID | TYPE | BATCH) && !fields.malformed ? count : 0;
}

/* Each element is a type, a key and a document; bundle_open has already checked them all. */
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
