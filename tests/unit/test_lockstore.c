/* The suite that the real lockstore and its twin must both pass. */
#include "test_lockstore.h"
#include "cmocka_range.h"
#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"

#include <pthread.h>

#define MY_TYPE __func__ /* each test has a type of its own */
#define LONG_MS 60000
#define SHORT_MS 200

static struct lockstore *store;
static struct error error;

static const struct owner alice = {"alice"}, bob = {"bob"};
static const struct lock_holder someone = {.host = "$host", .boot = "boot-1", .program = "pawl-worker", .pid = 42, .started_wall_ms = 1700};

static enum outcome take(const char *type, const struct owner *owner, int64_t ttl_ms)
{
  return lock_take(store, type, 0, owner, ttl_ms, &someone, &error);
}

/* ---- mutex ---- */

static void insert_decides(void **state)
{
  (void)state;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(take(MY_TYPE, &bob, LONG_MS), OUTCOME_NO);
  assert_int_equal(lock_take(store, MY_TYPE, 1, &bob, LONG_MS, &someone, &error), OUTCOME_YES);
}

static void my_own_nonce_is_mine_again(void **state)
{
  (void)state;
  struct lock_view view;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_delete(store, MY_TYPE, 0, &alice, &error), OUTCOME_YES);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_NO);
}

static void read_tells_who_holds_it(void **state)
{
  (void)state;
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

static void expired_lock_is_stolen_once(void **state)
{
  (void)state;
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

static void live_lock_is_not_stolen(void **state)
{
  (void)state;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_NO);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_YES);
}

static void lock_of_a_jumped_clock_is_stolen(void **state)
{
  (void)state;
  struct lock_view view;
  assert_int_equal(take(MY_TYPE, &alice, LONG_MS), OUTCOME_YES);
  fixture_jump(MY_TYPE, 0);
  assert_int_equal(lock_read(store, MY_TYPE, 0, &view, &error), OUTCOME_YES);
  assert_true(view.left_ms > 2 * LONG_MS);
  assert_true(view.stealable);
  assert_int_equal(lock_steal(store, MY_TYPE, 0, &alice, &error), OUTCOME_YES);
}

static void renewal_gives_a_full_lease(void **state)
{
  (void)state;
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
static void several_are_renewed_at_once(void **state)
{
  (void)state;
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
static void more_than_a_command_takes_are_renewed(void **state)
{
  (void)state;
  enum { RENEWALS = 1001 };
  static struct lock_renewal renewals[RENEWALS];
  for (int i = 0; i < RENEWALS; i++)
    renewals[i] = (struct lock_renewal){.type = "many", .slot = i, .owner = alice, .ttl_ms = LONG_MS, .outcome = OUTCOME_UNKNOWN};
  assert_int_equal(lock_take(store, "many", RENEWALS - 1, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_renew_all(store, renewals, RENEWALS, &error), OUTCOME_YES);
  for (int i = 0; i < RENEWALS; i++)
    assert_int_equal(renewals[i].outcome, i == RENEWALS - 1 ? OUTCOME_YES : OUTCOME_NO);
}

static void expired_lock_is_not_renewed(void **state)
{
  (void)state;
  assert_int_equal(take(MY_TYPE, &alice, SHORT_MS), OUTCOME_YES);
  fixture_wait_expired(MY_TYPE, 0);
  assert_int_equal(lock_renew(store, MY_TYPE, 0, &alice, LONG_MS, &error), OUTCOME_NO);
}

static void release_is_mine_and_once(void **state)
{
  (void)state;
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

static void one_of_many_wins(void **state)
{
  (void)state;
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

/* ---- ledger: fence ---- */

static void fence_from_nothing(void **state)
{
  (void)state;
  struct ledger ledger, before;
  assert_int_equal(ledger_read(store, MY_TYPE, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger.epoch, 0);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(before.epoch, 0);
  assert_false(before.clean);
  assert_int_equal(ledger_read(store, MY_TYPE, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger.v, 1);
  assert_int_equal(ledger.epoch, 1);
  assert_true(ledger.has_owner);
  assert_memory_equal(&ledger.owner, &alice, sizeof alice);
  assert_false(ledger.clean);
  struct committed nothing = {0};
  assert_memory_equal(&ledger.end, &nothing, sizeof nothing);
  assert_int_equal(ledger.settled, 0);
  assert_string_equal(ledger.machine, "");
}

static void one_fence_an_epoch(void **state)
{
  (void)state;
  struct ledger before;
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &bob, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(before.epoch, 1);
  assert_memory_equal(&before.owner, &alice, sizeof alice);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
}

/* A wake-up may give any number as the epoch. */
static void no_epoch_follows_on_the_last(void **state)
{
  (void)state;
  static const int64_t epochs[] = {LEDGER_EPOCH_MAX + 1, INT64_MAX, -1, INT64_MIN};
  struct ledger before;
  for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++)
    assert_int_equal(ledger_fence(store, MY_TYPE, epochs[i], &alice, FENCER_LOCAL, &before, &error), OUTCOME_REFUSED);
  assert_non_null(strstr(error.text, "2^59"));
  assert_int_equal(ledger_fence(store, MY_TYPE, LEDGER_EPOCH_MAX, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
}

static enum outcome fence_again(const char *type, int64_t epoch_seen, bool clean_seen, const struct owner *owner, struct ledger *before)
{
  const struct ledger seen = {.epoch = epoch_seen, .clean = clean_seen};
  return ledger_fence_again(store, type, &seen, owner, FENCER_LOCAL, before, &error);
}

/* ---- ledger: commit ---- */

static struct committed end_at(const char *type, int64_t seq)
{
  struct committed end = {.uuid = "0123456789abcde", .length = 4096 + 100 * seq, .tail = seq ? 4096 + 100 * (seq - 1) : 0};
  snprintf(end.file, sizeof end.file, "%s.bin", type);
  end.link = 0xfedcba9800000000u + (uint64_t)seq; /* negative as an int64 */
  end.seq = seq;
  end.items = 2 * seq;
  return end;
}

static struct ledger_commit commit_of(const char *type, int64_t epoch, const struct owner *owner, int64_t from, int64_t to)
{
  struct ledger_commit commit = {.epoch = epoch, .owner = *owner, .before = end_at(type, from), .after = end_at(type, to)};
  return commit;
}

/* A type for which alice, as epoch 1, has committed a new segment. */
static void begin_file(const char *type)
{
  struct ledger before;
  struct ledger_commit commit = commit_of(type, 1, &alice, 0, 0);
  commit.before = (struct committed){0};
  commit.machine = "machine-1";
  assert_int_equal(ledger_fence(store, type, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_YES);
}

static struct ledger read_ledger(const char *type)
{
  struct ledger ledger;
  assert_int_equal(ledger_read(store, type, &ledger, &error), OUTCOME_YES);
  return ledger;
}

static void commit_moves_the_end(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.settled = 3;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_memory_equal(&ledger.end, &commit.after, sizeof ledger.end);
  assert_int_equal(ledger.settled, 3);
  assert_string_equal(ledger.machine, "machine-1");
  assert_false(ledger.clean);
}

/* The fence was done, and the answer was lost: YES, with the ledger as it was before. `clean` is known only from an earlier read. */
static void unknown_fence_that_was_done(void **state)
{
  (void)state;
  struct ledger before, ledger;
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(fence_again(MY_TYPE, 0, false, &alice, &before), OUTCOME_YES);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(fence_again(MY_TYPE, 0, false, &bob, &before), OUTCOME_NO);
  begin_file("done");
  struct ledger_commit commit = commit_of("done", 1, &alice, 0, 10);
  commit.settled = 3;
  assert_int_equal(ledger_commit(store, "done", &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "done", 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  for (int clean = 0; clean < 2; clean++) {
    assert_int_equal(fence_again("done", 1, clean, &bob, &ledger), OUTCOME_YES);
    assert_int_equal(ledger.epoch, 1);
    assert_true(ledger.clean == (clean == 1));
    assert_memory_equal(&ledger.end, &commit.after, sizeof ledger.end);
    assert_int_equal(ledger.settled, 3);
    assert_string_equal(ledger.machine, "machine-1");
  }
  assert_int_equal(read_ledger("done").epoch, 2);
}

/*
 * The fence was not done: the same request again. It takes over nothing that changed meanwhile; a ledger older than the one
 * seen is read again.
 */
static void unknown_fence_that_was_not_done(void **state)
{
  (void)state;
  struct ledger before;
  assert_int_equal(fence_again(MY_TYPE, 0, false, &alice, &before), OUTCOME_YES);
  assert_int_equal(before.epoch, 0);
  begin_file("open");
  struct ledger_commit same = commit_of("open", 1, &alice, 0, 0);
  same.set_clean = same.clean = true;
  assert_int_equal(ledger_commit(store, "open", &same, &error), OUTCOME_YES);
  assert_int_equal(fence_again("open", 2, true, &bob, &before), OUTCOME_UNKNOWN);
  assert_int_equal(fence_again("open", 1, false, &bob, &before), OUTCOME_YES);
  assert_true(before.clean && before.epoch == 1);
  assert_int_equal(fence_again("open", 1, true, &alice, &before), OUTCOME_NO);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(ledger_fence(store, "open", 2, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(fence_again("open", 1, true, &bob, &before), OUTCOME_NO);
}

static void unknown_commit_is_judged(void **state)
{
  (void)state;
  struct ledger before;
  begin_file(MY_TYPE);
  struct ledger_commit first = commit_of(MY_TYPE, 1, &alice, 0, 10), second = commit_of(MY_TYPE, 1, &alice, 10, 20);
  struct ledger_commit early = commit_of(MY_TYPE, 2, &alice, 0, 10), foreign = commit_of(MY_TYPE, 1, &bob, 0, 10);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &early, &error), OUTCOME_UNKNOWN);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &foreign, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &second, &error), OUTCOME_NO); /* a third link */
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &first, &error), OUTCOME_YES); /* the repetition sends it now */
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 10);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &first, &error), OUTCOME_YES);    /* it was done before */
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &foreign, &error), OUTCOME_NO);   /* done by another owner */
  struct ledger_commit settled = commit_of(MY_TYPE, 1, &alice, 10, 10), clean = settled; /* the end does not move */
  settled.settled = clean.settled = 7;
  clean.set_clean = clean.clean = true;
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &settled, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(ledger_commit_again(store, MY_TYPE, &clean, &error), OUTCOME_YES);
    assert_true(read_ledger(MY_TYPE).clean);
  }
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &clean, &error), OUTCOME_NO);
}

static void repeated_commit_is_yes(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 10);
}

static void late_commit_changes_nothing(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit first = commit_of(MY_TYPE, 1, &alice, 0, 10), second = commit_of(MY_TYPE, 1, &alice, 10, 20);
  struct ledger_commit third = commit_of(MY_TYPE, 1, &alice, 20, 30);
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &third, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, MY_TYPE, &second, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 20);
}

static void first_commit_late_changes_nothing(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit file = commit_of(MY_TYPE, 1, &alice, 0, 0), block = commit_of(MY_TYPE, 1, &alice, 0, 10);
  file.before = (struct committed){0};
  assert_int_equal(ledger_commit(store, MY_TYPE, &file, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &block, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &file, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 10);
}

static void commit_needs_epoch_owner_and_link(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit other = commit_of(MY_TYPE, 1, &bob, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  other = commit_of(MY_TYPE, 2, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  other = commit_of(MY_TYPE, 1, &alice, 5, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, "no-such-type", &other, &error), OUTCOME_NO);
  struct ledger before;
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  other = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 0);
}

static void fence_keeps_the_end(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.settled = 10;
  commit.set_clean = commit.clean = true;
  commit.machine = "machine-2";
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  struct ledger before, after;
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_memory_equal(&before.end, &commit.after, sizeof before.end);
  assert_true(before.clean);
  assert_int_equal(before.settled, 10);
  after = read_ledger(MY_TYPE);
  assert_memory_equal(&after.end, &commit.after, sizeof after.end);
  assert_false(after.clean);
  assert_int_equal(after.settled, 10);
  assert_string_equal(after.machine, "machine-2");
}

static void clean_is_set_and_put_back(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit same = commit_of(MY_TYPE, 1, &alice, 0, 0);
  same.set_clean = same.clean = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &same, &error), OUTCOME_YES);
  assert_true(read_ledger(MY_TYPE).clean);
  same.set_clean = false, same.clean = false;
  assert_int_equal(ledger_commit(store, MY_TYPE, &same, &error), OUTCOME_YES);
  assert_true(read_ledger(MY_TYPE).clean);
  same.set_clean = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &same, &error), OUTCOME_YES);
  assert_false(read_ledger(MY_TYPE).clean);
  assert_string_equal(read_ledger(MY_TYPE).machine, "machine-1");
}

static void clean_without_a_file(void **state)
{
  (void)state;
  struct ledger before, ledger;
  struct ledger_commit commit = {.epoch = 1, .owner = alice, .set_clean = true, .clean = true};
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  ledger = read_ledger(MY_TYPE);
  assert_true(ledger.clean);
  assert_string_equal(ledger.end.file, "");
}

static void settled_never_lowers(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 7, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 4, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  commit.settled = 5;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &bob, 9, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 2, &alice, 9, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
}

static void put_only_over_what_was_seen(void **state)
{
  (void)state;
  const struct ledger none = {0};
  struct ledger ledger = {.v = 1, .epoch = 5, .has_owner = true, .owner = bob, .end = commit_of(MY_TYPE, 1, &bob, 0, 10).after};
  begin_file(MY_TYPE);
  struct ledger seen = read_ledger(MY_TYPE);
  assert_int_equal(ledger_put(store, MY_TYPE, &none, NULL, &ledger, &error), OUTCOME_NO);
  struct ledger_commit closed = commit_of(MY_TYPE, 1, &alice, 0, 0); /* a block without messages, in the epoch that was seen */
  closed.after.link++;
  assert_int_equal(ledger_commit(store, MY_TYPE, &closed, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  seen = read_ledger(MY_TYPE);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 1);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 5);
  ledger.epoch = 6;
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 5);
}

/* ---- ledger: guarded ---- */

/* Each fence, on each end that it may find. */
static void fence_vouches_for_the_end(void **state)
{
  (void)state;
  static const struct {
    enum fencer fencer;
    bool clean, vouched; /* before the fence */
    bool clean_after, vouched_after;
  } table[] = {
      {FENCER_LOCAL, false, false, false, false},   {FENCER_LOCAL, false, true, false, true},
      {FENCER_LOCAL, true, false, false, true},     {FENCER_LOCAL, true, true, false, true},
      {FENCER_NETWORK, false, false, false, false}, {FENCER_NETWORK, false, true, false, false},
      {FENCER_NETWORK, true, false, false, false},  {FENCER_NETWORK, true, true, false, false},
      {FENCER_READER, false, false, false, false},  {FENCER_READER, false, true, false, true},
      {FENCER_READER, true, false, true, false},    {FENCER_READER, true, true, true, true},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char type[32];
    struct ledger before;
    snprintf(type, sizeof type, "vouched-%zu", i);
    begin_file(type);
    struct ledger_commit commit = commit_of(type, 1, &alice, 0, 10);
    commit.set_clean = true;
    commit.clean = table[i].clean;
    commit.guarded = table[i].vouched;
    assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_YES);
    assert_int_equal(read_ledger(type).guarded, table[i].vouched ? 1 : 0);
    assert_int_equal(ledger_fence(store, type, 1, &bob, table[i].fencer, &before, &error), OUTCOME_YES);
    assert_true(before.clean == table[i].clean && ledger_vouched(&before) == table[i].vouched);
    struct ledger after = read_ledger(type);
    assert_int_equal(after.epoch, 2);
    assert_int_equal(after.guarded, table[i].vouched_after ? 2 : 0);
    assert_int_equal(after.clean, table[i].clean_after);
    assert_memory_equal(&after.end, &commit.after, sizeof after.end);
  }
}

/* What a fence without an answer found, by the ledger now and by what was seen before. */
static void judged_fence_knows_what_was_vouched_for(void **state)
{
  (void)state;
  static const struct {
    enum fencer fencer;
    bool clean, vouched; /* before the fence, and as seen */
    bool clean_judged, vouched_judged;
  } table[] = {
      {FENCER_LOCAL, false, false, false, false}, {FENCER_LOCAL, false, true, false, true},     {FENCER_LOCAL, true, false, true, false},
      {FENCER_LOCAL, true, true, true, true},     {FENCER_NETWORK, false, false, false, false}, {FENCER_NETWORK, false, true, false, true},
      {FENCER_NETWORK, true, false, true, false}, {FENCER_NETWORK, true, true, true, true},     {FENCER_READER, true, false, true, false},
      {FENCER_READER, true, true, true, true},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char type[32];
    struct ledger before, judged;
    snprintf(type, sizeof type, "judged-%zu", i);
    begin_file(type);
    struct ledger_commit commit = commit_of(type, 1, &alice, 0, 10);
    commit.set_clean = true;
    commit.clean = table[i].clean;
    commit.guarded = table[i].vouched;
    assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_YES);
    struct ledger seen = read_ledger(type);
    assert_int_equal(ledger_fence(store, type, 1, &bob, table[i].fencer, &before, &error), OUTCOME_YES);
    assert_int_equal(ledger_fence_again(store, type, &seen, &bob, table[i].fencer, &judged, &error), OUTCOME_YES);
    assert_int_equal(judged.epoch, 1);
    assert_int_equal(judged.clean, table[i].clean_judged);
    assert_int_equal(ledger_vouched(&judged), table[i].vouched_judged);
  }
}

/* The holder committed after the ledger was seen: the local fence vouches for that end, and reports so. */
static void judged_fence_takes_what_was_committed_since(void **state)
{
  (void)state;
  struct ledger before, judged;
  begin_file(MY_TYPE);
  struct ledger seen = read_ledger(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &seen, &bob, FENCER_LOCAL, &judged, &error), OUTCOME_YES);
  assert_true(ledger_vouched(&judged));
}

/* A clean end that came since may have been written over the network: local or not, the next writer begins a new page. */
static void judged_fence_does_not_know_through_which_view(void **state)
{
  (void)state;
  struct ledger before, judged;
  begin_file(MY_TYPE);
  struct ledger seen = read_ledger(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.set_clean = commit.clean = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_string_equal(before.machine, "machine-1");
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &seen, &bob, FENCER_LOCAL, &judged, &error), OUTCOME_YES);
  assert_true(ledger_vouched(&judged));
  assert_string_equal(judged.machine, "");
}

/*
 * An older pawl's fence raises the epoch and leaves the number in `guarded`: that number then belongs to another epoch, and no
 * fence takes it up again.
 */
static void what_an_older_pawl_leaves_vouches_for_nothing(void **state)
{
  (void)state;
  static const enum fencer fencers[] = {FENCER_LOCAL, FENCER_NETWORK, FENCER_READER};
  for (size_t i = 0; i < sizeof fencers / sizeof *fencers; i++) {
    char type[32];
    struct ledger before;
    snprintf(type, sizeof type, "older-%zu", i);
    begin_file(type);
    struct ledger_commit commit = commit_of(type, 1, &alice, 0, 10);
    commit.guarded = true;
    assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_YES);
    fixture_fence_older(type);
    assert_int_equal(ledger_fence(store, type, 2, &bob, fencers[i], &before, &error), OUTCOME_YES);
    assert_int_equal(before.guarded, 1);
    assert_false(ledger_vouched(&before));
    assert_int_equal(read_ledger(type).guarded, 0);
  }
}

static void commit_without_the_guard_leaves_it(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit first = commit_of(MY_TYPE, 1, &alice, 0, 10), second = commit_of(MY_TYPE, 1, &alice, 10, 20);
  first.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &second, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 7, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).guarded, 1);
}

static void put_vouches_for_nothing(void **state)
{
  (void)state;
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  struct ledger seen = read_ledger(MY_TYPE), adopted = seen;
  adopted.epoch = adopted.guarded = 5;
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &adopted, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).guarded, 0);
}

static void ledger_without_file_is_forgotten(void **state)
{
  (void)state;
  struct ledger ledger;
  assert_int_equal(ledger_forget(store, "forgotten", 1, &alice, &error), OUTCOME_NO); /* no ledger */
  assert_int_equal(ledger_fence(store, "forgotten", 0, &alice, FENCER_READER, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_forget(store, "forgotten", 2, &alice, &error), OUTCOME_NO);
  assert_int_equal(ledger_forget(store, "forgotten", 1, &bob, &error), OUTCOME_NO);
  assert_int_equal(read_ledger("forgotten").epoch, 1);
  assert_int_equal(ledger_forget(store, "forgotten", 1, &alice, &error), OUTCOME_YES);
  assert_int_equal(ledger_read(store, "forgotten", &ledger, &error), OUTCOME_NO);
  /* What an earlier holder still sends matches nothing, even after the epochs begin anew. */
  assert_int_equal(ledger_fence(store, "forgotten", 1, &bob, FENCER_READER, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, "forgotten", 1, &alice, 0, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, "forgotten", 0, &bob, FENCER_READER, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, "forgotten", 1, &alice, 0, &error), OUTCOME_NO);
  begin_file("kept");
  assert_int_equal(ledger_forget(store, "kept", 1, &alice, &error), OUTCOME_NO); /* a segment without a block */
  struct ledger_commit commit = commit_of("kept", 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, "kept", &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_forget(store, "kept", 1, &alice, &error), OUTCOME_NO);
  assert_int_equal(read_ledger("kept").end.seq, 10);
}

/* What the ledger shows after a lost answer. */
static void forgetting_is_judged(void **state)
{
  (void)state;
  struct ledger ledger;
  assert_int_equal(ledger_fence(store, "given-up", 0, &alice, FENCER_READER, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_forget_again(store, "given-up", 2, &alice, &error), OUTCOME_UNKNOWN); /* older than this holder's own fence */
  assert_int_equal(ledger_forget_again(store, "given-up", 1, &bob, &error), OUTCOME_NO);
  assert_int_equal(read_ledger("given-up").epoch, 1);
  assert_int_equal(ledger_forget_again(store, "given-up", 1, &alice, &error), OUTCOME_YES); /* the request had not arrived */
  assert_int_equal(ledger_read(store, "given-up", &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_forget_again(store, "given-up", 1, &alice, &error), OUTCOME_YES); /* the request had arrived */
  begin_file("held-on");
  assert_int_equal(ledger_forget_again(store, "held-on", 1, &alice, &error), OUTCOME_NO); /* the ledger names a file */
  assert_int_equal(ledger_fence(store, "held-on", 1, &bob, FENCER_LOCAL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_forget_again(store, "held-on", 1, &alice, &error), OUTCOME_NO);
  assert_int_equal(read_ledger("held-on").epoch, 2);
}

/* A late copy of the adoption, and an adoption that began before the document changed: they change nothing. */
static void malformed_is_replaced_once(void **state)
{
  (void)state;
  struct ledger before, ledger = {.v = 1, .epoch = 9, .has_owner = true, .owner = bob, .end = commit_of(MY_TYPE, 1, &bob, 0, 10).after};
  struct ledger_found *found = NULL;
  fixture_put_malformed(MY_TYPE);
  assert_int_equal(ledger_read_found(store, MY_TYPE, &before, &found, &error), OUTCOME_REFUSED);
  assert_non_null(found);
  assert_int_equal(ledger_put(store, MY_TYPE, &before, found, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 9, &bob, 7, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &before, found, &ledger, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  ledger_found_free(found);
  assert_int_equal(ledger_read_found(store, MY_TYPE, &before, &found, &error), OUTCOME_YES);
  assert_null(found);
}

static void newer_ledger_is_refused(void **state)
{
  (void)state;
  struct ledger ledger;
  struct ledger_commit commit = {.epoch = 5, .owner = alice};
  fixture_put_v2(MY_TYPE);
  assert_int_equal(ledger_read(store, MY_TYPE, &ledger, &error), OUTCOME_REFUSED);
  assert_int_equal(ledger.v, 2);
  assert_non_null(strstr(error.text, "a newer pawl"));
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 5, &alice, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 5, &alice, 0, &error), OUTCOME_NO);
}

/* A newer pawl has taken over the ledger: whatever this pawl still sends names v 1, and matches nothing. */
static void newer_ledger_is_left_alone(void **state)
{
  (void)state;
  struct ledger seen, ledger;
  begin_file(MY_TYPE);
  seen = ledger = read_ledger(MY_TYPE);
  ledger.epoch++;
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  fixture_raise_v(MY_TYPE);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 0, &error), OUTCOME_NO);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, "newer-lock", 0, &alice, FENCER_READER, &ledger, &error), OUTCOME_YES);
  fixture_raise_v("newer-lock");
  assert_int_equal(ledger_forget(store, "newer-lock", 1, &alice, &error), OUTCOME_NO);
}

/* ---- lists ---- */

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

static void lists_are_whole_and_in_order(void **state)
{
  (void)state;
  struct ledger before;
  struct seen locks = {0}, ledgers = {0};
  assert_int_equal(lock_take(store, "list-b", 3, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_take(store, "list-a", 0, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_take(store, "list-a", 1, &alice, LONG_MS, &someone, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "list-b", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "list-a", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  fixture_put_v2("list-c");
  struct waiter waiter = {.owner = bob, .at_ms = 1, .ttl_ms = WAITER_TTL_MS};
  assert_int_equal(wait_queue_join(store, "list-a", &waiter, &someone, NULL, &error), OUTCOME_YES); /* not a lock */
  assert_int_equal(lock_list(store, see_lock, &locks, &error), OUTCOME_YES);
  assert_int_equal(ledger_list(store, see_ledger, &ledgers, &error), OUTCOME_YES);
  assert_int_equal(locks.lists_a, 2);
  assert_int_equal(locks.lists_b, 1);
  assert_int_equal(locks.problems, 0);
  assert_int_equal(locks.disorders, 0);
  assert_int_equal(ledgers.lists_a, 1);
  assert_int_equal(ledgers.lists_b, 1);
  assert_true(ledgers.problems >= 1);
  assert_int_equal(ledgers.disorders, 0);
}

/* ---- wake-ups, and waiting ---- */

struct neighbour { /* another process */
  struct lockstore *store;
  struct watcher *watcher;
  struct acquisition lock;
};

static struct neighbour neighbour_of(const char *type, enum lock_kind kind)
{
  struct neighbour neighbour = {.store = fixture_store_new()};
  neighbour.watcher = fixture_watcher(neighbour.store, type);
  acquire_init(&neighbour.lock, kind, LONG_MS, 100);
  neighbour.lock.listens = true;
  assert_int_equal(watcher_begin(neighbour.watcher, &error), OUTCOME_YES);
  return neighbour;
}

static struct neighbour neighbour_open(const char *type)
{
  return neighbour_of(type, LOCK_BY_WORKER);
}

static void neighbour_close(struct neighbour *neighbour)
{
  watcher_close(neighbour->watcher);
  lockstore_close(neighbour->store);
}

static struct wakeup expect_woken(struct neighbour *neighbour, const char *type, enum wakeup_about about)
{
  struct wakeup wakeup = {.epoch = -1};
  enum outcome outcome = OUTCOME_NO;
  for (int tries = 0; outcome == OUTCOME_NO && tries < 10; tries++)
    outcome = watcher_next(neighbour->watcher, 1000, &wakeup, &error);
  assert_int_equal(outcome, OUTCOME_YES);
  assert_string_equal(wakeup.type, type);
  assert_int_equal(wakeup.about, about);
  return wakeup;
}

static void expect_called(struct neighbour *neighbour, const char *type, int64_t epoch)
{
  struct wakeup wakeup = expect_woken(neighbour, type, WAKEUP_LOCK);
  assert_memory_equal(&wakeup.owner, &neighbour->lock.owner, sizeof wakeup.owner);
  assert_int_equal(wakeup.epoch, epoch);
}

static void expect_quiet(struct neighbour *neighbour)
{
  struct wakeup wakeup;
  assert_int_equal(watcher_next(neighbour->watcher, 100, &wakeup, &error), OUTCOME_NO);
}

static enum outcome look(struct neighbour *neighbour, const char *type)
{
  return acquire_look(neighbour->store, type, &neighbour->lock, &someone, &error);
}

static void expect_waiting(struct neighbour *neighbour, const char *type)
{
  assert_int_equal(look(neighbour, type), OUTCOME_NO);
  assert_true(neighbour->lock.queued);
  assert_uint_in_range(neighbour->lock.pause_ms, 1, LONG_MS + 1);
}

static void expect_takes(struct neighbour *neighbour, const char *type)
{
  assert_int_equal(look(neighbour, type), OUTCOME_YES);
  assert_int_equal(acquire_take(neighbour->store, type, &neighbour->lock, &someone, &error), OUTCOME_YES);
  assert_false(neighbour->lock.queued);
}

static void gives_back(struct neighbour *neighbour, const char *type, int64_t epoch)
{
  assert_int_equal(acquire_release(neighbour->store, type, &neighbour->lock, epoch, &error), OUTCOME_YES);
  acquire_init(&neighbour->lock, neighbour->lock.kind, LONG_MS, 100);
  neighbour->lock.listens = true;
}

static void wakeups_reach_those_they_are_for(void **state)
{
  (void)state;
  assert_int_equal(wakeup_send(store, MY_TYPE, WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES); /* sent before the watcher began: skipped */
  struct neighbour one = neighbour_open(MY_TYPE), two = neighbour_open(MY_TYPE), other = neighbour_open("another");
  acquire_draw(one.store, &one.lock);
  assert_int_equal(wakeup_send(store, MY_TYPE, WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
  assert_int_equal(wakeup_send(store, MY_TYPE, WAKEUP_LOST, &one.lock.owner, 0, &error), OUTCOME_YES);
  expect_woken(&one, MY_TYPE, WAKEUP_MESSAGE);
  struct wakeup lost = expect_woken(&one, MY_TYPE, WAKEUP_LOST);
  assert_memory_equal(&lost.owner, &one.lock.owner, sizeof lost.owner);
  expect_woken(&two, MY_TYPE, WAKEUP_MESSAGE);
  expect_quiet(&one);
  expect_quiet(&two);
  expect_quiet(&other);
  neighbour_close(&one);
  neighbour_close(&two);
  neighbour_close(&other);
}

static void waiters_are_woken_one_by_one(void **state)
{
  (void)state;
  const char *type = "one-by-one";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), two = neighbour_open(type), three = neighbour_open(type);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  expect_waiting(&two, type);
  expect_waiting(&three, type);
  expect_waiting(&one, type); /* again: it keeps its place */
  gives_back(&holder, type, 7);
  expect_called(&one, type, 7);
  expect_quiet(&two);
  /* The queue survives the release; who just held it does not push in; and whose turn it is not finds out. */
  expect_waiting(&holder, type);
  expect_waiting(&three, type);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  expect_called(&two, type, 0);
  expect_takes(&two, type);
  gives_back(&two, type, 0);
  expect_called(&three, type, 0);
  /* One that goes away hands it on. */
  assert_int_equal(acquire_leave(three.store, type, &three.lock, true, &error), OUTCOME_YES);
  expect_called(&holder, type, 0);
  expect_takes(&holder, type);
  gives_back(&holder, type, 0);
  /* Nothing is left of the queue: the next one takes it at once. */
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&two);
  neighbour_close(&three);
}

/* Workers and tools take turns, whatever the number of those that wait. */
static void both_kinds_have_their_turn(void **state)
{
  (void)state;
  const char *type = "turns";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), two = neighbour_open(type),
                   tool = neighbour_of(type, LOCK_BY_TOOL), another = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  expect_waiting(&two, type);
  struct lock_renewal renewal = {.type = type, .owner = holder.lock.owner, .ttl_ms = LONG_MS, .kind = LOCK_BY_WORKER};
  assert_int_equal(lock_renew_all(holder.store, &renewal, 1, &error), OUTCOME_YES);
  assert_false(renewal.awaited);
  expect_waiting(&tool, type);
  expect_waiting(&another, type);
  assert_int_equal(lock_renew_all(holder.store, &renewal, 1, &error), OUTCOME_YES);
  assert_true(renewal.awaited);
  gives_back(&holder, type, 0);
  expect_called(&tool, type, 0); /* before the workers, which came earlier */
  expect_takes(&tool, type);
  gives_back(&tool, type, 0);
  expect_called(&one, type, 0); /* before the other tool */
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  expect_called(&another, type, 0);
  expect_takes(&another, type);
  gives_back(&another, type, 0);
  expect_called(&two, type, 0);
  expect_takes(&two, type);
  gives_back(&two, type, 0);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&two);
  neighbour_close(&tool);
  neighbour_close(&another);
}

/* A try takes it only if nobody waits, and does not enter the queue. */
static void a_try_waits_for_nobody(void **state)
{
  (void)state;
  const char *type = "tries";
  struct neighbour holder = neighbour_open(type), waiter = neighbour_open(type), one = neighbour_of(type, LOCK_BY_TOOL);
  one.lock.tries = true;
  expect_takes(&holder, type);
  assert_int_equal(look(&one, type), OUTCOME_NO);
  assert_false(one.lock.queued);
  assert_true(one.lock.view.left_ms > 0);
  expect_waiting(&waiter, type);
  gives_back(&holder, type, 0);
  assert_int_equal(look(&one, type), OUTCOME_NO);
  expect_takes(&waiter, type);
  gives_back(&waiter, type, 0);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  neighbour_close(&holder);
  neighbour_close(&waiter);
  neighbour_close(&one);
}

static void theft_is_told_and_keeps_the_queue(void **state)
{
  (void)state;
  const char *type = "theft";
  struct neighbour holder = neighbour_open(type), thief = neighbour_open(type), waiter = neighbour_open(type);
  holder.lock.ttl_ms = SHORT_MS;
  expect_takes(&holder, type);
  expect_waiting(&thief, type);
  expect_waiting(&waiter, type);
  fixture_wait_expired(type, 0);
  expect_takes(&thief, type);
  expect_woken(&holder, type, WAKEUP_LOST);
  gives_back(&thief, type, 0);
  expect_called(&waiter, type, 0);
  expect_quiet(&thief);
  neighbour_close(&holder);
  neighbour_close(&thief);
  neighbour_close(&waiter);
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
static void who_enters_looks_again(void **state)
{
  (void)state;
  const char *type = "enters";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), tool = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  assert_int_equal(lock_delete(holder.store, type, 0, &holder.lock.owner, &error), OUTCOME_YES); /* it dies before it calls anybody */
  expect_takes(&tool, type);                                                                     /* after a worker */
  gives_back(&tool, type, 0);
  expect_called(&one, type, 0);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&tool);
}

/* Its answer was lost, or it arrived late. */
static void who_sees_its_own_take_has_it(void **state)
{
  (void)state;
  const char *type = "own-take";
  struct neighbour one = neighbour_open(type);
  acquire_draw(one.store, &one.lock);
  assert_int_equal(take(type, &one.lock.owner, LONG_MS), OUTCOME_YES);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  acquire_draw(one.store, &one.lock);
  assert_int_equal(take(type, &one.lock.owner, SHORT_MS), OUTCOME_YES);
  fixture_wait_expired(type, 0);
  assert_int_equal(look(&one, type), OUTCOME_YES);
  assert_false(one.lock.steal); /* it needs no theft */
  assert_int_equal(acquire_take(one.store, type, &one.lock, &someone, &error), OUTCOME_YES);
  gives_back(&one, type, 0);
  neighbour_close(&one);
}

/* A late mark would let the others pass over one who was not called. */
static void a_late_call_marks_nobody(void **state)
{
  (void)state;
  const char *type = "late-call";
  struct neighbour one = neighbour_open(type), two = neighbour_open(type), three = neighbour_open(type);
  struct wait_queue seen;
  assert_int_equal(join(type, &bob, 1), OUTCOME_YES); /* it has long expired; and who was the last holder is not known */
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  expect_waiting(&one, type);
  expect_waiting(&two, type);
  expect_waiting(&three, type);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES);
  seen = *seen_queue(type);
  assert_false(seen.has_last);
  expect_takes(&one, type);
  assert_int_equal(wait_queue_call(store, type, &two.lock.owner, &seen, &error), OUTCOME_NO);
  seen = *seen_queue(type);
  assert_memory_equal(&seen.last, &one.lock.owner, sizeof seen.last);
  gives_back(&one, type, 0);
  expect_takes(&two, type);
  assert_int_equal(wait_queue_call(store, type, &three.lock.owner, &seen, &error), OUTCOME_NO);
  gives_back(&two, type, 0);
  expect_takes(&three, type);
  gives_back(&three, type, 0);
  neighbour_close(&one);
  neighbour_close(&two);
  neighbour_close(&three);
}

/* Called, and it does not come: that costs a moment, once. */
static void a_dead_tool_costs_its_turn_once(void **state)
{
  (void)state;
  const char *type = "dead-tool";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), tool = neighbour_of(type, LOCK_BY_TOOL);
  one.lock.retry_ms = 20000;
  expect_takes(&holder, type);
  expect_waiting(&tool, type);
  expect_waiting(&one, type);
  gives_back(&holder, type, 0);
  expect_called(&tool, type, 0);
  expect_waiting(&one, type);
  assert_uint_in_range(one.lock.pause_ms, 1, CALL_MS + 201); /* not together with others */
  fixture_age_queue(type, 1000);
  expect_waiting(&one, type); /* and does not call it again: it would never end */
  fixture_age_queue(type, CALL_MS - 1000 + 1);
  expect_takes(&one, type);
  struct lock_renewal renewal = {.type = type, .owner = one.lock.owner, .ttl_ms = LONG_MS, .kind = LOCK_BY_WORKER};
  assert_int_equal(lock_renew_all(one.store, &renewal, 1, &error), OUTCOME_YES);
  assert_false(renewal.awaited);
  struct wait_queue *left = seen_queue(type);
  assert_true(left->count == 0 && left->has_last);
  assert_memory_equal(&left->last, &one.lock.owner, sizeof left->last);
  gives_back(&one, type, 0);
  left = seen_queue(type);
  assert_true(left->count == 0 && !left->has_last); /* the document is gone */
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&tool);
}

/* Woken, it takes the lock without another look. Nothing is left of a queue that is over. */
static void who_is_woken_may_take_at_once(void **state)
{
  (void)state;
  const char *type = "at-once";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), tool = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  expect_waiting(&tool, type);
  gives_back(&holder, type, 0);
  expect_called(&tool, type, 0);
  assert_int_equal(acquire_take(tool.store, type, &tool.lock, &someone, &error), OUTCOME_YES);
  struct wait_queue *left = seen_queue(type);
  assert_true(left->count == 1 && left->last_kind == LOCK_BY_TOOL);
  gives_back(&tool, type, 0);
  expect_called(&one, type, 0);
  assert_int_equal(acquire_take(one.store, type, &one.lock, &someone, &error), OUTCOME_YES);
  gives_back(&one, type, 0);
  left = seen_queue(type);
  assert_true(left->count == 0 && !left->has_last);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&tool);
}

/* Called, and another was faster: with its next look it is as if it had not been called. */
static void who_waits_on_is_not_passed_over(void **state)
{
  (void)state;
  const char *type = "waits-on";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), two = neighbour_open(type);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  expect_waiting(&two, type);
  gives_back(&holder, type, 0);
  expect_called(&one, type, 0);
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  expect_waiting(&one, type);
  fixture_age_queue(type, CALL_MS + 1);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES); /* it dies before it calls anybody */
  expect_waiting(&two, type);
  expect_called(&one, type, 0); /* by the one that saw it free */
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  expect_called(&two, type, 0);
  expect_takes(&two, type);
  gives_back(&two, type, 0);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&two);
}

static void an_entry_is_renewed_or_expires(void **state)
{
  (void)state;
  const char *type = "renewed";
  struct neighbour holder = neighbour_open(type), dead = neighbour_open(type), one = neighbour_open(type), two = neighbour_open(type);
  expect_takes(&holder, type);
  expect_waiting(&dead, type);
  expect_waiting(&one, type);
  fixture_age_queue(type, WAITER_RENEW_MS + 1);
  expect_waiting(&one, type);
  fixture_age_queue(type, WAITER_TTL_MS - WAITER_RENEW_MS);
  expect_waiting(&two, type);
  gives_back(&holder, type, 0);
  expect_called(&one, type, 0);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  expect_called(&two, type, 0);
  expect_takes(&two, type);
  gives_back(&two, type, 0);
  expect_quiet(&dead);
  neighbour_close(&holder);
  neighbour_close(&dead);
  neighbour_close(&one);
  neighbour_close(&two);
}

/* The server's clock was set back: an entry from before does not count, until its waiter looks again. */
static void an_entry_of_a_jumped_clock_is_renewed(void **state)
{
  (void)state;
  const char *type = "jumped";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), two = neighbour_open(type);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  expect_waiting(&two, type);
  fixture_age_queue(type, -WAITER_TTL_MS - 10000);
  expect_waiting(&two, type);
  gives_back(&holder, type, 0);
  expect_called(&two, type, 0);
  expect_takes(&two, type);
  gives_back(&two, type, 0);
  expect_quiet(&one);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&two);
}

/* It is woken by nobody then. */
static void who_waits_looks_at_the_end_of_the_lease(void **state)
{
  (void)state;
  const char *type = "lease-end";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type);
  holder.lock.ttl_ms = 5000;
  one.lock.retry_ms = 20000;
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  assert_uint_in_range(one.lock.pause_ms, 1, 5001);
  gives_back(&holder, type, 0);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  neighbour_close(&holder);
  neighbour_close(&one);
}

/* Only where the lock is free; and a worker without messages only a tool. */
static void who_leaves_hands_it_on(void **state)
{
  (void)state;
  const char *type = "leaves";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type), two = neighbour_open(type), three = neighbour_open(type),
                   tool = neighbour_of(type, LOCK_BY_TOOL);
  expect_takes(&holder, type);
  expect_waiting(&one, type);
  expect_waiting(&two, type);
  expect_waiting(&three, type);
  assert_int_equal(acquire_leave(one.store, type, &one.lock, true, &error), OUTCOME_YES);
  expect_quiet(&two);
  assert_int_equal(lock_delete(holder.store, type, 0, &holder.lock.owner, &error), OUTCOME_YES);
  assert_int_equal(acquire_leave(two.store, type, &two.lock, false, &error), OUTCOME_YES);
  expect_quiet(&three);
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  expect_waiting(&one, type);
  expect_waiting(&tool, type);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES);
  assert_int_equal(acquire_leave(three.store, type, &three.lock, false, &error), OUTCOME_YES);
  expect_called(&tool, type, 0);
  assert_int_equal(acquire_leave(tool.store, type, &tool.lock, true, &error), OUTCOME_YES);
  expect_called(&one, type, 0);
  expect_takes(&one, type);
  gives_back(&one, type, 0);
  neighbour_close(&holder);
  neighbour_close(&one);
  neighbour_close(&two);
  neighbour_close(&three);
  neighbour_close(&tool);
}

/* A late copy of the releaser's own entry is nobody who waits. */
static void who_releases_does_not_call_himself(void **state)
{
  (void)state;
  const char *type = "own-entry";
  struct neighbour holder = neighbour_open(type), one = neighbour_open(type);
  expect_takes(&holder, type);
  assert_int_equal(join(type, &holder.lock.owner, seen_queue(type)->now_ms), OUTCOME_YES);
  expect_waiting(&one, type);
  gives_back(&holder, type, 0);
  expect_called(&one, type, 0);
  expect_takes(&one, type);
  assert_int_equal(lock_delete(one.store, type, 0, &one.lock.owner, &error), OUTCOME_YES);
  neighbour_close(&holder);
  neighbour_close(&one);
}

static void the_queue_has_bounds(void **state)
{
  (void)state;
  const char *type = "bounds";
  struct neighbour near = neighbour_open(type), far = neighbour_open(type), late = neighbour_open(type);
  assert_int_equal(take(type, &alice, LONG_MS), OUTCOME_YES);
  int64_t now_ms = seen_queue(type)->now_ms;
  for (int i = 0; i < WAITERS_MAX; i++) {
    struct owner owner = {.bytes = {0xff, (uint8_t)i, (uint8_t)(i >> 8)}};
    if (i == 15)
      expect_waiting(&near, type);
    else if (i == 16)
      expect_waiting(&far, type);
    else
      assert_int_equal(join(type, &owner, now_ms), OUTCOME_YES);
    if (i == 0)
      assert_int_equal(join(type, &owner, now_ms), OUTCOME_NO); /* a late copy */
  }
  assert_int_equal(look(&late, type), OUTCOME_NO);
  assert_int_equal(seen_queue(type)->count, WAITERS_MAX);
  assert_false(late.lock.queued); /* it relies on its timer */
  assert_uint_in_range(late.lock.pause_ms, 500, 1000);
  assert_true(near.lock.near && !far.lock.near && !late.lock.near);
  assert_int_equal(join(type, &bob, now_ms), OUTCOME_NO);
  assert_int_equal(lock_delete(store, type, 0, &alice, &error), OUTCOME_YES);
  neighbour_close(&near);
  neighbour_close(&far);
  neighbour_close(&late);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(insert_decides),
      cmocka_unit_test(my_own_nonce_is_mine_again),
      cmocka_unit_test(read_tells_who_holds_it),
      cmocka_unit_test(expired_lock_is_stolen_once),
      cmocka_unit_test(live_lock_is_not_stolen),
      cmocka_unit_test(lock_of_a_jumped_clock_is_stolen),
      cmocka_unit_test(renewal_gives_a_full_lease),
      cmocka_unit_test(several_are_renewed_at_once),
      cmocka_unit_test(more_than_a_command_takes_are_renewed),
      cmocka_unit_test(expired_lock_is_not_renewed),
      cmocka_unit_test(release_is_mine_and_once),
      cmocka_unit_test(one_of_many_wins),
      cmocka_unit_test(fence_from_nothing),
      cmocka_unit_test(one_fence_an_epoch),
      cmocka_unit_test(no_epoch_follows_on_the_last),
      cmocka_unit_test(commit_moves_the_end),
      cmocka_unit_test(unknown_fence_that_was_done),
      cmocka_unit_test(unknown_fence_that_was_not_done),
      cmocka_unit_test(unknown_commit_is_judged),
      cmocka_unit_test(repeated_commit_is_yes),
      cmocka_unit_test(late_commit_changes_nothing),
      cmocka_unit_test(first_commit_late_changes_nothing),
      cmocka_unit_test(commit_needs_epoch_owner_and_link),
      cmocka_unit_test(fence_keeps_the_end),
      cmocka_unit_test(clean_is_set_and_put_back),
      cmocka_unit_test(clean_without_a_file),
      cmocka_unit_test(settled_never_lowers),
      cmocka_unit_test(put_only_over_what_was_seen),
      cmocka_unit_test(fence_vouches_for_the_end),
      cmocka_unit_test(judged_fence_knows_what_was_vouched_for),
      cmocka_unit_test(judged_fence_takes_what_was_committed_since),
      cmocka_unit_test(judged_fence_does_not_know_through_which_view),
      cmocka_unit_test(what_an_older_pawl_leaves_vouches_for_nothing),
      cmocka_unit_test(commit_without_the_guard_leaves_it),
      cmocka_unit_test(put_vouches_for_nothing),
      cmocka_unit_test(ledger_without_file_is_forgotten),
      cmocka_unit_test(forgetting_is_judged),
      cmocka_unit_test(malformed_is_replaced_once),
      cmocka_unit_test(newer_ledger_is_refused),
      cmocka_unit_test(newer_ledger_is_left_alone),
      cmocka_unit_test(lists_are_whole_and_in_order),
      cmocka_unit_test(wakeups_reach_those_they_are_for),
      cmocka_unit_test(waiters_are_woken_one_by_one),
      cmocka_unit_test(both_kinds_have_their_turn),
      cmocka_unit_test(a_try_waits_for_nobody),
      cmocka_unit_test(theft_is_told_and_keeps_the_queue),
      cmocka_unit_test(who_enters_looks_again),
      cmocka_unit_test(who_sees_its_own_take_has_it),
      cmocka_unit_test(a_late_call_marks_nobody),
      cmocka_unit_test(a_dead_tool_costs_its_turn_once),
      cmocka_unit_test(who_is_woken_may_take_at_once),
      cmocka_unit_test(who_waits_on_is_not_passed_over),
      cmocka_unit_test(an_entry_is_renewed_or_expires),
      cmocka_unit_test(an_entry_of_a_jumped_clock_is_renewed),
      cmocka_unit_test(who_waits_looks_at_the_end_of_the_lease),
      cmocka_unit_test(who_leaves_hands_it_on),
      cmocka_unit_test(who_releases_does_not_call_himself),
      cmocka_unit_test(the_queue_has_bounds),
  };
  if (!fixture_begin())
    return SKIPPED;
  store = fixture_store();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  fixture_end();
  return failed ? 1 : 0;
}
