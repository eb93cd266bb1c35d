/*
 * environment: what a command under a lock finds in its environment, and what pawl-lock finds there if it is such a command. Private
 * to pawl-lock.
 */
#ifndef PAWL_TOOLS_LOCK_ENVIRONMENT_H
#define PAWL_TOOLS_LOCK_ENVIRONMENT_H

#include "tools/lock/session.h"

/*
 * False: a pawl-lock that this one runs under holds one of the locks, or this one would wait for ever for a lock that is before one of
 * those in the order of names, in which others take them; `error` says which.
 */
MUST_CHECK bool environment_check(const struct config *config, struct error *error);
/* Of the command, once all locks are held: the caller's, never freed. NULL: no memory. */
char **environment_new(const struct session *session);

#endif
