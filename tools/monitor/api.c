#include "bson_array.h"
#include "lockstore/queue_name.h"
#include "tools/monitor/api_private.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- parts ---- */

void api_write(FILE *out, bson_t *document)
{
  char *json = bson_as_relaxed_extended_json(document, NULL);
  fputs(json != NULL ? json : "{}", out); /* NULL: no memory; texts are UTF-8 (board_take) */
  bson_free(json);
  bson_destroy(document);
}

void api_write_text(FILE *out, const char *text)
{
  char *escaped = bson_utf8_escape_for_json(text, -1);
  fprintf(out, "\"%s\"", escaped != NULL ? escaped : "");
  bson_free(escaped);
}

char *api_close(FILE *out, char **text)
{
  bool failed = ferror(out);
  if (fclose(out) == 0 && !failed)
    return *text;
  free(*text);
  return NULL;
}

void api_append_text(bson_t *document, const char *name, const char *text)
{
  if (text != NULL && text[0] != '\0')
    bson_append_utf8(document, name, -1, text, -1);
  else
    bson_append_null(document, name, -1);
}

void api_append_count(bson_t *document, const char *name, int64_t value, bool known)
{
  if (known)
    bson_append_int64(document, name, -1, value);
  else
    bson_append_null(document, name, -1);
}

/* Of a thousand different values between one power of two and the next: so it has few digits, and a message an hour is not 0. */
static void append_rate(bson_t *document, const char *name, double value)
{
  enum { BITS = 10 };
  int exponent;
  double part = frexp(value, &exponent);
  if (value >= 0)
    bson_append_double(document, name, -1, ldexp(round(ldexp(part, BITS)), exponent - BITS));
  else
    bson_append_null(document, name, -1);
}

/* ---- a row ---- */

static void fill_process(bson_t *document, const struct lock_holder *process)
{
  BSON_APPEND_UTF8(document, "host", process->host);
  BSON_APPEND_INT64(document, "pid", process->pid);
  BSON_APPEND_UTF8(document, "program", process->program);
  if (process->name[0] != '\0')
    BSON_APPEND_UTF8(document, "name", process->name);
}

static void append_holder(bson_t *row, const struct track *track, const struct overview_row *from)
{
  const struct hold *hold = track != NULL ? timeline_last(&track->timeline) : NULL;
  bson_t document;
  if (!from->held) {
    BSON_APPEND_NULL(row, "holder");
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(row, "holder", &document);
  fill_process(&document, &from->lock.holder);
  api_append_count(&document, "since_ms", hold != NULL ? hold->from_ms : 0, hold != NULL);
  bson_append_document_end(row, &document);
}

static void append_slots(bson_t *row, const struct overview_row *from)
{
  bson_t slots;
  if (from->ledger.slots == 0) {
    BSON_APPEND_NULL(row, "slots");
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(row, "slots", &slots);
  BSON_APPEND_INT32(&slots, "held", from->holders);
  BSON_APPEND_INT32(&slots, "of", from->ledger.slots);
  bson_append_document_end(row, &slots);
}

static void append_waiters(bson_t *row, const struct overview_row *from)
{
  bson_t waiters, one;
  BSON_APPEND_INT32(row, "waiting", from->waiting);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(row, "waiters", &waiters);
  for (int i = 0; i < from->waiting && i < OVERVIEW_WAITERS_MAX && from->waiters != NULL; i++) {
    BSON_APPEND_DOCUMENT_BEGIN(&waiters, "0", &one);
    fill_process(&one, &from->waiters[i]);
    bson_append_document_end(&waiters, &one);
  }
  bson_append_array_end(row, &waiters);
}

static void append_pause(bson_t *row, const struct ledger *ledger)
{
  bson_t pause;
  if (!ledger->paused) {
    BSON_APPEND_NULL(row, "paused");
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(row, "paused", &pause);
  BSON_APPEND_UTF8(&pause, "by", ledger->pause.by);
  BSON_APPEND_UTF8(&pause, "reason", ledger->pause.reason);
  BSON_APPEND_INT64(&pause, "at_ms", ledger->pause.at_ms);
  bson_append_document_end(row, &pause);
}

static void append_move(bson_t *row, const struct ledger *ledger)
{
  bson_t move;
  if (!ledger->moved) {
    BSON_APPEND_NULL(row, "moved");
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(row, "moved", &move);
  BSON_APPEND_UTF8(&move, "to", ledger->move.to);
  BSON_APPEND_UTF8(&move, "by", ledger->move.by);
  BSON_APPEND_INT64(&move, "at_ms", ledger->move.at_ms);
  bson_append_document_end(row, &move);
}

static void append_own(bson_t *row, const struct overview_row *from)
{
  bson_t own;
  if (!from->ledger.own) {
    BSON_APPEND_NULL(row, "own");
    return;
  }
  BSON_APPEND_DOCUMENT_BEGIN(row, "own", &own);
  BSON_APPEND_UTF8(&own, "collection", queue_name_of(from->type, SOURCE_OWN).text);
  api_append_count(&own, "queued", from->own_queued, from->own_queued >= 0);
  BSON_APPEND_INT64(&own, "refused", from->refused);
  bson_append_document_end(row, &own);
}

void api_fill_row(bson_t *row, const struct board *board, const struct overview_row *from)
{
  const struct ledger *ledger = &from->ledger;
  const struct track *track = board_track(board, from->type);
  BSON_APPEND_UTF8(row, "type", from->type);
  BSON_APPEND_UTF8(row, "kind", overview_kind_name(from->kind));
  api_append_count(row, "queued", from->queued, from->queued >= 0);
  api_append_count(row, "oldest_ms", from->oldest_ms, from->oldest_ms >= 0);
  BSON_APPEND_BOOL(row, "oldest_seen", from->oldest_seen);
  append_rate(row, "rate_in", from->rate_in);
  append_rate(row, "rate_out", track_rate_out(track));
  append_rate(row, "backlog_s", track_backlog_s(track, from));
  append_holder(row, track, from);
  BSON_APPEND_INT32(row, "holders", from->holders);
  append_slots(row, from);
  api_append_count(row, "lease_left_ms", from->lock.left_ms, from->held);
  append_waiters(row, from);
  BSON_APPEND_INT64(row, "epoch", ledger->epoch);
  BSON_APPEND_INT64(row, "seq", ledger->end.seq);
  BSON_APPEND_INT64(row, "messages", ledger->end.items);
  BSON_APPEND_INT64(row, "settled", ledger->settled);
  BSON_APPEND_BOOL(row, "clean", ledger->clean);
  api_append_text(row, "file", ledger->end.file);
  BSON_APPEND_INT64(row, "length", ledger->end.length);
  append_pause(row, ledger);
  append_move(row, ledger);
  append_own(row, from);
  api_append_text(row, "problem", from->problem != NULL ? from->problem : from->waits ? overview_kind_remark(from->kind) : NULL);
}

/* ---- /api/types ---- */

static void write_head(FILE *out, const struct board *board, int64_t now_ms)
{
  const struct overview *overview = &board->overview;
  bson_t head = BSON_INITIALIZER;
  BSON_APPEND_INT64(&head, "now_ms", board_wall_ms(board, now_ms));
  BSON_APPEND_UTF8(&head, "database", board->database);
  BSON_APPEND_UTF8(&head, "server", board->server);
  BSON_APPEND_UTF8(&head, "version", PAWL_VERSION);
  BSON_APPEND_BOOL(&head, "answers", board->answers);
  api_append_text(&head, "error",
                  !board->answers                         ? board->why.text
                  : overview->queue_error.text[0] == '\0' ? NULL
                                                          : overview->queue_error.text);
  api_append_text(&head, "unusable", overview->usable == OUTCOME_REFUSED ? overview->unusable.text : NULL);
  api_append_count(&head, "read_ms", now_ms - overview->read_at_ms, overview->read_at_ms != 0);
  api_append_count(&head, "counted_ms", now_ms - overview->counted_at_ms, overview->counted_at_ms != 0);
  BSON_APPEND_INT64(&head, "types_left_out", (int64_t)board->left_out.rows);
  char *json = bson_as_relaxed_extended_json(&head, NULL);
  if (json != NULL) /* without its last brace */
    fprintf(out, "%.*s, \"types\" : [", (int)strlen(json) - 2, json);
  bson_free(json);
  bson_destroy(&head);
}

char *api_types(struct board *board, int64_t now_ms, size_t *bytes)
{
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL)
    return NULL;
  board_lock(board);
  write_head(out, board, now_ms);
  for (size_t i = 0; i < board->overview.count; i++) {
    bson_t row = BSON_INITIALIZER;
    fputs(i > 0 ? ",\n" : "\n", out);
    api_fill_row(&row, board, &board->overview.rows[i]);
    api_write(out, &row);
  }
  board_unlock(board);
  fputs("\n]}\n", out);
  return api_close(out, &text);
}

/* ---- /api/history ---- */

static void write_numbers(FILE *out, const char *name, const struct history_point *points, int count, size_t offset)
{
  fprintf(out, "\"%s\":[", name);
  for (int i = 0; i < count; i++) {
    float value;
    memcpy(&value, (const char *)&points[i] + offset, sizeof value);
    if (value >= 0)
      fprintf(out, "%s%.6g", i > 0 ? "," : "", (double)value);
    else
      fputs(i > 0 ? ",null" : "null", out);
  }
  fputc(']', out);
}

static void write_history(FILE *out, const struct track *track, int64_t now_ms)
{
  struct history_point points[HISTORY_POINTS];
  int count = history_get(&track->history, now_ms, points);
  fputc('{', out);
  write_numbers(out, "queued", points, count, offsetof(struct history_point, queued));
  fputc(',', out);
  write_numbers(out, "rate_in", points, count, offsetof(struct history_point, rate_in));
  fputc(',', out);
  write_numbers(out, "rate_out", points, count, offsetof(struct history_point, rate_out));
  fputc('}', out);
}

char *api_history(struct board *board, int64_t now_ms, const struct api_names *names, size_t *bytes)
{
  const char *separator = "";
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL)
    return NULL;
  fprintf(out, "{\"step_ms\":%d,\"types\":{", HISTORY_STEP_MS);
  board_lock(board);
  for (int i = 0; i < names->count; i++) {
    const struct track *track = board_track(board, names->names[i]);
    if (track == NULL)
      continue;
    fputs(separator, out);
    api_write_text(out, track->type);
    fputc(':', out);
    write_history(out, track, now_ms);
    separator = ",\n";
  }
  board_unlock(board);
  fputs("}}\n", out);
  return api_close(out, &text);
}

/* ---- /api/timeline ---- */

static void write_hold(FILE *out, const struct hold *hold)
{
  bson_t document = BSON_INITIALIZER;
  BSON_APPEND_INT64(&document, "from_ms", hold->from_ms);
  api_append_count(&document, "to_ms", hold->to_ms, hold->end != HOLD_OPEN);
  BSON_APPEND_UTF8(&document, "holder", hold->holder);
  api_append_count(&document, "epoch", hold->epoch, hold->epoch > 0);
  api_append_count(&document, "expired_ms", hold->expired_ms, hold->expired_ms != 0);
  api_append_text(&document, "end", hold_end_name(hold->end));
  api_write(out, &document);
}

static void write_holds(FILE *out, const struct timeline *timeline, int64_t from_ms)
{
  const char *separator = "[";
  for (int i = 0; i < timeline->count; i++) {
    if (timeline->holds[i].end != HOLD_OPEN && timeline->holds[i].to_ms < from_ms)
      continue;
    fputs(separator, out);
    write_hold(out, &timeline->holds[i]);
    separator = ",\n";
  }
  fputs(separator[0] == '[' ? "[]" : "]", out);
}

char *api_timeline(struct board *board, int64_t now_ms, const struct api_names *names, int64_t minutes, size_t *bytes)
{
  const char *separator = "";
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL)
    return NULL;
  board_lock(board);
  int64_t to_ms = board_wall_ms(board, now_ms), from_ms = to_ms - minutes * 60000;
  fprintf(out, "{\"from_ms\":%" PRId64 ",\"to_ms\":%" PRId64 ",\"types\":{", from_ms, to_ms);
  for (int i = 0; i < names->count; i++) {
    const struct track *track = board_track(board, names->names[i]);
    if (track == NULL)
      continue;
    fputs(separator, out);
    api_write_text(out, track->type);
    fputc(':', out);
    write_holds(out, &track->timeline, from_ms);
    separator = ",\n";
  }
  board_unlock(board);
  fputs("}}\n", out);
  return api_close(out, &text);
}
