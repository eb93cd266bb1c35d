/* consumer_watch: the rules of the protocol as an observer of actions and answers sees them. Used by consumer_rig only. */
#ifndef PAWL_TESTS_CONSUMER_WATCH_H
#define PAWL_TESTS_CONSUMER_WATCH_H

#include "consumer_rig.h"

/* An action was started now. */
void watch_started(struct rig *rig, const struct action *action);
/* It comes back; called before the consumer learns of it. */
void watch_answered(struct rig *rig, const struct action *action, const struct completion *completion);
/* After each event: edges, and that it will be woken up again. */
void watch_turn(struct rig *rig, enum consumer_state before);

#endif
