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
  bson_t *command = BCON_NEW("find", "locks", "filter", "{", "slot", "{", "$ne", BCON_INT32(WAIT_QUEUE_SLOT), "}", "}", "sort", "{", "type",
                             BCON_INT32(1), "slot", BCON_INT32(1), "}");
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
  if (!document_int64(&from, "pid", &who->pid))
    who->pid = 0;
}

static void list_waiters(void *context, const bson_t *document)
{
  const struct waiters *waiters = context;
  char type[TYPE_BYTES_MAX + 1];
  bson_iter_t queue, at;
  int place = 0;
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
    waiters->each(waiters->context, type, place++, &who);
  }
}

enum outcome lock_list_waiters(struct lockstore *store, waiter_each *each, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command =
      BCON_NEW("find", "locks", "filter", "{", "slot", BCON_INT32(WAIT_QUEUE_SLOT), "}", "sort", "{", "type", BCON_INT32(1), "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  struct waiters waiters = {.each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "listing who waits", command, list_waiters, &waiters, error);
  bson_destroy(command);
  return outcome;
}
