#include "lockstore/mutex.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/store.h"
#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"

#include <assert.h>

/*
 * The documents of `locks`. All times in them are the server's: they are made and judged by $$NOW inside one command.
 *
 * A document may have been written by anybody. What is judged, and how:
 *   owner       not 16 bytes of binary, subtype 0: REFUSED, for stealing names the owner
 *   expires_at  not a date: has expired
 *   ttl_ms      not a number of 1 .. TTL_MS_MAX: counts as TTL_MS_MAX, which ends any lease by the rule of the jumped clock
 *   holder      shown as far as it can be read
 */

/* The longest lease (--lease), in the text of an expression. */
enum { TTL_MS_MAX = 3600000 };
enum { RENEWALS_MAX = 1000 }; /* in one command: 0.1 s of the server's time */

/* clang-format off */
#define TTL_MS                                                                                            \
  "{", "$cond", "[",                                                                                      \
    "{", "$and", "[",                                                                                     \
      "{", "$isNumber", BCON_UTF8("$ttl_ms"), "}",                                                        \
      "{", "$gte", "[", BCON_UTF8("$ttl_ms"), BCON_INT32(1), "]", "}",                                    \
      "{", "$lte", "[", BCON_UTF8("$ttl_ms"), BCON_INT32(TTL_MS_MAX), "]", "}",                           \
    "]", "}",                                                                                             \
    BCON_UTF8("$ttl_ms"), BCON_INT32(TTL_MS_MAX), "]", "}"

/* What is no date sorts before or after every date, so that one of the two holds. */
#define STEALABLE                                                                                         \
  "{", "$or", "[",                                                                                        \
    "{", "$lt", "[", BCON_UTF8("$expires_at"), BCON_UTF8("$$NOW"), "]", "}",                              \
    "{", "$gt", "[", BCON_UTF8("$expires_at"),                                                            \
      "{", "$add", "[", BCON_UTF8("$$NOW"), "{", "$multiply", "[", BCON_INT32(2), TTL_MS, "]", "}", "]", "}", \
    "]", "}",                                                                                             \
  "]", "}"

/* clang-format on */

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

static const char *const kinds[] = {[LOCK_BY_WORKER] = "worker", [LOCK_BY_TOOL] = "lock"};

const char *lock_kind_name(enum lock_kind kind)
{
  return kinds[kind];
}

bool lock_kind_parse(const bson_t *document, enum lock_kind *kind)
{
  char text[8];
  (void)document_text(document, "kind", text, sizeof text);
  *kind = strcmp(text, kinds[LOCK_BY_TOOL]) == 0 ? LOCK_BY_TOOL : LOCK_BY_WORKER;
  return strcmp(text, kinds[*kind]) == 0;
}

void lock_name_parse(const bson_t *document, char name[PROCESS_NAME_BYTES_MAX + 1])
{
  if (!document_text(document, "name", name, PROCESS_NAME_BYTES_MAX + 1) || !process_name_valid(name))
    name[0] = '\0';
}

void lock_append_name(bson_t *document, const struct lock_holder *holder)
{
  if (holder->name[0] != '\0')
    BSON_APPEND_UTF8(document, "name", holder->name);
}

/* ---- requests ---- */

static enum outcome send_counted(struct lockstore *store, const char *doing, bson_t *command, struct error *error)
{
  int64_t count = 0;
  enum outcome outcome = mongo_write(lockstore_mongo(store), doing, command, &count, error);
  if (outcome == OUTCOME_NO) { /* a duplicate key answers an insert; here it would be somebody's own index */
    outcome = OUTCOME_UNKNOWN;
  }
  return outcome == OUTCOME_YES && count == 0 ? OUTCOME_NO : outcome;
}

static void append_take(bson_t *updates, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                        const struct lock_holder *holder)
{
  assert(ttl_ms > 0 && ttl_ms <= TTL_MS_MAX);
  bson_t set = BSON_INITIALIZER, from = BSON_INITIALIZER, update;
  BCON_APPEND(&from, "host", BCON_UTF8(holder->host), "boot", BCON_UTF8(holder->boot), "pid", BCON_INT64(holder->pid), "started",
              BCON_DATE_TIME(holder->started_wall_ms), "program", BCON_UTF8(holder->program), "kind",
              BCON_UTF8(lock_kind_name(holder->kind)));
  lock_append_name(&from, holder);
  /* $literal: a host name may begin with '$'. */
  BCON_APPEND(&set, "acquired_at", BCON_UTF8("$$NOW"), "expires_at", "{", "$add", "[", BCON_UTF8("$$NOW"), BCON_INT64(ttl_ms), "]", "}",
              "ttl_ms", BCON_INT64(ttl_ms), "holder", "{", "$literal", BCON_DOCUMENT(&from), "}");
  bson_destroy(&from);
  bson_append_document_begin(updates, "0", -1, &update);
  BCON_APPEND(&update, "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner", OWNER(owner), "}", "u", "[", "{", "$set",
              BCON_DOCUMENT(&set), "}", "]", "upsert", BCON_BOOL(true));
  bson_append_document_end(updates, &update);
  bson_destroy(&set);
}

/* A departure is the second statement of the same command: it is not done where the first fails, because another holds the lock. */
static enum outcome take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                         const struct lock_holder *holder, const struct departure *departure, struct error *error)
{
  bson_t *command = BCON_NEW("update", "locks"), updates;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  append_take(&updates, type, slot, owner, ttl_ms, holder);
  if (departure)
    wait_queue_append_departure(&updates, type, owner, departure);
  bson_append_array_end(command, &updates);
  /* The fence that follows, or the draw of a token, waits for the majority, and so for this as well. */
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_INT32(1), "}");
  int64_t count = 0, most = departure ? 2 : 1; /* the queue may be gone */
  enum outcome outcome = mongo_write(lockstore_mongo(store), "taking the lock", command, &count, error);
  if (outcome == OUTCOME_YES && (count < 1 || count > most)) {
    error_set(error, "taking the lock: the reply counts %lld documents, not 1", (long long)count);
    outcome = OUTCOME_UNKNOWN;
  }
  return outcome;
}

enum outcome lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                       const struct lock_holder *holder, struct error *error)
{
  return take(store, type, slot, owner, ttl_ms, holder, NULL, error);
}

enum outcome wait_queue_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                             const struct lock_holder *holder, const struct departure *departure, struct error *error)
{
  return take(store, type, slot, owner, ttl_ms, holder, departure, error);
}

enum outcome lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error)
{
  bson_t *command = BCON_NEW("delete", "locks", "deletes", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                             OWNER(seen), "$expr", STEALABLE, "}", "limit", BCON_INT32(1), "}", "]");
  struct error ignored; /* its next renewal tells it as well */
  enum outcome outcome = send_counted(store, "stealing the lock", command, error);
  if (outcome == OUTCOME_YES)
    (void)wakeup_send(store, type, WAKEUP_LOST, seen, 0, &ignored);
  return outcome;
}

/* Of each the one that is mine and not over. */
static void append_renewal(bson_t *updates, size_t number, const struct lock_renewal *renewal)
{
  char key[24];
  bson_t update;
  assert(renewal->ttl_ms > 0 && renewal->ttl_ms <= TTL_MS_MAX);
  snprintf(key, sizeof key, "%zu", number);
  bson_append_document_begin(updates, key, -1, &update);
  BCON_APPEND(&update, "q", "{", "type", BCON_UTF8(renewal->type), "slot", BCON_INT32(renewal->slot), "owner", OWNER(&renewal->owner),
              "$expr", "{", "$gt", "[", BCON_UTF8("$expires_at"), BCON_UTF8("$$NOW"), "]", "}", "}", "u", "[", "{", "$set", "{",
              "expires_at", "{", "$add", "[", BCON_UTF8("$$NOW"), BCON_INT64(renewal->ttl_ms), "]", "}", "ttl_ms",
              BCON_INT64(renewal->ttl_ms), "}", "}", "]");
  bson_append_document_end(updates, &update);
}

static enum outcome send_renewals(struct lockstore *store, const struct lock_renewal *renewals, size_t count, struct error *error)
{
  bson_t *command = BCON_NEW("update", "locks"), updates;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  for (size_t i = 0; i < count; i++)
    append_renewal(&updates, i, &renewals[i]);
  bson_append_array_end(command, &updates);
  BSON_APPEND_BOOL(command, "ordered", false);
  int64_t matched = 0; /* one sum: whose lock is lost it does not say */
  enum outcome outcome = mongo_write(lockstore_mongo(store), "renewing the lock", command, &matched, error);
  return outcome == OUTCOME_YES ? OUTCOME_YES : OUTCOME_UNKNOWN; /* a duplicate key: somebody's own index */
}

struct renewed {
  struct lock_renewal *renewals;
  size_t count;
};

static void renewed_one(void *context, const bson_t *document)
{
  struct renewed *renewed = context;
  struct owner owner;
  char type[TYPE_BYTES_MAX + 1];
  struct wait_queue queue = {.count = 0};
  int64_t slot, expires_ms, now_ms;
  if (!document_text(document, "type", type, sizeof type) || !document_int64(document, "slot", &slot) ||
      !document_date(document, "now", &now_ms))
    return;
  bool waits = slot == WAIT_QUEUE_SLOT;
  queue.now_ms = now_ms;
  if (waits)
    wait_queue_parse(document, &queue);
  else if (!document_binary(document, "owner", owner.bytes, OWNER_BYTES) || !document_date(document, "expires_at", &expires_ms) ||
           expires_ms <= now_ms)
    return;
  for (size_t i = 0; i < renewed->count; i++) {
    struct lock_renewal *renewal = &renewed->renewals[i];
    if (strcmp(renewal->type, type) != 0)
      continue;
    if (waits)
      renewal->awaited = wait_queue_has(&queue, renewal->kind == LOCK_BY_WORKER ? LOCK_BY_TOOL : LOCK_BY_WORKER);
    else if (renewal->slot == slot && memcmp(&renewal->owner, &owner, sizeof owner) == 0)
      renewal->outcome = OUTCOME_YES;
  }
}

static enum outcome look_at_renewals(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct renewed renewed = {.renewals = renewals, .count = count};
  char key[24];
  bson_t *command = BCON_NEW("find", "locks"), filter, type, types;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  BSON_APPEND_DOCUMENT_BEGIN(&filter, "type", &type);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&type, "$in", &types);
  for (size_t i = 0; i < count; i++) {
    snprintf(key, sizeof key, "%zu", i);
    BSON_APPEND_UTF8(&types, key, renewals[i].type);
    renewals[i].outcome = OUTCOME_NO;
    renewals[i].awaited = false;
  }
  bson_append_array_end(&type, &types);
  bson_append_document_end(&filter, &type);
  bson_append_document_end(command, &filter);
  BCON_APPEND(command, "projection", "{", "type", BCON_INT32(1), "slot", BCON_INT32(1), "owner", BCON_INT32(1), "expires_at", BCON_INT32(1),
              "queue", BCON_INT32(1), "now", BCON_UTF8("$$NOW"), "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "looking at the renewed locks", command, renewed_one, &renewed, error);
  bson_destroy(command);
  return outcome;
}

enum outcome lock_renew_all(struct lockstore *store, struct lock_renewal *renewals, size_t count, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  for (size_t done = 0; done < count && outcome == OUTCOME_YES; done += RENEWALS_MAX) {
    size_t some = count - done < RENEWALS_MAX ? count - done : RENEWALS_MAX;
    outcome = send_renewals(store, renewals + done, some, error);
    if (outcome == OUTCOME_YES)
      outcome = look_at_renewals(store, renewals + done, some, error);
  }
  for (size_t i = 0; i < count && outcome != OUTCOME_YES; i++)
    renewals[i].outcome = OUTCOME_UNKNOWN;
  return outcome;
}

enum outcome lock_renew(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms, struct error *error)
{
  struct lock_renewal renewal = {.type = type, .slot = slot, .owner = *owner, .ttl_ms = ttl_ms};
  return lock_renew_all(store, &renewal, 1, error) == OUTCOME_YES ? renewal.outcome : OUTCOME_UNKNOWN;
}

static bson_t *delete_mine(const char *type, int slot, const struct owner *owner)
{
  return BCON_NEW("delete", "locks", "deletes", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                  OWNER(owner), "}", "limit", BCON_INT32(1), "}", "]");
}

enum outcome lock_delete(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  bson_t *command = delete_mine(type, slot, owner);
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_INT32(1), "}");
  return send_counted(store, "releasing the lock", command, error);
}

/* A write that changes nothing is acknowledged when the server's last write is: so the acknowledgement is one of lock_delete's, too. */
enum outcome lock_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  return send_counted(store, "confirming that the lock is released", delete_mine(type, slot, owner), error);
}

/* ---- reading ---- */

/* Judged here, by the server's clock: as expressions of the server the same would cost it five times as much as the whole read. */
void lock_append_view(bson_t *command)
{
  BCON_APPEND(command, "projection", "{", "type", BCON_INT32(1), "slot", BCON_INT32(1), "owner", BCON_INT32(1), "holder", BCON_INT32(1),
              "ttl_ms", BCON_INT32(1), "acquired_at", BCON_INT32(1), "expires_at", BCON_INT32(1), "queue", BCON_INT32(1), "last",
              BCON_INT32(1), "now", BCON_UTF8("$$NOW"), "}");
}

static void parse_holder(const bson_t *document, struct lock_holder *holder)
{
  bson_t from;
  if (!document_document(document, "holder", &from))
    return;
  if (!document_text(&from, "host", holder->host, sizeof holder->host))
    strcpy(holder->host, "?");
  if (!document_text(&from, "boot", holder->boot, sizeof holder->boot))
    strcpy(holder->boot, "?");
  if (!document_text(&from, "program", holder->program, sizeof holder->program))
    strcpy(holder->program, "?");
  document_make_utf8(holder->host);
  document_make_utf8(holder->program);
  if (!document_int64(&from, "pid", &holder->pid))
    holder->pid = 0;
  lock_name_parse(&from, holder->name);
  (void)document_date(&from, "started", &holder->started_wall_ms);
  (void)lock_kind_parse(&from, &holder->kind); /* an older pawl has none */
}

/* As the filter of a theft judges it (STEALABLE). */
static void judge_lease(const bson_t *document, int64_t now_ms, struct lock_view *view)
{
  int64_t expires_ms;
  if (!document_int64(document, "ttl_ms", &view->ttl_ms) || view->ttl_ms < 1 || view->ttl_ms > TTL_MS_MAX)
    view->ttl_ms = TTL_MS_MAX;
  if (!document_date(document, "expires_at", &expires_ms)) {
    view->stealable = true;
    return;
  }
  view->left_ms = (expires_ms > 0 ? expires_ms : 0) - now_ms; /* a date before 1970 would overflow */
  view->stealable = view->left_ms < 0 || view->left_ms > 2 * view->ttl_ms;
}

/* What append_view's projection gave. */
enum outcome lock_parse_view(const bson_t *document, struct lock_view *view, struct error *error)
{
  int64_t now_ms, acquired_ms;
  *view = (struct lock_view){0};
  parse_holder(document, &view->holder);
  if (!document_date(document, "now", &now_ms)) {
    error_set(error, "reading the lock: the reply has no time");
    return OUTCOME_UNKNOWN;
  }
  judge_lease(document, now_ms, view);
  if (document_date(document, "acquired_at", &acquired_ms) && acquired_ms > 0)
    view->held_ms = now_ms - acquired_ms;
  if (document_binary(document, "owner", view->owner.bytes, OWNER_BYTES))
    return OUTCOME_YES;
  const struct document_shown type = document_show(document, "type"), slot = document_show(document, "slot");
  error_set(error,
            "the document of locks with type %s and slot %s is not pawl's: its owner is %s, and should be 16 bytes of binary, subtype 0; "
            "remove it with db.locks.deleteOne({type: %s, slot: %s})",
            type.text, slot.text, document_show(document, "owner").text, document_has(document, "type") ? type.text : "null",
            document_has(document, "slot") ? slot.text : "null");
  return OUTCOME_REFUSED;
}

struct reading {
  enum outcome outcome;
  struct lock_view *view;
  struct wait_queue *queue;
  struct error *error;
};

static void read_one(void *context, const bson_t *document)
{
  struct reading *reading = context;
  int64_t slot = 0, now_ms;
  bool waits = document_int64(document, "slot", &slot) && slot == WAIT_QUEUE_SLOT;
  if (document_date(document, "now", &now_ms))
    reading->queue->now_ms = now_ms;
  if (waits)
    wait_queue_parse(document, reading->queue);
  else
    reading->outcome = lock_parse_view(document, reading->view, reading->error);
}

/* One find for both: they are read at one moment. The server tells its time with a document; where there is none, nobody needs it. */
enum outcome wait_queue_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct wait_queue *queue,
                             struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "locks", "filter", "{", "type", BCON_UTF8(type), "slot", "{", "$in", "[", BCON_INT32(slot),
                             BCON_INT32(WAIT_QUEUE_SLOT), "]", "}", "}", "singleBatch", BCON_BOOL(true));
  lock_append_view(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct reading reading = {.outcome = OUTCOME_NO, .view = view, .queue = queue, .error = error};
  *view = (struct lock_view){0};
  queue->count = 0;
  queue->now_ms = 0;
  queue->has_last = false;
  enum outcome outcome = mongo_find(mongo, "reading the lock", command, read_one, &reading, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES ? reading.outcome : outcome;
}

struct slots_reading {
  enum outcome outcome;
  int slots;
  struct slot_view *views;
  struct lock_view *view;
  struct wait_queue *queue;
  struct error *error;
};

static void read_slot(void *context, const bson_t *document)
{
  struct slots_reading *reading = context;
  struct lock_view view;
  int64_t slot, now_ms;
  if (document_date(document, "now", &now_ms))
    reading->queue->now_ms = now_ms;
  if (!document_int64(document, "slot", &slot) || slot >= reading->slots)
    return;
  if (slot == WAIT_QUEUE_SLOT) {
    wait_queue_parse(document, reading->queue);
    return;
  }
  enum outcome outcome = lock_parse_view(document, &view, reading->error);
  if (outcome != OUTCOME_YES)
    reading->outcome = outcome;
  reading->views[slot] = (struct slot_view){.owner = view.owner, .left_ms = view.left_ms, .there = true, .stealable = view.stealable};
  bool first = reading->view->left_ms <= 0 || view.left_ms < reading->view->left_ms;
  if (!view.stealable && view.left_ms > 0 && first)
    *reading->view = view;
}

enum outcome wait_queue_read_slots(struct lockstore *store, const char *type, int slots, struct slot_view *views, struct lock_view *view,
                                   struct wait_queue *queue, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  assert(slots >= 1 && slots <= SLOTS_MAX);
  bson_t *command = BCON_NEW("find", "locks", "filter", "{", "type", BCON_UTF8(type), "slot", "{", "$gte", BCON_INT32(WAIT_QUEUE_SLOT),
                             "$lt", BCON_INT32(slots), "}", "}", "batchSize", BCON_INT32(slots + 1));
  lock_append_view(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct slots_reading reading = {.outcome = OUTCOME_YES, .slots = slots, .views = views, .view = view, .queue = queue, .error = error};
  memset(views, 0, (size_t)slots * sizeof *views);
  *view = (struct lock_view){0};
  queue->count = 0;
  queue->now_ms = 0;
  queue->has_last = false;
  enum outcome outcome = mongo_find(mongo, "reading the slots of the lock", command, read_slot, &reading, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES ? reading.outcome : outcome;
}

enum outcome lock_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct error *error)
{
  struct wait_queue queue;
  return wait_queue_read(store, type, slot, view, &queue, error);
}
