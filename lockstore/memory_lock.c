#include "lockstore/memory_private.h"

#include <assert.h>
#include <stdlib.h>

/* ---- mutex ---- */

static struct lock_document *lock_find(struct memory_server *server, const char *type, int slot)
{
  for (int i = 0; i < server->lock_room; i++)
    if (strcmp(server->locks[i].type, type) == 0 && server->locks[i].slot == slot)
      return &server->locks[i];
  return NULL;
}

static struct lock_document *lock_find_owned(struct memory_server *server, const char *type, int slot, const struct owner *owner)
{
  struct lock_document *lock = lock_find(server, type, slot);
  return lock && owner_equal(&lock->owner, owner) ? lock : NULL;
}

static struct lock_document *lock_make(struct memory_server *server, const char *type, int slot)
{
  int at = 0;
  while (at < server->lock_room && server->locks[at].type[0] != '\0')
    at++;
  server->locks = memory_grow(server->locks, &server->lock_room, at + 1, sizeof *server->locks);
  assert(strlen(type) <= TYPE_BYTES_MAX);
  strcpy(server->locks[at].type, type);
  server->locks[at].slot = slot;
  return &server->locks[at];
}

static bool lock_stealable(const struct memory_server *server, const struct lock_document *lock)
{
  return lock->expires_ms < server->now_ms || lock->expires_ms > server->now_ms + 2 * lock->ttl_ms;
}

static enum outcome take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                         const struct lock_holder *holder)
{
  struct memory_server *server = store->server;
  struct lock_document *lock = lock_find(server, type, slot);
  if (lock && !owner_equal(&lock->owner, owner))
    return OUTCOME_NO;
  if (!lock)
    lock = lock_make(server, type, slot);
  lock->acquired_ms = server->now_ms;
  lock->owner = *owner;
  lock->holder = *holder;
  lock->ttl_ms = ttl_ms;
  lock->expires_ms = server->now_ms + ttl_ms;
  return OUTCOME_YES;
}

enum outcome lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                       const struct lock_holder *holder, struct error *error)
{
  assert(ttl_ms > 0 && ttl_ms <= TTL_MS_MAX);
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost))
    outcome = take(store, type, slot, owner, ttl_ms, holder);
  return memory_call_end(store, lost, outcome, error);
}

static void view_of(const struct lockstore *store, const struct lock_document *lock, struct lock_view *view)
{
  const struct memory_server *server = store->server;
  *view = (struct lock_view){
      .owner = lock->owner,
      .holder = lock->holder,
      .ttl_ms = lock->ttl_ms,
      .held_ms = server->now_ms - lock->acquired_ms,
      .left_ms = lock->expires_ms - server->now_ms,
      .stealable = lock_stealable(server, lock),
  };
}

static struct queue_document *queue_find(struct memory_server *server, const char *type)
{
  for (int i = 0; i < server->queue_room; i++)
    if (strcmp(server->queues[i].type, type) == 0)
      return &server->queues[i];
  return NULL;
}

void memory_server_forget_queue(struct memory_server *server, const char *type)
{
  pthread_mutex_lock(&server->mutex);
  struct queue_document *waiting = queue_find(server, type);
  if (waiting)
    waiting->type[0] = '\0';
  pthread_mutex_unlock(&server->mutex);
}

enum outcome wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct wait_queue *queue,
                             struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  *view = (struct lock_view){0};
  queue->count = 0;
  queue->has_last = false;
  if (memory_call_begin(store, &lost) && !lost) {
    const struct lock_document *lock = lock_find(store->server, type, slot);
    const struct queue_document *waiting = queue_find(store->server, type);
    if (waiting)
      *queue = waiting->queue;
    if (lock) {
      view_of(store, lock, view);
      outcome = OUTCOME_YES;
    }
  }
  queue->now_ms = store->server->now_ms;
  return memory_call_end(store, lost, outcome, error);
}

enum outcome wait_queue_read_slots(struct lockstore *store, const char *type, int slots, struct slot_view *views, struct lock_view *view,
                                   struct wait_queue *queue, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  struct lock_view one = {0};
  *view = one;
  memset(views, 0, (size_t)slots * sizeof *views);
  for (int slot = 0; slot < slots; slot++) {
    outcome = wait_queue_read(store, type, slot, &one, queue, error);
    if (outcome != OUTCOME_YES && outcome != OUTCOME_NO)
      return outcome;
    bool there = outcome == OUTCOME_YES;
    views[slot] = (struct slot_view){.owner = one.owner, .left_ms = one.left_ms, .there = there, .stealable = there && one.stealable};
    if (there && !one.stealable && one.left_ms > 0 && (view->left_ms <= 0 || one.left_ms < view->left_ms))
      *view = one;
  }
  return OUTCOME_YES;
}

enum outcome lock_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct error *error)
{
  struct wait_queue queue;
  return wait_queue_read(store, type, slot, view, &queue, error);
}

static void last_set(struct wait_queue *queue, const struct owner *owner, enum lock_kind kind)
{
  queue->has_last = true;
  queue->last = *owner;
  queue->last_kind = kind;
}

static struct queue_document *queue_make(struct memory_server *server, const char *type)
{
  int at = 0;
  while (at < server->queue_room && server->queues[at].type[0] != '\0')
    at++;
  server->queues = memory_grow(server->queues, &server->queue_room, at + 1, sizeof *server->queues);
  server->queues[at].queue.count = 0;
  server->queues[at].queue.has_last = false;
  strcpy(server->queues[at].type, type);
  return &server->queues[at];
}

enum outcome wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                             const struct lock_view *held, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  (void)who;
  if (memory_call_begin(store, &lost)) {
    struct queue_document *waiting = queue_find(store->server, type);
    bool made = !waiting;
    if (made)
      waiting = queue_make(store->server, type);
    if (made && held)
      last_set(&waiting->queue, &held->owner, held->holder.kind);
    if (wait_queue_find(&waiting->queue, &me->owner) < 0 && waiting->queue.count < WAITERS_MAX) {
      waiting->queue.waiters[waiting->queue.count++] = *me;
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

static struct waiter *waiter_find(struct memory_server *server, const char *type, const struct owner *owner)
{
  struct queue_document *waiting = queue_find(server, type);
  int at = waiting ? wait_queue_find(&waiting->queue, owner) : -1;
  return at >= 0 ? &waiting->queue.waiters[at] : NULL;
}

enum outcome wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct waiter *waiter = waiter_find(store->server, type, me);
    if (waiter) {
      waiter->at_ms = now_ms;
      waiter->called_ms = 0;
    }
    outcome = waiter ? OUTCOME_YES : OUTCOME_NO;
  }
  return memory_call_end(store, lost, outcome, error);
}

static bool queue_remove_empty(struct lockstore *store, const char *type)
{
  struct queue_document *waiting = queue_find(store->server, type);
  if (!waiting || waiting->queue.count > 0)
    return false;
  waiting->type[0] = '\0';
  return true;
}

enum outcome wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost) && queue_remove_empty(store, type))
    outcome = OUTCOME_YES;
  return memory_call_end(store, lost, outcome, error);
}

enum outcome wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct queue_document *waiting = queue_find(store->server, type);
    outcome = waiting ? OUTCOME_YES : OUTCOME_NO;
    if (waiting)
      wait_queue_drop(&waiting->queue, me);
    (void)queue_remove_empty(store, type);
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                             const struct lock_holder *holder, const struct departure *departure, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost)) {
    struct queue_document *waiting = queue_find(store->server, type);
    outcome = take(store, type, slot, owner, ttl_ms, holder);
    for (int i = 0; outcome == OUTCOME_YES && waiting && i < departure->count; i++)
      wait_queue_drop(&waiting->queue, &departure->owners[i]);
    if (outcome == OUTCOME_YES && waiting)
      last_set(&waiting->queue, owner, departure->kind);
  }
  return memory_call_end(store, lost, outcome, error);
}

static bool last_is(const struct wait_queue *queue, const struct wait_queue *seen)
{
  return queue->has_last == seen->has_last && (!queue->has_last || owner_equal(&queue->last, &seen->last));
}

enum outcome wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter, const struct wait_queue *seen,
                             struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct waiter *called = waiter_find(store->server, type, waiter);
    if (called && last_is(&queue_find(store->server, type)->queue, seen)) {
      called->called_ms = store->server->now_ms;
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

static enum outcome delete_lock(struct lock_document *lock)
{
  if (!lock)
    return OUTCOME_NO;
  *lock = (struct lock_document){0};
  return OUTCOME_YES;
}

enum outcome lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost)) {
    struct lock_document *lock = lock_find_owned(store->server, type, slot, seen);
    if (lock && !lock_stealable(store->server, lock))
      lock = NULL;
    if (lock)
      memory_wakeup_make(store->server, type, WAKEUP_LOST, seen, 0);
    outcome = delete_lock(lock);
  }
  return memory_call_end(store, lost, outcome, error);
}

static bool queue_has(struct memory_server *server, const char *type, enum lock_kind kind)
{
  struct queue_document *waiting = queue_find(server, type);
  if (waiting)
    waiting->queue.now_ms = server->now_ms;
  return waiting && wait_queue_has(&waiting->queue, kind);
}

enum outcome lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error)
{
  bool lost, done = memory_call_begin(store, &lost);
  for (size_t i = 0; i < count; i++) {
    struct lock_renewal *renewal = &renewals[i];
    assert(renewal->ttl_ms > 0 && renewal->ttl_ms <= TTL_MS_MAX);
    struct lock_document *lock = done ? lock_find_owned(store->server, renewal->type, renewal->slot, &renewal->owner) : NULL;
    bool mine = lock && lock->expires_ms > store->server->now_ms;
    if (mine) {
      lock->ttl_ms = renewal->ttl_ms;
      lock->expires_ms = store->server->now_ms + renewal->ttl_ms;
    }
    renewal->outcome = lost ? OUTCOME_UNKNOWN : mine ? OUTCOME_YES : OUTCOME_NO;
    renewal->awaited =
        mine && !lost && queue_has(store->server, renewal->type, renewal->kind == LOCK_BY_WORKER ? LOCK_BY_TOOL : LOCK_BY_WORKER);
  }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

enum outcome lock_renew(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms, struct error *error)
{
  struct lock_renewal renewal = {.type = type, .slot = slot, .owner = *owner, .ttl_ms = ttl_ms};
  return lock_renew_all(store, &renewal, 1, error) == OUTCOME_YES ? renewal.outcome : OUTCOME_UNKNOWN;
}

enum outcome lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost))
    outcome = delete_lock(lock_find_owned(store->server, type, slot, owner));
  return memory_call_end(store, lost, outcome, error);
}

enum outcome lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  return lock_delete(store, type, slot, owner, error);
}

static int lock_compare(const void *a, const void *b)
{
  const struct lock_document *left = *(const struct lock_document *const *)a, *right = *(const struct lock_document *const *)b;
  int order = strcmp(left->type, right->type);
  return order ? order : (left->slot > right->slot) - (left->slot < right->slot);
}

enum outcome lock_list(struct lockstore *store, const char *type, lock_each *each, void *context, struct error *error)
{
  bool lost;
  size_t count = 0;
  if (memory_call_begin(store, &lost) && !lost) {
    const struct lock_document **sorted = calloc((size_t)store->server->lock_room + 1, sizeof *sorted);
    assert(sorted);
    for (int i = 0; i < store->server->lock_room; i++)
      if (store->server->locks[i].type[0] && (type == NULL || strcmp(store->server->locks[i].type, type) == 0))
        sorted[count++] = &store->server->locks[i];
    qsort(sorted, count, sizeof *sorted, lock_compare);
    for (size_t i = 0; i < count; i++) {
      struct lock_view view;
      view_of(store, sorted[i], &view);
      each(context, sorted[i]->type, sorted[i]->slot, &view, NULL);
    }
    free(sorted);
  }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

/* The twin does not keep who they are. */
enum outcome lock_list_waiters(struct lockstore *store, const char *type, waiter_each *each, void *context, struct error *error)
{
  bool lost;
  if (memory_call_begin(store, &lost) && !lost) {
    for (int i = 0; i < store->server->queue_room; i++) {
      struct queue_document *waiting = &store->server->queues[i];
      waiting->queue.now_ms = store->server->now_ms;
      bool wanted = waiting->type[0] != '\0' && (type == NULL || strcmp(type, waiting->type) == 0);
      for (int place = 0; wanted && place < waiting->queue.count; place++) {
        const struct lock_holder who = {.kind = waiting->queue.waiters[place].kind};
        each(context, waiting->type, place, &who, waiter_counts(&waiting->queue, &waiting->queue.waiters[place]));
      }
    }
  }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}
