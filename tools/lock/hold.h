/*
 * hold: --hold, for programs in any language: holds the locks until standard input ends, and tells by lines of JSON on standard
 * output. Private to pawl-lock.
 */
#ifndef PAWL_TOOLS_LOCK_HOLD_H
#define PAWL_TOOLS_LOCK_HOLD_H

#include "tools/lock/session.h"

/* Prints the line of an event, if it has one. */
void hold_print(const struct session *session, const struct pawl_event *event);
/* Reads standard input. True: it has ended. */
MUST_CHECK bool hold_input_ended(void);
/* Holds what is taken; then releases it. Returns the exit code. */
int hold_run(struct session *session);

#endif
