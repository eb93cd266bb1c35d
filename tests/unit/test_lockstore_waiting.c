/* Wake-ups, and waiting for a lock: whose turn it is. */
#include "neighbours.h"

NEIGHBOUR_TEST(wakeups_reach_those_they_are_for)
{
  assert_int_equal(wakeup_send(store, MY_TYPE, WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES); /* sent before the reader began: skipped */
  struct neighbour *one = neighbour_open(MY_TYPE), *two = neighbour_open(MY_TYPE), *other = neighbour_open("another");
  acquire_draw(one->store, &one->lock);
  assert_int_equal(wakeup_send(store, MY_TYPE, WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
  assert_int_equal(wakeup_send(store, MY_TYPE, WAKEUP_LOST, &one->lock.owner, 0, &error), OUTCOME_YES);
  expect_woken(one, WAKEUP_MESSAGE);
  struct wakeup lost = expect_woken(one, WAKEUP_LOST);
  assert_memory_equal(&lost.owner, &one->lock.owner, sizeof lost.owner);
  expect_woken(two, WAKEUP_MESSAGE);
  expect_quiet(one);
  expect_quiet(two);
  expect_quiet(other);
}

NEIGHBOUR_TEST(waiters_are_woken_one_by_one)
{
  const char *type = "one-by-one";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type), *three = neighbour_open(type);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(two);
  expect_waiting(three);
  expect_waiting(one); /* again: it keeps its place */
  gives_back_at(holder, 7);
  expect_called_at(one, 7);
  expect_quiet(two);
  /* The queue survives the release; who just held it does not push in; and whose turn it is not finds out. */
  expect_waiting(holder);
  expect_waiting(three);
  takes_once(one);
  has_its_turn(two);
  expect_called(three);
  /* One that goes away hands it on. */
  leaves(three, true);
  has_its_turn(holder);
  /* Nothing is left of the queue: the next one takes it at once. */
  takes_once(one);
}

/* Workers and tools take turns, whatever the number of those that wait. */
NEIGHBOUR_TEST(both_kinds_have_their_turn)
{
  const char *type = "turns";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type),
                   *tool = neighbour_of(type, LOCK_BY_TOOL), *another = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(two);
  struct lock_renewal renewal = {.type = type, .owner = holder->lock.owner, .ttl_ms = LONG_MS, .kind = LOCK_BY_WORKER};
  assert_int_equal(lock_renew_all(holder->store, &renewal, 1, &error), OUTCOME_YES);
  assert_false(renewal.awaited);
  expect_waiting(tool);
  expect_waiting(another);
  assert_int_equal(lock_renew_all(holder->store, &renewal, 1, &error), OUTCOME_YES);
  assert_true(renewal.awaited);
  gives_back(holder);
  has_its_turn(tool); /* before the workers, which came earlier */
  has_its_turn(one);  /* before the other tool */
  has_its_turn(another);
  has_its_turn(two);
}

/* A try takes it only if nobody waits, and does not enter the queue. */
NEIGHBOUR_TEST(a_try_waits_for_nobody)
{
  const char *type = "tries";
  struct neighbour *holder = neighbour_open(type), *waiter = neighbour_open(type), *one = neighbour_of(type, LOCK_BY_TOOL);
  one->lock.tries = true;
  expect_takes(holder);
  assert_int_equal(look(one), OUTCOME_NO);
  assert_false(one->lock.queued);
  assert_true(one->lock.view.left_ms > 0);
  expect_waiting(waiter);
  gives_back(holder);
  assert_int_equal(look(one), OUTCOME_NO);
  takes_once(waiter);
  takes_once(one);
}

NEIGHBOUR_TEST(theft_is_told_and_keeps_the_queue)
{
  const char *type = "theft";
  struct neighbour *holder = neighbour_open(type), *thief = neighbour_open(type), *waiter = neighbour_open(type);
  expect_takes(holder);
  expect_waiting(thief);
  expect_waiting(waiter);
  assert_int_equal(lock_renew(holder->store, type, 0, &holder->lock.owner, SHORT_MS, &error), OUTCOME_YES); /* once both wait */
  fixture_wait_expired(type, 0);
  expect_takes(thief);
  expect_woken(holder, WAKEUP_LOST);
  gives_back(thief);
  expect_called(waiter);
  expect_quiet(thief);
}
