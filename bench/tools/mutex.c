/*
 * One turn under pawl's mutex alone, in one process, as a program that uses the library would take it: it starts no command and fences
 * nothing. It waits as pawl-lock does. It appends `begin end`, wall clock in ns, to FILE before it releases the lock.
 *
 *   mutex uri=… db=… name=… slot=… ms=… file=…
 *
 * slot 0: the primary acknowledges the take. The fence would wait for the majority, and this program does not fence. Any other slot: the
 * take waits for the majority.
 */
#include "tools/basics.h"

#include "lockstore/wakeup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { AGAIN_MS = 20, LEASE_MS = 30000, TIMEOUT_MS = 3000, AWAIT_MS = 1000 };

static struct lockstore *store;
static struct watcher *watcher;
static const char *name;
static int slot;
static struct owner owner;
static struct error error;

static bool take(void)
{
  static const struct lock_holder holder = {.host = "benchmark", .program = "mutex"};
  return lock_take(store, name, slot, &owner, LEASE_MS, &holder, &error) == OUTCOME_YES;
}

/* False: read the lock again. */
static bool woken(void)
{
  struct wakeup wakeup;
  return watcher_next(watcher, &wakeup, &error) == OUTCOME_YES && wakeup.about == WAKEUP_LOCK && strcmp(wakeup.type, name) == 0;
}

static void pause_ms(long ms)
{
  nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/*
 * A waiter in the wait queue that finds the lock free waits for its wake-up first: the releasing holder is sending one to it or to another
 * waiter.
 */
static void acquire(void)
{
  struct lock_view view;
  for (bool in_row = false, yields;;) {
    enum outcome seen = lock_read(store, name, slot, &view, &error);
    yields = seen == OUTCOME_NO && in_row;
    in_row = seen == OUTCOME_YES && (view.waits || lock_wait(store, name, slot, &view.owner, &error) == OUTCOME_YES);
    if (((seen == OUTCOME_NO && !yields) || ((in_row || yields) && woken())) && take())
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
  slot = (int)argument_number(argv, "slot", NULL);
  store = lockstore_open(&options, &error);
  if (!store || lockstore_prepare(store, &error) != OUTCOME_YES)
    die("mutex: %s", error.text);
  options.await_ms = AWAIT_MS;
  watcher = watcher_open_box(store, &options, &error);
  while (watcher && watcher_begin(watcher, &error) != OUTCOME_YES) /* may lose a race against other processes that begin */
    pause_ms(AGAIN_MS);
  if (!watcher || getrandom(&owner, sizeof owner, 0) != sizeof owner)
    die("mutex: %s", error.text);
  acquire();
  turn(argument(argv, "file", NULL), argument_number(argv, "ms", NULL));
  if (lock_delete(store, name, slot, &owner, &error) != OUTCOME_YES)
    die("mutex: %s", error.text);
  end_at_once();
}
