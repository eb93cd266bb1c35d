#include "tools/overview/peek.h"
#include "bson_array.h"
#include "lockstore/queue_name.h"
#include "tools/dump/json.h"
#include "tools/overview/private.h"
#include "visible.h"

#include <stdlib.h>

/* ---- reading ---- */

/* By the index alone, as the majority has them. */
static bson_t *peek_command(struct mongo *mongo, bson_t *command)
{
  append_hint(command);
  mongo_append_read_concern(mongo, command, "majority", false);
  mongo_append_max_time(mongo, command);
  return command;
}

static void append_stage(bson_t *pipeline, const char *name, const bson_t *what)
{
  char key[16];
  bson_t stage = BSON_INITIALIZER;
  snprintf(key, sizeof key, "%u", bson_count_keys(pipeline));
  BSON_APPEND_DOCUMENT(&stage, name, what);
  bson_append_document(pipeline, key, -1, &stage);
  bson_destroy(&stage);
}

/* The first by _id that match. limit: 0: all. */
static void append_first(bson_t *pipeline, const bson_t *match, int64_t limit)
{
  bson_t *order = BCON_NEW("_id", BCON_INT32(1)), stage = BSON_INITIALIZER;
  append_stage(pipeline, "$match", match);
  append_stage(pipeline, "$sort", order);
  if (limit > 0) {
    BCON_APPEND(&stage, "$limit", BCON_INT64(limit));
    bson_append_document(pipeline, "2", 1, &stage);
  }
  bson_destroy(order);
  bson_destroy(&stage);
}

/* As a worker takes them (worker/queue.c), never a document whose type is an array with this type in it: those of `messages`, then those of
 * the own collection, where there is one. */
static void append_both(bson_t *pipeline, const char *type, bool own, int64_t limit)
{
  bson_t with = BSON_INITIALIZER, inner = BSON_INITIALIZER;
  bson_t *match = BCON_NEW("type", "{", "$eq", BCON_UTF8(type), "$not", "{", "$type", BCON_UTF8("array"), "}", "}");
  append_first(pipeline, match, limit);
  if (own) {
    const struct queue_name name = queue_name_of(type, SOURCE_OWN);
    bson_t *fits = BCON_NEW("$or", "[", "{", "type", "{", "$eq", BCON_UTF8(type), "$not", "{", "$type", BCON_UTF8("array"), "}", "}", "}",
                            "{", "type", "{", "$exists", BCON_BOOL(false), "}", "}", "]");
    append_first(&inner, fits, limit);
    BCON_APPEND(&with, "coll", BCON_UTF8(name.text), "pipeline", BCON_ARRAY(&inner));
    append_stage(pipeline, "$unionWith", &with);
    bson_destroy(fits);
  }
  bson_destroy(&inner);
  bson_destroy(&with);
  bson_destroy(match);
}

static void append_limit(bson_t *pipeline, int64_t limit)
{
  char key[16];
  bson_t stage = BSON_INITIALIZER;
  snprintf(key, sizeof key, "%u", bson_count_keys(pipeline));
  BCON_APPEND(&stage, "$limit", BCON_INT64(limit));
  if (limit > 0)
    bson_append_document(pipeline, key, -1, &stage);
  bson_destroy(&stage);
}

/* The pipeline is destroyed. */
static bson_t *aggregate(struct mongo *mongo, bson_t *pipeline)
{
  bson_t *command = BCON_NEW("aggregate", "messages", "cursor", "{", "}", "pipeline", BCON_ARRAY(pipeline));
  bson_destroy(pipeline);
  return peek_command(mongo, command);
}

static bson_t *whole_command(struct mongo *mongo, const char *type, bool own, int64_t limit)
{
  bson_t pipeline = BSON_INITIALIZER;
  if (!own) {
    bson_t *command = BCON_NEW("find", "messages", "filter", "{", "type", "{", "$eq", BCON_UTF8(type), "$not", "{", "$type",
                               BCON_UTF8("array"), "}", "}", "}", "sort", "{", "_id", BCON_INT32(1), "}", "limit", BCON_INT64(limit));
    return peek_command(mongo, command);
  }
  append_both(&pipeline, type, own, limit);
  append_limit(&pipeline, limit);
  return aggregate(mongo, &pipeline);
}

static bson_t *brief_command(struct mongo *mongo, const char *type, bool own, int limit, int whole_max)
{
  bson_t pipeline = BSON_INITIALIZER;
  append_both(&pipeline, type, own, limit);
  append_limit(&pipeline, limit);
  bson_t *fields =
      BCON_NEW("bytes", "{", "$bsonSize", BCON_UTF8("$$ROOT"), "}", "whole", "{", "$cond", "[", "{", "$lte", "[", "{", "$bsonSize",
               BCON_UTF8("$$ROOT"), "}", BCON_INT32(whole_max), "]", "}", BCON_UTF8("$$ROOT"), BCON_NULL, "]", "}");
  append_stage(&pipeline, "$project", fields);
  bson_destroy(fields);
  return aggregate(mongo, &pipeline);
}

/* YES: *own is whether the type has its own collection. REFUSED: its ledger cannot be used. */
static enum outcome is_own(struct lockstore *store, const char *type, bool *own, struct error *error)
{
  struct ledger ledger;
  enum outcome outcome = ledger_read(store, type, &ledger, error);
  *own = outcome == OUTCOME_YES && ledger.own;
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
}

/* Whether the server says that there is no index for the hint. */
static bool index_is_missing(struct mongo *mongo, const bson_t *find)
{
  bson_t plain = BSON_INITIALIZER, reply;
  struct error ignored;
  int code;
  bson_copy_to_excluding_noinit(find, &plain, "readConcern", "maxTimeMS", NULL);
  bson_t *command = BCON_NEW("explain", BCON_DOCUMENT(&plain), "verbosity", BCON_UTF8("queryPlanner"));
  enum outcome outcome = mongo_command(mongo, "asking for the plan", command, &reply, &code, &ignored);
  bson_destroy(command);
  bson_destroy(&plain);
  bson_destroy(&reply);
  return outcome == OUTCOME_UNKNOWN && code == CODE_BAD_VALUE;
}

/* Takes the command. */
static enum outcome peek(struct mongo *mongo, bson_t *command, overview_peek_each *each, void *context, struct error *error)
{
  enum outcome outcome = mongo_find(mongo, "reading the first documents", command, each, context, error);
  if (outcome == OUTCOME_UNKNOWN && error->reason == ERROR_OTHER && index_is_missing(mongo, command)) {
    error_set(error, "%s.messages has no index {type: 1, _id: 1}, so all documents would have to be read: run pawl-setup", mongo_db(mongo));
    outcome = OUTCOME_REFUSED;
  }
  bson_destroy(command);
  return outcome;
}

enum outcome overview_peek(struct lockstore *store, const char *type, int64_t limit, overview_peek_each *each, void *context,
                           struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bool own = false;
  enum outcome outcome = mongo_hello(mongo, error);
  if (outcome == OUTCOME_YES)
    outcome = is_own(store, type, &own, error);
  return outcome == OUTCOME_YES ? peek(mongo, whole_command(mongo, type, own, limit), each, context, error) : outcome;
}

enum outcome overview_peek_brief(struct lockstore *store, const char *type, int limit, int whole_max, overview_peek_each *each,
                                 void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bool own = false;
  enum outcome outcome = mongo_hello(mongo, error);
  if (outcome == OUTCOME_YES)
    outcome = is_own(store, type, &own, error);
  return outcome == OUTCOME_YES ? peek(mongo, brief_command(mongo, type, own, limit, whole_max), each, context, error) : outcome;
}

/* ---- as text ---- */

/* The character at `at` as it is shown: itself, or its escape. Returns the length of what is shown. */
static size_t show_character(const char *at, char shown[16])
{
  uint32_t character = bson_utf8_get_char(at);
  size_t length = (size_t)(bson_utf8_next_char(at) - at);
  if (visible_not(character) && character > 0xffff)
    return (size_t)sprintf(shown, "\\u%04x\\u%04x", 0xd800 + ((character - 0x10000) >> 10), 0xdc00 + ((character - 0x10000) & 0x3ff));
  if (visible_not(character))
    return (size_t)sprintf(shown, "\\u%04x", character);
  memcpy(shown, at, length);
  return length;
}

/* `json` is valid UTF-8, and what is hidden stands in its strings alone. Frees it. */
static char *json_clean(char *json, size_t bytes_max)
{
  char *clean = NULL, shown[16];
  size_t bytes = 0, used = 0;
  FILE *out = json ? open_memstream(&clean, &bytes) : NULL;
  for (const char *at = json; out && *at; at = bson_utf8_next_char(at)) {
    size_t length = show_character(at, shown);
    used += length;
    if (bytes_max > 0 && used > bytes_max) {
      fputs("…", out);
      break;
    }
    fwrite(shown, 1, length, out);
  }
  free(json);
  if (out && fclose(out) == 0)
    return clean;
  free(clean);
  return NULL;
}

char *overview_document_json(const bson_t *document, size_t bytes_max)
{
  char *json = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&json, &bytes);
  if (!out)
    return NULL;
  (void)json_write(bson_get_data(document), document->len, false, out);
  return fclose(out) == 0 ? json_clean(json, bytes_max) : NULL;
}

char *overview_element_json(const bson_iter_t *element, size_t bytes_max)
{
  char *json = NULL;
  size_t bytes = 0;
  FILE *out = open_memstream(&json, &bytes);
  if (!out)
    return NULL;
  (void)json_write_value(element, out);
  return fclose(out) == 0 ? json_clean(json, bytes_max) : NULL;
}
