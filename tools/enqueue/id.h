/*
 * id: the _ids that pawl-enqueue gives. They look like ObjectIds, and rise strictly: within a process, and from one call to the next on the
 * same machine, even if the clock is set back in between.
 *
 *   4 bytes  seconds since 1970, big-endian, as in any ObjectId   } together the tick: microseconds since 1970,
 *   20 bits  microseconds within the second                       } each given to one message only
 *   44 bits  random, the same for a whole process
 *
 * A driver's ObjectId has seconds, a number of the process, and a counter, so the ids of two processes in one second do not rise. Here a
 * process reserves a range of ticks for each batch, under flock, in a small file that all processes of a user share; it does not hold the
 * lock while it inserts the batch. So two processes at the same time get disjoint ranges that interleave, and the ids of each process rise.
 * Ticks may run ahead of the clock when more than a million messages a second are inserted, without harm. Between machines, and between
 * users, the clock decides the order, and the random bits keep the ids distinct.
 *
 * The file is $XDG_STATE_HOME/pawl/last-id, or without that variable ~/.local/state/pawl/last-id. So each user has one, and none is in the
 * directory of the workers' files, which a producer need not be able to write to. Only a file knows the ids of earlier calls after the
 * clock was set back: the queue does not, because workers empty it. The file is not synced: after a power cut together with a clock that
 * steps back, ids could fall.
 *
 * Threads: one at a time for each struct. Blocks for the lock, which others hold for microseconds.
 */
#ifndef PAWL_TOOLS_ENQUEUE_ID_H
#define PAWL_TOOLS_ENQUEUE_ID_H

#include "base.h"

#include <bson/bson.h>

struct id_source {
  int file;          /* -1: none; then ids rise only within this process */
  int64_t last_tick; /* the last that this process reserved */
  uint64_t identity; /* 44 bits */
};

/* False: no file can be used, `error` says why; the source works without a file. Call id_source_close in any case. */
MUST_CHECK bool id_source_open(struct id_source *source, struct error *error);
/* The same with the file at `path`. */
MUST_CHECK bool id_source_open_at(struct id_source *source, const char *path, struct error *error);
void id_source_close(struct id_source *source);

/*
 * Reserves `count` ticks from *first on, all above every tick reserved before, and not below the clock's now_wall_us. False: the file
 * failed, `error` says how; the range is valid, and the file is not used any more.
 */
MUST_CHECK bool id_source_reserve(struct id_source *source, int64_t now_wall_us, size_t count, int64_t *first, struct error *error);

/* The id of a tick; pure. */
void id_make(const struct id_source *source, int64_t tick, uint8_t id[static 12]);

#endif
