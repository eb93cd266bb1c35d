#include "bson_array.h"
#include "lockstore/document.h"
#include "tools/overview/private.h"
#include "type_text.h"

/* The types that have messages, and the oldest document of each, without a look at the others. */

struct oldest_reading {
  struct rows *rows;
  struct mongo *mongo;
  const struct overview *earlier; /* NULL: none */
};

void append_hint(bson_t *command)
{
  BCON_APPEND(command, "hint", "{", "type", BCON_INT32(1), "_id", BCON_INT32(1), "}");
}

/* FNV-1a of the element. */
static uint64_t id_hash(const bson_iter_t *id)
{
  bson_t one = BSON_INITIALIZER;
  uint64_t hash = 0xcbf29ce484222325u;
  bson_append_iter(&one, "", 0, id);
  for (uint32_t i = 0; i < one.len; i++)
    hash = (hash ^ bson_get_data(&one)[i]) * 0x100000001b3u;
  bson_destroy(&one);
  return hash;
}

void row_note_oldest(struct overview_row *row, const struct overview *overview, const struct overview_row *then, const bson_iter_t *id)
{
  int64_t age_ms = 0, first_at_ms = 0;
  uint64_t hash = 0;
  bool seen = !BSON_ITER_HOLDS_OID(id);
  if (seen) {
    hash = id_hash(id);
    first_at_ms = then && then->oldest_seen && then->oldest_hash == hash ? then->oldest_at_ms : overview->read_at_ms;
    age_ms = overview->read_at_ms - first_at_ms;
  } else {
    age_ms = overview->server_ms - (int64_t)bson_oid_get_time_t(bson_iter_oid(id)) * 1000;
  }
  row->waits = true;
  if (age_ms < 0)
    age_ms = 0; /* a producer whose clock is ahead */
  if (row->oldest_ms > age_ms)
    return; /* of the names that are shown as one */
  row->oldest_ms = age_ms;
  row->oldest_seen = seen;
  row->oldest_hash = hash;
  row->oldest_at_ms = first_at_ms;
}

static void note_oldest(const struct oldest_reading *reading, struct overview_row *row, const bson_iter_t *id)
{
  if (row)
    row_note_oldest(row, reading->rows->overview, reading->earlier ? overview_find(reading->earlier, row->type) : NULL, id);
}

/* One document, or none, with the hint. NO: there is no such index. */
static enum outcome find_first(struct mongo *mongo, bson_t *command, bson_t *reply, bool *found, bson_t *document, struct error *error)
{
  struct mongo_batch batch;
  int code;
  append_hint(command);
  BCON_APPEND(command, "limit", BCON_INT32(1), "singleBatch", BCON_BOOL(true));
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, "looking for the oldest document", command, reply, &code, error);
  bson_destroy(command);
  *found = outcome == OUTCOME_YES && mongo_reply_batch(reply, &batch) && mongo_batch_next(&batch, document);
  return outcome == OUTCOME_UNKNOWN && code == CODE_BAD_VALUE ? OUTCOME_NO : outcome;
}

/* ---- all types at once ---- */

/* Every string, in the index's order. */
static bson_t *distinct_command(struct mongo *mongo)
{
  bson_t *command = BCON_NEW("aggregate", "messages", "pipeline", "[", "{", "$match", "{", "type", "{", "$gte", BCON_UTF8(""), "}", "}",
                             "}", "{", "$sort", "{", "type", BCON_INT32(1), "_id", BCON_INT32(1), "}", "}", "{", "$group", "{", "_id",
                             BCON_UTF8("$type"), "first", "{", "$first", BCON_UTF8("$_id"), "}", "}", "}", "]", "cursor", "{", "}");
  append_hint(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  return command;
}

/* Whether the plan has this stage, at any depth. */
static bool plan_has(bson_iter_t at, const char *stage, int depth)
{
  enum { DEPTH_MAX = 30 };
  bson_iter_t inner;
  while (bson_iter_next(&at)) {
    if (strcmp(bson_iter_key(&at), "stage") == 0 && BSON_ITER_HOLDS_UTF8(&at) && strcmp(bson_iter_utf8(&at, NULL), stage) == 0)
      return true;
    if ((BSON_ITER_HOLDS_DOCUMENT(&at) || BSON_ITER_HOLDS_ARRAY(&at)) && depth < DEPTH_MAX && bson_iter_recurse(&at, &inner) &&
        plan_has(inner, stage, depth + 1))
      return true;
  }
  return false;
}

/*
 * Asks for the plan first: where the index has an array, or another server plans otherwise, the same command would visit each entry. EOF is
 * the plan for a collection that is missing. NO: there is no index.
 */
static enum outcome distinct_skips(struct mongo *mongo, const bson_t *distinct, bool *skips, struct error *error)
{
  bson_t *command = BCON_NEW("explain", BCON_DOCUMENT(distinct), "verbosity", BCON_UTF8("queryPlanner")), reply;
  bson_iter_t at;
  int code;
  enum outcome outcome = mongo_command(mongo, "asking for the plan of the oldest documents", command, &reply, &code, error);
  *skips = outcome == OUTCOME_YES && bson_iter_init(&at, &reply) && (plan_has(at, "DISTINCT_SCAN", 0) || plan_has(at, "EOF", 0));
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome == OUTCOME_UNKNOWN && code == CODE_BAD_VALUE ? OUTCOME_NO : outcome;
}

static void distinct_one(void *context, const bson_t *document)
{
  const struct oldest_reading *reading = context;
  bson_iter_t type, id;
  uint32_t bytes;
  const char *name = bson_iter_init_find(&type, document, "_id") ? type_text(&type, &bytes) : NULL;
  if (name && bson_iter_init_find(&id, document, "first"))
    note_oldest(reading, rows_get_name(reading->rows, name, bytes), &id);
}

/* ---- one type after the other ---- */

/* As a worker reads: never a document whose type is an array with this type in it. `type` holds a text. NO: there is no index. */
static enum outcome read_one(const struct oldest_reading *reading, const bson_iter_t *type, struct overview_row *row, struct error *error)
{
  bson_t *command =
      BCON_NEW("find", "messages", "filter", "{", "type", "{", "$eq", BCON_ITER(type), "$not", "{", "$type", BCON_UTF8("array"), "}", "}",
               "}", "sort", "{", "_id", BCON_INT32(1), "}", "projection", "{", "_id", BCON_INT32(1), "}");
  bson_t reply, document;
  bson_iter_t id;
  bool found;
  enum outcome outcome = find_first(reading->mongo, command, &reply, &found, &document, error);
  if (outcome == OUTCOME_YES && found && bson_iter_init_find(&id, &document, "_id")) {
    uint32_t bytes = 0;
    const char *name = type_text(type, &bytes);
    note_oldest(reading, row ? row : rows_get_name(reading->rows, name, bytes), &id);
  }
  bson_destroy(&reply);
  return outcome;
}

static enum outcome read_selected(const struct oldest_reading *reading, const struct overview_types *types, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  for (size_t i = 0; i < types->count && outcome == OUTCOME_YES; i++) {
    bson_t one = BSON_INITIALIZER;
    bson_iter_t type;
    BSON_APPEND_UTF8(&one, "type", types->names[i]);
    if (bson_iter_init_find(&type, &one, "type"))
      outcome = read_one(reading, &type, rows_get(reading->rows, types->names[i], OVERVIEW_TYPE), error);
    bson_destroy(&one);
  }
  return outcome;
}

/*
 * The first entry of the index after those of the string in *last (empty: of all strings), as its key, or as `type` and _id of its
 * document. YES: it replaces *entry. NO: there is none.
 */
static enum outcome next_entry(struct mongo *mongo, const bson_t *last, bool as_key, bson_t *entry, struct error *error)
{
  bson_t empty = BSON_INITIALIZER, reply, found;
  bson_iter_t type;
  bool has;
  bson_t *command = BCON_NEW("find", "messages", "returnKey", BCON_BOOL(as_key), "projection", "{", "type", BCON_INT32(1), "}", "max", "{",
                             "type", BCON_DOCUMENT(&empty), "_id", BCON_MINKEY, "}");
  if (bson_iter_init_find(&type, last, "type"))
    BCON_APPEND(command, "min", "{", "type", BCON_ITER(&type), "_id", BCON_MAXKEY, "}");
  else
    BCON_APPEND(command, "min", "{", "type", BCON_UTF8(""), "_id", BCON_MINKEY, "}");
  enum outcome outcome = find_first(mongo, command, &reply, &has, &found, error);
  if (has) {
    bson_destroy(entry);
    bson_copy_to(&found, entry);
  }
  bson_destroy(&reply);
  return outcome == OUTCOME_YES && !has ? OUTCOME_NO : outcome == OUTCOME_NO ? OUTCOME_UNKNOWN : outcome;
}

/* As a rule the entry's document is the oldest of its type. Where it has an array, the type is in the key alone. *last becomes the entry.
 */
static enum outcome read_next(const struct oldest_reading *reading, bson_t *last, struct error *error)
{
  bson_t entry = BSON_INITIALIZER;
  bson_iter_t type, id;
  uint32_t bytes;
  enum outcome outcome = next_entry(reading->mongo, last, false, &entry, error);
  const char *name = outcome == OUTCOME_YES && bson_iter_init_find(&type, &entry, "type") ? type_text(&type, &bytes) : NULL;
  if (name && bson_iter_init_find(&id, &entry, "_id")) {
    note_oldest(reading, rows_get_name(reading->rows, name, bytes), &id);
  } else if (outcome == OUTCOME_YES) {
    outcome = next_entry(reading->mongo, last, true, &entry, error);
    if (outcome == OUTCOME_YES && bson_iter_init_find(&type, &entry, "type"))
      outcome = read_one(reading, &type, NULL, error);
  }
  if (outcome == OUTCOME_YES) {
    bson_destroy(last);
    bson_copy_to(&entry, last);
  }
  bson_destroy(&entry);
  return outcome;
}

static enum outcome read_each(const struct oldest_reading *reading, struct error *error)
{
  bson_t last = BSON_INITIALIZER;
  int64_t until_ms = overview_now_ms() + mongo_timeout_ms(reading->mongo);
  enum outcome outcome = OUTCOME_YES;
  while (outcome == OUTCOME_YES) {
    outcome = read_next(reading, &last, error);
    if (outcome == OUTCOME_YES && overview_now_ms() > until_ms) {
      error_set(error,
                "looking for the oldest documents: a document's type was an array, so MongoDB cannot skip in the index, and there are "
                "too many types to ask for each");
      outcome = OUTCOME_UNKNOWN;
    }
  }
  bson_destroy(&last);
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
}

/* ---- documents without a type ---- */

/* One end of the index: what sorts before all strings, or after them. An array of nothing but strings is in neither. */
static enum outcome end_has_documents(struct mongo *mongo, bool before, bool *has, struct error *error)
{
  bson_t empty = BSON_INITIALIZER, reply, ignored;
  bson_t *command = BCON_NEW("find", "messages", "returnKey", BCON_BOOL(true));
  if (before)
    BCON_APPEND(command, "min", "{", "type", BCON_MINKEY, "_id", BCON_MINKEY, "}", "max", "{", "type", BCON_UTF8(""), "_id", BCON_MINKEY,
                "}");
  else
    BCON_APPEND(command, "min", "{", "type", BCON_DOCUMENT(&empty), "_id", BCON_MINKEY, "}", "max", "{", "type", BCON_MAXKEY, "_id",
                BCON_MAXKEY, "}");
  enum outcome outcome = find_first(mongo, command, &reply, has, &ignored, error);
  bson_destroy(&reply);
  return outcome;
}

static enum outcome read_untyped(const struct oldest_reading *reading, struct error *error)
{
  bool before = false, after = false;
  enum outcome outcome = end_has_documents(reading->mongo, true, &before, error);
  if (outcome == OUTCOME_YES)
    outcome = end_has_documents(reading->mongo, false, &after, error);
  struct overview_row *row = before || after ? rows_get(reading->rows, OVERVIEW_UNTYPED_NAME, OVERVIEW_UNTYPED) : NULL;
  if (row)
    row->waits = true;
  return outcome;
}

/* ---- all of it ---- */

static enum outcome read_all(struct oldest_reading *reading, struct error *error)
{
  bson_t *distinct = distinct_command(reading->mongo);
  bool skips = false;
  enum outcome outcome = distinct_skips(reading->mongo, distinct, &skips, error);
  if (outcome == OUTCOME_YES)
    outcome = skips ? mongo_find(reading->mongo, "looking for the oldest documents", distinct, distinct_one, reading, error)
                    : read_each(reading, error);
  bson_destroy(distinct);
  return outcome == OUTCOME_YES ? read_untyped(reading, error) : outcome;
}

enum outcome queue_read_oldest(struct rows *rows, struct mongo *mongo, const struct overview_types *types, const struct overview *earlier,
                               struct error *error)
{
  enum { SELECTED_MAX = 100 }; /* more are found among all */
  struct oldest_reading reading = {.rows = rows, .mongo = mongo, .earlier = earlier};
  return types->count > 0 && types->count <= SELECTED_MAX ? read_selected(&reading, types, error) : read_all(&reading, error);
}
