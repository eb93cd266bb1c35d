/*
 * pace: when to read the state of the database, and when to count what waits. However many clients ask, the server has no more to do.
 *
 *   reading   each interval; with no request for a minute, each fifth one. At most a tenth of the time
 *   counting  with a reading, each fifth interval; with no request for a minute, each thirtieth. At most a fiftieth of the time
 *   firsts    the first documents of types that are looked at: at most a tenth of the time, with a pause of 100 ms at least
 *   checking  whether workers take the database: with a reading, once in a minute
 *
 * Pure; one thread. All times are of one clock that does not go back, in ms.
 */
#ifndef PAWL_TOOLS_MONITOR_PACE_H
#define PAWL_TOOLS_MONITOR_PACE_H

#include "base.h"

enum {
  PACE_IDLE_MS = 60000,
  PACE_READ_SHARE = 10,
  PACE_COUNT_SHARE = 50,
  PACE_IDLE_READ = 5,
  PACE_COUNT = 5,
  PACE_IDLE_COUNT = 30,
  PACE_FIRST_MS = 100
};

struct pace {
  int64_t interval_ms;
  int64_t asked_ms; /* the last request */
  int64_t read_ms, read_took_ms;
  int64_t counted_ms, count_took_ms; /* counted_ms 0: never; the end of it */
  int64_t checked_ms;                /* 0: never */
};

/* It begins as if it had been asked. */
void pace_init(struct pace *pace, int64_t interval_ms, int64_t now_ms);
void pace_asked(struct pace *pace, int64_t now_ms);
/* A reading, which began at begin_ms, has ended. One that failed took no time: what it waited for was not the server's work. */
void pace_read_done(struct pace *pace, int64_t begin_ms, int64_t now_ms);
void pace_count_done(struct pace *pace, int64_t begin_ms, int64_t now_ms);
/* When to read next. */
int64_t pace_read_at(const struct pace *pace, int64_t now_ms);
bool pace_count_due(const struct pace *pace, int64_t now_ms);
/* After first documents whose reading took so long: how long to read no others. */
int64_t pace_first_pause(int64_t took_ms);
/* True once in a minute. */
bool pace_check_due(struct pace *pace, int64_t now_ms);

#endif
