/* chain_fixture: the fixture of the storage tests, and one chain. */
#ifndef PAWL_TESTS_CHAIN_FIXTURE_H
#define PAWL_TESTS_CHAIN_FIXTURE_H

#include "storage_fixture.h"

#define CHAIN_TEST(name) TEST_WITH(name, storage_begin, chain_end)

int chain_end(void **state);

extern struct chain chain;

enum read_status load_from(const struct committed *end, int64_t from_seq);
enum read_status load(const struct committed *end);
/* The chain is these segments, oldest first, and these orphans: "t1.bin t1@2.bin | t1@3.bin". */
void assert_chain(const char *expected);
/* Reading it all gives these seqs. */
void assert_reads(const struct committed *end, int64_t first, int64_t last);
/* t1.bin, t1@2.bin, t1@3.bin, t1@4.bin with 5 messages each. */
void four_segments(void);
void header_change(const char *name, void (*change)(struct segment_header *));

#endif
