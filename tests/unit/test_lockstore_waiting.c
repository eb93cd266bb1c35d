/* Wake-ups, and waiting for a lock: whose turn it is; and the entries of the wait queue, which expire or are renewed. */
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

static struct neighbour neighbours[NEIGHBOURS_MAX]; /* those of the test that runs */
static int neighbour_count;

static int neighbours_close(void **state)
{
  (void)state;
  for (; neighbour_count > 0; neighbour_count--) {
    wakeup_reader_close(neighbours[neighbour_count - 1].reader);
    lockstore_close(neighbours[neighbour_count - 1].store);
  }
  return 0;
}

static void begin_waiting(struct neighbour *neighbour, enum lock_kind kind)
{
  acquire_init(&neighbour->lock, kind, LONG_MS, 100);
  neighbour->lock.listens = true;
}

static struct neighbour *neighbour_of(const char *type, enum lock_kind kind)
{
  assert_true(neighbour_count < NEIGHBOURS_MAX);
  struct neighbour *neighbour = &neighbours[neighbour_count];
  *neighbour = (struct neighbour){.type = type, .store = fixture_store_new()};
  neighbour->reader = fixture_reader(neighbour->store, type);
  neighbour_count++;
  begin_waiting(neighbour, kind);
  assert_int_equal(wakeup_reader_begin(neighbour->reader, &error), OUTCOME_YES);
  return neighbour;
}

static struct neighbour *neighbour_open(const char *type)
{
  return neighbour_of(type, LOCK_BY_WORKER);
}

static struct wakeup expect_woken(struct neighbour *neighbour, enum wakeup_about about)
{
  struct wakeup wakeup = {.epoch = -1};
  enum outcome outcome = OUTCOME_NO;
  for (int tries = 0; outcome == OUTCOME_NO && tries < 10; tries++)
    outcome = wakeup_reader_next(neighbour->reader, 1000, &wakeup, &error);
  assert_int_equal(outcome, OUTCOME_YES);
  assert_string_equal(wakeup.type, neighbour->type);
  assert_int_equal(wakeup.about, about);
  return wakeup;
}

static void expect_called_at(struct neighbour *neighbour, int64_t epoch)
{
  struct wakeup wakeup = expect_woken(neighbour, WAKEUP_LOCK);
  assert_memory_equal(&wakeup.owner, &neighbour->lock.owner, sizeof wakeup.owner);
  assert_int_equal(wakeup.epoch, epoch);
}

static void expect_called(struct neighbour *neighbour)
{
  expect_called_at(neighbour, 0);
}

static void expect_quiet(struct neighbour *neighbour)
{
  struct wakeup wakeup;
  assert_int_equal(wakeup_reader_next(neighbour->reader, 100, &wakeup, &error), OUTCOME_NO);
}

static enum outcome look(struct neighbour *neighbour)
{
  return acquire_look(neighbour->store, neighbour->type, &neighbour->lock, &someone, &error);
}

static void expect_waiting(struct neighbour *neighbour)
{
  assert_int_equal(look(neighbour), OUTCOME_NO);
  assert_true(neighbour->lock.queued);
  assert_uint_in_range(neighbour->lock.pause_ms, 1, LONG_MS + 1);
}

static void takes_at_once(struct neighbour *neighbour)
{
  assert_int_equal(acquire_take(neighbour->store, neighbour->type, &neighbour->lock, &someone, &error), OUTCOME_YES);
}

static void expect_takes(struct neighbour *neighbour)
{
  assert_int_equal(look(neighbour), OUTCOME_YES);
  takes_at_once(neighbour);
  assert_false(neighbour->lock.queued);
}

static void gives_back_at(struct neighbour *neighbour, int64_t epoch)
{
  assert_int_equal(acquire_release(neighbour->store, neighbour->type, &neighbour->lock, epoch, &error), OUTCOME_YES);
  begin_waiting(neighbour, neighbour->lock.kind);
}

static void gives_back(struct neighbour *neighbour)
{
  gives_back_at(neighbour, 0);
}

static void takes_once(struct neighbour *neighbour)
{
  expect_takes(neighbour);
  gives_back(neighbour);
}

static void has_its_turn(struct neighbour *neighbour)
{
  expect_called(neighbour);
  takes_once(neighbour);
}

static void leaves(struct neighbour *neighbour, bool wants)
{
  assert_int_equal(acquire_leave(neighbour->store, neighbour->type, &neighbour->lock, wants, &error), OUTCOME_YES);
}

/* Without a call to those that wait. */
static void dies(struct neighbour *neighbour)
{
  assert_int_equal(lock_delete(neighbour->store, neighbour->type, 0, &neighbour->lock.owner, &error), OUTCOME_YES);
}

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
  holder->lock.ttl_ms = SHORT_MS;
  expect_takes(holder);
  expect_waiting(thief);
  expect_waiting(waiter);
  fixture_wait_expired(type, 0);
  expect_takes(thief);
  expect_woken(holder, WAKEUP_LOST);
  gives_back(thief);
  expect_called(waiter);
  expect_quiet(thief);
}

/* ---- the wait queue's entries ---- */

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

/* It is woken by nobody then. */
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

/* A late copy of the releaser's own entry is nobody who waits. */
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
