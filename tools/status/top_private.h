/* The inside of --top. */
#ifndef PAWL_TOOLS_STATUS_TOP_PRIVATE_H
#define PAWL_TOOLS_STATUS_TOP_PRIVATE_H

#include "tools/status/judge.h"
#include "tools/status/status.h"

/* ---- top_read.c: the thread that reads ---- */

struct top_reader;
/* Begins to read, and writes a byte to `wake` after each reading. NULL: no memory, or no thread. It never ends. */
MUST_CHECK struct top_reader *top_reader_start(struct lockstore *store, const struct overview_types *types, int wake);
/*
 * Takes the last overview, if it is newer than the one that was taken before; it is the caller's then, and is freed after the next one was
 * taken, not sooner. NULL: there is none. *error: why the last reading failed; empty: it did not.
 */
struct overview *top_reader_take(struct top_reader *reader, struct error *error);

/* ---- top_rows.c: which rows, in which order, in which columns. Pure ---- */

enum top_order { ORDER_BACKLOG, ORDER_AGE, ORDER_RATE, ORDER_NAME, ORDER_HOLDER };
const char *top_order_name(enum top_order order);

enum { FILTER_SIZE = 64, CELL_SIZE = 300 };

/* Sorts pointers to those rows whose type or holder has the text of the filter, in any case of letters. Returns how many they are. */
size_t top_rows_select(const struct overview *overview, const char *filter, enum top_order order, const struct overview_row **rows);

enum top_column {
  TOP_TYPE,
  TOP_QUEUED,
  TOP_OLDEST,
  TOP_IN,
  TOP_OUT,
  TOP_HOLDER,
  TOP_LEASE,
  TOP_WAITING,
  TOP_EPOCH,
  TOP_SEQ,
  TOP_FILE,
  TOP_WHAT, /* what is wrong */
  TOP_COLUMNS,
};
struct top_layout {
  int widths[TOP_COLUMNS]; /* 0: there is no room for it */
  bool full;               /* a column had none, so that less important ones get none */
};
/* For a screen of this width; the first two cells are the mark's. */
void top_layout_fit(const struct overview_row *const *rows, size_t count, int width, struct top_layout *layout);
const char *top_column_title(enum top_column column);
bool top_column_is_number(enum top_column column);
/* Printable ASCII. */
void top_cell(const struct overview_row *row, enum top_column column, char cell[CELL_SIZE]);
/* A number in at most five places: "12345", "123k", "1.2M". */
void top_number_text(double number, char text[AGE_SIZE]);

/* ---- top_alarm.c: what is wrong first. Pure ---- */

enum { ALARM_SIZE = 1200 };
enum alarm { ALARM_FINE, ALARM_MILD, ALARM_WRONG };
/*
 * Fills one line, in printable ASCII. If it is longer than `room`, it may have the kinds of what is wrong without the names. `overview`
 * NULL: nothing was read yet. `error`: why the last reading failed, empty: it did not.
 * WRONG: something is broken; MILD: something is as a person left it.
 */
enum alarm top_alarm(const struct overview *overview, const struct error *error, int64_t now_ms, size_t room, char line[ALARM_SIZE]);
/* Anything but printable ASCII becomes `?`: a terminal neither obeys it nor counts its columns otherwise than we do. */
void top_make_ascii(char *text);

/* ---- top_screen.c: the terminal ---- */

struct top_screen { /* what it shows */
  const char *db, *server;
  const struct overview *overview; /* NULL: none yet */
  struct error error;              /* why the last reading failed; empty: it did not */
  const struct overview_row **rows;
  size_t count, first; /* the first one that is seen */
  enum top_order order;
  char filter[FILTER_SIZE];
  bool typing; /* the filter */
  bool paused, help;
};
/* top_terminal.c. False: this is no terminal, or not one that can do it; `error` says so. */
MUST_CHECK bool top_terminal_check(struct error *error);
/* False: the terminal cannot do it; `error` says why. */
MUST_CHECK bool top_screen_begin(struct error *error);
void top_screen_end(void);
void top_screen_draw(struct top_screen *screen);
/* What the terminal shows is not known any more, as after a change of its size: the next drawing draws all of it. */
void top_screen_spoil(void);
/* How many rows of the table are seen at once. */
size_t top_screen_page(const struct top_screen *screen);

#endif
