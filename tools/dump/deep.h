/*
 * deep: checks the inside of the documents of a block, for --verify --deep (verify.h lists the checks). Pure except for stderr, where it
 * prints the first few findings of each kind.
 */
#ifndef PAWL_TOOLS_DUMP_DEEP_H
#define PAWL_TOOLS_DUMP_DEEP_H

#include "base.h"
#include "storage/format.h"

#include <stddef.h>

enum { DEEP_IDS = 1 << 20 }; /* entries of the table of _ids */

struct deep {
  const char *type; /* empty: not known, so `type` is not compared */
  struct deep_id {
    uint64_t hash; /* of an _id's type and bytes; 0: empty */
    int64_t seq;
  } * ids;            /* DEEP_IDS entries; each is overwritten by the next _id with the same index */
  int64_t malformed;  /* documents that are not well-formed BSON inside, or nested too deep */
  int64_t wrong_type; /* documents with another `type` */
  int64_t repeated;   /* _ids seen before */
  int64_t miscounted; /* blocks whose number of messages differs from their marker */
};

/* False: no memory. */
MUST_CHECK bool deep_init(struct deep *deep, const char *type);
void deep_deinit(struct deep *deep);
void deep_check(struct deep *deep, const struct block_marker *block, const uint8_t *documents, size_t bytes);

#endif
