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

bool batch_reserve(struct batch *batch, size_t bytes)
{
  size_t needed = BATCH_HEADROOM_BYTES + batch->bytes + bytes;
  if (needed <= batch->size)
    return true;
  uint8_t *buffer = realloc(batch->buffer, needed);
  if (buffer == NULL)
    return false;
  batch->buffer = buffer;
  batch->size = needed;
  return true;
}

bool batch_add(struct batch *batch, const uint8_t *document, size_t bytes, uint32_t items)
{
  bool fits = BATCH_HEADROOM_BYTES + batch->bytes + bytes <= batch->size;
  if (!fits && !batch_reserve(batch, bytes > batch->bytes + FIRST_BYTES ? bytes : batch->bytes + FIRST_BYTES)) /* at least doubles */
    return false;
  memcpy(batch_documents(batch) + batch->bytes, document, bytes);
  batch->bytes += bytes;
  batch->count++;
  batch->items += items;
  return true;
}
