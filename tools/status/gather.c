#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"
#include "tools/status/status.h"

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

/* The row of that name, added if it is new; NULL: not selected. */
static struct status_row *table_row(struct status_table *table, const char *type, enum status_kind kind)
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
  rows[at] = (struct status_row){.rate = -1, .kind = kind};
  snprintf(rows[at].type, sizeof rows[at].type, "%s", type);
  return &rows[at];
}

/* ---- names ---- */

enum { NAME_SHOWN_MAX = 80 };

/* Writes \uXXXX, two of them above U+FFFF, and U+FFFD for invalid UTF-8. Returns how many bytes it consumed. */
static size_t name_show_character(const char *from, size_t bytes, char one[16])
{
  bson_unichar_t character = 0xfffd;
  size_t length = 1;
  unsigned char first = (unsigned char)from[0];
  size_t wanted = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (wanted > 0 && wanted <= bytes && bson_utf8_validate(from, wanted, true)) {
    character = bson_utf8_get_char(from);
    length = wanted;
  }
  if (character > 0xffff)
    sprintf(one, "\\u%04x\\u%04x", 0xd800 + (unsigned)((character - 0x10000) >> 10), 0xdc00 + (unsigned)((character - 0x10000) & 0x3ff));
  else
    sprintf(one, "\\u%04x", (unsigned)character);
  return length;
}

/* As JSON, in ASCII, so that invisible characters can be seen; cut if it is too long. */
static void name_show(const char *from, size_t bytes, char shown[TYPE_BYTES_MAX + 1])
{
  char one[16];
  size_t used = (size_t)sprintf(shown, "\"");
  for (size_t i = 0; i < bytes && used < NAME_SHOWN_MAX;) {
    unsigned char byte = (unsigned char)from[i];
    size_t length = 1;
    if (byte == '"' || byte == '\\')
      sprintf(one, "\\%c", byte);
    else if (byte >= ' ' && byte < 0x7f)
      sprintf(one, "%c", byte);
    else if (byte == '\t' || byte == '\n' || byte == '\r')
      sprintf(one, "\\%c", byte == '\t' ? 't' : byte == '\n' ? 'n' : 'r');
    else
      length = name_show_character(from + i, bytes - i, one);
    used += (size_t)snprintf(shown + used, NAME_SHOWN_MAX + 1 - used, "%s", one);
    i += length;
  }
  if (used < NAME_SHOWN_MAX)
    strcpy(shown + used, "\"");
}

/* The row of a name that may hold any bytes. */
static struct status_row *name_row(struct status_table *table, const char *name, size_t bytes)
{
  char shown[TYPE_BYTES_MAX + 1];
  if (strlen(name) == bytes && type_name_valid(name))
    return table_row(table, name, STATUS_TYPE);
  name_show(name, bytes, shown);
  return table_row(table, shown, STATUS_INVALID);
}

/* For ledgers and locks: a value that is not a string, or holds control characters, is JSON already. */
static struct status_row *listed_row(struct status_table *table, const char *name)
{
  return strchr("\"{[", name[0]) ? table_row(table, name, STATUS_INVALID) : name_row(table, name, strlen(name));
}

static void add_problem(struct status_row *row, const char *problem)
{
  if (problem && row->problem.text[0] == '\0')
    error_set(&row->problem, "%s", problem);
}

static void add_ledger(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  struct status_row *row = listed_row(context, type);
  if (!row)
    return;
  add_problem(row, problem);
  row->ledger = *ledger;
}

static void add_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  struct status_row *row = listed_row(context, type);
  (void)slot; /* they come in order */
  if (!row)
    return;
  add_problem(row, problem);
  if (problem) {
    row->lock_malformed = true;
    return;
  }
  if (row->holders++ == 0)
    row->lock = *view;
  row->held = true;
}

static void add_untyped(struct status_table *table, int64_t count)
{
  struct status_row *row = count > 0 && table->config->type_count == 0 ? table_row(table, STATUS_UNTYPED_NAME, STATUS_UNTYPED) : NULL;
  if (row)
    row->queued += count;
}

static void add_queued(void *context, const bson_t *document)
{
  bson_iter_t type, count;
  uint32_t bytes;
  if (!bson_iter_init_find(&type, document, "_id") || !bson_iter_init_find(&count, document, "n"))
    return;
  if (!BSON_ITER_HOLDS_UTF8(&type)) { /* skip an array of strings */
    add_untyped(context, bson_iter_as_int64(&count));
    return;
  }
  const char *name = bson_iter_utf8(&type, &bytes);
  struct status_row *row = name_row(context, name, bytes);
  if (row)
    row->queued += bson_iter_as_int64(&count);
}

/* The queue's filter, for all types at once. The code that reads the reply recognises the groups whose key is an array. */
static bson_t *count_command(const struct config *config)
{
  bson_t *command = BCON_NEW("aggregate", "messages", "cursor", "{", "}");
  bson_t pipeline, stage, match, type, list;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "pipeline", &pipeline);
  BSON_APPEND_DOCUMENT_BEGIN(&pipeline, "0", &stage);
  BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &match);
  BSON_APPEND_DOCUMENT_BEGIN(&match, "type", &type);
  BSON_APPEND_UTF8(&type, "$type", "string");
  if (config->type_count) {
    BSON_APPEND_ARRAY_UNSAFE_BEGIN(&type, "$in", &list);
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

/* ---- documents without a type ---- */

static void count_untyped_one(void *context, const bson_t *document)
{
  bool mixed = false;
  if (!document_bool(document, "mixed", &mixed) || !mixed)
    ++*(int64_t *)context;
}

/*
 * Counts one end of the index on {type, _id}: what sorts before all strings, or after them. An array with a string in it is counted by
 * type.
 */
static enum outcome count_end(struct mongo *mongo, bool before, int64_t *count, struct error *error)
{
  bson_t empty = BSON_INITIALIZER;
  bson_t *command = BCON_NEW("find", "messages", "hint", "{", "type", BCON_INT32(1), "_id", BCON_INT32(1), "}", "projection", "{", "_id",
                             BCON_INT32(0), "mixed", "{", "$cond", "[", "{", "$isArray", BCON_UTF8("$type"), "}", "{", "$in", "[",
                             BCON_UTF8("string"), "{", "$map", "{", "input", BCON_UTF8("$type"), "in", "{", "$type", BCON_UTF8("$$this"),
                             "}", "}", "}", "]", "}", BCON_BOOL(false), "]", "}", "}");
  if (before)
    BCON_APPEND(command, "min", "{", "type", BCON_MINKEY, "_id", BCON_MINKEY, "}", "max", "{", "type", BCON_UTF8(""), "_id", BCON_MINKEY,
                "}");
  else
    BCON_APPEND(command, "min", "{", "type", BCON_DOCUMENT(&empty), "_id", BCON_MINKEY, "}", "max", "{", "type", BCON_MAXKEY, "_id",
                BCON_MAXKEY, "}");
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "counting documents without a type", command, count_untyped_one, count, error);
  bson_destroy(command);
  return outcome;
}

static void count_note(void *context, const bson_t *document)
{
  if (!document_int64(document, "n", context))
    *(int64_t *)context = 0;
}

/* Without an index all documents must be read. */
static enum outcome count_without_index(struct mongo *mongo, int64_t *count, struct error *error)
{
  bson_t *command = BCON_NEW("aggregate", "messages", "pipeline", "[", "{", "$match", "{", "type", "{", "$not", "{", "$type",
                             BCON_UTF8("string"), "}", "}", "}", "}", "{", "$count", BCON_UTF8("n"), "}", "]", "cursor", "{", "}");
  *count = 0;
  mongo_append_read_concern(mongo, command, "local", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "counting documents without a type", command, count_note, count, error);
  bson_destroy(command);
  return outcome;
}

static void count_untyped(struct status_table *table, struct mongo *mongo)
{
  struct error ignored;
  int64_t count = 0;
  bool known = count_end(mongo, true, &count, &ignored) == OUTCOME_YES && count_end(mongo, false, &count, &ignored) == OUTCOME_YES;
  if (known || count_without_index(mongo, &count, &ignored) == OUTCOME_YES) {
    add_untyped(table, count);
    return;
  }
  struct status_row *row = table_row(table, STATUS_UNTYPED_NAME, STATUS_UNTYPED);
  if (row)
    row->queued = QUEUED_UNKNOWN;
}

/* A long queue may not be counted in time; then its length is unknown, and the rest is still shown. */
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
  else if (table->config->type_count == 0)
    count_untyped(table, mongo);
  bson_destroy(command);
}

/* ---- all of it ---- */

/* Marks the types that have a ledger or a lock, but no file and no message, and whose holder is not a worker. */
static void mark_locks(struct status_table *table)
{
  for (size_t i = 0; i < table->count; i++) {
    struct status_row *row = &table->rows[i];
    bool by_lock = row->held ? row->lock.holder.kind == LOCK_BY_TOOL : row->ledger.epoch > 0;
    if (row->kind == STATUS_TYPE && by_lock && row->queued == 0 && row->ledger.end.file[0] == '\0' && !row->problem.text[0])
      row->kind = STATUS_LOCK;
  }
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
    (void)table_row(table, table->config->types[i], STATUS_TYPE);
  if (outcome == OUTCOME_YES)
    outcome = ledger_list(store, add_ledger, table, error);
  if (outcome == OUTCOME_YES)
    outcome = lock_list(store, add_lock, table, error);
  if (outcome == OUTCOME_YES)
    count_queued(table, store);
  mark_locks(table);
  if (outcome == OUTCOME_YES && table->config->type_count == 0)
    table->usable = lockstore_inspect(store, &table->unusable);
  snprintf(table->db, sizeof table->db, "%s", mongo_db(lockstore_mongo(store)));
  clock_gettime(CLOCK_MONOTONIC, &table->at);
  if (table->failed) {
    error_set(error, "out of memory");
    return OUTCOME_REFUSED;
  }
  return outcome;
}
