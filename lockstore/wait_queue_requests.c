#include "lockstore/document.h"
#include "lockstore/store.h"

/*
 * The document {type, slot: -1, queue: [{owner, kind, at, ttl_ms, called, who}, …], last: {owner, kind}}. A queue that is rolled back costs
 * a timer's period, and waiting for the journal would cost the server twice the work: so {w: 1}.
 */

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

static bool parse_waiter(const bson_t *document, struct waiter *waiter)
{
  *waiter = (struct waiter){.called_ms = 0};
  if (document_date(document, "called", &waiter->called_ms) && waiter->called_ms < 0)
    waiter->called_ms = 1;
  return document_binary(document, "owner", waiter->owner.bytes, OWNER_BYTES) && lock_kind_parse(document, &waiter->kind) &&
         document_date(document, "at", &waiter->at_ms) && document_int64(document, "ttl_ms", &waiter->ttl_ms) && waiter->ttl_ms > 0 &&
         waiter->ttl_ms <= WAITER_TTL_MS_MAX && waiter->at_ms > 0;
}

void wait_queue_parse(const bson_t *document, struct wait_queue *queue)
{
  bson_iter_t at, item;
  bson_t last;
  queue->count = 0;
  queue->has_last = document_document(document, "last", &last) && document_binary(&last, "owner", queue->last.bytes, OWNER_BYTES) &&
                    lock_kind_parse(&last, &queue->last_kind);
  if (!bson_iter_init_find(&at, document, "queue") || !BSON_ITER_HOLDS_ARRAY(&at) || !bson_iter_recurse(&at, &item))
    return;
  while (bson_iter_next(&item) && queue->count < WAITERS_MAX) {
    const uint8_t *bytes;
    uint32_t length;
    bson_t entry;
    if (!BSON_ITER_HOLDS_DOCUMENT(&item))
      continue;
    bson_iter_document(&item, &length, &bytes);
    if (bson_init_static(&entry, bytes, length) && parse_waiter(&entry, &queue->waiters[queue->count]))
      queue->count++;
  }
}

static enum outcome send_one(struct lockstore *store, const char *doing, bson_t *command, struct error *error)
{
  int64_t count = 0;
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_INT32(1), "}");
  enum outcome outcome = mongo_write(lockstore_mongo(store), doing, command, &count, error);
  return outcome == OUTCOME_YES && count == 0 ? OUTCOME_NO : outcome;
}

/* A waiter that is there already is not matched, and a second document cannot be inserted: then the index says no. */
enum outcome wait_queue_join(struct lockstore *store, const char *type, const struct waiter *me, const struct lock_holder *who,
                             const struct lock_view *held, struct error *error)
{
  bson_t change = BSON_INITIALIZER, from = BSON_INITIALIZER;
  char last[24];
  snprintf(last, sizeof last, "queue.%d", WAITERS_MAX - 1);
  BCON_APPEND(&from, "host", BCON_UTF8(who->host), "pid", BCON_INT64(who->pid), "program", BCON_UTF8(who->program));
  lock_append_name(&from, who);
  BCON_APPEND(&change, "$push", "{", "queue", "{", "owner", OWNER(&me->owner), "kind", BCON_UTF8(lock_kind_name(me->kind)), "at",
              BCON_DATE_TIME(me->at_ms), "ttl_ms", BCON_INT64(me->ttl_ms), "who", BCON_DOCUMENT(&from), "}", "}");
  bson_destroy(&from);
  if (held)
    BCON_APPEND(&change, "$setOnInsert", "{", "last", "{", "owner", OWNER(&held->owner), "kind",
                BCON_UTF8(lock_kind_name(held->holder.kind)), "}", "}");
  bson_t *command = BCON_NEW("update", "locks", "updates", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(WAIT_QUEUE_SLOT),
                             "queue.owner", "{", "$ne", OWNER(&me->owner), "}", last, "{", "$exists", BCON_BOOL(false), "}", "}", "u",
                             BCON_DOCUMENT(&change), "upsert", BCON_BOOL(true), "}", "]");
  bson_destroy(&change);
  return send_one(store, "waiting for the lock", command, error);
}

enum outcome wait_queue_renew(struct lockstore *store, const char *type, const struct owner *me, int64_t now_ms, struct error *error)
{
  bson_t *command = BCON_NEW("update", "locks", "updates", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(WAIT_QUEUE_SLOT),
                             "queue.owner", OWNER(me), "}", "u", "{", "$set", "{", "queue.$.at", BCON_DATE_TIME(now_ms), "}", "$unset", "{",
                             "queue.$.called", BCON_INT32(1), "}", "}", "}", "]");
  return send_one(store, "waiting on for the lock", command, error);
}

enum outcome wait_queue_remove_empty(struct lockstore *store, const char *type, struct error *error)
{
  bson_t *command = BCON_NEW("delete", "locks", "deletes", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(WAIT_QUEUE_SLOT),
                             "queue", "{", "$size", BCON_INT32(0), "}", "}", "limit", BCON_INT32(1), "}", "]");
  return send_one(store, "removing the empty wait queue", command, error);
}

enum outcome wait_queue_leave(struct lockstore *store, const char *type, const struct owner *me, struct error *error)
{
  bson_t *command = BCON_NEW("update", "locks", "updates", "[", "{", "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(WAIT_QUEUE_SLOT),
                             "}", "u", "{", "$pull", "{", "queue", "{", "owner", OWNER(me), "}", "}", "}", "}", "]");
  enum outcome outcome = send_one(store, "leaving the wait queue", command, error);
  if (outcome == OUTCOME_YES && wait_queue_remove_empty(store, type, error) == OUTCOME_UNKNOWN)
    return OUTCOME_UNKNOWN;
  return outcome;
}

void wait_queue_append_departure(bson_t *updates, const char *type, const struct owner *taker, const struct departure *departure)
{
  bson_t update, gone = BSON_INITIALIZER;
  char key[16];
  for (int i = 0; i < departure->count; i++) {
    snprintf(key, sizeof key, "%d", i);
    BSON_APPEND_BINARY(&gone, key, BSON_SUBTYPE_BINARY, departure->owners[i].bytes, OWNER_BYTES);
  }
  bson_append_document_begin(updates, "1", -1, &update);
  /* Of what is no array nothing can be removed: that would be an error, and the answer of the take with it. */
  BCON_APPEND(&update, "q", "{", "type", BCON_UTF8(type), "slot", BCON_INT32(WAIT_QUEUE_SLOT), "queue", "{", "$type", "array", "}", "}",
              "u", "{", "$pull", "{", "queue", "{", "owner", "{", "$in", BCON_ARRAY(&gone), "}", "}", "}", "$set", "{", "last", "{",
              "owner", OWNER(taker), "kind", BCON_UTF8(lock_kind_name(departure->kind)), "}", "}", "}");
  bson_append_document_end(updates, &update);
  bson_destroy(&gone);
}

enum outcome wait_queue_call(struct lockstore *store, const char *type, const struct owner *waiter, const struct wait_queue *seen,
                             struct error *error)
{
  bson_t filter = BSON_INITIALIZER;
  BCON_APPEND(&filter, "type", BCON_UTF8(type), "slot", BCON_INT32(WAIT_QUEUE_SLOT), "queue.owner", OWNER(waiter));
  if (seen->has_last)
    BCON_APPEND(&filter, "last.owner", OWNER(&seen->last));
  else
    BCON_APPEND(&filter, "last.owner", "{", "$exists", BCON_BOOL(false), "}");
  bson_t *command = BCON_NEW("update", "locks", "updates", "[", "{", "q", BCON_DOCUMENT(&filter), "u", "{", "$currentDate", "{",
                             "queue.$.called", BCON_BOOL(true), "}", "}", "}", "]");
  bson_destroy(&filter);
  return send_one(store, "calling the next waiter", command, error);
}
