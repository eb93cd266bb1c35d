/*
 * element: the elements of a BSON document as raw bytes. The type of an element determines the length of its value.
 *
 * The content of a value is not checked: MongoDB stores values that BSON libraries refuse or cut, such as code that contains a NUL, or an
 * old binary whose inner length is wrong. Pure functions over untrusted bytes, which are not copied.
 */
#ifndef PAWL_STORAGE_ELEMENT_H
#define PAWL_STORAGE_ELEMENT_H

#include "base.h"

#include <stddef.h>

struct element {
  uint8_t type;
  const char *key; /* ends in NUL, inside the document */
  const uint8_t *value;
  size_t bytes; /* of the value */
};

struct elements { /* a walk over the elements of a document */
  const uint8_t *at, *end;
  bool malformed; /* the walk ended because the next bytes are not an element */
};

void elements_init(struct elements *elements, const uint8_t *document, size_t bytes);
/* False: there are no more elements, or the next one is malformed. */
MUST_CHECK bool elements_next(struct elements *elements, struct element *element);

/* Finds the first element with this key. False: there is none, or the bytes before it are malformed. */
MUST_CHECK bool element_find(const uint8_t *document, size_t bytes, const char *key, struct element *element);
#endif
