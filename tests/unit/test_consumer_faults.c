/* The consumer's stories: answers that are lost, locks that are lost, and disks that fail. */
#include "consumer_stories.h"

/* ---- unknown and lost ---- */

STORY(test_unknown_take_is_taken_back)
{
  STEP(TO_TAKING "; TAKE UNKNOWN", STATE_UNLOCKING, "UNLOCK");
  STEP("UNLOCK UNKNOWN", STATE_UNLOCKING, "");
  STEP("wake", STATE_UNLOCKING, "UNLOCK");
  STEP("UNLOCK NO", STATE_IDLE, ""); /* not again at once */
}

STORY(test_unlock_gives_up_with_the_lease)
{
  play(TO_TAKING "; TAKE UNKNOWN; wait 31000; UNLOCK UNKNOWN");
  assert_int_equal(rig.consumer.core.state, STATE_IDLE);
}

/*
 * The wake-up tells the next holder the epoch whose end is clean, because the ledger surely has that epoch. It never tells
 * another epoch.
 */
STORY(test_tells_the_epoch)
{
  play(TO_DRAINING "; READ NO; wait 6000; CLOSE YES");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 8);
  play("UNLOCK UNKNOWN; wake");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 8);
  play("UNLOCK YES; POLL YES; CHECK YES; LOOK YES; TAKE UNKNOWN");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 0);
  play("UNLOCK NO; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE NO");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 0);
  play("UNLOCK YES; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ NO; wait 6000; CLOSE NO");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 0);
}

STORY(test_fence_lost)
{
  STEP(TO_FENCING "; FENCE NO", STATE_UNLOCKING, "UNLOCK");
  STEP("UNLOCK YES", STATE_IDLE, "POLL");
}

/* An unknown fence may be done: the consumer asks the ledger, and with its answer the epoch begins. */
STORY(test_unknown_fence_is_judged)
{
  play(TO_FENCING);
  struct action first = *running(ACTIVITY_MAIN);
  assert_false(first.again);
  for (int i = 0; i < 3; i++) {
    STEP("FENCE UNKNOWN; wake", STATE_FENCING, "FENCE");
    const struct action *again = running(ACTIVITY_MAIN);
    assert_true(again->again && again->clean_seen == rig.ledger.clean);
    assert_int_equal(again->epoch_seen, first.epoch_seen);
    assert_memory_equal(&again->owner, &first.owner, sizeof first.owner);
  }
  play("FENCE YES:unclean; OPEN YES; READ YES");
  assert_int_equal(rig.consumer.core.epoch, first.epoch_seen + 1);
}

/* The consumer asks for two thirds of the lease, renewed or not. Then it releases the lock, because other workers may reach the database.
 */
STORY(test_unknown_fence_is_given_up)
{
  STEP(TO_FENCING "; FENCE UNKNOWN; wait 10000; RENEW YES; FENCE UNKNOWN; wait 9000; FENCE UNKNOWN", STATE_FENCING, "");
  STEP("wait 3000", STATE_UNLOCKING, "RENEW UNLOCK");
  STEP("RENEW YES; UNLOCK YES", STATE_IDLE, ""); /* not at once: otherwise it would try again without a pause */
}

STORY(test_unknown_fence_of_a_lost_lock)
{
  STEP(TO_FENCING "; wait 10000; RENEW NO; FENCE UNKNOWN; wake", STATE_UNLOCKING, "UNLOCK");
}

/* The pause after a release is for failures in a row. */
STORY(test_a_good_fence_ends_the_row)
{
  play(TO_TAKING "; TAKE UNKNOWN; UNLOCK NO; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES");
  STEP("READ NO; wait 6000; CLOSE YES; UNLOCK YES", STATE_IDLE, "POLL");
}

/* Another file system may be mounted by the next epoch. */
STORY(test_each_epoch_asks_for_the_place)
{
  for (int i = 0; i < 3; i++) {
    play(i == 0 ? TO_FENCING : "POLL YES; CHECK YES; LOOK YES; TAKE YES");
    assert_int_equal(running(ACTIVITY_MAIN)->place, PLACE_UNASKED);
    play("FENCE YES; OPEN YES; READ NO; wait 6000; CLOSE YES; UNLOCK YES");
  }
}

STORY(test_unknown_commit_is_sent_again)
{
  STEP(TO_APPENDING "; APPEND UNKNOWN; wake", STATE_DRAINING, "COMMIT");
  struct ledger_commit first = running(ACTIVITY_MAIN)->commit;
  for (int i = 0; i < 5; i++) {
    STEP("COMMIT UNKNOWN; wake", STATE_DRAINING, "COMMIT");
    assert_memory_equal(&running(ACTIVITY_MAIN)->commit, &first, sizeof first);
  }
  play("READ NO; COMMIT NO");
  assert_true(rig_logged(&rig, "fenced"));
  EXPECT(STATE_RELEASING, "CLOSE");
  assert_false(running(ACTIVITY_MAIN)->write_close);
  STEP("CLOSE YES", STATE_UNLOCKING, "UNLOCK"); /* `clean` stays false */
}

/* After two thirds of the lease: no new block, no delete; a synced block is still sent to be committed. */
STORY(test_deadline)
{
  STEP(TO_APPENDING "; READ YES; wait 10000; wait 9500; APPEND UNKNOWN; wait 500", STATE_DRAINING, "COMMIT");
  STEP("COMMIT YES", STATE_DRAINING, ""); /* neither DELETE nor APPEND */
  play("RENEW YES");                      /* the lease counts from when the renewal was sent, so the next one is due */
  EXPECT(STATE_DRAINING, "RENEW APPEND DELETE");
}

/* The lease is lost, and no other holder came between: the holder leaves in order, and the end is clean. */
STORY(test_lost_lease)
{
  STEP(TO_APPENDING "; wait 10000; RENEW NO; APPEND UNKNOWN; wake", STATE_DRAINING, "COMMIT");
  STEP("COMMIT YES; READ YES", STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->write_close);
  STEP("CLOSE YES", STATE_UNLOCKING, "UNLOCK");
  assert_int_equal(rig.ledger.settled, 100); /* the next holder settles */
  assert_true(rig.ledger.clean);
}

STORY(test_renewal_of_an_earlier_lock)
{
  STEP(TO_FENCING "; wait 10000; FENCE NO; UNLOCK YES; POLL YES; CHECK YES; LOOK YES; TAKE YES; RENEW NO", STATE_FENCING, "");
  STEP("FENCE YES; OPEN YES", STATE_DRAINING, "READ"); /* not lost */
}

/* A renewal that waited during the release reaches the server after the delete: it finds no lock, but no lease was lost. */
STORY(test_renewal_behind_the_unlock)
{
  STEP(TO_DRAINING "; READ NO; wait 10000; CLOSE YES", STATE_UNLOCKING, "UNLOCK");
  play("RENEW NO");
  assert_false(rig_logged(&rig, "lost"));
  assert_int_equal(rig.consumer.core.counts.problems[PROBLEM_LOST], 0);
  STEP("UNLOCK YES", STATE_IDLE, "POLL");
}

STORY(test_stall)
{
  play("wait 0");
  play("POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES");
  for (int i = 0; i < 8; i++) { /* a slow disk keeps the lease */
    STEP("wait 10000", STATE_DRAINING, "RENEW");
    play("RENEW YES");
  }
  STEP("wait 10000", STATE_DRAINING, ""); /* a stuck one does not: 90 s */
  assert_true(rig_logged(&rig, "stall"));
  STEP("wait 10000", STATE_DRAINING, "");
  assert_false(rig_logged(&rig, "stall"));
  STEP("READ NO; BEGIN YES; wake", STATE_DRAINING, "RENEW"); /* the write came back after all: does the lock still belong to this worker? */
  STEP("RENEW NO", STATE_RELEASING, "CLOSE");
}

/* ---- the disk ---- */

/* The first block of a segment needs room before the segment is made; until then each attempt waits at the same place. */
STORY(test_no_space_for_a_segment)
{
  STEP(TO_DRAINING "; READ YES", STATE_DRAINING, "BEGIN READ");
  assert_int_equal(rig.slots[ACTIVITY_MAIN].action.block_bytes, rig.consumer.epoch.current->batch.bytes);
  play("BEGIN NO_SPACE");
  assert_true(rig_logged(&rig, "no-space"));
  STEP("wake", STATE_DRAINING, "BEGIN");
  play("BEGIN YES:segment; APPEND YES");
  assert_true(rig_logged(&rig, "no-space"));
}

STORY(test_no_space_then_space)
{
  play(TO_APPENDING "; APPEND NO_SPACE");
  assert_true(rig_logged(&rig, "no-space"));
  assert_false(trusts()); /* no messages are written: the worker is not ready */
  assert_int_equal(pause_ms(), 1000);
  play("wake; APPEND NO_SPACE");
  assert_false(rig_logged(&rig, "no-space")); /* logged once */
  play("wake; APPEND YES");
  assert_true(rig_logged(&rig, "no-space"));
  assert_true(trusts());
  EXPECT(STATE_DRAINING, "DELETE");
}

STORY(test_failing_disk_backs_off)
{
  static const int64_t pauses[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
  play("wait 0");
  for (size_t i = 0; i < sizeof pauses / sizeof pauses[0]; i++) {
    play("POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES; BEGIN YES");
    STEP("READ NO; APPEND FAILED", STATE_RELEASING, "CLOSE");
    assert_false(running(ACTIVITY_MAIN)->write_close);
    STEP("CLOSE YES; UNLOCK YES", STATE_BACKING_OFF, "");
    assert_int_equal(pause_ms(), pauses[i]);
    assert_false(trusts()); /* nothing is written meanwhile */
    STEP("wake", STATE_IDLE, "POLL");
  }
  assert_false(rig.ledger.clean);
}

/* A block that reached the disk ends the run of failures. */
STORY(test_good_disk_ends_the_row)
{
  play(TO_APPENDING "; READ NO; APPEND FAILED; CLOSE YES; UNLOCK YES; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES");
  play("FENCE YES; OPEN YES; READ YES; BEGIN YES; READ YES; APPEND YES");
  STEP("READ NO; DELETE YES; APPEND FAILED; CLOSE YES; UNLOCK YES", STATE_BACKING_OFF, "");
  assert_int_equal(pause_ms(), 1000);
}

/* CLOSE, or the close of the file, failed: the end is not clean, and the worker pauses. */
STORY(test_failing_close)
{
  STEP(TO_APPENDING "; APPEND YES; READ NO; DELETE YES; READ NO; wait 6000; CLOSE FAILED", STATE_UNLOCKING, "UNLOCK");
  STEP("UNLOCK YES", STATE_BACKING_OFF, "");
  assert_int_equal(pause_ms(), 1000);
}

/* Asked to stop between two steps: what was begun is undone; if a segment is left, `clean` is not restored. */
STORY(test_stopped_while_it_begins)
{
  play(TO_DRAINING "; READ YES; READ NO; stop");
  assert_int_equal(consumer_until_ms(&rig.consumer), 0);
  STEP("BEGIN STOPPED", STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->commit.clean);
}

STORY(test_stopped_and_a_segment_is_left)
{
  STEP(TO_DRAINING "; READ YES; READ NO; stop; BEGIN STOPPED:left", STATE_RELEASING, "CLOSE");
  assert_false(running(ACTIVITY_MAIN)->commit.clean);
  STEP("CLOSE YES", STATE_UNLOCKING, "UNLOCK");
}

/* An action looks between its steps at how long it may go on: as long as a new one may begin. */
STORY(test_how_long_an_action_may_go_on)
{
  play(TO_DRAINING "; READ YES");
  assert_int_equal(consumer_until_ms(&rig.consumer) - rig.moment.now_ms, 20000);
  play("wait 10000; RENEW YES");
  assert_int_equal(consumer_until_ms(&rig.consumer) - rig.moment.now_ms, 20000);
  play("wait 10000; RENEW NO");
  assert_int_equal(consumer_until_ms(&rig.consumer), 0);
}

/* The commit of the segment was sent and not answered: the ledger may name it, so it is neither unlinked nor given up. */
STORY(test_segment_perhaps_named)
{
  STEP(TO_DRAINING "; READ YES; READ NO; BEGIN UNKNOWN:segment; stop; wake", STATE_DRAINING, "COMMIT");
  STEP("COMMIT YES", STATE_RELEASING, "CLOSE");
  assert_true(!running(ACTIVITY_MAIN)->write_close && running(ACTIVITY_MAIN)->commit.clean);
}

/* Whether the epoch is still its own is not known: nothing was begun, so it begins anew. */
STORY(test_begins_anew)
{
  STEP(TO_DRAINING "; READ YES; READ NO; BEGIN UNKNOWN; wake", STATE_DRAINING, "BEGIN");
}

STORY(test_spent_name)
{
  STEP(TO_DRAINING "; READ YES; READ NO; BEGIN SPENT", STATE_RELEASING, "CLOSE");
  assert_false(running(ACTIVITY_MAIN)->commit.clean); /* no `clean` */
  STEP("CLOSE YES", STATE_UNLOCKING, "UNLOCK");
}

STORY(test_roll)
{
  STEP(TO_APPENDING "; APPEND YES:large; READ YES; DELETE YES", STATE_RELEASING, "CLOSE");
  STEP("CLOSE YES", STATE_FENCING, "FENCE"); /* under the same lock */
  assert_int_equal(running(ACTIVITY_MAIN)->epoch_seen, 8);
  STEP("FENCE YES:clean; OPEN YES; READ YES", STATE_DRAINING, "BEGIN READ");
  assert_true(running(ACTIVITY_MAIN)->fresh);
  assert_string_equal(running(ACTIVITY_MAIN)->reason, "roll");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 9);
}

/* A holder whose lock is lost by then does not fence again. */
STORY(test_roll_after_the_lease)
{
  STEP(TO_APPENDING "; APPEND YES:large; READ YES; DELETE YES; CLOSE UNKNOWN; wait 10000; RENEW NO; COMMIT YES", STATE_UNLOCKING, "UNLOCK");
}

/* A roll waits for all deletes, so that the holder has nothing to settle after it. */
STORY(test_roll_waits_for_the_deletes)
{
  STEP(TO_APPENDING "; READ NO; APPEND YES:large; DELETE UNKNOWN", STATE_DRAINING, "");
  STEP("wake", STATE_DRAINING, "DELETE");
  STEP("DELETE YES", STATE_RELEASING, "CLOSE");
}

STORY(test_roll_and_nothing_to_write)
{
  play(TO_APPENDING "; APPEND YES:large; READ NO; DELETE YES; CLOSE YES; FENCE YES:clean; OPEN YES");
  STEP("READ NO; wait 6000", STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->commit.clean); /* `clean` becomes true again */
}

/* ---- reading that fails ---- */

/*
 * After five passes in a row without a message the holder releases the lock, because another worker may have a better link. It does
 * not compete again at once.
 */
STORY(test_gives_up_reading)
{
  play(TO_DRAINING "; READ UNKNOWN; wake; READ UNKNOWN; wake; READ UNKNOWN; wake; READ YES; BEGIN YES; "
                   "APPEND YES; DELETE YES");
  for (int i = 0; i < 4; i++)
    play("READ UNKNOWN; wake");
  EXPECT(STATE_DRAINING, "READ");
  play("READ UNKNOWN");
  assert_true(rig_logged(&rig, "pass"));
  EXPECT(STATE_RELEASING, "CLOSE");
  STEP("CLOSE YES; UNLOCK YES", STATE_IDLE, "");
  assert_true(pause_ms() >= 500);
  STEP("wake", STATE_IDLE, "POLL");
}

/* Nor do documents count that cannot be taken: they are read again by each pass. */
STORY(test_gives_up_reading_what_only_names)
{
  play(TO_DRAINING "; READ YES:named; READ UNKNOWN; wake");
  for (int i = 0; i < 3; i++)
    play("READ YES:named; READ UNKNOWN; wake");
  EXPECT(STATE_DRAINING, "READ");
  play("READ YES:named; READ UNKNOWN");
  EXPECT(STATE_RELEASING, "CLOSE");
}
