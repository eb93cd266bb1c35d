/*
 * item: one batch on its way from the queue to the file, and then out of the queue: the messages, and the `_id`s for their
 * delete after the commit.
 *
 * On the heap; one owner at a time: the consumer, or the action that got it from the consumer.
 */
#ifndef PAWL_WORKER_WORK_ITEM_H
#define PAWL_WORKER_WORK_ITEM_H

#include "base.h"
#include "lockstore/queue_name.h"
#include "storage/batch.h"
#include "worker/message_id.h"

#include <bson/bson.h>

enum { WORK_ITEM_IDS_BYTES_MAX = 1024 * 1024 }; /* bytes of `_id`s in one delete command; a single larger `_id` is allowed */

struct work_item {
  struct batch batch; /* empty if only the ids are needed (settling), and after the commit */
  bson_t **ids;       /* BSON arrays of raw `_id` values, each below WORK_ITEM_IDS_BYTES_MAX */
  size_t ids_count;
  size_t ids_deleted; /* how many of the arrays are acknowledged as deleted */
  bool deleting;      /* an action is deleting it */
  uint64_t
      read_at; /* the cluster time of its pass, seconds << 32 | increment, if a delete by the range of its `_id`s is allowed; otherwise 0 */
  enum queue_source source; /* which collection they lie in; SOURCE_BOTH only in settling */
  uint32_t documents;
  int64_t seq_last; /* seq of its last message; known after the commit */
};

/* NULL: no memory. */
MUST_CHECK struct work_item *work_item_new(void);
void work_item_free(struct work_item *item); /* NULL is allowed */

/* Appends an `_id` that message_id_find has found. False: no memory. */
MUST_CHECK bool work_item_add_id(struct work_item *item, const struct element *id);
struct work_item_caps {
  int64_t documents, bytes;
};
enum work_item_put {
  ITEM_PUT,       /* *id is its `_id` */
  ITEM_FULL,      /* it belongs to the next item: the caps allow no more, unless a single document is larger */
  ITEM_UNUSABLE,  /* it cannot be taken (message_id_find), and the item ends before it: an item is a range without holes */
  ITEM_NO_MEMORY, /* for the `_id` or the document */
};
/* Appends the document to the batch, and its `_id`. */
MUST_CHECK enum work_item_put work_item_put(struct work_item *item, const struct work_item_caps *caps, const uint8_t *document,
                                            size_t bytes, struct element *id);
/* The first and the last `_id`: a delete by range begins and ends with these. False: the item has none. */
MUST_CHECK bool work_item_range(const struct work_item *item, struct element *first, struct element *last);
/* When the first document's `_id` was made, in seconds since 1970 by its producer's clock; -1: it is no ObjectId, or there is none. */
int64_t work_item_oldest_s(const struct work_item *item);
/* What it has in memory; NULL: nothing. */
int64_t work_item_bytes(const struct work_item *item);
/* How many bytes of `_id`s the item has. */
size_t work_item_ids_bytes(const struct work_item *item);
/* How many `_id`s one of the arrays names. */
int64_t work_item_ids_named(const bson_t *ids);

#endif
