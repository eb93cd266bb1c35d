#include "lockstore/ledger_carry.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/ledger_requests.h"
#include "lockstore/queue_name.h"
#include "lockstore/store.h"

#define ID(id) BCON_BIN(BSON_SUBTYPE_BINARY, id, 16)
#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

/* ---- the database ---- */

static bool parse_uuid(const bson_t *found, uint8_t id[16])
{
  bson_t info;
  bson_iter_t at;
  bson_subtype_t subtype;
  const uint8_t *bytes;
  uint32_t size;
  if (!document_document(found, "info", &info) || !bson_iter_init_find(&at, &info, "uuid") || !BSON_ITER_HOLDS_BINARY(&at))
    return false;
  bson_iter_binary(&at, &subtype, &size, &bytes);
  if (size != 16)
    return false;
  memcpy(id, bytes, 16);
  return true;
}

enum outcome lockstore_database_id(struct lockstore *store, uint8_t id[16], struct error *error)
{
  bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", BCON_UTF8("ledger"), "}"), reply, found;
  struct mongo_batch batch;
  int code;
  enum outcome outcome = mongo_command(lockstore_mongo(store), "looking for the collection ledger", command, &reply, &code, error);
  if (outcome == OUTCOME_YES) {
    mongo_reply_batch(&reply, &batch);
    error_set(error, "looking for the collection ledger: it is missing, or has no uuid");
    outcome = mongo_batch_next(&batch, &found) && parse_uuid(&found, id) ? OUTCOME_YES : OUTCOME_NO;
  } else if (outcome == OUTCOME_UNKNOWN && error->reason == ERROR_RIGHT) {
    outcome = OUTCOME_REFUSED;
  }
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

/* ---- the queue ---- */

static void count_one(void *context, const bson_t *document)
{
  (void)document;
  ++*(int *)context;
}

/* Linearizable: a primary that was replaced may lack what came last. All that is in its own collection is the type's. */
static enum outcome queue_waits(struct lockstore *store, const char *type, enum queue_source source, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct queue_name name = queue_name_of(type, source);
  int found = 0;
  bson_t *command = BCON_NEW("find", BCON_UTF8(name.text)), filter;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  if (source == SOURCE_SHARED)
    BCON_APPEND(&filter, "type", "{", "$eq", BCON_UTF8(type), "$not", "{", "$type", BCON_UTF8("array"), "}", "}");
  bson_append_document_end(command, &filter);
  BCON_APPEND(command, "projection", "{", "_id", BCON_INT32(1), "}", "limit", BCON_INT32(1), "singleBatch", BCON_BOOL(true));
  mongo_append_read_concern(mongo, command, "linearizable", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "looking at the queue", command, count_one, &found, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES && found == 0 ? OUTCOME_NO : outcome;
}

enum outcome ledger_carry_waits(struct lockstore *store, const char *type, bool own, struct error *error)
{
  enum outcome outcome = queue_waits(store, type, SOURCE_SHARED, error);
  return outcome == OUTCOME_NO && own ? queue_waits(store, type, SOURCE_OWN, error) : outcome;
}

/* ---- the old place ---- */

/* In a pipeline: what a person wrote is not evaluated. */
static void append_move(bson_t *set, const struct ledger_move *move)
{
  BCON_APPEND(set, "needs", "{", "$concatArrays", "[", BCON_UTF8("$needs"), "[", BCON_UTF8(LEDGER_NEED_MOVED), "]", "]", "}", "moved", "{",
              "id", ID(move->id), "database", ID(move->database), "to", "{", "$literal", BCON_UTF8(move->to), "}", "by", "{", "$literal",
              BCON_UTF8(move->by), "}", "at", BCON_UTF8("$$NOW"), "}");
}

/* One update of one document by a pipeline of one $set; destroys both. YES: it matched. */
static enum outcome send_set(struct lockstore *store, const char *doing, bson_t *query, bson_t *set, struct error *error)
{
  int64_t matched = 0;
  bson_t *command = BCON_NEW("update", "ledger", "updates", "[", "{", "q", BCON_DOCUMENT(query), "u", "[", "{", "$set", BCON_DOCUMENT(set),
                             "}", "]", "}", "]");
  bson_destroy(query);
  bson_destroy(set);
  enum outcome outcome = mongo_write(lockstore_mongo(store), doing, command, &matched, error);
  if (outcome == OUTCOME_NO) /* nothing is inserted: somebody's own index on `ledger` */
    outcome = OUTCOME_UNKNOWN;
  return outcome == OUTCOME_YES && matched == 0 ? OUTCOME_NO : outcome;
}

enum outcome ledger_carry_mark(struct lockstore *store, const char *type, const struct ledger *seen, const struct owner *owner,
                               const struct ledger_move *move, struct error *error)
{
  if (!ledger_epoch_has_next(type, seen->epoch, error))
    return ledger_name_database(OUTCOME_REFUSED, lockstore_mongo(store), error);
  bson_t *query = BCON_NEW("_id", BCON_UTF8(type), "v", BCON_INT32(2), "epoch", BCON_INT64(seen->epoch), "paused.id", ID(seen->pause.id),
                           "seq", BCON_INT64(seen->end.seq), "moved", "{", "$exists", BCON_BOOL(false), "}");
  bson_t *set = BCON_NEW("epoch", BCON_INT64(seen->epoch + 1), "owner", OWNER(owner), "settled", BCON_INT64(seen->end.seq), "guarded",
                         BCON_UTF8("$$REMOVE"), "from", BCON_UTF8("$$REMOVE"));
  append_move(set, move);
  return send_set(store, "marking the ledger as moved", query, set, error);
}

/* ---- the new place ---- */

const char *ledger_carry_obstacle(const struct ledger *there, const struct ledger *from)
{
  if (there->slots > 0)
    return "is a lock with slots, and no type";
  if (there->end.file[0] == '\0')
    return NULL;
  if (!there->moved)
    return "has a ledger of its own";
  if (there->epoch >= from->epoch || there->end.seq > from->end.seq)
    return "was moved from there, with a ledger that is ahead of this one";
  return NULL;
}

static void append_end(bson_t *set, const struct ledger *from)
{
  const struct committed *end = &from->end;
  BCON_APPEND(set, "clean", BCON_BOOL(from->clean), "file", BCON_UTF8(end->file), "uuid",
              BCON_BIN(BSON_SUBTYPE_BINARY, end->uuid, sizeof end->uuid), "length", BCON_INT64(end->length), "tail", BCON_INT64(end->tail),
              "link", BCON_INT64((int64_t)end->link), "seq", BCON_INT64(end->seq), "items", BCON_INT64(end->items), "settled",
              BCON_INT64(from->settled), "guarded", BCON_UTF8("$$REMOVE"), "birth", BCON_UTF8("$$REMOVE"), "from", BCON_UTF8("$$REMOVE"));
  BSON_APPEND_UTF8(set, "machine", from->machine[0] != '\0' ? from->machine : "$$REMOVE");
}

/* What else the new place needs stays; a pause that is there, too, unless it is from before the type was moved away from there. */
static void append_paused(bson_t *set, const struct ledger_pause *pause, bool was_away)
{
  BCON_APPEND(set, "v", BCON_INT32(2), "needs", "{", "$concatArrays", "[", "{", "$setDifference", "[", "{", "$ifNull", "[",
              BCON_UTF8("$needs"), "[", "]", "]", "}", "[", BCON_UTF8(LEDGER_NEED_PAUSED), BCON_UTF8(LEDGER_NEED_MOVED), "]", "]", "}", "[",
              BCON_UTF8(LEDGER_NEED_PAUSED), "]", "]", "}", "moved", BCON_UTF8("$$REMOVE"), "paused", "{", "$ifNull", "[",
              BCON_UTF8(was_away ? "$$REMOVE" : "$paused"), "{", "id", ID(pause->id), "by", "{", "$literal", BCON_UTF8(pause->by), "}",
              "reason", "{", "$literal", BCON_UTF8(pause->reason), "}", "at", BCON_UTF8("$$NOW"), "}", "]", "}");
}

/* The very state that was seen. */
static bson_t *there_query(const char *type, const struct ledger *there, int64_t birth)
{
  bson_t *query = BCON_NEW("_id", BCON_UTF8(type), "epoch", BCON_INT64(there->epoch));
  if (birth != 0)
    BCON_APPEND(query, "v", BCON_INT32(1), "birth", BCON_INT64(birth));
  else if (there->moved)
    BCON_APPEND(query, "v", BCON_INT32(2), "moved.id", ID(there->move.id));
  else
    BCON_APPEND(query, "v", "{", "$in", "[", BCON_INT32(1), BCON_INT32(2), "]", "}", "file", "{", "$exists", BCON_BOOL(false), "}", "slots",
                "{", "$exists", BCON_BOOL(false), "}", "moved", "{", "$exists", BCON_BOOL(false), "}");
  return query;
}

enum outcome ledger_carry_make(struct lockstore *store, const char *type, const struct ledger *there, const struct ledger *from,
                               const struct owner *owner, const struct ledger_pause *pause, struct error *error)
{
  struct ledger_from made = {.epoch = there->epoch};
  if (there->epoch == 0) {
    enum outcome outcome = ledger_make(store, type, &made, error);
    if (outcome != OUTCOME_YES)
      return outcome;
  }
  int64_t below = made.epoch > from->epoch ? made.epoch : from->epoch;
  if (!ledger_epoch_has_next(type, below, error))
    return ledger_name_database(OUTCOME_REFUSED, lockstore_mongo(store), error);
  bson_t *set = BCON_NEW("epoch", BCON_INT64(below + 1), "owner", OWNER(owner), "carried", "{", "id", ID(from->move.id), "by", "{",
                         "$literal", BCON_UTF8(from->move.by), "}", "at", BCON_UTF8("$$NOW"), "}");
  append_end(set, from);
  append_paused(set, pause, there->moved);
  return send_set(store, "making the ledger at the new place", there_query(type, there, made.birth), set, error);
}
