/*
 * search: markers in a file, wherever they lie, for a reader that cannot go from block to block.
 *
 * Pure but for the reads; any thread. Only whole markers whose own checks pass count, and only those that say that they belong to this
 * place of this file; one of a newer version counts too.
 */
#ifndef PAWL_STORAGE_SEARCH_H
#define PAWL_STORAGE_SEARCH_H

#include "storage/file.h"
#include "storage/format.h"

struct search {
  struct file *file;   /* borrowed */
  const uint8_t *uuid; /* of its header */
  int64_t from, to;    /* no marker before `from`, none that does not end before `to` */
  bool last;           /* the last that fits is wanted; otherwise the first */
  bool (*fits)(const void *context, const struct block_marker *marker);
  const void *context;
};

enum search_status { SEARCH_FOUND, SEARCH_NONE, SEARCH_FAILED };

MUST_CHECK enum search_status search_marker(const struct search *search, struct block_marker *found, struct error *error);
/* Does `marker`, which lies at `offset`, say that it is of this place in the file with this uuid? */
bool search_marker_is_here(const struct block_marker *marker, const uint8_t *uuid, int64_t offset);

#endif
