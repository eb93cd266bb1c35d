/* neighbours: processes beside each other that wait for a lock: each has a store, a reader of wake-ups and an attempt of its own. */
#ifndef PAWL_TESTS_NEIGHBOURS_H
#define PAWL_TESTS_NEIGHBOURS_H

#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"
#include "test_lockstore.h"

#define NEIGHBOUR_TEST(name) TEST_WITH(name, NULL, neighbours_close)

enum { NEIGHBOURS_MAX = 8 };

struct neighbour { /* another process */
  const char *type;
  struct lockstore *store;
  struct wakeup_reader *reader;
  struct acquisition lock;
};

/* The fixture closes them at the end of the test. */
struct neighbour *neighbour_open(const char *type); /* a worker */
struct neighbour *neighbour_of(const char *type, enum lock_kind kind);
int neighbours_close(void **state);

/* It gets this wake-up next; called: for the lock, with its own owner. */
struct wakeup expect_woken(struct neighbour *neighbour, enum wakeup_about about);
void expect_called_at(struct neighbour *neighbour, int64_t epoch);
void expect_called(struct neighbour *neighbour);
void expect_quiet(struct neighbour *neighbour);

enum outcome look(struct neighbour *neighbour);
/* The look says so, and it has a place in the wait queue. */
void expect_waiting(struct neighbour *neighbour);
void takes_at_once(struct neighbour *neighbour);
/* After a look. */
void expect_takes(struct neighbour *neighbour);
void gives_back_at(struct neighbour *neighbour, int64_t epoch);
void gives_back(struct neighbour *neighbour);
/* Takes it and gives it back; has_its_turn: when it is called. */
void takes_once(struct neighbour *neighbour);
void has_its_turn(struct neighbour *neighbour);
void leaves(struct neighbour *neighbour, bool wants);
/* Without a call to those that wait. */
void dies(struct neighbour *neighbour);

#endif
