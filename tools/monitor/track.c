#include "tools/monitor/track.h"

#include <inttypes.h>
#include <stdlib.h>

enum { HOLDS_KEPT = 200000, HOLDS_LEAST = 20, EVENTS_KEPT = 200000, EVENTS_LEAST = 10 };

static int share(int all, size_t types, int least, int most)
{
  size_t each = types > 0 ? (size_t)all / types : (size_t)most;
  return each < (size_t)least ? least : each > (size_t)most ? most : (int)each;
}

struct track_limits track_limits_of(size_t types)
{
  return (struct track_limits){.holds = share(HOLDS_KEPT, types, HOLDS_LEAST, TIMELINE_HOLDS_MAX),
                               .events = share(EVENTS_KEPT, types, EVENTS_LEAST, TRACK_EVENTS_MAX)};
}

struct track *track_new(const char *type)
{
  struct track *track = calloc(1, sizeof *track);
  if (track != NULL)
    snprintf(track->type, sizeof track->type, "%s", type);
  return track;
}

void track_free(struct track *track)
{
  if (track == NULL)
    return;
  for (int i = 0; i < track->event_count; i++)
    free(track->events[i].text);
  free(track->events);
  free(track->segments);
  timeline_free(&track->timeline);
  free(track);
}

/* ---- rates ---- */

/* A ledger that appears may count what was committed long ago. */
static void sample(struct track *track, int64_t now_ms, const struct ledger *before, const struct ledger *ledger)
{
  struct track_sample *samples = track->samples;
  int64_t seq = ledger->end.seq;
  int gone = 0, *count = &track->sample_count;
  bool appears = before != NULL && before->epoch == 0 && ledger->epoch > 0;
  if (appears || (*count > 0 && samples[*count - 1].seq > seq))
    *count = 0; /* another ledger */
  while (*count - gone > 1 && (*count - gone == TRACK_RATE_SAMPLES || now_ms - samples[gone + 1].at_ms >= TRACK_RATE_MS))
    gone++;
  *count -= gone;
  memmove(samples, samples + gone, (size_t)*count * sizeof *samples);
  samples[(*count)++] = (struct track_sample){.at_ms = now_ms, .seq = seq};
}

double track_rate_out(const struct track *track)
{
  if (track == NULL || track->sample_count < 2)
    return -1;
  const struct track_sample *first = &track->samples[0], *last = &track->samples[track->sample_count - 1];
  return last->at_ms > first->at_ms ? (double)(last->seq - first->seq) * 1000 / (double)(last->at_ms - first->at_ms) : -1;
}

double track_backlog_s(const struct track *track, const struct overview_row *row)
{
  double rate = track_rate_out(track);
  if (row->queued == 0)
    return 0;
  return row->queued > 0 && rate > 0 ? (double)row->queued / rate : -1;
}

void track_holder_text(const struct lock_holder *holder, char *text, size_t size)
{
  char host[48];
  text_shorten(lock_holder_show(holder).text, 20, 20, host);
  snprintf(text, size, "%s:%" PRId64, host, holder->pid);
}

/* ---- what happened ---- */

struct telling {
  struct track *track;
  int64_t wall_ms;
  int events_max;
};

__attribute__((format(printf, 3, 4))) static void tell(const struct telling *telling, enum track_level level, const char *format, ...)
{
  struct track *track = telling->track;
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0)
    return;
  while (track->event_count >= telling->events_max) {
    free(track->events[0].text);
    memmove(track->events, track->events + 1, (size_t)--track->event_count * sizeof *track->events);
  }
  if (track->event_count == track->event_room) {
    int room = track->event_room > 0 ? 2 * track->event_room : 4;
    struct track_event *events = realloc(track->events, (size_t)room * sizeof *events);
    if (events == NULL) {
      free(text);
      return;
    }
    track->events = events;
    track->event_room = room;
  }
  track->events[track->event_count++] = (struct track_event){.wall_ms = telling->wall_ms, .level = level, .text = text};
}

static double seconds(int64_t ms)
{
  return (double)ms / 1000;
}

static void tell_end(const struct telling *telling, const struct hold *hold)
{
  double held = seconds(hold->to_ms - hold->from_ms);
  if (hold->end == HOLD_TAKEN_OVER)
    tell(telling, TRACK_WARN, "the lock of %s ended %.1f s after its lease was over: the holder died, was frozen, or lost MongoDB",
         hold->holder, seconds(hold->to_ms - hold->expired_ms));
  else
    tell(telling, TRACK_INFO, "%s released the lock after %.1f s", hold->holder, held);
}

static void tell_edges(const struct telling *telling, unsigned edges)
{
  const struct timeline *timeline = &telling->track->timeline;
  const struct hold *last = timeline_last(timeline);
  if (edges & EDGE_BROKEN)
    tell(telling, TRACK_WARN,
         "the lock was gone before its lease was over, without a clean end: broken by a person, or the holder gave up");
  if (last == NULL)
    return;
  const struct hold *ended = !(edges & EDGE_TAKEN) ? last : timeline->count > 1 ? last - 1 : NULL;
  if ((edges & EDGE_ENDED) && ended != NULL)
    tell_end(telling, ended);
  if (edges & EDGE_TAKEN)
    tell(telling, TRACK_INFO, "%s holds the lock%s", last->holder,
         ended != NULL && ended != last && ended->end == HOLD_TAKEN_OVER ? ": it has taken over" : "");
  if (edges & EDGE_EXPIRED)
    tell(telling, TRACK_WARN,
         "the lease of %s is over, and its lock is still there: the holder died or is frozen, and no process takes over", last->holder);
  if (edges & EDGE_CONTINUED)
    tell(telling, TRACK_WARN, "%s has renewed a lease that was over: a clock has jumped", last->holder);
}

static bool same_text(const char *one, const char *other)
{
  return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static void tell_changes(const struct telling *telling, const struct overview_row *before, const struct overview_row *row)
{
  const char *problem = before != NULL ? before->problem : NULL;
  if (row->problem != NULL && !same_text(row->problem, problem))
    tell(telling, TRACK_ERROR, "%s", row->problem);
  if (row->problem == NULL && problem != NULL)
    tell(telling, TRACK_INFO, "ledger and lock can be read again");
  if (row->ledger.paused && !(before != NULL && before->ledger.paused))
    tell(telling, TRACK_WARN, "paused by %s: %s", row->ledger.pause.by, row->ledger.pause.reason);
  if (before != NULL && before->ledger.paused && !row->ledger.paused)
    tell(telling, TRACK_INFO, row->ledger.moved ? "not paused any more, but moved" : "resumed");
  if (row->ledger.moved && !(before != NULL && before->ledger.moved))
    tell(telling, TRACK_WARN, "moved to %s by %s", row->ledger.move.to, row->ledger.move.by);
  if (before != NULL && before->ledger.moved && !row->ledger.moved)
    tell(telling, TRACK_INFO, "it has come back");
  if (before != NULL && row->problem == NULL && row->ledger.epoch < before->ledger.epoch)
    tell(telling, TRACK_ERROR, "the epoch went back from %" PRId64 " to %" PRId64 ": the ledger was lost or replaced", before->ledger.epoch,
         row->ledger.epoch);
}

/* ---- segments ---- */

static void see_segment(const struct telling *telling, const struct overview_row *row)
{
  struct track *track = telling->track;
  const struct committed *end = &row->ledger.end;
  struct track_segment *last = track->segment_count > 0 ? &track->segments[track->segment_count - 1] : NULL;
  if (end->file[0] == '\0')
    return;
  if (last != NULL && strcmp(last->file, end->file) == 0) {
    last->length = end->length;
    return;
  }
  if (last != NULL)
    tell(telling, TRACK_INFO, "a new segment, %s, in epoch %" PRId64, end->file, row->ledger.epoch);
  if (track->segment_count == TRACK_SEGMENTS_MAX)
    memmove(track->segments, track->segments + 1, (size_t)--track->segment_count * sizeof *track->segments);
  struct track_segment *segments = realloc(track->segments, (size_t)(track->segment_count + 1) * sizeof *segments);
  if (segments == NULL)
    return;
  track->segments = segments;
  last = &segments[track->segment_count++];
  *last = (struct track_segment){.epoch = row->ledger.epoch, .since_ms = telling->wall_ms, .length = end->length};
  snprintf(last->file, sizeof last->file, "%s", end->file);
}

/* ---- all of it ---- */

void track_see(struct track *track, const struct overview_row *before, const struct overview_row *row, int64_t now_ms, int64_t wall_ms,
               const struct track_limits *limits)
{
  const struct telling telling = {.track = track, .wall_ms = wall_ms, .events_max = limits->events};
  char holder[TIMELINE_HOLDER_SIZE];
  track_holder_text(&row->lock.holder, holder, sizeof holder);
  sample(track, now_ms, before != NULL ? &before->ledger : NULL, &row->ledger);
  history_put(
      &track->history, now_ms,
      &(struct history_point){.queued = (float)row->queued, .rate_in = (float)row->rate_in, .rate_out = (float)track_rate_out(track)});
  tell_edges(&telling, timeline_see(&track->timeline,
                                    &(struct sighting){.now_ms = wall_ms,
                                                       .epoch = row->ledger.epoch,
                                                       .seq = row->ledger.end.seq,
                                                       .clean = row->ledger.clean,
                                                       .has_file = row->ledger.end.file[0] != '\0',
                                                       .held = row->held,
                                                       .held_ms = row->lock.held_ms,
                                                       .left_ms = row->lock.left_ms,
                                                       .owner = row->lock.owner,
                                                       .holder = holder},
                                    limits->holds));
  tell_changes(&telling, before, row);
  see_segment(&telling, row);
  track->seen_ms = now_ms;
}

void track_miss(struct track *track, int64_t wall_ms, const struct track_limits *limits)
{
  const struct telling telling = {.track = track, .wall_ms = wall_ms, .events_max = limits->events};
  tell_edges(&telling, timeline_see(&track->timeline, &(struct sighting){.now_ms = wall_ms}, limits->holds));
}
