/* body: documents back to back, and the one zstd frame around them. */
#include "storage/batch.h"
#include "storage/body.h"
#include "unit_test.h"

#include <stdlib.h>
#include <zstd.h>

static uint8_t plain[20000], encoded[40000], decoded[20000];
static const uint8_t *frame;
static size_t frame_bytes;

TEST(test_documents)
{
  static const uint8_t two[] = "\x05\0\0\0\0\x0C\0\0\0\x02_\0\0\0\0\0"; /* the second one is invalid inside: left to the producer */
  size_t size = 17;
  assert_true(body_is_documents(two, size, 2));
  assert_true(body_is_documents(two, 5, 1));
  assert_true(body_is_documents(two, 0, 0));
  assert_false(body_is_documents(two, size, 1));
  assert_false(body_is_documents(two, size, 3));
  for (size_t cut = 0; cut < size; cut++)
    assert_false(body_is_documents(two, cut, 2));
  assert_false(body_is_documents((const uint8_t *)"\x05\0\0\0\1", 5, 1));       /* no 00 at the end */
  assert_false(body_is_documents((const uint8_t *)"\x04\0\0\0", 4, 1));         /* too short for a document */
  assert_false(body_is_documents((const uint8_t *)"\xFF\xFF\xFF\xFF\0", 5, 1)); /* a length that would overflow */
  assert_false(body_is_documents((const uint8_t *)"\0\0\0\0\0\0\0\0", 8, 0xFFFFFFFF));
}

TEST(test_round_trip)
{
  for (size_t i = 0; i < sizeof plain; i++)
    plain[i] = (uint8_t)("pawl"[i % 4] + i / 5000);
  assert_true(body_encoded_bytes_max(sizeof plain) <= sizeof encoded);
  size_t size = body_encode(plain, sizeof plain, encoded, sizeof encoded);
  assert_uint_in_range(size, 15, sizeof plain / 8);
  assert_memory_equal(encoded + 4, "\x05_z\0", 4);
  assert_true(body_is_documents(encoded, size, 1));
  assert_true(body_find_frame(encoded, size, sizeof plain, &frame, &frame_bytes));
  assert_true(body_decode_frame(frame, frame_bytes, decoded, sizeof plain));
  assert_memory_equal(decoded, plain, sizeof plain);

  assert_false(body_find_frame(encoded, size, sizeof plain - 1, &frame, &frame_bytes));
  for (size_t cut = 0; cut < size; cut++)
    assert_false(body_find_frame(encoded, cut, sizeof plain, &frame, &frame_bytes));
}

/* Compression must save an eighth. */
TEST(test_left_plain)
{
  uint32_t random = 1;
  for (size_t i = 0; i < sizeof plain; i++)
    plain[i] = (uint8_t)((random = random * 1103515245 + 12345) >> 16);
  assert_int_equal(body_encode(plain, sizeof plain, encoded, sizeof encoded), 0);
  /* More zeros save more: the first block that stays compressed saves an eighth. */
  for (size_t zeros = 0;; zeros += 50) {
    memset(plain, 0, zeros);
    size_t size = body_encode(plain, sizeof plain, encoded, sizeof encoded);
    if (size == 0)
      continue;
    assert_uint_in_range(zeros, sizeof plain / 8 - 200, sizeof plain / 8 + 200);
    assert_uint_in_range(size, sizeof plain - sizeof plain / 8 - 100, sizeof plain - sizeof plain / 8);
    break;
  }
}

/* Above BSON's limit for a document the block stays plain. */
TEST(test_large)
{
  size_t size = 24 << 20, room = body_encoded_bytes_max(size);
  uint8_t *large = malloc(size), *out = malloc(room);
  assert_true(large != NULL && out != NULL);
  uint64_t random = 1;
  for (size_t i = 0; i < size; i++) /* three quarters are noise: 18 MiB remain after compression */
    large[i] = i % 4096 < 3072 ? (uint8_t)((random = random * 6364136223846793005 + 1442695040888963407) >> 56) : 0;
  assert_int_equal(body_encode(large, size, out, room), 0);
  size_t small = body_encode(large, size / 2, out, room);
  assert_uint_in_range(small, size / 3, size / 2);
  free(large);
  free(out);
}

/* Makes {_z: binary} around the `bytes` bytes of a frame that the test has put at encoded + 13. */
static size_t wrap(size_t bytes)
{
  size_t total = bytes + 14;
  memset(encoded, 0, 13);
  for (int i = 0; i < 4; i++) {
    encoded[i] = (uint8_t)(total >> 8 * i);
    encoded[8 + i] = (uint8_t)(bytes >> 8 * i);
  }
  memcpy(encoded + 4, "\x05_z", 3);
  encoded[total - 1] = 0;
  return total;
}

static size_t compress_with(ZSTD_cParameter parameter, int value)
{
  ZSTD_CCtx *context = ZSTD_createCCtx();
  memset(plain, 7, 1000);
  assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value)));
  size_t bytes = ZSTD_compress2(context, encoded + 13, sizeof encoded - 14, plain, 1000);
  ZSTD_freeCCtx(context);
  assert_false(ZSTD_isError(bytes));
  return bytes;
}

TEST(test_frames_refused)
{
  size_t bytes = compress_with(ZSTD_c_contentSizeFlag, 1), size = wrap(bytes);
  assert_true(body_find_frame(encoded, size, 1000, &frame, &frame_bytes));

  static const struct {
    size_t at;
    uint8_t value;
  } wrong[] = {{0, 1}, {4, 2}, {5, 'x'}, {6, 'x'}, {7, 1}, {8, 1}, {12, 1}, {13, 0}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    uint8_t kept = encoded[wrong[i].at];
    encoded[wrong[i].at] = wrong[i].value;
    assert_false(body_find_frame(encoded, size, 1000, &frame, &frame_bytes));
    encoded[wrong[i].at] = kept;
  }
  encoded[size - 1] = 1;
  assert_false(body_find_frame(encoded, size, 1000, &frame, &frame_bytes));

  /* Something after the frame; no content size; two frames. */
  encoded[13 + bytes] = 0;
  assert_false(body_find_frame(encoded, wrap(bytes + 1), 1000, &frame, &frame_bytes));
  bytes = compress_with(ZSTD_c_contentSizeFlag, 0);
  assert_false(body_find_frame(encoded, wrap(bytes), 1000, &frame, &frame_bytes));
  bytes = compress_with(ZSTD_c_contentSizeFlag, 1);
  memcpy(encoded + 13 + bytes, encoded + 13, bytes);
  assert_false(body_find_frame(encoded, wrap(2 * bytes), 1000, &frame, &frame_bytes));
  assert_false(body_find_frame(encoded, wrap(2 * bytes), 2000, &frame, &frame_bytes));
}

/* The frame's header says that a dictionary is needed: one bit of its descriptor, and a byte with the dictionary's number after it. */
TEST(test_dictionary_refused)
{
  size_t bytes = compress_with(ZSTD_c_contentSizeFlag, 1);
  assert_true(body_find_frame(encoded, wrap(bytes), 1000, &frame, &frame_bytes));
  assert_int_equal(encoded[13 + 4] & 0x23, 0x20); /* a single segment, no dictionary */
  memmove(encoded + 13 + 6, encoded + 13 + 5, bytes - 5);
  encoded[13 + 4] |= 1;
  encoded[13 + 5] = 7;
  assert_int_equal(ZSTD_getDictID_fromFrame(encoded + 13, bytes + 1), 7);
  assert_int_equal(ZSTD_findFrameCompressedSize(encoded + 13, bytes + 1), bytes + 1);
  assert_false(body_find_frame(encoded, wrap(bytes + 1), 1000, &frame, &frame_bytes));
}

TEST(test_frame_that_lies)
{
  size_t bytes = compress_with(ZSTD_c_checksumFlag, 1), size = wrap(bytes);
  assert_true(body_find_frame(encoded, size, 1000, &frame, &frame_bytes));
  assert_false(body_decode_frame(frame, frame_bytes, decoded, 999));
  encoded[13 + bytes - 1] ^= 1; /* the frame's checksum */
  assert_true(body_find_frame(encoded, size, 1000, &frame, &frame_bytes));
  assert_false(body_decode_frame(frame, frame_bytes, decoded, 1000));
}

TEST(test_batch)
{
  struct batch batch;
  batch_init(&batch);
  for (int i = 0; i < 100; i++) {
    memset(plain, i, 5000);
    assert_true(batch_add(&batch, plain, 5000, 1 + i % 2));
  }
  assert_int_equal(batch.bytes, 500000);
  assert_int_equal(batch.count, 100);
  assert_int_equal(batch.items, 150);
  for (int i = 0; i < 100; i++)
    assert_int_equal(batch_documents(&batch)[5000 * i + 4999], i);
  batch_deinit(&batch);
}
