/* The consumer's stories: from the first message to the release, and each way in which they can fail. */
#include "consumer_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cmocka_range.h"

#define IDLE "wait 0; POLL NO; CHECK YES"
#define TO_TAKING "wait 0; POLL YES; CHECK YES; LOOK YES"
#define TO_FENCING TO_TAKING "; TAKE YES"
#define TO_DRAINING TO_FENCING "; FENCE YES:clean; OPEN YES"
#define TO_APPENDING TO_DRAINING "; READ YES; BEGIN YES"

static struct rig rig;

static int setup(void **state)
{
  struct consumer_options options = rig_options();
  (void)state;
  rig_init(&rig, &options, 1);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  rig_deinit(&rig);
  return 0;
}

static const struct action *running(enum activity activity)
{
  rig_assert(&rig, rig.slots[activity].running);
  return &rig.slots[activity].action;
}

static int64_t pause_ms(void)
{
  return consumer_wake_ms(&rig.consumer) - rig.moment.now_ms;
}

/* ---- the ordinary course ---- */

static void test_happy_path(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND YES");
  rig_expect(&rig, STATE_DRAINING, "DELETE");
  rig_play_all(&rig, "READ NO; DELETE YES");
  rig_expect(&rig, STATE_DRAINING, "READ");
  assert_true(running(ACTIVITY_READ)->begin);
  rig_play_all(&rig, "READ NO; wait 6000");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->write_close);
  assert_true(running(ACTIVITY_MAIN)->commits && running(ACTIVITY_MAIN)->commit.set_clean);
  assert_int_equal(running(ACTIVITY_MAIN)->commit.settled, 110);
  rig_play(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play_all(&rig, "UNLOCK YES; wait 0; POLL NO");
  rig_expect(&rig, STATE_IDLE, "");
  assert_true(consumer_is_quiet(&rig.consumer));
  assert_int_equal(rig.ledger.end.seq, 110);
  assert_true(rig.ledger.clean);
}

static void test_first_segment(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES:none; LOOK YES; TAKE YES");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch_seen, 0);
  rig_play_all(&rig, "FENCE YES; OPEN YES; READ YES");
  rig_expect(&rig, STATE_DRAINING, "BEGIN READ");
  assert_true(running(ACTIVITY_MAIN)->fresh);
  assert_string_equal(running(ACTIVITY_MAIN)->reason, "first");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 1);
  assert_string_equal(running(ACTIVITY_MAIN)->commit.before.file, "");
  rig_play(&rig, "BEGIN YES");
  assert_true(rig_logged(&rig, "segment"));
  rig_expect(&rig, STATE_DRAINING, "APPEND");
}

/* Whether the file is continued is decided by what is found there (storage/begin.h), from the ledger as the fence found it. */
static void test_begins_by_what_the_fence_found(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:network-unclean; OPEN YES; READ YES");
  rig_expect(&rig, STATE_DRAINING, "BEGIN READ");
  assert_false(running(ACTIVITY_MAIN)->fresh || running(ACTIVITY_MAIN)->ledger.clean);
  assert_int_equal(running(ACTIVITY_MAIN)->ledger.epoch, 7);
  assert_string_equal(running(ACTIVITY_MAIN)->reason, "unclean");
  rig_play(&rig, "BEGIN YES:segment");
  assert_true(rig_logged(&rig, "segment"));
  rig_expect(&rig, STATE_DRAINING, "APPEND");
  assert_false(running(ACTIVITY_MAIN)->commit.guarded); /* on a network file system nothing is vouched for */
}

/* A holder that writes nothing puts `clean` back as it was, and writes no CLOSE. */
static void test_nothing_written(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; wait 6000");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(!running(ACTIVITY_MAIN)->write_close && running(ACTIVITY_MAIN)->commits);
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES:unclean; OPEN YES; READ NO; wait 6000");
  assert_false(running(ACTIVITY_MAIN)->write_close || running(ACTIVITY_MAIN)->commits);
  rig_play(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
}

/* The holder writes what a pass has just found, and does not leave it to the next holder. */
static void test_lingered_while_a_pass_runs(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; wait 100; READ NO; wait 4850; wait 100");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play(&rig, "READ YES");
  rig_expect(&rig, STATE_DRAINING, "BEGIN READ");
}

#define LINGERED TO_DRAINING "; READ NO; wait 100; READ NO; wait 4850; wait 100"

/* A pass that found nothing just before counts as a poll; but not when it was long ago, or a wake-up has come since. */
static void test_let_go_of_an_empty_queue(void **state)
{
  (void)state;
  rig_play_all(&rig, LINGERED "; READ NO; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "");
  assert_true(consumer_is_quiet(&rig.consumer));
  assert_uint_in_range(pause_ms(), 50, 100);
  rig_play(&rig, "message");
  rig_expect(&rig, STATE_IDLE, "POLL");
  assert_true(consumer_is_quiet(&rig.consumer)); /* as long as that poll has found nothing */
}

static void test_let_go_and_told_of_a_message(void **state)
{
  (void)state;
  rig_play_all(&rig, LINGERED "; READ NO; message; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
}

static void test_let_go_after_the_lease(void **state)
{
  (void)state;
  rig_play_all(&rig, LINGERED "; READ NO; lost; RENEW NO; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
}

static void test_linger(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; wait 4000; READ YES; READ NO; BEGIN YES; APPEND YES");
  rig_play_all(&rig, "DELETE YES; READ NO; wait 4000; READ NO");
  rig_expect(&rig, STATE_DRAINING, ""); /* counted from when the queue was last empty */
  rig_play(&rig, "wait 1000");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

/*
 * A lingering holder polls an empty queue soon, then less and less often, whatever --poll says; it does not sleep past the end
 * of the lingering.
 */
static void test_looks_less_and_less_while_lingering(void **state)
{
  (void)state;
  struct consumer_options options = rig_options();
  rig_deinit(&rig);
  options.poll_ms = 60000;
  rig_init(&rig, &options, 1);
  rig_play_all(&rig, TO_DRAINING "; READ NO");
  int64_t since = rig.moment.now_ms;
  int looks = 0;
  for (rig_play(&rig, "wake"); rig.consumer.core.state == STATE_DRAINING; rig_play(&rig, "wake")) {
    int64_t empty = rig.moment.now_ms - since;
    rig_play(&rig, "READ NO");
    looks++;
    assert_uint_in_range(rig.consumer.epoch.read_ms - rig.moment.now_ms, 1, empty > 2 ? empty : 2);
  }
  assert_uint_in_range(looks, 10, 24); /* 2 ms to 5 s, each 1.5 to 2 times as long as the last */
  assert_int_equal(rig.moment.now_ms - since, options.linger_ms);
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

static void test_looks_no_seldomer_than_the_poll(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO");
  for (rig_play(&rig, "wake"); rig.consumer.core.state == STATE_DRAINING; rig_play(&rig, "wake")) {
    rig_play(&rig, "READ NO");
    assert_uint_in_range(rig.consumer.epoch.read_ms - rig.moment.now_ms, 1, rig.consumer.core.options.poll_ms);
  }
}

static void test_four_blocks_wait_for_their_deletes(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; APPEND YES");
  for (int i = 0; i < 3; i++)
    rig_play_all(&rig, "READ YES; APPEND YES");
  rig_expect(&rig, STATE_DRAINING, ""); /* the fifth waits */
  assert_string_equal(rig_running(&rig), "READ DELETE DELETE DELETE");
  rig_play(&rig, "READ YES");
  rig_expect(&rig, STATE_DRAINING, ""); /* and so does reading ahead */
  rig_play(&rig, "DELETE YES:last");
  rig_expect(&rig, STATE_DRAINING, "DELETE"); /* of the fourth item; the first is not deleted yet */
  assert_int_equal(rig.consumer.core.settled, 100);
  rig_play(&rig, "DELETE YES");
  rig_expect(&rig, STATE_DRAINING, "APPEND READ");
  assert_int_equal(rig.consumer.core.settled, 110);
  rig_play(&rig, "DELETE YES");
  assert_int_equal(rig.consumer.core.settled, 130); /* the unbroken prefix */
  assert_int_equal(running(ACTIVITY_MAIN)->item->messages, 10);
}

/* A pass begins only after every delete is acknowledged. */
static void test_pass_waits_for_deletes(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND YES; READ UNKNOWN; wait 5000");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play_all(&rig, "DELETE UNKNOWN; wake");
  rig_expect(&rig, STATE_DRAINING, "DELETE");
  rig_play(&rig, "DELETE YES");
  rig_expect(&rig, STATE_DRAINING, "READ");
  assert_true(running(ACTIVITY_READ)->begin);
}

/*
 * A reply takes as long as its bytes come, perhaps longer than any other action. Reading does not touch the file, so the lease
 * goes on.
 */
static void test_slow_reply_keeps_the_lease(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING);
  for (int i = 0; i < 30; i++) {
    rig_play(&rig, "wait 10000");
    rig_expect(&rig, STATE_DRAINING, "RENEW");
    rig_play(&rig, "RENEW YES");
  }
  assert_false(rig_logged(&rig, "stall"));
  rig_play(&rig, "READ YES");
  rig_expect(&rig, STATE_DRAINING, "BEGIN READ");
}

/* But a holder that leaves does not wait for the reply: after a moment it drops the rest. */
static void test_slow_reply_does_not_keep_who_leaves(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; wait 200; stop");
  rig_expect(&rig, STATE_DRAINING, "");
  assert_int_equal(pause_ms(), 800);
  rig_play(&rig, "wake");
  rig_expect(&rig, STATE_DRAINING, "DROP");
  rig_play(&rig, "READ UNKNOWN");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

static void test_slow_reply_is_dropped_at_once(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; wait 5000; stop");
  rig_expect(&rig, STATE_DRAINING, "DROP");
}

/*
 * After five passes in a row without a message the holder releases the lock, because another worker may have a better link. It does
 * not compete again at once.
 */
static void test_gives_up_reading(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ UNKNOWN; wake; READ UNKNOWN; wake; READ UNKNOWN; wake; READ YES; BEGIN YES; "
                                 "APPEND YES; DELETE YES");
  for (int i = 0; i < 4; i++)
    rig_play_all(&rig, "READ UNKNOWN; wake");
  rig_expect(&rig, STATE_DRAINING, "READ");
  rig_play(&rig, "READ UNKNOWN");
  assert_true(rig_logged(&rig, "pass"));
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "");
  assert_true(pause_ms() >= 500);
  rig_play(&rig, "wake");
  rig_expect(&rig, STATE_IDLE, "POLL");
}

/* ---- waiting ---- */

static void test_waits_with_jitter(void **state)
{
  (void)state;
  int64_t least = INT64_MAX, most = 0;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO");
  for (int i = 0; i < 200; i++) {
    int64_t pause = pause_ms();
    least = pause < least ? pause : least;
    most = pause > most ? pause : most;
    rig_play_all(&rig, "wake; LOOK NO");
    if (rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "POLL YES");
  }
  rig_assert(&rig, least >= 50 && least < 70 && most <= 100 && most > 80);
}

static void test_wakes_at_the_end_of_the_lease(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; wake");
  rig.view.left_ms = 7;
  rig_play(&rig, "LOOK NO");
  assert_int_equal(pause_ms(), 8);
}

/* Logged once, and once more if the lock was in order meanwhile. */
static void test_a_lock_that_is_not_pawls(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK REFUSED");
  assert_true(rig_logged(&rig, "lock"));
  rig_play_all(&rig, "wait 1000; LOOK REFUSED");
  assert_false(rig_logged(&rig, "lock"));
  rig_play_all(&rig, "wait 1000; POLL YES; LOOK UNKNOWN; wake; LOOK REFUSED");
  assert_false(rig_logged(&rig, "lock"));
  rig_play_all(&rig, "wait 1000; LOOK NO; POLL YES; wake; LOOK REFUSED");
  assert_true(rig_logged(&rig, "lock"));
  rig_play_all(&rig, "wait 1000; LOOK YES; POLL YES; CHECK YES; TAKE NO; wake; LOOK REFUSED");
  assert_true(rig_logged(&rig, "lock"));
}

/* The holder may have written the last message a moment ago; the next one may come when it releases the lock. */
static void test_waiter_stays_while_another_holds(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; wait 1000; LOOK NO");
  rig_expect(&rig, STATE_WAITING, "POLL");
  assert_false(consumer_is_quiet(&rig.consumer));
  rig_play(&rig, "POLL NO");
  rig_expect(&rig, STATE_WAITING, "");
  assert_true(consumer_is_quiet(&rig.consumer)); /* --exit-when-empty need not wait for the holder */
  rig_play_all(&rig, "lock; LOOK YES; POLL YES; CHECK YES");
  rig_expect(&rig, STATE_TAKING, "TAKE");
}

static void test_waiter_goes_when_it_is_its_turn_and_the_queue_is_empty(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; lock; LOOK YES; POLL NO");
  rig_expect(&rig, STATE_UNLOCKING, "LEAVE");
  assert_false(running(ACTIVITY_MAIN)->calls); /* the others have nothing to wait for, either */
  rig_play(&rig, "LEAVE YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
}

/* Also where its queue is empty: the holder may be gone, and the next message is for another. */
static void test_a_waiter_that_stops_calls_the_next(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; wait 1000; LOOK NO; POLL NO; stop");
  rig_expect(&rig, STATE_UNLOCKING, "LEAVE");
  assert_true(running(ACTIVITY_MAIN)->calls);
}

/* It does not leave an entry behind that would be called when nobody is there. */
static void test_a_waiter_that_stops_leaves_the_queue(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; stop");
  rig_expect(&rig, STATE_UNLOCKING, "LEAVE");
  assert_true(running(ACTIVITY_MAIN)->calls);
  rig_play(&rig, "LEAVE UNKNOWN");
  rig_expect(&rig, STATE_DONE, "");
}

/* Unless nobody answers: its entry ends by itself, and the stop does not wait for that. */
static void test_a_waiter_stops_while_the_database_is_away(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; wake; LOOK UNKNOWN; stop");
  rig_expect(&rig, STATE_DONE, "");
}

/* Another was faster, and has released it already. */
static void test_called_after_another_was_faster(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_TAKING "; TAKE NO; lock");
  rig_expect(&rig, STATE_WAITING, "LOOK");
}

/* A take without an answer under an owner that is in the queue: both go. */
static void test_unknown_take_of_a_waiter(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; wake; LOOK YES; POLL YES; CHECK YES; TAKE UNKNOWN");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play(&rig, "UNLOCK YES");
  rig_expect(&rig, STATE_UNLOCKING, "LEAVE");
  rig_play(&rig, "LEAVE YES");
  rig_expect(&rig, STATE_IDLE, "");
}

/* A tool waits: the holder leaves after the block in hand, and not before it has got on. */
static void test_lets_a_tool_have_its_turn(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; wait 10000; RENEW YES:awaited");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play(&rig, "APPEND YES");
  rig_expect(&rig, STATE_DRAINING, "DELETE DROP");
  rig_play_all(&rig, "READ YES; DELETE YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES; POLL YES; CHECK YES");
  rig_expect(&rig, STATE_WAITING, "LOOK");
  rig_play_all(&rig, "LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ NO"); /* its turn is over: this hold is one of its own */
  rig_expect(&rig, STATE_DRAINING, "");
}

static void test_settling_is_enough_for_a_turn(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES; wait 10000; RENEW YES:awaited");
  rig_expect(&rig, STATE_SETTLING, ""); /* the first of three runs */
  rig_play(&rig, "SETTLE YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

/* Perhaps it is the command that makes space. */
static void test_a_full_disk_is_enough_for_a_turn(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ NO; APPEND NO_SPACE; wait 10000; RENEW YES:awaited; APPEND NO_SPACE");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

static void test_an_empty_pass_is_enough_for_a_turn(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; wait 10000; RENEW YES:awaited");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play(&rig, "READ NO");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

static void test_steal(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK NO; wake; LOOK YES:expired");
  rig_expect(&rig, STATE_WAITING, "POLL"); /* others have worked since the check */
  rig_play_all(&rig, "POLL YES; CHECK YES");
  rig_expect(&rig, STATE_TAKING, "TAKE");
  assert_true(running(ACTIVITY_MAIN)->acquisition.steal);
  assert_memory_equal(&running(ACTIVITY_MAIN)->acquisition.view.owner, &rig.view.owner, sizeof rig.view.owner);
  rig_play(&rig, "TAKE NO");
  rig_expect(&rig, STATE_WAITING, "");
  rig.view.stealable = false;
  rig_play_all(&rig, "wake; LOOK YES; POLL YES; CHECK YES");
  assert_false(running(ACTIVITY_MAIN)->acquisition.steal);
}

/* ---- counting ---- */

static void test_counts_what_is_committed(void **state)
{
  (void)state;
  const struct consumer_counts *counts = &rig.consumer.core.counts;
  assert_int_equal(rig.consumer.core.commit_ms, -1);
  rig_play_all(&rig, TO_APPENDING "; APPEND UNKNOWN; wake");
  assert_int_equal(counts->documents, 0);
  assert_int_equal(counts->acquisitions, 1);
  rig_play(&rig, "COMMIT YES");
  assert_int_equal(counts->documents, 10);
  assert_int_equal(counts->messages, 30);
  assert_int_equal(counts->blocks, 1);
  assert_int_equal(counts->bytes, rig.block_bytes);
  assert_int_equal(counts->deleted, 0);
  assert_int_equal(rig.consumer.core.commit_ms, rig.moment.now_ms);
  rig_play_all(&rig, "READ NO; DELETE UNKNOWN; wake; DELETE YES");
  assert_int_equal(counts->deleted, 10);
  rig_play_all(&rig, "READ YES; APPEND NO");
  assert_int_equal(counts->documents, 10);
  assert_int_equal(counts->problems[PROBLEM_FENCED], 1);
  assert_int_equal(counts->problems[PROBLEM_LOST], 0);
}

static void test_counts_what_it_settles_and_makes(void **state)
{
  (void)state;
  const struct consumer_counts *counts = &rig.consumer.core.counts;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES");
  while (rig.consumer.core.state == STATE_SETTLING)
    rig_play_all(&rig, "SETTLE YES");
  assert_int_equal(counts->deleted, 30);
  assert_int_equal(counts->documents, 0);

  struct consumer_options options = rig_options();
  rig_init(&rig, &options, 1);
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES:none; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES; BEGIN UNKNOWN:segment");
  assert_int_equal(counts->segments, 0);
  rig_play_all(&rig, "wake; COMMIT YES");
  assert_int_equal(counts->segments, 1);
  assert_int_equal(counts->bytes, 0);
}

static void test_who_holds_until_when(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_TAKING);
  assert_false(consumer_holds(&rig.consumer));
  assert_false(consumer_sees_nothing(&rig.consumer));
  int64_t taken = rig.moment.now_ms;
  rig_play_all(&rig, "TAKE YES; FENCE YES; OPEN YES");
  assert_true(consumer_holds(&rig.consumer));
  assert_int_equal(consumer_lease_end_ms(&rig.consumer), taken + rig_options().lease_ms);
  rig_play_all(&rig, "READ NO");
  assert_true(consumer_sees_nothing(&rig.consumer));
  rig_play_all(&rig, "wait 10000; RENEW NO");
  assert_false(consumer_holds(&rig.consumer));
  assert_int_equal(rig.consumer.core.counts.problems[PROBLEM_LOST], 1);
}

/* ---- unknown and lost ---- */

static void test_unknown_take_is_taken_back(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_TAKING "; TAKE UNKNOWN");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play(&rig, "UNLOCK UNKNOWN");
  rig_expect(&rig, STATE_UNLOCKING, "");
  rig_play(&rig, "wake");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play(&rig, "UNLOCK NO");
  rig_expect(&rig, STATE_IDLE, ""); /* not again at once */
}

static void test_unlock_gives_up_with_the_lease(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_TAKING "; TAKE UNKNOWN; wait 31000; UNLOCK UNKNOWN");
  assert_int_equal(rig.consumer.core.state, STATE_IDLE);
}

/*
 * The wake-up tells the next holder the epoch whose end is clean, because the ledger surely has that epoch. It never tells
 * another epoch.
 */
static void test_tells_the_epoch(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; wait 6000; CLOSE YES");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 8);
  rig_play_all(&rig, "UNLOCK UNKNOWN; wake");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 8);
  rig_play_all(&rig, "UNLOCK YES; POLL YES; CHECK YES; LOOK YES; TAKE UNKNOWN");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 0);
  rig_play_all(&rig, "UNLOCK NO; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE NO");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 0);
  rig_play_all(&rig, "UNLOCK YES; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ NO; wait 6000; CLOSE NO");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 0);
}

static void test_fence_lost(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE NO");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play(&rig, "UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
}

/* An unknown fence may be done: the consumer asks the ledger, and with its answer the epoch begins. */
static void test_unknown_fence_is_judged(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING);
  struct action first = *running(ACTIVITY_MAIN);
  assert_false(first.again);
  for (int i = 0; i < 3; i++) {
    rig_play_all(&rig, "FENCE UNKNOWN; wake");
    rig_expect(&rig, STATE_FENCING, "FENCE");
    const struct action *again = running(ACTIVITY_MAIN);
    assert_true(again->again && again->clean_seen == rig.ledger.clean);
    assert_int_equal(again->epoch_seen, first.epoch_seen);
    assert_memory_equal(&again->owner, &first.owner, sizeof first.owner);
  }
  rig_play_all(&rig, "FENCE YES:unclean; OPEN YES; READ YES");
  assert_int_equal(rig.consumer.core.epoch, first.epoch_seen + 1);
}

/* The consumer asks for two thirds of the lease, renewed or not. Then it releases the lock, because other workers may reach the database.
 */
static void test_unknown_fence_is_given_up(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE UNKNOWN; wait 10000; RENEW YES; FENCE UNKNOWN; wait 9000; FENCE UNKNOWN");
  rig_expect(&rig, STATE_FENCING, "");
  rig_play_all(&rig, "wait 3000");
  rig_expect(&rig, STATE_UNLOCKING, "RENEW UNLOCK");
  rig_play_all(&rig, "RENEW YES; UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, ""); /* not at once: otherwise it would try again without a pause */
}

static void test_unknown_fence_of_a_lost_lock(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; wait 10000; RENEW NO; FENCE UNKNOWN; wake");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
}

static void test_unknown_commit_is_sent_again(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND UNKNOWN; wake");
  rig_expect(&rig, STATE_DRAINING, "COMMIT");
  struct ledger_commit first = running(ACTIVITY_MAIN)->commit;
  for (int i = 0; i < 5; i++) {
    rig_play_all(&rig, "COMMIT UNKNOWN; wake");
    rig_expect(&rig, STATE_DRAINING, "COMMIT");
    assert_memory_equal(&running(ACTIVITY_MAIN)->commit, &first, sizeof first);
  }
  rig_play_all(&rig, "READ NO; COMMIT NO");
  assert_true(rig_logged(&rig, "fenced"));
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_false(running(ACTIVITY_MAIN)->write_close);
  rig_play(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK"); /* `clean` stays false */
}

/* After two thirds of the lease: no new block, no delete; a synced block is still sent to be committed. */
static void test_deadline(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; wait 10000; wait 9500; APPEND UNKNOWN; wait 500");
  rig_expect(&rig, STATE_DRAINING, "COMMIT");
  rig_play(&rig, "COMMIT YES");
  rig_expect(&rig, STATE_DRAINING, ""); /* neither DELETE nor APPEND */
  rig_play(&rig, "RENEW YES");          /* the lease counts from when the renewal was sent, so the next one is due */
  rig_expect(&rig, STATE_DRAINING, "RENEW APPEND DELETE");
}

/* The lease is lost, and no other holder came between: the holder leaves in order, and the end is clean. */
static void test_lost_lease(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; wait 10000; RENEW NO; APPEND UNKNOWN; wake");
  rig_expect(&rig, STATE_DRAINING, "COMMIT");
  rig_play_all(&rig, "COMMIT YES; READ YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->write_close);
  rig_play_all(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  assert_int_equal(rig.ledger.settled, 100); /* the next holder settles */
  assert_true(rig.ledger.clean);
}

static void test_renewal_of_an_earlier_lock(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; wait 10000; FENCE NO; UNLOCK YES; POLL YES; CHECK YES; LOOK YES; TAKE YES; RENEW NO");
  rig_expect(&rig, STATE_FENCING, "");
  rig_play_all(&rig, "FENCE YES; OPEN YES");
  rig_expect(&rig, STATE_DRAINING, "READ"); /* not lost */
}

/* A renewal that waited during the release reaches the server after the delete: it finds no lock, but no lease was lost. */
static void test_renewal_behind_the_unlock(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; wait 10000; CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play(&rig, "RENEW NO");
  assert_false(rig_logged(&rig, "lost"));
  assert_int_equal(rig.consumer.core.counts.problems[PROBLEM_LOST], 0);
  rig_play(&rig, "UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
}

static void test_stall(void **state)
{
  (void)state;
  rig_play(&rig, "wait 0");
  rig_play_all(&rig, "POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES");
  for (int i = 0; i < 8; i++) { /* a slow disk keeps the lease */
    rig_play(&rig, "wait 10000");
    rig_expect(&rig, STATE_DRAINING, "RENEW");
    rig_play(&rig, "RENEW YES");
  }
  rig_play(&rig, "wait 10000"); /* a stuck one does not: 90 s */
  rig_expect(&rig, STATE_DRAINING, "");
  assert_true(rig_logged(&rig, "stall"));
  rig_play(&rig, "wait 10000");
  rig_expect(&rig, STATE_DRAINING, "");
  assert_false(rig_logged(&rig, "stall"));
  rig_play_all(&rig, "READ NO; BEGIN YES; wake");
  rig_expect(&rig, STATE_DRAINING, "RENEW"); /* the write came back after all: does the lock still belong to this worker? */
  rig_play(&rig, "RENEW NO");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

/* ---- settling ---- */

static void test_settles_in_chunks(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES");
  for (int64_t settled = 70; settled < 100; settled += 10) {
    rig_expect(&rig, STATE_SETTLING, "SETTLE");
    rig_play_all(&rig, "SETTLE UNKNOWN; wake");
    rig_expect(&rig, STATE_SETTLING, "SETTLE");
    assert_int_equal(running(ACTIVITY_MAIN)->settled, settled);
    rig_play(&rig, "SETTLE YES");
  }
  rig_expect(&rig, STATE_DRAINING, "READ");
}

static void test_settling_that_fails_for_long(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED; wake; SETTLE YES; SETTLE REFUSED");
  for (int i = 0; i < 59; i++) { /* 60 s from the first failure in a row */
    rig_play_all(&rig, "wait 1000; SETTLE REFUSED");
    rig_expect(&rig, STATE_SETTLING, "");
    if (rig.slots[ACTIVITY_RENEW].running)
      rig_play(&rig, "RENEW YES");
  }
  rig_play_all(&rig, "wait 1000; SETTLE REFUSED; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_STOPPED, "");
}

/* Only a minute in which the files do not give the `_id`s counts: here MongoDB is away. */
static void test_settling_that_fails_now_and_then(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED; wake");
  for (int i = 0; i < 70; i++) {
    rig_play_all(&rig, "SETTLE UNKNOWN; wait 3000");
    if (rig.slots[ACTIVITY_RENEW].running)
      rig_play(&rig, "RENEW YES");
  }
  rig_play(&rig, "SETTLE REFUSED");
  rig_expect(&rig, STATE_SETTLING, "");
}

/* ---- the disk ---- */

static bool trusts(void)
{
  struct error ignored;
  return consumer_trusts(&rig.consumer, rig.moment.now_ms, &ignored);
}

/* The first block of a segment needs room before the segment is made; until then each attempt waits at the same place. */
static void test_no_space_for_a_segment(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES");
  rig_expect(&rig, STATE_DRAINING, "BEGIN READ");
  assert_int_equal(rig.slots[ACTIVITY_MAIN].action.block_bytes, rig.consumer.epoch.current->batch.bytes);
  rig_play(&rig, "BEGIN NO_SPACE");
  assert_true(rig_logged(&rig, "no-space"));
  rig_play(&rig, "wake");
  rig_expect(&rig, STATE_DRAINING, "BEGIN");
  rig_play_all(&rig, "BEGIN YES:segment; APPEND YES");
  assert_true(rig_logged(&rig, "no-space"));
}

static void test_no_space_then_space(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND NO_SPACE");
  assert_true(rig_logged(&rig, "no-space"));
  assert_false(trusts()); /* no messages are written: the worker is not ready */
  assert_int_equal(pause_ms(), 1000);
  rig_play_all(&rig, "wake; APPEND NO_SPACE");
  assert_false(rig_logged(&rig, "no-space")); /* logged once */
  rig_play_all(&rig, "wake; APPEND YES");
  assert_true(rig_logged(&rig, "no-space"));
  assert_true(trusts());
  rig_expect(&rig, STATE_DRAINING, "DELETE");
}

static void test_failing_disk_backs_off(void **state)
{
  (void)state;
  static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
  rig_play(&rig, "wait 0");
  for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
    rig_play_all(&rig, "POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES; BEGIN YES");
    rig_play_all(&rig, "READ NO; APPEND FAILED");
    rig_expect(&rig, STATE_RELEASING, "CLOSE");
    assert_false(running(ACTIVITY_MAIN)->write_close);
    rig_play_all(&rig, "CLOSE YES; UNLOCK YES");
    rig_expect(&rig, STATE_BACKING_OFF, "");
    assert_int_equal(pause_ms(), pauses[i]);
    assert_false(trusts()); /* nothing is written meanwhile */
    rig_play(&rig, "wake");
    rig_expect(&rig, STATE_IDLE, "POLL");
  }
  assert_false(rig.ledger.clean);
}

/* A block that reached the disk ends the run of failures. */
static void test_good_disk_ends_the_row(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ NO; APPEND FAILED; CLOSE YES; UNLOCK YES; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES");
  rig_play_all(&rig, "FENCE YES; OPEN YES; READ YES; BEGIN YES; READ YES; APPEND YES");
  rig_play_all(&rig, "READ NO; DELETE YES; APPEND FAILED; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_BACKING_OFF, "");
  assert_int_equal(pause_ms(), 1000);
}

/* CLOSE, or the close of the file, failed: the end is not clean, and the worker pauses. */
static void test_failing_close(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND YES; READ NO; DELETE YES; READ NO; wait 6000; CLOSE FAILED");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play(&rig, "UNLOCK YES");
  rig_expect(&rig, STATE_BACKING_OFF, "");
  assert_int_equal(pause_ms(), 1000);
}

/* Asked to stop between two steps: what was begun is undone; if a segment is left, `clean` is not restored. */
static void test_stopped_while_it_begins(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES; READ NO; stop");
  assert_int_equal(consumer_until_ms(&rig.consumer), 0);
  rig_play(&rig, "BEGIN STOPPED");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->commits);
}

static void test_stopped_and_a_segment_is_left(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES; READ NO; stop; BEGIN STOPPED:left");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_false(running(ACTIVITY_MAIN)->commits);
  rig_play(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
}

/* An action looks between its steps at how long it may go on: as long as a new one may begin. */
static void test_how_long_an_action_may_go_on(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES");
  assert_int_equal(consumer_until_ms(&rig.consumer) - rig.moment.now_ms, 20000);
  rig_play_all(&rig, "wait 10000; RENEW YES");
  assert_int_equal(consumer_until_ms(&rig.consumer) - rig.moment.now_ms, 20000);
  rig_play_all(&rig, "wait 10000; RENEW NO");
  assert_int_equal(consumer_until_ms(&rig.consumer), 0);
}

/* The commit of the segment was sent and not answered: the ledger may name it, so it is neither unlinked nor given up. */
static void test_segment_perhaps_named(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES; READ NO; BEGIN UNKNOWN:segment; stop; wake");
  rig_expect(&rig, STATE_DRAINING, "COMMIT");
  rig_play(&rig, "COMMIT YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(!running(ACTIVITY_MAIN)->write_close && running(ACTIVITY_MAIN)->commits);
}

/* Whether the epoch is still its own is not known: nothing was begun, so it begins anew. */
static void test_begins_anew(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES; READ NO; BEGIN UNKNOWN; wake");
  rig_expect(&rig, STATE_DRAINING, "BEGIN");
}

static void test_spent_name(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ YES; READ NO; BEGIN SPENT");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_false(running(ACTIVITY_MAIN)->commits); /* no `clean` */
  rig_play(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
}

static void test_roll(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND YES:large; READ YES; DELETE YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  rig_play_all(&rig, "CLOSE YES");
  rig_expect(&rig, STATE_FENCING, "FENCE"); /* under the same lock */
  assert_int_equal(running(ACTIVITY_MAIN)->epoch_seen, 8);
  rig_play_all(&rig, "FENCE YES:clean; OPEN YES; READ YES");
  rig_expect(&rig, STATE_DRAINING, "BEGIN READ");
  assert_true(running(ACTIVITY_MAIN)->fresh);
  assert_string_equal(running(ACTIVITY_MAIN)->reason, "roll");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 9);
}

/* A holder whose lock is lost by then does not fence again. */
static void test_roll_after_the_lease(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND YES:large; READ YES; DELETE YES; CLOSE UNKNOWN; wait 10000; RENEW NO; COMMIT YES");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
}

/* A roll waits for all deletes, so that the holder has nothing to settle after it. */
static void test_roll_waits_for_the_deletes(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ NO; APPEND YES:large; DELETE UNKNOWN");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play(&rig, "wake");
  rig_expect(&rig, STATE_DRAINING, "DELETE");
  rig_play(&rig, "DELETE YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

static void test_roll_and_nothing_to_write(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; APPEND YES:large; READ NO; DELETE YES; CLOSE YES; FENCE YES:clean; OPEN YES");
  rig_play_all(&rig, "READ NO; wait 6000");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->commits); /* `clean` becomes true again */
}

/* ---- storage that disagrees ---- */

static void test_distrust(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED");
  assert_true(rig_logged(&rig, "untrusted"));
  int64_t since = rig.moment.now_ms;
  while (rig.consumer.core.state == STATE_CHECKING) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "wake");
    rig_play(&rig, rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? "POLL YES" : "CHECK REFUSED");
  }
  rig_expect(&rig, STATE_STOPPED, "");
  rig_assert(&rig, rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 62000);
  assert_true(consumer_is_over(&rig.consumer));
  assert_false(rig.consumer.core.refused);
}

/* This machine may see each new segment late: when the segment that was missing is there by now, the minute begins anew. */
static void test_distrust_begins_anew_with_a_segment_that_came_late(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED; wait 59500; POLL YES");
  rig.late_files = true;
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@9.bin");
  rig_play_all(&rig, "wait 900; CHECK REFUSED; wait 59500; POLL YES; CHECK REFUSED");
  rig_expect(&rig, STATE_CHECKING, "");
  rig_play_all(&rig, "wait 1000; POLL YES; CHECK REFUSED");
  rig_expect(&rig, STATE_STOPPED, "");
}

/* The consumer checks for the segment that was missing first until it is there, however many came since. */
static void test_distrust_of_segments_that_come_faster_than_they_are_seen(void **state)
{
  (void)state;
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@8.bin");
  rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED; wait 30000; POLL YES");
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@9.bin");
  rig_play_all(&rig, "CHECK REFUSED; wait 29500; POLL YES");
  assert_string_equal(rig.slots[ACTIVITY_MAIN].action.missed, "t1@8.bin");
  rig.late_files = true;
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@10.bin");
  rig_play_all(&rig, "CHECK REFUSED; wait 59500; POLL YES");
  assert_string_equal(rig.slots[ACTIVITY_MAIN].action.missed, "t1@10.bin");
  rig_play(&rig, "CHECK REFUSED");
  rig_expect(&rig, STATE_CHECKING, "");
}

/* A wrong directory has neither the old segment nor the new one. */
static void test_distrust_of_segments_that_never_come(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED; wait 59500; POLL YES");
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@9.bin");
  rig_play_all(&rig, "CHECK REFUSED; wait 500");
  if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
    rig_play(&rig, "POLL YES");
  rig_play(&rig, "CHECK REFUSED");
  rig_expect(&rig, STATE_STOPPED, "");
}

/*
 * The minute lasts from the first failed check to the first good one. Neither an empty queue ends it, nor a ledger that moved
 * or could not be read.
 */
static void test_distrust_has_no_break_but_a_good_look(void **state)
{
  static const char *const betweens[] = {"POLL NO; CHECK REFUSED; POLL NO; message; POLL YES", "POLL YES; CHECK CHANGED; wait 2000",
                                         "POLL YES; CHECK UNKNOWN; wait 2000"};
  (void)state;
  for (size_t i = 0; i < sizeof betweens / sizeof betweens[0]; i++) {
    teardown(NULL), setup(NULL);
    rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED; wait 30000");
    rig_play_all(&rig, betweens[i]);
    if (rig.slots[ACTIVITY_MAIN].running && rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      rig_play(&rig, "POLL YES");
    rig_play_all(&rig, "CHECK REFUSED; wait 30000; POLL YES; CHECK REFUSED");
    rig_expect(&rig, STATE_STOPPED, "");
    teardown(NULL), setup(NULL);
    rig_play_all(&rig,
                 "wait 0; POLL YES; CHECK REFUSED; wait 30000; POLL YES; CHECK YES; LOOK NO; wake; LOOK YES; POLL YES; CHECK REFUSED");
    rig_play_all(&rig, "wait 59000; POLL YES; CHECK REFUSED");
    rig_expect(&rig, STATE_CHECKING, "");
  }
}

/* The consumer stops as it announced: the queue may be empty when the minute is over. */
static void test_distrust_stops_with_an_empty_queue(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED");
  int64_t since = rig.moment.now_ms;
  int notes = 0;
  while (rig.consumer.core.state != STATE_STOPPED && rig.moment.now_ms - since < 100000) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "wake");
    rig_play(&rig, rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? "POLL NO" : "CHECK REFUSED");
    notes += rig_logged(&rig, "untrusted");
  }
  rig_expect(&rig, STATE_STOPPED, "");
  rig_assert(&rig, rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 62000);
  assert_int_equal(notes, 1); /* the verdict: the stop is logged once */
}

/* A failure while settling, under another lock, does not count in a later check. */
static void test_distrust_does_not_outlive_the_epoch(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED; wait 10000; RENEW NO; SETTLE REFUSED");
  rig_play_all(&rig, "CLOSE NO; UNLOCK NO; POLL NO; wait 100000; CHECK UNKNOWN; POLL YES; CHECK REFUSED");
  rig_expect(&rig, STATE_CHECKING, "");
}

/* ---- storage checks beside polls and lock reads ---- */

/* Polls, and reads the lock, until CHECK runs; `peek` is the answer to a poll. */
static void until_check(const char *peek)
{
  for (int events = 0; !rig.slots[ACTIVITY_MAIN].running || rig.slots[ACTIVITY_MAIN].action.kind != ACTION_CHECK; events++) {
    rig_assert(&rig, events < 5000);
    if (!rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "wake");
    else
      rig_play(&rig, rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? peek : "LOOK NO");
  }
}

/*
 * An idle consumer checks the storage at the start and every minute; after a failed check every second, even for hours, until a
 * check succeeds. Polls go on as before.
 */
static void test_idle_looks_at_the_storage(void **state)
{
  (void)state;
  rig_play(&rig, "wait 0");
  assert_false(trusts());
  rig_play(&rig, "POLL NO");
  rig_expect(&rig, STATE_IDLE, "CHECK");
  assert_false(trusts());
  rig_play(&rig, "CHECK YES");
  assert_true(trusts());
  assert_true(consumer_is_quiet(&rig.consumer));
  assert_uint_in_range(pause_ms(), 50, 100);
  int64_t looked = rig.moment.now_ms;
  until_check("POLL NO");
  rig_assert(&rig, rig.moment.now_ms - looked >= 60000 && rig.moment.now_ms - looked < 62000);
  rig_play(&rig, "CHECK REFUSED");
  rig_expect(&rig, STATE_IDLE, "");
  assert_true(rig_logged(&rig, "untrusted"));
  assert_false(trusts());
  int checks = 0;
  for (int64_t since = rig.moment.now_ms; rig.moment.now_ms - since < 600000;) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "wake");
    checks += rig.slots[ACTIVITY_MAIN].action.kind == ACTION_CHECK;
    rig_play(&rig, rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? "POLL NO" : "CHECK REFUSED");
    rig_assert(&rig, rig.consumer.core.state == STATE_IDLE && !rig_logged(&rig, "untrusted"));
  }
  assert_uint_in_range(checks, 500, 601);
  until_check("POLL NO");
  rig_play(&rig, "CHECK YES");
  assert_true(rig_logged(&rig, "trusted") && trusts());
}

/* The minute begins with the message that waits, not with the check that failed hours ago. */
static void test_distrust_of_an_idle_one_counts_from_its_first_message(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL NO; CHECK REFUSED; wait 500000; CHECK REFUSED; POLL NO; message; POLL YES; CHECK REFUSED");
  rig_expect(&rig, STATE_CHECKING, "");
  assert_true(rig_logged(&rig, "untrusted"));
  rig_play_all(&rig, "wait 60000; POLL YES; CHECK REFUSED");
  rig_expect(&rig, STATE_STOPPED, "");
}

/* While a check runs, a wake-up is neither delayed nor lost. */
static void test_woken_while_looking_at_the_storage(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL NO; message; CHECK YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
  teardown(NULL), setup(NULL);
  rig_play_all(&rig, "wait 0; POLL UNKNOWN; wake; POLL NO; CHECK UNKNOWN");
  rig_expect(&rig, STATE_IDLE, "");
  assert_uint_in_range(pause_ms(), 50, 100);
}

/* A waiting consumer checks the storage every minute, too; its place in the wait queue and its pause stay as they are. */
static void test_waiting_looks_at_the_storage(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; watch; LOOK NO; LOOK NO");
  int64_t since = rig.moment.now_ms;
  until_check("POLL YES");
  rig_assert(&rig, rig.consumer.core.state == STATE_WAITING && rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 62000);
  assert_true(rig.consumer.seek.acquisition.queued);
  rig_play(&rig, "CHECK YES");
  assert_true(rig.consumer.core.state == STATE_WAITING && rig.consumer.seek.acquisition.queued && trusts());
  rig.consumer.trust.due_ms = rig.moment.now_ms; /* the next check */
  rig_play(&rig, "wait 0");
  until_check("POLL YES");
  rig_play(&rig, "CHECK REFUSED");
  rig_expect(&rig, STATE_CHECKING, "");
  assert_true(rig_logged(&rig, "untrusted") && !trusts());
}

/* A check that hangs on a dead disk makes the worker not ready, too. */
static void test_a_look_that_hangs(void **state)
{
  (void)state;
  rig_play(&rig, "wait 0");
  until_check("POLL NO");
  rig_play(&rig, "CHECK YES");
  until_check("POLL NO");
  assert_true(trusts());
  rig_play(&rig, "wait 20000");
  assert_false(trusts());
  rig_play(&rig, "CHECK YES");
  assert_true(trusts());
}

/*
 * The check succeeds and the opening fails (no right to write, damage before the last block): the consumer pauses, and believes
 * the failure in the end.
 */
static void test_open_refused(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES");
  int64_t since = rig.moment.now_ms;
  int epochs = 0;
  while (rig.consumer.core.state == STATE_CHECKING && epochs < 100) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "wake");
    if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      rig_play(&rig, "POLL YES");
    rig_play_all(&rig, "CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES");
    epochs++;
  }
  rig_expect(&rig, STATE_STOPPED, "");
  rig_assert(&rig, rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 65000);
}

/* The same failure twice, more than a minute apart, and others wrote meanwhile: each was a passing fault. */
static void test_open_refused_long_ago(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES");
  rig_play_all(&rig, "CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES");
  rig_play_all(&rig, "wait 1000; POLL YES; CHECK YES; LOOK NO; wait 70000; CHECK YES; LOOK YES; POLL YES; CHECK YES:moved");
  rig_play_all(&rig, "TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_CHECKING, "");
}

/* Others committed after the check: nothing is known yet about the end that they made. */
static void test_open_refused_at_another_end(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES");
  rig_play_all(&rig, "CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES; wait 70000; POLL YES; CHECK YES");
  assert_false(trusts()); /* the check only reads */
  rig_play_all(&rig, "LOOK YES; TAKE YES; FENCE YES:moved; OPEN REFUSED; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_CHECKING, "");
}

/* However long it takes: another worker may already run the newer pawl that can append to the file. */
static void test_open_newer_stands_by(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN NEWER; CLOSE YES; UNLOCK YES");
  rig_play_all(&rig, "wait 70000; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES:clean; OPEN NEWER; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_CHECKING, "");
}

/* A ledger of a newer pawl is no fault of the storage: it ends a minute that had begun. */
static void test_newer_ends_the_minute(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK REFUSED; wait 30000; POLL YES; CHECK NEWER; wait 40000; POLL YES; CHECK REFUSED");
  rig_expect(&rig, STATE_CHECKING, "");
}

static void test_newer_stands_by(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK NEWER");
  assert_true(rig_logged(&rig, "newer"));
  for (int i = 0; i < 200; i++) {
    rig_play(&rig, "wake");
    if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      rig_play(&rig, "POLL YES");
    rig_play(&rig, "CHECK NEWER");
    rig_expect(&rig, STATE_CHECKING, "");
    assert_false(rig_logged(&rig, "newer")); /* logged once, and no exit 74 */
  }
  rig_play_all(&rig, "wake; POLL NO; POLL NO; CHECK NEWER"); /* another worker has drained the queue: --exit-when-empty can end */
  assert_true(consumer_is_quiet(&rig.consumer));
}

/* Committed messages are in the queue, and no delete removes them: the holder commits what is written, and the type stops. */
static void test_delete_refused(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; APPEND YES");
  assert_string_equal(rig_running(&rig), "APPEND READ DELETE");
  rig_play(&rig, "DELETE LEFT");
  rig_expect(&rig, STATE_DRAINING, "");
  assert_true(rig_logged(&rig, "refused"));
  rig_play_all(&rig, "READ YES; APPEND YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE"); /* no delete of the second item, and no pass */
  assert_int_equal(running(ACTIVITY_MAIN)->commit.settled, 100);
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
}

/* While a block is under way for long, no other delete begins beside it. */
static void test_delete_refused_is_the_last(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; APPEND YES; READ NO; DELETE LEFT; wait 4000");
  rig_expect(&rig, STATE_DRAINING, "");
  assert_string_equal(rig_running(&rig), "APPEND");
}

/* The database check fails when a holder begins a pass: the holder releases the lock, and stops as an idle consumer does. */
static void test_read_refused(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ REFUSED");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(rig_logged(&rig, "refused"));
  assert_false(rig_logged(&rig, "pass"));
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
}

/* When several deletes are refused, the first one gives the logged reason. */
static void test_deletes_refused_are_told_once(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; APPEND YES; READ YES; APPEND YES; DELETE LEFT");
  assert_true(rig_logged(&rig, "refused"));
  assert_string_equal(rig.effects.events[0].text, "DELETE came back LEFT");
  rig_play(&rig, "DELETE LEFT");
  assert_false(rig_logged(&rig, "refused"));
}

/* An epoch that is over anyway ends as usual: the next holder that settles meets the refusal again. */
static void test_delete_refused_too_late(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; APPEND YES; READ NO; APPEND FAILED; DELETE LEFT; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_BACKING_OFF, "");
  assert_false(rig.consumer.core.refused);
}

/* The next epoch finds out again: it deletes, and a later stop is not taken for one of the database's. */
static void test_delete_refused_and_fenced(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; APPEND YES; READ NO; DELETE LEFT");
  assert_true(rig.consumer.core.refused);
  rig_play_all(&rig, "APPEND NO; CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_IDLE, "POLL");
  assert_false(rig.consumer.core.refused);
}

static void test_settling_delete_refused(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE LEFT");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  assert_true(rig_logged(&rig, "refused"));
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
  assert_int_equal(rig.ledger.settled, 70);
}

/* A document that cannot be taken is named, and stops nothing: the pass goes on, and an idle consumer stays idle. */
static void test_document_named(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL NO:named");
  assert_int_equal(rig.consumer.core.state, STATE_IDLE);
  assert_true(rig_logged(&rig, "document"));
  rig_play_all(&rig, "CHECK YES; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES:named");
  rig_expect(&rig, STATE_DRAINING, "READ");
  assert_true(rig_logged(&rig, "document"));
  assert_false(running(ACTIVITY_READ)->begin);
  rig_play_all(&rig, "READ NO; wait 6000");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

static void test_database_refused(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL REFUSED");
  rig_expect(&rig, STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
}

/* ---- stop ---- */

/* The holder finishes the current batch; batches that are only read stay in the queue. */
static void test_stop_in_a_backlog(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_APPENDING "; READ YES; stop; APPEND YES; READ YES");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play(&rig, "DELETE YES");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
  rig_play_all(&rig, "CLOSE YES; UNLOCK YES");
  rig_expect(&rig, STATE_DONE, "");
  assert_int_equal(rig.ledger.end.seq, 110);
}

/* One lost answer does not leave the lock to its lease; and a database that is away does not keep the process from exiting. */
static void test_stop_while_the_database_is_away(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; stop; CLOSE UNKNOWN; wake");
  rig_expect(&rig, STATE_RELEASING, "COMMIT");
  rig_play_all(&rig, "COMMIT YES; UNLOCK UNKNOWN; wake");
  rig_expect(&rig, STATE_UNLOCKING, "UNLOCK");
  rig_play_all(&rig, "wait 4000; UNLOCK UNKNOWN");
  rig_expect(&rig, STATE_DONE, "");
}

/* ---- wake-ups ---- */

static void test_polls_are_slow_while_wakeups_come(void **state)
{
  (void)state;
  rig_play_all(&rig, IDLE);
  assert_uint_in_range(pause_ms(), 50, 100);
  rig_play(&rig, "watch");
  rig_expect(&rig, STATE_IDLE, "POLL");
  rig_play(&rig, "POLL NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
  rig_play(&rig, "watch"); /* nothing new */
  rig_expect(&rig, STATE_IDLE, "");
  rig_play_all(&rig, "unwatch; POLL NO");
  assert_uint_in_range(pause_ms(), 50, 100);
}

static void test_waits_for_a_wakeup(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES");
  assert_false(rig.effects.actions[0].acquisition.listens);
  rig_play_all(&rig, "LOOK NO; watch");
  rig_expect(&rig, STATE_WAITING, "LOOK");
  assert_true(rig.effects.actions[0].acquisition.listens);
  rig_play(&rig, "LOOK NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
  rig_play_all(&rig, "wait 400; lock");
  rig_expect(&rig, STATE_WAITING, "LOOK");
  rig.view.left_ms = 300; /* no later than the end of the lease */
  rig_play(&rig, "LOOK NO");
  assert_uint_in_range(pause_ms(), 1, 301);
  rig_play_all(&rig, "wait 200; lock; LOOK YES; POLL YES; CHECK YES");
  rig_expect(&rig, STATE_TAKING, "TAKE");
  rig_play(&rig, "TAKE NO"); /* another was faster: it looks again soon */
  assert_uint_in_range(pause_ms(), 50, 100);
}

/* It was for an acquisition that is over: somebody else's turn may be now. */
static void test_a_late_wakeup_is_ignored(void **state)
{
  (void)state;
  struct event event = {.kind = EVENT_WAKE, .about = WAKEUP_LOCK, .owner = {{1, 2, 3}}};
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; watch; LOOK NO; LOOK NO");
  int64_t before = pause_ms();
  consumer_handle(&rig.consumer, &event, &rig.moment, &rig.effects);
  rig_expect(&rig, STATE_WAITING, "");
  assert_int_equal(pause_ms(), before);
}

/* Called, and the queue was empty at that moment: for a while a message may be seen by this process alone. */
static void test_called_and_nothing_to_do(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; POLL YES; CHECK YES; watch; LOOK NO; LOOK NO; lock; LOOK YES; POLL NO; LEAVE YES; POLL NO");
  rig_expect(&rig, STATE_IDLE, "");
  assert_uint_in_range(pause_ms(), 50, 100);
  rig_play_all(&rig, "wait 1000; POLL NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
}

/* A poll that was under way may be older than the wake-up. */
static void test_woken_while_looking(void **state)
{
  (void)state;
  rig_play_all(&rig, IDLE "; watch; message; POLL NO");
  rig_expect(&rig, STATE_IDLE, "POLL");
  rig_play(&rig, "POLL NO");
  assert_uint_in_range(pause_ms(), 500, 1000);
}

/* When so much was deleted that a poll takes 100 ms, the consumer polls rarely, and not always from the beginning. */
static void test_dear_looks_are_rare(void **state)
{
  (void)state;
  rig.nothing_read = true;
  rig_play_all(&rig, "wait 0; wait 100; POLL NO; CHECK YES");
  assert_uint_in_range(pause_ms(), 1000, 2000);
  rig_play_all(&rig, "wake; wait 5000; POLL NO");
  assert_uint_in_range(pause_ms(), 5000, 10000);
  rig_play_all(&rig, "watch; POLL NO; message");
  rig_expect(&rig, STATE_IDLE, "POLL"); /* at once all the same */
}

static void test_glances_between_dear_looks(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; wait 100; POLL NO; CHECK YES");
  int glances = 0;
  for (int64_t since = rig.moment.now_ms; rig.moment.now_ms - since < 3000; glances++) {
    assert_uint_in_range(pause_ms(), 50, 100); /* a tail poll costs nothing */
    rig_play(&rig, "wake");
    if (!rig.effects.actions[0].tail)
      break;
    rig_play(&rig, "POLL NO");
  }
  assert_uint_in_range(glances, 20, 40);
  rig_expect(&rig, STATE_IDLE, "POLL");
  assert_false(rig.effects.actions[0].tail);
  rig_play_all(&rig, "wait 100; POLL NO; wake; wait 100; POLL NO");
  assert_uint_in_range(pause_ms(), 1000, 2000); /* unless it does */
  rig_play_all(&rig, "message; POLL UNKNOWN");
  assert_uint_in_range(pause_ms(), 50, 100);
  rig.consumer.core.options.look_share = 60; /* one of three types */
  rig_play_all(&rig, "wake; wait 100; POLL NO");
  assert_uint_in_range(pause_ms(), 3000, 6000);
}

/* The poll went over so much that there was no answer in time: the next one would get none, too. */
static void test_glances_after_a_look_without_an_answer(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; wait 3000; POLL UNKNOWN; wake");
  rig_expect(&rig, STATE_IDLE, "POLL");
  assert_true(rig.effects.actions[0].tail);
  rig_play_all(&rig, "POLL YES; CHECK YES; LOOK YES");
  rig_expect(&rig, STATE_TAKING, "TAKE");
}

static void test_wakeups_do_not_shorten_a_back_off(void **state)
{
  (void)state;
  rig_play_all(&rig, "wait 0; watch; POLL UNKNOWN");
  int64_t before = pause_ms();
  rig_play_all(&rig, "message; message; lock; lost");
  rig_expect(&rig, STATE_IDLE, "");
  assert_int_equal(pause_ms(), before);
}

/* Nor do wake-ups end the pause after a pass that failed. */
static void test_wakeups_do_not_begin_the_next_pass(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ UNKNOWN; message");
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play(&rig, "wake");
  rig_expect(&rig, STATE_DRAINING, "READ");
}

/* 100 ms, doubling to 3 s, with jitter: half to all of it. */
static void test_pauses_grow_while_nothing_answers(void **state)
{
  (void)state;
  static const int64_t pauses[] = {100, 200, 400, 800, 1600, 3000, 3000, 3000};
  rig_play(&rig, "wait 0");
  for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
    rig_play(&rig, "POLL UNKNOWN");
    assert_uint_in_range(pause_ms(), pauses[i] / 2, pauses[i]);
    rig_play(&rig, "wake");
  }
}

static void test_told_that_the_lease_is_lost(void **state)
{
  (void)state;
  rig_play_all(&rig, TO_DRAINING "; READ NO; lost");
  rig_expect(&rig, STATE_DRAINING, "RENEW");
  rig_play(&rig, "RENEW YES"); /* somebody made it up */
  rig_expect(&rig, STATE_DRAINING, "");
  rig_play_all(&rig, "lost; RENEW NO");
  rig_expect(&rig, STATE_RELEASING, "CLOSE");
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
  const struct CMUnitTest tests[] = {
      STORY(test_happy_path),
      STORY(test_first_segment),
      STORY(test_counts_what_is_committed),
      STORY(test_counts_what_it_settles_and_makes),
      STORY(test_who_holds_until_when),
      STORY(test_polls_are_slow_while_wakeups_come),
      STORY(test_waits_for_a_wakeup),
      STORY(test_a_late_wakeup_is_ignored),
      STORY(test_called_and_nothing_to_do),
      STORY(test_woken_while_looking),
      STORY(test_dear_looks_are_rare),
      STORY(test_glances_between_dear_looks),
      STORY(test_glances_after_a_look_without_an_answer),
      STORY(test_wakeups_do_not_shorten_a_back_off),
      STORY(test_pauses_grow_while_nothing_answers),
      STORY(test_wakeups_do_not_begin_the_next_pass),
      STORY(test_told_that_the_lease_is_lost),
      STORY(test_begins_by_what_the_fence_found),
      STORY(test_nothing_written),
      STORY(test_lingered_while_a_pass_runs),
      STORY(test_let_go_of_an_empty_queue),
      STORY(test_let_go_and_told_of_a_message),
      STORY(test_let_go_after_the_lease),
      STORY(test_linger),
      STORY(test_looks_less_and_less_while_lingering),
      STORY(test_looks_no_seldomer_than_the_poll),
      STORY(test_four_blocks_wait_for_their_deletes),
      STORY(test_pass_waits_for_deletes),
      STORY(test_slow_reply_keeps_the_lease),
      STORY(test_slow_reply_does_not_keep_who_leaves),
      STORY(test_slow_reply_is_dropped_at_once),
      STORY(test_gives_up_reading),
      STORY(test_waits_with_jitter),
      STORY(test_wakes_at_the_end_of_the_lease),
      STORY(test_a_lock_that_is_not_pawls),
      STORY(test_waiter_stays_while_another_holds),
      STORY(test_waiter_goes_when_it_is_its_turn_and_the_queue_is_empty),
      STORY(test_a_waiter_that_stops_calls_the_next),
      STORY(test_a_waiter_that_stops_leaves_the_queue),
      STORY(test_a_waiter_stops_while_the_database_is_away),
      STORY(test_called_after_another_was_faster),
      STORY(test_a_full_disk_is_enough_for_a_turn),
      STORY(test_unknown_take_of_a_waiter),
      STORY(test_lets_a_tool_have_its_turn),
      STORY(test_settling_is_enough_for_a_turn),
      STORY(test_an_empty_pass_is_enough_for_a_turn),
      STORY(test_steal),
      STORY(test_unknown_take_is_taken_back),
      STORY(test_unlock_gives_up_with_the_lease),
      STORY(test_tells_the_epoch),
      STORY(test_fence_lost),
      STORY(test_unknown_fence_is_judged),
      STORY(test_unknown_fence_is_given_up),
      STORY(test_unknown_fence_of_a_lost_lock),
      STORY(test_unknown_commit_is_sent_again),
      STORY(test_deadline),
      STORY(test_lost_lease),
      STORY(test_renewal_of_an_earlier_lock),
      STORY(test_renewal_behind_the_unlock),
      STORY(test_stall),
      STORY(test_settles_in_chunks),
      STORY(test_settling_that_fails_for_long),
      STORY(test_settling_that_fails_now_and_then),
      STORY(test_no_space_for_a_segment),
      STORY(test_no_space_then_space),
      STORY(test_failing_disk_backs_off),
      STORY(test_good_disk_ends_the_row),
      STORY(test_failing_close),
      STORY(test_stopped_while_it_begins),
      STORY(test_stopped_and_a_segment_is_left),
      STORY(test_how_long_an_action_may_go_on),
      STORY(test_begins_anew),
      STORY(test_segment_perhaps_named),
      STORY(test_spent_name),
      STORY(test_roll),
      STORY(test_roll_after_the_lease),
      STORY(test_roll_waits_for_the_deletes),
      STORY(test_roll_and_nothing_to_write),
      STORY(test_distrust),
      STORY(test_distrust_begins_anew_with_a_segment_that_came_late),
      STORY(test_distrust_of_segments_that_come_faster_than_they_are_seen),
      STORY(test_distrust_of_segments_that_never_come),
      STORY(test_distrust_has_no_break_but_a_good_look),
      STORY(test_distrust_stops_with_an_empty_queue),
      STORY(test_distrust_does_not_outlive_the_epoch),
      STORY(test_idle_looks_at_the_storage),
      STORY(test_distrust_of_an_idle_one_counts_from_its_first_message),
      STORY(test_woken_while_looking_at_the_storage),
      STORY(test_waiting_looks_at_the_storage),
      STORY(test_a_look_that_hangs),
      STORY(test_open_refused),
      STORY(test_open_refused_long_ago),
      STORY(test_open_refused_at_another_end),
      STORY(test_newer_stands_by),
      STORY(test_open_newer_stands_by),
      STORY(test_newer_ends_the_minute),
      STORY(test_delete_refused),
      STORY(test_delete_refused_is_the_last),
      STORY(test_read_refused),
      STORY(test_deletes_refused_are_told_once),
      STORY(test_delete_refused_too_late),
      STORY(test_delete_refused_and_fenced),
      STORY(test_settling_delete_refused),
      STORY(test_document_named),
      STORY(test_database_refused),
      STORY(test_stop_in_a_backlog),
      STORY(test_stop_while_the_database_is_away),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
