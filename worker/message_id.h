/*
 * message_id: the `_id` of a document, as the bytes that MongoDB has. A message is deleted by its `_id`; a document whose `_id` no delete
 * can name, and no other, cannot be taken.
 *
 * Pure, but for memory; any thread.
 */
#ifndef PAWL_WORKER_MESSAGE_ID_H
#define PAWL_WORKER_MESSAGE_ID_H

#include "base.h"
#include "storage/element.h"

#include <bson/bson.h>

/* NULL: a delete can name it, and *id is where it lies. Else why not: static text, behind "its _id ". */
MUST_CHECK const char *message_id_find(const uint8_t *document, size_t bytes, struct element *id);

/* Appends the value under that key, byte for byte. `to` is no child of another. False: no memory. */
MUST_CHECK bool message_id_append(bson_t *to, const char *key, const struct element *id);

/* For people, on one line: relaxed Extended JSON, or, where that cannot show it, type and bytes; cut where it is long. */
struct message_id_shown {
  char text[160];
};
struct message_id_shown message_id_show(const struct element *id);

#endif
