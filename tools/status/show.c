#include "lockstore/queue_name.h"
#include "tools/status/judge.h"
#include "tools/status/status.h"

#include <bson/bson.h>
#include <inttypes.h>

/* ---- as a table ---- */

enum { COLUMNS = 11, CELL_SIZE = 400 };
static const char *const column_names[COLUMNS] = {"TYPE", "QUEUED",   "OLDEST",  "HOLDER", "LEASE", "EPOCH",
                                                  "SEQ",  "MESSAGES", "SETTLED", "RATE",   "FILE"};
static const bool column_right[COLUMNS] = {[1] = true, [2] = true, [4] = true, [5] = true, [6] = true, [7] = true, [8] = true, [9] = true};
enum { COLUMN_RATE = 9 };

void status_age_text(int64_t ms, char text[AGE_SIZE])
{
  int64_t s = ms / 1000;
  if (ms < 0)
    strcpy(text, "-");
  else if (s < 120)
    snprintf(text, AGE_SIZE, "%" PRId64 "s", s);
  else if (s < 2 * 3600)
    snprintf(text, AGE_SIZE, "%" PRId64 "m", s / 60);
  else if (s < 48 * 3600)
    snprintf(text, AGE_SIZE, "%" PRId64 "h", s / 3600);
  else
    snprintf(text, AGE_SIZE, "%" PRId64 "d", s / 86400);
}

static void lease_text(const struct overview_row *row, char *text)
{
  if (!row->held)
    strcpy(text, "-");
  else if (row->lock.left_ms <= 0)
    strcpy(text, "expired");
  else
    snprintf(text, CELL_SIZE, "%.1fs", (double)row->lock.left_ms / 1000);
}

static void row_cells(const struct overview_row *row, char cells[COLUMNS][CELL_SIZE])
{
  snprintf(cells[0], CELL_SIZE, "%s", row->type);
  if (row->queued == OVERVIEW_UNKNOWN)
    strcpy(cells[1], "?");
  else
    snprintf(cells[1], CELL_SIZE, "%" PRId64, row->queued);
  status_age_text(row->oldest_ms, cells[2]);
  if (row->held)
    snprintf(cells[3], CELL_SIZE, "%s:%" PRId64, lock_holder_show(&row->lock.holder).text, row->lock.holder.pid);
  if (row->holders > 1)
    snprintf(cells[3] + strlen(cells[3]), CELL_SIZE - strlen(cells[3]), " +%d", row->holders - 1);
  if (!row->held)
    strcpy(cells[3], row->lock_malformed ? "malformed" : "-");
  lease_text(row, cells[4]);
  snprintf(cells[5], CELL_SIZE, "%" PRId64, row->ledger.epoch);
  snprintf(cells[6], CELL_SIZE, "%" PRId64, row->ledger.end.seq);
  snprintf(cells[7], CELL_SIZE, "%" PRId64, row->ledger.end.items);
  snprintf(cells[8], CELL_SIZE, "%" PRId64, row->ledger.settled);
  snprintf(cells[9], CELL_SIZE, row->rate_messages < 0 ? "-" : "%.0f/s", row->rate_messages);
  snprintf(cells[10], CELL_SIZE, "%s", row->ledger.end.file[0] ? row->ledger.end.file : row->kind == OVERVIEW_LOCK ? "(lock)" : "-");
}

static void print_cells(const char *const cells[COLUMNS], const int widths[COLUMNS], bool rates)
{
  for (int column = 0; column < COLUMNS; column++)
    if (column == COLUMNS - 1)
      printf("%s\n", cells[column]);
    else if (rates || column != COLUMN_RATE)
      printf("%*s  ", column_right[column] ? widths[column] : -widths[column], cells[column]);
}

static void print_row(const struct overview_row *row, int widths[COLUMNS], bool rates, bool print)
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

static void print_own(const struct overview_row *row)
{
  const struct queue_name name = queue_name_of(row->type, SOURCE_OWN);
  if (row->ledger.own && row->queued >= 0 && row->own_queued >= 0)
    printf("%s: own collection %s: %" PRId64 " there, %" PRId64 " in messages\n", row->type, name.text, row->own_queued,
           row->queued - row->own_queued);
  else if (row->ledger.own)
    printf("%s: own collection %s\n", row->type, name.text);
  if (row->refused > 0)
    printf("%s: no worker takes %" PRId64 " of the first documents in %s: their type is another\n", row->type, row->refused, name.text);
}

static void print_moved(const struct overview_row *row)
{
  struct error text;
  if (ledger_moved(OUTCOME_YES, row->type, &row->ledger, &text) == OUTCOME_YES)
    return;
  printf("%s\n", text.text);
  if (row->waits)
    printf("%s: %s\n", row->type, judge_text(FINDING_MOVED));
}

static void print_remarks(const struct overview *overview)
{
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    const char *remark = overview_kind_remark(row->kind);
    if (row->problem)
      printf("%s: %s\n", row->type, row->problem);
    if (row->ledger.paused)
      printf("%s: paused by %s: %s\n", row->type, row->ledger.pause.by, row->ledger.pause.reason);
    print_moved(row);
    if (remark && row->queued != 0)
      printf("%s: %s\n", row->type, remark);
    print_own(row);
  }
  if (overview->queue_error.text[0])
    printf("database %s: not all that waits is known: %s\n", overview->db, overview->queue_error.text);
  if (overview->unusable.text[0])
    printf("database %s: %s: %s\n", overview->db,
           overview->usable == OUTCOME_REFUSED ? "workers refuse it" : "whether workers would refuse it is not known",
           overview->unusable.text);
}

void status_print_text(const struct overview *overview, bool rates)
{
  int widths[COLUMNS];
  for (int column = 0; column < COLUMNS; column++)
    widths[column] = (int)strlen(column_names[column]);
  for (size_t i = 0; i < overview->count; i++)
    print_row(&overview->rows[i], widths, rates, false);
  print_cells(column_names, widths, rates);
  for (size_t i = 0; i < overview->count; i++)
    print_row(&overview->rows[i], widths, rates, true);
  print_remarks(overview);
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

static void append_holder(bson_t *line, const struct overview_row *row)
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
  if (holder->name[0])
    BSON_APPEND_UTF8(&document, "name", holder->name);
  bson_append_document_end(line, &document);
  BSON_APPEND_INT64(line, "lease_left_ms", row->lock.left_ms);
}

static void append_pause(bson_t *line, const struct ledger *ledger)
{
  bson_t paused;
  if (!ledger->paused)
    return;
  BSON_APPEND_DOCUMENT_BEGIN(line, "paused", &paused);
  BSON_APPEND_UTF8(&paused, "by", ledger->pause.by);
  BSON_APPEND_UTF8(&paused, "reason", ledger->pause.reason);
  BSON_APPEND_DATE_TIME(&paused, "at", ledger->pause.at_ms);
  bson_append_document_end(line, &paused);
}

static void append_move(bson_t *line, const struct ledger *ledger)
{
  bson_t moved;
  if (!ledger->moved)
    return;
  BSON_APPEND_DOCUMENT_BEGIN(line, "moved", &moved);
  BSON_APPEND_UTF8(&moved, "to", ledger->move.to);
  BSON_APPEND_UTF8(&moved, "by", ledger->move.by);
  BSON_APPEND_DATE_TIME(&moved, "at", ledger->move.at_ms);
  bson_append_document_end(line, &moved);
}

static void append_slots(bson_t *line, const struct overview_row *row)
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
  if (json != NULL)
    printf("%s\n", json);
  else
    fprintf(stderr, "%spawl-status: a row is left out: JSON cannot hold what is in it\n", config_priority(CONFIG_LOG_ERROR));
  bson_free(json);
}

/* A line of its own, printed only if workers refuse the database. */
static void print_database(const struct overview *overview)
{
  bson_t line = BSON_INITIALIZER;
  if (overview->usable == OUTCOME_REFUSED) {
    BCON_APPEND(&line, "database", BCON_UTF8(overview->db), "refused", BCON_UTF8(overview->unusable.text));
    print_line(&line);
  } else if (overview->unusable.text[0]) {
    fprintf(stderr, "%spawl-status: database %s: whether workers would refuse it is not known: %s\n", config_priority(CONFIG_LOG_WARN),
            overview->db, overview->unusable.text);
  }
  bson_destroy(&line);
}

static void append_number_or_null(bson_t *line, const char *name, int64_t number)
{
  if (number == OVERVIEW_UNKNOWN)
    bson_append_null(line, name, -1);
  else
    bson_append_int64(line, name, -1, number);
}

static void append_own(bson_t *line, const struct overview_row *row)
{
  bson_t own;
  if (!row->ledger.own)
    return;
  BSON_APPEND_DOCUMENT_BEGIN(line, "own", &own);
  BSON_APPEND_UTF8(&own, "collection", queue_name_of(row->type, SOURCE_OWN).text);
  append_number_or_null(&own, "queued", row->own_queued);
  BSON_APPEND_INT64(&own, "refused", row->refused);
  bson_append_document_end(line, &own);
}

static void print_json_row(const struct overview_row *row, bool rates)
{
  bson_t line = BSON_INITIALIZER;
  append_text_or_null(&line, "type", row->kind == OVERVIEW_UNTYPED ? "" : row->type);
  BSON_APPEND_UTF8(&line, "kind", overview_kind_name(row->kind));
  append_number_or_null(&line, "queued", row->queued);
  append_number_or_null(&line, "oldest_age_ms", row->oldest_ms);
  if (row->oldest_ms != OVERVIEW_UNKNOWN && row->oldest_seen)
    BSON_APPEND_BOOL(&line, "oldest_seen", true);
  append_holder(&line, row);
  append_slots(&line, row);
  BSON_APPEND_INT32(&line, "waiting", row->waiting);
  append_ledger(&line, &row->ledger);
  if (rates && row->rate_messages >= 0)
    BSON_APPEND_DOUBLE(&line, "rate", row->rate_messages);
  append_pause(&line, &row->ledger);
  append_move(&line, &row->ledger);
  append_own(&line, row);
  if (row->problem)
    BSON_APPEND_UTF8(&line, "problem", row->problem);
  print_line(&line);
  bson_destroy(&line);
}

void status_print_json(const struct overview *overview, bool rates)
{
  for (size_t i = 0; i < overview->count; i++)
    print_json_row(&overview->rows[i], rates);
  print_database(overview);
}
