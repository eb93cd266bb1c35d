#include "worker/spread.h"

enum {
  AHEAD_MS = 1000, /* the clock of another primary */
  LEASE_MS_MAX = 3600000,
  LIVE_SHARE = 2, /* a row is written each third of a lease; one older than half of it is not counted, before the locks expire */
  WAIT_MS = 10,
  WAIT_MS_MAX = 500,
  ASKS_MS = 12000, /* a row that asks is written with each look, and these are ten seconds apart where they take long */
  FREE_MS = 15000, /* what is let go is for the process that asks; one that does not take it in that time, will not */
  GAP = 2,
  GIFT_SHARE = 16,
  TURN_MS = 1000,
  TURN_SHARE = 10,
};

bool spread_counts(const struct worker_row *row, uint64_t group)
{
  int64_t lease_ms = row->lease_ms < LEASE_MS_MAX ? row->lease_ms : LEASE_MS_MAX;
  return row->group == group && row->age_ms >= -AHEAD_MS && row->age_ms < lease_ms / LIVE_SHARE;
}

bool spread_asks(const struct worker_row *row, uint64_t group)
{
  return row->asks && row->age_ms < ASKS_MS && spread_counts(row, group);
}

static int64_t wait_ms(int64_t mine, int64_t free_ms, uint64_t group, const struct worker_row *rows, size_t count)
{
  int64_t least = mine;
  for (size_t i = 0; i < count; i++) {
    if (!spread_counts(&rows[i], group) || rows[i].held >= rows[i].max)
      continue;
    if (free_ms < FREE_MS && spread_asks(&rows[i], group) && mine - rows[i].held >= GAP)
      return FREE_MS;
    if (rows[i].held < least)
      least = rows[i].held;
  }
  int64_t ms = WAIT_MS * (mine - least - 1);
  return ms < 0 ? 0 : ms < WAIT_MS_MAX ? ms : WAIT_MS_MAX;
}

/* Not from the look: these come seldom on a slow link, and often where wake-ups do. */
int64_t spread_take_ms(const struct spread_take *take, int64_t now_ms, uint64_t group, const struct worker_row *rows, size_t count)
{
  int64_t from_ms = take->taken_ms > take->free_since_ms ? take->taken_ms : take->free_since_ms;
  return from_ms + wait_ms(take->mine, now_ms - take->free_since_ms, group, rows, count);
}

const struct worker_row *spread_ask(int64_t mine, int64_t max, uint64_t group, const struct worker_row *rows, size_t count)
{
  const struct worker_row *richest = NULL;
  for (size_t i = 0; i < count; i++)
    if (spread_counts(&rows[i], group) && rows[i].held > rows[i].stopped && (richest == NULL || rows[i].held > richest->held))
      richest = &rows[i];
  return richest != NULL && mine < max && richest->held - mine >= GAP ? richest : NULL;
}

bool spread_gives(int64_t mine, int64_t asker, int64_t given)
{
  int64_t most = mine / GIFT_SHARE > 1 ? mine / GIFT_SHARE : 1;
  return mine - asker >= GAP && given < most;
}

bool spread_makes_room(int64_t held_ms, int64_t lease_ms)
{
  int64_t turn_ms = lease_ms / TURN_SHARE > TURN_MS ? lease_ms / TURN_SHARE : TURN_MS;
  return held_ms >= turn_ms;
}
