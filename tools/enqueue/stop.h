/*
 * stop: how pawl-enqueue reacts to a signal, and what it prints then.
 *
 *   before MongoDB has answered    the first signal ends the program at once
 *   from stop_wait on              the first one is remembered (stop_asked): the current insert gets its answer. The second ends it at once
 *
 * SIGTERM, SIGINT, SIGHUP and SIGQUIT have the same effect. The text for such an end is prepared in advance: a handler may write to stderr,
 * but not format a text.
 *
 * A separate thread gets the signals, because the driver treats a call that a signal interrupted as a lost connection.
 *
 * One per process: all state is static. Called by one thread, the first.
 */
#ifndef PAWL_TOOLS_ENQUEUE_STOP_H
#define PAWL_TOOLS_ENQUEUE_STOP_H

#include "base.h"

#include <signal.h>

enum { STOP_WORDS_SIZE = 16 * 1024 };

/*
 * From now on a signal writes `words` to stderr and ends the process with EXIT_FAILED. Call it before there are threads: they, and the
 * caller, block these signals from now on. A wait with `*unblocked` as its mask ends with EINTR. False: the thread could not be started.
 */
MUST_CHECK bool stop_catch(const char *words, sigset_t *unblocked);
/* From now on only the second signal does that. */
void stop_wait(void);
/* A signal came. */
bool stop_asked(void);
/* The text that a signal prints from now on. Copied, and cut to STOP_WORDS_SIZE. */
void stop_words(const char *words);

#endif
