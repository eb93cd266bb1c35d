/*
 * health: the HTTP port of pawl-worker: /healthz, /readyz and /metrics, for GET and HEAD. The event loop itself runs it, so an
 * answer proves that the loop lives, and all values are read on the thread that changes them.
 *
 * One thread, the loop's; health_listen and health_ask may be called from any. Only health_ask blocks.
 *
 * A client can take only a few kilobytes: port.h says how connections are limited. None lives longer than 10 s.
 */
#ifndef PAWL_WORKER_HEALTH_H
#define PAWL_WORKER_HEALTH_H

#include "base.h"
#include "config/config.h"
#include "worker/metrics.h"

enum { HEALTH_DESCRIPTORS = 48 };   /* open at the same time, at most */
#define HEALTH_SERVER "pawl-worker" /* every answer has it in its header Server, and health_ask accepts no other */

struct health;

/* Fills *view with the current values. Its pointers must live until the next call of a function of this file. */
typedef void health_look(void *context, struct metrics_view *view);

/* Opens a socket that listens at the address. -1: not possible, and `error` says what failed and where. */
MUST_CHECK int health_listen(const struct config_address *address, struct error *error);
/* `listener` comes from health_listen. The result lasts as long as the process. NULL: no memory. */
MUST_CHECK struct health *health_open(int listener, health_look *look, void *context);

/* The descriptor to watch for readability. */
int health_fd(const struct health *health);
/* Reads, answers and closes what is possible now. Call it when health_fd is readable, and when the time of health_timeout_ms is over. */
void health_run(struct health *health);
/* How long health_run need not be called while health_fd is not readable; -1: for ever. */
int64_t health_timeout_ms(struct health *health);

/* Asks the worker at the address for /healthz, for at most 3 s. False: no answer, not a good one, or another program's; `error`
 * says which. */
MUST_CHECK bool health_ask(const struct config_address *address, struct error *error);

#endif
