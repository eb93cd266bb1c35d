/*
 * body: what lies between two markers: documents back to back, plain or inside one zstd frame.
 *
 * Pure functions over the caller's memory, from any thread.
 */
#ifndef PAWL_STORAGE_BODY_H
#define PAWL_STORAGE_BODY_H

#include "base.h"
#include "storage/format.h"

/* True if `bytes` are exactly `count` documents whose lengths add up, each ending in 00. What is inside them is the producer's. */
bool body_is_documents(const uint8_t *bytes, size_t size, uint32_t count);

/* Finds the zstd frame in a stored body of codec 1. False: it is not one document {_z: binary} around one frame of `decoded_bytes`. */
MUST_CHECK bool body_find_frame(const uint8_t *stored, size_t stored_bytes, size_t decoded_bytes, const uint8_t **frame,
                                size_t *frame_bytes);
/* Decodes it to exactly `decoded_bytes`. */
MUST_CHECK bool body_decode_frame(const uint8_t *frame, size_t frame_bytes, uint8_t *decoded, size_t decoded_bytes);

/* How large a buffer body_encode may need. */
size_t body_encoded_bytes_max(size_t plain_bytes);
/*
 * Wraps `plain` as a codec 1 body into `encoded`. Returns its length, or 0 when the block is better left plain: less than an
 * eighth would be saved, or the document would be above 16 MiB.
 */
size_t body_encode(const uint8_t *plain, size_t plain_bytes, uint8_t *encoded, size_t encoded_size);

#endif
