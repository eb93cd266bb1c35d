/*
 * body: what lies between two markers: documents back to back, plain or inside one zstd frame.
 *
 * Pure functions over the caller's memory, from any thread.
 */
#ifndef PAWL_STORAGE_BODY_H
#define PAWL_STORAGE_BODY_H

#include "base.h"
#include "storage/format.h"

/*
 * True if `bytes` are exactly `count` documents whose lengths add up, each ending in 00. Their content is not checked: it belongs to the
 * producer.
 */
bool body_is_documents(const uint8_t *bytes, size_t size, uint32_t count);

/*
 * Finds the zstd frame in a stored body of codec 1; *frame points into `stored`. False: the body is not one document {_z: binary} around
 * one frame of `decoded_bytes`.
 */
MUST_CHECK bool body_find_frame(const uint8_t *stored, size_t stored_bytes, size_t decoded_bytes, const uint8_t **frame,
                                size_t *frame_bytes);
/* Decodes the frame to exactly `decoded_bytes`. False: it cannot be decoded, or has another size. */
MUST_CHECK bool body_decode_frame(const uint8_t *frame, size_t frame_bytes, uint8_t *decoded, size_t decoded_bytes);

/* The size in bytes of the buffer that body_encode may need for `plain_bytes`. */
size_t body_encoded_bytes_max(size_t plain_bytes);
/*
 * Writes `plain` as a body of codec 1 to `encoded` and returns its length in bytes. Returns 0 if the block is better left plain: zstd
 * failed, less than an eighth would be saved, or the document would be above 16 MiB.
 */
size_t body_encode(const uint8_t *plain, size_t plain_bytes, uint8_t *encoded, size_t encoded_size);

#endif
