#include "storage/body.h"

#include <zstd.h>

/* {_z: binary subtype 0}: length, type, name, binary length and subtype before the frame; the closing 00 after it. */
enum { FRAME_AT = 4 + 1 + 3 + 4 + 1, FRAME_AROUND = FRAME_AT + 1, COMPRESSION_LEVEL = 1 };

static uint32_t length_at(const uint8_t *at)
{
  return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static void length_put(uint8_t *at, size_t value)
{
  for (int i = 0; i < 4; i++)
    at[i] = (uint8_t)(value >> 8 * i);
}

bool body_is_documents(const uint8_t *bytes, size_t size, uint32_t count)
{
  for (; count > 0; count--) {
    if (size < 5)
      return false;
    uint32_t length = length_at(bytes);
    if (length < 5 || length > size || bytes[length - 1] != 0)
      return false;
    bytes += length;
    size -= length;
  }
  return size == 0;
}

bool body_find_frame(const uint8_t *stored, size_t stored_bytes, size_t decoded_bytes, const uint8_t **frame, size_t *frame_bytes)
{
  if (stored_bytes < FRAME_AROUND || stored_bytes > FORMAT_DOCUMENT_BYTES_MAX || length_at(stored) != stored_bytes ||
      memcmp(stored + 4, "\x05_z", 4) != 0 || length_at(stored + 8) != stored_bytes - FRAME_AROUND || stored[12] != 0 ||
      stored[stored_bytes - 1] != 0)
    return false;
  *frame = stored + FRAME_AT;
  *frame_bytes = stored_bytes - FRAME_AROUND;
  return ZSTD_getFrameContentSize(*frame, *frame_bytes) == decoded_bytes &&
         ZSTD_findFrameCompressedSize(*frame, *frame_bytes) == *frame_bytes && ZSTD_getDictID_fromFrame(*frame, *frame_bytes) == 0;
}

bool body_decode_frame(const uint8_t *frame, size_t frame_bytes, uint8_t *decoded, size_t decoded_bytes)
{
  return ZSTD_decompress(decoded, decoded_bytes, frame, frame_bytes) == decoded_bytes;
}

size_t body_encoded_bytes_max(size_t plain_bytes)
{
  return FRAME_AROUND + ZSTD_compressBound(plain_bytes);
}

size_t body_encode(const uint8_t *plain, size_t plain_bytes, uint8_t *encoded, size_t encoded_size)
{
  size_t frame_bytes = ZSTD_compress(encoded + FRAME_AT, encoded_size - FRAME_AROUND, plain, plain_bytes, COMPRESSION_LEVEL);
  if (ZSTD_isError(frame_bytes))
    return 0;
  size_t total = frame_bytes + FRAME_AROUND;
  if (total > plain_bytes - plain_bytes / 8 || total > FORMAT_DOCUMENT_BYTES_MAX)
    return 0;
  length_put(encoded, total);
  memcpy(encoded + 4, "\x05_z", 4);
  length_put(encoded + 8, frame_bytes);
  encoded[12] = 0;
  encoded[total - 1] = 0;
  return total;
}
