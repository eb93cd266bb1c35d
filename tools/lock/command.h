/*
 * command: the command that pawl-lock runs, the lease under which it runs, and the signals of this process. Private to pawl-lock.
 *
 * A lease that is not prolonged ends the command, whatever the caller is doing: a timer on the boot-time clock, which goes on while the
 * machine sleeps, sends it SIGTERM after two thirds and SIGKILL after three. Signals reach the command alone, not what it has started.
 *
 * Signals that would end this process (TERM, INT, HUP, QUIT), unless it was started with them ignored:
 *   while nothing is held      end it at once, as if it had no handler
 *   from command_signals_hold  are remembered; command_signals_release lets them end it
 *   while the command runs     are passed on to it, but for those that the terminal has sent to both
 *
 * Of a process there is one: all state is static. One thread, the first: to it the kernel gives the signals as long as it does not block
 * them.
 */
#ifndef PAWL_TOOLS_LOCK_COMMAND_H
#define PAWL_TOOLS_LOCK_COMMAND_H

#include "base.h"

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Milliseconds of CLOCK_BOOTTIME. */
int64_t command_now_ms(void);

/* First of all, before there are other threads: they are to have this one's signal mask. */
MUST_CHECK bool command_init(struct error *error);

void command_signals_hold(void);
/* Does not return if one was remembered. */
void command_signals_release(void);
bool command_signalled(void); /* one is remembered */

/*
 * With this process's environment, and its signal mask and dispositions as they were given to it. It gets SIGTERM when this process dies.
 * False: there is no process for it; `error` says why. That it cannot be executed is said on stderr, and is its exit code.
 */
MUST_CHECK bool command_start(char **words, struct error *error);
/* It may run for three thirds from from_ms on. Called again, it prolongs that. */
void command_grant(int64_t from_ms, int64_t third_ms);
/* SIGTERM now; SIGKILL at the end of what was granted. */
void command_end(void);
/* It got a signal for that, or may have run on behind the end of what was granted. */
bool command_overdue(void);
/* Waits until until_ms, or until it is overdue. True: it has ended, and *code is what a shell would say. */
MUST_CHECK bool command_wait(int64_t until_ms, int *code);

#endif
