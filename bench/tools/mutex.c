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

#include "lockstore/acquire.h"
#include "lockstore/wakeup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { AGAIN_MS = 20, LEASE_MS = 30000, TIMEOUT_MS = 3000, AWAIT_MS = 1000, RETRY_MS = 100 };

static struct lockstore *store;
static struct wakeup_reader *watcher;
static const char *name;
static struct acquisition mine;
static const struct lock_holder holder = {.host = "benchmark", .program = "mutex", .kind = LOCK_BY_TOOL};
static struct error error;

static void pause_ms(int64_t ms)
{
  nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Only near the front, as pawl-lock does: each wake-up costs the server something for each cursor that waits. */
static void listen(void)
{
  while (wakeup_reader_begin(watcher, &error) != OUTCOME_YES) /* may lose a race against other processes that begin */
    pause_ms(AGAIN_MS);
  mine.listens = true;
}

/* True: it is this one's turn. */
static bool woken(void)
{
  struct wakeup wakeup;
  if (!mine.listens) {
    pause_ms(mine.pause_ms);
    return false;
  }
  return wakeup_reader_next(watcher, mine.pause_ms, &wakeup, &error) == OUTCOME_YES && wakeup.about == WAKEUP_LOCK &&
         memcmp(&wakeup.owner, &mine.owner, sizeof wakeup.owner) == 0;
}

static void acquire(void)
{
  for (bool turn = false;;) {
    enum outcome seen = turn ? OUTCOME_YES : acquire_look(store, name, &mine, &holder, &error);
    if (seen == OUTCOME_YES && acquire_take(store, name, &mine, &holder, &error) == OUTCOME_YES)
      return;
    if (seen != OUTCOME_NO && seen != OUTCOME_YES)
      die("mutex: %s", error.text);
    if (mine.near && !mine.listens)
      listen(); /* and look once more: what came before is not seen */
    else
      turn = woken();
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
  watcher = wakeup_reader_open(store, &options, NULL, 0, &error);
  if (!watcher)
    die("mutex: %s", error.text);
  acquire_init(&mine, LOCK_BY_TOOL, LEASE_MS, RETRY_MS);
  mine.slot = (int)argument_number(argv, "slot", NULL);
  acquire();
  turn(argument(argv, "file", NULL), argument_number(argv, "ms", NULL));
  if (acquire_release(store, name, &mine, 0, &error) != OUTCOME_YES)
    die("mutex: %s", error.text);
  end_at_once();
}
