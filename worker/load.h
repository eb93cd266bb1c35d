/*
 * load: one batch on its way from the queue to the file, and then out of the queue: the messages, and the `_id`s for their
 * delete after the commit.
 *
 * On the heap; one owner at a time: the consumer, or the action that got it from the consumer.
 */
#ifndef PAWL_WORKER_LOAD_H
#define PAWL_WORKER_LOAD_H

#include "base.h"
#include "storage/batch.h"
#include "worker/message_id.h"

#include <bson/bson.h>

enum { LOAD_IDS_BYTES_MAX = 1024 * 1024 }; /* bytes of `_id`s in one delete command; a single larger `_id` is allowed */

struct load {
  struct batch batch; /* empty if only the ids are needed (settling), and after the commit */
  bson_t **ids;       /* BSON arrays of raw `_id` values, each below LOAD_IDS_BYTES_MAX */
  size_t ids_count;
  size_t ids_deleted; /* how many of the arrays are acknowledged as deleted */
  bool deleting;      /* an action is deleting it */
  uint64_t
      read_at; /* the cluster time of its pass, seconds << 32 | increment, if a delete by the range of its `_id`s is allowed; otherwise 0 */
  uint32_t messages;
  int64_t seq_last; /* seq of its last message; known after the commit */
};

/* NULL: no memory. */
MUST_CHECK struct load *load_new(void);
void load_free(struct load *load); /* NULL is allowed */

/* Appends an `_id` that message_id_find has found. False: no memory. */
MUST_CHECK bool load_add_id(struct load *load, const struct element *id);
struct load_caps {
  int64_t messages, bytes; /* of the documents */
};
enum load_put {
  LOAD_PUT,       /* *id is its `_id` */
  LOAD_FULL,      /* it belongs to the next load: the caps allow no more, unless a single document is larger */
  LOAD_UNUSABLE,  /* it cannot be taken (message_id_find), and the load ends before it: a load is a range without holes */
  LOAD_NO_MEMORY, /* for the `_id` or the document */
};
/* Appends the document to the batch, and its `_id`. */
MUST_CHECK enum load_put load_put(struct load *load, const struct load_caps *caps, const uint8_t *document, size_t bytes,
                                  struct element *id);
/* The first and the last `_id`: a delete by range begins and ends with these. False: the load has none. */
MUST_CHECK bool load_range(const struct load *load, struct element *first, struct element *last);
/* How many bytes of `_id`s the load has. */
size_t load_ids_bytes(const struct load *load);
/* How many `_id`s one of the arrays names. */
int64_t load_ids_named(const bson_t *ids);

#endif
