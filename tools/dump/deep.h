/*
 * deep: looks inside the documents of a block, for --verify --deep (verify.h says for what). Pure but for what it says on
 * stderr: the first few findings of each sort.
 */
#ifndef PAWL_TOOLS_DUMP_DEEP_H
#define PAWL_TOOLS_DUMP_DEEP_H

#include "base.h"
#include "storage/format.h"

#include <stddef.h>

enum { DEEP_IDS = 1 << 20 }; /* entries of the table of _ids */

struct deep {
  const char *type; /* empty: not known, and not compared */
  struct deep_id {
    uint64_t hash; /* of an _id's type and bytes; 0: empty */
    int64_t seq;
  } * ids;            /* DEEP_IDS of them, each overwritten by the next one that falls on its place */
  int64_t malformed;  /* documents that are no well-formed BSON inside, or too deep */
  int64_t wrong_type; /* documents whose `type` is another */
  int64_t repeated;   /* _ids seen before */
  int64_t miscounted; /* blocks whose number of messages is not their marker's */
};

/* False: no memory. */
MUST_CHECK bool deep_init(struct deep *deep, const char *type);
void deep_deinit(struct deep *deep);
void deep_look(struct deep *deep, const struct block_marker *block, const uint8_t *documents, size_t bytes);

#endif
