/* The consumer's stories: storage that disagrees with the ledger, and what is refused. */
#include "consumer_stories.h"

/* ---- storage that disagrees ---- */

/* The next poll or check; `peek` is the answer to a poll. */
static void next_check_refused(const char *peek)
{
  if (!rig.slots[ACTIVITY_MAIN].running)
    play("wake");
  play(rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? peek : "CHECK REFUSED");
}

STORY(test_distrust)
{
  play("wait 0; POLL YES; CHECK REFUSED");
  assert_true(rig_logged(&rig, "untrusted"));
  int64_t since = rig.moment.now_ms;
  while (rig.consumer.core.state == STATE_CHECKING) {
    next_check_refused("POLL YES");
  }
  EXPECT(STATE_STOPPED, "");
  rig_assert(&rig, rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 62000);
  assert_true(consumer_is_over(&rig.consumer));
  assert_false(rig.consumer.core.refused);
}

/* This machine may see each new segment late: when the segment that was missing is there by now, the minute begins anew. */
STORY(test_distrust_begins_anew_with_a_segment_that_came_late)
{
  play("wait 0; POLL YES; CHECK REFUSED; wait 59500; POLL YES");
  rig.late_files = true;
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@9.bin");
  STEP("wait 900; CHECK REFUSED; wait 59500; POLL YES; CHECK REFUSED", STATE_CHECKING, "");
  STEP("wait 1000; POLL YES; CHECK REFUSED", STATE_STOPPED, "");
}

/* The consumer checks for the segment that was missing first until it is there, however many came since. */
STORY(test_distrust_of_segments_that_come_faster_than_they_are_seen)
{
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@8.bin");
  play("wait 0; POLL YES; CHECK REFUSED; wait 30000; POLL YES");
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@9.bin");
  play("CHECK REFUSED; wait 29500; POLL YES");
  assert_string_equal(rig.slots[ACTIVITY_MAIN].action.missed, "t1@8.bin");
  rig.late_files = true;
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@10.bin");
  play("CHECK REFUSED; wait 59500; POLL YES");
  assert_string_equal(rig.slots[ACTIVITY_MAIN].action.missed, "t1@10.bin");
  STEP("CHECK REFUSED", STATE_CHECKING, "");
}

/* A wrong directory has neither the old segment nor the new one. */
STORY(test_distrust_of_segments_that_never_come)
{
  play("wait 0; POLL YES; CHECK REFUSED; wait 59500; POLL YES");
  snprintf(rig.ledger.end.file, sizeof rig.ledger.end.file, "t1@9.bin");
  play("CHECK REFUSED; wait 500");
  if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
    play("POLL YES");
  STEP("CHECK REFUSED", STATE_STOPPED, "");
}

/*
 * The minute lasts from the first failed check to the first good one. Neither an empty queue ends it, nor a ledger that moved
 * or could not be read.
 */
STORY(test_distrust_has_no_break_but_a_good_look)
{
  static const char *const betweens[] = {"POLL NO; CHECK REFUSED; POLL NO; message; POLL YES", "POLL YES; CHECK CHANGED; wait 2000",
                                         "POLL YES; CHECK UNKNOWN; wait 2000"};
  for (size_t i = 0; i < sizeof betweens / sizeof betweens[0]; i++) {
    story_again(NULL);
    play("wait 0; POLL YES; CHECK REFUSED; wait 30000");
    play(betweens[i]);
    if (rig.slots[ACTIVITY_MAIN].running && rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      play("POLL YES");
    STEP("CHECK REFUSED; wait 30000; POLL YES; CHECK REFUSED", STATE_STOPPED, "");
    story_again(NULL);
    play("wait 0; POLL YES; CHECK REFUSED; wait 30000; POLL YES; CHECK YES; LOOK NO; wake; LOOK YES; POLL YES; CHECK REFUSED");
    STEP("wait 59000; POLL YES; CHECK REFUSED", STATE_CHECKING, "");
  }
}

/* The consumer stops as it announced: the queue may be empty when the minute is over. */
STORY(test_distrust_stops_with_an_empty_queue)
{
  play("wait 0; POLL YES; CHECK REFUSED");
  int64_t since = rig.moment.now_ms;
  int notes = 0;
  while (rig.consumer.core.state != STATE_STOPPED && rig.moment.now_ms - since < 100000) {
    next_check_refused("POLL NO");
    notes += rig_logged(&rig, "untrusted");
  }
  EXPECT(STATE_STOPPED, "");
  rig_assert(&rig, rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 62000);
  assert_int_equal(notes, 1); /* the verdict: the stop is logged once */
}

/* What settling cannot read makes a holder not ready, until it can. */
STORY(test_distrust_while_settling)
{
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED");
  assert_false(trusts());
  play("wake; SETTLE YES");
  assert_true(trusts());
}

/* A failure while settling, under another lock, does not count in a later check. */
STORY(test_distrust_does_not_outlive_the_epoch)
{
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED; wait 10000; RENEW NO; SETTLE REFUSED");
  STEP("CLOSE NO; UNLOCK NO; POLL NO; wait 100000; CHECK UNKNOWN; POLL YES; CHECK REFUSED", STATE_CHECKING, "");
}

/* ---- storage checks beside polls and lock reads ---- */

/* Polls, and reads the lock, until CHECK runs; `peek` is the answer to a poll. */
static void until_check(const char *peek)
{
  for (int events = 0; !rig.slots[ACTIVITY_MAIN].running || rig.slots[ACTIVITY_MAIN].action.kind != ACTION_CHECK; events++) {
    rig_assert(&rig, events < 5000);
    if (!rig.slots[ACTIVITY_MAIN].running)
      play("wake");
    else
      play(rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? peek : "LOOK NO");
  }
}

/*
 * An idle consumer checks the storage at the start and every minute; after a failed check every second, even for hours, until a
 * check succeeds. Polls go on as before.
 */
STORY(test_idle_looks_at_the_storage)
{
  play("wait 0");
  assert_false(trusts());
  STEP("POLL NO", STATE_IDLE, "CHECK");
  assert_false(trusts());
  play("CHECK YES");
  assert_true(trusts());
  assert_true(consumer_is_quiet(&rig.consumer));
  assert_uint_in_range(pause_ms(), 50, 100);
  int64_t looked = rig.moment.now_ms;
  until_check("POLL NO");
  rig_assert(&rig, rig.moment.now_ms - looked >= 60000 && rig.moment.now_ms - looked < 62000);
  STEP("CHECK REFUSED", STATE_IDLE, "");
  assert_true(rig_logged(&rig, "untrusted"));
  assert_false(trusts());
  int checks = 0;
  for (int64_t since = rig.moment.now_ms; rig.moment.now_ms - since < 600000;) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      play("wake");
    checks += rig.slots[ACTIVITY_MAIN].action.kind == ACTION_CHECK;
    play(rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? "POLL NO" : "CHECK REFUSED");
    rig_assert(&rig, rig.consumer.core.state == STATE_IDLE && !rig_logged(&rig, "untrusted"));
  }
  assert_uint_in_range(checks, 500, 601);
  until_check("POLL NO");
  play("CHECK YES");
  assert_true(rig_logged(&rig, "trusted") && trusts());
}

/* The minute begins with the message that waits, not with the check that failed hours ago. */
STORY(test_distrust_of_an_idle_one_counts_from_its_first_message)
{
  STEP("wait 0; POLL NO; CHECK REFUSED; wait 500000; CHECK REFUSED; POLL NO; message; POLL YES; CHECK REFUSED", STATE_CHECKING, "");
  assert_true(rig_logged(&rig, "untrusted"));
  STEP("wait 60000; POLL YES; CHECK REFUSED", STATE_STOPPED, "");
}

/* While a check runs, a wake-up is neither delayed nor lost. */
STORY(test_woken_while_looking_at_the_storage)
{
  STEP("wait 0; POLL NO; message; CHECK YES", STATE_IDLE, "POLL");
  story_again(NULL);
  STEP("wait 0; POLL UNKNOWN; wake; POLL NO; CHECK UNKNOWN", STATE_IDLE, "");
  assert_uint_in_range(pause_ms(), 50, 100);
}

/* A waiting consumer checks the storage every minute, too; its place in the wait queue and its pause stay as they are. */
STORY(test_waiting_looks_at_the_storage)
{
  play("wait 0; POLL YES; CHECK YES; watch; LOOK NO; LOOK NO");
  int64_t since = rig.moment.now_ms;
  until_check("POLL YES");
  rig_assert(&rig, rig.consumer.core.state == STATE_WAITING && rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 62000);
  assert_true(rig.consumer.seek.acquisition.queued);
  play("CHECK YES");
  assert_true(rig.consumer.core.state == STATE_WAITING && rig.consumer.seek.acquisition.queued && trusts());
  rig.consumer.trust.due_ms = rig.moment.now_ms; /* the next check */
  play("wait 0");
  until_check("POLL YES");
  STEP("CHECK REFUSED", STATE_CHECKING, "");
  assert_true(rig_logged(&rig, "untrusted") && !trusts());
}

/* A check that hangs on a dead disk makes the worker not ready, too. */
STORY(test_a_look_that_hangs)
{
  play("wait 0");
  until_check("POLL NO");
  play("CHECK YES");
  until_check("POLL NO");
  assert_true(trusts());
  play("wait 20000");
  assert_false(trusts());
  play("CHECK YES");
  assert_true(trusts());
  play("POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; wait 20000"); /* so does the opening */
  assert_false(trusts());
}

/*
 * The check succeeds and the opening fails (no right to write, damage before the last block): the consumer pauses, and believes
 * the failure in the end.
 */
STORY(test_open_refused)
{
  play("wait 0; POLL YES");
  int64_t since = rig.moment.now_ms;
  int epochs = 0;
  while (rig.consumer.core.state == STATE_CHECKING && epochs < 100) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      play("wake");
    if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      play("POLL YES");
    play("CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES");
    epochs++;
  }
  EXPECT(STATE_STOPPED, "");
  rig_assert(&rig, rig.moment.now_ms - since >= 60000 && rig.moment.now_ms - since < 65000);
}

#define OPEN_REFUSED "CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES"

/* The minute lasts from one failure to the next: a good opening ends it, and so does a pause, in which the files may be repaired. */
STORY(test_open_refused_with_a_break)
{
  static const char *const betweens[] = {"CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ NO; wait 6000; CLOSE YES; UNLOCK YES",
                                         "CHECK PAUSED"};
  for (size_t i = 0; i < sizeof betweens / sizeof betweens[0]; i++) {
    story_again(NULL);
    play("wait 0; POLL YES; " OPEN_REFUSED "; wait 1000; POLL YES");
    play(betweens[i]);
    play("wait 70000");
    while (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL || rig.consumer.core.state == STATE_IDLE)
      play(rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL ? "POLL YES" : "CHECK YES");
    STEP(OPEN_REFUSED, STATE_CHECKING, "");
  }
}

/* The same failure twice, more than a minute apart, and others wrote meanwhile: each was a passing fault. */
STORY(test_open_refused_long_ago)
{
  play("wait 0; POLL YES");
  play("CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES");
  play("wait 1000; POLL YES; CHECK YES; LOOK NO; wait 70000; CHECK YES; LOOK YES; POLL YES; CHECK YES:moved");
  STEP("TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES", STATE_CHECKING, "");
}

/* Others committed after the check: nothing is known yet about the end that they made. */
STORY(test_open_refused_at_another_end)
{
  play("wait 0; POLL YES");
  play("CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN REFUSED; CLOSE YES; UNLOCK YES; wait 70000; POLL YES; CHECK YES");
  assert_false(trusts()); /* the check only reads */
  STEP("LOOK YES; TAKE YES; FENCE YES:moved; OPEN REFUSED; CLOSE YES; UNLOCK YES", STATE_CHECKING, "");
}

/* However long it takes: another worker may already run the newer pawl that can append to the file. */
STORY(test_open_newer_stands_by)
{
  play("wait 0; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN NEWER; CLOSE YES; UNLOCK YES");
  STEP("wait 70000; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES:clean; OPEN NEWER; CLOSE YES; UNLOCK YES", STATE_CHECKING, "");
}

/* A ledger of a newer pawl is not a fault of the storage: the minute of distrust begins anew. */
STORY(test_newer_ends_the_minute)
{
  STEP("wait 0; POLL YES; CHECK REFUSED; wait 30000; POLL YES; CHECK NEWER; wait 40000; POLL YES; CHECK REFUSED", STATE_CHECKING, "");
}

STORY(test_newer_stands_by)
{
  play("wait 0; POLL YES; CHECK NEWER");
  assert_true(rig_logged(&rig, "newer"));
  for (int i = 0; i < 200; i++) {
    play("wake");
    if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      play("POLL YES");
    STEP("CHECK NEWER", STATE_CHECKING, "");
    assert_false(rig_logged(&rig, "newer")); /* logged once, and no exit 74 */
  }
  play("wake; POLL NO; POLL NO; CHECK NEWER"); /* another worker has drained the queue: --exit-when-empty can end */
  assert_true(consumer_is_quiet(&rig.consumer));
}

/* It is ready, says it once, and keeps no other process waiting: it leaves the wait queue. */
STORY(test_paused_stands_by)
{
  STEP("wait 0; POLL YES; CHECK YES; LOOK NO:queued; wait 70000; CHECK PAUSED", STATE_UNLOCKING, "LEAVE");
  assert_true(rig_logged(&rig, "paused"));
  play("LEAVE YES");
  for (int i = 0; i < 200; i++) {
    play("wake");
    if (rig.slots[ACTIVITY_MAIN].action.kind == ACTION_POLL)
      play("POLL YES");
    STEP("CHECK PAUSED", STATE_CHECKING, "");
    assert_false(rig_logged(&rig, "paused"));
    assert_true(trusts());
  }
  play("wake; POLL YES");
  STEP("CHECK YES", STATE_WAITING, "LOOK");
  assert_true(rig_logged(&rig, "paused"));
}

STORY(test_paused_while_idle)
{
  STEP("wait 0; POLL NO; CHECK PAUSED", STATE_IDLE, "");
  assert_true(rig_logged(&rig, "paused"));
  STEP("wait 2000; CHECK YES", STATE_IDLE, "POLL");
}

/* It would wait for ever. */
STORY(test_paused_and_exits_when_empty)
{
  rig.consumer.core.options.exits_when_empty = true;
  STEP("wait 0; POLL NO; CHECK PAUSED", STATE_STOPPED, "");
  assert_true(rig_logged(&rig, "refused"));
  assert_true(rig.consumer.core.refused);
}

/* Committed messages are in the queue, and no delete removes them: the holder commits what is written, and the type stops. */
STORY(test_delete_refused)
{
  play(TO_APPENDING "; READ YES; APPEND YES");
  assert_string_equal(rig_running(&rig), "APPEND READ DELETE");
  STEP("DELETE LEFT", STATE_DRAINING, "");
  assert_true(rig_logged(&rig, "refused"));
  STEP("READ YES; APPEND YES", STATE_RELEASING, "CLOSE"); /* no delete of the second item, and no pass */
  assert_int_equal(running(ACTIVITY_MAIN)->commit.settled, 100);
  STEP("CLOSE YES; UNLOCK YES", STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
}

/* While a block is under way for long, no other delete begins beside it. */
STORY(test_delete_refused_is_the_last)
{
  STEP(TO_APPENDING "; READ YES; APPEND YES; READ NO; DELETE LEFT; wait 4000", STATE_DRAINING, "");
  assert_string_equal(rig_running(&rig), "APPEND");
}

/* The database check fails when a holder begins a pass: the holder releases the lock, and stops as an idle consumer does. */
STORY(test_read_refused)
{
  STEP(TO_DRAINING "; READ REFUSED", STATE_RELEASING, "CLOSE");
  assert_true(rig_logged(&rig, "refused"));
  assert_false(rig_logged(&rig, "pass"));
  STEP("CLOSE YES; UNLOCK YES", STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
}

/* When several deletes are refused, the first one gives the logged reason. */
STORY(test_deletes_refused_are_told_once)
{
  play(TO_APPENDING "; READ YES; APPEND YES; READ YES; APPEND YES; DELETE LEFT");
  assert_true(rig_logged(&rig, "refused"));
  assert_string_equal(rig.effects.events[0].text, "DELETE came back LEFT");
  play("DELETE LEFT");
  assert_false(rig_logged(&rig, "refused"));
}

/* An epoch that is over anyway ends as usual: the next holder that settles meets the refusal again. */
STORY(test_delete_refused_too_late)
{
  STEP(TO_APPENDING "; READ YES; APPEND YES; READ NO; APPEND FAILED; DELETE LEFT; CLOSE YES; UNLOCK YES", STATE_BACKING_OFF, "");
  assert_false(rig.consumer.core.refused);
}

/* The next epoch finds out again: it deletes, and a later stop is not taken for one of the database's. */
STORY(test_delete_refused_and_fenced)
{
  play(TO_APPENDING "; READ YES; APPEND YES; READ NO; DELETE LEFT");
  assert_true(rig.consumer.core.refused);
  STEP("APPEND NO; CLOSE YES; UNLOCK YES", STATE_IDLE, "POLL");
  assert_false(rig.consumer.core.refused);
}

STORY(test_settling_delete_refused)
{
  STEP(TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE LEFT", STATE_RELEASING, "CLOSE");
  assert_true(rig_logged(&rig, "refused"));
  STEP("CLOSE YES; UNLOCK YES", STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
  assert_int_equal(rig.ledger.settled, 70);
}

/* A document that cannot be taken is named, and stops nothing: the pass goes on, and an idle consumer stays idle. */
STORY(test_document_named)
{
  play("wait 0; POLL NO:named");
  assert_int_equal(rig.consumer.core.state, STATE_IDLE);
  assert_true(rig_logged(&rig, "document"));
  STEP("CHECK YES; wake; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES:named", STATE_DRAINING, "READ");
  assert_true(rig_logged(&rig, "document"));
  assert_false(running(ACTIVITY_READ)->begin);
  STEP("READ NO; wait 6000", STATE_RELEASING, "CLOSE");
}

STORY(test_database_refused)
{
  STEP("wait 0; POLL REFUSED", STATE_STOPPED, "");
  assert_true(rig.consumer.core.refused);
}
