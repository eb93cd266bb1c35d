/* The library in memory, whose answers come late or are lost. */
#include "test_lock.h"

#include <pawl/lock_memory.h>
#include <stdio.h>

/* ---- answers that come late ---- */

/* Two thirds of the lease are over when a renewal is answered: it was lost until then, and stays so. */
LOCK_TEST(a_renewal_that_is_answered_too_late)
{
  struct pawl *pawl = handle_open();
  pawl_fd(pawl);
  pawl_hold hold = take(pawl, MY_NAME);
  pawl_memory_slow(pawl, lease_ms * 5 / 12);
  pass_ms(lease_ms * 9 / 12);
  assert_int_equal(pawl_left_ms(pawl, hold), 0);
  assert_int_equal(pawl_reason(pawl, hold, NULL), PAWL_REASON_EXPIRED);
  assert_int_equal(event_of(pawl).kind, PAWL_EVENT_LOST);
  pawl_memory_slow(pawl, 0);
  pass_ms(lease_ms);
  assert_int_equal(pawl_left_ms(pawl, hold), 0);
  assert_result(pawl_release(pawl, hold, &error), PAWL_LOST);
}

/* Where the last answer of a take comes when its own two thirds are over, it is given back: none is held with nothing left of it. */
LOCK_TEST(a_take_that_is_answered_too_late)
{
  const struct pawl_want want = {.name = MY_NAME};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = 2 * lease_ms};
  for (int64_t ms = 100, taken = 0; ms < lease_ms; ms += 100) {
    pawl_hold hold;
    struct pawl *pawl = handle_open();
    pawl_memory_slow(pawl, ms);
    enum pawl_result result = pawl_take_all(pawl, &want, 1, &terms, &hold, &error);
    taken += result == PAWL_OK;
    assert_true(result == PAWL_OK ? pawl_left_ms(pawl, hold) > 0 : result == PAWL_TIMEOUT && taken > 0);
    world_end(NULL);
  }
}

/* A document too. */
LOCK_TEST(a_document_that_is_answered_too_late)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_FOR_EVER};
  pawl_hold hold;
  bson_t *event = BCON_NEW("_id", BCON_INT32(1));
  const struct pawl_document wanted = {.size = sizeof wanted, .collection = "events", .filter = bson_get_data(event)};
  document_put("events", event);
  struct pawl *pawl = handle_open();
  pawl_fd(pawl);
  assert_result(pawl_document_take_begin(pawl, &wanted, &terms, &hold, &error), PAWL_OK);
  pawl_memory_slow(pawl, lease_ms);
  pass_ms(lease_ms / 2);
  pawl_memory_slow(pawl, 0);
  assert_int_equal(pawl_left_ms(pawl, hold), 0);
  assert_int_equal(event_of(pawl).kind, PAWL_EVENT_HELD);
  assert_true(pawl_left_ms(pawl, hold) > lease_ms / 2);
  bson_destroy(event);
}

/* ---- answers that are lost ---- */

/* Each request of a take and a release in turn, done and not done: it succeeds all the same, and the next one can take it. */
static void with_a_lost_answer(int skip, bool done, int slots)
{
  char name[32];
  struct pawl *pawl = handle_open(), *other = handle_open();
  pawl_fd(pawl);
  snprintf(name, sizeof name, "lost-%d-%d-%d", skip, done, slots);
  pawl_hold hold = begin(pawl, name, slots, PAWL_FOR_EVER);
  pawl_memory_lose_answers(pawl, skip, 1, done);
  pass_ms(lease_ms / 2); /* a lock that the lost take may have inserted is removed by then */
  assert_true(pawl_left_ms(pawl, hold) > 0);
  assert_int_equal(event_of(pawl).kind, PAWL_EVENT_HELD);
  assert_result(pawl_release(pawl, hold, &error), PAWL_OK);
  const struct pawl_want want = {.name = name, .slots = slots};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = lease_ms};
  assert_result(pawl_take_all(other, &want, 1, &terms, &hold, &error), PAWL_OK);
  world_end(NULL);
}

LOCK_TEST(any_answer_is_lost)
{
  for (int skip = 0; skip < 16; skip++)
    for (int done = 0; done < 2; done++)
      for (int slots = 1; slots < 3; slots++)
        with_a_lost_answer(skip, done == 1, slots);
}

/* A waiter that died in the queue, and one that is alive. */
LOCK_TEST(a_name_that_is_waited_for_is_in_use)
{
  struct pawl *holder = handle_open(), *dead = handle_open(), *one = handle_open();
  size_t count = 0;
  pawl_hold hold = take(holder, MY_NAME);
  begin(dead, MY_NAME, 1, PAWL_FOR_EVER);
  pass_ms(100);
  handle_cut_off(dead, true);
  release(holder, hold);
  assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_BUSY);
  assert_contains(error.text, "others wait for it");
  pass_ms(11000); /* its entry is over */
  assert_result(pawl_list(one, MY_NAME, NULL, 0, &count, &error), PAWL_OK);
  assert_int_equal(count, 1);
  assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_OK);
  assert_result(pawl_list(one, MY_NAME, NULL, 0, &count, &error), PAWL_OK);
  assert_int_equal(count, 0);
}

/* Whatever answer is lost: in the end it is forgotten, and its tokens go on. */
LOCK_TEST(forgetting_outlives_any_lost_answer)
{
  for (int skip = 0; skip < 8; skip++)
    for (int done = 0; done < 2; done++) {
      struct pawl *one = handle_open();
      pawl_hold hold = take(one, MY_NAME);
      int64_t token = pawl_token(one, hold);
      release(one, hold);
      pawl_memory_lose_answers(one, skip, 1, done == 1);
      assert_result(pawl_forget(one, MY_NAME, PAWL_NO_WAIT, &error), PAWL_OK);
      pawl_memory_lose_answers(one, 0, 0, false);
      hold = take(one, MY_NAME);
      assert_true(pawl_token(one, hold) > token);
      world_end(NULL);
    }
}

/* Sent after a third of the lease, answered a sixth later: it counts from its sending. */
LOCK_TEST(a_renewal_counts_from_its_sending)
{
  struct pawl *pawl = handle_open();
  pawl_hold hold = take(pawl, MY_NAME);
  pawl_memory_slow(pawl, lease_ms / 6);
  pass_ms(lease_ms / 2);
  assert_uint_in_range(pawl_left_ms(pawl, hold), 1, lease_ms / 2);
}

/* Named by its _id it is the same document: the same owner takes it again, and does not wait for itself. */
LOCK_TEST(a_document_whose_take_had_no_answer)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = lease_ms / 2};
  for (int skip = 0; skip < 5; skip++) {
    pawl_hold hold;
    bson_t *event = BCON_NEW("_id", BCON_INT32(1));
    const struct pawl_document wanted = {.size = sizeof wanted, .collection = "events", .filter = bson_get_data(event)};
    document_put("events", event);
    struct pawl *pawl = handle_open();
    pawl_memory_lose_answers(pawl, skip, 1, true);
    assert_result(pawl_document_take(pawl, &wanted, &terms, &hold, &error), PAWL_OK);
    bson_destroy(event);
    world_end(NULL);
  }
}

int main(void)
{
  return tests_run(NULL, NULL);
}
