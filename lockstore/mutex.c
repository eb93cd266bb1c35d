#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/store.h"
#include "lockstore/wakeup.h"

#include <assert.h>

/*
 * The documents of `locks`. All times in them are the server's: they are made and judged by $$NOW inside one command.
 *
 * A document may have been written by anybody. What is judged, and how:
 *   owner       not 16 bytes of binary, subtype 0: REFUSED, for stealing names the owner
 *   expires_at  not a date: has expired
 *   ttl_ms      not a number of 1 .. TTL_MS_MAX: counts as TTL_MS_MAX, which ends any lease by the rule of the jumped clock
 *   holder      shown as far as it can be read; its `process`, if that is a nonce, is told of a theft
 *   waiters     what is no nonce is left out
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

/* clang-format off */
#define WAITERS "{", "$cond", "[", "{", "$isArray", BCON_UTF8("$waiters"), "}", BCON_UTF8("$waiters"), "[", "]", "]", "}"
/* clang-format on */

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

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

enum outcome lock_take(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t ttl_ms,
                       const struct lock_holder *holder, struct error *error)
{
  assert(ttl_ms > 0 && ttl_ms <= TTL_MS_MAX);
  struct waiters waiters;
  bson_t set = BSON_INITIALIZER, row;
  handed_take(&store->handed, type, slot, &waiters);
  /* $literal: a host name may begin with '$'. */
  BCON_APPEND(&set, "acquired_at", BCON_UTF8("$$NOW"), "expires_at", "{", "$add", "[", BCON_UTF8("$$NOW"), BCON_INT64(ttl_ms), "]", "}",
              "ttl_ms", BCON_INT64(ttl_ms), "holder", "{", "$literal", "{", "host", BCON_UTF8(holder->host), "boot",
              BCON_UTF8(holder->boot), "pid", BCON_INT64(holder->pid), "started", BCON_DATE_TIME(holder->started_wall_ms), "program",
              BCON_UTF8(holder->program), "process", OWNER(&store->process), "}", "}");
  if (waiters.count > 0) {
    BSON_APPEND_DOCUMENT_BEGIN(&set, "waiters", &row);
    waiters_append(&row, "$literal", &waiters);
    bson_append_document_end(&set, &row);
  }
  bson_t *command = BCON_NEW("update", "locks", "updates", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                             OWNER(owner), "}", "u", "[", "{", "$set", BCON_DOCUMENT(&set), "}", "]", "upsert", BCON_BOOL(true), "}", "]");
  bson_destroy(&set);
  /* The fence that follows waits for the majority, and so for this as well. The other slots have none. */
  if (slot == 0)
    BCON_APPEND(command, "writeConcern", "{", "w", BCON_INT32(1), "}");
  int64_t count = 0;
  enum outcome outcome = mongo_write(lockstore_mongo(store), "taking the lock", command, &count, error);
  if (outcome == OUTCOME_YES && count != 1) {
    error_set(error, "taking the lock: the reply counts %lld documents, not 1", (long long)count);
    outcome = OUTCOME_UNKNOWN;
  }
  if (outcome != OUTCOME_YES)
    handed_put(&store->handed, type, slot, &waiters);
  return outcome;
}

/*
 * Sends and destroys a findAndModify that removes, and tells what was there of the row and the holder's process. Of the fields only
 * these are asked for. Majority and journal, unless it says otherwise.
 */
struct removed {
  struct waiters waiters;
  bool has_process;
  struct owner process;
};

static enum outcome send_removing(struct lockstore *store, const char *doing, bson_t *command, struct removed *removed, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t reply, value, holder;
  int code;
  removed->waiters.count = 0;
  removed->has_process = false;
  BCON_APPEND(command, "remove", BCON_BOOL(true), "fields", "{", "waiters", BCON_INT32(1), "holder", BCON_INT32(1), "}");
  if (!document_has(command, "writeConcern"))
    mongo_append_write_concern(command);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, doing, command, &reply, &code, error);
  if (outcome == OUTCOME_YES && !document_document(&reply, "value", &value)) {
    outcome = OUTCOME_NO;
  } else if (outcome == OUTCOME_YES) {
    waiters_parse(&value, &removed->waiters);
    removed->has_process =
        document_document(&value, "holder", &holder) && document_binary(&holder, "process", removed->process.bytes, OWNER_BYTES);
  } else if (outcome == OUTCOME_NO) { /* a duplicate key, of a removal? */
    outcome = OUTCOME_UNKNOWN;
  }
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

enum outcome lock_steal(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error)
{
  bson_t *command = BCON_NEW("findAndModify", "locks", "query", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                             OWNER(seen), "$expr", STEALABLE, "}");
  struct removed removed;
  struct error ignored;
  enum outcome outcome = send_removing(store, "stealing the lock", command, &removed, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  handed_put(&store->handed, type, slot, &removed.waiters);
  if (removed.has_process)
    (void)wakeup_send(store, type, WAKEUP_LOST, &removed.process, &ignored); /* its next renewal tells it as well */
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

static bool parse_date(const bson_t *document, const char *field, int64_t *ms)
{
  bson_iter_t at;
  if (!bson_iter_init_find(&at, document, field) || !BSON_ITER_HOLDS_DATE_TIME(&at))
    return false;
  *ms = bson_iter_date_time(&at);
  return true;
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
  int64_t slot, expires_ms, now_ms;
  if (!document_text(document, "type", type, sizeof type) || !document_int64(document, "slot", &slot) ||
      !document_binary(document, "owner", owner.bytes, OWNER_BYTES) || !parse_date(document, "expires_at", &expires_ms) ||
      !parse_date(document, "now", &now_ms) || expires_ms <= now_ms)
    return;
  for (size_t i = 0; i < renewed->count; i++) {
    struct lock_renewal *renewal = &renewed->renewals[i];
    if (renewal->slot == slot && memcmp(&renewal->owner, &owner, sizeof owner) == 0 && strcmp(renewal->type, type) == 0)
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
  }
  bson_append_array_end(&type, &types);
  bson_append_document_end(&filter, &type);
  bson_append_document_end(command, &filter);
  BCON_APPEND(command, "projection", "{", "type", BCON_INT32(1), "slot", BCON_INT32(1), "owner", BCON_INT32(1), "expires_at", BCON_INT32(1),
              "now", BCON_UTF8("$$NOW"), "}");
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

/*
 * Removes it if a fail-over has brought it back, else nothing; and a write that changes nothing is acknowledged when the server's last
 * write is. So an acknowledgement is one of the removal before, too.
 */
static enum outcome release_confirm(struct lockstore *store, const char *type, int slot, const struct owner *owner, struct error *error)
{
  bson_t *command = BCON_NEW("delete", "locks", "deletes", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                             OWNER(owner), "}", "limit", BCON_INT32(1), "}", "]");
  return send_counted(store, "confirming that the lock is released", command, error);
}

/* Who waits is woken as soon as the primary has removed it: he need not wait for the others as well. */
enum outcome lock_release(struct lockstore *store, const char *type, int slot, const struct owner *owner, int64_t epoch,
                          struct error *error)
{
  bson_t *command = BCON_NEW("findAndModify", "locks", "query", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                             OWNER(owner), "}", "writeConcern", "{", "w", BCON_INT32(1), "}");
  struct removed removed;
  enum outcome outcome = send_removing(store, "releasing the lock", command, &removed, error);
  if (outcome != OUTCOME_YES && outcome != OUTCOME_NO)
    return outcome;
  if (outcome == OUTCOME_YES)
    waiters_wake(store, type, slot, epoch, &removed.waiters);
  enum outcome confirmed = release_confirm(store, type, slot, owner, error);
  return confirmed == OUTCOME_NO ? outcome : confirmed;
}

/*
 * The row afterwards. Who came with a row that was handed to him (he was woken, and another was faster) goes in front with it; else, at the
 * end. A late copy finds him in it and changes nothing.
 */
enum outcome lock_wait(struct lockstore *store, const char *type, int slot, const struct owner *seen, struct error *error)
{
  struct waiters waiters, front = {.count = 0};
  bson_t mine = BSON_INITIALIZER, *row;
  if (mongo_avoids(lockstore_mongo(store), box_of(&store->process).text)) {
    error_set(error, "waiting for the lock: nothing can wake this process");
    return OUTCOME_UNKNOWN;
  }
  handed_take(&store->handed, type, slot, &waiters);
  waiters_add(&front, &store->process);
  for (int i = 0; i < waiters.count; i++)
    waiters_add(&front, &waiters.processes[i]);
  waiters_append(&mine, "$literal", &front);
  if (waiters.count > 0)
    row = BCON_NEW("$concatArrays", "[", BCON_DOCUMENT(&mine), "{", "$filter", "{", "input", WAITERS, "cond", "{", "$not", "[", "{", "$in",
                   "[", BCON_UTF8("$$this"), BCON_DOCUMENT(&mine), "]", "}", "]", "}", "}", "}", "]");
  else
    row = BCON_NEW("$cond", "[", "{", "$in", "[", OWNER(&store->process), WAITERS, "]", "}", WAITERS, "{", "$concatArrays", "[", WAITERS,
                   BCON_DOCUMENT(&mine), "]", "}", "]");
  bson_t *command = BCON_NEW("update", "locks", "updates", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "owner",
                             OWNER(seen), "}", "u", "[", "{", "$set", "{", "waiters", "{", "$slice", "[", BCON_DOCUMENT(row),
                             BCON_INT32(WAITERS_MAX), "]", "}", "}", "}", "]", "}", "]");
  bson_destroy(row);
  bson_destroy(&mine);
  /* A row that is rolled back costs a timer's period, and waiting for the journal would cost the server twice the work. */
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_INT32(1), "}");
  enum outcome outcome = send_counted(store, "waiting for the lock", command, error);
  if (outcome != OUTCOME_YES)
    handed_put(&store->handed, type, slot, &waiters);
  return outcome;
}

/* ---- reading ---- */

/* Judged here, by the server's clock: as expressions of the server the same would cost it five times as much as the whole read. */
static void append_view(bson_t *command)
{
  BCON_APPEND(command, "projection", "{", "type", BCON_INT32(1), "slot", BCON_INT32(1), "owner", BCON_INT32(1), "holder", BCON_INT32(1),
              "ttl_ms", BCON_INT32(1), "expires_at", BCON_INT32(1), "waiters", BCON_INT32(1), "now", BCON_UTF8("$$NOW"), "}");
}

static void parse_holder(const bson_t *document, struct lock_holder *holder)
{
  bson_t from;
  bson_iter_t at;
  if (!document_document(document, "holder", &from))
    return;
  if (!document_text(&from, "host", holder->host, sizeof holder->host))
    strcpy(holder->host, "?");
  if (!document_text(&from, "boot", holder->boot, sizeof holder->boot))
    strcpy(holder->boot, "?");
  if (!document_text(&from, "program", holder->program, sizeof holder->program))
    strcpy(holder->program, "?");
  if (!document_int64(&from, "pid", &holder->pid))
    holder->pid = 0;
  if (bson_iter_init_find(&at, &from, "started") && BSON_ITER_HOLDS_DATE_TIME(&at))
    holder->started_wall_ms = bson_iter_date_time(&at);
}

/* As the filter of a theft judges it (STEALABLE). */
static void judge_lease(const bson_t *document, int64_t now_ms, struct lock_view *view)
{
  int64_t expires_ms;
  if (!document_int64(document, "ttl_ms", &view->ttl_ms) || view->ttl_ms < 1 || view->ttl_ms > TTL_MS_MAX)
    view->ttl_ms = TTL_MS_MAX;
  if (!parse_date(document, "expires_at", &expires_ms)) {
    view->stealable = true;
    return;
  }
  view->left_ms = (expires_ms > 0 ? expires_ms : 0) - now_ms; /* a date before 1970 would overflow */
  view->stealable = view->left_ms < 0 || view->left_ms > 2 * view->ttl_ms;
}

/* What append_view's projection gave. */
static enum outcome parse_view(const struct lockstore *store, const bson_t *document, struct lock_view *view, struct error *error)
{
  int64_t now_ms;
  struct waiters waiters;
  *view = (struct lock_view){0};
  parse_holder(document, &view->holder);
  if (!parse_date(document, "now", &now_ms)) {
    error_set(error, "reading the lock: the reply has no time");
    return OUTCOME_UNKNOWN;
  }
  judge_lease(document, now_ms, view);
  waiters_parse(document, &waiters);
  view->waits = waiters_have(&waiters, &store->process);
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

struct first {
  const struct lockstore *store;
  bool found;
  struct lock_view *view;
  enum outcome outcome;
  struct error *error;
};

static void read_first(void *context, const bson_t *document)
{
  struct first *first = context;
  if (!first->found)
    first->outcome = parse_view(first->store, document, first->view, first->error);
  first->found = true;
}

enum outcome lock_read(struct lockstore *store, const char *type, int slot, struct lock_view *view, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "locks", "filter", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(slot), "}", "limit", BCON_INT32(1),
                             "singleBatch", BCON_BOOL(true));
  append_view(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct first first = {.store = store, .view = view, .outcome = OUTCOME_NO, .error = error};
  *view = (struct lock_view){0};
  enum outcome outcome = mongo_find(mongo, "reading the lock", command, read_first, &first, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES ? first.outcome : outcome;
}

struct listing {
  const struct lockstore *store;
  lock_each *each;
  void *context;
};

static void list_one(void *context, const bson_t *document)
{
  struct listing *listing = context;
  struct lock_view view;
  struct error error = {.text = ""};
  char type[TYPE_BYTES_MAX + 1];
  int64_t slot = 0;
  bool ok = parse_view(listing->store, document, &view, &error) == OUTCOME_YES;
  bool named = document_text(document, "type", type, sizeof type), numbered = document_int64(document, "slot", &slot);
  if (!named)
    snprintf(type, sizeof type, "%s", document_show(document, "type").text);
  if (ok && !(named && numbered && slot >= 0 && slot <= INT32_MAX)) {
    error_set(&error, "not a mutex: type is %s, slot is %s", document_show(document, "type").text, document_show(document, "slot").text);
    ok = false;
  }
  listing->each(listing->context, type, ok ? (int)slot : 0, &view, ok ? NULL : error.text);
}

enum outcome lock_list(struct lockstore *store, lock_each *each, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "locks", "filter", "{", "}", "sort", "{", "type", BCON_INT32(1), "slot", BCON_INT32(1), "}");
  append_view(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct listing listing = {.store = store, .each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "listing the locks", command, list_one, &listing, error);
  bson_destroy(command);
  return outcome;
}
