/*
 * Runs a command while it holds a mutex, as pawl-lock does, on the lockstore alone and with a timer alone: reads, and takes when the
 * mutex is free. It stands in for as long as there is no pawl-lock.
 *
 *   hold_lock URI DB NAME RETRY_MS COMMAND…
 */
#include "tools/basics.h"

#include "lockstore/lockstore.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_MS = 60000, TIMEOUT_MS = 3000 };

static bool take(struct lockstore *store, const char *name, const struct owner *owner, struct error *error)
{
  static const struct lock_holder holder = {.host = "benchmark", .program = "hold_lock"};
  struct lock_view view;
  switch (lock_read(store, name, 0, &view, error)) {
  case OUTCOME_NO:
    return lock_take(store, name, 0, owner, LEASE_MS, &holder, error) == OUTCOME_YES;
  case OUTCOME_YES:
  case OUTCOME_UNKNOWN:
    return false;
  case OUTCOME_REFUSED:
    die("hold_lock: %s", error->text);
  }
  return false;
}

static int run(char **command)
{
  int status;
  pid_t child = fork();
  if (child == 0) {
    execvp(command[0], command);
    _exit(127);
  }
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
  struct error error = {.text = ""};
  struct owner owner;
  if (argc < 6)
    die("hold_lock: takes a URI, a database, a name, milliseconds and a command");
  const struct lockstore_options options = {.uri = argv[1], .db = argv[2], .timeout_ms = TIMEOUT_MS, .connections_max = 1};
  struct lockstore *store = lockstore_open(&options, &error);
  if (!store || lockstore_prepare(store, &error) != OUTCOME_YES)
    die("hold_lock: %s", error.text);
  if (getrandom(&owner, sizeof owner, 0) != sizeof owner)
    die("hold_lock: no random bytes");
  long ms = atol(argv[4]);
  while (!take(store, argv[3], &owner, &error)) {
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
  }
  int code = run(argv + 5);
  if (lock_release(store, argv[3], 0, &owner, &error) != OUTCOME_YES)
    die("hold_lock: %s", error.text);
  lockstore_close(store);
  return code;
}
