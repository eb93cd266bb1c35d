#include "messages.h"
#include "chaos.h"
#include "checks.h"
#include "plants.h"
#include "process.h"
#include "server.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { REMOVED_KEPT = 256 }; /* how many removed messages an older snapshot may still show */

static struct {
  struct list messages;         /* all messages of the run, by index */
  struct list live[SOURCES];    /* of each collection, by rising _id */
  struct list removed[SOURCES]; /* the latest */
  struct list changed;          /* since the election began */
  int64_t empty_us;             /* the last moment when both collections were empty */
} queues[TYPES_MAX];
static uint64_t operation, operation_majority; /* the latest operation; the latest one when the election began */

/* ---- lists ---- */

static void list_reserve(struct list *list)
{
  if (list->count < list->size)
    return;
  list->size = list->size == 0 ? 64 : 2 * list->size;
  list->at = realloc(list->at, list->size * sizeof *list->at);
  assert(list->at != NULL);
}

void list_add(struct list *list, struct message *message)
{
  list_reserve(list);
  list->at[list->count++] = message;
}

void list_free(struct list *list)
{
  free(list->at);
  *list = (struct list){0};
}

size_t list_find(const struct list *list, int64_t id)
{
  size_t low = 0, high = list->count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (list->at[middle]->id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void list_put(struct list *list, struct message *message)
{
  size_t at = list_find(list, message->id);
  list_reserve(list);
  memmove(list->at + at + 1, list->at + at, (list->count - at) * sizeof *list->at);
  list->at[at] = message;
  list->count++;
}

static void list_take(struct list *list, size_t at)
{
  list->count--;
  memmove(list->at + at, list->at + at + 1, (list->count - at) * sizeof *list->at);
}

const struct list *queue_live(int type, enum queue_source source)
{
  return &queues[type].live[source];
}

/* ---- messages ---- */

/* The filter of a worker in a type's own collection: no `type`, or this one. */
static bool matches(const struct message *message)
{
  return message->foreign != FOREIGN_TYPE || plants_takes_along();
}

void queue_begin(void)
{
  queue_end();
  operation = operation_majority = 0;
}

void queue_end(void)
{
  for (int type = 0; type < TYPES_MAX; type++) {
    for (size_t i = 0; i < queues[type].messages.count; i++) {
      bson_free(queues[type].messages.at[i]->document);
      free(queues[type].messages.at[i]);
    }
    list_free(&queues[type].messages);
    list_free(&queues[type].changed);
    for (int source = 0; source < SOURCES; source++) {
      list_free(&queues[type].live[source]);
      list_free(&queues[type].removed[source]);
    }
  }
}

/* In the type's own collection `type` is optional. */
static void put_type(bson_t *document, const struct message *message)
{
  if (message->foreign == FOREIGN_TYPE)
    BSON_APPEND_UTF8(document, "type", "files");
  else if (message->foreign == FOREIGN_NOT && (message->source == SOURCE_SHARED || world_chance(0.5)))
    BSON_APPEND_UTF8(document, "type", type_name(message->type));
}

struct message *queue_message_new(const struct message *like)
{
  static const char filler[200] = "";
  struct message *message = calloc(1, sizeof *message);
  bson_t document = BSON_INITIALIZER;
  uint32_t bytes = 0;
  assert(message != NULL);
  *message = *like;
  message->index = (int64_t)queues[like->type].messages.count;
  BSON_APPEND_INT64(&document, "_id", like->id);
  put_type(&document, message);
  BSON_APPEND_INT64(&document, "k", message->index);
  BSON_APPEND_INT64(&document, "n", like->number);
  if (world_chance(0.3))
    BSON_APPEND_BINARY(&document, "x", BSON_SUBTYPE_BINARY, (const uint8_t *)filler, (uint32_t)world_between(0, sizeof filler));
  message->document = bson_destroy_with_steal(&document, true, &bytes);
  message->bytes = bytes;
  list_add(&queues[like->type].messages, message);
  return message;
}

struct message *queue_message(int type, int64_t index)
{
  return index >= 0 && (size_t)index < queues[type].messages.count ? queues[type].messages.at[index] : NULL;
}

int64_t queue_message_count(int type)
{
  return (int64_t)queues[type].messages.count;
}

static size_t length_of(int type, enum queue_source source)
{
  const struct list *live = &queues[type].live[source];
  size_t foreign = 0;
  for (size_t i = 0; i < live->count && source == SOURCE_OWN; i++)
    foreign += live->at[i]->foreign != FOREIGN_NOT;
  return live->count - foreign;
}

size_t queue_length(int type)
{
  return length_of(type, SOURCE_SHARED) + length_of(type, SOURCE_OWN);
}

bool queue_own_is_empty(int type)
{
  return length_of(type, SOURCE_OWN) == 0;
}

bool queue_was_empty(int type, int64_t since_us)
{
  return queue_length(type) == 0 || queues[type].empty_us >= since_us;
}

uint64_t queue_operation(void)
{
  return server_in_election() ? operation_majority : operation;
}

uint64_t queue_operation_latest(void)
{
  return operation;
}

static void live_put(struct message *message)
{
  if (queue_length(message->type) == 0)
    queues[message->type].empty_us = world.now_us;
  list_put(&queues[message->type].live[message->source], message);
}

void queue_insert(struct message *message)
{
  message->put_at = ++operation;
  message->removed_at = 0;
  live_put(message);
  if (server_in_election())
    list_add(&queues[message->type].changed, message);
  else
    message->queued = message->inserted = true;
}

static void message_remove(struct message *message, size_t at)
{
  list_take(&queues[message->type].live[message->source], at);
  list_add(&queues[message->type].removed[message->source], message);
  message->removed_at = ++operation;
  if (server_in_election()) {
    list_add(&queues[message->type].changed, message);
  } else {
    message->queued = false;
    checks_removed(message);
  }
}

static bool a_node_is_behind(void)
{
  bool behind = false;
  for (int i = 0; i < chaos_plan.processes; i++)
    behind = behind || processes[i].behind;
  return behind;
}

static void removed_trim(int type, enum queue_source source)
{
  struct list *removed = &queues[type].removed[source];
  if (server_in_election() || a_node_is_behind() || removed->count < 2 * REMOVED_KEPT)
    return;
  memmove(removed->at, removed->at + removed->count - REMOVED_KEPT, REMOVED_KEPT * sizeof *removed->at);
  removed->count = REMOVED_KEPT;
}

static bool remove_id(int type, enum queue_source source, int64_t id)
{
  const struct list *live = &queues[type].live[source];
  size_t at = list_find(live, id);
  bool there = at < live->count && live->at[at]->id == id && matches(live->at[at]);
  if (there)
    message_remove(live->at[at], at);
  return there;
}

bool queue_remove_range(int type, enum queue_source source, const struct queue_range *range)
{
  const struct list *live = &queues[type].live[source], *removed = &queues[type].removed[source];
  uint64_t read_at = plants_deletes_ranges() || chaos_plan.standalone ? UINT64_MAX : range->read_at;
  size_t from = list_find(live, range->first), to = list_find(live, range->last + 1);
  if (plants_shifts_ranges() && from < to && to < live->count)
    from++, to++;
  int64_t seen = 0;
  for (size_t i = from; i < to; i++)
    seen += live->at[i]->put_at <= read_at && matches(live->at[i]);
  for (size_t i = 0; i < removed->count; i++) {
    const struct message *message = removed->at[i];
    if (!chaos_plan.standalone && message->id >= range->first && message->id <= range->last && message->put_at <= read_at &&
        message->removed_at > read_at)
      return false; /* the transaction sees the message, and cannot remove it any more */
  }
  if (seen != range->count && !chaos_plan.standalone)
    return false;
  while (to-- > from)
    if (live->at[to]->put_at <= read_at && matches(live->at[to]))
      message_remove(live->at[to], to);
  removed_trim(type, source);
  return true;
}

int64_t queue_remove(int type, enum queue_source source, const bson_t *ids, bool part)
{
  bson_iter_t at;
  int64_t removed = 0;
  for (bson_iter_init(&at, ids); bson_iter_next(&at);)
    if (!part || world_chance(0.5))
      removed += remove_id(type, source, bson_iter_as_int64(&at));
  removed_trim(type, source);
  return removed;
}

/* ---- elections ---- */

void queue_election_begin(void)
{
  operation_majority = operation;
}

static void change_confirm(struct message *message)
{
  bool queued = message->removed_at == 0;
  message->inserted = message->inserted || queued;
  if (message->queued && !queued) {
    message->queued = false;
    checks_removed(message);
  }
  message->queued = queued;
}

static void list_forget(struct list *list, const struct message *message)
{
  for (size_t i = list->count; i-- > 0;)
    if (list->at[i] == message)
      list_take(list, i);
}

static void change_undo(struct message *message)
{
  bool queued = message->removed_at == 0;
  struct list *live = &queues[message->type].live[message->source], *removed = &queues[message->type].removed[message->source];
  if (queued && !message->queued) {
    list_take(live, list_find(live, message->id));
    message->removed_at = operation;
  } else if (!queued && message->queued) {
    live_put(message);
    list_forget(removed, message);
    message->removed_at = 0;
  } else if (!queued) { /* inserted and removed since */
    list_forget(removed, message);
  }
}

void queue_election_end(bool keep)
{
  for (int type = 0; type < TYPES_MAX; type++) {
    struct list *changed = &queues[type].changed;
    for (size_t i = 0; i < changed->count; i++)
      (keep ? change_confirm : change_undo)(changed->at[i]);
    changed->count = 0;
  }
}

/* ---- older snapshots ---- */

static int by_id(const void *left, const void *right)
{
  const struct message *a = *(struct message *const *)left, *b = *(struct message *const *)right;
  return (a->id > b->id) - (a->id < b->id);
}

/* The collection as it was after operation `at`. */
void queue_snapshot(int type, enum queue_source source, uint64_t at, struct list *list)
{
  const struct list *live = &queues[type].live[source], *removed = &queues[type].removed[source];
  size_t live_count;
  list->count = 0;
  for (size_t i = 0; i < live->count; i++)
    if (live->at[i]->put_at <= at && matches(live->at[i]))
      list_add(list, live->at[i]);
  live_count = list->count;
  for (size_t i = removed->count; i-- > 0;)
    if (removed->at[i]->put_at <= at && removed->at[i]->removed_at > at)
      list_add(list, removed->at[i]);
  if (list->count > live_count)
    qsort(list->at, list->count, sizeof *list->at, by_id);
}
