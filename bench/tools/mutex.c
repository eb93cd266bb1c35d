/*
 * A turn under pawl's mutex alone, in one process as a program that uses the library would have it: no command is started, and nothing is
 * fenced. Waits as pawl-lock does. Adds `begin end`, wall clock in ns, to FILE before it lets go.
 *
 *   mutex uri=… db=… name=… ms=… file=…
 */
#include "tools/basics.h"

#include "lockstore/wakeup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* Slot 0 leaves waiting for the majority to the fence; without one it is to be waited for by the mutex. */
enum { SLOT = 1, LEASE_MS = 30000, TIMEOUT_MS = 3000, AWAIT_MS = 1000 };

static struct lockstore *store;
static struct watcher *watcher;
static const char *name;
static struct owner owner;
static struct error error;

static bool take(void)
{
  static const struct lock_holder holder = {.host = "benchmark", .program = "mutex"};
  return lock_take(store, name, SLOT, &owner, LEASE_MS, &holder, &error) == OUTCOME_YES;
}

/* False: look again. */
static bool woken(void)
{
  struct wakeup wakeup;
  return watcher_next(watcher, &wakeup, &error) == OUTCOME_YES && wakeup.about == WAKEUP_LOCK && strcmp(wakeup.type, name) == 0;
}

static void acquire(void)
{
  struct lock_view view;
  for (;;) {
    enum outcome seen = lock_read(store, name, SLOT, &view, &error);
    bool in_row = seen == OUTCOME_YES && (view.waits || lock_wait(store, name, SLOT, &view.owner, &error) == OUTCOME_YES);
    if ((seen == OUTCOME_NO || (in_row && woken())) && take())
      return;
    if (seen != OUTCOME_NO && seen != OUTCOME_YES)
      die("mutex: %s", error.text);
  }
}

static void turn(const char *path, int64_t ms)
{
  int64_t begin = wall_ns();
  char line[64];
  struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  nanosleep(&time, NULL);
  int length = snprintf(line, sizeof line, "%lld %lld\n", (long long)begin, (long long)wall_ns());
  if (file < 0 || write(file, line, (size_t)length) != length || close(file) != 0)
    die("mutex: cannot write %s", path);
}

int main(int argc, char **argv)
{
  (void)argc;
  struct lockstore_options options = {
      .uri = argument(argv, "uri", NULL), .db = argument(argv, "db", NULL), .timeout_ms = TIMEOUT_MS, .connections_max = 1};
  name = argument(argv, "name", NULL);
  store = lockstore_open(&options, &error);
  if (!store || lockstore_prepare(store, &error) != OUTCOME_YES)
    die("mutex: %s", error.text);
  options.await_ms = AWAIT_MS;
  watcher = watcher_open_box(store, &options, &error);
  while (watcher && watcher_begin(watcher, &error) != OUTCOME_YES) /* it may lose a race against others that begin */
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  if (!watcher || getrandom(&owner, sizeof owner, 0) != sizeof owner)
    die("mutex: %s", error.text);
  acquire();
  turn(argument(argv, "file", NULL), argument_number(argv, "ms", NULL));
  if (lock_release(store, name, SLOT, &owner, 0, &error) != OUTCOME_YES)
    die("mutex: %s", error.text);
  _exit(0); /* the driver would wait for its own threads */
}
