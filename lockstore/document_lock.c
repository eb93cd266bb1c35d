#include "lockstore/document_lock.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"

#include <assert.h>

/*
 * All times are the server's. Of a field that somebody else has written: what is no date has expired, what is no number is a lease of an
 * hour, and what is no number as a token counts as 0.
 */

enum { TTL_MS_MAX = 3600000 };

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

/* "FIELD.name", and "$FIELD.name" for expressions. */
struct path {
  char text[300];
};

static struct path path_of(const struct document_place *place, const char *before, const char *name)
{
  struct path path;
  snprintf(path.text, sizeof path.text, "%s%s%s%s", before, place->field, name[0] ? "." : "", name);
  return path;
}

/* clang-format off */
#define NUMBER_OR(path, otherwise)                                                        \
  "{", "$cond", "[", "{", "$isNumber", BCON_UTF8(path), "}", BCON_UTF8(path), BCON_INT64(otherwise), "]", "}"
/* clang-format on */

/* Its lease is over, or begins so far ahead that a clock must have jumped. */
static void append_expired(bson_t *any, const struct document_place *place)
{
  struct path at = path_of(place, "$", "at"), ttl = path_of(place, "$", "ttl");
  BCON_APPEND(any, "1", "{", "$expr", "{", "$or", "[", "{", "$lt", "[", BCON_UTF8(at.text), "{", "$subtract", "[", BCON_UTF8("$$NOW"),
              NUMBER_OR(ttl.text, TTL_MS_MAX), "]", "}", "]", "}", "{", "$gt", "[", BCON_UTF8(at.text), "{", "$add", "[",
              BCON_UTF8("$$NOW"), NUMBER_OR(ttl.text, TTL_MS_MAX), "]", "}", "]", "}", "]", "}", "}");
}

static void append_filter(bson_t *command, const struct document_place *place, const bson_t *filter, const struct owner *owner)
{
  struct path holder = path_of(place, "", "owner");
  bson_t query, all, free, any;
  BSON_APPEND_DOCUMENT_BEGIN(command, "query", &query);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&query, "$and", &all);
  BSON_APPEND_DOCUMENT(&all, "0", filter);
  BSON_APPEND_DOCUMENT_BEGIN(&all, "1", &free);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&free, "$or", &any);
  BCON_APPEND(&any, "0", "{", holder.text, "{", "$exists", BCON_BOOL(false), "}", "}");
  append_expired(&any, place);
  BCON_APPEND(&any, "2", "{", holder.text, OWNER(owner), "}");
  bson_append_array_end(&free, &any);
  bson_append_document_end(&all, &free);
  bson_append_array_end(&query, &all);
  bson_append_document_end(command, &query);
}

/* The token rises above the last one, and above the time: also where the field was removed meanwhile. */
static void append_take(bson_t *command, const struct document_place *place, const struct owner *owner, int64_t ttl_ms)
{
  struct path field = path_of(place, "", ""), token = path_of(place, "$", "token");
  BCON_APPEND(command, "update", "[", "{", "$set", "{", field.text, "{", "owner", OWNER(owner), "at", BCON_UTF8("$$NOW"), "ttl",
              BCON_INT64(ttl_ms), "token", "{", "$max", "[", "{", "$toLong", BCON_UTF8("$$NOW"), "}", "{", "$add", "[",
              NUMBER_OR(token.text, 0), BCON_INT64(1), "]", "}", "]", "}", "}", "}", "}", "]");
}

static bool token_find(const bson_t *document, const struct document_place *place, int64_t *token)
{
  struct path path = path_of(place, "", "token");
  bson_iter_t at, found;
  if (!bson_iter_init(&at, document) || !bson_iter_find_descendant(&at, path.text, &found) || !BSON_ITER_HOLDS_NUMBER(&found))
    return false;
  *token = bson_iter_as_int64(&found);
  return true;
}

/*
 * What MongoDB refuses because of what it says is no time-out: it will be refused again. Above 14000 each code is one place in the server
 * that does not take a filter or an update.
 */
static enum outcome refused_or_unknown(enum outcome outcome, int code)
{
  enum { OF_PLACES = 14000 };
  static const int codes[] = {
      2,     /* BadValue */
      9,     /* FailedToParse */
      14,    /* TypeMismatch */
      27,    /* IndexNotFound */
      28,    /* PathNotViable */
      40,    /* ConflictingUpdateOperators */
      52,    /* DollarPrefixedFieldName */
      57,    /* DottedFieldName */
      66,    /* ImmutableField */
      73,    /* InvalidNamespace */
      121,   /* DocumentValidationFailure */
      166,   /* CommandNotSupportedOnView */
      168,   /* InvalidPipelineOperator */
      10334, /* BSONObjectTooLarge */
  };
  bool refused = code > OF_PLACES;
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    refused = refused || code == codes[i];
  return outcome == OUTCOME_UNKNOWN && refused ? OUTCOME_REFUSED : outcome;
}

enum outcome document_take(struct lockstore *store, const struct document_place *place, const bson_t *filter, const bson_t *sort,
                           const struct owner *owner, int64_t ttl_ms, bson_t *document, int64_t *token, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  assert(ttl_ms > 0 && ttl_ms <= TTL_MS_MAX);
  bson_t *command = BCON_NEW("findAndModify", BCON_UTF8(place->collection));
  append_filter(command, place, filter, owner);
  if (sort != NULL)
    BSON_APPEND_DOCUMENT(command, "sort", sort);
  append_take(command, place, owner, ttl_ms);
  BCON_APPEND(command, "new", BCON_BOOL(true));
  mongo_append_write_concern(command);
  mongo_append_max_time(mongo, command);
  bson_t reply, value;
  int code;
  enum outcome outcome = mongo_command(mongo, "locking a document", command, &reply, &code, error);
  outcome = refused_or_unknown(outcome, code);
  if (outcome == OUTCOME_YES && !document_document(&reply, "value", &value))
    outcome = OUTCOME_NO;
  if (outcome == OUTCOME_YES && !token_find(&value, place, token)) {
    error_set(error, "locking a document: the reply has no token");
    outcome = OUTCOME_UNKNOWN;
  }
  if (outcome == OUTCOME_YES)
    bson_copy_to(&value, document);
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

/* ---- with the lock ---- */

/* Destroys the filter. NO: it matches none. */
static enum outcome update_one(struct lockstore *store, const char *doing, const char *collection, bson_t *filter, const bson_t *update,
                               bool pipeline, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("update", BCON_UTF8(collection)), updates, one, reply;
  int64_t count = 0;
  int code;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &one);
  BSON_APPEND_DOCUMENT(&one, "q", filter);
  if (pipeline)
    BSON_APPEND_ARRAY(&one, "u", update);
  else
    BSON_APPEND_DOCUMENT(&one, "u", update);
  bson_append_document_end(&updates, &one);
  bson_append_array_end(command, &updates);
  mongo_append_write_concern(command);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, doing, command, &reply, &code, error);
  outcome = refused_or_unknown(outcome, code);
  if (outcome == OUTCOME_YES && !mongo_reply_count(&reply, doing, &count, error))
    outcome = OUTCOME_UNKNOWN;
  if (outcome == OUTCOME_NO) /* a duplicate key: of an index of the user's own */
    outcome = OUTCOME_REFUSED;
  bson_destroy(command);
  bson_destroy(&reply);
  bson_destroy(filter);
  return outcome == OUTCOME_YES && count == 0 ? OUTCOME_NO : outcome;
}

/* The update, if it is mine still; `alive`: and its lease is not over. */
static enum outcome update_mine(struct lockstore *store, const char *doing, const struct document_hold *hold, bool alive,
                                const bson_t *update, bool pipeline, struct error *error)
{
  struct path owner = path_of(&hold->place, "", "owner"), token = path_of(&hold->place, "", "token"), at = path_of(&hold->place, "$", "at"),
              ttl = path_of(&hold->place, "$", "ttl");
  bson_t filter = BSON_INITIALIZER;
  bson_iter_t id;
  if (bson_iter_init_find(&id, hold->id, "_id"))
    bson_append_iter(&filter, "_id", -1, &id);
  BCON_APPEND(&filter, owner.text, OWNER(&hold->owner), token.text, BCON_INT64(hold->token));
  if (alive)
    BCON_APPEND(&filter, "$expr", "{", "$gt", "[", "{", "$add", "[", BCON_UTF8(at.text), BCON_UTF8(ttl.text), "]", "}", BCON_UTF8("$$NOW"),
                "]", "}");
  return update_one(store, doing, hold->place.collection, &filter, update, pipeline, error);
}

enum outcome document_renew(struct lockstore *store, const struct document_hold *hold, int64_t ttl_ms, struct error *error)
{
  struct path at = path_of(&hold->place, "", "at"), ttl = path_of(&hold->place, "", "ttl");
  bson_t *pipeline = BCON_NEW("0", "{", "$set", "{", at.text, BCON_UTF8("$$NOW"), ttl.text, BCON_INT64(ttl_ms), "}", "}");
  enum outcome outcome = update_mine(store, "renewing the lock of a document", hold, true, pipeline, true, error);
  bson_destroy(pipeline);
  return outcome;
}

/* Not the token: otherwise the next holder would have the same one. */
enum outcome document_release(struct lockstore *store, const struct document_hold *hold, struct error *error)
{
  struct path owner = path_of(&hold->place, "", "owner"), at = path_of(&hold->place, "", "at"), ttl = path_of(&hold->place, "", "ttl");
  bson_t *update = BCON_NEW("$unset", "{", owner.text, BCON_INT32(1), at.text, BCON_INT32(1), ttl.text, BCON_INT32(1), "}");
  enum outcome outcome = update_mine(store, "releasing a document", hold, false, update, false, error);
  bson_destroy(update);
  return outcome;
}

enum outcome document_update(struct lockstore *store, const struct document_hold *hold, const bson_t *update, struct error *error)
{
  return update_mine(store, "writing a locked document", hold, false, update, false, error);
}

/* ---- without a lock ---- */

static void found_one(void *context, const bson_t *document)
{
  (void)document;
  *(bool *)context = true;
}

/* Why nothing matched: there is a higher token, or no document. */
static enum outcome guarded_by_another(struct lockstore *store, const struct document_place *place, const bson_t *filter, bool *there,
                                       struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", BCON_UTF8(place->collection), "filter", BCON_DOCUMENT(filter), "limit", BCON_INT32(1), "singleBatch",
                             BCON_BOOL(true), "projection", "{", "_id", BCON_INT32(1), "}");
  mongo_append_read_concern(mongo, command, "majority", true);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "writing with a token", command, found_one, there, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES ? OUTCOME_NO : outcome;
}

/* The user's operators, and the token in $set. */
static void with_token(bson_t *to, const bson_t *update, const char *path, int64_t token)
{
  bson_iter_t at, of;
  bson_t set;
  bool has_set = false;
  if (bson_iter_init(&at, update))
    while (bson_iter_next(&at)) {
      if (strcmp(bson_iter_key(&at), "$set") != 0 || !bson_iter_recurse(&at, &of)) {
        bson_append_iter(to, NULL, 0, &at);
        continue;
      }
      has_set = true;
      BSON_APPEND_DOCUMENT_BEGIN(to, "$set", &set);
      while (bson_iter_next(&of))
        bson_append_iter(&set, NULL, 0, &of);
      BSON_APPEND_INT64(&set, path, token);
      bson_append_document_end(to, &set);
    }
  if (!has_set)
    BCON_APPEND(to, "$set", "{", path, BCON_INT64(token), "}");
}

enum outcome document_guarded_update(struct lockstore *store, const struct document_place *place, const bson_t *filter,
                                     const bson_t *update, int64_t token, bool *there, struct error *error)
{
  struct path path = path_of(place, "", "token");
  bson_t guarded = BSON_INITIALIZER, change = BSON_INITIALIZER;
  *there = false;
  BCON_APPEND(&guarded, "$and", "[", BCON_DOCUMENT(filter), "{", path.text, "{", "$not", "{", "$gt", BCON_INT64(token), "}", "}", "}", "]");
  with_token(&change, update, path.text, token);
  enum outcome outcome = update_one(store, "writing with a token", place->collection, &guarded, &change, false, error);
  bson_destroy(&change);
  return outcome == OUTCOME_NO ? guarded_by_another(store, place, filter, there, error) : outcome;
}
