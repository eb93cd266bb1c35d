/*
 * board: all that the monitor knows: the last reading, and a track of each type. The reader's thread writes it, the port's thread reads it.
 *
 * Each function that takes the board locks it itself, except those that say otherwise. None blocks for longer than a copy takes.
 */
#ifndef PAWL_TOOLS_MONITOR_BOARD_H
#define PAWL_TOOLS_MONITOR_BOARD_H

#include "tools/monitor/track.h"

#include <pthread.h>

enum { BOARD_TYPES_MAX = 20000 }; /* further ones are counted, and not shown (overview_cut) */

struct board {
  pthread_mutex_t mutex;
  struct overview overview; /* read_at_ms 0: nothing was read yet */
  struct track **tracks;    /* in order of type, by bytes */
  size_t track_count;
  bool answers;                  /* the last reading got an answer that can be used */
  struct error why;              /* unless answers */
  int64_t version;               /* rises with each reading, and each failure */
  int64_t read_took_ms;          /* how long the last good reading took */
  int64_t readings;              /* how many there were */
  int64_t counts;                /* and counts */
  char server[1024];             /* for people: the hosts of the URI */
  char database[64];             /* the name */
  size_t types_max;              /* BOARD_TYPES_MAX, or less */
  struct overview_rest left_out; /* what the last reading had beyond that; `unusable` as of the last count */
};

void board_init(struct board *board, const char *database, const char *server);
/* Takes the overview, and frees the one before. Only the reader's thread may read board->overview without the lock. */
void board_take(struct board *board, struct overview *overview, int64_t took_ms, bool counted);
/* The database gave no answer, or none that can be used. */
void board_fail(struct board *board, const struct error *why);
bool board_answers(struct board *board);
/* Whether the last reading had the type. */
bool board_has(struct board *board, const char *type);

void board_lock(struct board *board);
void board_unlock(struct board *board);

/* ---- with the lock held ---- */

/* NULL: none. */
const struct track *board_track(const struct board *board, const char *type);
/* The server's wall clock, now; before the first reading, this machine's. */
int64_t board_wall_ms(const struct board *board, int64_t now_ms);

#endif
