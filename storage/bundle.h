/*
 * bundle: a message that carries many: exactly {_id, type, batch: [documents]}, the fields in any order, at least one document.
 *
 * Anything else is a plain message, one that has another field, an empty `batch` or something in it that is no document too: then
 * nothing that was sent is hidden. Pure; nothing here is trusted, and what is inside the documents is the producer's.
 */
#ifndef PAWL_STORAGE_BUNDLE_H
#define PAWL_STORAGE_BUNDLE_H

#include "base.h"

#include <stddef.h>

/* How many documents its batch holds, *elements is where bundle_next begins; 0: it is no bundle. */
uint32_t bundle_open(const uint8_t *message, size_t bytes, const uint8_t **elements);
/* The next document of the batch. Not more often than bundle_open said. */
const uint8_t *bundle_next(const uint8_t **elements, size_t *bytes);

/* How many messages it is: those of a bundle, or 1. */
uint32_t bundle_items(const uint8_t *message, size_t bytes);

#endif
