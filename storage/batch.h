/*
 * batch: documents on their way into a block. They are copied once, from the reply of the database to the buffer from which the block
 * is written; the buffer keeps room before them for the markers.
 *
 * The caller owns the memory of a `struct batch`. The struct owns a heap buffer between batch_init and batch_deinit. One thread at a
 * time; nothing blocks.
 */
#ifndef PAWL_STORAGE_BATCH_H
#define PAWL_STORAGE_BATCH_H

#include "base.h"

#include <stddef.h>

enum { BATCH_HEADROOM_BYTES = 8192 }; /* PAD (below 4096 + 160), OPEN and the DATA marker */

struct batch {
  uint8_t *buffer; /* BATCH_HEADROOM_BYTES, then the documents back to back */
  size_t size;     /* of the buffer */
  size_t bytes;    /* of the documents */
  uint32_t count;  /* documents */
  uint32_t items;  /* messages: a bundle counts as many as it holds */
};

void batch_init(struct batch *batch);
void batch_deinit(struct batch *batch);
/* Makes room for `bytes` more bytes of documents; adding them then does not move the buffer. False: no memory; the batch is unchanged. */
MUST_CHECK bool batch_reserve(struct batch *batch, size_t bytes);
/* Appends a copy of one BSON document. `items`: the number of its messages. False: no memory; the batch is unchanged. */
MUST_CHECK bool batch_add(struct batch *batch, const uint8_t *document, size_t bytes, uint32_t items);

static inline uint8_t *batch_documents(const struct batch *batch)
{
  return batch->buffer + BATCH_HEADROOM_BYTES;
}

#endif
