#include "lockstore/memory_private.h"
#include "type_pattern.h"

#include <assert.h>
#include <stdlib.h>

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
  memory_documents_free(server);
  free(server->locks);
  free(server->queues);
  free(server->ledgers);
  free(server->documents);
  pthread_mutex_destroy(&server->mutex);
  free(server);
}

void *memory_grow(void *array, int *room, int wanted, size_t size)
{
  int before = *room;
  if (wanted <= before)
    return array;
  *room = wanted > 2 * before ? wanted : 2 * before;
  uint8_t *grown = realloc(array, (size_t)*room * size);
  assert(grown);
  memset(grown + (size_t)before * size, 0, (size_t)(*room - before) * size);
  return grown;
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

struct ledger_document *memory_ledger_find(struct memory_server *server, const char *type)
{
  for (int i = 0; i < server->ledger_count; i++)
    if (strcmp(server->ledgers[i].type, type) == 0)
      return &server->ledgers[i];
  return NULL;
}

struct ledger_document *memory_ledger_make(struct memory_server *server, const char *type)
{
  assert(strlen(type) <= TYPE_BYTES_MAX);
  server->ledgers = memory_grow(server->ledgers, &server->ledger_room, server->ledger_count + 1, sizeof *server->ledgers);
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
  struct ledger_document *document = memory_ledger_find(server, type);
  if (!document)
    document = memory_ledger_make(server, type);
  document->ledger = *ledger;
  document->malformed = false;
  pthread_mutex_unlock(&server->mutex);
}

void memory_server_spoil_ledger(struct memory_server *server, const char *type)
{
  pthread_mutex_lock(&server->mutex);
  struct ledger_document *document = memory_ledger_find(server, type);
  document->ledger.newer = document->malformed = true;
  pthread_mutex_unlock(&server->mutex);
}

static void *array_copy(void *to, int *room, const void *from, int count, size_t size)
{
  to = memory_grow(to, room, count, size);
  if (count > 0)
    memcpy(to, from, (size_t)count * size);
  if (*room > count)
    memset((uint8_t *)to + (size_t)count * size, 0, (size_t)(*room - count) * size);
  return to;
}

void memory_server_copy(struct memory_server *to, const struct memory_server *from)
{
  pthread_mutex_lock(&to->mutex);
  to->locks = array_copy(to->locks, &to->lock_room, from->locks, from->lock_room, sizeof *to->locks);
  to->queues = array_copy(to->queues, &to->queue_room, from->queues, from->queue_room, sizeof *to->queues);
  to->ledgers = array_copy(to->ledgers, &to->ledger_room, from->ledgers, from->ledger_room, sizeof *to->ledgers);
  to->ledger_count = from->ledger_count;
  to->floor = from->floor;
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
/* A twin is in no database. */
enum outcome lockstore_database_id(struct lockstore *store, uint8_t id[16], struct error *error)
{
  (void)store;
  (void)id;
  error_set(error, "in memory");
  return OUTCOME_NO;
}

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
  lockstore_memory_fail_after(store, 0, calls, applied);
}

void lockstore_memory_fail_after(struct lockstore *store, int skip, int calls, bool applied)
{
  pthread_mutex_lock(&store->server->mutex);
  store->skipping = skip;
  store->failing = calls;
  store->failing_applied = applied;
  pthread_mutex_unlock(&store->server->mutex);
}

/* Whether the call is to be done; *lost: whatever it answers, the caller hears UNKNOWN. The server is locked until call_end. */
bool memory_call_begin(struct lockstore *store, bool *lost)
{
  pthread_mutex_lock(&store->server->mutex);
  *lost = store->away || store->server->away;
  if (*lost)
    return false;
  bool skips = store->skipping > 0;
  store->skipping -= skips;
  *lost = !skips && store->failing > 0;
  store->failing -= *lost;
  return !*lost || store->failing_applied;
}

void lockstore_memory_on_answer(struct lockstore *store, void (*answered)(void *context), void *context)
{
  store->answered = answered;
  store->context = context;
}

/* A reader of wake-ups has a connection of its own. */
static enum outcome reader_call_end(struct lockstore *store, bool lost, enum outcome outcome, struct error *error)
{
  pthread_mutex_unlock(&store->server->mutex);
  if (!lost)
    return outcome;
  error_set(error, "no answer from the server in memory");
  return OUTCOME_UNKNOWN;
}

enum outcome memory_call_end(struct lockstore *store, bool lost, enum outcome outcome, struct error *error)
{
  outcome = reader_call_end(store, lost, outcome, error);
  if (store->answered != NULL)
    store->answered(store->context);
  return outcome;
}

/* The twin has no queue. */
enum outcome lockstore_own_check(struct lockstore *store, const char *type, struct error *error)
{
  bool lost;
  (void)type;
  (void)memory_call_begin(store, &lost);
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

enum outcome lockstore_prepare(struct lockstore *store, struct error *error)
{
  bool lost;
  (void)memory_call_begin(store, &lost);
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

bool lockstore_is_known(struct lockstore *store)
{
  (void)store;
  return true;
}

int64_t lockstore_prepared_at_ms(struct lockstore *store)
{
  (void)store;
  return 1;
}

/* ---- wake-ups ---- */

struct wakeup *memory_wakeup_make(struct memory_server *server, const char *type, enum wakeup_about about, const struct owner *to,
                                  int64_t epoch)
{
  struct wakeup_document *document = &server->wakeups[server->wakeup_count++ % MEMORY_WAKEUPS_MAX];
  *document = (struct wakeup_document){.wakeup = {.about = about, .epoch = epoch}, .to_all = to == NULL};
  assert(strlen(type) <= TYPE_BYTES_MAX);
  strcpy(document->wakeup.type, type);
  if (to)
    document->wakeup.owner = *to;
  return &document->wakeup;
}

enum outcome wakeup_send_broken(struct lockstore *store, const char *type, const struct owner *to, const char *why, struct error *error)
{
  bool lost;
  if (memory_call_begin(store, &lost)) {
    struct wakeup *wakeup = memory_wakeup_make(store->server, type, WAKEUP_LOST, to, 0);
    snprintf(wakeup->why, sizeof wakeup->why, "%s", why);
  }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

enum outcome wakeup_send(struct lockstore *store, const char *type, enum wakeup_about about, const struct owner *to, int64_t epoch,
                         struct error *error)
{
  bool lost;
  if (memory_call_begin(store, &lost))
    memory_wakeup_make(store->server, type, about, to, epoch);
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

struct wakeup_reader {
  struct lockstore *store;
  const char *const *types;
  size_t type_count;
  int64_t position; /* of the next one */
};

struct wakeup_reader *wakeup_reader_open(struct lockstore *store, const struct lockstore_options *options, const char *const *types,
                                         size_t type_count, struct error *error)
{
  struct wakeup_reader *reader = calloc(1, sizeof *reader);
  (void)options, (void)error;
  assert(reader);
  *reader = (struct wakeup_reader){.store = store, .types = types, .type_count = type_count, .position = INT64_MAX};
  return reader;
}

void wakeup_reader_close(struct wakeup_reader *reader)
{
  free(reader);
}

enum outcome wakeup_reader_begin(struct wakeup_reader *reader, struct error *error)
{
  bool lost;
  if (memory_call_begin(reader->store, &lost))
    reader->position = reader->store->server->wakeup_count;
  return reader_call_end(reader->store, lost, OUTCOME_YES, error);
}

static bool wakeup_is_for(const struct wakeup_reader *reader, const struct wakeup_document *document)
{
  if (!document->to_all)
    return memcmp(document->wakeup.owner.bytes, reader->store->address.bytes, ADDRESS_BYTES) == 0;
  for (size_t i = 0; i < reader->type_count; i++)
    if (type_pattern_matches(reader->types[i], document->wakeup.type))
      return true;
  return false;
}

enum outcome wakeup_reader_next(struct wakeup_reader *reader, int64_t await_ms, struct wakeup *wakeup, struct error *error)
{
  struct memory_server *server = reader->store->server;
  enum outcome outcome = OUTCOME_NO;
  bool lost;
  (void)await_ms;
  if (memory_call_begin(reader->store, &lost) && !lost) {
    assert(reader->position != INT64_MAX && server->wakeup_count - reader->position <= MEMORY_WAKEUPS_MAX);
    while (outcome == OUTCOME_NO && reader->position < server->wakeup_count) {
      const struct wakeup_document *document = &server->wakeups[reader->position++ % MEMORY_WAKEUPS_MAX];
      if (!wakeup_is_for(reader, document))
        continue;
      *wakeup = document->wakeup;
      outcome = OUTCOME_YES;
    }
  }
  return reader_call_end(reader->store, lost, outcome, error);
}
