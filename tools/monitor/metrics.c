#include "tools/monitor/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- samples ---- */

static void family(FILE *out, const char *name, const char *kind, const char *help)
{
  fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void label(FILE *out, const char *name, const char *value)
{
  fprintf(out, "%s=\"", name);
  for (; *value != '\0'; value++)
    if (*value == '\\' || *value == '"')
      fprintf(out, "\\%c", *value);
    else if (*value == '\n')
      fputs("\\n", out);
    else
      fputc(*value, out);
  fputc('"', out);
}

static void value(FILE *out, double number)
{
  fprintf(out, " %.*f\n", number == floor(number) ? 0 : 3, number);
}

static void single(FILE *out, const char *name, const char *kind, const char *help, double number)
{
  family(out, name, kind, help);
  fputs(name, out);
  value(out, number);
}

static double seconds(int64_t ms)
{
  return (double)ms / 1000;
}

/* ---- the monitor itself ---- */

static void monitor_write(FILE *out, const struct board *board, int64_t now_ms, int64_t started_wall_us)
{
  const struct overview *overview = &board->overview;
  family(out, "pawl_monitor_build_info", "gauge", "The version of pawl-monitor; always 1.");
  fprintf(out, "pawl_monitor_build_info{version=\"%s\"} 1\n", PAWL_VERSION);
  single(out, "process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.", (double)started_wall_us / 1e6);
  single(out, "pawl_monitor_database_answers", "gauge", "1 if MongoDB answered the last reading.", board->answers);
  if (overview->usable == OUTCOME_YES || overview->usable == OUTCOME_REFUSED)
    single(out, "pawl_monitor_database_usable", "gauge", "0 if workers refuse the database as it is; absent if this user may not check it.",
           overview->usable == OUTCOME_YES);
  single(out, "pawl_monitor_readings_total", "counter", "Readings of ledgers, locks and oldest documents.", (double)board->readings);
  single(out, "pawl_monitor_counts_total", "counter", "Counts of the documents in the queue.", (double)board->counts);
  if (overview->read_at_ms != 0) {
    single(out, "pawl_monitor_reading_age_seconds", "gauge", "Since the last reading that MongoDB answered.",
           seconds(now_ms - overview->read_at_ms));
    single(out, "pawl_monitor_reading_duration_seconds", "gauge", "How long that reading took.", seconds(board->read_took_ms));
  }
  if (overview->counted_at_ms != 0) {
    single(out, "pawl_monitor_count_age_seconds", "gauge", "Since the documents in the queue were counted.",
           seconds(now_ms - overview->counted_at_ms));
    single(out, "pawl_monitor_count_duration_seconds", "gauge", "How long that count took.", seconds(overview->count_took_ms));
  }
}

/* ---- types ---- */

/* False: the type has no such value now. */
typedef bool type_value(const struct board *board, const struct overview_row *row, double *number);

static bool known(double from, double *number)
{
  *number = from;
  return from >= 0;
}

static bool documents(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known((double)row->queued, number);
}

static bool oldest_age(const struct board *board, const struct overview_row *row, double *number)
{
  *number = 0;
  return board->overview.queue_known && !row->own_unknown && (!row->waits || known(seconds(row->oldest_ms), number));
}

static bool in_rate(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known(row->rate_in, number);
}

static bool out_rate(const struct board *board, const struct overview_row *row, double *number)
{
  return known(track_rate_out(board_track(board, row->type)), number);
}

static bool backlog(const struct board *board, const struct overview_row *row, double *number)
{
  return known(track_backlog_s(board_track(board, row->type), row), number);
}

static bool held(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  *number = row->held;
  return true;
}

static bool lease_left(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  *number = seconds(row->lock.left_ms);
  return row->held;
}

static bool waiting(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known(row->waiting, number);
}

static bool epoch(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known((double)row->ledger.epoch, number);
}

static bool committed(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known((double)row->ledger.end.seq, number);
}

static bool messages(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known((double)row->ledger.end.items, number);
}

static bool settled(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return known((double)row->ledger.settled, number);
}

static bool file_bytes(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  return row->ledger.end.file[0] != '\0' && known((double)row->ledger.end.length, number);
}

static bool own(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  *number = row->ledger.own;
  return true;
}

static bool refused(const struct board *board, const struct overview_row *row, double *number)
{
  *number = (double)row->refused;
  return row->ledger.own && board->overview.queue_known && !row->own_unknown;
}

static bool paused(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  *number = row->ledger.paused;
  return true;
}

static bool moved(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  *number = row->ledger.moved;
  return true;
}

static bool problem(const struct board *board, const struct overview_row *row, double *number)
{
  (void)board;
  *number = row->problem != NULL;
  return true;
}

static const struct {
  const char *name, *kind, *help;
  type_value *value;
  bool by_ledger; /* absent where the ledger cannot be used */
} type_metrics[] = {
    {"pawl_queue_documents", "gauge", "Documents of the type in the queue, at the last count; a bundle is one.", documents, false},
    {"pawl_queue_oldest_age_seconds", "gauge", "Age of the oldest document of the type in the queue; 0 if none waits.", oldest_age, false},
    {"pawl_queue_in_rate", "gauge", "Documents inserted a second, between the last two counts.", in_rate, false},
    {"pawl_queue_out_rate", "gauge", "Documents committed to the file a second.", out_rate, false},
    {"pawl_queue_backlog_seconds", "gauge", "Until the queue of the type is empty at the present rate; absent if none is committed.",
     backlog, false},
    {"pawl_type_held", "gauge", "1 if a process holds the lock of the type.", held, false},
    {"pawl_type_lease_left_seconds", "gauge", "Until the holder's lease is over; below 0 if it is. Only where the type is held.",
     lease_left, false},
    {"pawl_type_waiting_workers", "gauge", "Processes that wait for the lock of the type.", waiting, false},
    {"pawl_type_epoch", "gauge", "The epoch of the type; it rises with each holder.", epoch, true},
    {"pawl_type_committed_documents_total", "counter", "Documents committed to the file: the seq of the ledger.", committed, true},
    {"pawl_type_committed_messages_total", "counter", "Messages committed to the file, those in bundles one by one.", messages, true},
    {"pawl_type_settled_documents_total", "counter", "Documents known to be deleted from the queue after their commit.", settled, true},
    {"pawl_type_file_bytes", "gauge", "Committed bytes of the current segment.", file_bytes, true},
    {"pawl_type_paused", "gauge", "1 if the type is paused.", paused, true},
    {"pawl_type_moved", "gauge", "1 if the type was moved to another database: no worker takes it here.", moved, true},
    {"pawl_type_own_collection", "gauge", "1 if the type has its own collection.", own, true},
    {"pawl_type_refused_documents", "gauge",
     "Of the first documents in its own collection, those that no worker takes, for their type is another.", refused, true},
    {"pawl_type_problem", "gauge", "1 if the ledger or the lock of the type cannot be used.", problem, false},
};

static void types_write(FILE *out, const struct board *board)
{
  const struct overview *overview = &board->overview;
  for (size_t metric = 0; metric < sizeof type_metrics / sizeof *type_metrics; metric++) {
    family(out, type_metrics[metric].name, type_metrics[metric].kind, type_metrics[metric].help);
    for (size_t i = 0; i < overview->count; i++) {
      const struct overview_row *row = &overview->rows[i];
      double number;
      bool told = !(type_metrics[metric].by_ledger && row->ledger_malformed);
      if (row->kind != OVERVIEW_TYPE || !told || !type_metrics[metric].value(board, row, &number))
        continue;
      fprintf(out, "%s{", type_metrics[metric].name);
      label(out, "type", row->type);
      fputc('}', out);
      value(out, number);
    }
  }
}

static void holders_write(FILE *out, const struct overview *overview)
{
  family(out, "pawl_type_holder_info", "gauge", "The process that holds the lock of the type; always 1.");
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    char pid[24];
    if (row->kind != OVERVIEW_TYPE || !row->held)
      continue;
    snprintf(pid, sizeof pid, "%" PRId64, row->lock.holder.pid);
    fputs("pawl_type_holder_info{", out);
    label(out, "type", row->type);
    fputc(',', out);
    label(out, "host", row->lock.holder.host);
    fputc(',', out);
    label(out, "pid", pid);
    fputc(',', out);
    label(out, "program", row->lock.holder.program);
    fputc(',', out);
    label(out, "name", row->lock.holder.name); /* empty: to Prometheus it has no such label */
    fputs("} 1\n", out);
  }
}

/* ---- what is no type ---- */

/* One number: anybody who inserts could make any number of names. */
static void unusable_write(FILE *out, const struct board *board)
{
  const struct overview *overview = &board->overview;
  int64_t count = board->left_out.unusable;
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    if (row->kind != OVERVIEW_UNTYPED && row->kind != OVERVIEW_INVALID)
      continue;
    if (row->queued < 0)
      return;
    count += row->queued;
  }
  if (overview->counted_at_ms != 0)
    single(out, "pawl_queue_unusable_documents", "gauge", "Documents in the queue that no worker takes: they have no usable type.",
           (double)count);
}

static bool is_lock(const struct overview_row *row)
{
  return row->kind == OVERVIEW_LOCK || (row->kind == OVERVIEW_TYPE && row->held && row->lock.holder.kind == LOCK_BY_TOOL);
}

static void locks_write(FILE *out, const struct overview *overview)
{
  int64_t names = 0, processes = 0;
  family(out, "pawl_lock_holders", "gauge", "Processes that hold the lock of this name by pawl-lock; only of names that are held.");
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    if (!is_lock(row))
      continue;
    processes += row->waiting > 0 ? row->waiting : 0;
    if (!row->held)
      continue;
    names++;
    fputs("pawl_lock_holders{", out);
    label(out, "lock", row->type);
    fputc('}', out);
    value(out, row->holders);
  }
  single(out, "pawl_locks_held", "gauge", "Names that are held by pawl-lock.", (double)names);
  single(out, "pawl_locks_waiting_processes", "gauge", "Processes that wait for these names, and for names that are about to be held.",
         (double)processes);
}

/* ---- all of it ---- */

char *metrics_of_board(struct board *board, int64_t now_ms, int64_t started_wall_us, int64_t stale_ms, size_t *bytes)
{
  char *text = NULL;
  FILE *out = open_memstream(&text, bytes);
  if (out == NULL)
    return NULL;
  board_lock(board);
  const struct overview *overview = &board->overview;
  monitor_write(out, board, now_ms, started_wall_us);
  if (overview->read_at_ms != 0 && (board->answers || now_ms - overview->read_at_ms < stale_ms)) {
    single(out, "pawl_monitor_types", "gauge", "Types, lock names and other names that the last reading found.",
           (double)(overview->count + board->left_out.rows));
    single(out, "pawl_monitor_types_left_out", "gauge", "Of these, names that are not shown, since there are too many.",
           (double)board->left_out.rows);
    unusable_write(out, board);
    types_write(out, board);
    holders_write(out, overview);
    locks_write(out, overview);
  }
  board_unlock(board);
  bool failed = ferror(out);
  if (fclose(out) == 0 && !failed)
    return text;
  free(text);
  return NULL;
}
