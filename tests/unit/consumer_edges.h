/*
 * consumer_edges: the map of the state machine: which answer, or other event, leads from which state to which. It says what
 * should be; docs/protocol.md has the reasons. A change of state that is not in the map fails the test, and so does an edge of
 * the map that no walk takes (test_consumer_walk.c).
 */
#ifndef PAWL_TESTS_CONSUMER_EDGES_H
#define PAWL_TESTS_CONSUMER_EDGES_H

#include "consumer_rig.h"

/* Follows the changes that the last event made, and notes them. The test fails if one is not in the map. */
void edges_follow(const struct rig *rig, enum consumer_state before);
/* Prints the edges that were never taken, and returns how many. */
int edges_unseen(void);

#endif
