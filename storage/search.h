/*
 * search: finds markers anywhere in a file, for a reader that cannot go from block to block.
 *
 * It only reads, and keeps no state; blocks on the disk; any thread. A marker counts only if it is whole, passes its own checks, and names
 * this offset and this file as its own. A marker of a newer version counts, too.
 */
#ifndef PAWL_STORAGE_SEARCH_H
#define PAWL_STORAGE_SEARCH_H

#include "storage/file.h"
#include "storage/format.h"

struct search {
  struct file *file;   /* borrowed */
  const uint8_t *uuid; /* in the file's header */
  int64_t from, to;    /* a marker must lie wholly in [from, to) */
  bool last;           /* find the last marker that fits; otherwise the first */
  bool (*fits)(const void *context, const struct block_marker *marker);
  const void *context;
};

enum search_status { SEARCH_FOUND, SEARCH_NONE, SEARCH_FAILED };

MUST_CHECK enum search_status search_marker(const struct search *search, struct block_marker *found, struct error *error);
/* True if `marker`, which lies at `offset`, names this offset and the file with this uuid as its own. */
bool search_marker_is_here(const struct block_marker *marker, const uint8_t *uuid, int64_t offset);

#endif
