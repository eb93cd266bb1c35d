/*
 * id: the _ids that pawl-enqueue gives. They look like ObjectIds, and rise strictly: within a process, and from one
 * call to the next on the same machine, even if the clock is set back in between.
 *
 *   4 bytes  seconds since 1970, big-endian, as in any ObjectId   } together the tick: microseconds since 1970,
 *   20 bits  microseconds within the second                       } each given to one message only
 *   44 bits  random, the same for a whole process
 *
 * A driver's ObjectId has seconds, a number of the process, and a counter: two processes in one second do not rise. Here a range
 * of ticks is reserved for each batch, under flock, in a small file that all processes of a user share; the lock is not held
 * while the batch is inserted. So two processes at once get disjoint ranges that interleave, and each of them rises. Ticks
 * may run ahead of the clock when more than a million messages a second are put in; that harms nothing. Between machines,
 * and between users, order is the clock's, and the random bits keep the ids apart.
 *
 * The file is last-id in /var/lib/pawl if that can be written, else in $XDG_STATE_HOME/pawl, else in ~/.local/state/pawl. It is
 * not synced: a power cut together with a clock that steps back could make ids fall.
 *
 * Threads: one at a time for each struct. Blocks for the lock, which others hold for microseconds.
 */
#ifndef PAWL_TOOLS_ENQUEUE_ID_H
#define PAWL_TOOLS_ENQUEUE_ID_H

#include "base.h"

#include <bson/bson.h>

struct id_source {
  int file;          /* -1: none; only this process is known to rise */
  int64_t last_tick; /* that this process reserved */
  uint64_t identity; /* 44 bits */
};

/* False: no file can be used, `error` says why; the source works all the same, without a file. id_source_close follows in any case. */
MUST_CHECK bool id_source_open(struct id_source *source, struct error *error);
/* The same with this file. */
MUST_CHECK bool id_source_open_at(struct id_source *source, const char *path, struct error *error);
void id_source_close(struct id_source *source);

/*
 * Reserves `count` ticks from *first on, all above every tick reserved before, and not below the clock's now_wall_us.
 * False: the file failed, `error` says how; the range is good all the same, and the file is used no more.
 */
MUST_CHECK bool id_source_reserve(struct id_source *source, int64_t now_wall_us, size_t count, int64_t *first, struct error *error);

/* The id of a tick; pure. */
void id_make(const struct id_source *source, int64_t tick, uint8_t id[static 12]);

#endif
