#include "lockstore/wait_queue.h"

/* The pure part: whose turn it is. Shared by the real lockstore and its twin. */

bool waiter_counts(const struct wait_queue *queue, const struct waiter *waiter)
{
  int64_t age_ms = queue->now_ms - waiter->at_ms;
  return age_ms <= waiter->ttl_ms && -age_ms <= waiter->ttl_ms;
}

/* A mark from a clock that was set back is an old one. */
static bool called_now(const struct wait_queue *queue, const struct waiter *waiter, int64_t call_ms)
{
  int64_t age_ms = queue->now_ms - waiter->called_ms;
  return waiter->called_ms != 0 && age_ms < call_ms && -age_ms < call_ms;
}

bool waiter_is_gone(const struct wait_queue *queue, const struct waiter *waiter, int64_t call_ms)
{
  return !waiter_counts(queue, waiter) || (waiter->called_ms != 0 && !called_now(queue, waiter, call_ms));
}

static bool is(const struct waiter *waiter, const struct owner *owner)
{
  return memcmp(&waiter->owner, owner, sizeof *owner) == 0;
}

int wait_queue_find(const struct wait_queue *queue, const struct owner *owner)
{
  for (int i = 0; i < queue->count; i++)
    if (is(&queue->waiters[i], owner))
      return i;
  return -1;
}

void wait_queue_drop(struct wait_queue *queue, const struct owner *owner)
{
  int at = wait_queue_find(queue, owner);
  if (at < 0)
    return;
  queue->count--;
  memmove(&queue->waiters[at], &queue->waiters[at + 1], (size_t)(queue->count - at) * sizeof queue->waiters[0]);
}

bool wait_queue_has(const struct wait_queue *queue, enum lock_kind kind)
{
  for (int i = 0; i < queue->count; i++)
    if (queue->waiters[i].kind == kind && waiter_counts(queue, &queue->waiters[i]))
      return true;
  return false;
}

int wait_queue_next(const struct wait_queue *queue, const struct owner *me, int64_t call_ms)
{
  int first = -1, other = -1;
  for (int i = 0; i < queue->count; i++) {
    const struct waiter *waiter = &queue->waiters[i];
    if (waiter_is_gone(queue, waiter, call_ms) && !is(waiter, me))
      continue;
    if (called_now(queue, waiter, call_ms))
      return i;
    if (first < 0)
      first = i;
    if (other < 0 && queue->has_last && waiter->kind != queue->last_kind)
      other = i;
  }
  return other >= 0 ? other : first;
}

int wait_queue_ahead(const struct wait_queue *queue, const struct owner *me, int64_t call_ms)
{
  int at = wait_queue_find(queue, me), ahead = 0;
  if (wait_queue_next(queue, me, call_ms) == at)
    return 0;
  for (int i = 0; i < queue->count; i++) {
    const struct waiter *waiter = &queue->waiters[i];
    bool before = at < 0 || i < at || called_now(queue, waiter, call_ms);
    ahead += i != at && before && !waiter_is_gone(queue, waiter, call_ms);
  }
  return ahead > 0 ? ahead : 1; /* by turns: one behind me */
}

int wait_queue_to_call(const struct wait_queue *queue, const struct owner *me, int64_t call_ms, int free)
{
  int next = wait_queue_next(queue, me, call_ms), called = 0;
  if (free <= 1 || next < 0)
    return free > 0 && next >= 0 && queue->waiters[next].called_ms == 0 ? next : -1;
  for (int i = 0; i < queue->count; i++)
    called += called_now(queue, &queue->waiters[i], call_ms);
  for (int i = 0; i < queue->count && called < free; i++)
    if (queue->waiters[i].called_ms == 0 && waiter_counts(queue, &queue->waiters[i]))
      return i;
  return -1;
}
