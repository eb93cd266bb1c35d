/*
 * fiber: runs one action on a stack of its own. At every call to database, disk or clock the action may be suspended while the
 * world goes on, and be resumed much later. That is how a worker freezes between a write and its sync, and how a frozen worker
 * writes late. One fiber runs at a time.
 *
 * A fiber whose process has died runs to its end at once: every call that it makes fails and changes nothing, so the code that
 * holds its memory frees it.
 */
#ifndef PAWL_TESTS_SIMULATION_FIBER_H
#define PAWL_TESTS_SIMULATION_FIBER_H

#include "worker/consumer.h"

struct type_context;
struct process;
struct fiber;

/* Performs the action after `delay_us`, then calls type_done with the completion, on the main stack. An action of no kind
 * (ACTION_COUNT) is the last poll of --exit-when-empty. */
struct fiber *fiber_start(struct type_context *served, const struct action *action, int64_t delay_us);
/* The fiber's process died: frees the fiber, and what it holds. */
void fiber_kill(struct fiber *fiber);

/* ---- for the calls that an action makes ---- */

/* The calling process; NULL: a check, which sees everything and may do everything. */
struct process *fiber_process(void);
struct type_context *fiber_type(void);
const struct action *fiber_action(void);
bool fiber_dead(void);
/* Suspends the action; FIBER_FOREVER: until its process dies. */
#define FIBER_FOREVER INT64_MAX
void fiber_wait(int64_t us);

void fiber_free_all(void);

#endif
