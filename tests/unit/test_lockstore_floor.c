/* The first epoch of a name, and the end of its ledger: tokens never go back. */
#include "lockstore/ledger_requests.h"
#include "test_lockstore.h"

/* The next test finds no floor. */
static int fresh(void **state)
{
  (void)state;
  fixture_end();
  return fixture_begin() ? 0 : -1;
}

#define FLOOR_TEST(name) TEST_WITH(name, NULL, fresh)

static int64_t fence(const char *type, int64_t seen, const struct owner *owner)
{
  struct ledger before;
  assert_int_equal(ledger_fence(store, type, seen, owner, FENCER_READER, &before, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(type).epoch, before.epoch + 1);
  return before.epoch + 1;
}

static size_t forget(const char *type, int64_t epoch, int64_t birth)
{
  struct ledger_name name = {.epoch = epoch, .birth = birth};
  size_t removed;
  snprintf(name.type, sizeof name.type, "%s", type);
  assert_int_equal(ledger_forget(store, &name, 1, &removed, &error), OUTCOME_YES);
  return removed;
}

static int64_t floor_now(void)
{
  int64_t floor;
  assert_int_equal(ledger_floor(store, &floor, &error), OUTCOME_YES);
  return floor;
}

static bool is_there(const char *type)
{
  struct ledger ledger;
  return ledger_read(store, type, &ledger, &error) != OUTCOME_NO;
}

FLOOR_TEST(a_forgotten_name_does_not_start_over)
{
  struct ledger ledger;
  assert_int_equal(floor_now(), 0);
  assert_int_equal(fence("forgotten", 0, &alice), 1);
  assert_int_equal(fence("forgotten", 1, &bob), 2);
  assert_int_equal(forget("forgotten", 2, 0), 1);
  assert_false(is_there("forgotten"));
  assert_int_equal(floor_now(), 2);
  /* What an earlier holder still sends matches nothing, then and later. */
  assert_int_equal(ledger_fence(store, "forgotten", 2, &alice, FENCER_READER, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, "forgotten", 2, &bob, 0, &error), OUTCOME_NO);
  assert_int_equal(fence("forgotten", 0, &alice), 3);
  assert_int_equal(ledger_fence(store, "forgotten", 2, &bob, FENCER_READER, &ledger, &error), OUTCOME_NO);
  assert_int_equal(forget("forgotten", 2, 0), 0); /* a late copy */
  assert_int_equal(fence("another", 0, &alice), 3);
  assert_int_equal(forget("another", 1, 0), 0);
  assert_int_equal(floor_now(), 2); /* it never falls */
}

FLOOR_TEST(only_what_is_as_it_was_seen_is_forgotten)
{
  assert_int_equal(forget("nothing", 1, 0), 0);
  assert_int_equal(fence("moved", 0, &alice), 2);
  assert_int_equal(fence("moved", 2, &bob), 3);
  assert_int_equal(forget("moved", 2, 0), 0);
  assert_int_equal(read_ledger("moved").epoch, 3);
  assert_int_equal(fence("newer", 0, &alice), 3);
  fixture_make_newer("newer");
  assert_int_equal(forget("newer", 3, 0), 0);
}

FLOOR_TEST(a_paused_name_stays)
{
  const struct ledger_pause pause = {.id = {1}, .by = "ops", .reason = "a test"};
  struct ledger before;
  assert_int_equal(ledger_pause_begin(store, "paused", 0, &alice, &pause, &before, &error), OUTCOME_YES);
  assert_int_equal(forget("paused", 1, 0), 0);
  assert_true(read_ledger("paused").paused);
}

/* It is in use, although there is no file yet. */
FLOOR_TEST(a_type_with_its_own_collection_stays)
{
  struct ledger before;
  assert_int_equal(ledger_own_begin(store, "own", 0, &alice, &before, &error), OUTCOME_YES);
  assert_int_equal(forget("own", 1, 0), 0);
  assert_true(read_ledger("own").own);
}

FLOOR_TEST(a_ledger_with_a_file_stays)
{
  begin_file("kept");
  assert_int_equal(forget("kept", 1, 0), 0); /* a segment without a block */
  struct ledger_commit commit = commit_of("kept", 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, "kept", &commit, &error), OUTCOME_YES);
  assert_int_equal(forget("kept", 1, 0), 0);
  assert_int_equal(read_ledger("kept").end.seq, 10);
}

FLOOR_TEST(many_are_forgotten_at_once)
{
  enum { MANY = LEDGER_REMOVE_MAX + 2 };
  static struct ledger_name names[MANY];
  size_t removed;
  for (int i = 0; i < MANY; i++) {
    names[i].birth = i + 1;
    snprintf(names[i].type, sizeof names[i].type, "many-%d", i);
    assert_int_equal(ledger_insert(store, names[i].type, i + 1, &error), OUTCOME_YES);
  }
  names[1].birth = 77; /* not as it is */
  assert_int_equal(ledger_forget(store, names, MANY, &removed, &error), OUTCOME_YES);
  assert_int_equal(removed, MANY - 1);
  assert_int_equal(ledger_insert(store, "many-1", 3, &error), OUTCOME_NO);
  assert_int_equal(ledger_insert(store, "many-1001", 3, &error), OUTCOME_YES);
}

/* One that is just being made is no ledger yet, whoever makes it. */
FLOOR_TEST(the_maker_may_die)
{
  struct ledger ledger;
  assert_int_equal(ledger_insert(store, "made", 77, &error), OUTCOME_YES);
  assert_int_equal(ledger_insert(store, "made", 78, &error), OUTCOME_NO);
  assert_int_equal(ledger_read_now(store, "made", &ledger, &error), OUTCOME_NO); /* the primary alone has acknowledged it */
  assert_true(ledger.birth == 77 && ledger.epoch == 0);
  assert_int_equal(fence("made", 0, &alice), 1);
  ledger = read_ledger("made");
  assert_true(ledger.birth == 0 && !ledger.clean && ledger.end.file[0] == 0);
  assert_int_equal(ledger_fence(store, "made", 0, &bob, FENCER_READER, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_insert(store, "left", 79, &error), OUTCOME_YES);
  assert_int_equal(forget("left", 0, 78), 0);
  assert_int_equal(forget("left", 0, 79), 1);
  assert_int_equal(ledger_insert(store, "left", 80, &error), OUTCOME_YES);
}

/* A copy of the first fence comes when the name was forgotten, and is being made anew. */
FLOOR_TEST(a_late_first_fence_makes_no_epoch)
{
  const struct ledger_from late = {.epoch = 0, .birth = 77};
  const struct fence by_alice = {.owner = &alice, .fencer = FENCER_READER};
  struct ledger before;
  int64_t token;
  assert_int_equal(ledger_insert(store, "late", 77, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence_from(store, "late", &late, &by_alice, &before, &error), OUTCOME_YES);
  assert_int_equal(fence("late", 1, &bob), 2);
  assert_int_equal(ledger_fence_from(store, "late", &late, &by_alice, &before, &error), OUTCOME_NO);
  assert_int_equal(forget("late", 2, 0), 1);
  assert_int_equal(ledger_fence_from(store, "late", &late, &by_alice, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_insert(store, "late", 78, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence_from(store, "late", &late, &by_alice, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_draw_from(store, "late", &late, 2, &alice, &token, &error), OUTCOME_NO);
  assert_int_equal(fence("late", 0, &bob), 3);
}

FLOOR_TEST(each_making_has_its_own_number)
{
  const struct fence by_alice = {.owner = &alice, .fencer = FENCER_READER};
  struct ledger_from late, again;
  struct ledger before;
  assert_int_equal(ledger_make(store, "drawn", &late, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence_from(store, "drawn", &late, &by_alice, &before, &error), OUTCOME_YES);
  assert_int_equal(forget("drawn", 1, 0), 1);
  assert_int_equal(ledger_make(store, "drawn", &again, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence_from(store, "drawn", &late, &by_alice, &before, &error), OUTCOME_NO);
}

/* After a lost answer the ledger says what became of the first fence. */
FLOOR_TEST(a_first_fence_is_judged)
{
  const struct ledger none = {.epoch = 0};
  struct ledger before;
  assert_int_equal(fence("high", 0, &alice), 1);
  assert_int_equal(fence("high", 1, &alice), 2);
  assert_int_equal(forget("high", 2, 0), 1);
  assert_int_equal(ledger_fence_again(store, "judged", &none, &alice, FENCER_READER, &before, &error),
                   OUTCOME_YES); /* it had not arrived */
  assert_int_equal(before.epoch, 2);
  assert_int_equal(ledger_fence_again(store, "judged", &none, &alice, FENCER_READER, &before, &error), OUTCOME_YES); /* it had arrived */
  assert_int_equal(before.epoch, 2);
  assert_false(before.has_owner);
  assert_int_equal(ledger_fence_again(store, "judged", &none, &bob, FENCER_READER, &before, &error), OUTCOME_NO);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(read_ledger("judged").epoch, 3);
}

/* What had no answer when it was forgotten is judged, too. */
FLOOR_TEST(a_forgotten_ledger_is_no_older_one)
{
  const struct ledger seen = {.epoch = 1};
  struct ledger before;
  assert_int_equal(fence("gone", 0, &alice), 1);
  struct ledger_commit commit = first_commit("gone");
  assert_int_equal(forget("gone", 1, 0), 1);
  assert_int_equal(ledger_commit_again(store, "gone", &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence_again(store, "gone", &seen, &bob, FENCER_READER, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_insert(store, "gone", 77, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit_again(store, "gone", &commit, &error), OUTCOME_NO);
}

/* An adoption where there is no ledger. */
FLOOR_TEST(what_is_adopted_is_above_the_floor)
{
  const struct ledger none = {0};
  struct ledger ledger = {.epoch = 3, .has_owner = true, .owner = bob, .end = commit_of("adopted", 3, &bob, 0, 10).after};
  for (int64_t epoch = 0; epoch < 5; epoch++)
    assert_int_equal(fence("high", epoch, &alice), epoch + 1);
  assert_int_equal(forget("high", 5, 0), 1);
  assert_int_equal(ledger_put(store, "adopted", &none, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(read_ledger("adopted").epoch, 6);
  assert_int_equal(read_ledger("adopted").end.seq, 10);
  assert_int_equal(ledger_put(store, "adopted", &none, NULL, &ledger, &error), OUTCOME_NO);
  ledger.epoch = 9;
  ledger.end = commit_of("left", 3, &bob, 0, 10).after;
  assert_int_equal(ledger_insert(store, "left", 77, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, "left", &none, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(read_ledger("left").epoch, 9);
  ledger.epoch = 5; /* the floor's own */
  ledger.end = commit_of("equal", 3, &bob, 0, 10).after;
  assert_int_equal(ledger_put(store, "equal", &none, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(read_ledger("equal").epoch, 6);
}

FLOOR_TEST(a_draw_makes_the_ledger)
{
  int64_t token;
  int found = 0;
  assert_int_equal(ledger_draw(store, "slots", 3, &alice, &token, &found, &error), OUTCOME_YES);
  assert_int_equal(token, 1);
  assert_int_equal(ledger_draw(store, "slots", 3, &bob, &token, &found, &error), OUTCOME_YES);
  assert_int_equal(token, 2);
  assert_int_equal(read_ledger("slots").slots, 3);
  assert_int_equal(ledger_draw(store, "slots", 4, &bob, &token, &found, &error), OUTCOME_NO);
  assert_int_equal(found, 3);
  assert_int_equal(forget("slots", 2, 0), 1);
  assert_int_equal(ledger_draw(store, "slots", 4, &bob, &token, &found, &error), OUTCOME_YES);
  assert_int_equal(token, 3);
  assert_int_equal(fence("mutex", 0, &alice), 3);
  assert_int_equal(ledger_draw(store, "mutex", 4, &bob, &token, &found, &error), OUTCOME_NO);
  assert_int_equal(found, 0);
  assert_int_equal(ledger_insert(store, "made-slots", 77, &error), OUTCOME_YES);
  assert_int_equal(ledger_draw(store, "made-slots", 4, &bob, &token, &found, &error), OUTCOME_YES);
  assert_int_equal(token, 3);
}

/* Anything else than that counts a hundred times: an assertion must not fail in the middle of a request. */
static void count_newborn(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  bool listed = problem == NULL && strcmp(type, "listed") == 0 && ledger->epoch == 0 && ledger->birth == 77;
  *(int *)context += listed ? 1 : 100;
}

FLOOR_TEST(one_that_is_being_made_is_listed)
{
  int count = 0;
  struct ledger ledger;
  assert_int_equal(fence("another", 0, &alice), 1);
  assert_int_equal(forget("another", 1, 0), 1);
  assert_int_equal(ledger_insert(store, "listed", 77, &error), OUTCOME_YES);
  assert_int_equal(ledger_read_now(store, "listed", &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_list(store, NULL, count_newborn, &count, &error), OUTCOME_YES); /* without the floor */
  assert_int_equal(count, 1);
  assert_int_equal(ledger_list(store, "listed", count_newborn, &count, &error), OUTCOME_YES);
  assert_int_equal(ledger_list(store, "other", count_newborn, &count, &error), OUTCOME_YES);
  assert_int_equal(count, 2);
}
