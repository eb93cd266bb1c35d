/*
 * queue_name: the collections that messages lie in. `messages` is shared by all types; a type's own collection (ledger.h) is
 * `messages.` and its name. Nothing is to be concluded from the existence of one: GridFS has a collection `messages.files`. The
 * ledger alone says that a type has its own.
 *
 * Pure; any thread.
 */
#ifndef PAWL_LOCKSTORE_QUEUE_NAME_H
#define PAWL_LOCKSTORE_QUEUE_NAME_H

#include "base.h"

#include <assert.h>

/* Where a message of a type lies, or the committed ones that are still to be deleted. */
enum queue_source {
  SOURCE_SHARED, /* `messages` */
  SOURCE_OWN,    /* the type's own collection */
  SOURCE_BOTH,   /* not known: the ledger was adopted. Never of a block */
};

#define QUEUE_SHARED "messages"
enum { QUEUE_NAME_SIZE = TYPE_BYTES_MAX + sizeof QUEUE_SHARED "." }; /* with its NUL */

struct queue_name {
  char text[QUEUE_NAME_SIZE];
};

/* `type` is read for SOURCE_OWN alone. */
static inline struct queue_name queue_name_of(const char *type, enum queue_source source)
{
  struct queue_name name;
  assert(source != SOURCE_BOTH);
  if (source == SOURCE_OWN)
    snprintf(name.text, sizeof name.text, QUEUE_SHARED ".%.*s", TYPE_BYTES_MAX, type);
  else
    snprintf(name.text, sizeof name.text, QUEUE_SHARED);
  return name;
}

#endif
