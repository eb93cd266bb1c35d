/*
 * field: the values that a dotted path names in a document, such as order.id.
 *
 * As in a query of MongoDB, a number names an element of an array, and an array on the way stands for each of the documents in it. A key
 * that itself contains a dot cannot be named. Pure functions over untrusted bytes, which are not copied; any thread.
 */
#ifndef PAWL_STORAGE_FIELD_H
#define PAWL_STORAGE_FIELD_H

#include "base.h"
#include "storage/element.h"

struct field_path {
  char text[FIELD_PATH_BYTES_MAX + 1]; /* the keys, each with its NUL */
  int parts;
};

/* `text` must be valid (field_path_valid). */
void field_path_init(struct field_path *path, const char *text, size_t length);

/*
 * Calls `visit` for each value that the path names, until it returns true. After an array the elements of the array are visited, too.
 * Returns what the last call returned; false: there is no such value.
 */
bool field_find(const struct field_path *path, const uint8_t *document, size_t bytes,
                bool (*visit)(const void *context, const struct element *value), const void *context);
/* Finds the first value. False: there is none. */
MUST_CHECK bool field_first(const struct field_path *path, const uint8_t *document, size_t bytes, struct element *value);

/* Whether the path begins at a field that a bundle has itself, for all of its messages: _id or type. */
bool field_is_bundles(const struct field_path *path);

#endif
