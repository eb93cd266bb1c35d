#include "tools/status/top_private.h"

#include <curses.h>
#include <inttypes.h>
#include <stdlib.h>

/*
 *   line 0          what is shown: database, types, documents
 *   from line 1     what is wrong, in one to three lines
 *   then            the titles of the columns, and the rows
 *   last line       order, filter, position, keys
 */

enum { PAIR_WRONG = 1, PAIR_FINE, PAIR_ODD };
enum { ALARM_LINES_MAX = 3, TALL = 20 };

static bool has_palette;
static int alarm_lines = 1; /* of the last drawing */

bool top_screen_begin(struct error *error)
{
  const char *no_color = getenv("NO_COLOR");
  if (!top_terminal_check(error))
    return false;
  if (newterm(NULL, stdout, stdin) == NULL) {
    error_set(error, "--top: the terminal cannot be used: use --watch");
    return false;
  }
  cbreak();
  noecho();
  nonl();
  curs_set(0);
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(50);
  has_palette = has_colors() && !(no_color && *no_color) && start_color() == OK;
  if (has_palette) {
    use_default_colors();
    init_pair(PAIR_WRONG, COLOR_RED, -1);
    init_pair(PAIR_FINE, COLOR_GREEN, -1);
    init_pair(PAIR_ODD, COLOR_YELLOW, -1);
  }
  return true;
}

void top_screen_end(void)
{
  endwin();
}

void top_screen_spoil(void)
{
  clearok(curscr, TRUE);
}

static attr_t colour(int pair, attr_t without)
{
  return has_palette ? (attr_t)COLOR_PAIR(pair) | without : without;
}

/* ---- pieces ---- */

/* Cut to the width. `text` is printable ASCII. */
static void put(int line, int column, int width, const char *text)
{
  if (width > 0)
    mvaddnstr(line, column, text, width);
}

static void put_line(int line, attr_t attributes, const char *text)
{
  attrset(attributes);
  mvhline(line, 0, ' ', COLS);
  put(line, 0, COLS, text);
  attrset(A_NORMAL);
}

static void draw_title(const struct top_screen *screen)
{
  const struct overview *overview = screen->overview;
  char line[700], number[AGE_SIZE];
  int64_t types = 0, waiting = 0, documents = 0;
  for (size_t i = 0; overview && i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    types += row->kind == OVERVIEW_TYPE;
    waiting += row->waits;
    documents += row->queued > 0 ? row->queued : 0;
  }
  top_number_text((double)documents, number);
  int used = snprintf(line, sizeof line, "%s: %" PRId64 " types, %" PRId64 " waiting", screen->db, types, waiting);
  if (overview && overview->counted_at_ms)
    used += snprintf(line + used, sizeof line - (size_t)used, ", %s documents", number);
  snprintf(line + used, sizeof line - (size_t)used, "  %.300s", screen->server);
  top_make_ascii(line);
  put_line(0, A_BOLD, line);
}

/* On a low screen one line must do. */
static int draw_alarm(const struct top_screen *screen)
{
  const attr_t attributes[] = {colour(PAIR_FINE, A_NORMAL), colour(PAIR_ODD, A_REVERSE), colour(PAIR_WRONG, A_REVERSE)};
  char line[ALARM_SIZE];
  int64_t now_ms = screen->paused && screen->overview ? screen->overview->read_at_ms : overview_now_ms();
  int most = LINES >= TALL ? ALARM_LINES_MAX : 1;
  enum alarm alarm = top_alarm(screen->overview, &screen->error, now_ms, (size_t)(most * COLS), line);
  int lines = COLS > 0 ? ((int)strlen(line) + COLS - 1) / COLS : 1;
  lines = lines < 1 ? 1 : lines > most ? most : lines;
  size_t shown = (size_t)(lines * COLS);
  if (strlen(line) > shown && shown > 3)
    strcpy(line + shown - 3, "...");
  for (int i = 0; i < lines; i++)
    put_line(1 + i, attributes[alarm], line + i * COLS);
  return lines;
}

static void draw_cells(int line, const struct top_layout *layout, const struct overview_row *row)
{
  char cell[CELL_SIZE];
  int at = 2;
  for (enum top_column column = 0; column < TOP_COLUMNS; column++) {
    int width = layout->widths[column];
    if (width <= 0)
      continue;
    if (row)
      top_cell(row, column, cell);
    else
      snprintf(cell, sizeof cell, "%s", top_column_title(column));
    int length = (int)strlen(cell);
    if (length > width)
      cell[width - 1] = '~';
    put(line, length < width && top_column_is_number(column) ? at + width - length : at, width, cell);
    at += width + 1;
  }
}

static attr_t row_attributes(const struct overview_row *row)
{
  enum finding finding = judge_row(row);
  return finding == FINDING_NONE ? A_NORMAL : judge_is_mild(finding) ? colour(PAIR_ODD, A_BOLD) : colour(PAIR_WRONG, A_BOLD);
}

static void draw_table(const struct top_screen *screen, int line)
{
  struct top_layout layout;
  top_layout_fit(screen->rows, screen->count, COLS, &layout);
  put_line(line, A_REVERSE, "");
  attrset(A_REVERSE);
  draw_cells(line, &layout, NULL);
  for (size_t i = screen->first; i < screen->count && ++line < LINES - 1; i++) {
    attrset(row_attributes(screen->rows[i]));
    put(line, 0, 1, judge_row(screen->rows[i]) == FINDING_NONE ? " " : "!");
    draw_cells(line, &layout, screen->rows[i]);
  }
  attrset(A_NORMAL);
}

static void draw_footer(const struct top_screen *screen)
{
  char line[300];
  size_t page = top_screen_page(screen), last = screen->first + page < screen->count ? screen->first + page : screen->count;
  if (screen->typing) {
    snprintf(line, sizeof line, "filter: %s_  (Enter, Esc)", screen->filter);
  } else {
    int used = snprintf(line, sizeof line, "%sby %s", screen->paused ? "PAUSED  " : "", top_order_name(screen->order));
    if (screen->filter[0])
      used += snprintf(line + used, sizeof line - (size_t)used, "  filter: %s", screen->filter);
    snprintf(line + used, sizeof line - (size_t)used, "  %zu-%zu of %zu  q quit  ? help  / filter  b a r n h order  p pause",
             screen->count ? screen->first + 1 : 0, last, screen->count);
  }
  put_line(LINES - 1, A_REVERSE, line);
}

static void draw_help(void)
{
  static const char *const lines[] = {
      "q            quit",
      "b a r n h    order: backlog, age, rate, name, holder",
      "/ text       only types and holders with it; Esc: all",
      "arrows PgUp PgDn Home End    scroll",
      "p            pause, and go on",
      "",
      "! in front   something is wrong; line 2 says what",
      "QUEUED ?     not counted yet",
      "OLDEST       age of the oldest document that waits",
      "IN/s OUT/s   documents a second",
      "LEASE over   the holder froze or died",
      "WAIT         processes that wait for the lock",
      "",
      "any key: back",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    put((int)i, 0, COLS, lines[i]);
}

size_t top_screen_page(const struct top_screen *screen)
{
  int rows = LINES - alarm_lines - 3;
  (void)screen;
  return rows > 1 ? (size_t)rows : 1;
}

void top_screen_draw(struct top_screen *screen)
{
  erase();
  if (screen->help) {
    draw_help();
  } else {
    draw_title(screen);
    alarm_lines = draw_alarm(screen);
    size_t page = top_screen_page(screen);
    if (screen->first + page > screen->count)
      screen->first = screen->count > page ? screen->count - page : 0;
    draw_table(screen, 1 + alarm_lines);
    draw_footer(screen);
  }
  refresh();
}
