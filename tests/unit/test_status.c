/* pawl-status: what is wrong with a type, and what fits on a screen. The pure parts; test_status*.py has the program. */
#include "tools/status/top_private.h"
#include "unit_test.h"

#include <stdlib.h>

/* A type that waits, held, with a lease. */
static struct overview_row row_of(const char *type)
{
  struct overview_row row = {.kind = OVERVIEW_TYPE, .waits = true, .queued = 5, .oldest_ms = 1000, .held = true, .holders = 1};
  snprintf(row.type, sizeof row.type, "%s", type);
  snprintf(row.lock.holder.host, sizeof row.lock.holder.host, "host-of-%s", type);
  row.lock.left_ms = 20000;
  row.lock.holder.pid = 4711;
  return row;
}

/* ---- what is wrong ---- */

TEST(test_well)
{
  struct overview_row row = row_of("t1");
  assert_int_equal(judge_row(&row), FINDING_NONE);
  row.oldest_ms = 3600000; /* old is a matter of limits */
  assert_int_equal(judge_row(&row), FINDING_NONE);
  row.waits = false;
  row.lock.left_ms = -5000; /* a holder that died with nothing to do */
  assert_int_equal(judge_row(&row), FINDING_NONE);
}

TEST(test_unserved)
{
  struct overview_row row = row_of("t1");
  row.held = false;
  row.oldest_ms = UNSERVED_MS - 1;
  assert_int_equal(judge_row(&row), FINDING_NONE);
  row.oldest_ms = UNSERVED_MS;
  assert_int_equal(judge_row(&row), FINDING_UNSERVED);
  row.waiting = 1;
  assert_int_equal(judge_row(&row), FINDING_NONE);
  row.waiting = 0;
  row.oldest_ms = OVERVIEW_UNKNOWN; /* an _id without a time: how long this process has seen it */
  row.still_ms = UNSERVED_MS;
  assert_int_equal(judge_row(&row), FINDING_UNSERVED);
}

TEST(test_the_most_important_one_counts)
{
  struct overview_row row = row_of("t1");
  char problem[] = "malformed";
  row.still_ms = STILL_MS;
  assert_int_equal(judge_row(&row), FINDING_STILL);
  row.lock.holder.kind = LOCK_BY_TOOL;
  assert_int_equal(judge_row(&row), FINDING_TOOL);
  row.lock.holder.kind = LOCK_BY_WORKER;
  row.lock.left_ms = 0;
  assert_int_equal(judge_row(&row), FINDING_EXPIRED);
  row.kind = OVERVIEW_INVALID;
  assert_int_equal(judge_row(&row), FINDING_UNUSABLE);
  row.problem = problem;
  assert_int_equal(judge_row(&row), FINDING_PROBLEM);
}

TEST(test_alarm)
{
  struct overview_row rows[6];
  struct overview overview = {.rows = rows, .count = 6, .queue_known = true, .usable = OUTCOME_YES, .read_at_ms = 1000};
  struct error error = {.text = ""};
  char line[ALARM_SIZE];
  for (int i = 0; i < 6; i++) {
    const char name[] = {'a', (char)('0' + i), '\0'};
    rows[i] = row_of(name);
  }
  assert_int_equal(top_alarm(&overview, &error, 1000, 200, line), ALARM_FINE);
  assert_string_equal(line, "all is well");
  for (int i = 1; i < 6; i++)
    rows[i].held = false, rows[i].oldest_ms = 60000;
  rows[0].lock.left_ms = -1;
  assert_int_equal(top_alarm(&overview, &error, 1000, 200, line), ALARM_WRONG);
  assert_string_equal(line, "LEASE OVER (HOLDER FROZEN OR DEAD) a0; NO WORKER SERVES a1, a2, a3, a4 +1");
  assert_int_equal(top_alarm(&overview, &error, 1000, 40, line), ALARM_WRONG);
  assert_string_equal(line, "1 LEASE OVER, 5 UNSERVED");
  assert_int_equal(top_alarm(&overview, &error, 9000, 200, line), ALARM_WRONG);
  assert_string_equal(line, "DATABASE DOES NOT ANSWER, this is the state of 8s ago");
  error_set(&error, "no\tanswer \xc3\xa9");
  assert_int_equal(top_alarm(&overview, &error, 3000, 200, line), ALARM_WRONG);
  assert_string_equal(line, "DATABASE AWAY, this is the state of 2s ago: no?answer ?");
  assert_int_equal(top_alarm(NULL, &error, 3000, 200, line), ALARM_WRONG);
  assert_string_equal(line, "DATABASE AWAY: no?answer ?");
}

/* A pause is not what is worst, and alone it is no failure. */
TEST(test_alarm_of_a_pause)
{
  struct overview_row rows[] = {row_of("a"), row_of("b")};
  struct overview overview = {.rows = rows, .count = 2, .queue_known = true, .usable = OUTCOME_YES, .read_at_ms = 1000};
  struct error error = {.text = ""};
  char line[ALARM_SIZE], cell[CELL_SIZE];
  rows[0].ledger.paused = true;
  rows[0].held = false;
  strcpy(rows[0].ledger.pause.by, "ann@w1");
  strcpy(rows[0].ledger.pause.reason, "new disk");
  assert_int_equal(top_alarm(&overview, &error, 1000, 200, line), ALARM_MILD);
  assert_string_equal(line, "PAUSED a");
  rows[1].lock.left_ms = -1;
  assert_int_equal(top_alarm(&overview, &error, 1000, 200, line), ALARM_WRONG);
  assert_string_equal(line, "LEASE OVER (HOLDER FROZEN OR DEAD) b; PAUSED a");
  assert_int_equal(top_alarm(&overview, &error, 1000, 30, line), ALARM_WRONG);
  assert_string_equal(line, "1 LEASE OVER, 1 PAUSED");
  top_cell(&rows[0], TOP_HOLDER, cell);
  assert_string_equal(cell, "paused");
  top_cell(&rows[0], TOP_WHAT, cell);
  assert_string_equal(cell, "paused by ann@w1: new disk");
}

/* A mark alone is no failure; what waits behind it is one, and a worker's absence says no more. */
TEST(test_alarm_of_a_move)
{
  struct overview_row rows[] = {row_of("a")};
  struct overview overview = {.rows = rows, .count = 1, .queue_known = true, .usable = OUTCOME_YES, .read_at_ms = 1000};
  struct error error = {.text = ""};
  char line[ALARM_SIZE], cell[CELL_SIZE];
  rows[0].ledger.moved = true;
  rows[0].held = rows[0].waits = false;
  strcpy(rows[0].ledger.move.to, "db1:27017/pawl");
  assert_int_equal(top_alarm(&overview, &error, 1000, 200, line), ALARM_FINE);
  top_cell(&rows[0], TOP_HOLDER, cell);
  assert_string_equal(cell, "moved");
  top_cell(&rows[0], TOP_WHAT, cell);
  assert_string_equal(cell, "moved to db1:27017/pawl");
  rows[0].waits = true;
  rows[0].oldest_ms = 60000;
  assert_int_equal(top_alarm(&overview, &error, 1000, 200, line), ALARM_WRONG);
  assert_string_equal(line, "DOCUMENTS WAIT WHERE A TYPE WAS MOVED AWAY: a");
  assert_int_equal(top_alarm(&overview, &error, 1000, 30, line), ALARM_WRONG);
  assert_string_equal(line, "1 MOVED AWAY");
  top_cell(&rows[0], TOP_WHAT, cell);
  assert_string_equal(cell, "no worker takes what waits here: moved to db1:27017/pawl");
}

/* ---- texts ---- */

static void expect_age(int64_t ms, const char *expected)
{
  char text[AGE_SIZE];
  status_age_text(ms, text);
  assert_string_equal(text, expected);
}

TEST(test_ages)
{
  expect_age(-1, "-");
  expect_age(0, "0s");
  expect_age(8999, "8s");
  expect_age(119999, "119s");
  expect_age(120000, "2m");
  expect_age(3 * 3600000ll, "3h");
  expect_age(47 * 3600000ll, "47h");
  expect_age(48 * 3600000ll, "2d");
  expect_age(INT64_MAX, "106751991167d");
}

static void expect_number(double number, const char *expected)
{
  char text[AGE_SIZE];
  top_number_text(number, text);
  assert_string_equal(text, expected);
}

TEST(test_numbers_fit_into_five_places)
{
  expect_number(0, "0");
  expect_number(99999, "99999");
  expect_number(100000, "100k");
  expect_number(999499, "999k");
  expect_number(999999, "1.0M");
  expect_number(1234567, "1.2M");
  expect_number(12345678, "12M");
  expect_number(9.2e18, "9.2E");
  for (double number = 1; number < 1e17; number *= 1.07) {
    char text[AGE_SIZE];
    top_number_text(number, text);
    assert_true(strlen(text) <= 5);
  }
}

TEST(test_only_ascii_reaches_the_screen)
{
  char text[] = "a\x1b[31m\x7f\xc2\x9b\xe2\x80\xae~";
  top_make_ascii(text);
  assert_string_equal(text, "a?[31m???~");
}

/* ---- rows and columns ---- */

TEST(test_order_and_filter)
{
  struct overview_row rows[] = {row_of("b"), row_of("a"), row_of("C"), row_of("d")};
  struct overview overview = {.rows = rows, .count = 4};
  const struct overview_row *selected[4];
  rows[0].queued = 7;
  rows[1].queued = OVERVIEW_UNKNOWN;
  rows[2].queued = 0;
  rows[3].held = false;
  assert_int_equal(top_rows_select(&overview, "", ORDER_BACKLOG, selected), 4);
  assert_string_equal(selected[0]->type, "b");
  assert_string_equal(selected[1]->type, "d");
  assert_string_equal(selected[2]->type, "a"); /* something waits */
  assert_string_equal(selected[3]->type, "C");
  assert_int_equal(top_rows_select(&overview, "", ORDER_HOLDER, selected), 4);
  assert_string_equal(selected[3]->type, "d");
  rows[2].oldest_ms = 5000;
  assert_int_equal(top_rows_select(&overview, "", ORDER_AGE, selected), 4);
  assert_string_equal(selected[0]->type, "C");
  assert_int_equal(top_rows_select(&overview, "HOST-OF-c", ORDER_NAME, selected), 1);
  assert_string_equal(selected[0]->type, "C");
  assert_int_equal(top_rows_select(&overview, "none", ORDER_NAME, selected), 0);
}

/* At no width do the columns need more than there is, and a column that came stays at a greater one. */
TEST(test_columns_fit)
{
  struct overview_row row = row_of("a-type-with-a-long-name-that-would-fill-most-of-a-terminal");
  const struct overview_row *rows[] = {&row};
  row.lock.left_ms = -1;
  int before = 0;
  for (int width = 1; width <= 300; width++) {
    struct top_layout layout;
    int used = 2, shown = 0;
    top_layout_fit(rows, 1, width, &layout);
    for (int column = 0; column < TOP_COLUMNS; column++)
      if (layout.widths[column] > 0) {
        used += layout.widths[column] + (shown > 0);
        shown++;
      }
    assert_true(used <= width || width <= 2);
    assert_true(shown >= before);
    before = shown;
  }
  assert_int_equal(before, TOP_COLUMNS);
}

TEST(test_forty_columns_have_the_holder)
{
  struct overview_row row = row_of("t1");
  const struct overview_row *rows[] = {&row};
  struct top_layout layout;
  top_layout_fit(rows, 1, 40, &layout);
  assert_true(layout.widths[TOP_TYPE] > 0 && layout.widths[TOP_QUEUED] > 0 && layout.widths[TOP_OLDEST] > 0 &&
              layout.widths[TOP_HOLDER] > 0);
  assert_int_equal(layout.widths[TOP_LEASE], 0);
}
