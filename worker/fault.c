#include "worker/fault.h"

#if PAWL_FAULTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[FAULT_COUNT] = {"lock-inserted",   "fenced",  "segment-created", "block-written", "block-synced",
                                               "block-committed", "deleted", "close-written",   "released"};

static struct {
  const char *variable;
  int signal;
  int fault; /* -1: none */
  atomic_int left;
} armed[] = {{"PAWL_FAULT", SIGKILL, -1, 0}, {"PAWL_FAULT_STOP", SIGSTOP, -1, 0}};

void fault_init(void)
{
  for (size_t i = 0; i < sizeof armed / sizeof armed[0]; i++) {
    const char *wanted = getenv(armed[i].variable);
    size_t length = wanted != NULL ? strcspn(wanted, ":") : 0;
    for (int fault = 0; fault < FAULT_COUNT && length > 0; fault++)
      if (strlen(names[fault]) == length && strncmp(names[fault], wanted, length) == 0) {
        armed[i].fault = fault;
        armed[i].left = wanted[length] == ':' ? atoi(wanted + length + 1) : 1;
      }
  }
}

void fault_point(enum fault fault)
{
  for (size_t i = 0; i < sizeof armed / sizeof armed[0]; i++)
    if (armed[i].fault == (int)fault && atomic_fetch_sub(&armed[i].left, 1) == 1)
      raise(armed[i].signal); /* to this thread: it must not get past the point */
}

#else

void fault_init(void)
{
}

#endif
