/* The mutex: who gets a lock, keeps it, and loses it; and the lists of locks and ledgers. */
#include "lockstore/wait_queue.h"
#include "test_lockstore.h"

#include <pthread.h>

TEST(insert_decides)
{
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(take(MY_TYPE, &bob, LONG_MS), OUTCOME_NO);
  assert_int_equal(lock_take(store, MY_TYPE, 1, &bob, LONG_MS, &someone, &error), OUTCOME_YES);
}

TEST(my_own_nonce_is_mine_again)
{
  struct lock_view view;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_delete(store, MY_TYPE, 0, &alice, &error), OUTCOME_YES);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_NO);
}

TEST(read_tells_who_holds_it)
{
  struct lock_view view;
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_NO);
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_YES);
  assert_memory_equal(&view.owner, &alice, sizeof alice);
  assert_string_equal(view.holder.host, "$host");
  assert_string_equal(view.holder.boot, "boot-1");
  assert_string_equal(view.holder.program, "pawl-worker");
  assert_int_equal(view.holder.pid, 42);
  assert_int_equal(view.holder.started_wall_ms, 1700);
  assert_int_equal(view.ttl_ms, LONG_MS);
  assert_uint_in_range(view.left_ms, LONG_MS / 2, LONG_MS);
  assert_false(view.stealable);
  assert_int_equal(lock_read(store, MY_TYPE, 1, &view, &error), OUTCOME_NO);
}

TEST(expired_lock_is_stolen_once)
{
  struct lock_view view;
  assert_int_equal(take(MY_TYPE, &alice, SHORT_MS), OUTCOME_YES);
  assert_int_equal(take(MY_TYPE, &bob, LONG_MS), OUTCOME_NO);
  fixture_wait_expired(MY_TYPE, 0);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_YES);
  assert_true(view.stealable);
  assert_true(view.left_ms <= 0);
  assert_int_equal(take(MY_TYPE, &bob, LONG_MS), OUTCOME_NO);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &bob, &error), OUTCOME_NO);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_YES);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_NO);
  assert_int_equal(take(MY_TYPE, &bob, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_NO);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_NO);
}

TEST(live_lock_is_not_stolen)
{
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_NO);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_YES);
}

TEST(lock_of_a_jumped_clock_is_stolen)
{
  struct lock_view view;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  fixture_jump(MY_TYPE, 0);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_YES);
  assert_true(view.left_ms > 2 * LONG_MS);
  assert_true(view.stealable);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_YES);
}

TEST(renewal_gives_a_full_lease)
{
  struct lock_view view;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS / 2), OUTCOME_YES);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &bob, LONG_MS, &error), OUTCOME_NO);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_YES);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_YES);
  assert_uint_in_range(view.left_ms, LONG_MS * 3 / 4, LONG_MS);
  assert_int_equal(view.ttl_ms, LONG_MS);
  assert_string_equal(view.holder.host, "$host");
}

/* One request for all renewals; each has an outcome of its own. */
TEST(several_are_renewed_at_once)
{
  enum { RENEWALS = 5 };
  static const enum outcome expected[RENEWALS] = {OUTCOME_YES, OUTCOME_NO, OUTCOME_NO, OUTCOME_YES, OUTCOME_NO};
  struct lock_renewal renewals[RENEWALS] = {
      {.type = "several-mine", .slot = 0, .owner = alice, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN},
      {.type = "several-expired", .slot = 0, .owner = alice, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN},
      {.type = "several-another", .slot = 0, .owner = alice, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN},
      {.type = "several-mine", .slot = 1, .owner = bob, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN},
      {.type = "several-none", .slot = 0, .owner = alice, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN}};
  struct lock_view view;
  assert_int_equal(take("several-mine", &alice, LONG_MS / 2), OUTCOME_YES);
  assert_int_equal(lock_take(store, "several-mine", 1, &bob, LONG_MS / 2, &someone, &error), OUTCOME_YES);
  assert_int_equal(take("several-another", &bob, LONG_MS / 2), OUTCOME_YES);
  assert_int_equal(take("several-expired", &alice, SHORT_MS), OUTCOME_YES);
  fixture_wait_expired("several-expired", 0);
  assert_int_equal(lock_renew_all(store, renewals, RENEWALS, &error), OUTCOME_YES);
  for (int i = 0; i < RENEWALS; i++)
    assert_int_equal(renewals[i].outcome, expected[i]);
  for (int slot = 0; slot < 2; slot++) {
    assert_int_equal(lock_read(store, "several-mine", slot, &view, &error), OUTCOME_YES);
    assert_uint_in_range(view.left_ms, LONG_MS * 3 / 4, LONG_MS);
  }
  assert_int_equal(lock_read(store, "several-another", 0, &view, &error), OUTCOME_YES);
  assert_uint_in_range(view.left_ms, 1, LONG_MS / 2);
}

/* Each command reads its own locks, and a lock is identified by type and slot. */
TEST(more_than_a_command_takes_are_renewed)
{
  enum { RENEWALS = 1001 };
  static struct lock_renewal renewals[RENEWALS];
  for (int i = 0; i < RENEWALS; i++)
    renewals[i] = (struct lock_renewal){.type = "many", .slot = i, .owner = alice, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN};
  assert_int_equal(lock_take(store, "many", RENEWALS - 1, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_renew_all(store, renewals, RENEWALS, &error), OUTCOME_YES);
  for (int i = 0; i < RENEWALS; i++)
    assert_int_equal(renewals[i].outcome, i == RENEWALS - 1 ? OUTCOME_YES : OUTCOME_NO);
}

TEST(expired_lock_is_not_renewed)
{
  assert_int_equal(take(MY_TYPE, &alice, SHORT_MS), OUTCOME_YES);
  fixture_wait_expired(MY_TYPE, 0);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_NO);
}

TEST(release_is_mine_and_once)
{
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_delete(store, MY_TYPE, 0, &bob, &error), OUTCOME_NO);
  assert_int_equal(lock_delete(store, MY_TYPE, 1, &alice, &error), OUTCOME_NO);
  assert_int_equal(lock_delete(store, MY_TYPE, 0, &alice, &error), OUTCOME_YES);
  assert_int_equal(lock_delete(store, MY_TYPE, 0, &alice, &error), OUTCOME_NO);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_NO);
}

enum { RACERS = 8, ROUNDS = 10 };

struct racer {
  char type[32];
  pthread_barrier_t *start;
  struct owner owner;
  enum outcome outcome;
};

static void *race(void *argument)
{
  struct racer *racer = argument;
  struct error mine;
  pthread_barrier_wait(racer->start);
  racer->outcome = lock_take(store, racer->type, 0, &racer->owner, LONG_MS, &someone, &mine);
  return NULL;
}

TEST(one_of_many_wins)
{
  for (int round = 0; round < ROUNDS; round++) {
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    pthread_barrier_t start;
    int winners = 0, losers = 0;
    pthread_barrier_init(&start, NULL, RACERS);
    for (int i = 0; i < RACERS; i++) {
      racers[i] = (struct racer){.start = &start, .owner.bytes = {(uint8_t)(i + 1)}};
      snprintf(racers[i].type, sizeof racers[i].type, "race-%d", round);
      assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
    }
    for (int i = 0; i < RACERS; i++) {
      pthread_join(threads[i], NULL);
      winners += racers[i].outcome == OUTCOME_YES;
      losers += racers[i].outcome == OUTCOME_NO;
    }
    pthread_barrier_destroy(&start);
    assert_int_equal(winners, 1);
    assert_int_equal(losers, RACERS - 1);
  }
}

struct seen {
  int lists_a, lists_b, problems, disorders;
  char last[TYPE_BYTES_MAX + 1];
};

static void see(struct seen *seen, const char *type, const char *problem)
{
  seen->lists_a += strcmp(type, "list-a") == 0;
  seen->lists_b += strcmp(type, "list-b") == 0;
  seen->problems += problem != NULL;
  seen->disorders += strcmp(type, seen->last) < 0;
  snprintf(seen->last, sizeof seen->last, "%s", type);
}

static void see_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  if (strcmp(type, "list-b") == 0)
    assert_true(slot == 3 && view->holder.pid == 42);
  see(context, type, problem);
}

static void see_ledger(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  if (strcmp(type, "list-b") == 0)
    assert_int_equal(ledger->epoch, 1);
  see(context, type, problem);
}

TEST(lists_are_whole_and_in_order)
{
  struct ledger before;
  struct seen locks = {0}, ledgers = {0};
  assert_int_equal(lock_take(store, "list-b", 3, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_take(store, "list-a", 0, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_take(store, "list-a", 1, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "list-b", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "list-a", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  fixture_put_newer("list-c");
  struct waiter waiter = {.owner = bob, .at_ms = 1, .ttl_ms = WAITER_TTL_MS};
  assert_int_equal(wait_queue_join(store, "list-a", &waiter, &someone, NULL, &error), OUTCOME_YES); /* not a lock */
  assert_int_equal(lock_list(store, NULL, see_lock, &locks, &error), OUTCOME_YES);
  assert_int_equal(ledger_list(store, NULL, see_ledger, &ledgers, &error), OUTCOME_YES);
  assert_int_equal(locks.lists_a, 2);
  assert_int_equal(locks.lists_b, 1);
  assert_int_equal(locks.problems, 0);
  assert_int_equal(locks.disorders, 0);
  assert_int_equal(ledgers.lists_a, 1);
  assert_int_equal(ledgers.lists_b, 1);
  assert_true(ledgers.problems >= 1);
  assert_int_equal(ledgers.disorders, 0);
}

static void looks_in(struct acquisition *far, int64_t least_ms, int64_t most_ms)
{
  assert_int_equal(acquire_look(store, "far", far, &someone, &error), OUTCOME_NO);
  assert_false(far->near);
  assert_uint_in_range(far->pause_ms, least_ms, most_ms);
}

/* Nobody wakes it: it comes back before the queue has passed it. */
TEST(one_far_from_the_front_looks_at_the_queues_pace)
{
  enum { PLACE = 20 };
  static struct wait_queue queue;
  struct acquisition far;
  struct lock_view view;
  acquire_init(&far, LOCK_BY_WORKER, LONG_MS, 3600000);
  assert_int_equal(take("far", &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(wait_queue_read(store, "far", 0, &view, &queue, &error), OUTCOME_YES);
  for (int i = 0; i < PLACE; i++) {
    const struct waiter waiter = {.owner = {.bytes = {0xff, (uint8_t)i}}, .at_ms = queue.now_ms, .ttl_ms = WAITER_TTL_MS};
    assert_int_equal(wait_queue_join(store, "far", &waiter, &someone, NULL, &error), OUTCOME_YES);
  }
  looks_in(&far, (PLACE - 8) * 2 / 2, (PLACE - 8) * 2);
  far.seen_ms -= 2000; /* in which it did not move */
  looks_in(&far, 500, 1000);
  for (int64_t pace_ms = 2; pace_ms < 32; pace_ms *= 2) { /* it moves, but slowly */
    far.seen_place += 2;
    far.seen_ms -= 1000;
    looks_in(&far, (PLACE - 8) * pace_ms, (PLACE - 8) * 2 * pace_ms);
  }
  far.seen_place += 20000; /* and fast, however slow the machine */
  looks_in(&far, (PLACE - 8) * 2 / 2, (PLACE - 8) * 2);
  far.seen_ms += 3600000; /* the server's clock was set back */
  looks_in(&far, (PLACE - 8) * 2 / 2, (PLACE - 8) * 2);
  assert_int_equal(lock_delete(store, "far", 0, &alice, &error), OUTCOME_YES);
}
