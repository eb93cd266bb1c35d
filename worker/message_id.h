/*
 * message_id: the `_id` of a document, as the bytes that MongoDB has. A message is deleted by its `_id`. A document cannot be
 * taken if no delete can name its `_id`, or if the delete would match other documents too.
 *
 * Pure, except for memory; any thread.
 */
#ifndef PAWL_WORKER_MESSAGE_ID_H
#define PAWL_WORKER_MESSAGE_ID_H

#include "base.h"
#include "storage/element.h"

#include <bson/bson.h>

/* NULL: a delete can name the `_id`, and *id is its place. Otherwise the reason: static text that continues "its _id ". */
MUST_CHECK const char *message_id_find(const uint8_t *document, size_t bytes, struct element *id);

/* Appends the value under that key, byte for byte. `to` must not be a child of another document. False: no memory. */
MUST_CHECK bool message_id_append(bson_t *to, const char *key, const struct element *id);

/* For people, on one line: relaxed Extended JSON, or type and bytes where JSON cannot show it; cut if it is long. */
struct message_id_shown {
  char text[160];
};
struct message_id_shown message_id_show(const struct element *id);

#endif
