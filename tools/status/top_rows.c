#include "tools/status/top_private.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- which rows, and their order ---- */

const char *top_order_name(enum top_order order)
{
  static const char *const names[] = {"backlog", "age", "rate", "name", "holder"};
  return names[order];
}

static int compare_numbers(double a, double b) /* the greater first */
{
  return (a < b) - (a > b);
}

/* Of what was not counted we know that it is there. */
static double backlog_of(const struct overview_row *row)
{
  return row->queued != OVERVIEW_UNKNOWN ? (double)row->queued : row->waits ? 0.5 : 0;
}

static int compare_holders(const struct overview_row *a, const struct overview_row *b)
{
  if (a->held != b->held)
    return a->held ? -1 : 1;
  int order = a->held ? strcmp(lock_holder_show(&a->lock.holder).text, lock_holder_show(&b->lock.holder).text) : 0;
  return order ? order : (a->lock.holder.pid > b->lock.holder.pid) - (a->lock.holder.pid < b->lock.holder.pid);
}

static int compare_rows(const void *left, const void *right, void *context)
{
  const struct overview_row *a = *(const struct overview_row *const *)left, *b = *(const struct overview_row *const *)right;
  int order = 0;
  switch (*(enum top_order *)context) {
  case ORDER_BACKLOG:
    order = compare_numbers(backlog_of(a), backlog_of(b));
    break;
  case ORDER_AGE:
    order = compare_numbers((double)a->oldest_ms, (double)b->oldest_ms);
    break;
  case ORDER_RATE:
    order = compare_numbers(a->rate_out, b->rate_out);
    break;
  case ORDER_HOLDER:
    order = compare_holders(a, b);
    break;
  case ORDER_NAME:
    break;
  }
  return order ? order : strcmp(a->type, b->type);
}

size_t top_rows_select(const struct overview *overview, const char *filter, enum top_order order, const struct overview_row **rows)
{
  size_t count = 0;
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    if (strcasestr(row->type, filter) || (row->held && strcasestr(lock_holder_show(&row->lock.holder).text, filter)))
      rows[count++] = row;
  }
  if (count > 0)
    qsort_r(rows, count, sizeof *rows, compare_rows, &order);
  return count;
}

/* ---- cells ---- */

const char *top_column_title(enum top_column column)
{
  static const char *const titles[TOP_COLUMNS] = {"TYPE",  "QUEUED", "OLDEST", "IN/s", "OUT/s", "HOLDER",
                                                  "LEASE", "WAIT",   "EPOCH",  "SEQ",  "FILE",  "WHAT"};
  return titles[column];
}

bool top_column_is_number(enum top_column column)
{
  return column != TOP_TYPE && column != TOP_HOLDER && column != TOP_FILE && column != TOP_WHAT;
}

void top_number_text(double number, char text[AGE_SIZE])
{
  static const char units[] = " kMGTPE";
  int unit = 0;
  for (; number >= 99999.5 || (unit > 0 && number >= 999.5); unit++)
    number /= 1000;
  if (unit == 0)
    snprintf(text, AGE_SIZE, "%.0f", number);
  else
    snprintf(text, AGE_SIZE, number < 9.95 ? "%.1f%c" : "%.0f%c", number, units[unit]);
}

static void rate_text(double rate, char *cell)
{
  char number[AGE_SIZE];
  top_number_text(rate, number);
  snprintf(cell, CELL_SIZE, "%s", rate < 0 ? "-" : rate > 0 && rate < 0.5 ? "<1" : number);
}

static void holder_text(const struct overview_row *row, char *cell)
{
  const struct lock_holder *holder = &row->lock.holder;
  if (!row->held)
    snprintf(cell, CELL_SIZE, "%s",
             row->lock_malformed                  ? "malformed"
             : row->ledger.paused                 ? "paused"
             : row->ledger.moved                  ? "moved"
             : judge_row(row) == FINDING_UNSERVED ? "nobody"
                                                  : "-");
  else if (row->holders > 1)
    snprintf(cell, CELL_SIZE, "%.200s:%" PRId64 " +%d", lock_holder_show(holder).text, holder->pid, row->holders - 1);
  else
    snprintf(cell, CELL_SIZE, "%.200s:%" PRId64, lock_holder_show(holder).text, holder->pid);
}

static void lease_text(const struct overview_row *row, char *cell)
{
  if (!row->held)
    strcpy(cell, "-");
  else if (row->lock.left_ms <= 0)
    strcpy(cell, "over");
  else
    snprintf(cell, CELL_SIZE, "%" PRId64 "s", row->lock.left_ms / 1000);
}

static void queued_text(const struct overview_row *row, char *cell)
{
  if (row->queued == OVERVIEW_UNKNOWN)
    strcpy(cell, "?");
  else
    top_number_text((double)row->queued, cell);
}

static void what_text(const struct overview_row *row, char *cell)
{
  if (row->ledger.paused && !row->problem)
    snprintf(cell, CELL_SIZE, "paused by %.100s: %.150s", row->ledger.pause.by, row->ledger.pause.reason);
  else if (row->ledger.moved && !row->problem)
    snprintf(cell, CELL_SIZE, "%smoved to %.200s", row->waits ? "no worker takes what waits here: " : "", row->ledger.move.to);
  else
    snprintf(cell, CELL_SIZE, "%.290s", row->problem ? row->problem : judge_text(judge_row(row)));
}

void top_cell(const struct overview_row *row, enum top_column column, char cell[CELL_SIZE])
{
  *cell = '\0';
  switch (column) {
  case TOP_TYPE:
    snprintf(cell, CELL_SIZE, "%s", row->type);
    break;
  case TOP_QUEUED:
    queued_text(row, cell);
    break;
  case TOP_OLDEST:
    status_age_text(row->oldest_ms, cell);
    break;
  case TOP_IN:
    rate_text(row->rate_in, cell);
    break;
  case TOP_OUT:
    rate_text(row->rate_out, cell);
    break;
  case TOP_HOLDER:
    holder_text(row, cell);
    break;
  case TOP_LEASE:
    lease_text(row, cell);
    break;
  case TOP_WAITING:
    snprintf(cell, CELL_SIZE, "%d", row->waiting);
    break;
  case TOP_EPOCH:
    snprintf(cell, CELL_SIZE, "%" PRId64, row->ledger.epoch);
    break;
  case TOP_SEQ:
    snprintf(cell, CELL_SIZE, "%" PRId64, row->ledger.end.seq);
    break;
  case TOP_FILE:
    snprintf(cell, CELL_SIZE, "%s", row->ledger.end.file[0] ? row->ledger.end.file : row->kind == OVERVIEW_LOCK ? "(lock)" : "-");
    break;
  case TOP_WHAT:
    what_text(row, cell);
    break;
  case TOP_COLUMNS:
    break;
  }
  top_make_ascii(cell);
}

/* ---- columns ---- */

static int longest(const struct overview_row *const *rows, size_t count, enum top_column column)
{
  char cell[CELL_SIZE];
  int most = (int)strlen(top_column_title(column));
  for (size_t i = 0; i < count; i++) {
    top_cell(rows[i], column, cell);
    if ((int)strlen(cell) > most)
      most = (int)strlen(cell);
  }
  return most;
}

/* Adds the column if there is room for it and the space before it. */
static void add(struct top_layout *layout, enum top_column column, int width, int *left)
{
  if (width == 0)
    return;
  layout->full |= *left < width + 1;
  if (layout->full)
    return;
  layout->widths[column] = width;
  *left -= width + 1;
}

static void grow(struct top_layout *layout, enum top_column column, int wanted, int *left)
{
  int more = wanted - layout->widths[column];
  if (more > *left)
    more = *left;
  if (layout->widths[column] == 0 || more <= 0)
    return;
  layout->widths[column] += more;
  *left -= more;
}

/* The most important first; long names get room before what most people never need. */
void top_layout_fit(const struct overview_row *const *rows, size_t count, int width, struct top_layout *layout)
{
  enum { MARK = 2, TYPE_MIN = 10, TYPE_WANTED = 24, HOLDER_MIN = 10, HOLDER_WANTED = 22, WHAT_MIN = 18 };
  int type = longest(rows, count, TOP_TYPE), holder = longest(rows, count, TOP_HOLDER), what = 0, left = width - MARK - TYPE_MIN;
  for (size_t i = 0; i < count && what == 0; i++)
    what = judge_row(rows[i]) != FINDING_NONE ? WHAT_MIN : 0;
  *layout = (struct top_layout){.widths = {[TOP_TYPE] = left < 0 ? width - MARK : TYPE_MIN}};
  add(layout, TOP_QUEUED, 6, &left);
  add(layout, TOP_OLDEST, 6, &left);
  add(layout, TOP_HOLDER, HOLDER_MIN, &left);
  add(layout, TOP_OUT, 6, &left);
  add(layout, TOP_LEASE, 5, &left);
  add(layout, TOP_IN, 6, &left);
  add(layout, TOP_WAITING, 4, &left);
  add(layout, TOP_WHAT, what, &left);
  grow(layout, TOP_TYPE, type < TYPE_WANTED ? type : TYPE_WANTED, &left);
  grow(layout, TOP_HOLDER, holder < HOLDER_WANTED ? holder : HOLDER_WANTED, &left);
  add(layout, TOP_EPOCH, 7, &left);
  add(layout, TOP_SEQ, 10, &left);
  add(layout, TOP_FILE, 12, &left);
  grow(layout, TOP_TYPE, type, &left);
  grow(layout, TOP_HOLDER, holder, &left);
  grow(layout, TOP_FILE, longest(rows, count, TOP_FILE), &left);
  grow(layout, TOP_WHAT, CELL_SIZE, &left);
}
