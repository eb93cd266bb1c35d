/*
 * producer: fills the queue. Each has one insert under way at a time, and goes on when it is acknowledged; its `_id`s rise, and lie
 * among those of the others as times on clocks that differ.
 */
#ifndef PAWL_TESTS_SIMULATION_PRODUCER_H
#define PAWL_TESTS_SIMULATION_PRODUCER_H

void producers_begin(void);

#endif
