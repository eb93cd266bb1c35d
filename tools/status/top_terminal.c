#include "tools/status/top_private.h"

#include <curses.h>
#include <stdlib.h>
#include <unistd.h>

#include <term.h> /* whose macros have names such as lines and columns: it is in no other file */

bool top_terminal_check(struct error *error)
{
  const char *term = getenv("TERM");
  int known = 0;
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    error_set(error, "--top: takes a terminal, and %s is none: without one use --watch, --json or --check",
              isatty(STDIN_FILENO) ? "standard output" : "standard input");
    return false;
  }
  unsetenv("LINES"); /* they would stay as they are when the terminal changes its size */
  unsetenv("COLUMNS");
  if (setupterm(NULL, STDOUT_FILENO, &known) == OK && cursor_address != NULL)
    return true;
  error_set(error, "--top: got the terminal \"%.60s\" (TERM): takes one that is known and can move the cursor; otherwise use --watch",
            term ? term : "");
  return false;
}
