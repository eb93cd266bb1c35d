#include "worker/latency.h"

#include <stddef.h>

/* A request and a sync: from the fastest disk to a time-out of a long lease. */
static const int64_t steps_ms[] = {1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000};
/* An ObjectId counts seconds, so no bound is below one. */
static const int64_t waits_ms[] = {1000, 2000, 5000, 10000, 30000, 60000, 300000, 900000, 3600000, 14400000, 86400000};

_Static_assert(sizeof steps_ms / sizeof *steps_ms <= LATENCY_BOUNDS_MAX, "too many bounds");
_Static_assert(sizeof waits_ms / sizeof *waits_ms <= LATENCY_BOUNDS_MAX, "too many bounds");

const int64_t *latency_bounds_ms(enum latency latency, int *count)
{
  bool waits = latency == LATENCY_DURABLE;
  *count = (int)(waits ? sizeof waits_ms / sizeof *waits_ms : sizeof steps_ms / sizeof *steps_ms);
  return waits ? waits_ms : steps_ms;
}

void latency_count(struct latencies *latencies, enum latency latency, int64_t us)
{
  int count, bucket = 0;
  const int64_t *bounds_ms = latency_bounds_ms(latency, &count);
  us = us < 0 ? 0 : us;
  while (bucket < count && us > bounds_ms[bucket] * 1000)
    bucket++;
  latencies->of[latency].counts[bucket]++;
  latencies->of[latency].sum_us += us;
}

void latency_add(struct latencies *to, const struct latencies *from)
{
  for (enum latency latency = 0; latency < LATENCY_COUNT; latency++) {
    for (int i = 0; i <= LATENCY_BOUNDS_MAX; i++)
      to->of[latency].counts[i] += from->of[latency].counts[i];
    to->of[latency].sum_us += from->of[latency].sum_us;
  }
}
