#include "queue.h"
#include "chaos.h"
#include "checks.h"
#include "plants.h"
#include "process.h"
#include "server.h"
#include "worker/queue.h"

#include <assert.h>
#include <stdlib.h>

enum { REMOVED_KEPT = 256 }; /* how many removed messages an older snapshot may still show */

struct list {
  struct message **at;
  size_t count, size;
};

static struct {
  struct list messages; /* all there ever were, by index */
  struct list live;     /* by rising _id */
  struct list removed;  /* the latest */
  struct list changed;  /* since the election began */
  int64_t empty_us;     /* the last moment when it was */
} queues[TYPES_MAX];
static uint64_t operation, operation_majority; /* the latest; the latest when the election began */

/* ---- lists ---- */

static void list_reserve(struct list *list)
{
  if (list->count < list->size)
    return;
  list->size = list->size == 0 ? 64 : 2 * list->size;
  list->at = realloc(list->at, list->size * sizeof *list->at);
  assert(list->at != NULL);
}

static void list_add(struct list *list, struct message *message)
{
  list_reserve(list);
  list->at[list->count++] = message;
}

static void list_free(struct list *list)
{
  free(list->at);
  *list = (struct list){0};
}

/* Where the first of these or a higher _id is. */
static size_t list_find(const struct list *list, int64_t id)
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

/* ---- messages ---- */

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
    list_free(&queues[type].live);
    list_free(&queues[type].removed);
    list_free(&queues[type].changed);
  }
}

struct message *queue_message_new(int type, int producer, int64_t number, int64_t id)
{
  static const char filler[200] = "";
  struct message *message = calloc(1, sizeof *message);
  bson_t document = BSON_INITIALIZER;
  uint32_t bytes = 0;
  assert(message != NULL);
  *message = (struct message){.type = type, .producer = producer, .number = number, .id = id};
  message->index = (int64_t)queues[type].messages.count;
  BSON_APPEND_INT64(&document, "_id", id);
  BSON_APPEND_UTF8(&document, "type", type_name(type));
  BSON_APPEND_INT64(&document, "k", message->index);
  BSON_APPEND_INT64(&document, "n", number);
  if (world_chance(0.3))
    BSON_APPEND_BINARY(&document, "x", BSON_SUBTYPE_BINARY, (const uint8_t *)filler, (uint32_t)world_between(0, sizeof filler));
  message->document = bson_destroy_with_steal(&document, true, &bytes);
  message->bytes = bytes;
  list_add(&queues[type].messages, message);
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

size_t queue_length(int type)
{
  return queues[type].live.count;
}

bool queue_was_empty(int type, int64_t since_us)
{
  return queues[type].live.count == 0 || queues[type].empty_us >= since_us;
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
  if (queues[message->type].live.count == 0)
    queues[message->type].empty_us = world.now_us;
  list_put(&queues[message->type].live, message);
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
  list_take(&queues[message->type].live, at);
  list_add(&queues[message->type].removed, message);
  message->removed_at = ++operation;
  if (server_in_election()) {
    list_add(&queues[message->type].changed, message);
  } else {
    message->queued = false;
    checks_removed(message);
  }
}

static bool somebody_is_behind(void)
{
  bool behind = false;
  for (int i = 0; i < chaos_plan.processes; i++)
    behind = behind || processes[i].behind;
  return behind;
}

static void removed_trim(int type)
{
  struct list *removed = &queues[type].removed;
  if (server_in_election() || somebody_is_behind() || removed->count < 2 * REMOVED_KEPT)
    return;
  memmove(removed->at, removed->at + removed->count - REMOVED_KEPT, REMOVED_KEPT * sizeof *removed->at);
  removed->count = REMOVED_KEPT;
}

static bool remove_id(int type, int64_t id)
{
  const struct list *live = &queues[type].live;
  size_t at = list_find(live, id);
  bool there = at < live->count && live->at[at]->id == id;
  if (there)
    message_remove(live->at[at], at);
  return there;
}

bool queue_remove_range(int type, const struct queue_range *range)
{
  const struct list *live = &queues[type].live, *removed = &queues[type].removed;
  uint64_t read_at = plants_deletes_ranges() || chaos_plan.standalone ? UINT64_MAX : range->read_at;
  size_t from = list_find(live, range->first), to = list_find(live, range->last + 1);
  if (plants_shifts_ranges() && from < to && to < live->count)
    from++, to++;
  int64_t seen = 0;
  for (size_t i = from; i < to; i++)
    seen += live->at[i]->put_at <= read_at;
  for (size_t i = 0; i < removed->count; i++) {
    const struct message *message = removed->at[i];
    if (!chaos_plan.standalone && message->id >= range->first && message->id <= range->last && message->put_at <= read_at &&
        message->removed_at > read_at)
      return false; /* the transaction sees it, and cannot remove it any more */
  }
  if (seen != range->count && !chaos_plan.standalone)
    return false;
  while (to-- > from)
    if (live->at[to]->put_at <= read_at)
      message_remove(live->at[to], to);
  removed_trim(type);
  return true;
}

int64_t queue_remove(int type, const bson_t *ids, bool part)
{
  bson_iter_t at;
  int64_t removed = 0;
  for (bson_iter_init(&at, ids); bson_iter_next(&at);)
    if (!part || world_chance(0.5))
      removed += remove_id(type, bson_iter_as_int64(&at));
  removed_trim(type);
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
  if (queued && !message->queued) {
    list_take(&queues[message->type].live, list_find(&queues[message->type].live, message->id));
    message->removed_at = operation;
  } else if (!queued && message->queued) {
    live_put(message);
    list_forget(&queues[message->type].removed, message);
    message->removed_at = 0;
  } else if (!queued) { /* came and went */
    list_forget(&queues[message->type].removed, message);
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

/* ---- worker/queue.h ---- */

struct queue_reader {
  bool dropped;
  int64_t ask_share;       /* a batch's messages divided by this are asked for */
  struct queue_pass *late; /* planted: of an epoch that is over */
};

struct queue_pass {
  struct queue_reader *reader;
  int type;
  uint64_t read_at;
  int64_t batch_messages, batch_bytes;
  struct queue_mark *mark;
  bool begun;
  struct list list; /* what it sees; on a standalone server only in the next reply */
  size_t next;
  int64_t last_id; /* of those that were read */
};

static int by_id(const void *left, const void *right)
{
  const struct message *a = *(struct message *const *)left, *b = *(struct message *const *)right;
  return (a->id > b->id) - (a->id < b->id);
}

/* The queue as it was after operation `at`. */
static void snapshot(int type, uint64_t at, struct list *list)
{
  const struct list *live = &queues[type].live, *removed = &queues[type].removed;
  size_t live_count;
  list->count = 0;
  for (size_t i = 0; i < live->count; i++)
    if (live->at[i]->put_at <= at)
      list_add(list, live->at[i]);
  live_count = list->count;
  for (size_t i = removed->count; i-- > 0;)
    if (removed->at[i]->put_at <= at && removed->at[i]->removed_at > at)
      list_add(list, removed->at[i]);
  if (list->count > live_count)
    qsort(list->at, list->count, sizeof *list->at, by_id);
}

/* The latest that the primary shows to whom it calls. */
static uint64_t operation_shown(void)
{
  return fiber_process()->behind ? server_replaced_operation() : queue_operation();
}

/* afterClusterTime: a primary that was replaced waits for what it will never see. */
static bool snapshot_comes(struct error *error)
{
  if (fiber_process()->operation <= operation_shown())
    return true;
  fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  error_set(error, "no answer from the database");
  return false;
}

static uint64_t snapshot_operation(void)
{
  struct process *process = fiber_process();
  uint64_t at = operation_shown(), seen = process->operation;
  if (chaos_plan.standalone)
    return UINT64_MAX - 1;
  seen = plants_operation_seen(seen);
  if ((plants_snapshots_are_old() || chaos_strikes(CHAOS_SNAPSHOT)) && seen < at)
    at = (uint64_t)world_between((int64_t)(at - seen > 200 ? at - 200 : seen), (int64_t)at);
  return at;
}

/* Its `_id`s are numbers; a mark holds one in the bytes of an ObjectId. */
static void mark_set(struct queue_mark *mark, int64_t id)
{
  mark->set = true;
  memcpy(mark->id.bytes, &id, sizeof id);
}

static int64_t mark_id(const struct queue_mark *mark)
{
  int64_t id;
  memcpy(&id, mark->id.bytes, sizeof id);
  return id;
}

static bool peek_type(int type, struct queue_mark *mark, bool glance)
{
  int64_t from = glance && mark->set ? mark_id(mark) : INT64_MIN;
  bool old = server_in_election() || fiber_process()->behind;
  struct list list = {0};
  if (old)
    snapshot(type, operation_shown(), &list);
  const struct list *seen = old ? &list : &queues[type].live;
  size_t at = from > INT64_MIN || seen->count == 0 ? list_find(seen, from) : seen->count - 1;
  bool any = at < seen->count;
  if (any && mark != NULL)
    mark_set(mark, seen->at[at]->id);
  list_free(&list);
  return any;
}

enum outcome queue_peek(struct lockstore *store, const char *const *types, size_t count, bool linearizable, struct queue_mark *mark,
                        bool glance, struct error *error)
{
  bool any = false, last = linearizable;
  (void)store;
  linearizable = linearizable && !plants_looks_stale();
  if (!server_reach(error) || (linearizable && (server_in_election() || fiber_process()->behind)))
    return OUTCOME_UNKNOWN;
  for (size_t i = 0; i < count && !(last && plants_looks_not()); i++)
    any = peek_type(type_index(types[i]), mark, glance) || any;
  chaos_point();
  return fiber_dead() ? OUTCOME_UNKNOWN : any ? OUTCOME_YES : OUTCOME_NO;
}

enum outcome queue_delete(struct lockstore *store, const char *type, const bson_t *ids, int64_t *removed, struct error *error)
{
  (void)store;
  enum outcome outcome = server_delete(type_index(type), ids, removed, error);
  if (plants_trusts_deletes())
    *removed = INT64_MAX;
  return outcome;
}

/* In a snapshot, as a pass. */
enum outcome queue_find_left(struct lockstore *store, const char *type, const bson_t *ids, struct error *error)
{
  struct list list = {0};
  bson_iter_t at;
  bool any = false;
  (void)store;
  if (!server_reach(error) || !snapshot_comes(error))
    return OUTCOME_UNKNOWN;
  snapshot(type_index(type), snapshot_operation(), &list);
  for (bson_iter_init(&at, ids); bson_iter_next(&at) && !any;) {
    size_t place = list_find(&list, bson_iter_as_int64(&at));
    any = place < list.count && list.at[place]->id == bson_iter_as_int64(&at);
  }
  list_free(&list);
  if (any)
    error_set(error, "a message that was deleted is there");
  chaos_point();
  return fiber_dead() ? OUTCOME_UNKNOWN : any ? OUTCOME_YES : OUTCOME_NO;
}

static int64_t ids_end(const bson_t *ids, bool last)
{
  bson_iter_t at;
  int64_t id = 0;
  bool found = false;
  for (bson_iter_init(&at, ids); bson_iter_next(&at) && (last || !found); found = true)
    id = bson_iter_as_int64(&at);
  return id;
}

void queue_clear_way(struct lockstore *store)
{
  (void)store; /* a transaction is one step here */
}

struct queue_eraser {
  char nothing;
};

struct queue_eraser *queue_eraser_new(struct lockstore *store)
{
  (void)store;
  return calloc(1, sizeof(struct queue_eraser));
}

void queue_eraser_free(struct queue_eraser *eraser)
{
  free(eraser);
}

enum outcome queue_delete_range(struct queue_eraser *eraser, const char *type, const struct load *load, struct error *error)
{
  struct queue_range range = {.first = ids_end(load->ids[0], false),
                              .last = ids_end(load->ids[load->ids_count - 1], true),
                              .read_at = load->read_at,
                              .count = load->messages};
  (void)eraser;
  return server_delete_range(type_index(type), &range, error);
}

struct queue_reader *queue_reader_new(struct lockstore *store)
{
  struct queue_reader *reader = calloc(1, sizeof *reader);
  (void)store;
  assert(reader != NULL);
  reader->ask_share = 1;
  return reader;
}

static void pass_free(struct queue_pass *pass)
{
  if (pass != NULL)
    list_free(&pass->list);
  free(pass);
}

void queue_reader_free(struct queue_reader *reader)
{
  pass_free(reader->late);
  free(reader);
}

void queue_reader_drop(struct queue_reader *reader)
{
  reader->dropped = true;
}

void queue_reader_take_up(struct queue_reader *reader)
{
  reader->dropped = false;
}

struct queue_pass *queue_pass_open(struct queue_reader *reader, const char *type, int64_t batch_messages, int64_t batch_bytes,
                                   struct queue_mark *mark)
{
  struct queue_pass *pass = reader->late;
  reader->late = NULL;
  if (pass != NULL)
    return pass;
  pass = calloc(1, sizeof *pass);
  assert(pass != NULL);
  *pass = (struct queue_pass){.reader = reader,
                              .last_id = INT64_MIN,
                              .type = type_index(type),
                              .batch_messages = batch_messages,
                              .batch_bytes = batch_bytes,
                              .mark = mark};
  return pass;
}

static struct load *pass_load(struct queue_pass *pass)
{
  struct load *load = load_new();
  int64_t most = pass->batch_messages / pass->reader->ask_share;
  assert(load != NULL);
  load->read_at = chaos_plan.standalone && !plants_ranges_alone() ? 0 : pass->read_at;
  while (pass->next < pass->list.count && load->messages < (most > 1 ? most : 1)) {
    const struct message *message = pass->list.at[pass->next];
    if (load->messages > 0 && (int64_t)(load->batch.bytes + message->bytes) > pass->batch_bytes)
      break;
    struct element id;
    if (message_id_find(message->document, message->bytes, &id) != NULL || !load_add(load, &id, message->document, message->bytes))
      world_fail("a message cannot be put into a load");
    mark_set(pass->mark, message->id);
    pass->last_id = message->id;
    pass->next++;
  }
  return load;
}

/* As long as its bytes come, which may be longer than a lease; unless nobody waits for it any more. */
static bool reply_comes(struct queue_reader *reader)
{
  enum { SLICE_US = 20 * MS };
  int64_t until_us = world.now_us + (chaos_strikes(CHAOS_TRICKLE) ? world_between(0, 3 * chaos_plan.lease_ms * MS) : 0);
  while (world.now_us < until_us && !reader->dropped && !fiber_dead())
    fiber_wait(SLICE_US);
  return !reader->dropped && !fiber_dead();
}

/* False: there is none. */
static bool reply_await(struct queue_pass *pass, struct error *error)
{
  struct queue_reader *reader = pass->reader;
  if (!server_reach(error) || !reply_comes(reader)) {
    error_set(error, "the pass ended early");
    return false;
  }
  if (!chaos_strikes(CHAOS_PASS)) {
    reader->ask_share = reader->ask_share > 1 ? reader->ask_share / 2 : 1;
    return true;
  }
  if (plants_repeats_getmore() && pass->begun) {
    load_free(pass_load(pass)); /* its cursor had sent this one */
    return true;
  }
  reader->ask_share *= reader->ask_share < pass->batch_messages ? 4 : 1;
  error_set(error, "the pass ended early");
  return false;
}

/* Without snapshots a reply shows what is there by then. */
static void pass_look_again(struct queue_pass *pass)
{
  if (!chaos_plan.standalone)
    return;
  snapshot(pass->type, UINT64_MAX, &pass->list);
  pass->next = list_find(&pass->list, pass->last_id + 1);
}

enum outcome queue_pass_next(struct queue_pass *pass, struct load **load, struct error *error)
{
  *load = NULL;
  bool begins = !pass->begun, sent = begins || pass->next < pass->list.count;
  if (sent && !reply_await(pass, error))
    return OUTCOME_UNKNOWN;
  if (begins && !snapshot_comes(error))
    return OUTCOME_UNKNOWN;
  if (begins)
    snapshot(pass->type, pass->read_at = snapshot_operation(), &pass->list);
  pass->begun = true;
  if (sent)
    chaos_point();
  if (sent && !begins)
    pass_look_again(pass);
  if (fiber_dead())
    return OUTCOME_UNKNOWN;
  bool missing = begins && !chaos_plan.standalone && chaos_strikes(CHAOS_MISSING);
  if (missing && !plants_believes_empty()) {
    error_set(error, "the answer is empty and names no snapshot");
    return OUTCOME_UNKNOWN;
  }
  if (begins && missing && pass->list.count > 0)
    world_fail("t%d: a pass says that the queue is empty, and %zu messages are in it", pass->type, pass->list.count);
  if (missing || pass->next == pass->list.count)
    return OUTCOME_NO;
  *load = pass_load(pass);
  return OUTCOME_YES;
}

void queue_pass_close(struct queue_pass *pass, bool answers)
{
  (void)answers;
  if (pass != NULL && plants_reads_on() && pass->begun && pass->next < pass->list.count)
    pass->reader->late = pass;
  else
    pass_free(pass);
}
