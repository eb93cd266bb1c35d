#include "lockstore/document.h"
#include "lockstore/mongo.h"
#include "worker/status.h"

#include <stdlib.h>

static bool type_wanted(const struct config *config, const char *type)
{
  for (size_t i = 0; i < config->type_count; i++)
    if (strcmp(config->types[i], type) == 0)
      return true;
  return config->type_count == 0;
}

static struct status_row *table_find(const struct status_table *table, const char *type)
{
  for (size_t i = 0; i < table->count; i++)
    if (strcmp(table->rows[i].type, type) == 0)
      return &table->rows[i];
  return NULL;
}

/* The row of the type, made if it is new; NULL: not wanted. */
static struct status_row *table_row(struct status_table *table, const char *type)
{
  if (!type_wanted(table->config, type))
    return NULL;
  struct status_row *row = table_find(table, type);
  if (row)
    return row;
  struct status_row *rows = realloc(table->rows, (table->count + 1) * sizeof *rows);
  table->failed |= rows == NULL;
  if (!rows)
    return NULL;
  table->rows = rows;
  size_t at = table->count++;
  for (; at > 0 && strcmp(rows[at - 1].type, type) > 0; at--)
    rows[at] = rows[at - 1];
  rows[at] = (struct status_row){.rate = -1};
  snprintf(rows[at].type, sizeof rows[at].type, "%s", type);
  return &rows[at];
}

static void add_problem(struct status_row *row, const char *problem)
{
  if (problem && row->problem.text[0] == '\0')
    error_set(&row->problem, "%s", problem);
}

static void add_ledger(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  struct status_row *row = table_row(context, type);
  if (!row)
    return;
  add_problem(row, problem);
  row->ledger = *ledger;
}

static void add_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  struct status_row *row = slot == 0 ? table_row(context, type) : NULL; /* the other slots are semaphores, and hold no type */
  if (!row)
    return;
  add_problem(row, problem);
  if (problem) {
    row->lock_malformed = true;
    return;
  }
  row->held = true;
  row->lock = *view;
}

static void add_queued(void *context, const bson_t *document)
{
  bson_iter_t type, count;
  if (!bson_iter_init_find(&type, document, "_id") || !BSON_ITER_HOLDS_UTF8(&type) || !bson_iter_init_find(&count, document, "n"))
    return; /* an array of strings is no type */
  char name[TYPE_BYTES_MAX + 1];
  if (!document_text(document, "_id", name, sizeof name)) /* no type, and not to be taken for one: as JSON, as in the lists */
    snprintf(name, sizeof name, "%s", document_show(document, "_id").text);
  struct status_row *row = table_row(context, name);
  if (row)
    row->queued += bson_iter_as_int64(&count);
}

/* The queue's filter, for all types at once: the groups whose key is an array are left out by the one who reads them. */
static bson_t *count_command(const struct config *config)
{
  bson_t *command = BCON_NEW("aggregate", "messages", "cursor", "{", "}");
  bson_t pipeline, stage, match, type, list;
  BSON_APPEND_ARRAY_BEGIN(command, "pipeline", &pipeline);
  BSON_APPEND_DOCUMENT_BEGIN(&pipeline, "0", &stage);
  BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &match);
  BSON_APPEND_DOCUMENT_BEGIN(&match, "type", &type);
  BSON_APPEND_UTF8(&type, "$type", "string");
  if (config->type_count) {
    BSON_APPEND_ARRAY_BEGIN(&type, "$in", &list);
    for (size_t i = 0; i < config->type_count; i++)
      BSON_APPEND_UTF8(&list, "0", config->types[i]);
    bson_append_array_end(&type, &list);
  }
  bson_append_document_end(&match, &type);
  bson_append_document_end(&stage, &match);
  bson_append_document_end(&pipeline, &stage);
  BCON_APPEND(&pipeline, "1", "{", "$group", "{", "_id", BCON_UTF8("$type"), "n", "{", "$sum", BCON_INT32(1), "}", "}", "}");
  bson_append_array_end(command, &pipeline);
  return command;
}

/* A long queue may not be counted in time; then its length is unknown, and the rest is still worth showing. */
static void count_queued(struct status_table *table, struct lockstore *store)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct error ignored;
  bson_t *command = count_command(table->config);
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  if (mongo_find(mongo, "counting the queue", command, add_queued, table, &ignored) != OUTCOME_YES)
    for (size_t i = 0; i < table->count; i++)
      table->rows[i].queued = QUEUED_UNKNOWN;
  bson_destroy(command);
}

void status_compute_rates(struct status_table *table, const struct status_table *earlier)
{
  double seconds = (double)(table->at.tv_sec - earlier->at.tv_sec) + (double)(table->at.tv_nsec - earlier->at.tv_nsec) / 1e9;
  for (size_t i = 0; earlier->at.tv_sec && i < table->count; i++) {
    const struct status_row *then = table_find(earlier, table->rows[i].type);
    int64_t moved = table->rows[i].ledger.end.items - (then ? then->ledger.end.items : 0);
    table->rows[i].rate = moved > 0 && seconds > 0 ? (double)moved / seconds : 0;
  }
}

enum outcome status_gather(struct status_table *table, struct lockstore *store, struct error *error)
{
  enum outcome outcome = mongo_hello(lockstore_mongo(store), error);
  for (size_t i = 0; i < table->config->type_count && outcome == OUTCOME_YES; i++)
    (void)table_row(table, table->config->types[i]);
  if (outcome == OUTCOME_YES)
    outcome = ledger_list(store, add_ledger, table, error);
  if (outcome == OUTCOME_YES)
    outcome = lock_list(store, add_lock, table, error);
  if (outcome == OUTCOME_YES)
    count_queued(table, store);
  clock_gettime(CLOCK_MONOTONIC, &table->at);
  if (table->failed) {
    error_set(error, "out of memory");
    return OUTCOME_REFUSED;
  }
  return outcome;
}
