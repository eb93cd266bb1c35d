/*
 * image: one fuzzing input for the targets that read storage files: 64 bytes that control the target, and a directory.
 *
 *   0   64 control bytes, missing ones 0
 *   64  the files, each: 1 byte epoch (0: t1.bin, else t1@<epoch>.bin), 3 bytes length (little-endian), the bytes
 *
 * Every input is an image: a length beyond the end is cut. tests/fuzz/image.py packs and unpacks images.
 *
 * The seals make a changed segment valid again, so that a reader gets past its checksums. Pure, over the caller's memory.
 */
#ifndef PAWL_TESTS_FUZZ_IMAGE_H
#define PAWL_TESTS_FUZZ_IMAGE_H

#include "base.h"

#include <stdlib.h>

enum { CONTROL_BYTES = 64, IMAGE_FILES_MAX = 6, IMAGE_BLOCKS_MAX = 512 };
#define IMAGE_TYPE "t1"
#define IMAGE_DIR "d" /* on the memory disk */

/* A broken promise aborts the process, which the fuzzer and the replay report as a finding. */
#define CHECK(promise)                                                                     \
  do {                                                                                     \
    if (!(promise)) {                                                                      \
      fprintf(stderr, "%s:%d: %s: the promise is broken\n", __FILE__, __LINE__, #promise); \
      abort();                                                                             \
    }                                                                                      \
  } while (0)

/* What the control bytes control. */
enum control_at {
  CONTROL_MODE = 0, /* where the committed end comes from, below; the target defines the other bits */
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
/* Empties the memory disk and writes the files to it. */
void image_to_disk(const struct image *image);
/* The committed end that the control bytes ask for; false: none. */
bool image_end(const struct image *image, struct committed *end);

uint32_t image_get32(const uint8_t *at);
uint64_t image_get64(const uint8_t *at);
void image_put(uint8_t *at, uint64_t value, size_t bytes);

struct span {
  size_t at, size;
};
/* The blocks that a walk by the stored lengths finds, valid or not. */
size_t segment_blocks(const uint8_t *bytes, size_t size, struct span *blocks, size_t max);
/* The end after block `index`, from the bytes alone; with no block the header's. False: no header. */
bool segment_end(const uint8_t *bytes, size_t size, size_t index, struct committed *end);

enum seal {
  SEAL_NONE,
  SEAL_SUMS,  /* checksums, and the links that consist of them */
  SEAL_CHAIN, /* all fields by which a block continues the one before it */
};
void segment_seal(uint8_t *bytes, size_t size, enum seal seal);
/* Makes the header name this predecessor. The caller seals it afterwards. */
void segment_follow(uint8_t *bytes, size_t size, const struct committed *end, uint64_t epoch, uint64_t number);

#endif
