/*
 * track: what the monitor remembers of one type beside the last reading: history, timeline, the segments that it saw, and what happened.
 *
 * Pure except for memory; one thread at a time. `now_ms` is the boot-time clock (overview_now_ms), `wall_ms` the server's clock.
 */
#ifndef PAWL_TOOLS_MONITOR_TRACK_H
#define PAWL_TOOLS_MONITOR_TRACK_H

#include "tools/monitor/history.h"
#include "tools/monitor/timeline.h"
#include "tools/overview/overview.h"

enum { TRACK_EVENTS_MAX = 50, TRACK_SEGMENTS_MAX = 20, TRACK_RATE_SAMPLES = 12, TRACK_RATE_MS = 10000 };

struct track_sample { /* of the ledger's seq */
  int64_t at_ms, seq;
};

enum track_level { TRACK_INFO, TRACK_WARN, TRACK_ERROR };

struct track_event {
  int64_t wall_ms;
  enum track_level level;
  char *text; /* UTF-8, one line */
};

struct track_segment {
  char file[FILE_NAME_SIZE];
  int64_t epoch, since_ms, length; /* since_ms: wall, when the monitor first saw it */
};

struct track {
  char type[TYPE_BYTES_MAX + 1];
  struct history history;
  struct timeline timeline;
  struct track_sample samples[TRACK_RATE_SAMPLES]; /* the oldest first */
  int sample_count;
  struct track_event *events; /* the oldest first */
  int event_count, event_room;
  struct track_segment *segments; /* the oldest first */
  int segment_count;
  int64_t seen_ms; /* the last reading that had the type */
};

/* How much is kept of each of so many types, so that ten thousand busy ones stay below some hundred megabytes. */
struct track_limits {
  int holds, events;
};
struct track_limits track_limits_of(size_t types);

/* NULL: no memory. */
MUST_CHECK struct track *track_new(const char *type);
void track_free(struct track *track);
/* Takes up a reading of the type. `before` is its row in the reading before; NULL: there was none. */
void track_see(struct track *track, const struct overview_row *before, const struct overview_row *row, int64_t now_ms, int64_t wall_ms,
               const struct track_limits *limits);
/* Takes up a reading that does not have the type any more. */
void track_miss(struct track *track, int64_t wall_ms, const struct track_limits *limits);
/*
 * Documents committed a second, over the last ten seconds: a block of many is one commit, so that a single second tells little. Negative:
 * not known. `track` may be NULL.
 */
double track_rate_out(const struct track *track);
/* Seconds until the queue is empty at that rate, if nothing comes. Negative: not known, or nothing is committed. */
double track_backlog_s(const struct track *track, const struct overview_row *row);
/* "w1:811" */
void track_holder_text(const struct lock_holder *holder, char *text, size_t size);

#endif
