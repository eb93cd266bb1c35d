/*
 * consumer_edges: the map of the state machine: which answer, or other event, leads from which state to which. It says what
 * should be; docs/protocol.md has the reasons. A change of state that is not in the map fails the test, and so does an edge of
 * the map that no walk takes (test_consumer_walk.c).
 */
#ifndef PAWL_TESTS_CONSUMER_EDGES_H
#define PAWL_TESTS_CONSUMER_EDGES_H

#include "consumer_rig.h"

/* Notes the change that the last event made. False: it is not in the map. */
MUST_CHECK bool edge_take(const struct rig *rig, enum consumer_state from, enum consumer_state to);
/* Prints the edges that were never taken, and returns how many. */
int edges_unseen(void);

#endif
