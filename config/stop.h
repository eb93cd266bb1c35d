/*
 * stop: ends a program: on a signal, wherever it waits, and by itself, after its last output.
 *
 * Without a handler a signal ends a process, too, but not the first process of a container: the kernel drops a signal that it does not
 * handle.
 *
 * Threads: call stop_handle and stop_at_once from main, before any thread is started. A signal that was ignored when the process was
 * started (nohup) stays ignored.
 */
#ifndef PAWL_CONFIG_STOP_H
#define PAWL_CONFIG_STOP_H

/* Exit code of the first process of a container, which an unhandled signal cannot end: this plus the signal's number. */
enum { EXIT_SIGNAL = 128 };

/* Installs `handler` for SIGTERM, SIGINT, SIGHUP and SIGQUIT. Blocking calls then end with EINTR. */
void stop_handle(void (*handler)(int number));

/* From now on these signals end the process through stop_by. */
void stop_at_once(void);

/* Ends the process as the signal does without a handler. Safe in a signal handler. */
_Noreturn void stop_by(int number);

/*
 * Flushes stdout, and ends the process with this exit code. The kernel closes what is open, because MongoDB's driver would wait half a
 * second for its own threads. So memory that the process still holds is not a leak, and AddressSanitizer does not check for leaks here.
 */
_Noreturn void stop_now(int code);

#endif
