/*
 * load: one batch on its way from the queue into the file and out of the queue again: the messages, and the `_id`s by which
 * they are deleted once they are committed.
 *
 * On the heap; one owner at a time: the consumer, or the action that it gave it to.
 */
#ifndef PAWL_WORKER_LOAD_H
#define PAWL_WORKER_LOAD_H

#include "base.h"
#include "storage/batch.h"
#include "worker/message_id.h"

#include <bson/bson.h>

enum { LOAD_IDS_BYTES_MAX = 1024 * 1024 }; /* of `_id`s in one delete command, unless a single one is larger */

struct load {
  struct batch batch; /* empty when only the ids are wanted (settling), and once it is committed */
  bson_t **ids;       /* BSON arrays of raw `_id` values, each below LOAD_IDS_BYTES_MAX */
  size_t ids_count;
  size_t ids_deleted; /* how many of them are acknowledged */
  bool deleting;      /* an action has it */
  uint64_t
      read_at; /* the cluster time of its pass, seconds << 32 | increment, while it may be deleted by the range of its `_id`s; else 0 */
  uint32_t messages;
  int64_t seq_last; /* of its last message; known when it is committed */
};

/* NULL: no memory. */
MUST_CHECK struct load *load_new(void);
void load_free(struct load *load); /* NULL is allowed */

/* Notes an `_id` that message_id_find has found. False: no memory. */
MUST_CHECK bool load_add_id(struct load *load, const struct element *id);
/* load_add_id, and the document that it is of into the batch. */
MUST_CHECK bool load_add(struct load *load, const struct element *id, const uint8_t *document, size_t bytes);
/* How many bytes of `_id`s there are. */
size_t load_ids_bytes(const struct load *load);
/* How many one of the arrays names. */
int64_t load_ids_named(const bson_t *ids);

#endif
