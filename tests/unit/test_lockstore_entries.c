/* The entries of the wait queue, which are called, expire or are renewed; and how long a waiter waits. */
#include "neighbours.h"

static struct wait_queue *seen_queue(const char *type)
{
  static struct wait_queue queue;
  struct lock_view view;
  enum outcome outcome = wait_queue_read(store, type, 0, &view, &queue, &error);
  assert_true(outcome == OUTCOME_YES || outcome == OUTCOME_NO);
  return &queue;
}

static enum outcome join(const char *type, const struct owner *owner, int64_t now_ms)
{
  struct waiter waiter = {.owner = *owner, .kind = LOCK_BY_WORKER, .at_ms = now_ms, .ttl_ms = WAITER_TTL_MS};
  return wait_queue_join(store, type, &waiter, &someone, NULL, &error);
}

/* What was seen before the entry was there counts for nothing. */
NEIGHBOUR_TEST(who_enters_looks_again)
{
  const char *type = "enters";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *tool = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(holder);
  expect_waiting(one);
  dies(holder);
  expect_takes(tool); /* after a worker */
  gives_back(tool);
  has_its_turn(one);
}

/* Its answer was lost, or it arrived late. */
NEIGHBOUR_TEST(who_sees_its_own_take_has_it)
{
  const char *type = "own-take";
  struct neighbour *one = neighbour_open(type);
  acquire_draw(one->store, &one->lock);
  assert_int_equal(take(type, &one->lock.owner, LONG_MS), OUTCOME_YES);
  takes_once(one);
  acquire_draw(one->store, &one->lock);
  assert_int_equal(take(type, &one->lock.owner, SHORT_MS), OUTCOME_YES);
  fixture_wait_expired(type, 0);
  assert_int_equal(look(one), OUTCOME_YES);
  assert_false(one->lock.steal); /* it needs no theft */
  takes_at_once(one);
  gives_back(one);
}

/* A late mark would let the others pass over one who was not called. */
NEIGHBOUR_TEST(a_late_call_marks_nobody)
{
  const char *type = "late-call";
  struct neighbour *one = neighbour_open(type), *two = neighbour_open(type), *three = neighbour_open(type);
  struct wait_queue seen;
  assert_int_equal(join(type, &bob, 1), OUTCOME_YES); /* it has long expired; and who was the last holder is not known */
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  expect_waiting(one);
  expect_waiting(two);
  expect_waiting(three);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES);
  seen = *seen_queue(type);
  assert_false(seen.has_last);
  expect_takes(one);
  assert_int_equal(wait_queue_call(store, type, &two->lock.owner, &seen, &error), OUTCOME_NO);
  seen = *seen_queue(type);
  assert_memory_equal(&seen.last, &one->lock.owner, sizeof seen.last);
  gives_back(one);
  expect_takes(two);
  assert_int_equal(wait_queue_call(store, type, &three->lock.owner, &seen, &error), OUTCOME_NO);
  gives_back(two);
  takes_once(three);
}

/* Called, and it does not come: that costs a moment, once. */
NEIGHBOUR_TEST(a_dead_tool_costs_its_turn_once)
{
  const char *type = "dead-tool";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *tool = neighbour_of(type, LOCK_BY_TOOL);
  one->lock.retry_ms = 20000;
  expect_takes(holder);
  expect_waiting(tool);
  expect_waiting(one);
  gives_back(holder);
  expect_called(tool);
  expect_waiting(one);
  assert_uint_in_range(one->lock.pause_ms, 1, CALL_MS + 201); /* not together with others */
  fixture_age_queue(type, 1000);
  expect_waiting(one); /* and does not call it again: it would never end */
  fixture_age_queue(type, CALL_MS - 1000 + 1);
  expect_takes(one);
  struct lock_renewal renewal = {.type = type, .owner = one->lock.owner, .ttl_ms = LONG_MS, .kind = LOCK_BY_WORKER};
  assert_int_equal(lock_renew_all(one->store, &renewal, 1, &error), OUTCOME_YES);
  assert_false(renewal.awaited);
  struct wait_queue *left = seen_queue(type);
  assert_true(left->count == 0 && left->has_last);
  assert_memory_equal(&left->last, &one->lock.owner, sizeof left->last);
  gives_back(one);
  left = seen_queue(type);
  assert_true(left->count == 0 && !left->has_last); /* the document is gone */
}

/* Woken, it takes the lock without another look. Nothing is left of a queue that is over. */
NEIGHBOUR_TEST(who_is_woken_may_take_at_once)
{
  const char *type = "at-once";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *tool = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(tool);
  gives_back(holder);
  expect_called(tool);
  takes_at_once(tool);
  struct wait_queue *left = seen_queue(type);
  assert_true(left->count == 1 && left->last_kind == LOCK_BY_TOOL);
  gives_back(tool);
  expect_called(one);
  takes_at_once(one);
  gives_back(one);
  left = seen_queue(type);
  assert_true(left->count == 0 && !left->has_last);
}

/* Called, and another was faster: with its next look it is as if it had not been called. */
NEIGHBOUR_TEST(who_waits_on_is_not_passed_over)
{
  const char *type = "waits-on";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(two);
  gives_back(holder);
  expect_called(one);
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  expect_waiting(one);
  fixture_age_queue(type, CALL_MS + 1);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES); /* it dies before it calls anybody */
  expect_waiting(two);
  has_its_turn(one); /* by the one that saw it free */
  has_its_turn(two);
}

NEIGHBOUR_TEST(an_entry_is_renewed_or_expires)
{
  const char *type = "renewed";
  struct neighbour *holder = neighbour_open(type), *dead = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type);
  expect_takes(holder);
  expect_waiting(dead);
  expect_waiting(one);
  fixture_age_queue(type, WAITER_RENEW_MS + 1);
  expect_waiting(one);
  fixture_age_queue(type, WAITER_TTL_MS - WAITER_RENEW_MS);
  expect_waiting(two);
  gives_back(holder);
  has_its_turn(one);
  has_its_turn(two);
  expect_quiet(dead);
}

/* Else it loses its place, and no release calls it. */
NEIGHBOUR_TEST(who_waits_looks_before_its_entry_expires)
{
  const char *type = "entry-end";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type);
  one->lock.retry_ms = 3600000;
  expect_takes(holder);
  expect_waiting(one);
  assert_uint_in_range(one->lock.pause_ms, 1, 2 * WAITER_RENEW_MS);
  gives_back(holder);
  takes_once(one);
}

/* One that did not come when it was called, and waits again by the time that the lock is free, is left in the queue by the next taker. */
NEIGHBOUR_TEST(who_has_come_back_keeps_its_place)
{
  const char *type = "came-back";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(two);
  assert_int_equal(wait_queue_call(store, type, &one->lock.owner, seen_queue(type), &error), OUTCOME_YES);
  fixture_age_queue(type, CALL_MS + 1);
  expect_waiting(two); /* and sees that the other is gone */
  expect_waiting(one);
  dies(holder);
  takes_at_once(two);
  assert_int_equal(wait_queue_find(seen_queue(type), &one->lock.owner), 0);
  gives_back(two);
  has_its_turn(one);
}

/* Else all but one would try in vain. */
NEIGHBOUR_TEST(those_that_may_try_take_different_slots)
{
  enum { SLOTS = 3 };
  const char *type = "slots";
  struct neighbour *one = neighbour_open(type), *two = neighbour_open(type);
  one->lock.slots = two->lock.slots = SLOTS;
  for (int slot = 0; slot < SLOTS; slot++)
    assert_int_equal(lock_take(store, type, slot, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  expect_waiting(one);
  expect_waiting(two);
  for (int slot = 1; slot < SLOTS; slot++)
    assert_int_equal(lock_delete(store, type, slot, &alice, &error), OUTCOME_YES);
  assert_int_equal(look(one), OUTCOME_YES);
  assert_int_equal(one->lock.slot, 1);
  assert_int_equal(look(two), OUTCOME_YES);
  assert_int_equal(two->lock.slot, 2);
}

/* The server's clock was set back: an entry from before does not count, until its waiter looks again. */
NEIGHBOUR_TEST(an_entry_of_a_jumped_clock_is_renewed)
{
  const char *type = "jumped";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(two);
  fixture_age_queue(type, -WAITER_TTL_MS - 10000);
  expect_waiting(two);
  gives_back(holder);
  has_its_turn(two);
  expect_quiet(one);
}

/* No wake-up comes then. */
NEIGHBOUR_TEST(who_waits_looks_at_the_end_of_the_lease)
{
  const char *type = "lease-end";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type);
  holder->lock.ttl_ms = 3000; /* shorter than each pause that could be drawn by luck */
  one->lock.retry_ms = 20000;
  expect_takes(holder);
  expect_waiting(one);
  assert_uint_in_range(one->lock.pause_ms, 1, 3001);
  gives_back(holder);
  takes_once(one);
}

/* Only where the lock is free; and a worker without messages only a tool. */
NEIGHBOUR_TEST(who_leaves_hands_it_on)
{
  const char *type = "leaves";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type), *two = neighbour_open(type), *three = neighbour_open(type),
                   *tool = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(holder);
  expect_waiting(one);
  expect_waiting(two);
  expect_waiting(three);
  leaves(one, true);
  expect_quiet(two);
  dies(holder);
  leaves(two, false);
  expect_quiet(three);
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  expect_waiting(one);
  expect_waiting(tool);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES);
  leaves(three, false);
  expect_called(tool);
  leaves(tool, true);
  has_its_turn(one);
}

/* A late copy of the releaser's own entry does not wait. */
NEIGHBOUR_TEST(who_releases_does_not_call_himself)
{
  const char *type = "own-entry";
  struct neighbour *holder = neighbour_open(type), *one = neighbour_open(type);
  expect_takes(holder);
  assert_int_equal(join(type, &holder->lock.owner, seen_queue(type)->now_ms), OUTCOME_YES);
  expect_waiting(one);
  gives_back(holder);
  expect_called(one);
  expect_takes(one);
  dies(one);
}

NEIGHBOUR_TEST(the_queue_has_bounds)
{
  const char *type = "bounds";
  struct neighbour *near = neighbour_open(type), *far = neighbour_open(type), *late = neighbour_open(type);
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  int64_t now_ms = seen_queue(type)->now_ms;
  for (int i = 0; i < WAITERS_MAX; i++) {
    struct owner owner = {.bytes = {0xff, (uint8_t)i, (uint8_t)(i >> 8)}};
    if (i == 15)
      expect_waiting(near);
    else if (i == 16)
      expect_waiting(far);
    else
      assert_int_equal(join(type, &owner, now_ms), OUTCOME_YES);
    if (i == 0)
      assert_int_equal(join(type, &owner, now_ms), OUTCOME_NO); /* a late copy */
  }
  assert_int_equal(look(late), OUTCOME_NO);
  assert_int_equal(seen_queue(type)->count, WAITERS_MAX);
  assert_false(late->lock.queued); /* it relies on its timer */
  assert_uint_in_range(late->lock.pause_ms, 500, 1000);
  assert_true(near->lock.near && !far->lock.near && !late->lock.near);
  assert_int_equal(join(type, &bob, now_ms), OUTCOME_NO);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES);
}

/* Its entry expires long before --retry is over. */
NEIGHBOUR_TEST(lost_take_is_followed_by_a_look_soon)
{
  struct neighbour *one = neighbour_open(MY_TYPE), *two = neighbour_open(MY_TYPE);
  two->lock.retry_ms = 3600000;
  acquire_draw(two->store, &two->lock);
  expect_takes(one);
  assert_int_equal(acquire_take(two->store, two->type, &two->lock, &someone, &error), OUTCOME_NO);
  assert_uint_in_range(two->lock.pause_ms, 500, 1000);
}
