/* The lease, changed while the lock is held: the deadline is never later than what the database may have. */
#include "consumer_stories.h"

static void configure(int64_t lease_ms)
{
  struct consumer_options options = rig.consumer.core.options;
  options.lease_ms = lease_ms;
  rig_configure(&rig, &options);
}

static int64_t safe_ms(void)
{
  return consumer_until_ms(&rig.consumer) - rig.moment.now_ms;
}

static int64_t left_ms(void)
{
  return consumer_lease_end_ms(&rig.consumer) - rig.moment.now_ms;
}

STORY(test_a_new_lease_is_told_at_once)
{
  play(TO_APPENDING);
  configure(90000);
  EXPECT(STATE_DRAINING, "RENEW");
  assert_int_equal(running(ACTIVITY_RENEW)->lease_ms, 90000);
  assert_uint_in_range(safe_ms(), 1, 20000); /* until the database has it */
  play("RENEW YES");
  assert_int_equal(safe_ms(), 60000);
  assert_int_equal(left_ms(), 90000);
}

/* Whatever becomes of the renewal, it may have been done. */
STORY(test_a_shorter_lease_counts_from_the_request)
{
  play(TO_APPENDING);
  configure(3000);
  EXPECT(STATE_DRAINING, "RENEW");
  assert_int_equal(safe_ms(), 2000);
  assert_int_equal(left_ms(), 3000);
  play("RENEW UNKNOWN");
  assert_int_equal(safe_ms(), 2000);
}

/* Soon, so that one lost answer does not cost the lease. */
STORY(test_a_renewal_without_an_answer_is_sent_again)
{
  play(TO_APPENDING "; wait 10000");
  EXPECT(STATE_DRAINING, "RENEW");
  play("RENEW UNKNOWN; wait 2500");
  EXPECT(STATE_DRAINING, "RENEW");
}

/* Nothing will bring it back: the file is closed, so that the next holder can go on in it. */
STORY(test_a_lease_without_an_answer_is_over)
{
  play(TO_APPENDING);
  while (!rig_logged(&rig, "lost")) {
    rig_assert(&rig, left_ms() > 0);
    play(rig.slots[ACTIVITY_RENEW].running ? "RENEW UNKNOWN" : "wait 500");
  }
  rig_assert(&rig, left_ms() <= 0);
  STEP("APPEND YES; READ NO", STATE_RELEASING, "CLOSE");
  assert_false(rig.slots[ACTIVITY_RENEW].running);
}

/* The copy of a request that was not answered may come late, after one with a longer lease. */
STORY(test_a_shorter_lease_without_an_answer)
{
  play(TO_APPENDING);
  configure(3000);
  play("RENEW UNKNOWN");
  configure(30000);
  EXPECT(STATE_DRAINING, "RENEW");
  assert_int_equal(running(ACTIVITY_RENEW)->lease_ms, 30000);
  play("RENEW YES");
  assert_int_equal(safe_ms(), 2000);
  assert_int_equal(left_ms(), 3000);
}

STORY(test_a_change_while_a_renewal_is_under_way)
{
  play(TO_APPENDING "; wait 10000");
  EXPECT(STATE_DRAINING, "RENEW");
  assert_int_equal(running(ACTIVITY_RENEW)->lease_ms, 30000);
  configure(90000);
  EXPECT(STATE_DRAINING, "");
  play("RENEW YES"); /* it was sent with the old one */
  assert_int_equal(safe_ms(), 20000);
  EXPECT(STATE_DRAINING, "RENEW");
  assert_int_equal(running(ACTIVITY_RENEW)->lease_ms, 90000);
}

STORY(test_a_change_before_the_lock_is_taken)
{
  play("wait 0; POLL YES; CHECK YES");
  configure(90000);
  play("LOOK YES");
  assert_int_equal(running(ACTIVITY_MAIN)->acquisition.ttl_ms, 90000);
  play("TAKE YES");
  assert_int_equal(left_ms(), 90000);
}

STORY(test_a_change_while_it_is_taken)
{
  play(TO_TAKING);
  configure(90000);
  play("TAKE YES"); /* it was sent with the old one */
  assert_int_equal(left_ms(), 30000);
  EXPECT(STATE_FENCING, "RENEW FENCE");
}

/* Nothing else about the lock is done again, and a pause in hand ends. */
STORY(test_other_options)
{
  struct consumer_options options = rig_options();
  play(TO_DRAINING "; READ NO");
  options.linger_ms = 0;
  rig_configure(&rig, &options);
  EXPECT(STATE_RELEASING, "CLOSE");
}

/* It may have been that of an hour. */
STORY(test_a_pause_that_changed_ends)
{
  struct consumer_options options = rig_options();
  options.poll_ms = 3600000;
  story_again(&options);
  play("wait 0; POLL NO; CHECK YES");
  EXPECT(STATE_IDLE, "");
  options.poll_ms = 100;
  rig_configure(&rig, &options);
  EXPECT(STATE_IDLE, "POLL");
}

STORY(test_the_end_counts_from_the_request)
{
  play(TO_TAKING "; wait 4000; TAKE YES");
  assert_int_equal(left_ms(), 26000);
  play("FENCE YES; OPEN YES; wait 6000");
  EXPECT(STATE_DRAINING, "RENEW");
  play("wait 5000; RENEW YES");
  assert_int_equal(left_ms(), 25000);
}
