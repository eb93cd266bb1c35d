/* The consumer's stories: polls, waiting for the lock, and wake-ups. */
#include "consumer_stories.h"

/* ---- waiting ---- */

STORY(test_waits_with_jitter)
{
  int64_t least = INT64_MAX, most = 0;
  play("wait 0; POLL YES; CHECK YES; LOOK NO");
  for (int i = 0; i < 200; i++) {
    int64_t pause = pause_ms();
    least = pause < least ? pause : least;
    most = pause > most ? pause : most;
    play("wake; LOOK NO");
    if (rig.slots[ACTIVITY_MAIN].running)
      play("POLL YES");
  }
  rig_assert(&rig, least >= 50 && least < 70 && most <= 100 && most > 80);
}

STORY(test_wakes_at_the_end_of_the_lease)
{
  play("wait 0; POLL YES; CHECK YES; LOOK NO; wake");
  rig.view.left_ms = 7;
  play("LOOK NO");
  assert_int_equal(pause_ms(), 8);
}

/* Logged once, and once more if the lock was in order meanwhile. */
STORY(test_a_lock_that_is_not_pawls)
{
  play("wait 0; POLL YES; CHECK YES; LOOK REFUSED");
  assert_true(rig_logged(&rig, "lock"));
  play("wait 1000; LOOK REFUSED");
  assert_false(rig_logged(&rig, "lock"));
  play("wait 1000; POLL YES; LOOK UNKNOWN; wake; LOOK REFUSED");
  assert_false(rig_logged(&rig, "lock"));
  play("wait 1000; LOOK NO; POLL YES; wake; LOOK REFUSED");
  assert_true(rig_logged(&rig, "lock"));
  play("wait 1000; LOOK YES; POLL YES; CHECK YES; TAKE NO; wake; LOOK REFUSED");
  assert_true(rig_logged(&rig, "lock"));
}

/* The holder may have written the last message a moment ago; the next one may come when it releases the lock. */
STORY(test_waiter_stays_while_another_holds)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; wait 1000; LOOK NO", STATE_WAITING, "POLL");
  assert_false(consumer_is_quiet(&rig.consumer));
  STEP("POLL NO", STATE_WAITING, "");
  assert_true(consumer_is_quiet(&rig.consumer)); /* --exit-when-empty need not wait for the holder */
  STEP("lock; LOOK YES; POLL YES; CHECK YES", STATE_TAKING, "TAKE");
}

STORY(test_waiter_goes_when_it_is_its_turn_and_the_queue_is_empty)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; lock; LOOK YES; POLL NO", STATE_UNLOCKING, "LEAVE");
  assert_false(running(ACTIVITY_MAIN)->calls); /* the others have nothing to wait for, either */
  STEP("LEAVE YES", STATE_IDLE, "POLL");
}

/* Also where its queue is empty: the holder may be gone, and the next message is for another. */
STORY(test_a_waiter_that_stops_calls_the_next)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; wait 1000; LOOK NO; POLL NO; stop", STATE_UNLOCKING, "LEAVE");
  assert_true(running(ACTIVITY_MAIN)->calls);
}

/* It leaves no entry that would be called after the process has ended. */
STORY(test_a_waiter_that_stops_leaves_the_queue)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; stop", STATE_UNLOCKING, "LEAVE");
  assert_true(running(ACTIVITY_MAIN)->calls);
  STEP("LEAVE UNKNOWN", STATE_DONE, "");
}

/* Unless MongoDB gives no answer: its entry expires, and the stop does not wait for that. */
STORY(test_a_waiter_stops_while_the_database_is_away)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; wake; LOOK UNKNOWN; stop", STATE_DONE, "");
}

/* Another was faster, and has released it already. */
STORY(test_called_after_another_was_faster)
{
  STEP(TO_TAKING "; TAKE NO; lock", STATE_WAITING, "LOOK");
}

/* A take without an answer under an owner that is in the queue: both go. */
STORY(test_unknown_take_of_a_waiter)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; wake; LOOK YES; POLL YES; CHECK YES; TAKE UNKNOWN", STATE_UNLOCKING, "UNLOCK");
  STEP("UNLOCK YES", STATE_UNLOCKING, "LEAVE");
  STEP("LEAVE YES", STATE_IDLE, "");
}

/* A tool waits: the holder leaves after the block in hand, and not before it has got on. */
STORY(test_lets_a_tool_have_its_turn)
{
  STEP(TO_APPENDING "; READ YES; wait 10000; RENEW YES:awaited", STATE_DRAINING, "");
  STEP("APPEND YES", STATE_DRAINING, "DELETE DROP");
  STEP("READ YES; DELETE YES", STATE_RELEASING, "CLOSE");
  STEP("CLOSE YES; UNLOCK YES; POLL YES; CHECK YES", STATE_WAITING, "LOOK");
  STEP("LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ NO", STATE_DRAINING, ""); /* its turn is over: this hold is one of its own */
}

STORY(test_settling_is_enough_for_a_turn)
{
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES; wait 10000; RENEW YES:awaited");
  EXPECT(STATE_SETTLING, ""); /* the first of three runs */
  STEP("SETTLE YES", STATE_RELEASING, "CLOSE");
}

/* Perhaps it is the command that makes space. */
STORY(test_a_full_disk_is_enough_for_a_turn)
{
  STEP(TO_APPENDING "; READ NO; APPEND NO_SPACE; wait 10000; RENEW YES:awaited; APPEND NO_SPACE", STATE_RELEASING, "CLOSE");
}

STORY(test_an_empty_pass_is_enough_for_a_turn)
{
  STEP(TO_DRAINING "; wait 10000; RENEW YES:awaited", STATE_DRAINING, "");
  STEP("READ NO", STATE_RELEASING, "CLOSE");
}

STORY(test_steal)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO; wake; LOOK YES:expired", STATE_WAITING, "POLL"); /* others have worked since the check */
  STEP("POLL YES; CHECK YES", STATE_TAKING, "TAKE");
  assert_true(running(ACTIVITY_MAIN)->acquisition.steal);
  assert_memory_equal(&running(ACTIVITY_MAIN)->acquisition.view.owner, &rig.view.owner, sizeof rig.view.owner);
  STEP("TAKE NO", STATE_WAITING, "");
  rig.view.stealable = false;
  play("wake; LOOK YES; POLL YES; CHECK YES");
  assert_false(running(ACTIVITY_MAIN)->acquisition.steal);
}

/* ---- wake-ups ---- */

STORY(test_polls_are_slow_while_wakeups_come)
{
  play(IDLE);
  assert_uint_in_range(pause_ms(), 50, 100);
  STEP("watch", STATE_IDLE, "POLL");
  play("POLL NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
  STEP("watch", STATE_IDLE, ""); /* nothing new */
  play("unwatch; POLL NO");
  assert_uint_in_range(pause_ms(), 50, 100);
}

STORY(test_waits_for_a_wakeup)
{
  play("wait 0; POLL YES; CHECK YES");
  assert_false(rig.effects.actions[0].acquisition.listens);
  STEP("LOOK NO; watch", STATE_WAITING, "LOOK");
  assert_true(rig.effects.actions[0].acquisition.listens);
  play("LOOK NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
  STEP("wait 400; lock", STATE_WAITING, "LOOK");
  rig.view.left_ms = 300; /* no later than the end of the lease */
  play("LOOK NO");
  assert_uint_in_range(pause_ms(), 1, 301);
  STEP("wait 200; lock; LOOK YES; POLL YES; CHECK YES", STATE_TAKING, "TAKE");
  play("TAKE NO"); /* another was faster: it looks again soon */
  assert_uint_in_range(pause_ms(), 50, 100);
}

/* Its entry expires long before --retry is over. */
STORY(test_a_lost_take_is_followed_by_a_look_soon)
{
  rig.consumer.core.options.retry_ms = 3600000;
  STEP(TO_TAKING "; TAKE NO", STATE_WAITING, "");
  assert_uint_in_range(pause_ms(), 500, 1000);
}

/* It was for an acquisition that is over: it may be the turn of another process now. */
STORY(test_a_late_wakeup_is_ignored)
{
  struct event event = {.kind = EVENT_WAKE, .about = WAKEUP_LOCK, .owner = {{1, 2, 3}}};
  play("wait 0; POLL YES; CHECK YES; watch; LOOK NO; LOOK NO");
  int64_t before = pause_ms();
  consumer_handle(&rig.consumer, &event, &rig.moment, &rig.effects);
  EXPECT(STATE_WAITING, "");
  assert_int_equal(pause_ms(), before);
}

/* Called, and the queue was empty at that moment: for a while a message may be seen by this process alone. */
STORY(test_called_and_nothing_to_do)
{
  STEP("wait 0; POLL YES; CHECK YES; watch; LOOK NO; LOOK NO; lock; LOOK YES; POLL NO; LEAVE YES; POLL NO", STATE_IDLE, "");
  assert_uint_in_range(pause_ms(), 50, 100);
  play("wait 1000; POLL NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
}

/* A poll that was under way may be older than the wake-up. */
STORY(test_woken_while_looking)
{
  STEP(IDLE "; watch; message; POLL NO", STATE_IDLE, "POLL");
  play("POLL NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
}

/* When so much was deleted that a poll takes 100 ms, the consumer polls rarely, and not always from the beginning. */
STORY(test_dear_looks_are_rare)
{
  rig.nothing_read = true;
  play("wait 0; wait 100; POLL NO; CHECK YES");
  assert_uint_in_range(pause_ms(), 1000, 2000);
  play("wake; wait 5000; POLL NO");
  assert_uint_in_range(pause_ms(), 5000, 10000);
  STEP("watch; POLL NO; message", STATE_IDLE, "POLL"); /* at once all the same */
}

STORY(test_glances_between_dear_looks)
{
  play("wait 0; wait 100; POLL NO; CHECK YES");
  int glances = 0;
  for (int64_t since = rig.moment.now_ms; rig.moment.now_ms - since < 3000; glances++) {
    assert_uint_in_range(pause_ms(), 50, 100); /* a tail poll costs nothing */
    play("wake");
    if (!rig.effects.actions[0].tail)
      break;
    play("POLL NO");
  }
  assert_uint_in_range(glances, 20, 40);
  EXPECT(STATE_IDLE, "POLL");
  assert_false(rig.effects.actions[0].tail);
  play("wait 100; POLL NO; wake; wait 100; POLL NO");
  assert_uint_in_range(pause_ms(), 1000, 2000); /* unless it does */
  play("message; POLL UNKNOWN");
  assert_uint_in_range(pause_ms(), 50, 100);
  rig.consumer.core.options.poll_share = 60; /* one of three types */
  rig.consumer.seek.woken = false;           /* no check because of that message */
  play("wake; wait 100; POLL NO");
  assert_uint_in_range(pause_ms(), 3000, 6000);
}

/* A holder that has found nothing went over the same: it pauses for a fifth of a poll's rest, and after its release only tail polls are
 * made until that rest is over. */
STORY(test_glances_after_a_pass_that_took_long)
{
  play(TO_DRAINING "; wait 1000; READ NO");
  assert_uint_in_range(pause_ms(), 1000, 2000);
  struct consumer_options options = rig_options();
  options.linger_ms = 0;
  story_again(&options);
  STEP(TO_DRAINING "; wait 100; READ NO; CLOSE YES; UNLOCK YES; wake", STATE_IDLE, "POLL");
  assert_true(rig.effects.actions[0].tail);
  STEP("POLL NO; wait 2000", STATE_IDLE, "POLL");
  assert_false(rig.effects.actions[0].tail);
}

/* One poll was made for many types, and each has its part of the rest. */
STORY(test_a_poll_of_many_types_costs_each_its_part)
{
  rig.nothing_read = true;
  rig.poll_types = 20;
  play("wait 0; wait 1000; POLL NO; CHECK YES");
  assert_uint_in_range(pause_ms(), 500, 1000);
}

/* A wake-up without a message may be of another collection: the check that finds that comes, however many follow. */
STORY(test_wakeups_do_not_put_the_check_off)
{
  play(IDLE);
  for (int64_t since = rig.moment.now_ms; !rig.slots[ACTIVITY_MAIN].running || rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL;) {
    rig_assert(&rig, rig.moment.now_ms - since < 3000);
    if (rig.slots[ACTIVITY_MAIN].running)
      play("POLL NO");
    else
      play("wait 300; message");
  }
  assert_int_equal(running(ACTIVITY_MAIN)->kind, ACTION_CHECK);
}

/* The poll went over so much that there was no answer in time: the next one would get none, too. */
STORY(test_glances_after_a_look_without_an_answer)
{
  STEP("wait 0; wait 3000; POLL UNKNOWN; wake", STATE_IDLE, "POLL");
  assert_true(rig.effects.actions[0].tail);
  STEP("POLL YES; CHECK YES; LOOK YES", STATE_TAKING, "TAKE");
}

STORY(test_wakeups_do_not_shorten_a_back_off)
{
  play("wait 0; watch; POLL UNKNOWN");
  int64_t before = pause_ms();
  STEP("message; message; lock; lost", STATE_IDLE, "");
  assert_int_equal(pause_ms(), before);
}

/* Nor do wake-ups end the pause after a pass that failed. */
STORY(test_wakeups_do_not_begin_the_next_pass)
{
  STEP(TO_DRAINING "; READ UNKNOWN; message", STATE_DRAINING, "");
  STEP("wake", STATE_DRAINING, "READ");
}

/* 100 ms, doubling to 3 s, with jitter: half to all of it. */
STORY(test_pauses_grow_while_nothing_answers)
{
  static const int64_t pauses[] = {100, 200, 400, 800, 1600, 3000, 3000, 3000};
  play("wait 0");
  for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
    play("POLL UNKNOWN");
    assert_uint_in_range(pause_ms(), pauses[i] / 2, pauses[i]);
    play("wake");
  }
}

STORY(test_told_that_the_lease_is_lost)
{
  STEP(TO_DRAINING "; READ NO; lost", STATE_DRAINING, "RENEW");
  STEP("RENEW YES", STATE_DRAINING, ""); /* somebody made it up */
  STEP("lost; RENEW NO", STATE_RELEASING, "CLOSE");
}
