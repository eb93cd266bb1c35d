/*
 * health: the HTTP port of pawl-worker: /healthz, /readyz and /metrics, to GET and HEAD. Run by the event loop itself, so an answer proves
 * that the loop lives, and what is shown is read where it is changed.
 *
 * One thread, the loop's; but health_listen, and health_ask, may be called from any. Only health_ask blocks.
 *
 * A client can do no more than take a few kilobytes: connections are few, the oldest ends when there are more,
 * and none lives longer than 10 s.
 */
#ifndef PAWL_WORKER_HEALTH_H
#define PAWL_WORKER_HEALTH_H

#include "base.h"
#include "config/config.h"
#include "worker/metrics.h"

enum { HEALTH_DESCRIPTORS = 48 };   /* open at once, at most */
#define HEALTH_SERVER "pawl-worker" /* every answer says so in its header Server, and health_ask takes no other */

struct health;

/* Fills *view with what is true now. Its pointers must live until the next call of this file. */
typedef void health_look(void *context, struct metrics_view *view);

/* A socket that listens at the address; -1: it cannot, and error says what and where. */
MUST_CHECK int health_listen(const struct config_address *address, struct error *error);
/* `listener` is from health_listen. It lasts as long as the process. NULL: no memory. */
MUST_CHECK struct health *health_open(int listener, health_look *look, void *context);

/* To be watched for readability. */
int health_fd(const struct health *health);
/* Reads, answers and closes what can be now. To be called when health_fd is readable, and when the time of health_timeout_ms is over. */
void health_run(struct health *health);
/* How long health_run need not be called unless health_fd is readable; -1: for ever. */
int64_t health_timeout_ms(struct health *health);

/* Asks the worker at the address for /healthz, for 3 s at most. False: no answer, not a good one, or another program's; error says which.
 */
MUST_CHECK bool health_ask(const struct config_address *address, struct error *error);

#endif
