/*
 * refusal: which documents of a queue no worker can take, and why: those without a usable type, in a type's own collection those of another
 * type, and those whose `_id` no delete can name (worker/message_id.h). There is no limit of size: a worker takes every document that
 * MongoDB takes.
 *
 * Pure, except for memory; any thread.
 */
#ifndef PAWL_TOOLS_SETUP_REFUSAL_H
#define PAWL_TOOLS_SETUP_REFUSAL_H

#include "base.h"
#include "lockstore/queue_name.h"
#include "storage/element.h"

#include <bson/bson.h>

/* All that has no usable type, in place of a type. No type has an @. */
#define REFUSAL_UNTYPED "@untyped"

struct refusal {
  char type[TYPE_BYTES_MAX + 1]; /* a usable one, or REFUSAL_UNTYPED; of an own collection the collection's */
  enum queue_source from;        /* with the type: the collection that it is in */
  char why[280];                 /* a sentence, on one line, printable: "its _id is an array, ..." */
  struct element id;             /* inside the document; its value is NULL if there is none */
};

/* False: a worker takes it; then only `type` and `id` are filled. */
MUST_CHECK bool refusal_judge(const uint8_t *document, size_t bytes, struct refusal *refusal);
/* The same, in the own collection of this type. */
MUST_CHECK bool refusal_judge_own(const uint8_t *document, size_t bytes, const char *type, struct refusal *refusal);
/*
 * Appends the field `filter` of a find on `messages` for what has this type, or REFUSAL_UNTYPED, and may be refused; NULL: for all. More
 * comes back than is refused, and refusal_judge decides.
 */
void refusal_append_filter(bson_t *command, const char *type);
void refusal_append_filter_own(bson_t *command, const char *type);

#endif
