/*
 * spread: how worker processes that find the same types share them evenly, without a coordinator. Pure. All of it is advice: who
 * writes a type is decided by its lock and its epoch.
 *
 * Each process writes a row (lockstore/workers.h) with how many types it holds, and reads those of the others with each look, which
 * comes after 1 to 10 s.
 *
 *   taking      a process that holds more than another one with room waits before it takes one more; while one with two fewer asks,
 *               it takes only those that have been free for some time
 *   asking      a process that has at least two fewer than the richest asks that one, in its row
 *   giving      the process that is asked counts its own types now, and releases a few a second as long as it has two more
 *   turns       where there is no room for all types, the one held for longest makes room
 *
 * Each gift from a process with two more lowers the sum of the squares of what they hold, so it comes to an end. With a difference
 * of one a type would go to and fro for ever.
 */
#ifndef PAWL_WORKER_SPREAD_H
#define PAWL_WORKER_SPREAD_H

#include "lockstore/workers.h"

/* Whether the process counts: it lives, by its row, and finds the same types. */
bool spread_counts(const struct worker_row *row, uint64_t group);
/* Whether it asks for types now. */
bool spread_asks(const struct worker_row *row, uint64_t group);
struct spread_take {
  int64_t mine;          /* the types that the process holds */
  int64_t taken_ms;      /* when it took the last one */
  int64_t free_since_ms; /* when it first saw this one free */
};
/* When it may take one more, by what is known now. */
int64_t spread_take_ms(const struct spread_take *take, int64_t now_ms, uint64_t group, const struct worker_row *rows, size_t count);
/* Whom a process that holds `mine` of at most `max` asks for a type; NULL: none. One whose types have all
 * stopped has none to give. */
const struct worker_row *spread_ask(int64_t mine, int64_t max, uint64_t group, const struct worker_row *rows, size_t count);
/* Whether a process that holds `mine` gives one to an asker that holds `asker`, after `given` in the same second. */
bool spread_gives(int64_t mine, int64_t asker, int64_t given);
/* Whether a type that was held for so long makes room for one that has waited for SPREAD_WAITED_MS. */
enum { SPREAD_WAITED_MS = 1000 };
bool spread_makes_room(int64_t held_ms, int64_t lease_ms);

#endif
