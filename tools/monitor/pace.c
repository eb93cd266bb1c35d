#include "tools/monitor/pace.h"

enum { CHECK_MS = 60000 };

void pace_init(struct pace *pace, int64_t interval_ms, int64_t now_ms)
{
  *pace = (struct pace){.interval_ms = interval_ms, .asked_ms = now_ms, .read_ms = now_ms - interval_ms};
}

void pace_asked(struct pace *pace, int64_t now_ms)
{
  pace->asked_ms = now_ms;
}

static bool idle(const struct pace *pace, int64_t now_ms)
{
  return now_ms - pace->asked_ms > PACE_IDLE_MS;
}

void pace_read_done(struct pace *pace, int64_t begin_ms, int64_t now_ms)
{
  pace->read_ms = begin_ms;
  pace->read_took_ms = now_ms - begin_ms;
}

void pace_count_done(struct pace *pace, int64_t begin_ms, int64_t now_ms)
{
  pace->counted_ms = now_ms;
  pace->count_took_ms = now_ms - begin_ms;
}

int64_t pace_read_at(const struct pace *pace, int64_t now_ms)
{
  int64_t pause = pace->interval_ms * (idle(pace, now_ms) ? PACE_IDLE_READ : 1), least = pace->read_took_ms * PACE_READ_SHARE;
  return pace->read_ms + (pause > least ? pause : least);
}

bool pace_count_due(const struct pace *pace, int64_t now_ms)
{
  int64_t pause = pace->interval_ms * (idle(pace, now_ms) ? PACE_IDLE_COUNT : PACE_COUNT), least = pace->count_took_ms * PACE_COUNT_SHARE;
  return pace->counted_ms == 0 || now_ms - pace->counted_ms >= (pause > least ? pause : least);
}

int64_t pace_first_pause(int64_t took_ms)
{
  int64_t least = took_ms * PACE_READ_SHARE;
  return least > PACE_FIRST_MS ? least : PACE_FIRST_MS;
}

bool pace_check_due(struct pace *pace, int64_t now_ms)
{
  bool due = pace->checked_ms == 0 || now_ms - pace->checked_ms >= CHECK_MS;
  if (due)
    pace->checked_ms = now_ms;
  return due;
}
