#include "storage/batch.h"

#include <stdlib.h>

enum { FIRST_BYTES = 64 * 1024 };

void batch_init(struct batch *batch)
{
  memset(batch, 0, sizeof *batch);
}

void batch_deinit(struct batch *batch)
{
  free(batch->buffer);
  batch_init(batch);
}

bool batch_add(struct batch *batch, const uint8_t *document, size_t bytes, uint32_t items)
{
  size_t needed = BATCH_HEADROOM_BYTES + batch->bytes + bytes;
  if (needed > batch->size) {
    size_t size = batch->size == 0 ? FIRST_BYTES : 2 * batch->size;
    while (size < needed)
      size *= 2;
    uint8_t *buffer = realloc(batch->buffer, size);
    if (buffer == NULL)
      return false;
    batch->buffer = buffer;
    batch->size = size;
  }
  memcpy(batch_documents(batch) + batch->bytes, document, bytes);
  batch->bytes += bytes;
  batch->count++;
  batch->items += items;
  return true;
}
