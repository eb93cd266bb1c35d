/* Several locks at once, and locks with several slots. */
#include "test_lock.h"

static enum pawl_result take_all(struct pawl *pawl, const struct pawl_want *wants, size_t count, int64_t wait_ms, pawl_hold *holds)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = wait_ms};
  return pawl_take_all(pawl, wants, count, &terms, holds, &error);
}

LOCK_TEST(all_at_once)
{
  struct pawl *pawl = handle_open();
  const struct pawl_want wants[] = {{.name = "all-c"}, {.name = "all-a"}, {.name = "all-b"}};
  pawl_hold holds[3];
  assert_result(take_all(pawl, wants, 3, PAWL_NO_WAIT, holds), PAWL_OK);
  for (int i = 0; i < 3; i++) {
    assert_true(pawl_left_ms(pawl, holds[i]) > 0);
    release(pawl, holds[i]);
  }
}

LOCK_TEST(or_none)
{
  struct pawl *one = handle_open(), *two = handle_open();
  const struct pawl_want wants[] = {{.name = "none-a"}, {.name = "none-b"}, {.name = "none-c"}};
  pawl_hold holds[3], busy = take(one, "none-b"), hold;
  assert_result(take_all(two, wants, 3, PAWL_NO_WAIT, holds), PAWL_BUSY);
  assert_contains(error.text, "none-b");
  for (int i = 0; i < 3; i++)
    assert_int_equal(pawl_left_ms(two, holds[i]), 0);
  assert_result(take_all(two, wants, 3, 500, holds), PAWL_TIMEOUT);
  pass_ms(lease_ms / 3); /* its release goes on behind */
  assert_result(pawl_take(one, "none-a", PAWL_NO_WAIT, &hold, &error), PAWL_OK);
  release(one, hold);
  release(one, take(one, "none-c"));
  release(one, busy);
  assert_result(take_all(two, wants, 3, 20 * lease_ms, holds), PAWL_OK);
  assert_result(pawl_take(one, "none-a", PAWL_NO_WAIT, &hold, &error), PAWL_BUSY);
}

LOCK_TEST(several_are_renewed_while_others_are_waited_for)
{
  struct pawl *one = handle_open(), *two = handle_open();
  const struct pawl_want wants[] = {{.name = "renewed-a"}, {.name = "renewed-b"}};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_FOR_EVER};
  pawl_hold holds[2], busy = take(one, "renewed-b"), hold;
  pawl_fd(two);
  assert_result(pawl_take_begin(two, wants, 2, &terms, holds, &error), PAWL_OK);
  pass_ms(3 * lease_ms);
  assert_result(pawl_take(one, "renewed-a", PAWL_NO_WAIT, &hold, &error), PAWL_BUSY);
  release(one, busy);
  for (int i = 0; i < 2; i++)
    assert_int_equal(event_of(two).kind, PAWL_EVENT_HELD);
  for (int i = 0; i < 2; i++)
    assert_true(pawl_left_ms(two, holds[i]) > 0);
}

LOCK_TEST(crossed_names_do_not_wait_for_each_other)
{
  struct pawl *one = handle_open(), *two = handle_open(), *holder = handle_open();
  const struct pawl_want ab[] = {{.name = "crossed-a"}, {.name = "crossed-b"}}, ba[] = {{.name = "crossed-b"}, {.name = "crossed-a"}};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_FOR_EVER};
  pawl_fd(one);
  pawl_fd(two);
  for (int i = 0; i < 5; i++) {
    pawl_hold ones[2], twos[2], both[2];
    assert_result(take_all(holder, ab, 2, 20 * lease_ms, both), PAWL_OK);
    assert_result(pawl_take_begin(one, ab, 2, &terms, ones, &error), PAWL_OK);
    assert_result(pawl_take_begin(two, ba, 2, &terms, twos, &error), PAWL_OK);
    pass_ms(300); /* each waits for its first */
    for (int j = 0; j < 2; j++)
      release(holder, both[j]);
    pass_ms(lease_ms);
    struct pawl *first = pawl_left_ms(one, ones[0]) > 0 ? one : two, *second = first == one ? two : one;
    pawl_hold *of_first = first == one ? ones : twos, *of_second = first == one ? twos : ones;
    for (int j = 0; j < 2; j++)
      assert_int_equal(event_of(first).kind, PAWL_EVENT_HELD);
    for (int j = 0; j < 2; j++)
      release(first, of_first[j]);
    for (int j = 0; j < 2; j++)
      assert_int_equal(event_of(second).kind, PAWL_EVENT_HELD);
    for (int j = 0; j < 2; j++)
      release(second, of_second[j]);
  }
}

LOCK_TEST(wrong_sets)
{
  struct pawl *pawl = handle_open();
  const struct pawl_want twice[] = {{.name = "twice"}, {.name = "once"}, {.name = "twice"}}, many = {.name = "many", .slots = 1001},
                         below = {.name = "below", .slots = -1};
  pawl_hold holds[3];
  assert_result(take_all(pawl, twice, 3, 0, holds), PAWL_INVALID);
  assert_contains(error.text, "twice is given twice");
  assert_result(take_all(pawl, twice, 0, 0, holds), PAWL_INVALID);
  assert_result(take_all(pawl, &many, 1, 0, holds), PAWL_INVALID);
  assert_result(take_all(pawl, &below, 1, 0, holds), PAWL_INVALID);
  assert_result(pawl_take_all(pawl, twice, 2, NULL, holds, &error), PAWL_INVALID);
}

LOCK_TEST(who_holds_and_who_waits)
{
  struct pawl *one = handle_open(), *two = handle_open(), *person = handle_open();
  struct pawl_entry entries[3];
  size_t count;
  take(one, "list-b");
  take(one, "list-a");
  (void)begin(two, "list-b", 1, PAWL_FOR_EVER);
  pass_ms(500);
  assert_result(pawl_list(person, "list-b", entries, 3, &count, &error), PAWL_OK);
  assert_int_equal(count, 2);
  assert_string_equal(entries[0].name, "list-b");
  assert_int_equal(entries[0].slot, 0);
  assert_uint_in_range(entries[0].held_ms, 500, 100000);
  assert_uint_in_range(entries[0].left_ms, 1, lease_ms);
  assert_contains(entries[0].program, "the first program");
  assert_int_equal(entries[1].slot, -1);
  assert_int_equal(entries[1].place, 0);
  assert_result(pawl_list(person, "list-c", entries, 3, &count, &error), PAWL_OK);
  assert_int_equal(count, 0);
  assert_result(pawl_list(person, NULL, NULL, 0, &count, &error), PAWL_OK);
  assert_true(count >= 3);
  assert_result(pawl_list(person, "list/", entries, 3, &count, &error), PAWL_INVALID);
}

/* ---- slots ---- */

LOCK_TEST(as_many_as_there_are_slots)
{
  enum { SLOTS = 3, HANDLES = 5 };
  struct pawl *handles[HANDLES];
  pawl_hold holds[HANDLES];
  unsigned taken = 0;
  for (int i = 0; i < HANDLES; i++) {
    const struct pawl_want want = {.name = MY_NAME, .slots = SLOTS};
    handles[i] = handle_open();
    pawl_fd(handles[i]);
    if (i >= SLOTS) {
      assert_result(take_all(handles[i], &want, 1, PAWL_NO_WAIT, &holds[i]), PAWL_BUSY);
      holds[i] = begin(handles[i], MY_NAME, SLOTS, PAWL_FOR_EVER);
      pass_ms(300);
      continue;
    }
    assert_result(take_all(handles[i], &want, 1, PAWL_NO_WAIT, &holds[i]), PAWL_OK);
    assert_uint_in_range(pawl_slot(handles[i], holds[i]), 0, SLOTS - 1);
    taken |= 1u << pawl_slot(handles[i], holds[i]);
    assert_int_equal(pawl_token(handles[i], holds[i]), i + 1);
  }
  assert_int_equal(taken, 7);
  int slot = pawl_slot(handles[1], holds[1]);
  release(handles[1], holds[1]);
  assert_int_equal(event_of(handles[3]).kind, PAWL_EVENT_HELD); /* first come, first served */
  assert_int_equal(pawl_slot(handles[3], holds[3]), slot);
  assert_int_equal(pawl_left_ms(handles[4], holds[4]), 0);
  release(handles[0], holds[0]);
  assert_int_equal(event_of(handles[4]).kind, PAWL_EVENT_HELD);
}

LOCK_TEST(another_number_of_slots)
{
  struct pawl *pawl = handle_open(), *other = handle_open();
  const struct pawl_want three = {.name = MY_NAME, .slots = 3}, four = {.name = MY_NAME, .slots = 4}, one = {.name = MY_NAME},
                         mutex = {.name = "mutex"}, pool = {.name = "mutex", .slots = 2};
  pawl_hold hold;
  assert_result(take_all(pawl, &three, 1, PAWL_NO_WAIT, &hold), PAWL_OK);
  release(pawl, hold);
  assert_result(take_all(other, &four, 1, PAWL_NO_WAIT, &hold), PAWL_MISMATCH);
  assert_contains(error.text, "it has 3 slots, and this program says 4");
  assert_result(take_all(other, &one, 1, PAWL_NO_WAIT, &hold), PAWL_MISMATCH);
  assert_result(take_all(pawl, &mutex, 1, PAWL_NO_WAIT, &hold), PAWL_OK);
  release(pawl, hold);
  assert_result(take_all(other, &pool, 1, 1000, &hold), PAWL_MISMATCH);
  assert_result(take_all(pawl, &mutex, 1, 20 * lease_ms, &hold), PAWL_OK);
}

LOCK_TEST(slots_broken_by_a_person)
{
  enum { SLOTS = 3 };
  struct pawl *handles[SLOTS], *person = handle_open();
  const struct pawl_want want = {.name = MY_NAME, .slots = SLOTS};
  pawl_hold holds[SLOTS];
  int second = -1;
  for (int i = 0; i < SLOTS; i++) {
    handles[i] = handle_open();
    pawl_fd(handles[i]);
    assert_result(take_all(handles[i], &want, 1, PAWL_NO_WAIT, &holds[i]), PAWL_OK);
    if (pawl_slot(handles[i], holds[i]) == 1)
      second = i;
  }
  assert_true(second >= 0);
  pass_ms(lease_ms / 10);
  assert_result(pawl_break(person, MY_NAME, 1, "its disk is full", &error), PAWL_OK);
  assert_int_equal(event_of(handles[second]).reason, PAWL_REASON_BROKEN);
  pass_ms(lease_ms / 20);
  for (int i = 0; i < SLOTS; i++)
    assert_int_equal(pawl_left_ms(handles[i], holds[i]) > 0, i != second);
  assert_result(pawl_break(person, MY_NAME, -1, "all disks are full", &error), PAWL_OK);
  for (int i = 0; i < SLOTS; i++)
    if (i != second)
      assert_int_equal(event_of(handles[i]).kind, PAWL_EVENT_LOST);
}

/* A lease that is not given back comes free by its end. */
LOCK_TEST(a_slot_comes_back)
{
  struct pawl *lost = handle_open(), *other = handle_open(), *waiter = handle_open();
  const struct pawl_want want = {.name = MY_NAME, .slots = 2};
  pawl_hold holds[3];
  assert_result(take_all(lost, &want, 1, PAWL_NO_WAIT, &holds[0]), PAWL_OK);
  assert_result(take_all(other, &want, 1, PAWL_NO_WAIT, &holds[1]), PAWL_OK);
  handle_cut_off(lost, true);
  assert_result(take_all(waiter, &want, 1, 20 * lease_ms, &holds[2]), PAWL_OK);
  assert_true(pawl_left_ms(other, holds[1]) > 0);
  assert_int_equal(pawl_left_ms(lost, holds[0]), 0);
  assert_true(pawl_token(waiter, holds[2]) == 3);
  handle_cut_off(lost, false);
}
