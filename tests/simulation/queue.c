#include "worker/queue.h"
#include "chaos.h"
#include "messages.h"
#include "plants.h"
#include "process.h"
#include "server.h"
#include "worker/ask.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

struct queue_reader {
  bool dropped;
  struct ask ask;
  struct queue_pass *late; /* planted: a pass of an epoch that is over */
};

struct queue_pass {
  struct queue_reader *reader;
  int type;
  enum queue_source source;
  uint64_t read_at; /* SOURCE_OWN: of the pass of `messages` before it */
  struct work_item_caps caps;
  struct queue_mark *mark;
  bool begun;
  struct list list; /* what the pass sees; on a standalone server only in the next reply */
  size_t next;
  int64_t last_id; /* the last `_id` that was read */
};

/* The latest operation that the primary shows to the calling process. */
static uint64_t operation_shown(void)
{
  return fiber_process()->behind ? server_replaced_operation() : queue_operation();
}

/* afterClusterTime: a primary that was replaced waits for an operation that it will never see. */
static bool operation_comes(uint64_t operation, struct error *error)
{
  if (operation <= operation_shown())
    return true;
  fiber_wait(world_between(0, chaos_plan.timeout_ms * MS));
  error_set(error, "no answer from the database");
  return false;
}

static bool snapshot_comes(struct error *error)
{
  return operation_comes(fiber_process()->operation, error);
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

/* The simulation's `_id`s are numbers; a mark holds one in the bytes of an ObjectId. */
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

static bool peek(int type, enum queue_source source, struct queue_mark *mark, bool tail)
{
  int64_t from = tail && mark->set ? mark_id(mark) : INT64_MIN;
  struct list list = {0};
  queue_snapshot(type, source, server_in_election() || fiber_process()->behind ? operation_shown() : UINT64_MAX - 1, &list);
  size_t at = from > INT64_MIN || list.count == 0 ? list_find(&list, from) : list.count - 1;
  bool any = at < list.count;
  if (any && mark != NULL)
    mark_set(mark, list.at[at]->id);
  list_free(&list);
  return any;
}

static enum outcome poll_answer(bool any)
{
  chaos_point();
  return fiber_dead() ? OUTCOME_UNKNOWN : any ? OUTCOME_YES : OUTCOME_NO;
}

enum outcome queue_poll(struct lockstore *store, const char *const *types, size_t count, bool linearizable, struct queue_mark *mark,
                        bool tail, struct error *error)
{
  bool any = false, last = linearizable;
  (void)store;
  linearizable = linearizable && !plants_looks_stale();
  if (!server_reach(error) || (linearizable && (server_in_election() || fiber_process()->behind)))
    return OUTCOME_UNKNOWN;
  uint64_t operation = queue_operation();
  for (size_t i = 0; i < count && !(last && plants_looks_not()); i++)
    any = peek(type_index(types[i]), SOURCE_SHARED, mark, tail) || any;
  enum outcome outcome = poll_answer(any);
  if (linearizable && outcome != OUTCOME_UNKNOWN && operation > fiber_process()->operation)
    fiber_process()->operation = operation;
  return outcome;
}

enum outcome queue_poll_own(struct lockstore *store, const char *type, struct queue_mark *mark, bool tail, struct error *error)
{
  (void)store;
  if (!server_reach(error))
    return OUTCOME_UNKNOWN;
  return poll_answer(peek(type_index(type), SOURCE_OWN, mark, tail));
}

static bool any_at(int type, enum queue_source source, uint64_t at)
{
  struct list list = {0};
  queue_snapshot(type, source, at, &list);
  bool any = list.count > 0;
  list_free(&list);
  return any;
}

enum outcome queue_poll_both(struct lockstore *store, const char *const *types, size_t count, struct error *error)
{
  bool any = false;
  (void)store;
  if (!server_reach(error) || !snapshot_comes(error))
    return OUTCOME_UNKNOWN;
  uint64_t at = snapshot_operation();
  for (size_t i = 0; i < count; i++)
    any =
        any || any_at(type_index(types[i]), SOURCE_SHARED, at) || (any_at(type_index(types[i]), SOURCE_OWN, at) && !plants_exits_shared());
  return poll_answer(any);
}

enum outcome queue_delete(struct lockstore *store, const struct queue_part *part, const bson_t *ids, int64_t *removed, struct error *error)
{
  (void)store;
  enum outcome outcome = server_delete(type_index(part->type), part->source, ids, removed, error);
  if (plants_trusts_deletes())
    *removed = INT64_MAX;
  return outcome;
}

/* Reads in a snapshot, like a pass. */
enum outcome queue_find_left(struct lockstore *store, const struct queue_part *part, const bson_t *ids, struct error *error)
{
  struct list list = {0};
  bson_iter_t at;
  bool any = false;
  (void)store;
  if (!server_reach(error) || !snapshot_comes(error))
    return OUTCOME_UNKNOWN;
  queue_snapshot(type_index(part->type), part->source, snapshot_operation(), &list);
  for (bson_iter_init(&at, ids); bson_iter_next(&at) && !any;) {
    size_t place = list_find(&list, bson_iter_as_int64(&at));
    any = place < list.count && list.at[place]->id == bson_iter_as_int64(&at);
  }
  list_free(&list);
  if (any)
    error_set(error, "a message that was deleted is there");
  return poll_answer(any);
}

void queue_clear_way(struct lockstore *store)
{
  (void)store; /* a transaction is one step here */
}

static int64_t id_number(const struct element *id)
{
  int64_t number;
  memcpy(&number, id->value, sizeof number);
  return number;
}

enum outcome queue_delete_range(struct lockstore *store, const char *type, const struct work_item *item, struct error *error)
{
  struct element first, last;
  (void)store;
  if (!work_item_range(item, &first, &last))
    world_fail("an item without _ids is to be deleted");
  struct queue_range range = {.first = id_number(&first), .last = id_number(&last), .read_at = item->read_at, .count = item->documents};
  return server_delete_range(type_index(type), item->source, &range, error);
}

struct queue_reader *queue_reader_new(struct lockstore *store)
{
  struct queue_reader *reader = calloc(1, sizeof *reader);
  (void)store;
  assert(reader != NULL);
  ask_init(&reader->ask);
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

void queue_pass_holds(const struct queue_pass *pass, int64_t *answer_bytes, int64_t *left_bytes)
{
  (void)pass;
  *answer_bytes = *left_bytes = 0;
}

void queue_reader_rest(struct queue_reader *reader)
{
  (void)reader;
}

struct queue_pass *queue_pass_open(struct queue_reader *reader, const struct queue_part *part, int64_t batch_messages, int64_t batch_bytes,
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
                              .type = type_index(part->type),
                              .source = plants_source(type_index(part->type), part->source),
                              .read_at = part->source == SOURCE_OWN ? part->read_at : 0,
                              .caps = {.documents = batch_messages, .bytes = batch_bytes},
                              .mark = mark};
  return pass;
}

uint64_t queue_pass_read_at(const struct queue_pass *pass)
{
  return chaos_plan.standalone ? 0 : pass->read_at;
}

static struct work_item *pass_load(struct queue_pass *pass)
{
  struct work_item *item = work_item_new();
  size_t reply_end = pass->next + (size_t)ask_count(&pass->reader->ask, pass->caps.documents);
  enum work_item_put put = ITEM_PUT;
  assert(item != NULL);
  item->source = pass->source;
  item->read_at = chaos_plan.standalone && !plants_ranges_alone() ? 0 : pass->read_at;
  while (put == ITEM_PUT && pass->next < pass->list.count && pass->next < reply_end) {
    const struct message *message = pass->list.at[pass->next];
    struct element id;
    put = work_item_put(item, &pass->caps, message->document, message->bytes, &id);
    if (put != ITEM_PUT)
      continue;
    mark_set(pass->mark, message->id);
    pass->last_id = message->id;
    pass->next++;
  }
  if (put != ITEM_PUT && put != ITEM_FULL)
    world_fail("a message cannot be put into an item");
  return item;
}

/* The reply takes as long as its bytes come, which may be longer than a lease; it ends early if the worker drops it. */
static bool reply_comes(struct queue_reader *reader)
{
  enum { SLICE_US = 20 * MS };
  int64_t until_us = world.now_us + (chaos_strikes(CHAOS_TRICKLE) ? world_between(0, 3 * chaos_plan.lease_ms * MS) : 0);
  while (world.now_us < until_us && !reader->dropped && !fiber_dead())
    fiber_wait(SLICE_US);
  return !reader->dropped && !fiber_dead();
}

/* False: no reply comes. */
static bool reply_await(struct queue_pass *pass, struct error *error)
{
  struct queue_reader *reader = pass->reader;
  if (!server_reach(error) || !reply_comes(reader)) {
    error_set(error, "the pass ended early");
    return false;
  }
  if (!chaos_strikes(CHAOS_PASS)) {
    ask_more(&reader->ask, 0, chaos_plan.timeout_ms);
    return true;
  }
  if (plants_repeats_getmore() && pass->begun) {
    work_item_free(pass_load(pass)); /* the cursor had already sent this batch */
    return true;
  }
  ask_less(&reader->ask, pass->caps.documents);
  error_set(error, "the pass ended early");
  return false;
}

/* Without snapshots a reply shows what is there when it is sent. */
static void pass_look_again(struct queue_pass *pass)
{
  if (!chaos_plan.standalone)
    return;
  queue_snapshot(pass->type, pass->source, UINT64_MAX, &pass->list);
  pass->next = list_find(&pass->list, pass->last_id + 1);
}

/* The part's own time, of a pass of `messages` before it; or now. */
static bool pass_begin(struct queue_pass *pass, struct error *error)
{
  bool at_given = pass->read_at != 0 && !plants_reads_own_later();
  if (at_given ? !operation_comes(pass->read_at, error) : !snapshot_comes(error))
    return false;
  if (!at_given)
    pass->read_at = snapshot_operation();
  queue_snapshot(pass->type, pass->source, pass->read_at, &pass->list);
  return true;
}

enum outcome queue_pass_next(struct queue_pass *pass, int64_t ask_documents, struct work_item **item, struct error *error)
{
  (void)ask_documents;
  *item = NULL;
  bool begins = !pass->begun, sent = begins || pass->next < pass->list.count;
  if (sent && !reply_await(pass, error))
    return OUTCOME_UNKNOWN;
  if (begins && !pass_begin(pass, error))
    return OUTCOME_UNKNOWN;
  pass->begun = true;
  if (sent)
    chaos_point();
  if (sent && !begins)
    pass_look_again(pass);
  if (fiber_dead())
    return OUTCOME_UNKNOWN;
  bool missing = begins && !chaos_plan.standalone && chaos_strikes(CHAOS_MISSING);
  if (missing && !plants_believes_empty(pass->source)) {
    error_set(error, "the answer is empty and names no snapshot");
    return OUTCOME_UNKNOWN;
  }
  if (begins && missing && pass->list.count > 0)
    world_fail("t%d: a pass says that %s is empty, and %zu messages are in it", pass->type,
               pass->source == SOURCE_OWN ? "the own collection" : "the queue", pass->list.count);
  if (missing || pass->next == pass->list.count || plants_goes_on_early(pass->type, pass->source))
    return OUTCOME_NO;
  *item = pass_load(pass);
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
