/*
 * element: the elements of a BSON document as raw bytes, each as long as its own type says.
 *
 * What a value holds is not judged: MongoDB stores values that BSON libraries refuse or cut, such as code with a NUL inside, or an old
 * binary whose inner length is wrong. Pure; the bytes are not trusted, and not copied.
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

struct elements { /* a walk over them */
  const uint8_t *at, *end;
  bool malformed; /* it ended because what follows is no element */
};

void elements_init(struct elements *elements, const uint8_t *document, size_t bytes);
/* False: there is no more, or what follows is malformed. */
MUST_CHECK bool elements_next(struct elements *elements, struct element *element);

/* The first of that name. */
MUST_CHECK bool element_find(const uint8_t *document, size_t bytes, const char *key, struct element *element);
#endif
