/* consumer_rules: the protocol's rules, checked by an observer of actions and answers. Only consumer_rig uses it. */
#ifndef PAWL_TESTS_CONSUMER_RULES_H
#define PAWL_TESTS_CONSUMER_RULES_H

#include "consumer_rig.h"

/* An action was just started. */
void rules_started(struct rig *rig, const struct action *action);
/* The action comes back; called before the consumer gets the answer. */
void rules_answered(struct rig *rig, const struct action *action, const struct completion *completion);
/* After each event: checks the edges, and that the consumer will be woken again. */
void rules_turn(struct rig *rig, enum consumer_state before);

#endif
