/*
 * storage_fixture: what the storage tests begin with: an empty memory disk, a holder of the type "t1", and what was last read
 * from its segments.
 */
#ifndef PAWL_TESTS_STORAGE_FIXTURE_H
#define PAWL_TESTS_STORAGE_FIXTURE_H

#include "holder.h"
#include "unit_test.h"

#include <bson/bson.h>

#define STORAGE_TEST(name) TEST_WITH(name, storage_begin, storage_end)

int storage_begin(void **state);
/* No descriptor may have been left open. */
int storage_end(void **state);

extern struct holder holder;
extern struct reading reading;
extern struct error error;

/* The first segment, with one block of that number of messages. */
void first_segment(int messages);
/* A t1.bin with all kinds of blocks, four epochs, two machines, one unclean end; lists its blocks. */
void sample_write(bool zstd);
/* The bytes of t1.bin. */
uint8_t *sample(size_t *size);
int64_t file_length(const char *name);
bool exists(const char *name);

enum { BLOCKS_MAX = 64 };
extern struct block_marker blocks[BLOCKS_MAX]; /* those of the segment that was last listed */
extern bson_t documents[BLOCKS_MAX];           /* their bodies, where they have no messages */
extern int block_count;

void blocks_list(const char *name, const struct committed *end);
int64_t block_end(int i);
/* Lists the blocks up to the committed end, and compares their kinds, as one letter each. */
void assert_kinds(const char *name, const char *expected);

#endif
