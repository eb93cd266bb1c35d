#include "bson_array.h"
#include "lockstore/queue_name.h"
#include "tools/overview/private.h"

/*
 * What waits in the own collections of types: of each the first documents by _id, which are those that a worker takes next. It has taken
 * all before them, so documents that it cannot take are among the first, as soon as they are all that is left. One request for many types,
 * and few documents a type are visited.
 */

enum { FIRST_MAX = 10, TYPES_MAX = 100 }; /* of a type; and in a request */

/* What worker/queue.c matches: no type, or this one. An array is equal to no string here. */
static void append_fits(bson_t *to, const char *type)
{
  BCON_APPEND(to, "fits", "{", "$or", "[", "{", "$eq", "[", "{", "$type", BCON_UTF8("$type"), "}", BCON_UTF8("missing"), "]", "}", "{",
              "$eq", "[", BCON_UTF8("$type"), "{", "$literal", BCON_UTF8(type), "}", "]", "}", "]", "}");
}

/* {$unionWith: {coll, pipeline}}; a collection that is missing has nothing. */
static void append_union(bson_t *pipeline, const char *key, const char *type)
{
  bson_t stage, with, fields = BSON_INITIALIZER;
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  append_fits(&fields, type);
  BCON_APPEND(&fields, "of", "{", "$literal", BCON_UTF8(type), "}");
  BSON_APPEND_DOCUMENT_BEGIN(pipeline, key, &stage);
  BSON_APPEND_DOCUMENT_BEGIN(&stage, "$unionWith", &with);
  BCON_APPEND(&with, "coll", BCON_UTF8(name.text), "pipeline", "[", "{", "$sort", "{", "_id", BCON_INT32(1), "}", "}", "{", "$limit",
              BCON_INT32(FIRST_MAX), "}", "{", "$project", BCON_DOCUMENT(&fields), "}", "]");
  bson_append_document_end(&stage, &with);
  bson_append_document_end(pipeline, &stage);
  bson_destroy(&fields);
}

struct own_reading {
  struct rows *rows;
  const struct overview *earlier;
};

static void note_first(void *context, const bson_t *document)
{
  const struct own_reading *reading = context;
  bson_iter_t of, fits, id;
  if (!bson_iter_init_find(&of, document, "of") || !BSON_ITER_HOLDS_UTF8(&of) || !bson_iter_init_find(&fits, document, "fits") ||
      !bson_iter_init_find(&id, document, "_id"))
    return;
  struct overview_row *row = rows_get(reading->rows, bson_iter_utf8(&of, NULL), OVERVIEW_TYPE);
  if (!row)
    return;
  if (!bson_iter_as_bool(&fits)) {
    row->refused++;
    return;
  }
  if (!row->own_waits)
    row_note_oldest(row, reading->rows->overview, reading->earlier ? overview_find(reading->earlier, row->type) : NULL, &id);
  row->own_waits = true;
}

/* Reads `most` types at most, from *at on, and sets *at to the row after the last. */
static enum outcome read_some(const struct own_reading *reading, struct mongo *mongo, size_t *at, int most, struct error *error)
{
  const struct overview *overview = reading->rows->overview;
  bson_t pipeline = BSON_INITIALIZER;
  int count = 0;
  BCON_APPEND(&pipeline, "0", "{", "$match", "{", "_id", BCON_UTF8("@none"), "}", "}");
  for (; *at < overview->count && count < most; ++*at) {
    char key[16];
    if (!overview->rows[*at].ledger.own)
      continue;
    snprintf(key, sizeof key, "%d", ++count);
    append_union(&pipeline, key, overview->rows[*at].type);
  }
  bson_t *command = BCON_NEW("aggregate", "ledger", "pipeline", BCON_ARRAY(&pipeline), "cursor", "{", "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = OUTCOME_YES;
  if (count > 0)
    outcome = mongo_find(mongo, "looking for the oldest documents of own collections", command, note_first, (void *)reading, error);
  bson_destroy(command);
  bson_destroy(&pipeline);
  return outcome;
}

/* All of the first cannot be taken: there may be others behind them. */
static enum outcome read_behind(const struct own_reading *reading, struct mongo *mongo, struct overview_row *row, struct error *error)
{
  const struct queue_name name = queue_name_of(row->type, SOURCE_OWN);
  bson_t fields = BSON_INITIALIZER;
  append_fits(&fields, row->type);
  bson_t *command =
      BCON_NEW("aggregate", BCON_UTF8(name.text), "pipeline", "[", "{", "$sort", "{", "_id", BCON_INT32(1), "}", "}", "{", "$project",
               BCON_DOCUMENT(&fields), "}", "{", "$match", "{", "fits", BCON_BOOL(true), "}", "}", "{", "$limit", BCON_INT32(1), "}", "{",
               "$set", "{", "of", "{", "$literal", BCON_UTF8(row->type), "}", "}", "}", "]", "cursor", "{", "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome =
      mongo_find(mongo, "looking for the oldest documents of own collections", command, note_first, (void *)reading, error);
  bson_destroy(command);
  bson_destroy(&fields);
  return outcome;
}

/* Rights may be given a type: where that to read one own collection is missing, this says nothing of the others. */
static bool is_denied(enum outcome outcome, const struct error *error)
{
  return outcome == OUTCOME_UNKNOWN && error->reason == ERROR_RIGHT;
}

static enum outcome own_denied(struct overview *overview, struct overview_row *row, const struct error *error)
{
  const struct queue_name name = queue_name_of(row->type, SOURCE_OWN);
  row->own_unknown = true;
  error_set(&overview->queue_error, "%s: %.800s", name.text, error->text);
  return OUTCOME_YES;
}

static enum outcome read_each(const struct own_reading *reading, struct mongo *mongo, size_t from, size_t to, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  while (from < to && outcome == OUTCOME_YES) {
    outcome = read_some(reading, mongo, &from, 1, error);
    if (is_denied(outcome, error))
      outcome = own_denied(reading->rows->overview, &reading->rows->overview->rows[from - 1], error);
  }
  return outcome;
}

enum outcome own_read_oldest(struct rows *rows, struct mongo *mongo, const struct overview *earlier, struct error *error)
{
  const struct own_reading reading = {.rows = rows, .earlier = earlier};
  enum outcome outcome = OUTCOME_YES;
  for (size_t at = 0; at < rows->overview->count && outcome == OUTCOME_YES;) {
    size_t from = at;
    outcome = read_some(&reading, mongo, &at, TYPES_MAX, error);
    if (is_denied(outcome, error))
      outcome = read_each(&reading, mongo, from, at, error);
  }
  for (size_t i = 0; i < rows->overview->count && outcome == OUTCOME_YES; i++) {
    struct overview_row *row = &rows->overview->rows[i];
    if (row->refused >= FIRST_MAX && !row->own_waits)
      outcome = read_behind(&reading, mongo, row, error);
    if (is_denied(outcome, error))
      outcome = own_denied(rows->overview, row, error);
  }
  return outcome;
}

/* ---- counting ---- */

/* By the collection's metadata, which the server keeps up to date with each insert and delete: no document is visited. */
static enum outcome count_one(struct mongo *mongo, struct overview_row *row, struct error *error)
{
  const struct queue_name name = queue_name_of(row->type, SOURCE_OWN);
  bson_t *command = BCON_NEW("count", BCON_UTF8(name.text)), reply;
  bson_iter_t at;
  int code;
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, "counting an own collection", command, &reply, &code, error);
  if (outcome == OUTCOME_YES && bson_iter_init_find(&at, &reply, "n"))
    row->own_queued = bson_iter_as_int64(&at) - row->refused;
  if (row->own_queued < row->own_waits)
    row->own_queued = row->own_waits;
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

enum outcome own_count(struct overview *overview, struct mongo *mongo, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  for (size_t i = 0; i < overview->count && outcome == OUTCOME_YES; i++) {
    struct overview_row *row = &overview->rows[i];
    if (!row->ledger.own || row->own_unknown)
      continue;
    outcome = count_one(mongo, row, error);
    row->queued += outcome == OUTCOME_YES ? row->own_queued : 0;
  }
  return outcome;
}
