/* One lock: taking, waiting, renewing, losing, releasing. */
#include "test_lock.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

struct pawl_error error;

pawl_hold take(struct pawl *pawl, const char *name)
{
  pawl_hold hold = 0;
  assert_result(pawl_take(pawl, name, 20 * lease_ms, &hold, &error), PAWL_OK);
  assert_true(hold != 0 && pawl_left_ms(pawl, hold) > 0);
  return hold;
}

pawl_hold begin(struct pawl *pawl, const char *name, int slots, int64_t wait_ms)
{
  const struct pawl_want want = {.name = name, .slots = slots};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = wait_ms};
  pawl_hold hold = 0;
  assert_result(pawl_take_begin(pawl, &want, 1, &terms, &hold, &error), PAWL_OK);
  return hold;
}

void release(struct pawl *pawl, pawl_hold hold)
{
  assert_result(pawl_release(pawl, hold, &error), PAWL_OK);
}

static bool readable(int fd)
{
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  assert_true(fd >= 0);
  return poll(&polled, 1, 0) == 1;
}

static void assert_event(struct pawl *pawl, enum pawl_event_kind kind, pawl_hold hold)
{
  struct pawl_event event = event_of(pawl);
  assert_int_equal(event.kind, kind);
  assert_int_equal(event.hold, hold);
}

LOCK_TEST(taken_and_released)
{
  struct pawl *pawl = handle_open();
  pawl_hold hold = take(pawl, MY_NAME);
  assert_uint_in_range(pawl_left_ms(pawl, hold), 1, lease_ms * 2 / 3);
  assert_int_equal(pawl_token(pawl, hold), 1);
  assert_int_equal(pawl_slot(pawl, hold), 0);
  assert_int_equal(pawl_reason(pawl, hold, &error), PAWL_REASON_NONE);
  release(pawl, hold);
  assert_int_equal(pawl_left_ms(pawl, hold), 0);
  assert_int_equal(pawl_token(pawl, hold), 0);
  assert_int_equal(pawl_slot(pawl, hold), -1);
  assert_result(pawl_release(pawl, hold, &error), PAWL_INVALID);
}

LOCK_TEST(tokens_rise_from_holder_to_holder)
{
  struct pawl *one = handle_open(), *two = handle_open();
  for (int64_t token = 1; token < 5; token++) {
    struct pawl *pawl = token % 2 ? one : two;
    pawl_hold hold = take(pawl, MY_NAME);
    assert_int_equal(pawl_token(pawl, hold), token);
    release(pawl, hold);
  }
}

LOCK_TEST(busy)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold hold = take(one, MY_NAME), other = 0;
  assert_result(pawl_take(two, MY_NAME, PAWL_NO_WAIT, &other, &error), PAWL_BUSY);
  assert_contains(error.text, "it is held by ");
  assert_contains(error.text, "the first program");
  assert_int_equal(pawl_left_ms(two, other), 0);
  release(one, hold);
  assert_result(pawl_take(two, MY_NAME, PAWL_NO_WAIT, &other, &error), PAWL_OK);
}

LOCK_TEST(the_time_is_over)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold other;
  take(one, MY_NAME);
  assert_result(pawl_take(two, MY_NAME, 300, &other, &error), PAWL_TIMEOUT);
  assert_contains(error.text, "the time is over, and it is held by ");
  assert_result(pawl_take(two, MY_NAME, 300, &other, &error), PAWL_TIMEOUT); /* the name is free for this handle again */
}

LOCK_TEST(handed_over)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_fd(two);
  pawl_hold hold = take(one, MY_NAME), other = begin(two, MY_NAME, 1, PAWL_FOR_EVER);
  pass_ms(lease_ms / 2);
  assert_int_equal(pawl_left_ms(two, other), 0);
  assert_int_equal(pawl_token(two, other), 0);
  release(one, hold);
  assert_event(two, PAWL_EVENT_HELD, other);
  assert_true(pawl_left_ms(two, other) > 0);
  assert_int_equal(pawl_token(two, other), 2);
}

LOCK_TEST(in_the_order_of_their_coming)
{
  enum { WAITERS = 5 };
  struct pawl *holder = handle_open(), *waiters[WAITERS];
  pawl_hold hold = take(holder, MY_NAME), waits[WAITERS];
  for (int i = 0; i < WAITERS; i++) {
    waiters[i] = handle_open();
    pawl_fd(waiters[i]);
    waits[i] = begin(waiters[i], MY_NAME, 1, PAWL_FOR_EVER);
    pass_ms(300);
  }
  release(holder, hold);
  for (int i = 0; i < WAITERS; i++) {
    assert_event(waiters[i], PAWL_EVENT_HELD, waits[i]);
    assert_int_equal(pawl_token(waiters[i], waits[i]), i + 2);
    release(waiters[i], waits[i]);
  }
}

LOCK_TEST(held_by_this_handle)
{
  struct pawl *pawl = handle_open();
  pawl_hold hold = take(pawl, MY_NAME), other;
  assert_result(pawl_take(pawl, MY_NAME, 1000, &other, &error), PAWL_HELD);
  release(pawl, hold);
  release(pawl, take(pawl, MY_NAME));
}

LOCK_TEST(the_user_hears_who_holds_it)
{
  struct pawl *one = handle_open(), *two = handle_open();
  struct pawl_event event = {.size = sizeof event};
  pawl_fd(two);
  pawl_hold hold = take(one, MY_NAME), other = begin(two, MY_NAME, 1, PAWL_FOR_EVER);
  for (int i = 0; !pawl_next(two, &event); i++) {
    assert_true(i < 100);
    pass_ms(100);
  }
  assert_int_equal(event.kind, PAWL_EVENT_WAITS);
  assert_int_equal(event.hold, other);
  assert_contains(event.error.text, "the first program");
  release(one, hold);
  assert_int_equal(event_of(two).kind, PAWL_EVENT_HELD);
}

LOCK_TEST(a_wait_is_cancelled)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_fd(two);
  pawl_hold hold = take(one, MY_NAME), other = begin(two, MY_NAME, 1, PAWL_FOR_EVER);
  pass_ms(300);
  assert_result(pawl_release_begin(two, other, &error), PAWL_OK);
  struct pawl_event event = event_of(two);
  assert_int_equal(event.kind, PAWL_EVENT_FAILED);
  assert_int_equal(event.result, PAWL_CANCELLED);
  release(one, hold);
  take(one, MY_NAME); /* no entry of its own keeps anybody off */
}

LOCK_TEST(released_without_waiting)
{
  struct pawl *pawl = handle_open();
  pawl_fd(pawl);
  pawl_hold hold = take(pawl, MY_NAME);
  assert_result(pawl_release_begin(pawl, hold, &error), PAWL_OK);
  struct pawl_event event = event_of(pawl);
  assert_int_equal(event.kind, PAWL_EVENT_RELEASED);
  assert_int_equal(event.result, PAWL_OK);
  assert_int_equal(event.hold, hold);
}

LOCK_TEST(renewed_as_long_as_it_is_held)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold hold = take(one, MY_NAME), other;
  int fd = pawl_hold_fd(one, hold);
  for (int i = 0; i < 6; i++) {
    pass_ms(lease_ms / 2);
    assert_true(pawl_left_ms(one, hold) > 0);
    assert_false(readable(fd));
  }
  assert_result(pawl_take(two, MY_NAME, PAWL_NO_WAIT, &other, &error), PAWL_BUSY);
  release(one, hold);
}

LOCK_TEST(lost_without_answers)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_fd(one);
  pawl_hold hold = take(one, MY_NAME);
  int fd = pawl_hold_fd(one, hold);
  handle_cut_off(one, true);
  struct pawl_event event = event_of(one);
  assert_int_equal(event.kind, PAWL_EVENT_LOST);
  assert_int_equal(event.reason, PAWL_REASON_AWAY);
  assert_int_equal(pawl_left_ms(one, hold), 0);
  assert_int_equal(pawl_reason(one, hold, &error), PAWL_REASON_AWAY);
  assert_contains(error.text, "MongoDB gave no answer");
  assert_true(readable(fd));
  pawl_hold other = take(two, MY_NAME);
  assert_true(pawl_token(two, other) > pawl_token(one, hold));
  handle_cut_off(one, false);
  assert_result(pawl_release(one, hold, &error), PAWL_LOST);
  pass_ms(lease_ms);
  assert_true(pawl_left_ms(two, other) > 0); /* a late release frees nothing of the next holder's */
}

LOCK_TEST(lost_by_its_longest_time)
{
  struct pawl *pawl = handle_open();
  pawl_fd(pawl);
  const struct pawl_want want = {.name = MY_NAME};
  const struct pawl_terms terms = {.size = sizeof terms, .longest_ms = lease_ms};
  pawl_hold hold;
  assert_result(pawl_take_all(pawl, &want, 1, &terms, &hold, &error), PAWL_OK);
  int fd = pawl_hold_fd(pawl, hold);
  pass_ms(lease_ms / 2);
  assert_true(pawl_left_ms(pawl, hold) > 0);
  struct pawl_event event = event_of(pawl);
  assert_int_equal(event.kind, PAWL_EVENT_LOST);
  assert_int_equal(event.reason, PAWL_REASON_OVER);
  assert_true(readable(fd));
  assert_result(pawl_release(pawl, hold, &error), PAWL_LOST);
}

LOCK_TEST(broken_by_a_person)
{
  struct pawl *holder = handle_open(), *person = handle_open(), *waiter = handle_open();
  pawl_fd(holder);
  pawl_fd(waiter);
  pawl_hold hold = take(holder, MY_NAME), waits = begin(waiter, MY_NAME, 1, PAWL_FOR_EVER);
  pass_ms(lease_ms / 2);
  assert_result(pawl_break(person, MY_NAME, -1, "its disk is full", &error), PAWL_OK);
  struct pawl_event event = event_of(holder);
  assert_int_equal(event.kind, PAWL_EVENT_LOST);
  assert_int_equal(event.reason, PAWL_REASON_BROKEN);
  assert_contains(event.error.text, "its disk is full (by ");
  assert_true(readable(pawl_hold_fd(holder, hold))); /* asked for only now */
  assert_event(waiter, PAWL_EVENT_HELD, waits);
  assert_true(pawl_token(waiter, waits) > pawl_token(holder, hold));
  assert_result(pawl_release(holder, hold, &error), PAWL_LOST);
  release(waiter, waits);
  assert_result(pawl_break(person, MY_NAME, -1, "once more", &error), PAWL_NOTHING);
  assert_contains(error.text, "it is not held");
  assert_result(pawl_break(person, MY_NAME, 0, "", &error), PAWL_INVALID);
}

LOCK_TEST(a_child_has_no_part_in_it)
{
  struct pawl *pawl = handle_open();
  pawl_hold hold = take(pawl, MY_NAME), other;
  int status;
  pid_t child = fork();
  if (child == 0) {
    bool ok = pawl_left_ms(pawl, hold) == 0 && pawl_take(pawl, "other", 0, &other, &error) == PAWL_FORKED &&
              pawl_release(pawl, hold, &error) == PAWL_FORKED && pawl_reason(pawl, hold, &error) == PAWL_REASON_FORKED &&
              pawl_fd(pawl) == -1 && pawl_hold_fd(pawl, hold) == -1 && pawl_token(pawl, hold) == 0;
    pawl_close(pawl);
    _exit(ok ? 0 : 1);
  }
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  assert_int_equal(status, 0);
  assert_true(pawl_left_ms(pawl, hold) > 0);
  release(pawl, hold);
}

LOCK_TEST(wrong_arguments)
{
  struct pawl *pawl = handle_open(), *none;
  static const char *const names[] = {"",
                                      ".a",
                                      "-a",
                                      "a b",
                                      "a/b",
                                      "\xff",
                                      "x123456789x123456789x123456789x123456789x123456789x123456789x123456789x123456789"
                                      "x123456789x123456789x123456789x123456789x12345678"};
  pawl_hold hold = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    assert_result(pawl_take(pawl, names[i], 0, &hold, &error), PAWL_INVALID);
  assert_result(pawl_take(pawl, NULL, 0, &hold, &error), PAWL_INVALID);
  assert_result(pawl_take(pawl, MY_NAME, -2, &hold, &error), PAWL_INVALID);
  assert_result(pawl_take(pawl, MY_NAME, 0, NULL, &error), PAWL_INVALID);
  assert_result(pawl_release(pawl, 0, &error), PAWL_INVALID);
  assert_result(pawl_release(pawl, 12345, NULL), PAWL_INVALID);
  assert_int_equal(pawl_left_ms(pawl, 12345), 0);
  assert_result(pawl_open(&(struct pawl_options){.size = 3000}, &none, &error), PAWL_INVALID);
  assert_null(none);
  const struct pawl_want want = {.name = MY_NAME};
  const struct pawl_terms terms = {.size = sizeof terms, .longest_ms = -1};
  assert_result(pawl_take_all(pawl, &want, 1, &terms, &hold, &error), PAWL_INVALID);
  assert_contains(error.text, "longest_ms -1");
}

LOCK_TEST(wrong_options)
{
  static const struct {
    struct pawl_options options;
    const char *expected; /* NULL: it is right */
  } cases[] = {
      {{.lease_ms = 999}, "lease_ms is 999, expected 1000 to 3600000"},
      {{.lease_ms = 3600001}, "lease_ms is 3600001"},
      {{.lease_ms = -1}, "lease_ms is -1"},
      {{.retry_ms = -1}, "retry_ms is -1, expected 1 to 3600000"},
      {{.retry_ms = 3600001}, "retry_ms is 3600001"},
      {{.program = "x123456789x123456789x123456789x123456789x123456789x123456789x123"}, "program has 64 bytes, expected at most 63"},
      {{.lease_ms = 1000, .retry_ms = 1, .program = "x123456789x123456789x123456789x123456789x123456789x123456789x12"}, NULL},
      {{.lease_ms = 3600000, .retry_ms = 3600000}, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_result(handle_try(cases[i].options), cases[i].expected != NULL ? PAWL_INVALID : PAWL_OK);
    if (cases[i].expected != NULL)
      assert_contains(error.text, cases[i].expected);
  }
}

LOCK_TEST(a_handle_is_closed_with_all_that_it_has)
{
  struct pawl *one = handle_open(), *two = handle_open();
  take(one, "closed-held");
  take(two, "closed-waited-for");
  (void)begin(one, "closed-waited-for", 1, PAWL_FOR_EVER);
  pass_ms(300);
  handle_close(one);
  pawl_hold hold;
  assert_result(pawl_take(two, "closed-held", PAWL_NO_WAIT, &hold, &error), PAWL_OK);
}
