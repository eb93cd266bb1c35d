/*
 * fiber: an action while it is performed, on a stack of its own. At every call that it makes to database, disk or clock it may be
 * laid aside while the world goes on, and be taken up much later: that is how a worker is frozen between a write and its sync, and
 * how a zombie writes late. One runs at a time.
 *
 * A fiber whose process has died is run to its end at once: every call it makes fails and changes nothing, and so its
 * memory is freed by the code that holds it.
 */
#ifndef PAWL_TESTS_SIMULATION_FIBER_H
#define PAWL_TESTS_SIMULATION_FIBER_H

#include "worker/consumer.h"

struct station;
struct process;
struct fiber;

/* Performs the action (of no kind, ACTION_COUNT: the last look of --exit-when-empty) after `delay_us`; then station_done is called with the
 * completion, from the main stack. */
struct fiber *fiber_start(struct station *station, const struct action *action, int64_t delay_us);
/* Its process died: frees it, and what it holds. */
void fiber_kill(struct fiber *fiber);

/* ---- for the calls that an action makes ---- */

/* Who calls; NULL: a check, which sees and may everything. */
struct process *fiber_process(void);
struct station *fiber_station(void);
const struct action *fiber_action(void);
bool fiber_dead(void);
/* Lays the action aside; FIBER_FOREVER: until its process dies. */
#define FIBER_FOREVER INT64_MAX
void fiber_wait(int64_t us);

void fiber_free_all(void);

#endif
