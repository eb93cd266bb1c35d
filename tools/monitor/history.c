#include "tools/monitor/history.h"

static const struct history_point unknown = {-1, -1, -1};

static void merge(float *value, float newer)
{
  if (newer >= 0)
    *value = newer;
}

void history_put(struct history *history, int64_t now_ms, const struct history_point *point)
{
  int64_t step = now_ms / HISTORY_STEP_MS;
  if (history->count == 0 || step - history->newest >= HISTORY_POINTS) {
    history->count = 0;
    history->newest = step - 1;
  }
  while (history->newest < step) {
    history->points[++history->newest % HISTORY_POINTS] = unknown;
    history->count += history->count < HISTORY_POINTS;
  }
  struct history_point *last = &history->points[history->newest % HISTORY_POINTS];
  merge(&last->queued, point->queued);
  merge(&last->rate_in, point->rate_in);
  merge(&last->rate_out, point->rate_out);
}

int history_get(const struct history *history, int64_t now_ms, struct history_point points[HISTORY_POINTS])
{
  int64_t step = now_ms / HISTORY_STEP_MS, first = history->newest - history->count + 1;
  int count = 0;
  if (history->count == 0)
    return 0;
  if (step < history->newest)
    step = history->newest;
  if (first <= step - HISTORY_POINTS)
    first = step - HISTORY_POINTS + 1;
  for (int64_t at = first; at <= step; at++)
    points[count++] = at <= history->newest ? history->points[at % HISTORY_POINTS] : unknown;
  return count;
}
