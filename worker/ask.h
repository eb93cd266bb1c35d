/*
 * ask: how many documents a pass asks for in one request. After a reply that did not come it asks for a quarter, down to one;
 * after a quick reply for twice as many, up to a batch. Pure; any thread.
 */
#ifndef PAWL_WORKER_ASK_H
#define PAWL_WORKER_ASK_H

#include <stdint.h>

struct ask {
  int64_t share; /* a batch's documents divided by this are asked for */
};

static inline void ask_init(struct ask *ask)
{
  ask->share = 1;
}

static inline int64_t ask_count(const struct ask *ask, int64_t batch_messages)
{
  int64_t count = batch_messages / ask->share;
  return count > 1 ? count : 1;
}

static inline void ask_less(struct ask *ask, int64_t batch_messages)
{
  enum { LESS = 4 };
  if (ask->share < batch_messages)
    ask->share *= LESS;
}

/* A quarter of the time-out is quick. */
static inline void ask_more(struct ask *ask, int64_t took_ms, int64_t timeout_ms)
{
  enum { QUICK_SHARE = 4, MORE = 2 };
  if (ask->share > 1 && took_ms * QUICK_SHARE <= timeout_ms)
    ask->share /= MORE;
}

#endif
