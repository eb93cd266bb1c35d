#include "tools/status/top.h"
#include "config/stop.h"
#include "lockstore/mongo.h"
#include "tools/status/top_private.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t stopped;
static int wake[2];

static void on_signal(int number)
{
  (void)number;
  stopped = 1;
  (void)!write(wake[1], "", 1);
}

/* ---- keys ---- */

static void filter_key(struct top_screen *screen, int key)
{
  size_t length = strlen(screen->filter);
  if (key == '\r' || key == '\n' || key == KEY_ENTER || key == 27)
    screen->typing = false;
  if (key == 27)
    screen->filter[0] = '\0';
  else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && length > 0)
    screen->filter[length - 1] = '\0';
  else if (key >= ' ' && key < 127 && length + 1 < sizeof screen->filter)
    snprintf(screen->filter + length, sizeof screen->filter - length, "%c", key);
  screen->first = 0;
}

/* False: it scrolls nothing. */
static bool scroll_key(struct top_screen *screen, int key)
{
  size_t page = top_screen_page(screen), by = key == KEY_PPAGE || key == KEY_NPAGE ? page : 1;
  switch (key) {
  case KEY_UP:
  case KEY_PPAGE:
    screen->first -= by < screen->first ? by : screen->first;
    return true;
  case KEY_DOWN:
  case KEY_NPAGE:
    screen->first += by; /* drawing stops it at the end */
    return true;
  case KEY_HOME:
    screen->first = 0;
    return true;
  case KEY_END:
    screen->first = screen->count;
    return true;
  }
  return false;
}

/* False: quit. */
static bool command_key(struct top_screen *screen, int key)
{
  static const char orders[] = "barnh";
  const char *order = key > 0 && key < 128 ? strchr(orders, key) : NULL;
  if (order) {
    screen->order = (enum top_order)(order - orders);
    screen->first = 0;
  } else if (key == '/') {
    screen->typing = true;
  } else if (key == 27) {
    screen->filter[0] = '\0';
  } else if (key == '?') {
    screen->help = true;
  } else if (key == 'p' || key == ' ') {
    screen->paused = !screen->paused;
  }
  return key != 'q' && key != 'Q';
}

enum { CTRL_L = 12 };

static bool handle_key(struct top_screen *screen, int key)
{
  if (key == KEY_RESIZE || key == CTRL_L) {
    top_screen_spoil();
    return true;
  }
  if (screen->help) {
    screen->help = false;
    return key != 'q';
  }
  if (screen->typing) {
    filter_key(screen, key);
    return true;
  }
  return scroll_key(screen, key) || command_key(screen, key);
}

/* ---- the loop ---- */

/* Waits for a key, a reading, a signal, or the next second. False: the terminal is gone. */
static bool wait_for_news(void)
{
  char ignored[64];
  struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = wake[0], .events = POLLIN}};
  if (poll(fds, 2, 1000) < 0)
    return errno == EINTR;
  if (fds[1].revents & POLLIN)
    (void)!read(wake[0], ignored, sizeof ignored);
  return !(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* What is no longer shown is freed. */
static void take_news(struct top_screen *screen, struct top_reader *reader, struct overview **shown)
{
  if (screen->paused)
    return;
  struct overview *fresh = top_reader_take(reader, &screen->error);
  if (!fresh)
    return;
  if (*shown) {
    overview_free(*shown);
    free(*shown);
  }
  *shown = fresh;
  screen->overview = fresh;
}

static void select_rows(struct top_screen *screen)
{
  if (!screen->overview)
    return;
  const struct overview_row **rows = realloc(screen->rows, (screen->overview->count + 1) * sizeof *rows);
  screen->count = 0;
  if (!rows)
    return;
  screen->rows = rows;
  screen->count = top_rows_select(screen->overview, screen->filter, screen->order, rows);
}

static void run(struct top_screen *screen, struct top_reader *reader)
{
  struct overview *shown = NULL;
  bool goes_on = true;
  while (goes_on && !stopped) {
    take_news(screen, reader, &shown);
    select_rows(screen);
    top_screen_draw(screen);
    goes_on = wait_for_news();
    for (int key = getch(); goes_on && key != ERR; key = getch())
      goes_on = handle_key(screen, key);
  }
}

int status_top(const struct config *config, struct lockstore *store)
{
  struct overview_types types = status_types(config);
  struct error error = {.text = ""};
  struct top_screen screen = {.db = mongo_db(lockstore_mongo(store)), .server = mongo_server(lockstore_mongo(store))};
  struct top_reader *reader = NULL;
  bool begun = false;
  if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    error_set(&error, "making a pipe: %s", strerror(errno));
  } else {
    stop_handle(on_signal);
    begun = top_screen_begin(&error);
  }
  if (begun) {
    reader = top_reader_start(store, &types, wake[1]);
    if (reader)
      run(&screen, reader);
    else
      error_set(&error, "--top: no memory, or no thread");
    top_screen_end();
  }
  if (reader)
    return EXIT_DONE;
  fprintf(stderr, "%spawl-status: %s\n", config_priority(CONFIG_LOG_ERROR), error.text);
  return begun ? EXIT_FAILED : EXIT_USAGE;
}
