/*
 * waiting: the types that were found and have no place yet, each since when; in turn. Pure; the loop's thread.
 *
 * A look may see a part of the types only (queue_types.h): what the others saw stays until a look covers it.
 */
#ifndef PAWL_WORKER_WAITING_H
#define PAWL_WORKER_WAITING_H

#include "worker/type_rules.h"

struct waiting_type {
  type_name type;
  int64_t since_ms; /* -1: it does not wait any more */
};

struct waiting {
  struct waiting_type *types, *spare; /* in the order of their names */
  size_t count, room, spare_room;
  size_t next; /* in that order, round and round */
  size_t left; /* that still wait */
};

typedef bool waiting_filter(const void *context, const char *type);
/*
 * After a look: `found`, sorted, and those that waited before and were not covered; but only what `wanted` lets pass. The first is the one
 * after `turn`. False: no memory, and all is as before.
 */
MUST_CHECK bool waiting_take(struct waiting *waiting, const struct type_list *found, const struct type_range *covered, const char *turn,
                             waiting_filter *wanted, const void *context, int64_t now_ms);
/* Since when the next one waits; -1: there is none. */
int64_t waiting_next_since(struct waiting *waiting);
/* The next one, which waits no more; NULL: there is none. */
const char *waiting_next(struct waiting *waiting);
bool waiting_has(const struct waiting *waiting, const char *type);
/* It waits no more, if it did. */
void waiting_drop(struct waiting *waiting, const char *type);
/* How many have waited for so long. */
size_t waiting_count(const struct waiting *waiting, int64_t waited_ms, int64_t now_ms);

#endif
