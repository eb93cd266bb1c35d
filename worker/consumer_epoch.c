#include "worker/consumer_parts.h"

#include <assert.h>
#include <inttypes.h>

/* ---- ending ---- */

static void loads_drop(struct consumer *consumer)
{
  load_free(consumer->hand);
  load_free(consumer->settle);
  consumer->hand = consumer->settle = NULL;
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
  memset(&consumer->before, 0, sizeof consumer->before);
  memset(&consumer->committed, 0, sizeof consumer->committed);
  consumer->settled = 0;
  consumer->rolling = consumer->fenced = false;
  consumer->settle_stage = SETTLE_FIND;
  consumer->leave = LEAVE_NOT;
  consumer->begun = consumer->wrote = consumer->commit_sent = false;
  consumer->stage = STAGE_NONE;
  consumer->pass_open = false;
  consumer->pass_messages = 0;
  consumer->read_ms = consumer->delete_ms = 0;
  consumer->delete_unknown_row = 0;
  consumer->empty_since_ms = -1;
  consumer->said_no_space = false;
  consumer->messages = 0;
  consumer->release_stage = RELEASE_CLOSE;
  consumer->closed_clean = consumer->unnamed = false;
}

/* By step 5 of the protocol: what was written is closed and committed as clean, or `clean` goes back to what it was. */
static void release(struct turn *turn, enum consumer_state after, const char *why)
{
  struct consumer *consumer = turn->consumer;
  loads_drop(consumer);
  if (consumer->leave == LEAVE_NOT)
    consumer->leave = LEAVE_RELEASE;
  consumer->after = after;
  consumer->release_stage = RELEASE_CLOSE;
  consumer_enter(turn, STATE_RELEASING, why);
}

/* Nothing more is written or committed, `clean` stays false. What runs beside is waited for. */
static void abandon(struct turn *turn, enum consumer_state after)
{
  turn->consumer->leave = LEAVE_ABANDON;
  turn->consumer->after = after;
  if (turn->consumer->state != STATE_DRAINING)
    release(turn, after, "the epoch is abandoned");
}

static void fenced(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  consumer->fenced = consumer->lost = true;
  consumer_note(turn, NOTE_WARN, "fenced", "another holder has taken over: what was not committed is dropped");
  abandon(turn, STATE_IDLE);
}

static void disk_failed(struct turn *turn, const char *text)
{
  struct consumer *consumer = turn->consumer;
  consumer->disk_failures++;
  consumer_note(turn, NOTE_ERROR, "disk", "%s: nothing more is written in this epoch", text);
  abandon(turn, STATE_BACKING_OFF);
}

/* ---- opening ---- */

static void opening_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  const struct ledger *before = &consumer->before;
  if (completion->result == RESULT_YES) {
    if (!consumer->rolling)
      consumer_note(turn, NOTE_INFO, "takeover",
                    "holder after seq %" PRId64 "; the last end was %s; %" PRId64 " committed messages are to be settled", before->end.seq,
                    before->clean        ? "clean"
                    : before->epoch == 0 ? "none, this is the first"
                                         : "unclean",
                    before->end.seq - before->settled);
    consumer_enter(turn, STATE_SETTLING, "the file agrees with the ledger");
    return;
  }
  if (completion->result == RESULT_UNKNOWN)
    return;
  /* The check before the lock was taken saw it otherwise: it decides, again and again, whether this is to be believed. */
  consumer_note(turn, NOTE_WARN, "untrusted", "leaves: %s", completion->error.text);
  release(turn, STATE_CHECKING, "the storage is not what the ledger says");
}

/* ---- settling: the `_id`s come from the files, and are deleted ---- */

static void settle_refused(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t now = turn->moment->now_ms;
  if (consumer->distrust_since_ms < 0) {
    consumer->distrust_since_ms = now;
    consumer_note(turn, NOTE_WARN, "untrusted", "cannot settle: %s", completion->error.text);
  }
  consumer->next_ms = now + RECHECK_MS;
  if (now - consumer->distrust_since_ms < consumer->options.distrust_ms)
    return;
  consumer_note(turn, NOTE_ERROR, "untrusted", "the storage cannot be trusted: %s", completion->error.text);
  release(turn, STATE_STOPPED, "the storage cannot be trusted");
}

static void settling_main(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  struct load *load = completion->load;
  bool yes = completion->result == RESULT_YES;
  if (completion->kind != ACTION_SETTLE_RECORD)
    consumer->settle = load;
  if (completion->result == RESULT_REFUSED) {
    settle_refused(turn, completion);
    return;
  }
  switch (consumer->settle_stage) {
  case SETTLE_FIND:
    if (yes)
      consumer->settle_stage = SETTLE_DELETE;
    return;
  case SETTLE_DELETE:
    if (yes && ++load->ids_deleted == load->ids_count)
      consumer->settle_stage = SETTLE_RECORD;
    return;
  case SETTLE_RECORD:
    if (completion->result == RESULT_NO) {
      fenced(turn);
    } else if (yes) {
      consumer->settled = consumer->settle->seq_last;
      load_free(consumer->settle);
      consumer->settle = NULL;
      consumer->settle_stage = SETTLE_FIND;
      consumer->distrust_since_ms = -1;
    }
    return;
  }
}

static void settling_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer_runs(consumer, ACTIVITY_MAIN))
    return;
  if (consumer->stopping || consumer->lost) {
    release(turn, STATE_IDLE, consumer->lost ? "the lease was lost" : "asked to stop");
    return;
  }
  if (consumer->settled >= consumer->committed.seq) {
    consumer_enter(turn, STATE_DRAINING, "all that is committed is settled");
    return;
  }
  if (!consumer_main_ready(turn) || !consumer_alive(turn))
    return;
  struct action *action = NULL;
  switch (consumer->settle_stage) {
  case SETTLE_FIND:
    action = consumer_start(turn, ACTION_SETTLE_FIND);
    action->end = consumer->committed;
    action->settled = consumer->settled;
    return;
  case SETTLE_DELETE:
    action = consumer_start(turn, ACTION_SETTLE_DELETE);
    action->load = consumer->settle;
    consumer->settle = NULL;
    return;
  case SETTLE_RECORD:
    consumer_start(turn, ACTION_SETTLE_RECORD)->settled = consumer->settle->seq_last;
    return;
  }
}

/* ---- draining: the block in hand ---- */

/*
 * May the current file be continued? In this order (docs/protocol.md, "May the file be continued?"):
 *
 *   rolling                                        -> new segment
 *   no file yet                                    -> new segment
 *   local, guard taken                             -> the epoch seen again, then cut and continue
 *   local, guard busy: a frozen writer has it open -> new segment
 *   network or unknown, clean and exactly as long  -> continue
 *   network or unknown, anything else              -> new segment
 */
static enum write_stage stage_by_ground(const struct consumer *consumer, const struct writer_ground *ground)
{
  if (ground->local)
    return ground->guarded ? STAGE_VERIFY : STAGE_CREATE;
  return consumer->before.clean && ground->exact ? STAGE_APPEND : STAGE_CREATE;
}

static enum write_stage stage_first(const struct consumer *consumer)
{
  if (consumer->begun)
    return STAGE_APPEND;
  return consumer->rolling || consumer->committed.file[0] == 0 ? STAGE_CREATE : STAGE_GUARD;
}

static const char *segment_reason(const struct consumer *consumer)
{
  return consumer->committed.file[0] == 0 ? "first" : consumer->rolling ? "roll" : "unclean";
}

static void no_space(struct turn *turn, const char *text)
{
  struct consumer *consumer = turn->consumer;
  if (!consumer->said_no_space)
    consumer_note(turn, NOTE_WARN, "no-space", "%s: waits, and goes on by itself when there is space", text);
  consumer->said_no_space = true;
  consumer->next_ms = turn->moment->now_ms + RECHECK_MS;
}

static void create_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  switch (completion->result) {
  case RESULT_YES:
    consumer->written = completion->end;
    consumer->commit_sent = false;
    consumer->stage = STAGE_COMMIT_SEGMENT;
    return;
  case RESULT_NO_SPACE:
    no_space(turn, completion->error.text);
    return;
  case RESULT_SPENT:
    consumer_note(turn, NOTE_WARN, "spent", "gives the epoch up: %s", completion->error.text);
    consumer->unnamed = true;
    consumer->stage = STAGE_NONE;
    consumer->leave = LEAVE_RELEASE;
    consumer->after = STATE_IDLE;
    return;
  case RESULT_REFUSED:
    consumer_note(turn, NOTE_ERROR, "untrusted", "the storage cannot be trusted: %s", completion->error.text);
    consumer->stage = STAGE_NONE;
    consumer->leave = LEAVE_RELEASE;
    consumer->after = STATE_STOPPED;
    return;
  case RESULT_NO:
  case RESULT_UNKNOWN:
  case RESULT_CHANGED:
  case RESULT_NEWER:
  case RESULT_FAILED:
  case RESULT_COUNT:
    disk_failed(turn, completion->error.text);
    return;
  }
}

static void append_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->result == RESULT_YES) {
    consumer->written = completion->end;
    consumer->stage = STAGE_COMMIT;
    consumer->wrote = true;
    consumer->disk_failures = 0;
    if (consumer->said_no_space)
      consumer_note(turn, NOTE_INFO, "no-space", "there is space again");
    consumer->said_no_space = false;
  } else if (completion->result == RESULT_NO_SPACE) {
    no_space(turn, completion->error.text);
  } else {
    disk_failed(turn, completion->error.text);
  }
}

static void block_committed(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct load *load = consumer->hand;
  consumer->committed = consumer->written;
  consumer->seq_seen = consumer->committed.seq;
  consumer->messages += load->messages;
  load->seq_last = consumer->committed.seq;
  batch_deinit(&load->batch); /* only the ids are wanted from here on */
  assert(consumer->committed_count < LOADS_COMMITTED_MAX);
  consumer->committed_loads[consumer->committed_count++] = load;
  consumer->hand = NULL;
  consumer->stage = STAGE_NONE;
}

static void commit_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->result == RESULT_UNKNOWN)
    return; /* sent again: a repetition is harmless */
  if (completion->result != RESULT_YES) {
    fenced(turn);
  } else if (consumer->stage == STAGE_COMMIT_SEGMENT) {
    consumer->committed = consumer->written;
    consumer->begun = true;
    consumer->stage = STAGE_APPEND;
    consumer_note(turn, NOTE_INFO, "segment", "writes to %s, a new segment (%s)", consumer->committed.file,
                  consumer->rolling                   ? "roll"
                  : consumer->before.end.file[0] == 0 ? "first"
                                                      : "the file cannot be continued in place");
  } else {
    block_committed(turn);
  }
}

static void draining_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool yes = completion->result == RESULT_YES;
  if (completion->load != NULL)
    consumer->hand = completion->load;
  switch (consumer->stage) {
  case STAGE_GUARD:
    if (!yes)
      disk_failed(turn, completion->error.text);
    else
      consumer->stage = stage_by_ground(consumer, &completion->ground);
    consumer->begun = consumer->stage == STAGE_APPEND;
    return;
  case STAGE_VERIFY:
    if (yes)
      consumer->stage = STAGE_CUT;
    else if (completion->result != RESULT_UNKNOWN)
      fenced(turn);
    return;
  case STAGE_CUT:
    if (yes)
      consumer->stage = STAGE_APPEND;
    else
      disk_failed(turn, completion->error.text);
    consumer->begun = yes;
    return;
  case STAGE_CREATE:
    create_done(turn, completion);
    return;
  case STAGE_APPEND:
    append_done(turn, completion);
    return;
  case STAGE_COMMIT_SEGMENT:
  case STAGE_COMMIT:
    commit_done(turn, completion);
    return;
  case STAGE_NONE:
    assert(!"nothing is in hand");
  }
}

static void commit_fill(struct turn *turn, struct action *action, const struct committed *after)
{
  struct consumer *consumer = turn->consumer;
  action->commit.epoch = consumer->epoch;
  action->commit.owner = consumer->owner;
  action->commit.before = consumer->committed;
  action->commit.after = *after;
  action->commit.settled = consumer->settled;
}

static void write_start(struct turn *turn)
{
  static const enum action_kind kinds[] = {
      [STAGE_GUARD] = ACTION_GUARD,           [STAGE_VERIFY] = ACTION_VERIFY, [STAGE_CUT] = ACTION_CUT,      [STAGE_CREATE] = ACTION_CREATE,
      [STAGE_COMMIT_SEGMENT] = ACTION_COMMIT, [STAGE_APPEND] = ACTION_APPEND, [STAGE_COMMIT] = ACTION_COMMIT};
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, kinds[consumer->stage]);
  if (consumer->stage == STAGE_CREATE) {
    action->reason = segment_reason(consumer);
    memcpy(action->uuid, turn->moment->random, sizeof action->uuid);
  } else if (consumer->stage == STAGE_APPEND) {
    action->load = consumer->hand;
    consumer->hand = NULL;
  } else if (consumer->stage == STAGE_COMMIT || consumer->stage == STAGE_COMMIT_SEGMENT) {
    consumer->commit_sent = true;
    commit_fill(turn, action, &consumer->written);
  }
}

/* Takes up a load, if there is one and it may be written; true if something of the block in hand is to be started. */
static bool write_wanted(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  /* What is synced, or may be named by the ledger already, is still tried to be committed: the epoch decides. */
  bool must = consumer->stage == STAGE_COMMIT || (consumer->stage == STAGE_COMMIT_SEGMENT && consumer->commit_sent);
  if (must)
    return consumer->leave != LEAVE_ABANDON;
  if (consumer->leave != LEAVE_NOT) {
    load_free(consumer->hand);
    consumer->hand = NULL;
    if (consumer->stage != STAGE_COMMIT_SEGMENT) /* that one is unlinked by CLOSE */
      consumer->stage = STAGE_NONE;
    return false;
  }
  if (!consumer_alive(turn))
    return false;
  if (consumer->stage != STAGE_NONE)
    return true;
  if (consumer->ready_count == 0 || consumer->committed_count == LOADS_COMMITTED_MAX)
    return false;
  consumer->hand = consumer->ready[0];
  consumer->ready[0] = consumer->ready[1];
  consumer->ready_count--;
  consumer->stage = stage_first(consumer);
  return true;
}

/* ---- draining: reading and deleting ---- */

void consumer_epoch_read(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t now = turn->moment->now_ms;
  consumer->pass_open = completion->result == RESULT_YES;
  if (completion->load != NULL) {
    assert(consumer->ready_count < LOADS_READY_MAX);
    consumer->pass_messages += completion->load->messages;
    consumer->ready[consumer->ready_count++] = completion->load;
    consumer->empty_since_ms = -1;
  }
  if (completion->result == RESULT_UNKNOWN) {
    consumer_note(turn, NOTE_DEBUG, "pass", "the pass ended early: %s", completion->error.text);
    consumer->read_ms = now + consumer_backoff(turn, 1);
  } else if (completion->result == RESULT_NO && consumer->pass_messages == 0) {
    if (consumer->empty_since_ms < 0)
      consumer->empty_since_ms = now;
    consumer->read_ms = now + consumer_jitter(turn, consumer->options.poll_ms);
  }
}

static void read_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer_runs(consumer, ACTIVITY_READ) || consumer->leave != LEAVE_NOT || !consumer_alive(turn))
    return;
  if (consumer->pass_open) {
    if (consumer->ready_count < LOADS_READY_MAX)
      consumer_start(turn, ACTION_READ);
    return;
  }
  /* A pass begins only when nothing is on its way: else committed messages, not yet deleted, would be seen again. */
  bool all_deleted = consumer->stage == STAGE_NONE && consumer->ready_count == 0 && consumer->committed_count == 0 &&
                     !consumer_runs(consumer, ACTIVITY_DELETE) && !consumer_runs(consumer, ACTIVITY_MAIN);
  if (!all_deleted || turn->moment->now_ms < consumer->read_ms)
    return;
  consumer->pass_messages = 0;
  consumer_start(turn, ACTION_READ)->begin = true;
}

void consumer_epoch_delete(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  struct load *load = completion->load;
  bool yes = completion->result == RESULT_YES;
  consumer->delete_unknown_row = yes ? 0 : consumer->delete_unknown_row + 1;
  consumer->delete_ms = yes ? 0 : turn->moment->now_ms + consumer_backoff(turn, consumer->delete_unknown_row);
  assert(consumer->committed_count > 0 && load == consumer->committed_loads[0]);
  if (!yes || ++load->ids_deleted < load->ids_count)
    return;
  consumer->settled = load->seq_last;
  load_free(load);
  consumer->committed_count--;
  memmove(consumer->committed_loads, consumer->committed_loads + 1,
          (size_t)consumer->committed_count * sizeof consumer->committed_loads[0]);
}

static void delete_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer_runs(consumer, ACTIVITY_DELETE) || consumer->committed_count == 0 || consumer->leave == LEAVE_ABANDON ||
      !consumer_alive(turn) || turn->moment->now_ms < consumer->delete_ms)
    return;
  consumer_start(turn, ACTION_DELETE)->load = consumer->committed_loads[0];
}

/* ---- draining: when to leave ---- */

static void leave_decide(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  const struct consumer_options *options = &consumer->options;
  if (consumer->leave != LEAVE_NOT)
    return;
  bool idle = consumer->stage == STAGE_NONE && consumer->ready_count == 0;
  if (consumer->lost || consumer->stopping)
    consumer->leave = LEAVE_RELEASE;
  else if (idle && consumer->empty_since_ms >= 0 && turn->moment->now_ms - consumer->empty_since_ms >= options->linger_ms)
    consumer->leave = LEAVE_RELEASE;
  else if (consumer->stage == STAGE_NONE && consumer->wrote && options->segment_bytes > 0 &&
           consumer->committed.length >= options->segment_bytes && consumer_alive(turn))
    consumer->leave = LEAVE_ROLL;
  if (consumer->leave != LEAVE_NOT)
    consumer->after = STATE_IDLE;
}

static const char *leave_reason(const struct consumer *consumer)
{
  switch (consumer->leave) {
  case LEAVE_ROLL:
    return "the segment is large enough: roll";
  case LEAVE_ABANDON:
    return "the epoch is abandoned";
  case LEAVE_RELEASE:
    return consumer->lost                  ? "the lease was lost"
           : consumer->stopping            ? "asked to stop"
           : consumer->after == STATE_IDLE ? "the queue is empty"
                                           : "it may not write";
  case LEAVE_NOT:
    break;
  }
  return "";
}

static void draining_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  leave_decide(turn);
  if (!consumer_runs(consumer, ACTIVITY_MAIN) && write_wanted(turn) && consumer_main_ready(turn))
    write_start(turn);
  delete_step(turn);
  read_step(turn);
  if (consumer->leave == LEAVE_NOT || consumer_runs(consumer, ACTIVITY_MAIN) || consumer_runs(consumer, ACTIVITY_READ) ||
      consumer_runs(consumer, ACTIVITY_DELETE))
    return;
  bool in_hand = consumer->leave != LEAVE_ABANDON &&
                 (consumer->stage == STAGE_COMMIT || (consumer->stage == STAGE_COMMIT_SEGMENT && consumer->commit_sent));
  /* Who is asked to stop while the database is away leaves them to the next holder. */
  bool hopeless = consumer->stopping && consumer->delete_unknown_row > 0;
  bool deletes_left = consumer->committed_count > 0 && consumer->leave != LEAVE_ABANDON && consumer_alive(turn) && !hopeless;
  if (!in_hand && !deletes_left)
    release(turn, consumer->after, leave_reason(consumer));
}

/* ---- releasing ---- */

static void unlock(struct turn *turn, const char *why)
{
  enum consumer_state after = turn->consumer->after;
  consumer_epoch_end(turn->consumer);
  turn->consumer->after = after;
  consumer_enter(turn, STATE_UNLOCKING, why);
}

static void rolled(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  int64_t epoch = consumer->epoch;
  consumer_epoch_end(consumer);
  consumer->epoch_seen = epoch;
  consumer->rolling = true;
  consumer_enter(turn, STATE_FENCING, "the next segment is a new epoch");
}

static void close_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  consumer->unnamed = consumer->unnamed || completion->unnamed;
  if (consumer->leave == LEAVE_ABANDON) {
    unlock(turn, "nothing more is written");
  } else if (completion->result == RESULT_YES) {
    consumer->written = completion->end;
    consumer->closed_clean = consumer->wrote;
    consumer->release_stage = RELEASE_CLEAN;
  } else {
    /* The end stays unclean: the next holder sees to it. */
    if (completion->result == RESULT_FAILED)
      consumer->disk_failures++, consumer->after = STATE_BACKING_OFF;
    consumer_note(turn, NOTE_WARN, "close", "the file is left without a clean end: %s", completion->error.text);
    unlock(turn, "the file is closed");
  }
}

static void clean_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->result == RESULT_UNKNOWN && !consumer->stopping)
    return; /* sent again */
  if (completion->result == RESULT_YES && consumer->leave == LEAVE_ROLL && !consumer->stopping && consumer_alive(turn)) {
    rolled(turn);
    return;
  }
  if (completion->result == RESULT_UNKNOWN) {
    /* Asked to stop while the database is away: nothing is uncommitted, and the lease ends by itself. */
    consumer_note(turn, NOTE_WARN, "lock", "the lock is left to its lease: %s", completion->error.text);
    consumer_epoch_end(consumer);
    consumer->locked = false;
    consumer_enter(turn, STATE_DONE, "asked to stop");
    return;
  }
  unlock(turn, completion->result == RESULT_YES ? "the end is clean" : "another holder has taken over");
}

static void releasing_main(struct turn *turn, const struct completion *completion)
{
  if (turn->consumer->release_stage == RELEASE_CLOSE)
    close_done(turn, completion);
  else
    clean_done(turn, completion);
}

/* `clean` is true with CLOSE; without a block it goes back to what it was, if no segment of this epoch is left unnamed. */
static bool clean_wanted(const struct consumer *consumer)
{
  if (consumer->closed_clean)
    return true;
  return !consumer->wrote && consumer->before.clean && !consumer->unnamed && !consumer->fenced;
}

static void releasing_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (!consumer_main_ready(turn))
    return;
  if (consumer->release_stage == RELEASE_CLOSE) {
    struct action *action = consumer_start(turn, ACTION_CLOSE);
    action->write_close = consumer->wrote && consumer->leave != LEAVE_ABANDON && !consumer->fenced;
    action->discard = consumer->stage == STAGE_COMMIT_SEGMENT && !consumer->commit_sent;
  } else if (clean_wanted(consumer)) {
    struct action *action = consumer_start(turn, ACTION_COMMIT);
    commit_fill(turn, action, consumer->wrote ? &consumer->written : &consumer->committed);
    action->commit.set_clean = action->commit.clean = true;
  } else {
    unlock(turn, "nothing was written");
  }
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
    draining_main(turn, completion);
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
      consumer_start(turn, ACTION_OPEN)->ledger = consumer->before;
    return;
  case STATE_SETTLING:
    settling_step(turn);
    return;
  case STATE_DRAINING:
    draining_step(turn);
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
