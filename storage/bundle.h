/*
 * bundle: a document that carries many messages: exactly {_id, type, batch: [documents]}, the fields in any order, at least one document.
 *
 * Any other document is one plain message, also if it has a further field, an empty `batch`, or a `batch` that contains anything but
 * documents. So nothing that a producer sent is hidden. Pure functions over untrusted bytes; the content of the documents belongs to the
 * producer.
 */
#ifndef PAWL_STORAGE_BUNDLE_H
#define PAWL_STORAGE_BUNDLE_H

#include "base.h"

#include <stddef.h>

/* Returns the number of documents in `batch` and sets *elements to where bundle_next begins. 0: `message` is not a bundle. */
uint32_t bundle_open(const uint8_t *message, size_t bytes, const uint8_t **elements);
/* Returns the next document of `batch`, inside the message, and its length in *bytes. Call it at most as often as bundle_open returned. */
const uint8_t *bundle_next(const uint8_t **elements, size_t *bytes);

/* The number of messages in the document: those of a bundle, or 1. */
uint32_t bundle_items(const uint8_t *message, size_t bytes);

#endif
