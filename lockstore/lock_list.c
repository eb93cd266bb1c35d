#include "lockstore/document.h"
#include "lockstore/store.h"

/* What is held, and who waits: for people. */

struct listing {
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
  bool ok = lock_parse_view(document, &view, &error) == OUTCOME_YES;
  bool named = document_text(document, "type", type, sizeof type);
  bool numbered = document_int64(document, "slot", &slot) && slot >= 0 && slot <= INT32_MAX;
  if (!named)
    snprintf(type, sizeof type, "%s", document_show(document, "type").text);
  if (ok && !(named && numbered)) {
    error_set(&error, "not a mutex: type is %s, slot is %s", document_show(document, "type").text, document_show(document, "slot").text);
    ok = false;
  }
  listing->each(listing->context, type, numbered ? (int)slot : 0, &view, ok ? NULL : error.text);
}

/* The locks, or the wait queues. */
static bson_t *find_command(const char *type, const char *wait_queue)
{
  bson_t *command = BCON_NEW("find", "locks"), filter;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  if (type != NULL)
    BSON_APPEND_UTF8(&filter, "type", type);
  BCON_APPEND(&filter, "slot", "{", wait_queue, BCON_INT32(WAIT_QUEUE_SLOT), "}");
  bson_append_document_end(command, &filter);
  BCON_APPEND(command, "sort", "{", "type", BCON_INT32(1), "slot", BCON_INT32(1), "}");
  return command;
}

enum outcome lock_list(struct lockstore *store, const char *type, lock_each *each, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = find_command(type, "$ne");
  lock_append_view(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct listing listing = {.each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "listing the locks", command, list_one, &listing, error);
  bson_destroy(command);
  return outcome;
}

/* ---- who waits ---- */

struct waiters {
  waiter_each *each;
  void *context;
};

static void who_parse(const bson_t *entry, struct lock_holder *who)
{
  bson_t from;
  *who = (struct lock_holder){.pid = 0};
  (void)lock_kind_parse(entry, &who->kind);
  if (!document_document(entry, "who", &from))
    return;
  (void)document_text(&from, "host", who->host, sizeof who->host);
  (void)document_text(&from, "program", who->program, sizeof who->program);
  document_make_utf8(who->host);
  document_make_utf8(who->program);
  lock_name_parse(&from, who->name);
  if (!document_int64(&from, "pid", &who->pid))
    who->pid = 0;
}

/* As waiter_counts (wait_queue.h) judges it. */
static bool entry_counts(const bson_t *entry, int64_t now_ms)
{
  int64_t at_ms, ttl_ms;
  return document_date(entry, "at", &at_ms) && document_int64(entry, "ttl_ms", &ttl_ms) && at_ms > 0 && ttl_ms > 0 &&
         ttl_ms <= WAITER_TTL_MS_MAX && now_ms - at_ms <= ttl_ms && at_ms - now_ms <= ttl_ms;
}

static void list_waiters(void *context, const bson_t *document)
{
  const struct waiters *waiters = context;
  char type[TYPE_BYTES_MAX + 1];
  bson_iter_t queue, at;
  int64_t now_ms = 0;
  int place = 0;
  (void)document_date(document, "now", &now_ms);
  if (!document_text(document, "type", type, sizeof type) || !bson_iter_init_find(&queue, document, "queue") ||
      !BSON_ITER_HOLDS_ARRAY(&queue) || !bson_iter_recurse(&queue, &at))
    return;
  while (bson_iter_next(&at)) {
    const uint8_t *bytes;
    uint32_t length;
    bson_t entry;
    struct lock_holder who;
    if (!BSON_ITER_HOLDS_DOCUMENT(&at))
      continue;
    bson_iter_document(&at, &length, &bytes);
    if (!bson_init_static(&entry, bytes, length))
      continue;
    who_parse(&entry, &who);
    waiters->each(waiters->context, type, place++, &who, entry_counts(&entry, now_ms));
  }
}

enum outcome lock_list_waiters(struct lockstore *store, const char *type, waiter_each *each, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = find_command(type, "$eq");
  BCON_APPEND(command, "projection", "{", "type", BCON_INT32(1), "queue", BCON_INT32(1), "now", BCON_UTF8("$$NOW"), "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct waiters waiters = {.each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "listing who waits", command, list_waiters, &waiters, error);
  bson_destroy(command);
  return outcome;
}
