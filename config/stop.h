/*
 * stop: how a program ends: by a signal, wherever it waits, and by itself, after its last word.
 *
 * A process without a handler would end too, but not as the first process of a container: the kernel drops what that one does not handle.
 *
 * Threads: call it from main, before there are threads. A signal that the process was started to ignore (nohup) stays ignored.
 */
#ifndef PAWL_CONFIG_STOP_H
#define PAWL_CONFIG_STOP_H

/* Exit code of the first process of a container, to which no signal can be sent that has no handler: this, and the signal's number. */
enum { EXIT_SIGNAL = 128 };

/* SIGTERM, SIGINT, SIGHUP and SIGQUIT go to `handler`. Calls that block end with EINTR. */
void stop_handle(void (*handler)(int number));

/* They end the process with stop_by. */
void stop_at_once(void);

/* Ends the process as the signal does without a handler. Safe in a handler. */
_Noreturn void stop_by(int number);

/*
 * Ends the process with this exit code, stdout flushed. The kernel closes what is open: the driver of MongoDB would wait for its own
 * threads, half a second. So what the process still holds is no leak, and AddressSanitizer does not look for any here.
 */
_Noreturn void stop_now(int code);

#endif
