#include "lockstore/lockstore_memory.h"
#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

enum { TTL_MS_MAX = 3600000, MEMORY_WAKEUPS_MAX = 64 };

struct queue_document {
  char type[TYPE_BYTES_MAX + 1]; /* empty: no document */
  struct wait_queue queue;
};

struct lock_document {
  char type[TYPE_BYTES_MAX + 1]; /* empty: no document */
  int slot;
  struct owner owner;
  struct lock_holder holder;
  int64_t expires_ms, ttl_ms;
};

struct wakeup_document {
  struct wakeup wakeup;
  bool to_all;
};

struct ledger_document {
  char type[TYPE_BYTES_MAX + 1];
  struct ledger ledger;
};

struct memory_server {
  pthread_mutex_t mutex;
  int64_t now_ms;
  bool away;
  struct lock_document locks[MEMORY_LOCKS_MAX];
  struct queue_document queues[MEMORY_QUEUES_MAX];
  struct ledger_document ledgers[MEMORY_LEDGERS_MAX]; /* in order of type */
  int ledger_count;
  struct wakeup_document wakeups[MEMORY_WAKEUPS_MAX]; /* a ring, like a capped collection */
  int64_t wakeup_count;                               /* ever sent */
  int64_t store_count;                                /* ever opened */
};

struct lockstore {
  struct memory_server *server;
  struct address address;
  uint64_t random;
  bool away;
  int failing; /* calls that are still to answer UNKNOWN */
  bool failing_applied;
};

/* ---- server ---- */

struct memory_server *memory_server_new(void)
{
  struct memory_server *server = calloc(1, sizeof *server);
  assert(server);
  pthread_mutex_init(&server->mutex, NULL);
  server->now_ms = 1700000000000;
  return server;
}

void memory_server_free(struct memory_server *server)
{
  pthread_mutex_destroy(&server->mutex);
  free(server);
}

void memory_server_set_now(struct memory_server *server, int64_t now_ms)
{
  pthread_mutex_lock(&server->mutex);
  server->now_ms = now_ms;
  pthread_mutex_unlock(&server->mutex);
}

int64_t memory_server_now(struct memory_server *server)
{
  pthread_mutex_lock(&server->mutex);
  int64_t now_ms = server->now_ms;
  pthread_mutex_unlock(&server->mutex);
  return now_ms;
}

void memory_server_set_away(struct memory_server *server, bool away)
{
  pthread_mutex_lock(&server->mutex);
  server->away = away;
  pthread_mutex_unlock(&server->mutex);
}

static struct ledger_document *ledger_find(struct memory_server *server, const char *type)
{
  for (int i = 0; i < server->ledger_count; i++)
    if (strcmp(server->ledgers[i].type, type) == 0)
      return &server->ledgers[i];
  return NULL;
}

static struct ledger_document *ledger_make(struct memory_server *server, const char *type)
{
  assert(server->ledger_count < MEMORY_LEDGERS_MAX && strlen(type) <= TYPE_BYTES_MAX);
  int at = server->ledger_count++;
  for (; at > 0 && strcmp(server->ledgers[at - 1].type, type) > 0; at--)
    server->ledgers[at] = server->ledgers[at - 1];
  server->ledgers[at] = (struct ledger_document){0};
  strcpy(server->ledgers[at].type, type);
  return &server->ledgers[at];
}

void memory_server_put_ledger(struct memory_server *server, const char *type, const struct ledger *ledger)
{
  pthread_mutex_lock(&server->mutex);
  struct ledger_document *document = ledger_find(server, type);
  if (!document)
    document = ledger_make(server, type);
  document->ledger = *ledger;
  pthread_mutex_unlock(&server->mutex);
}

void memory_server_copy(struct memory_server *to, const struct memory_server *from)
{
  pthread_mutex_lock(&to->mutex);
  memcpy(to->locks, from->locks, sizeof to->locks);
  memcpy(to->queues, from->queues, sizeof to->queues);
  memcpy(to->ledgers, from->ledgers, sizeof to->ledgers);
  to->ledger_count = from->ledger_count;
  pthread_mutex_unlock(&to->mutex);
}

/* ---- lockstore, and what every call does first and last ---- */

struct lockstore *lockstore_memory_open(struct memory_server *server)
{
  struct lockstore *store = calloc(1, sizeof *store);
  assert(store);
  store->server = server;
  pthread_mutex_lock(&server->mutex);
  int64_t number = ++server->store_count;
  pthread_mutex_unlock(&server->mutex);
  memcpy(store->address.bytes, &number, sizeof number);
  store->random = (uint64_t)number;
  return store;
}

void lockstore_close(struct lockstore *store)
{
  free(store);
}

const struct address *lockstore_address(const struct lockstore *store)
{
  return &store->address;
}

/* SplitMix64 (Steele, Lea and Flood, 2014): always the same after lockstore_memory_open. */
void lockstore_random(struct lockstore *store, void *bytes, size_t size)
{
  for (size_t done = 0; done < size;) {
    uint64_t word = store->random += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    word ^= word >> 31;
    size_t some = size - done < sizeof word ? size - done : sizeof word;
    memcpy((uint8_t *)bytes + done, &word, some);
    done += some;
  }
}

void lockstore_memory_set_away(struct lockstore *store, bool away)
{
  pthread_mutex_lock(&store->server->mutex);
  store->away = away;
  pthread_mutex_unlock(&store->server->mutex);
}

void lockstore_memory_fail(struct lockstore *store, int calls, bool applied)
{
  pthread_mutex_lock(&store->server->mutex);
  store->failing = calls;
  store->failing_applied = applied;
  pthread_mutex_unlock(&store->server->mutex);
}

/* Whether the call is to be done; *lost: whatever it answers, the caller hears UNKNOWN. The server is locked until call_end. */
static bool call_begin(struct lockstore *store, bool *lost)
{
  pthread_mutex_lock(&store->server->mutex);
  *lost = store->away || store->server->away;
  if (*lost)
    return false;
  *lost = store->failing > 0;
  store->failing -= *lost;
  return !*lost || store->failing_applied;
}

static enum outcome call_end(struct lockstore *store, bool lost, enum outcome outcome, struct error *error)
{
  pthread_mutex_unlock(&store->server->mutex);
  if (!lost)
    return outcome;
  error_set(error, "no answer from the server in memory");
  return OUTCOME_UNKNOWN;
}

enum outcome lockstore_prepare(struct lockstore *store, struct error *error)
{
  bool lost;
  (void)call_begin(store, &lost);
  return call_end(store, lost, OUTCOME_YES, error);
}

bool lockstore_is_known(struct lockstore *store)
{
  (void)store;
  return true;
}

/* ---- wake-ups ---- */

static void wakeup_make(struct memory_server *server, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch)
{
  struct wakeup_document *document = &server->wakeups[server->wakeup_count++ % MEMORY_WAKEUPS_MAX];
  *document = (struct wakeup_document){.wakeup = {.about = about, .epoch = epoch}, .to_all = to == NULL};
  assert(strlen(type) <= TYPE_BYTES_MAX);
  strcpy(document->wakeup.type, type);
  if (to)
    document->wakeup.owner = *to;
}

enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                         struct error *error)
{
  bool lost;
  if (call_begin(store, &lost))
    wakeup_make(store->server, type, about, to, epoch);
  return call_end(store, lost, OUTCOME_YES, error);
}

struct watcher {
  struct lockstore *store;
  const char *const *types;
  size_t type_count;
  int64_t position; /* of the next one */
};

struct watcher *watcher_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types, size_t type_count,
                             struct error *error)
{
  struct watcher *watcher = calloc(1, sizeof *watcher);
  (void)options, (void)error;
  assert(watcher);
  *watcher = (struct watcher){.store = store, .types = types, .type_count = type_count, .position = INT64_MAX};
  return watcher;
}

void watcher_close(struct watcher *watcher)
{
  free(watcher);
}

enum outcome watcher_begin(struct watcher *watcher, struct error *error)
{
  bool lost;
  if (call_begin(watcher->store, &lost))
    watcher->position = watcher->store->server->wakeup_count;
  return call_end(watcher->store, lost, OUTCOME_YES, error);
}

static bool wakeup_is_for(const struct watcher *watcher, const struct wakeup_document *document)
{
  if (!document->to_all)
    return memcmp(document->wakeup.owner.bytes, watcher->store->address.bytes, ADDRESS_BYTES) == 0;
  for (size_t i = 0; i < watcher->type_count; i++)
    if (strcmp(watcher->types[i], document->wakeup.type) == 0)
      return true;
  return false;
}

enum outcome watcher_next(struct watcher *watcher, int64_t await_ms, struct wakeup *wakeup, struct error *error)
{
  struct memory_server *server = watcher->store->server;
  enum outcome outcome = OUTCOME_NO;
  bool lost;
  (void)await_ms;
  if (call_begin(watcher->store, &lost) && !lost) {
    assert(watcher->position != INT64_MAX && server->wakeup_count - watcher->position <= MEMORY_WAKEUPS_MAX);
    while (outcome == OUTCOME_NO && watcher->position < server->wakeup_count) {
      const struct wakeup_document *document = &server->wakeups[watcher->position++ % MEMORY_WAKEUPS_MAX];
      if (!wakeup_is_for(watcher, document))
        continue;
      *wakeup = document->wakeup;
      outcome = OUTCOME_YES;
    }
  }
  return call_end(watcher->store, lost, outcome, error);
}

/* ---- mutex ---- */

static bool owner_equal(const struct owner *a, const struct owner *b)
{
  return memcmp(a->bytes, b->bytes, OWNER_BYTES) == 0;
}

static struct lock_document *lock_find(struct memory_server *server, const char *type, int slot)
{
  for (int i = 0; i < MEMORY_LOCKS_MAX; i++)
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
  for (int i = 0; i < MEMORY_LOCKS_MAX; i++)
    if (server->locks[i].type[0] == '\0') {
      assert(strlen(type) <= TYPE_BYTES_MAX);
      strcpy(server->locks[i].type, type);
      server->locks[i].slot = slot;
      return &server->locks[i];
    }
  abort();
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
  if (call_begin(store, &lost))
    outcome = take(store, type, slot, owner, ttl_ms, holder);
  return call_end(store, lost, outcome, error);
}

static void view_of(const struct lockstore *store, const struct lock_document *lock, struct lock_view *view)
{
  const struct memory_server *server = store->server;
  *view = (struct lock_view){
      .owner = lock->owner,
      .holder = lock->holder,
      .ttl_ms = lock->ttl_ms,
      .left_ms = lock->expires_ms - server->now_ms,
      .stealable = lock_stealable(server, lock),
  };
}

static struct queue_document *queue_find(struct memory_server *server, const char *type)
{
  for (int i = 0; i < MEMORY_QUEUES_MAX; i++)
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
  if (call_begin(store, &lost) && !lost) {
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
  return call_end(store, lost, outcome, error);
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
  for (int i = 0; i < MEMORY_QUEUES_MAX; i++)
    if (server->queues[i].type[0] == '\0') {
      server->queues[i].queue.count = 0;
      server->queues[i].queue.has_last = false;
      strcpy(server->queues[i].type, type);
      return &server->queues[i];
    }
  abort();
}

enum outcome wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                             const struct lock_view *held, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  (void)who;
  if (call_begin(store, &lost)) {
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
  return call_end(store, lost, outcome, error);
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
  if (call_begin(store, &lost)) {
    struct waiter *waiter = waiter_find(store->server, type, me);
    if (waiter) {
      waiter->at_ms = now_ms;
      waiter->called_ms = 0;
    }
    outcome = waiter ? OUTCOME_YES : OUTCOME_NO;
  }
  return call_end(store, lost, outcome, error);
}

static void queue_drop(struct wait_queue *queue, const struct owner *owner)
{
  int at = wait_queue_find(queue, owner);
  if (at < 0)
    return;
  queue->count--;
  memmove(&queue->waiters[at], &queue->waiters[at + 1], (size_t)(queue->count - at) * sizeof queue->waiters[0]);
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
  if (call_begin(store, &lost) && queue_remove_empty(store, type))
    outcome = OUTCOME_YES;
  return call_end(store, lost, outcome, error);
}

enum outcome wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (call_begin(store, &lost)) {
    struct queue_document *waiting = queue_find(store->server, type);
    outcome = waiting ? OUTCOME_YES : OUTCOME_NO;
    if (waiting)
      queue_drop(&waiting->queue, me);
    (void)queue_remove_empty(store, type);
  }
  return call_end(store, lost, outcome, error);
}

enum outcome wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                             const struct lock_holder *holder, const struct departure *departure, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (call_begin(store, &lost)) {
    struct queue_document *waiting = queue_find(store->server, type);
    outcome = take(store, type, slot, owner, ttl_ms, holder);
    for (int i = 0; outcome == OUTCOME_YES && waiting && i < departure->count; i++)
      queue_drop(&waiting->queue, &departure->owners[i]);
    if (outcome == OUTCOME_YES && waiting)
      last_set(&waiting->queue, owner, departure->kind);
  }
  return call_end(store, lost, outcome, error);
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
  if (call_begin(store, &lost)) {
    struct waiter *called = waiter_find(store->server, type, waiter);
    if (called && last_is(&queue_find(store->server, type)->queue, seen)) {
      called->called_ms = store->server->now_ms;
      outcome = OUTCOME_YES;
    }
  }
  return call_end(store, lost, outcome, error);
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
  if (call_begin(store, &lost)) {
    struct lock_document *lock = lock_find_owned(store->server, type, slot, seen);
    if (lock && !lock_stealable(store->server, lock))
      lock = NULL;
    if (lock)
      wakeup_make(store->server, type, WAKEUP_LOST, seen, 0);
    outcome = delete_lock(lock);
  }
  return call_end(store, lost, outcome, error);
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
  bool lost, done = call_begin(store, &lost);
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
  return call_end(store, lost, OUTCOME_YES, error);
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
  if (call_begin(store, &lost))
    outcome = delete_lock(lock_find_owned(store->server, type, slot, owner));
  return call_end(store, lost, outcome, error);
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

enum outcome lock_list(struct lockstore *store, lock_each *each, void *context, struct error *error)
{
  bool lost;
  const struct lock_document *sorted[MEMORY_LOCKS_MAX];
  size_t count = 0;
  if (call_begin(store, &lost) && !lost) {
    for (int i = 0; i < MEMORY_LOCKS_MAX; i++)
      if (store->server->locks[i].type[0])
        sorted[count++] = &store->server->locks[i];
    qsort(sorted, count, sizeof *sorted, lock_compare);
    for (size_t i = 0; i < count; i++) {
      struct lock_view view;
      view_of(store, sorted[i], &view);
      each(context, sorted[i]->type, sorted[i]->slot, &view, NULL);
    }
  }
  return call_end(store, lost, OUTCOME_YES, error);
}

/* ---- ledger ---- */

static enum outcome check_v(const char *type, const struct ledger *ledger, struct error *error)
{
  if (ledger->v == 1)
    return OUTCOME_YES;
  error_set(error, "the ledger of \"%s\" has v %d and this pawl knows 1: a newer pawl is needed", type, ledger->v);
  return OUTCOME_REFUSED;
}

enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  *ledger = (struct ledger){0};
  if (call_begin(store, &lost)) {
    const struct ledger_document *document = ledger_find(store->server, type);
    if (document && !lost) {
      outcome = check_v(type, &document->ledger, error);
      if (outcome == OUTCOME_YES)
        *ledger = document->ledger;
      ledger->v = document->ledger.v;
    }
  }
  return call_end(store, lost, outcome, error);
}

struct ledger_found {
  struct ledger ledger;
};

enum outcome ledger_read_found(struct lockstore *store, const char *type, struct ledger *ledger, struct ledger_found **found,
                               struct error *error)
{
  enum outcome outcome = ledger_read(store, type, ledger, error);
  *found = NULL;
  if (outcome != OUTCOME_REFUSED)
    return outcome;
  *found = calloc(1, sizeof **found);
  assert(*found);
  (*found)->ledger = ledger_find(store->server, type)->ledger;
  return outcome;
}

void ledger_found_free(struct ledger_found *found)
{
  free(found);
}

enum outcome ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  return ledger_read(store, type, ledger, error);
}

static void fence_guarded(struct ledger *ledger, int64_t epoch_seen, enum fencer fencer)
{
  bool vouched = ledger->guarded != 0 && ledger->guarded == epoch_seen;
  vouched = fencer == FENCER_LOCAL ? vouched || ledger->clean : fencer == FENCER_READER && vouched;
  ledger->guarded = vouched ? epoch_seen + 1 : 0;
}

static enum outcome fence(struct memory_server *server, const char *type, int64_t epoch_seen, const struct owner *owner, enum fencer fencer,
                          struct ledger *before)
{
  struct ledger_document *document = ledger_find(server, type);
  *before = (struct ledger){0};
  if (!document && epoch_seen == 0) {
    document = ledger_make(server, type);
    document->ledger.v = 1;
  } else if (document && document->ledger.v == 1 && document->ledger.epoch == epoch_seen) {
    *before = document->ledger;
  } else {
    return OUTCOME_NO;
  }
  document->ledger.epoch = epoch_seen + 1;
  document->ledger.has_owner = true;
  document->ledger.owner = *owner;
  fence_guarded(&document->ledger, epoch_seen, fencer);
  document->ledger.clean = document->ledger.clean && fencer == FENCER_READER;
  return OUTCOME_YES;
}

enum outcome ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner, enum fencer fencer,
                          struct ledger *before, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  *before = (struct ledger){0};
  if (!ledger_epoch_has_next(type, epoch_seen, error))
    return OUTCOME_REFUSED;
  if (call_begin(store, &lost))
    outcome = fence(store->server, type, epoch_seen, owner, fencer, before);
  if (lost || outcome != OUTCOME_YES)
    *before = (struct ledger){0};
  return call_end(store, lost, outcome, error);
}

static struct ledger *ledger_of_epoch(struct memory_server *server, const char *type, int64_t epoch, const struct owner *owner)
{
  struct ledger_document *document = ledger_find(server, type);
  bool mine = document && document->ledger.v == 1 && document->ledger.epoch == epoch && document->ledger.has_owner &&
              owner_equal(&document->ledger.owner, owner);
  return mine ? &document->ledger : NULL;
}

/* `link` is absent as long as there is no file. */
static bool link_equal(const struct committed *a, const struct committed *b)
{
  return (a->file[0] == '\0') == (b->file[0] == '\0') && a->link == b->link;
}

static enum outcome commit_to(struct ledger *ledger, const struct ledger_commit *commit)
{
  if (!ledger || !(link_equal(&ledger->end, &commit->before) || link_equal(&ledger->end, &commit->after)))
    return OUTCOME_NO;
  if (commit->after.file[0])
    ledger->end = commit->after;
  if (commit->settled > ledger->settled)
    ledger->settled = commit->settled;
  if (commit->set_clean)
    ledger->clean = commit->clean;
  if (commit->machine) {
    assert(strlen(commit->machine) < MACHINE_SIZE);
    strcpy(ledger->machine, commit->machine);
  }
  if (commit->guarded)
    ledger->guarded = commit->epoch;
  return OUTCOME_YES;
}

enum outcome ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error)
{
  assert(commit->epoch > 0 && commit->settled >= 0 && commit->settled <= commit->after.seq);
  assert(commit->after.seq >= commit->before.seq && (commit->after.file[0] || !commit->before.file[0]));
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (call_begin(store, &lost))
    outcome = commit_to(ledger_of_epoch(store->server, type, commit->epoch, &commit->owner), commit);
  return call_end(store, lost, outcome, error);
}

enum outcome ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                           struct error *error)
{
  assert(epoch > 0 && settled >= 0);
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (call_begin(store, &lost)) {
    struct ledger *ledger = ledger_of_epoch(store->server, type, epoch, owner);
    if (ledger) {
      ledger->settled = settled > ledger->settled ? settled : ledger->settled;
      outcome = OUTCOME_YES;
    }
  }
  return call_end(store, lost, outcome, error);
}

enum outcome ledger_forget(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (call_begin(store, &lost)) {
    struct memory_server *server = store->server;
    struct ledger *ledger = ledger_of_epoch(server, type, epoch, owner);
    if (ledger && ledger->end.file[0] == '\0' && ledger->end.seq == 0) {
      struct ledger_document *document = ledger_find(server, type);
      server->ledger_count--;
      memmove(document, document + 1, (size_t)(server->ledgers + server->ledger_count - document) * sizeof *document);
      outcome = OUTCOME_YES;
    }
  }
  return call_end(store, lost, outcome, error);
}

enum outcome ledger_put(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                        const struct ledger *ledger, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (call_begin(store, &lost)) {
    struct ledger_document *document = ledger_find(store->server, type);
    if (!document && before->epoch == 0 && !found)
      document = ledger_make(store->server, type);
    else if (document && found && memcmp(&document->ledger, &found->ledger, sizeof found->ledger) != 0)
      document = NULL;
    else if (document && !found &&
             (document->ledger.v != 1 || document->ledger.epoch != before->epoch || document->ledger.end.seq != before->end.seq ||
              document->ledger.end.link != before->end.link))
      document = NULL;
    if (document) {
      document->ledger = *ledger;
      document->ledger.guarded = 0;
      outcome = OUTCOME_YES;
    }
  }
  return call_end(store, lost, outcome, error);
}

enum outcome ledger_list(struct lockstore *store, ledger_each *each, void *context, struct error *error)
{
  bool lost;
  if (call_begin(store, &lost) && !lost)
    for (int i = 0; i < store->server->ledger_count; i++) {
      const struct ledger_document *document = &store->server->ledgers[i];
      struct error problem;
      bool ok = check_v(document->type, &document->ledger, &problem) == OUTCOME_YES;
      each(context, document->type, &document->ledger, ok ? NULL : problem.text);
    }
  return call_end(store, lost, OUTCOME_YES, error);
}
