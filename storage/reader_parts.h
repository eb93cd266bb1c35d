/*
 * reader_parts: what reader.c (block after block) and reader_seek.c (searching and jumping) share. Not for anybody else.
 */
#ifndef PAWL_STORAGE_READER_PARTS_H
#define PAWL_STORAGE_READER_PARTS_H

#include "storage/reader.h"

enum read_status reader_status_of(enum file_status status);
/* To the first block. */
void reader_position_begin(struct reader *reader);
/* Notes damage at `offset` and the seqs that are gone as far as can be told; returns READ_DAMAGED. */
enum read_status reader_damaged(struct reader *reader, int64_t offset);
/* Is `marker`, found at `offset`, a marker of this very place in this very file? */
bool reader_marker_is_here(const struct reader *reader, const struct block_marker *marker, int64_t offset);

/* The first marker in [from, to) that fits, or the last; `fits` gets the reader. READ_OK: *found; READ_END: none. */
typedef bool reader_fits(const void *reader, const struct block_marker *marker);
enum read_status reader_find_first(struct reader *reader, int64_t from, int64_t to, reader_fits *fits, struct block_marker *found,
                                   struct error *error);
enum read_status reader_find_last(struct reader *reader, int64_t from, int64_t to, reader_fits *fits, struct block_marker *found,
                                  struct error *error);

#endif
