#include "bson_array.h"
#include "tools/overview/private.h"
#include "type_text.h"

/* How many documents wait: one request for all types, answered from the index where there is one. */

static void append_match(bson_t *match, const struct overview_types *types)
{
  bson_t type, list;
  if (types->count == 0)
    return;
  BSON_APPEND_DOCUMENT_BEGIN(match, "type", &type);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&type, "$in", &list);
  for (size_t i = 0; i < types->count; i++)
    BSON_APPEND_UTF8(&list, "0", types->names[i]);
  bson_append_array_end(&type, &list);
  bson_append_document_end(match, &type);
}

/*
 * The second group folds all that is not a string: a million documents with a million wrong types are still one row. Without the index the
 * same request finds the oldest documents.
 */
static bson_t *count_command(struct mongo *mongo, const struct overview_types *types, bool indexed)
{
  bson_t match = BSON_INITIALIZER, each = BSON_INITIALIZER, all = BSON_INITIALIZER;
  append_match(&match, types);
  BCON_APPEND(&each, "_id", BCON_UTF8("$type"), "n", "{", "$sum", BCON_INT64(1), "}");
  BCON_APPEND(&all, "_id", "{", "$cond", "[", "{", "$in", "[", "{", "$type", BCON_UTF8("$_id"), "}", "[", BCON_UTF8("string"),
              BCON_UTF8("symbol"), "]", "]", "}", BCON_UTF8("$_id"), BCON_NULL, "]", "}", "n", "{", "$sum", BCON_UTF8("$n"), "}");
  if (!indexed) {
    BCON_APPEND(&each, "first", "{", "$min", BCON_UTF8("$_id"), "}");
    BCON_APPEND(&all, "first", "{", "$min", BCON_UTF8("$first"), "}");
  }
  bson_t *command = BCON_NEW("aggregate", "messages", "pipeline", "[", "{", "$match", BCON_DOCUMENT(&match), "}", "{", "$group",
                             BCON_DOCUMENT(&each), "}", "{", "$group", BCON_DOCUMENT(&all), "}", "]", "cursor", "{", "}");
  if (indexed)
    append_hint(command);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  bson_destroy(&match);
  bson_destroy(&each);
  bson_destroy(&all);
  return command;
}

static void count_one(void *context, const bson_t *document)
{
  struct rows *rows = context;
  struct overview_row *row;
  bson_iter_t type, count, first;
  uint32_t bytes = 0;
  if (!bson_iter_init_find(&type, document, "_id") || !bson_iter_init_find(&count, document, "n"))
    return;
  const char *name = type_text(&type, &bytes);
  row = name ? rows_get_name(rows, name, bytes) : rows_get(rows, OVERVIEW_UNTYPED_NAME, OVERVIEW_UNTYPED);
  if (!row)
    return;
  row->queued += bson_iter_as_int64(&count);
  if (name && bson_iter_init_find(&first, document, "first"))
    row_note_oldest(row, rows->overview, row, &first);
}

/* What came since the oldest documents were read, and what is gone, counts, too. */
static void row_counted(struct overview_row *row, const struct overview *overview, int64_t passed_ms)
{
  int64_t more = row->queued + row->ledger.settled - row->counted - row->counted_settled;
  if (row->counted >= 0 && overview->counted_at_ms && passed_ms > 0)
    row->rate_in = more > 0 ? (double)more * 1000 / (double)passed_ms : 0;
  row->counted = row->queued;
  row->counted_own = row->own_queued;
  row->counted_settled = row->ledger.settled;
  row->waits = row->queued > 0;
  if (!row->waits)
    row->oldest_ms = OVERVIEW_UNKNOWN;
}

static void row_begin(struct overview_row *row, bool by_count)
{
  row->queued = 0;
  if (by_count)
    row->oldest_ms = OVERVIEW_UNKNOWN;
}

enum outcome overview_count(struct overview *overview, struct lockstore *store, const struct overview_types *types, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct rows rows;
  int64_t began_ms = overview_now_ms();
  for (size_t i = 0; i < overview->count; i++)
    row_begin(&overview->rows[i], overview->by_count);
  rows_begin(&rows, overview, types);
  bson_t *command = count_command(mongo, types, !overview->by_count);
  enum outcome outcome = mongo_find(mongo, "counting the queue", command, count_one, &rows, error);
  bson_destroy(command);
  if (!rows_end(&rows, error))
    outcome = OUTCOME_REFUSED;
  if (outcome == OUTCOME_YES)
    outcome = own_count(overview, mongo, error);
  int64_t now_ms = overview_now_ms();
  overview->count_took_ms = now_ms - began_ms;
  for (size_t i = 0; i < overview->count; i++)
    if (outcome == OUTCOME_YES)
      row_counted(&overview->rows[i], overview, now_ms - overview->counted_at_ms);
    else
      overview->rows[i].counted = OVERVIEW_UNKNOWN;
  overview->counted_at_ms = outcome == OUTCOME_YES ? now_ms : 0;
  for (size_t i = 0; i < overview->count; i++)
    row_finish(overview, &overview->rows[i]);
  return outcome;
}
