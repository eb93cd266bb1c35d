/* Names that nobody uses are forgotten, and their tokens do not go back. After all other files: it raises the first token of new names. */
#include "test_lock.h"

static int64_t taken_once(struct pawl *pawl, const char *name)
{
  pawl_hold hold = take(pawl, name);
  int64_t token = pawl_token(pawl, hold);
  release(pawl, hold);
  return token;
}

static size_t entries_of(struct pawl *pawl, const char *name)
{
  size_t count = 99;
  assert_result(pawl_list(pawl, name, NULL, 0, &count, &error), PAWL_OK);
  return count;
}

static enum pawl_result take_slots(struct pawl *pawl, const char *name, int slots, pawl_hold *hold)
{
  const struct pawl_want want = {.name = name, .slots = slots};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_NO_WAIT};
  return pawl_take_all(pawl, &want, 1, &terms, hold, &error);
}

LOCK_TEST(a_forgotten_name_goes_on_with_its_tokens)
{
  struct pawl *one = handle_open(), *two = handle_open();
  int64_t token = 0;
  assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_NOTHING);
  for (int i = 0; i < 3; i++) {
    int64_t next = taken_once(two, MY_NAME);
    assert_true(next > token);
    token = next;
    assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_OK);
    assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_NOTHING);
  }
  assert_result(pawl_forget(one, "a b", PAWL_NO_WAIT, &error), PAWL_INVALID);
  assert_result(pawl_forget(one, NULL, PAWL_NO_WAIT, &error), PAWL_INVALID);
  assert_result(pawl_forget(one, MY_NAME, -2, &error), PAWL_INVALID);
}

LOCK_TEST(what_is_held_is_not_forgotten)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold hold = take(one, MY_NAME), slot, other;
  assert_result(pawl_forget(two, MY_NAME, PAWL_NO_WAIT, &error), PAWL_BUSY);
  assert_contains(error.text, "it is held by ");
  assert_result(pawl_forget(two, MY_NAME, 300, &error), PAWL_TIMEOUT);
  assert_result(pawl_forget(one, MY_NAME, 300, &error), PAWL_HELD);
  assert_true(pawl_left_ms(one, hold) > 0);
  release(one, hold);
  assert_result(take_slots(one, "held-slots", 3, &slot), PAWL_OK);
  assert_result(pawl_forget(two, "held-slots", PAWL_NO_WAIT, &error), PAWL_BUSY);
  assert_result(take_slots(two, "held-slots", 2, &other), PAWL_MISMATCH);
  release(one, slot);
  assert_result(pawl_forget(two, "held-slots", PAWL_NO_WAIT, &error), PAWL_OK);
  assert_result(take_slots(two, "held-slots", 2, &other), PAWL_OK);
}

LOCK_TEST(unused_names_are_pruned)
{
  static const char *const names[] = {"pruned-1", "pruned-2", "pruned-3", "pruned-4"};
  enum { NAMES = sizeof names / sizeof *names };
  struct pawl *one = handle_open(), *two = handle_open();
  int64_t tokens[NAMES], greatest = 0;
  size_t count;
  assert_result(pawl_prune(two, &count, &error), PAWL_OK); /* other tests' */
  for (int i = 0; i < NAMES; i++) {
    tokens[i] = taken_once(one, names[i]);
    greatest = tokens[i] > greatest ? tokens[i] : greatest;
  }
  pawl_hold hold = take(one, "pruned-held");
  int64_t held = pawl_token(one, hold);
  assert_result(pawl_prune(two, &count, &error), PAWL_OK);
  assert_int_equal(count, NAMES);
  assert_result(pawl_prune(two, &count, &error), PAWL_OK);
  assert_int_equal(count, 0);
  assert_true(pawl_left_ms(one, hold) > 0);
  release(one, hold);
  for (int i = 0; i < NAMES; i++)
    assert_true(taken_once(two, names[i]) > greatest);
  assert_int_equal(taken_once(two, "pruned-held"), held + 1);
  assert_result(pawl_prune(two, NULL, &error), PAWL_INVALID);
}

LOCK_TEST(what_the_dead_have_left_is_forgotten)
{
  struct pawl *dead = handle_open(), *one = handle_open();
  pawl_hold slot;
  size_t count;
  take(dead, MY_NAME);
  assert_result(take_slots(dead, "dead-slots", 3, &slot), PAWL_OK);
  handle_cut_off(dead, true);
  assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_BUSY);
  pass_ms(lease_ms + 100);
  assert_int_equal(entries_of(one, MY_NAME), 1);
  assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_OK);
  assert_int_equal(entries_of(one, MY_NAME), 0);
  assert_result(pawl_prune(one, &count, &error), PAWL_OK);
  assert_true(count >= 1);
  assert_int_equal(entries_of(one, "dead-slots"), 0);
}
