/* The consumer's stories: the ordinary course, from the first message to the release, and what it counts. */
#include "consumer_stories.h"

/* ---- the ordinary course ---- */

STORY(test_happy_path)
{
  STEP(TO_APPENDING "; APPEND YES", STATE_DRAINING, "DELETE");
  STEP("READ NO; DELETE YES", STATE_DRAINING, "READ");
  assert_true(running(ACTIVITY_READ)->begin);
  STEP("READ NO; wait 6000", STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->write_close);
  assert_true(running(ACTIVITY_MAIN)->commit.clean);
  assert_int_equal(running(ACTIVITY_MAIN)->commit.settled, 110);
  assert_true(consumer_is_quiet(&rig.consumer)); /* the last poll need not wait for what follows */
  STEP("CLOSE YES", STATE_UNLOCKING, "UNLOCK");
  assert_true(consumer_is_quiet(&rig.consumer));
  STEP("UNLOCK YES; wait 0; POLL NO", STATE_IDLE, "");
  assert_true(consumer_is_quiet(&rig.consumer));
  assert_int_equal(rig.ledger.end.seq, 110);
  assert_true(rig.ledger.clean);
}

/* ---- a type with its own collection ---- */

STORY(test_own_collection_follows)
{
  rig.ledger.own = true;
  STEP(TO_APPENDING "; READ NO; APPEND YES", STATE_DRAINING, "DELETE"); /* not before all of `messages` is deleted */
  STEP("DELETE YES", STATE_DRAINING, "READ");
  assert_int_equal(running(ACTIVITY_READ)->source, SOURCE_OWN);
  STEP("READ YES", STATE_DRAINING, "APPEND READ");
  assert_int_equal(running(ACTIVITY_MAIN)->commit.from, SOURCE_OWN);
  STEP("READ NO; APPEND YES; DELETE YES", STATE_DRAINING, "READ");
  assert_int_equal(rig.ledger.from, SOURCE_OWN);
  assert_int_equal(running(ACTIVITY_READ)->source, SOURCE_SHARED);
  STEP("READ NO", STATE_DRAINING, "READ"); /* half a pass finds nothing: the queue may have something */
  assert_true(rig.consumer.epoch.empty_since_ms < 0);
  STEP("READ NO; wait 6000", STATE_RELEASING, "CLOSE");
}

/* Polls take no more than a fifth of the time, and this pass is one: of both. */
STORY(test_own_collection_after_a_slow_look_at_the_shared)
{
  rig.ledger.own = true;
  rig.consumer.core.options.poll_share = 20;
  play(TO_DRAINING "; READ NO; READ NO; wait 3; READ YES; READ NO; BEGIN YES; APPEND YES; DELETE YES; READ NO");
  EXPECT(STATE_DRAINING, "READ");
  play("wait 300; READ NO; READ NO");
  assert_true(rig.consumer.epoch.read_ms - rig.moment.now_ms >= 900);
}

/* It has no time of its own: the next pass begins with `messages`. */
STORY(test_own_collection_ends_early)
{
  rig.ledger.own = true;
  STEP(TO_DRAINING "; READ NO; READ UNKNOWN; wait 100", STATE_DRAINING, "READ");
  assert_int_equal(running(ACTIVITY_READ)->source, SOURCE_SHARED);
  STEP("READ NO; READ UNKNOWN; wait 200; READ NO; READ UNKNOWN; wait 400; READ NO; READ UNKNOWN; wait 800; READ NO", STATE_DRAINING,
       "READ");
  STEP("READ UNKNOWN", STATE_RELEASING, "CLOSE"); /* the fifth in a row without a message */
}

/* Earlier messages may be left there. */
STORY(test_own_collection_waits_for_the_end_of_the_shared)
{
  rig.ledger.own = true;
  STEP(TO_DRAINING "; READ UNKNOWN; wait 100", STATE_DRAINING, "READ");
  assert_int_equal(running(ACTIVITY_READ)->source, SOURCE_SHARED);
}

STORY(test_settles_where_the_last_block_came_from)
{
  rig.ledger.own = true;
  rig.ledger.from = SOURCE_BOTH;
  STEP(TO_FENCING "; FENCE YES:unsettled; OPEN YES", STATE_SETTLING, "SETTLE");
  assert_int_equal(running(ACTIVITY_MAIN)->source, SOURCE_BOTH);
}

STORY(test_polls_the_own_collection_once_it_is_known)
{
  play("wait 0; wait 100");
  assert_false(running(ACTIVITY_MAIN)->own);
  rig.ledger.own = true;
  STEP("POLL NO; CHECK YES", STATE_IDLE, "POLL");
  assert_true(running(ACTIVITY_MAIN)->own);
}

/* The last poll may be made beside the pass that looks for more, if the holder does not linger. */
STORY(test_quiet_while_it_looks_for_more)
{
  struct consumer_options options = rig_options();
  options.linger_ms = 0;
  story_again(&options);
  STEP(TO_DRAINING, STATE_DRAINING, "READ");
  assert_false(consumer_is_quiet(&rig.consumer)); /* nothing is written yet */
  play("READ YES; READ NO; BEGIN YES; APPEND YES");
  assert_false(consumer_is_quiet(&rig.consumer));
  STEP("DELETE YES", STATE_DRAINING, "READ");
  assert_true(consumer_is_quiet(&rig.consumer));
  play("READ YES");
  assert_false(consumer_is_quiet(&rig.consumer));
}

/* It keeps no type that was found from beginning. */
STORY(test_not_busy_on_a_disk_that_hangs)
{
  play(TO_APPENDING);
  assert_true(consumer_is_busy(&rig.consumer, rig.moment.now_ms));
  play("wait 1500");
  assert_false(consumer_is_busy(&rig.consumer, rig.moment.now_ms));
}

STORY(test_lingering_is_not_quiet)
{
  STEP(TO_DRAINING "; READ YES; READ NO; BEGIN YES; APPEND YES; DELETE YES", STATE_DRAINING, "READ");
  assert_false(consumer_is_quiet(&rig.consumer));
}

STORY(test_first_segment)
{
  play("wait 0; POLL YES; CHECK YES:none; LOOK YES; TAKE YES");
  assert_int_equal(running(ACTIVITY_MAIN)->epoch_seen, 0);
  STEP("FENCE YES; OPEN YES; READ YES", STATE_DRAINING, "BEGIN READ");
  assert_true(running(ACTIVITY_MAIN)->fresh);
  assert_string_equal(running(ACTIVITY_MAIN)->reason, "first");
  assert_memory_equal(running(ACTIVITY_MAIN)->uuid, rig.moment.random, sizeof rig.moment.random);
  assert_int_equal(running(ACTIVITY_MAIN)->epoch, 1);
  assert_string_equal(running(ACTIVITY_MAIN)->commit.before.file, "");
  play("BEGIN YES");
  assert_true(rig_logged(&rig, "segment"));
  assert_int_equal(rig.consumer.core.counts.unclean, 0); /* there was no holder before */
  EXPECT(STATE_DRAINING, "APPEND");
}

/* Whether the file is continued is decided by what is found there (storage/begin.h), from the ledger as the fence found it. */
STORY(test_begins_by_what_the_fence_found)
{
  STEP(TO_FENCING "; FENCE YES:network-unclean; OPEN YES; READ YES", STATE_DRAINING, "BEGIN READ");
  assert_false(running(ACTIVITY_MAIN)->fresh || running(ACTIVITY_MAIN)->ledger.clean);
  assert_int_equal(running(ACTIVITY_MAIN)->ledger.epoch, 7);
  assert_string_equal(running(ACTIVITY_MAIN)->reason, "unclean");
  play("BEGIN YES:segment");
  assert_true(rig_logged(&rig, "segment"));
  EXPECT(STATE_DRAINING, "APPEND");
  assert_false(running(ACTIVITY_MAIN)->commit.guarded); /* on a network file system nothing is vouched for */
}

/* A holder that writes nothing puts `clean` back as it was, and writes no CLOSE. */
STORY(test_nothing_written)
{
  STEP(TO_DRAINING "; READ NO; wait 6000", STATE_RELEASING, "CLOSE");
  assert_true(!running(ACTIVITY_MAIN)->write_close && running(ACTIVITY_MAIN)->commit.clean);
  play("CLOSE YES; UNLOCK YES; POLL YES; CHECK YES; LOOK YES; TAKE YES; FENCE YES:unclean; OPEN YES; READ NO; wait 6000");
  assert_false(running(ACTIVITY_MAIN)->write_close || running(ACTIVITY_MAIN)->commit.clean);
  STEP("CLOSE YES", STATE_UNLOCKING, "UNLOCK");
}

/* The holder writes what a pass has just found, and does not leave it to the next holder. */
STORY(test_lingered_while_a_pass_runs)
{
  STEP(TO_DRAINING "; READ NO; wait 100; READ NO; wait 4850; wait 100", STATE_DRAINING, "");
  STEP("READ YES", STATE_DRAINING, "BEGIN READ");
}

#define LINGERED TO_DRAINING "; READ NO; wait 100; READ NO; wait 4850; wait 100"

/* A pass that found nothing just before counts as a poll; but not when it was long ago, or a wake-up has come since. */
STORY(test_let_go_of_an_empty_queue)
{
  STEP(LINGERED "; READ NO; CLOSE YES; UNLOCK YES", STATE_IDLE, "");
  assert_true(consumer_is_quiet(&rig.consumer));
  assert_uint_in_range(pause_ms(), 50, 100);
  STEP("message", STATE_IDLE, "POLL");
  assert_true(consumer_is_quiet(&rig.consumer)); /* as long as that poll has found nothing */
}

STORY(test_let_go_and_told_of_a_message)
{
  STEP(LINGERED "; READ NO", STATE_RELEASING, "CLOSE");
  assert_true(consumer_is_quiet(&rig.consumer));
  play("message");
  assert_false(consumer_is_quiet(&rig.consumer));
  STEP("CLOSE YES; UNLOCK YES", STATE_IDLE, "POLL");
}

/* It came while the pass ran that found nothing: the message may lie behind where that pass has been. */
STORY(test_told_of_a_message_during_a_pass)
{
  struct consumer_options options = rig_options();
  STEP(TO_DRAINING "; message; READ NO", STATE_DRAINING, "READ");
  story_again(&options);
  STEP(LINGERED "; message; READ NO; CLOSE YES; UNLOCK YES", STATE_IDLE, "POLL");
}

STORY(test_let_go_after_the_lease)
{
  STEP(LINGERED "; READ NO; lost; RENEW NO; CLOSE YES; UNLOCK YES", STATE_IDLE, "POLL");
}

STORY(test_linger)
{
  play(TO_DRAINING "; READ NO; wait 4000; READ YES; READ NO; BEGIN YES; APPEND YES");
  STEP("DELETE YES; READ NO; wait 4000; READ NO", STATE_DRAINING, ""); /* counted from when the queue was last empty */
  STEP("wait 1000", STATE_RELEASING, "CLOSE");
}

/*
 * A lingering holder polls an empty queue soon, then less and less often, whatever --poll says; it does not sleep past the end
 * of the lingering.
 */
STORY(test_looks_less_and_less_while_lingering)
{
  struct consumer_options options = rig_options();
  options.poll_ms = 60000;
  story_again(&options);
  play(TO_DRAINING "; READ NO");
  int64_t since = rig.moment.now_ms;
  int looks = 0;
  for (play("wake"); rig.consumer.core.state == STATE_DRAINING; play("wake")) {
    int64_t empty = rig.moment.now_ms - since;
    play("READ NO");
    looks++;
    assert_uint_in_range(rig.consumer.epoch.read_ms - rig.moment.now_ms, 1, empty > 2 ? empty : 2);
  }
  assert_uint_in_range(looks, 10, 24); /* 2 ms to 5 s, each 1.5 to 2 times as long as the last */
  assert_int_equal(rig.moment.now_ms - since, options.linger_ms);
  EXPECT(STATE_RELEASING, "CLOSE");
}

STORY(test_looks_no_seldomer_than_the_poll)
{
  play(TO_DRAINING "; READ NO");
  for (play("wake"); rig.consumer.core.state == STATE_DRAINING; play("wake")) {
    play("READ NO");
    assert_uint_in_range(rig.consumer.epoch.read_ms - rig.moment.now_ms, 1, rig.consumer.core.options.poll_ms);
  }
}

STORY(test_four_blocks_wait_for_their_deletes)
{
  play(TO_APPENDING "; READ YES; APPEND YES");
  for (int i = 0; i < 3; i++)
    play("READ YES; APPEND YES");
  EXPECT(STATE_DRAINING, ""); /* the fifth waits */
  assert_string_equal(rig_running(&rig), "READ DELETE DELETE DELETE");
  STEP("READ YES", STATE_DRAINING, "");              /* and so does reading ahead */
  STEP("DELETE YES:last", STATE_DRAINING, "DELETE"); /* of the fourth item; the first is not deleted yet */
  assert_int_equal(rig.consumer.core.settled, 100);
  STEP("DELETE YES", STATE_DRAINING, "APPEND READ");
  assert_int_equal(rig.consumer.core.settled, 110);
  play("DELETE YES");
  assert_int_equal(rig.consumer.core.settled, 130); /* the unbroken prefix */
  assert_int_equal(running(ACTIVITY_MAIN)->item->documents, 10);
}

/* A pass begins only after every delete is acknowledged. */
STORY(test_pass_waits_for_deletes)
{
  STEP(TO_APPENDING "; APPEND YES; READ UNKNOWN; wait 5000", STATE_DRAINING, "");
  STEP("DELETE UNKNOWN; wake", STATE_DRAINING, "DELETE");
  STEP("DELETE YES", STATE_DRAINING, "READ");
  assert_true(running(ACTIVITY_READ)->begin);
}

/*
 * A reply takes as long as its bytes come, perhaps longer than any other action. Reading does not touch the file, so the lease
 * goes on.
 */
STORY(test_slow_reply_keeps_the_lease)
{
  play(TO_DRAINING);
  for (int i = 0; i < 30; i++) {
    STEP("wait 10000", STATE_DRAINING, "RENEW");
    play("RENEW YES");
  }
  assert_false(rig_logged(&rig, "stall"));
  STEP("READ YES", STATE_DRAINING, "BEGIN READ");
}

/* But a holder that leaves does not wait for the reply: after a moment it drops the rest. */
STORY(test_slow_reply_does_not_keep_who_leaves)
{
  STEP(TO_DRAINING "; wait 200; stop", STATE_DRAINING, "");
  assert_int_equal(pause_ms(), 800);
  STEP("wake", STATE_DRAINING, "DROP");
  STEP("READ UNKNOWN", STATE_RELEASING, "CLOSE");
}

STORY(test_slow_reply_is_dropped_at_once)
{
  STEP(TO_DRAINING "; wait 5000; stop", STATE_DRAINING, "DROP");
}

/* ---- counting ---- */

STORY(test_counts_what_is_committed)
{
  const struct consumer_counts *counts = &rig.consumer.core.counts;
  assert_int_equal(rig.consumer.core.commit_ms, -1);
  play(TO_APPENDING "; APPEND UNKNOWN; wake");
  assert_int_equal(counts->documents, 0);
  assert_int_equal(counts->acquisitions, 1);
  play("COMMIT YES");
  assert_int_equal(counts->documents, 10);
  assert_int_equal(counts->messages, 30);
  assert_int_equal(counts->blocks, 1);
  assert_int_equal(counts->bytes, rig.block_bytes);
  assert_int_equal(counts->deleted, 0);
  assert_int_equal(rig.consumer.core.commit_ms, rig.moment.now_ms);
  play("READ NO; DELETE UNKNOWN; wake; DELETE YES");
  assert_int_equal(counts->deleted, 10);
  play("READ YES; APPEND NO");
  assert_int_equal(counts->documents, 10);
  assert_int_equal(counts->problems[PROBLEM_FENCED], 1);
  assert_int_equal(counts->problems[PROBLEM_LOST], 0);
}

STORY(test_counts_what_it_settles_and_makes)
{
  const struct consumer_counts *counts = &rig.consumer.core.counts;
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES");
  while (rig.consumer.core.state == STATE_SETTLING)
    play("SETTLE YES");
  assert_int_equal(counts->deleted, 30);
  assert_int_equal(counts->documents, 0);

  story_again(NULL);
  play("wait 0; POLL YES; CHECK YES:none; LOOK YES; TAKE YES; FENCE YES; OPEN YES; READ YES; BEGIN UNKNOWN:segment");
  assert_int_equal(counts->segments, 0);
  play("wake; COMMIT YES");
  assert_int_equal(counts->segments, 1);
  assert_int_equal(counts->bytes, 0);
}

/* How many durations were counted, and their sum. */
static int64_t counted(enum latency latency, int64_t *sum_us)
{
  const struct latencies *latencies = &rig.consumer.core.counts.latencies;
  int64_t count = 0;
  for (int i = 0; i <= LATENCY_BOUNDS_MAX; i++)
    count += latencies->of[latency].counts[i];
  *sum_us = latencies->of[latency].sum_us;
  return count;
}

/* A block's age is from the ObjectId of its first document to the commit, also where that had to be sent again. */
STORY(test_counts_until_durable)
{
  int64_t sum_us;
  play(TO_APPENDING);
  bson_oid_t id;
  int64_t inserted_s = rig.moment.wall_us / 1000000 - 7;
  bson_oid_init_from_string(&id, "000000000000000000000000");
  for (int i = 0; i < 4; i++)
    id.bytes[i] = (uint8_t)(inserted_s >> (24 - 8 * i));
  BSON_APPEND_OID(running(ACTIVITY_MAIN)->item->ids[0], "0", &id);
  play("APPEND UNKNOWN");
  assert_int_equal(counted(LATENCY_DURABLE, &sum_us), 0);
  play("wake; COMMIT YES");
  assert_int_equal(counted(LATENCY_DURABLE, &sum_us), 1);
  assert_int_equal(sum_us, rig.moment.wall_us - inserted_s * 1000000);
  story_again(NULL);
  play(TO_APPENDING "; APPEND YES"); /* without an ObjectId there is no age */
  assert_int_equal(counted(LATENCY_DURABLE, &sum_us), 0);
}

/* From its turn to the first pass, with all that is settled between; a roll is no take-over. */
STORY(test_counts_take_overs)
{
  int64_t sum_us;
  play("wait 0; POLL YES; CHECK YES; wait 5000; LOOK YES");
  int64_t began_ms = rig.moment.now_ms;
  play("TAKE YES; wait 20; FENCE YES:unsettled; OPEN YES; wait 30");
  assert_int_equal(counted(LATENCY_TAKEOVER, &sum_us), 0);
  while (rig.consumer.core.state == STATE_SETTLING)
    play("SETTLE YES");
  assert_int_equal(counted(LATENCY_TAKEOVER, &sum_us), 1);
  assert_int_equal(sum_us, (rig.moment.now_ms - began_ms) * 1000);

  story_again(NULL);
  play(TO_APPENDING "; APPEND YES:large; READ YES; DELETE YES; CLOSE YES");
  (void)rig_logged(&rig, "takeover");
  play("FENCE YES:clean; OPEN YES"); /* a roll is none */
  EXPECT(STATE_DRAINING, "READ");
  assert_int_equal(counted(LATENCY_TAKEOVER, &sum_us), 1);
  assert_int_equal(rig.consumer.core.counts.acquisitions, 1);
  assert_false(rig_logged(&rig, "takeover"));
}

STORY(test_counts_unclean_ends)
{
  rig.ledger.has_owner = true;
  play(TO_FENCING "; FENCE YES:clean");
  assert_int_equal(rig.consumer.core.counts.unclean, 0);
  story_again(NULL);
  rig.ledger.has_owner = true;
  play(TO_FENCING "; FENCE YES:unclean");
  assert_int_equal(rig.consumer.core.counts.unclean, 1);
}

STORY(test_who_holds_until_when)
{
  play(TO_TAKING);
  assert_false(consumer_holds(&rig.consumer));
  assert_false(consumer_sees_nothing(&rig.consumer));
  int64_t taken = rig.moment.now_ms;
  play("TAKE YES; FENCE YES; OPEN YES");
  assert_true(consumer_holds(&rig.consumer));
  assert_int_equal(consumer_lease_end_ms(&rig.consumer), taken + rig_options().lease_ms);
  play("READ NO");
  assert_true(consumer_sees_nothing(&rig.consumer));
  play("wait 10000; RENEW NO");
  assert_false(consumer_holds(&rig.consumer));
  assert_int_equal(rig.consumer.core.counts.problems[PROBLEM_LOST], 1);
}

/* ---- settling ---- */

STORY(test_settles_in_chunks)
{
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES");
  for (int64_t settled = 70; settled < 100; settled += 10) {
    EXPECT(STATE_SETTLING, "SETTLE");
    STEP("SETTLE UNKNOWN; wake", STATE_SETTLING, "SETTLE");
    assert_int_equal(running(ACTIVITY_MAIN)->settled, settled);
    play("SETTLE YES");
  }
  EXPECT(STATE_DRAINING, "READ");
}

STORY(test_settling_that_fails_for_long)
{
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED; wake; SETTLE YES; SETTLE REFUSED");
  for (int i = 0; i < 59; i++) { /* 60 s from the first failure in a row */
    STEP("wait 1000; SETTLE REFUSED", STATE_SETTLING, "");
    if (rig.slots[ACTIVITY_RENEW].running)
      play("RENEW YES");
  }
  STEP("wait 1000; SETTLE REFUSED; CLOSE YES; UNLOCK YES", STATE_STOPPED, "");
}

/* Only a minute in which the files do not give the `_id`s counts: here MongoDB is away. */
STORY(test_settling_that_fails_now_and_then)
{
  play(TO_FENCING "; FENCE YES:unsettled; OPEN YES; SETTLE REFUSED; wake");
  for (int i = 0; i < 70; i++) {
    play("SETTLE UNKNOWN; wait 3000");
    if (rig.slots[ACTIVITY_RENEW].running)
      play("RENEW YES");
  }
  STEP("SETTLE REFUSED", STATE_SETTLING, "");
}

/* ---- stop ---- */

/* The holder finishes the current batch; batches that are only read stay in the queue. */
STORY(test_stop_in_a_backlog)
{
  STEP(TO_APPENDING "; READ YES; stop; APPEND YES; READ YES", STATE_DRAINING, "");
  STEP("DELETE YES", STATE_RELEASING, "CLOSE");
  STEP("CLOSE YES; UNLOCK YES", STATE_DONE, "");
  assert_int_equal(rig.ledger.end.seq, 110);
}

/* One lost answer does not leave the lock to its lease; and a database that is away does not keep the process from exiting. */
STORY(test_stop_while_the_database_is_away)
{
  STEP(TO_DRAINING "; READ NO; stop; CLOSE UNKNOWN; wake", STATE_RELEASING, "COMMIT");
  STEP("COMMIT YES; UNLOCK UNKNOWN; wake", STATE_UNLOCKING, "UNLOCK");
  STEP("wait 4000; UNLOCK UNKNOWN", STATE_DONE, "");
}

STORY(test_told_of_a_message_during_half_a_pass)
{
  rig.ledger.own = true;
  STEP(TO_DRAINING "; message; READ NO", STATE_DRAINING, "READ");
  assert_int_equal(running(ACTIVITY_READ)->source, SOURCE_OWN);
  STEP("READ NO", STATE_DRAINING, "READ"); /* at once */
  assert_int_equal(running(ACTIVITY_READ)->source, SOURCE_SHARED);
}

/* It is left to the next holder. */
STORY(test_stop_while_a_delete_has_no_answer)
{
  STEP(TO_APPENDING "; READ NO; APPEND YES; stop; DELETE UNKNOWN", STATE_RELEASING, "CLOSE");
  assert_true(running(ACTIVITY_MAIN)->write_close);
  assert_int_equal(running(ACTIVITY_MAIN)->commit.settled, 100);
}
