#include "lockstore/acquire.h"
#include "lockstore/lease.h"
#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"

/* Shared by the real lockstore and its twin. */

enum {
  SELDOM_MS = 1000, /* a waiter that is woken, or far from the front, looks no more often than this by itself */
  SPREAD_MS = 200,  /* at the end of a lease those whose turn it is not come a little later, and not together */
  NEAR_MAX = 16,    /* so many are near the front */
  FASTEST_MS = 2,   /* the queue moves on by one: a hand-over, and a hold of no length */
};

/* The process, then this acquisition: so a wake-up finds its process, and a late one is not taken for a new one. */
void acquire_draw(struct lockstore *store, struct acquisition *mine)
{
  lockstore_random(store, mine->owner.bytes, sizeof mine->owner.bytes);
  memcpy(mine->owner.bytes, lockstore_address(store)->bytes, ADDRESS_BYTES);
  mine->drawn = true;
}

static int64_t call_ms(const struct acquisition *mine)
{
  int64_t third_ms = lease_renew_ms(mine->ttl_ms);
  return third_ms < CALL_MS ? third_ms : CALL_MS;
}

/* Half to all of it. */
static int64_t jitter(struct lockstore *store, int64_t ms)
{
  uint32_t random;
  lockstore_random(store, &random, sizeof random);
  return ms / 2 + (int64_t)(random % (uint64_t)(ms - ms / 2 + 1));
}

/* ---- looking ---- */

static void queue_note(struct acquisition *mine, const struct wait_queue *queue)
{
  enum { GONE_MAX = sizeof mine->gone / sizeof *mine->gone };
  mine->gone_count = 0;
  mine->document = queue->count > 0 || queue->has_last;
  for (int i = 0; i < queue->count; i++) {
    const struct waiter *waiter = &queue->waiters[i];
    bool me = memcmp(&waiter->owner, &mine->owner, sizeof mine->owner) == 0;
    if (!me && waiter_is_gone(queue, waiter, call_ms(mine)) && mine->gone_count < GONE_MAX)
      mine->gone[mine->gone_count++] = waiter->owner;
  }
}

/* The wake-up first: it is what somebody waits for. */
static void next_call(struct lockstore *store, const char *type, const struct wait_queue *queue, int next, int64_t epoch)
{
  const struct owner *owner = &queue->waiters[next].owner;
  struct error ignored; /* their timers see it */
  (void)wakeup_send(store, type, WAKEUP_LOCK, owner, epoch, &ignored);
  (void)wait_queue_call(store, type, owner, queue, &ignored);
}

/* A mark from before somebody else took the lock would let the others pass me over: I am here. */
static bool entry_is_old(const struct wait_queue *queue, const struct waiter *me, bool held)
{
  return queue->now_ms - me->at_ms > WAITER_RENEW_MS || !waiter_counts(queue, me) || (held && me->called_ms != 0);
}

/* True: it may have been released before I counted. */
static bool queue_enter(struct lockstore *store, const char *type, struct acquisition *mine, const struct wait_queue *queue,
                        const struct lock_holder *holder, bool held)
{
  struct error ignored;
  int at = wait_queue_find(queue, &mine->owner);
  if (at < 0) {
    struct waiter me = {.owner = mine->owner, .kind = mine->kind, .at_ms = queue->now_ms, .ttl_ms = WAITER_TTL_MS};
    enum outcome joined = wait_queue_join(store, type, &me, holder, held ? &mine->view : NULL, &ignored);
    mine->queued = mine->queued || joined != OUTCOME_NO;
    return joined != OUTCOME_NO || queue->count < WAITERS_MAX;
  }
  if (entry_is_old(queue, &queue->waiters[at], held))
    (void)wait_queue_renew(store, type, &mine->owner, queue->now_ms, &ignored);
  return !waiter_counts(queue, &queue->waiters[at]);
}

/* What a look saw: of a mutex, its one document. */
struct seen {
  struct wait_queue queue;
  int free;   /* slots that are free, or whose lease is over */
  bool held;  /* none of them is */
  bool own;   /* a late copy of an earlier take of mine is there: `slot` */
  int slot;   /* the one that I would take */
  bool there; /* it has a document, of */
  struct owner owner;
};

static bool is_mine(const struct acquisition *mine, const struct owner *owner)
{
  return memcmp(owner, &mine->owner, sizeof *owner) == 0;
}

static enum outcome see_mutex(struct lockstore *store, const char *type, struct acquisition *mine, struct seen *seen, struct error *error)
{
  enum outcome outcome = wait_queue_read(store, type, 0, &mine->view, &seen->queue, error);
  if (outcome != OUTCOME_YES && outcome != OUTCOME_NO)
    return outcome;
  seen->there = outcome == OUTCOME_YES;
  seen->slot = 0;
  seen->owner = mine->view.owner;
  seen->own = seen->there && is_mine(mine, &seen->owner);
  seen->held = seen->there && !seen->own && !mine->view.stealable;
  seen->free = !seen->held;
  return OUTCOME_YES;
}

/* Each of those who may try has a slot of its own, by their order, so that they do not try for the same one. */
static enum outcome see_slots(struct lockstore *store, const char *type, struct acquisition *mine, struct seen *seen, struct error *error)
{
  struct slot_view views[SLOTS_MAX];
  int slots = mine->slots;
  enum outcome outcome = wait_queue_read_slots(store, type, slots, views, &mine->view, &seen->queue, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  int ahead = wait_queue_ahead(&seen->queue, &mine->owner, call_ms(mine));
  seen->free = 0;
  seen->own = false;
  seen->slot = 0;
  for (int i = 0; i < slots; i++) {
    bool own = views[i].there && is_mine(mine, &views[i].owner);
    bool mine_to_take = own || ((!views[i].there || views[i].stealable) && seen->free++ == ahead && !seen->own);
    if (mine_to_take)
      seen->slot = i;
    seen->own = seen->own || own;
  }
  seen->there = views[seen->slot].there;
  seen->owner = views[seen->slot].owner;
  seen->held = seen->free == 0;
  return OUTCOME_YES;
}

static enum outcome see(struct lockstore *store, const char *type, struct acquisition *mine, struct seen *seen, struct error *error)
{
  return mine->slots > 1 ? see_slots(store, type, mine, seen, error) : see_mutex(store, type, mine, seen, error);
}

/*
 * Nobody wakes a waiter that is far from the front. It looks again when it should be well within the near ones, if the queue moves twice as
 * fast as it did so far; what it takes for slower it doubts, because one waiter that came late makes a fast queue look slow. *With a fixed
 * pause* a queue of short holds has passed it by then, and all others wait until its call is over.
 */
static int64_t far_pause(struct acquisition *mine, const struct wait_queue *queue, int place)
{
  int moved = mine->seen_place - place;
  int64_t passed_ms = queue->now_ms - mine->seen_ms;
  bool first = mine->seen_ms == 0 || passed_ms < 0;
  if (first) {
    mine->pace_ms = FASTEST_MS;
  } else if (moved > 0) {
    int64_t half_ms = passed_ms / moved / 2, least_ms = half_ms > FASTEST_MS ? half_ms : FASTEST_MS;
    mine->pace_ms = least_ms < 2 * mine->pace_ms ? least_ms : 2 * mine->pace_ms;
  }
  int64_t ms = (place - NEAR_MAX / 2) * mine->pace_ms;
  if (first || moved > 0) {
    mine->seen_place = place;
    mine->seen_ms = queue->now_ms;
  } else if (passed_ms > ms) {
    ms = passed_ms;
  }
  return ms < SELDOM_MS ? ms : SELDOM_MS;
}

/*
 * Until the next look: no later than the known end of the lease, or of the time of the one whose turn it is; and before my entry expires,
 * which a look renews.
 */
static int64_t pause(struct lockstore *store, struct acquisition *mine, const struct wait_queue *queue, int place, int next, bool held)
{
  int64_t ms = mine->listens && mine->retry_ms < SELDOM_MS ? SELDOM_MS : mine->retry_ms, most = INT64_MAX;
  mine->near = place < NEAR_MAX;
  if (!mine->near)
    ms = far_pause(mine, queue, place);
  if (mine->queued && ms > 2 * WAITER_RENEW_MS)
    ms = 2 * WAITER_RENEW_MS;
  ms = jitter(store, ms);
  if (held)
    most = mine->view.left_ms + 1;
  else if (next >= 0 && queue->waiters[next].called_ms != 0)
    most = queue->waiters[next].called_ms + call_ms(mine) - queue->now_ms + 1;
  if (most < INT64_MAX && next >= 0 && memcmp(&queue->waiters[next].owner, &mine->owner, sizeof mine->owner) != 0)
    most += jitter(store, SPREAD_MS);
  return ms < most ? ms : most > 0 ? most : 1;
}

enum outcome acquire_look(struct lockstore *store, const char *type, struct acquisition *mine, const struct lock_holder *holder,
                          struct error *error)
{
  enum { LOOKS_MAX = 3 }; /* the first; after joining; and once more, where several made the document at one moment */
  struct seen seen;
  if (!mine->drawn)
    acquire_draw(store, mine);
  for (int looks = 1;; looks++) {
    enum outcome outcome = see(store, type, mine, &seen, error);
    if (outcome != OUTCOME_YES)
      return outcome;
    const struct wait_queue *queue = &seen.queue;
    int at = wait_queue_find(queue, &mine->owner), next = wait_queue_next(queue, &mine->owner, call_ms(mine));
    mine->queued = at >= 0;
    mine->slot = seen.slot;
    mine->steal = seen.there && !seen.own && !seen.held;
    mine->stolen = seen.owner;
    queue_note(mine, queue);
    if (seen.own || wait_queue_ahead(queue, &mine->owner, call_ms(mine)) < seen.free)
      return OUTCOME_YES;
    if (!mine->tries && queue_enter(store, type, mine, queue, holder, seen.held) && looks < LOOKS_MAX)
      continue;
    int called = wait_queue_to_call(queue, &mine->owner, call_ms(mine), seen.free);
    if (called >= 0)
      next_call(store, type, queue, called, 0);
    mine->pause_ms = pause(store, mine, queue, at < 0 ? queue->count : at, next, seen.held);
    mine->gone_count = 0; /* a woken waiter takes it without another look, and they may be here by then */
    return OUTCOME_NO;
  }
}

/* ---- taking ---- */

/* Where others wait, they learn from `last` whose turn comes after mine. */
static enum outcome take(struct lockstore *store, const char *type, const struct acquisition *mine, const struct lock_holder *holder,
                         struct error *error)
{
  struct owner owners[1 + sizeof mine->gone / sizeof *mine->gone];
  struct departure departure = {.owners = owners, .kind = mine->kind};
  if (mine->queued)
    owners[departure.count++] = mine->owner;
  for (int i = 0; i < mine->gone_count; i++)
    owners[departure.count++] = mine->gone[i];
  if (departure.count == 0 && !mine->document)
    return lock_take(store, type, mine->slot, &mine->owner, mine->ttl_ms, holder, error);
  return wait_queue_take(store, type, mine->slot, &mine->owner, mine->ttl_ms, holder, &departure, error);
}

enum outcome acquire_take(struct lockstore *store, const char *type, struct acquisition *mine, const struct lock_holder *holder,
                          struct error *error)
{
  enum outcome outcome = mine->steal ? lock_steal(store, type, mine->slot, &mine->stolen, error) : OUTCOME_YES;
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
    return outcome;
  mine->steal = false;
  outcome = take(store, type, mine, holder, error);
  mine->pause_ms = jitter(store, mine->retry_ms < SELDOM_MS ? mine->retry_ms : SELDOM_MS); /* my entry may be gone: look soon */
  if (outcome == OUTCOME_YES) {
    mine->queued = false;
    mine->gone_count = 0;
  }
  return outcome;
}

/* ---- leaving ---- */

/* Calls the next one, if the lock is free. If no process waits, nothing is left of the queue. */
static void hand_on(struct lockstore *store, const char *type, const struct acquisition *mine, int64_t epoch, bool same_kind)
{
  struct acquisition other = *mine; /* of which nobody's document is my own: what I have left is free */
  struct error ignored;
  struct seen seen;
  memset(&other.owner, 0, sizeof other.owner);
  if (see(store, type, &other, &seen, &ignored) != OUTCOME_YES || seen.held || (mine->slots == 1 && seen.there))
    return;
  if (seen.queue.count == 0 && seen.queue.has_last)
    (void)wait_queue_remove_empty(store, type, &ignored);
  wait_queue_drop(&seen.queue, &mine->owner); /* a late copy of my own entry does not wait */
  int next = mine->slots > 1 ? wait_queue_to_call(&seen.queue, &mine->owner, call_ms(mine), seen.free)
                             : wait_queue_next(&seen.queue, &mine->owner, call_ms(mine)); /* also one that is called already */
  if (next >= 0 && (same_kind || seen.queue.waiters[next].kind != mine->kind))
    next_call(store, type, &seen.queue, next, epoch);
}

enum outcome acquire_leave(struct lockstore *store, const char *type, struct acquisition *mine, bool calls, struct error *error)
{
  enum outcome outcome = mine->queued ? wait_queue_leave(store, type, &mine->owner, error) : OUTCOME_YES;
  mine->queued = false;
  if (outcome == OUTCOME_YES)
    hand_on(store, type, mine, 0, calls);
  return outcome;
}

enum outcome acquire_release(struct lockstore *store, const char *type, const struct acquisition *mine, int64_t epoch, struct error *error)
{
  enum outcome outcome = lock_delete(store, type, mine->slot, &mine->owner, error);
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
    return outcome;
  hand_on(store, type, mine, outcome == OUTCOME_YES ? epoch : 0, true);
  enum outcome confirmed = lock_confirm(store, type, mine->slot, &mine->owner, error);
  return confirmed == OUTCOME_NO ? outcome : confirmed;
}

/* It is told before, too: else a renewal between the delete and the wake-up would find it gone for no reason. */
enum outcome acquire_break(struct lockstore *store, const char *type, const struct acquisition *theirs, const char *why,
                           struct error *error)
{
  struct error ignored;
  (void)wakeup_send_broken(store, type, &theirs->owner, why, &ignored);
  enum outcome outcome = acquire_release(store, type, theirs, 0, error);
  (void)wakeup_send_broken(store, type, &theirs->owner, why, &ignored);
  return outcome;
}
