/*
 * reader_parts: what reader.c (block after block) and reader_seek.c (searching and jumping) share. Private to these two.
 */
#ifndef PAWL_STORAGE_READER_PARTS_H
#define PAWL_STORAGE_READER_PARTS_H

#include "storage/reader.h"

enum read_status reader_status_of(enum file_status status);
/* Moves to the first block. */
void reader_position_begin(struct reader *reader);
/* Records damage at `offset` and the lost seqs, as far as they are known; returns READ_DAMAGED. */
enum read_status reader_damaged(struct reader *reader, int64_t offset);
/* True if `marker`, found at `offset`, names this offset and this file as its own. */
bool reader_marker_is_here(const struct reader *reader, const struct block_marker *marker, int64_t offset);

/* Finds the first (or last) marker in [from, to) that fits; `fits` gets the reader. READ_OK: it is in *found; READ_END: none. */
typedef bool reader_fits(const void *reader, const struct block_marker *marker);
enum read_status reader_find_first(struct reader *reader, int64_t from, int64_t to, reader_fits *fits, struct block_marker *found,
                                   struct error *error);
enum read_status reader_find_last(struct reader *reader, int64_t from, int64_t to, reader_fits *fits, struct block_marker *found,
                                  struct error *error);

#endif
