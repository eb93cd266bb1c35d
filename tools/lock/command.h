/*
 * command: the command that pawl-lock runs, the lease under which it runs, and the signals of this process. Private to pawl-lock.
 *
 * A lease that is not renewed ends the command, whatever the caller does at the time: a timer on the boot-time clock, which goes on while
 * the machine sleeps, sends it SIGTERM after two thirds and SIGKILL after three.
 *
 * The command is the first of a process group of its own, and signals reach that whole group: what the command has started ends with it.
 * In the foreground of a terminal it stays in this process's group, so that Ctrl-C and Ctrl-Z reach it, and signals reach it alone.
 *
 * Signals (TERM, INT, HUP, QUIT, ALRM, USR1, USR2, CONT, WINCH), unless this process was started with them ignored:
 *   while no lock is held      do what they do without a handler: all but CONT and WINCH end it at once
 *   from command_signals_hold  those are remembered; command_signals_release lets them end it
 *   while the command runs     are passed on to it, except those that the terminal has sent to both
 *
 * One per process: all state is static. One thread, the first: the kernel delivers the signals to it as long as it does not block them.
 */
#ifndef PAWL_TOOLS_LOCK_COMMAND_H
#define PAWL_TOOLS_LOCK_COMMAND_H

#include "base.h"

#include <poll.h>

enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

/* Milliseconds of CLOCK_BOOTTIME. */
int64_t command_now_ms(void);

/* Call it first of all, before there are other threads: they inherit this thread's signal mask. */
MUST_CHECK bool command_init(struct error *error);

void command_signals_hold(void);
/* Does not return if a signal was remembered. */
void command_signals_release(void);
bool command_signalled(void); /* a signal is remembered */

/*
 * Starts the command with this environment, and with the signal mask and dispositions as they were given to this process. The command
 * gets SIGTERM when this process dies. False: no process for it; `error` says why. If the command cannot be executed, that is printed to
 * stderr, and its exit code says so.
 */
MUST_CHECK bool command_start(char **words, char **environment, struct error *error);
/* The command may run for three thirds from from_ms on. A further call extends that. */
void command_grant(int64_t from_ms, int64_t third_ms);
/* Sends SIGTERM now; SIGKILL follows at the end of the granted time. */
void command_end(void);
/*
 * After the end of a command that was overdue: waits until nothing is left of its group, which gets SIGKILL at the end of the granted
 * time.
 */
void command_rest_end(void);
/* True: it got a signal because its time was over, or may have run beyond the granted time. */
bool command_overdue(void);
/*
 * Waits until the descriptor is ready, until until_ms, or until it is overdue. True: it has ended, and *code is the exit code
 * that a shell would return.
 */
MUST_CHECK bool command_wait(struct pollfd *polled, int64_t until_ms, int *code);
/* Waits for the descriptors alone, at most until until_ms; any signal ends the wait. True: one is ready. */
bool command_poll(struct pollfd *polled, int count, int64_t until_ms);

#endif
