#include "tests/disk_bytes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void bytes_resize(struct bytes *bytes, size_t size)
{
  if (size > bytes->room) {
    bytes->room = size + size / 2;
    bytes->at = realloc(bytes->at, bytes->room);
    assert(bytes->at != NULL);
  }
  if (size > bytes->size)
    memset(bytes->at + bytes->size, 0, size - bytes->size);
  bytes->size = size;
}

void bytes_put(struct bytes *bytes, size_t offset, const uint8_t *from, size_t size)
{
  if (size == 0)
    return;
  if (offset + size > bytes->size)
    bytes_resize(bytes, offset + size);
  memcpy(bytes->at + offset, from, size);
}
