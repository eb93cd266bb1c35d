#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/ledger_requests.h"
#include "lockstore/store.h"

/* The changes of a ledger's epoch: its first one, each next one, and its end. ledger_floor.c has their order. */

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

/* The very state that was seen: epoch 0 is one that is being made, and its number says which. */
static void append_seen(bson_t *query, const char *type, int64_t epoch, int64_t birth)
{
  BCON_APPEND(query, "_id", BCON_UTF8(type), "epoch", BCON_INT64(epoch));
  if (birth != 0)
    BSON_APPEND_INT64(query, "birth", birth);
}

/* ---- making one ---- */

enum outcome ledger_insert(struct lockstore *store, const char *type, int64_t birth, struct error *error)
{
  int64_t count = 0;
  bson_t *command = BCON_NEW("insert", "ledger", "documents", "[", "{", "_id", BCON_UTF8(type), "v", BCON_INT32(1), "epoch", BCON_INT64(0),
                             "birth", BCON_INT64(birth), "}", "]", "writeConcern", "{", "w", BCON_INT32(1), "}");
  return mongo_write(lockstore_mongo(store), "making the ledger", command, &count, error);
}

struct made_reading {
  const char *type;
  struct ledger_from *from;
  enum outcome outcome;
  struct error *error;
};

static bool parse_floor(const bson_t *document, int64_t *floor)
{
  return document_int64(document, "epoch", floor) && *floor >= 0 && *floor < LEDGER_EPOCH_MAX;
}

static enum outcome floor_is_wrong(struct error *error)
{
  error_set(error, "the floor of all ledgers (" LEDGER_FLOOR ") cannot be used: its epoch is no whole number from 0 on and below 2^59");
  return OUTCOME_REFUSED;
}

static void made_read(void *context, const bson_t *document)
{
  struct made_reading *reading = context;
  struct ledger ledger;
  struct error ignored;
  bson_iter_t at, in;
  bson_t floor;
  const uint8_t *bytes;
  uint32_t length;
  reading->outcome = ledger_parse(document, reading->type, &ledger, &ignored) == OUTCOME_NO ? OUTCOME_YES : OUTCOME_NO;
  *reading->from = (struct ledger_from){.birth = ledger.birth};
  if (reading->outcome == OUTCOME_NO || !bson_iter_init_find(&at, document, "floor") || !BSON_ITER_HOLDS_ARRAY(&at) ||
      !bson_iter_recurse(&at, &in) || !bson_iter_next(&in) || !BSON_ITER_HOLDS_DOCUMENT(&in))
    return; /* no floor is 0 */
  bson_iter_document(&in, &length, &bytes);
  if (!bson_init_static(&floor, bytes, length) || !parse_floor(&floor, &reading->from->epoch))
    reading->outcome = floor_is_wrong(reading->error);
}

enum outcome ledger_read_made(struct lockstore *store, const char *type, struct ledger_from *from, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("aggregate", "ledger", "pipeline", "[", "{", "$match", "{", "_id", BCON_UTF8(type), "}", "}", "{", "$lookup",
                             "{", "from", BCON_UTF8("ledger"), "pipeline", "[", "{", "$match", "{", "_id", BCON_UTF8(LEDGER_FLOOR), "}",
                             "}", "]", "as", BCON_UTF8("floor"), "}", "}", "]", "cursor", "{", "}");
  struct made_reading reading = {.type = type, .from = from, .outcome = OUTCOME_UNKNOWN, .error = error};
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  error_set(error, "the ledger of %s was just made, and is not there", type);
  enum outcome outcome = mongo_find(mongo, "reading the floor", command, made_read, &reading, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES ? ledger_name_database(reading.outcome, mongo, error) : outcome;
}

struct floor_reading {
  int64_t floor;
  bool ok;
};

static void floor_read(void *context, const bson_t *document)
{
  struct floor_reading *reading = context;
  reading->ok = parse_floor(document, &reading->floor);
}

/* After all that this process has seen so far. */
enum outcome ledger_floor(struct lockstore *store, int64_t *floor, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "ledger", "filter", "{", "_id", BCON_UTF8(LEDGER_FLOOR), "}", "limit", BCON_INT32(1), "singleBatch",
                             BCON_BOOL(true));
  struct floor_reading reading = {.ok = true};
  mongo_append_read_concern(mongo, command, "majority", true);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "reading the floor", command, floor_read, &reading, error);
  bson_destroy(command);
  *floor = reading.floor;
  if (outcome != OUTCOME_YES || reading.ok)
    return outcome;
  return ledger_name_database(floor_is_wrong(error), mongo, error);
}

/* What a ledger without an epoch gets with its first one, in a pipeline. */
static void append_first(bson_t *set)
{
  BCON_APPEND(set, "clean", BCON_BOOL(false), "seq", BCON_INT64(0), "items", BCON_INT64(0), "settled", BCON_INT64(0), "birth",
              BCON_UTF8("$$REMOVE"));
}

/* ---- fence ---- */

/* The reply of findAndModify: its `value` is the document as it was, or null. */
static enum outcome parse_fenced(const bson_t *reply, const char *type, const struct ledger_from *from, struct ledger *before,
                                 struct error *error)
{
  bson_t value;
  if (!document_document(reply, "value", &value))
    return OUTCOME_NO;
  enum outcome outcome = ledger_parse(&value, type, before, error);
  if (from->birth == 0 || outcome != OUTCOME_NO)
    return outcome;
  *before = (struct ledger){.epoch = from->epoch};
  return OUTCOME_YES;
}

/*
 * A pipeline, because what becomes of `guarded` depends on the document: an end that is vouched for stays so, and to a clean one no write
 * is under way.
 */
static void append_guarded(bson_t *set, int64_t epoch_seen, enum fencer fencer)
{
  if (fencer == FENCER_NETWORK)
    BSON_APPEND_UTF8(set, "guarded", "$$REMOVE");
  else
    BCON_APPEND(set, "guarded", "{", "$cond", "[", "{", "$or", "[", "{", "$eq", "[", BCON_UTF8("$guarded"), BCON_INT64(epoch_seen), "]",
                "}", "{", "$and", "[", BCON_BOOL(fencer == FENCER_LOCAL), "{", "$eq", "[", BCON_UTF8("$clean"), BCON_BOOL(true), "]", "}",
                "]", "}", "]", "}", BCON_INT64(epoch_seen + 1), BCON_UTF8("$$REMOVE"), "]", "}");
}

/* What a person wrote is not evaluated. */
static void append_pause(bson_t *set, const struct ledger_pause *pause)
{
  BCON_APPEND(set, "paused", "{", "id", BCON_BIN(BSON_SUBTYPE_BINARY, pause->id, sizeof pause->id), "by", "{", "$literal",
              BCON_UTF8(pause->by), "}", "reason", "{", "$literal", BCON_UTF8(pause->reason), "}", "at", BCON_UTF8("$$NOW"), "}");
}

static bson_t *fence_command(const char *type, const struct ledger_from *from, const struct fence *fence)
{
  enum fencer fencer = fence->fencer;
  bson_t *command = BCON_NEW("findAndModify", "ledger"), query, updates, update, set;
  BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
  append_seen(&query, type, from->birth == 0 ? from->epoch : 0, from->birth);
  ledger_needs_append_known(&query, fencer == FENCER_READER);
  bson_append_document_end(command, &query);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "update", &updates);
  BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
  BSON_APPEND_DOCUMENT_BEGIN(&update, "$set", &set);
  BCON_APPEND(&set, "epoch", BCON_INT64(from->epoch + 1), "owner", OWNER(fence->owner));
  append_guarded(&set, from->epoch, fencer);
  if (fence->change == FENCE_PAUSE)
    append_pause(&set, fence->pause);
  if (fence->change == FENCE_OWN_END)
    BSON_APPEND_UTF8(&set, "from", "$$REMOVE");
  if (from->birth != 0)
    append_first(&set);
  else if (fencer != FENCER_READER)
    BSON_APPEND_BOOL(&set, "clean", false);
  bson_append_document_end(&update, &set);
  bson_append_document_end(&updates, &update);
  if (fence->change != FENCE_ONLY)
    ledger_needs_append_change(&updates, 1, fence->change == FENCE_PAUSE ? LEDGER_NEED_PAUSED : LEDGER_NEED_OWN,
                               fence->change != FENCE_OWN_END);
  bson_append_array_end(command, &updates);
  mongo_append_write_concern(command);
  return command;
}

static const char *fence_doing(enum fence_change change)
{
  switch (change) {
  case FENCE_ONLY:
    return "fencing";
  case FENCE_PAUSE:
    return "pausing";
  case FENCE_OWN_BEGIN:
  case FENCE_OWN_END:
    return "switching the collection";
  }
  return "";
}

enum outcome ledger_fence_from(struct lockstore *store, const char *type, const struct ledger_from *from, const struct fence *fence,
                               struct ledger *before, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  *before = (struct ledger){0};
  if (!ledger_epoch_has_next(type, from->epoch, error))
    return ledger_name_database(OUTCOME_REFUSED, mongo, error);
  bson_t *command = fence_command(type, from, fence);
  bson_t reply;
  int code;
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, fence_doing(fence->change), command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    outcome = ledger_name_database(parse_fenced(&reply, type, from, before, error), mongo, error);
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

/* ---- draw ---- */

static bson_t *draw_command(const char *type, const struct ledger_from *from, int slots, const struct owner *owner)
{
  bson_t *command = BCON_NEW("findAndModify", "ledger", "new", BCON_BOOL(true)), query;
  BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
  if (from->birth != 0)
    append_seen(&query, type, 0, from->birth);
  else
    BCON_APPEND(&query, "_id", BCON_UTF8(type), "slots", BCON_INT32(slots), "epoch", "{", "$gt", BCON_INT64(0), "$lt",
                BCON_INT64(LEDGER_EPOCH_MAX), "}");
  BSON_APPEND_INT32(&query, "v", 1);
  bson_append_document_end(command, &query);
  if (from->birth != 0) {
    bson_t set = BSON_INITIALIZER;
    BCON_APPEND(&set, "epoch", BCON_INT64(from->epoch + 1), "owner", OWNER(owner), "slots", BCON_INT32(slots));
    append_first(&set);
    BCON_APPEND(command, "update", "[", "{", "$set", BCON_DOCUMENT(&set), "}", "]");
    bson_destroy(&set);
  } else {
    BCON_APPEND(command, "update", "{", "$inc", "{", "epoch", BCON_INT64(1), "}", "$set", "{", "owner", OWNER(owner), "}", "}");
  }
  mongo_append_write_concern(command);
  return command;
}

enum outcome ledger_draw_from(struct lockstore *store, const char *type, const struct ledger_from *from, int slots,
                              const struct owner *owner, int64_t *token, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = draw_command(type, from, slots, owner);
  bson_t reply, value;
  int code;
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, "drawing a token", command, &reply, &code, error);
  bool matched = outcome == OUTCOME_YES && document_document(&reply, "value", &value);
  if (outcome == OUTCOME_YES && !matched) {
    outcome = OUTCOME_NO;
  } else if (matched && !document_int64(&value, "epoch", token)) {
    error_set(error, "drawing a token: the reply has no epoch");
    outcome = OUTCOME_UNKNOWN;
  }
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

/* ---- the end of a pause ---- */

enum outcome ledger_pause_end(struct lockstore *store, const char *type, const uint8_t id[16], struct error *error)
{
  int64_t matched = 0;
  bson_t *command = BCON_NEW("update", "ledger"), updates, update, query, stages;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
  BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &query);
  BCON_APPEND(&query, "_id", BCON_UTF8(type), "paused.id", BCON_BIN(BSON_SUBTYPE_BINARY, id, 16));
  ledger_needs_append_known(&query, true);
  bson_append_document_end(&update, &query);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&update, "u", &stages);
  BCON_APPEND(&stages, "0", "{", "$unset", "[", BCON_UTF8("paused"), "]", "}");
  ledger_needs_append_change(&stages, 1, LEDGER_NEED_PAUSED, false);
  bson_append_array_end(&update, &stages);
  bson_append_document_end(&updates, &update);
  bson_append_array_end(command, &updates);
  enum outcome outcome = mongo_write(lockstore_mongo(store), "resuming", command, &matched, error);
  if (outcome == OUTCOME_NO) /* nothing is inserted: somebody's own index on `ledger` */
    outcome = OUTCOME_UNKNOWN;
  return outcome == OUTCOME_YES && matched == 0 ? OUTCOME_NO : outcome;
}

/* ---- the end ---- */

enum outcome ledger_raise_floor(struct lockstore *store, int64_t epoch, struct error *error)
{
  int64_t count = 0;
  bson_t *command = BCON_NEW("update", "ledger", "updates", "[", "{", "q", "{", "_id", BCON_UTF8(LEDGER_FLOOR), "}", "u", "{", "$max", "{",
                             "epoch", BCON_INT64(epoch), "}", "}", "upsert", BCON_BOOL(true), "}", "]");
  enum outcome outcome = mongo_write(lockstore_mongo(store), "raising the floor", command, &count, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  error_set(error, "raising the floor: another process made it at this moment");
  return OUTCOME_UNKNOWN;
}

enum outcome ledger_remove(struct lockstore *store, const struct ledger_name *names, size_t count, int64_t *removed, struct error *error)
{
  bson_t *command = BCON_NEW("delete", "ledger"), deletes;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "deletes", &deletes);
  for (size_t i = 0; i < count; i++) {
    char key[24];
    bson_t one, query;
    snprintf(key, sizeof key, "%zu", i);
    BSON_APPEND_DOCUMENT_BEGIN(&deletes, key, &one);
    BSON_APPEND_DOCUMENT_BEGIN(&one, "q", &query);
    append_seen(&query, names[i].type, names[i].epoch, names[i].birth);
    BSON_APPEND_INT32(&query, "v", 1); /* one that needs something is in use */
    if (names[i].birth == 0)
      BCON_APPEND(&query, "file", "{", "$exists", BCON_BOOL(false), "}", "seq", BCON_INT32(0));
    bson_append_document_end(&one, &query);
    BSON_APPEND_INT32(&one, "limit", 1);
    bson_append_document_end(&deletes, &one);
  }
  bson_append_array_end(command, &deletes);
  *removed = 0;
  return mongo_write(lockstore_mongo(store), "forgetting ledgers", command, removed, error);
}
