/*
 * image: what one fuzzing input is for the targets that read storage files: 64 bytes that steer the target, and a directory.
 *
 *   0   64 control bytes, missing ones 0
 *   64  the files, each: 1 byte epoch (0: t1.bin, else t1@<epoch>.bin), 3 bytes length (little-endian), the bytes
 *
 * Every input is an image: a length beyond the end is cut. tests/fuzz/image.py packs and unpacks them.
 *
 * The seals make a changed segment believable again, so that a reader gets past its checksums. Pure, over the caller's memory.
 */
#ifndef PAWL_TESTS_FUZZ_IMAGE_H
#define PAWL_TESTS_FUZZ_IMAGE_H

#include "base.h"

#include <stdlib.h>

enum { CONTROL_BYTES = 64, IMAGE_FILES_MAX = 6, IMAGE_BLOCKS_MAX = 512 };
#define IMAGE_TYPE "t1"
#define IMAGE_DIR "d" /* on the memory disk */

/* Whoever breaks a promise dies, which the fuzzer and the replay take for a finding. */
#define CHECK(promise)                                                                     \
  do {                                                                                     \
    if (!(promise)) {                                                                      \
      fprintf(stderr, "%s:%d: %s: the promise is broken\n", __FILE__, __LINE__, #promise); \
      abort();                                                                             \
    }                                                                                      \
  } while (0)

/* What the control bytes steer. */
enum control_at {
  CONTROL_MODE = 0, /* where the committed end comes from, below, and what the target makes of the other bits */
  CONTROL_SWITCHES = 2,
  CONTROL_LENGTH = 8,
  CONTROL_TAIL = 16,
  CONTROL_SEQ = 24,
  CONTROL_LINK = 32,
  CONTROL_SEEK = 40,
  CONTROL_TIME = 48,
  CONTROL_BLOCK = 56,
  CONTROL_FILE = 57,
  CONTROL_SMALL = 58,
};
enum control_end { END_NONE, END_GIVEN, END_TRUE, END_CHANGED };

struct image_file {
  uint8_t epoch;
  const uint8_t *bytes; /* borrowed from the input */
  size_t size;
};

struct image {
  uint8_t control[CONTROL_BYTES];
  struct image_file files[IMAGE_FILES_MAX];
  size_t count;
};

void image_parse(struct image *image, const uint8_t *input, size_t size);
void image_name(uint8_t epoch, char name[FILE_NAME_SIZE]);
/* Puts the files onto the memory disk, emptied before. */
void image_to_disk(const struct image *image);
/* The committed end that the control bytes ask for; false: none. */
bool image_end(const struct image *image, struct committed *end);

uint32_t image_get32(const uint8_t *at);
uint64_t image_get64(const uint8_t *at);
void image_put(uint8_t *at, uint64_t value, size_t bytes);

struct span {
  size_t at, size;
};
/* The blocks that a walk by the stored lengths meets, sound or not. */
size_t segment_blocks(const uint8_t *bytes, size_t size, struct span *blocks, size_t max);
/* The end behind block `index` as the bytes themselves tell it; with no block the header's. False: no header. */
bool segment_end(const uint8_t *bytes, size_t size, size_t index, struct committed *end);

enum seal {
  SEAL_NONE,
  SEAL_SUMS,  /* checksums, and the links that are made of them */
  SEAL_CHAIN, /* everything by which a block continues the one before it */
};
void segment_seal(uint8_t *bytes, size_t size, enum seal seal);
/* Makes the header name this predecessor; the caller seals it afterwards. */
void segment_follow(uint8_t *bytes, size_t size, const struct committed *end, uint64_t epoch, uint64_t number);

#endif
