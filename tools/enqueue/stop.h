/*
 * stop: what a signal does to pawl-enqueue, and what it says then.
 *
 *   before MongoDB has answered    the first signal ends the program at once
 *   from stop_wait on              the first one is remembered (stop_asked): the insert in hand gets its answer. The second ends it at once
 *
 * SIGTERM, SIGINT, SIGHUP and SIGQUIT are the same to it. What is said at such an end is written in advance: a handler may write to stderr,
 * but not put a sentence together.
 *
 * A thread of its own gets the signals: the driver takes a call that a signal has interrupted for a connection that is lost.
 *
 * Of a process there is one: all state is static. Called by one thread, the first.
 */
#ifndef PAWL_TOOLS_ENQUEUE_STOP_H
#define PAWL_TOOLS_ENQUEUE_STOP_H

#include "base.h"

#include <signal.h>

enum { STOP_WORDS_SIZE = 16 * 1024 };

/*
 * From now on a signal writes `words` to stderr and ends the process with EXIT_FAILED. Call it before there are threads: they, and the
 * caller, block these signals from now on. What waits with `*unblocked` as its mask ends with EINTR. False: there is no thread.
 */
MUST_CHECK bool stop_catch(const char *words, sigset_t *unblocked);
/* From now on only the second one does. */
void stop_wait(void);
/* A signal came. */
bool stop_asked(void);
/* What is said from now on. Copied, and cut to STOP_WORDS_SIZE. */
void stop_words(const char *words);

#endif
