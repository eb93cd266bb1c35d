#include "worker/consumer_parts.h"

#include <assert.h>
#include <inttypes.h>

/* ---- ending ---- */

static void loads_drop(struct consumer *consumer)
{
  load_free(consumer->hand);
  consumer->hand = NULL;
  for (int i = 0; i < consumer->ready_count; i++)
    load_free(consumer->ready[i]);
  for (int i = 0; i < consumer->committed_count; i++)
    load_free(consumer->committed_loads[i]);
  consumer->ready_count = consumer->committed_count = 0;
}

void consumer_epoch_end(struct consumer *consumer)
{
  loads_drop(consumer);
  consumer->epoch = 0;
  consumer->place = PLACE_UNASKED;
  memset(&consumer->before, 0, sizeof consumer->before);
  memset(&consumer->committed, 0, sizeof consumer->committed);
  consumer->rolling = false;
  consumer->settle_refused_since_ms = -1;
  consumer->leave = LEAVE_NOT;
  consumer->begun = consumer->guarded = consumer->wrote = consumer->unnamed = false;
  consumer->uncommitted = UNCOMMITTED_NOTHING;
  consumer->pass_open = false;
  consumer->pass_messages = consumer->read_unknown_row = 0;
  consumer->read_ms = consumer->delete_ms = 0;
  consumer->delete_unknown_row = 0;
  consumer->empty_since_ms = -1;
  consumer->said_no_space = false;
}

void consumer_leave(struct consumer *consumer, enum leave leave, enum consumer_state after, const char *why)
{
  consumer->leave = leave;
  consumer->after = after;
  consumer->leave_why = why;
}

/* By step 5 of the protocol: what was written is closed and committed as clean, or `clean` goes back to what it was. */
void consumer_release(struct turn *turn, enum consumer_state after, const char *why)
{
  struct consumer *consumer = turn->consumer;
  loads_drop(consumer);
  if (consumer->leave == LEAVE_NOT)
    consumer->leave = LEAVE_RELEASE;
  consumer->after = after;
  consumer_enter(turn, STATE_RELEASING, why);
}

/* Nothing more is written or committed, `clean` stays false. What runs beside is waited for. */
static void abandon(struct turn *turn, enum consumer_state after)
{
  consumer_leave(turn->consumer, LEAVE_ABANDON, after, "the epoch is abandoned");
  if (turn->consumer->state != STATE_DRAINING)
    consumer_release(turn, after, turn->consumer->leave_why);
}

void consumer_fenced(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  consumer->lost = true;
  consumer_note(turn, NOTE_WARN, "fenced", "another holder has taken over: what was not committed is dropped");
  abandon(turn, STATE_IDLE);
}

void consumer_disk_failed(struct turn *turn, const char *text)
{
  struct consumer *consumer = turn->consumer;
  consumer->disk_failures++;
  consumer_note(turn, NOTE_ERROR, "disk", "%s: nothing more is written in this epoch", text);
  abandon(turn, STATE_BACKING_OFF);
}

/* ---- opening ---- */

/*
 * The check before the lock was taken saw it otherwise: the file may not be writable. Believed when it goes on for distrust_ms while
 * the committed end stays where it is; until then the lock is left to others between the tries.
 */
static void opening_refused(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t now = turn->moment->now_ms;
  uint64_t link = consumer->before.end.link;
  if (consumer->open_refused_since_ms < 0 || consumer->open_refused_link != link) {
    consumer->open_refused_since_ms = now;
    consumer->open_refused_link = link;
    consumer_note(turn, NOTE_WARN, "untrusted", "leaves, and tries again: %s", completion->error.text);
  }
  consumer_storage_is(turn, completion->result == RESULT_NEWER ? STORAGE_NEWER : STORAGE_DISAGREES, &completion->error);
  if (completion->result == RESULT_NEWER || !completion->judged) {
    consumer_release(turn, STATE_CHECKING, "the storage is not what the ledger says");
    return;
  }
  consumer_untrusted(turn, completion);
  consumer_release(turn, STATE_STOPPED, "the storage cannot be trusted");
}

static void open_start(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, ACTION_OPEN);
  action->ledger = consumer->before;
  action->place = consumer->place;
  action->judge = consumer->open_refused_link == consumer->before.end.link && consumer_judges(turn, consumer->open_refused_since_ms);
}

static void opening_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  const struct ledger *before = &consumer->before;
  if (completion->result == RESULT_YES) {
    consumer->open_refused_since_ms = -1;
    consumer_storage_is(turn, STORAGE_AGREES, NULL);
    if (!consumer->rolling)
      consumer_note(turn, NOTE_INFO, "takeover",
                    "holder after seq %" PRId64 "; the last end was %s; %" PRId64 " committed message%s to be settled", before->end.seq,
                    before->clean        ? "clean"
                    : before->epoch == 0 ? "none, this is the first"
                                         : "unclean",
                    before->end.seq - before->settled, before->end.seq - before->settled == 1 ? " is" : "s are");
    consumer_enter(turn, STATE_SETTLING, "the file agrees with the ledger");
    return;
  }
  if (completion->result == RESULT_NO)
    consumer_fenced(turn);
  else if (completion->result != RESULT_UNKNOWN)
    opening_refused(turn, completion);
  else if (consumer_hurries(turn))
    consumer_release(turn, STATE_IDLE, "asked to stop");
}

/* ---- settling: the `_id`s come from the files, and are deleted ---- */

static void settle_refused(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t now = turn->moment->now_ms;
  if (completion->result == RESULT_NEWER) {
    consumer_note(turn, NOTE_WARN, "newer", "leaves, a newer pawl is needed: %s", completion->error.text);
    consumer_release(turn, STATE_CHECKING, "a newer pawl is needed");
    return;
  }
  if (consumer->settle_refused_since_ms < 0) {
    consumer->settle_refused_since_ms = now;
    consumer_note(turn, NOTE_WARN, "untrusted", "cannot settle, and tries again: %s", completion->error.text);
  }
  consumer_storage_is(turn, STORAGE_DISAGREES, &completion->error);
  consumer->next_ms = now + RECHECK_MS;
  if (!completion->judged)
    return;
  consumer_untrusted(turn, completion);
  consumer_release(turn, STATE_STOPPED, "the storage cannot be trusted");
}

static void settled(struct turn *turn, int64_t seq)
{
  struct consumer *consumer = turn->consumer;
  consumer->counts.deleted += seq - consumer->settled;
  consumer->settled = seq;
  consumer->settle_refused_since_ms = -1;
  if (consumer->storage == STORAGE_DISAGREES)
    consumer_storage_is(turn, STORAGE_AGREES, NULL);
}

static void settling_main(struct turn *turn, const struct completion *completion)
{
  if (completion->result == RESULT_YES) {
    settled(turn, completion->settled);
  } else if (completion->result == RESULT_NO) {
    consumer_fenced(turn);
  } else if (completion->result == RESULT_LEFT) {
    consumer_refused(turn, completion);
    consumer_release(turn, STATE_STOPPED, "what is committed cannot be deleted");
  } else if (completion->result == RESULT_REFUSED || completion->result == RESULT_NEWER) {
    settle_refused(turn, completion);
  }
}

static void settling_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer_runs(consumer, ACTIVITY_MAIN))
    return;
  if (consumer->stopping || consumer->lost) {
    consumer_release(turn, STATE_IDLE, consumer->lost ? "the lease was lost" : "asked to stop");
  } else if (consumer->settled >= consumer->committed.seq) {
    consumer_enter(turn, STATE_DRAINING, "all that is committed is settled");
  } else if (consumer_main_ready(turn) && consumer_alive(turn)) {
    struct action *action = consumer_start(turn, ACTION_SETTLE);
    action->end = consumer->committed;
    action->settled = consumer->settled;
    action->judge = consumer_judges(turn, consumer->settle_refused_since_ms);
  }
}

/* ---- releasing ---- */

void consumer_commit_fill(const struct consumer *consumer, struct ledger_commit *commit)
{
  commit->epoch = consumer->epoch;
  commit->owner = consumer->owner;
  commit->before = commit->after = consumer->committed;
  commit->settled = consumer->settled;
  commit->guarded = consumer->guarded;
}

void consumer_commit_start(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct ledger_commit *commit = &consumer_start(turn, ACTION_COMMIT)->commit;
  consumer_commit_fill(consumer, commit);
  commit->after = consumer->written;
  commit->set_clean = commit->clean = consumer->uncommitted == UNCOMMITTED_CLEAN;
}

static void unlock(struct turn *turn, const char *why)
{
  consumer_epoch_end(turn->consumer);
  consumer_enter(turn, STATE_UNLOCKING, why);
}

static void rolled(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  int64_t epoch = consumer->epoch;
  consumer->vouched_seen = consumer->guarded;
  consumer_epoch_end(consumer);
  consumer->epoch_seen = epoch;
  consumer->clean_seen = consumer->rolling = true;
  consumer->fence_until_ms = turn->moment->now_ms + lease_safe_ms(consumer->options.lease_ms);
  consumer_enter(turn, STATE_FENCING, "the next segment is a new epoch");
}

/* Whether `clean` is to be committed: with CLOSE; without a block it goes back to what it was, unless a segment is unnamed. */
static bool clean_wanted(const struct consumer *consumer)
{
  bool goes_back = consumer->before.clean && !consumer->unnamed;
  return consumer->leave != LEAVE_ABANDON && (consumer->wrote || goes_back);
}

/* The end stays unclean: the next holder sees to it. */
static void close_failed(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->result == RESULT_FAILED)
    consumer->disk_failures++, consumer->after = STATE_BACKING_OFF;
  consumer_note(turn, NOTE_WARN, "close", "the file is left without a clean end: %s", completion->error.text);
  unlock(turn, "the file is closed");
}

static void clean_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool yes = completion->result == RESULT_YES;
  if (completion->result == RESULT_UNKNOWN && !consumer_hurries(turn))
    return; /* sent again */
  if (yes && consumer->leave == LEAVE_ROLL && !consumer->stopping && consumer_alive(turn)) {
    rolled(turn);
  } else if (completion->result == RESULT_UNKNOWN) {
    /* Asked to stop while the database is away: nothing is uncommitted, and the lease ends by itself. */
    consumer_note(turn, NOTE_WARN, "lock", "the lock is left to its lease: %s", completion->error.text);
    consumer_epoch_end(consumer);
    consumer->locked = false;
    consumer_enter(turn, consumer->after == STATE_STOPPED ? STATE_STOPPED : STATE_DONE, "asked to stop");
  } else {
    if (yes)
      consumer->epoch_left = consumer->epoch;
    unlock(turn, yes ? "the end is clean" : "another holder has taken over");
  }
}

static void releasing_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->result == RESULT_NO_SPACE || completion->result == RESULT_FAILED) {
    close_failed(turn, completion);
  } else if (!clean_wanted(consumer)) {
    unlock(turn, consumer->leave == LEAVE_ABANDON ? "nothing more is written" : "nothing was written");
  } else {
    if (completion->kind == ACTION_CLOSE && completion->result == RESULT_UNKNOWN) {
      consumer->written = completion->end;
      consumer->uncommitted = UNCOMMITTED_CLEAN;
    }
    clean_done(turn, completion);
  }
}

static void releasing_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (!consumer_main_ready(turn))
    return;
  if (consumer->uncommitted == UNCOMMITTED_CLEAN) {
    consumer_commit_start(turn);
    return;
  }
  struct action *action = consumer_start(turn, ACTION_CLOSE);
  action->commits = clean_wanted(consumer);
  action->write_close = action->commits && consumer->wrote;
  consumer_commit_fill(consumer, &action->commit);
  action->commit.set_clean = action->commit.clean = true;
}

/* ---- entries ---- */

void consumer_epoch_main(struct turn *turn, struct completion *completion)
{
  switch (turn->consumer->state) {
  case STATE_OPENING:
    opening_main(turn, completion);
    return;
  case STATE_SETTLING:
    settling_main(turn, completion);
    return;
  case STATE_DRAINING:
    consumer_draining_main(turn, completion);
    return;
  case STATE_RELEASING:
    releasing_main(turn, completion);
    return;
  case STATE_IDLE:
  case STATE_CHECKING:
  case STATE_WAITING:
  case STATE_TAKING:
  case STATE_FENCING:
  case STATE_UNLOCKING:
  case STATE_BACKING_OFF:
  case STATE_STOPPED:
  case STATE_DONE:
  case STATE_COUNT:
    assert(!"not a state of a holder");
  }
}

void consumer_epoch_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  switch (consumer->state) {
  case STATE_OPENING:
    if (consumer_main_ready(turn))
      open_start(turn);
    return;
  case STATE_SETTLING:
    settling_step(turn);
    return;
  case STATE_DRAINING:
    consumer_draining_step(turn);
    return;
  case STATE_RELEASING:
    releasing_step(turn);
    return;
  case STATE_IDLE:
  case STATE_CHECKING:
  case STATE_WAITING:
  case STATE_TAKING:
  case STATE_FENCING:
  case STATE_UNLOCKING:
  case STATE_BACKING_OFF:
  case STATE_STOPPED:
  case STATE_DONE:
  case STATE_COUNT:
    assert(!"not a state of a holder");
  }
}
