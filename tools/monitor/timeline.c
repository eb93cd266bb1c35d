#include "tools/monitor/timeline.h"

#include <stdlib.h>

enum { BLIND_MS = 10000 }; /* without a reading for so long, it is not known when a hold ended */

const char *hold_end_name(enum hold_end end)
{
  static const char *const names[] = {
      [HOLD_OPEN] = NULL, [HOLD_RELEASED] = "released", [HOLD_TAKEN_OVER] = "taken over", [HOLD_BROKEN] = "broken"};
  return names[end];
}

const struct hold *timeline_last(const struct timeline *timeline)
{
  return timeline->count > 0 ? &timeline->holds[timeline->count - 1] : NULL;
}

static struct hold *open_hold(struct timeline *timeline)
{
  struct hold *last = timeline->count > 0 ? &timeline->holds[timeline->count - 1] : NULL;
  return last != NULL && last->end == HOLD_OPEN ? last : NULL;
}

static void forget(struct timeline *timeline, int64_t now_ms, int holds_max)
{
  int gone = 0;
  while (gone < timeline->count && (timeline->count - gone > holds_max ||
                                    (timeline->holds[gone].end != HOLD_OPEN && now_ms - timeline->holds[gone].to_ms > TIMELINE_MS)))
    gone++;
  if (gone == 0)
    return;
  timeline->count -= gone;
  memmove(timeline->holds, timeline->holds + gone, (size_t)timeline->count * sizeof *timeline->holds);
}

/* When the present holder took the lock. */
static int64_t taken_ms(const struct sighting *sighting)
{
  bool sane = sighting->held_ms >= 0 && sighting->held_ms < sighting->now_ms;
  return sane ? sighting->now_ms - sighting->held_ms : sighting->now_ms;
}

/*
 * How an open hold ended, first match:
 *
 *   its lease was seen to be over                           taken over: nobody else may remove such a lock
 *   another took the lock, after the lease as last seen     taken over
 *   anything else                                           released
 */
static enum hold_end end_of(const struct timeline *timeline, const struct hold *hold, const struct sighting *sighting)
{
  if (hold->expired_ms != 0)
    return HOLD_TAKEN_OVER;
  if (sighting->held && taken_ms(sighting) >= timeline->lease_end_ms)
    return HOLD_TAKEN_OVER;
  return HOLD_RELEASED;
}

/* True: it is free, and its end is that of this hold's epoch, and not a clean one. Who writes nothing leaves that as it was. */
static bool looks_broken(const struct hold *hold, const struct sighting *sighting)
{
  return !sighting->held && sighting->has_file && !sighting->clean && hold->epoch == sighting->epoch && sighting->seq > hold->seq;
}

static void hold_close(struct timeline *timeline, struct hold *hold, const struct sighting *sighting)
{
  bool blind = sighting->now_ms - timeline->seen_ms > BLIND_MS;
  hold->end = end_of(timeline, hold, sighting);
  if (hold->end == HOLD_TAKEN_OVER && hold->expired_ms == 0)
    hold->expired_ms = timeline->lease_end_ms;
  hold->to_ms = sighting->held ? taken_ms(sighting) : blind ? timeline->seen_ms : sighting->now_ms;
  if (hold->to_ms < hold->from_ms)
    hold->to_ms = hold->from_ms;
  if (hold->expired_ms > hold->to_ms)
    hold->expired_ms = hold->to_ms;
  timeline->unsure = hold->end == HOLD_RELEASED && looks_broken(hold, sighting);
}

/* The ledger is read before the locks, so the reading that first shows a lock as free may be too early to show the clean end. */
static unsigned hold_judge_end(struct timeline *timeline, const struct sighting *sighting)
{
  struct hold *hold = timeline->unsure && timeline->count > 0 ? &timeline->holds[timeline->count - 1] : NULL;
  timeline->unsure = false;
  if (hold == NULL || !looks_broken(hold, sighting))
    return 0;
  hold->end = HOLD_BROKEN;
  return EDGE_BROKEN;
}

static bool hold_begin(struct timeline *timeline, const struct sighting *sighting)
{
  if (timeline->count == timeline->room) {
    int room = timeline->room > 0 ? 2 * timeline->room : 4;
    struct hold *holds = realloc(timeline->holds, (size_t)room * sizeof *holds);
    if (holds == NULL)
      return false; /* the picture has a hole */
    timeline->holds = holds;
    timeline->room = room;
  }
  struct hold *hold = &timeline->holds[timeline->count++];
  *hold = (struct hold){.from_ms = taken_ms(sighting), .owner = sighting->owner, .seq = sighting->seq};
  snprintf(hold->holder, sizeof hold->holder, "%s", sighting->holder);
  return true;
}

/* The holder raises the epoch after it has the lock, so a reading may come in between. */
static void hold_number(struct timeline *timeline, struct hold *hold, const struct sighting *sighting)
{
  const struct hold *before = timeline->count > 1 ? hold - 1 : NULL;
  if (sighting->epoch > hold->epoch && (before == NULL || sighting->epoch > before->epoch))
    hold->epoch = sighting->epoch;
}

static unsigned hold_judge(struct timeline *timeline, struct hold *hold, const struct sighting *sighting)
{
  bool over = sighting->left_ms <= 0, was = hold->expired_ms != 0;
  timeline->lease_end_ms = sighting->now_ms + sighting->left_ms;
  if (over == was)
    return 0;
  hold->expired_ms = over ? timeline->lease_end_ms : 0;
  if (over && hold->expired_ms < hold->from_ms)
    hold->expired_ms = hold->from_ms;
  return over ? EDGE_EXPIRED : EDGE_CONTINUED;
}

unsigned timeline_see(struct timeline *timeline, const struct sighting *sighting, int holds_max)
{
  struct hold *hold = open_hold(timeline);
  unsigned edges = hold_judge_end(timeline, sighting);
  if (hold != NULL && !(sighting->held && memcmp(&hold->owner, &sighting->owner, sizeof hold->owner) == 0)) {
    hold_close(timeline, hold, sighting);
    hold = NULL;
    edges |= EDGE_ENDED;
  }
  if (hold == NULL && sighting->held && hold_begin(timeline, sighting)) {
    hold = open_hold(timeline);
    edges |= EDGE_TAKEN;
  }
  if (hold != NULL) {
    hold_number(timeline, hold, sighting);
    edges |= hold_judge(timeline, hold, sighting);
  }
  timeline->seen_ms = sighting->now_ms;
  forget(timeline, sighting->now_ms, holds_max);
  return edges;
}

void timeline_free(struct timeline *timeline)
{
  free(timeline->holds);
  *timeline = (struct timeline){0};
}
