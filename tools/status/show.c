#include "tools/status/status.h"

#include <bson/bson.h>
#include <inttypes.h>

/* Why workers do not take them; NULL: nothing is wrong. */
static const char *const kind_remarks[STATUS_KINDS] = {
    [STATUS_INVALID] =
        "no worker takes these documents: this is no valid type, which is 1 to 128 bytes of A-Z a-z 0-9 _ . -, not beginning "
        "with . or -",
    [STATUS_UNTYPED] = "no worker takes these documents: their type is not a string",
};

/* ---- as a table ---- */

enum { COLUMNS = 10, CELL_SIZE = 400 };
static const char *const column_names[COLUMNS] = {"TYPE", "QUEUED",   "HOLDER",  "LEASE", "EPOCH",
                                                  "SEQ",  "MESSAGES", "SETTLED", "RATE",  "FILE"};
static const bool column_right[COLUMNS] = {[1] = true, [3] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true};
enum { COLUMN_RATE = 8 };

static void lease_text(const struct status_row *row, char *text)
{
  if (!row->held)
    strcpy(text, "-");
  else if (row->lock.left_ms <= 0)
    strcpy(text, "expired");
  else
    snprintf(text, CELL_SIZE, "%.1fs", (double)row->lock.left_ms / 1000);
}

static void row_cells(const struct status_row *row, char cells[COLUMNS][CELL_SIZE])
{
  snprintf(cells[0], CELL_SIZE, "%s", row->type);
  if (row->queued == QUEUED_UNKNOWN)
    strcpy(cells[1], "?");
  else
    snprintf(cells[1], CELL_SIZE, "%" PRId64, row->queued);
  if (row->held)
    snprintf(cells[2], CELL_SIZE, "%s:%" PRId64, row->lock.holder.host[0] ? row->lock.holder.host : "?", row->lock.holder.pid);
  if (row->holders > 1)
    snprintf(cells[2] + strlen(cells[2]), CELL_SIZE - strlen(cells[2]), " +%d", row->holders - 1);
  if (!row->held)
    strcpy(cells[2], row->lock_malformed ? "malformed" : "-");
  lease_text(row, cells[3]);
  snprintf(cells[4], CELL_SIZE, "%" PRId64, row->ledger.epoch);
  snprintf(cells[5], CELL_SIZE, "%" PRId64, row->ledger.end.seq);
  snprintf(cells[6], CELL_SIZE, "%" PRId64, row->ledger.end.items);
  snprintf(cells[7], CELL_SIZE, "%" PRId64, row->ledger.settled);
  snprintf(cells[8], CELL_SIZE, row->rate < 0 ? "-" : "%.0f/s", row->rate);
  snprintf(cells[9], CELL_SIZE, "%s", row->ledger.end.file[0] ? row->ledger.end.file : row->kind == STATUS_LOCK ? "(lock)" : "-");
}

static void print_cells(const char *const cells[COLUMNS], const int widths[COLUMNS], bool rates)
{
  for (int column = 0; column < COLUMNS; column++)
    if (column == COLUMNS - 1)
      printf("%s\n", cells[column]);
    else if (rates || column != COLUMN_RATE)
      printf("%*s  ", column_right[column] ? widths[column] : -widths[column], cells[column]);
}

static void print_row(const struct status_row *row, int widths[COLUMNS], bool rates, bool print)
{
  char cells[COLUMNS][CELL_SIZE];
  const char *texts[COLUMNS];
  row_cells(row, cells);
  for (int column = 0; column < COLUMNS; column++) {
    texts[column] = cells[column];
    if ((int)strlen(cells[column]) > widths[column])
      widths[column] = (int)strlen(cells[column]);
  }
  if (print)
    print_cells(texts, widths, rates);
}

void status_print_text(const struct status_table *table)
{
  bool rates = table->config->watch;
  int widths[COLUMNS];
  for (int column = 0; column < COLUMNS; column++)
    widths[column] = (int)strlen(column_names[column]);
  for (size_t i = 0; i < table->count; i++)
    print_row(&table->rows[i], widths, rates, false);
  print_cells(column_names, widths, rates);
  for (size_t i = 0; i < table->count; i++)
    print_row(&table->rows[i], widths, rates, true);
  for (size_t i = 0; i < table->count; i++) {
    const struct status_row *row = &table->rows[i];
    if (row->problem.text[0])
      printf("%s: %s\n", row->type, row->problem.text);
    if (kind_remarks[row->kind] && row->queued > 0)
      printf("%s: %s\n", row->type, kind_remarks[row->kind]);
  }
  if (table->usable != OUTCOME_YES)
    printf("database %s: %s: %s\n", table->db,
           table->usable == OUTCOME_REFUSED ? "workers refuse it" : "whether workers would refuse it is not known", table->unusable.text);
}

/* ---- as JSON ---- */

static void append_hex(bson_t *line, const char *name, const uint8_t *bytes, size_t count)
{
  char hex[2 * 16 + 1] = "";
  for (size_t i = 0; i < count; i++)
    sprintf(hex + 2 * i, "%02x", bytes[i]);
  BSON_APPEND_UTF8(line, name, hex);
}

static void append_text_or_null(bson_t *line, const char *name, const char *text)
{
  if (text[0])
    bson_append_utf8(line, name, -1, text, -1);
  else
    BSON_APPEND_NULL(line, name);
}

static void append_holder(bson_t *line, const struct status_row *row)
{
  const struct lock_holder *holder = &row->lock.holder;
  bson_t document;
  if (!row->held) {
    BSON_APPEND_NULL(line, "holder");
    BSON_APPEND_NULL(line, "lease_left_ms");
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(line, "holder", &document);
  BSON_APPEND_UTF8(&document, "host", holder->host);
  BSON_APPEND_INT64(&document, "pid", holder->pid);
  BSON_APPEND_UTF8(&document, "program", holder->program);
  BSON_APPEND_UTF8(&document, "boot", holder->boot);
  bson_append_document_end(line, &document);
  BSON_APPEND_INT64(line, "lease_left_ms", row->lock.left_ms);
}

static void append_slots(bson_t *line, const struct status_row *row)
{
  bson_t slots;
  if (row->ledger.slots == 0)
    return;
  BSON_APPEND_DOCUMENT_BEGIN(line, "slots", &slots);
  BSON_APPEND_INT32(&slots, "held", row->holders);
  BSON_APPEND_INT32(&slots, "of", row->ledger.slots);
  bson_append_document_end(line, &slots);
}

static void append_ledger(bson_t *line, const struct ledger *ledger)
{
  const struct committed *end = &ledger->end;
  uint8_t link[8];
  for (int i = 0; i < 8; i++)
    link[i] = (uint8_t)(end->link >> (56 - 8 * i));
  BSON_APPEND_INT64(line, "epoch", ledger->epoch);
  BSON_APPEND_BOOL(line, "clean", ledger->clean);
  BSON_APPEND_INT64(line, "seq", end->seq);
  BSON_APPEND_INT64(line, "messages", end->items);
  BSON_APPEND_INT64(line, "settled", ledger->settled);
  append_text_or_null(line, "file", end->file);
  if (end->file[0])
    append_hex(line, "uuid", end->uuid, sizeof end->uuid);
  else
    BSON_APPEND_NULL(line, "uuid");
  BSON_APPEND_INT64(line, "length", end->length);
  BSON_APPEND_INT64(line, "tail", end->tail);
  if (end->file[0])
    append_hex(line, "link", link, sizeof link);
  else
    BSON_APPEND_NULL(line, "link");
  append_text_or_null(line, "machine", ledger->machine);
}

static void print_line(const bson_t *line)
{
  char *json = bson_as_relaxed_extended_json(line, NULL);
  if (json)
    printf("%s\n", json);
  bson_free(json);
}

/* A line of its own, printed only if workers refuse the database. */
static void print_database(const struct status_table *table)
{
  bson_t line = BSON_INITIALIZER;
  if (table->usable == OUTCOME_REFUSED) {
    BCON_APPEND(&line, "database", BCON_UTF8(table->db), "refused", BCON_UTF8(table->unusable.text));
    print_line(&line);
  } else if (table->usable != OUTCOME_YES) {
    fprintf(stderr, "%spawl-status: database %s: whether workers would refuse it is not known: %s\n", config_priority(CONFIG_LOG_WARN),
            table->db, table->unusable.text);
  }
  bson_destroy(&line);
}

void status_print_json(const struct status_table *table)
{
  static const char *const kinds[STATUS_KINDS] = {"type", "lock", "invalid", "untyped"};
  for (size_t i = 0; i < table->count; i++) {
    const struct status_row *row = &table->rows[i];
    bson_t line = BSON_INITIALIZER;
    append_text_or_null(&line, "type", row->kind == STATUS_UNTYPED ? "" : row->type);
    BSON_APPEND_UTF8(&line, "kind", kinds[row->kind]);
    if (row->queued == QUEUED_UNKNOWN)
      BSON_APPEND_NULL(&line, "queued");
    else
      BSON_APPEND_INT64(&line, "queued", row->queued);
    append_holder(&line, row);
    append_slots(&line, row);
    append_ledger(&line, &row->ledger);
    if (row->rate >= 0)
      BSON_APPEND_DOUBLE(&line, "rate", row->rate);
    if (row->problem.text[0])
      BSON_APPEND_UTF8(&line, "problem", row->problem.text);
    print_line(&line);
    bson_destroy(&line);
  }
  print_database(table);
}
