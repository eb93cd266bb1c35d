/*
 * ask: how many documents a pass asks for in one request. After a reply that did not come it asks for a quarter, down to one;
 * after a quick reply for twice as many, up to a batch; and for no more bytes than make a block, as far as that can be known. Pure;
 * any thread.
 */
#ifndef PAWL_WORKER_ASK_H
#define PAWL_WORKER_ASK_H

#include <stdint.h>

struct ask {
  int64_t share;          /* a batch's documents divided by this are asked for */
  int64_t document_bytes; /* of a document, on average, in the last reply that was read to its end; 0: there was none */
};

static inline void ask_init(struct ask *ask)
{
  ask->share = 1;
  ask->document_bytes = 0;
}

static inline int64_t ask_count(const struct ask *ask, int64_t batch_messages)
{
  int64_t count = batch_messages / ask->share;
  return count > 1 ? count : 1;
}

/*
 * Of `count`, so many as a batch has room for. A reply holds up to 16 MiB, and what is not in the first block of it waits in memory. A
 * sixteenth less: sizes differ, and what is left over makes a block of its own. The first reply says how large they are; it is smaller, so
 * that its block is written, and deleted from the queue, while the next one is read.
 */
static inline int64_t ask_fitting(const struct ask *ask, int64_t count, int64_t batch_bytes)
{
  enum { MARGIN_SHARE = 16, FIRST = 2500 };
  if (ask->document_bytes == 0)
    return count < FIRST ? count : FIRST;
  int64_t fitting = (batch_bytes - batch_bytes / MARGIN_SHARE) / ask->document_bytes;
  return fitting >= count ? count : fitting > 1 ? fitting : 1;
}

/* A reply was read to its end. */
static inline void ask_got(struct ask *ask, int64_t documents, int64_t bytes)
{
  if (documents > 0)
    ask->document_bytes = bytes / documents;
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
