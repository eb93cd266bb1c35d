/*
 * producer: fills the queue. Each producer has one insert under way at a time, and goes on when it is acknowledged. Its `_id`s
 * rise; among those of the other producers they lie like times from clocks that differ.
 */
#ifndef PAWL_TESTS_SIMULATION_PRODUCER_H
#define PAWL_TESTS_SIMULATION_PRODUCER_H

void producers_begin(void);

#endif
