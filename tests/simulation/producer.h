/*
 * producer: fills the queue. Each producer has one insert under way at a time, and goes on when it is acknowledged. Its `_id`s
 * rise; among those of the other producers they lie like times from clocks that differ. Once it has read that its type has a
 * collection of its own, it uses only that; some read it late, some never.
 */
#ifndef PAWL_TESTS_SIMULATION_PRODUCER_H
#define PAWL_TESTS_SIMULATION_PRODUCER_H

#include <stdbool.h>

void producers_begin(void);
/* An operator stops the producers of a type; they insert nothing new until producers_go_on. Whether one still waits for an answer. */
void producers_hold(int type);
bool producers_wait(int type);
/* `shared`: the type has no collection of its own any more. */
void producers_go_on(int type, bool shared);

#endif
