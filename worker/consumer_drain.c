#include "worker/consumer_parts.h"

#include <assert.h>
#include <inttypes.h>

/*
 * DRAINING: reading, writing and deleting beside one another. Reading runs ahead by at most LOADS_READY_MAX loads; a block
 * is written only when the one before it is committed; deletes follow behind, at most LOADS_COMMITTED_MAX loads.
 */

enum {
  READ_UNKNOWN_MAX = 5, /* passes in a row without a message: told, and the lock is let go */
  READ_PATIENCE_MS = 1000,
  EMPTY_PAUSE_MIN_MS = 2,
};

/* ---- draining: the block in hand ---- */

/*
 * May the current file be continued? In this order (docs/protocol.md, "May the file be continued?"):
 *
 *   rolling                                                         -> new segment
 *   no file yet                                                     -> new segment
 *   local, guard busy: a frozen writer has it open                  -> new segment
 *   local, guard taken, the end vouched for                         -> the epoch seen again, then cut and continue
 *   local, guard taken, not vouched for, clean and exactly as long  -> the epoch seen again, then continue
 *   local, guard taken, anything else                               -> new segment
 *   network or unknown, clean and exactly as long                   -> continue
 *   network or unknown, anything else                               -> new segment
 */
static enum write_stage stage_by_ground(const struct consumer *consumer, const struct writer_ground *ground)
{
  bool in_order = consumer->before.clean && ground->exact;
  if (!ground->local)
    return in_order ? STAGE_APPEND : STAGE_CREATE;
  return ground->guarded && (ledger_vouched(&consumer->before) || in_order) ? STAGE_VERIFY : STAGE_CREATE;
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
    consumer->guarded = consumer->place == PLACE_LOCAL; /* else it would not have been made */
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
    consumer_untrusted(turn, completion);
    consumer->stage = STAGE_NONE;
    consumer->leave = LEAVE_RELEASE;
    consumer->after = STATE_STOPPED;
    return;
  case RESULT_NO:
    consumer_fenced(turn);
    return;
  case RESULT_UNKNOWN: /* whether that is so; tried again */
    return;
  case RESULT_CHANGED:
  case RESULT_NEWER:
  case RESULT_FAILED:
  case RESULT_COUNT:
    consumer_disk_failed(turn, completion->error.text);
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
    consumer_disk_failed(turn, completion->error.text);
  }
}

static void block_count(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  consumer->counts.blocks++;
  consumer->counts.documents += consumer->written.seq - consumer->committed.seq;
  consumer->counts.messages += consumer->written.items - consumer->committed.items;
  consumer->counts.bytes += consumer->written.length - consumer->committed.length;
  consumer->commit_ms = turn->moment->now_ms;
}

static void block_committed(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct load *load = consumer->hand;
  block_count(turn);
  consumer->committed = consumer->written;
  consumer->seq_seen = consumer->committed.seq;
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
    consumer_fenced(turn);
  } else if (consumer->stage == STAGE_COMMIT_SEGMENT) {
    consumer->committed = consumer->written;
    consumer->begun = true;
    consumer->counts.segments++;
    consumer->stage = STAGE_APPEND;
    consumer_note(turn, NOTE_INFO, "segment", "writes to %s, a new segment (%s)", consumer->committed.file,
                  consumer->rolling                   ? "roll"
                  : consumer->before.end.file[0] == 0 ? "first"
                                                      : "the file cannot be continued in place");
  } else {
    block_committed(turn);
  }
}

void consumer_draining_main(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool yes = completion->result == RESULT_YES;
  if (completion->load != NULL)
    consumer->hand = completion->load;
  switch (consumer->stage) {
  case STAGE_GUARD:
    if (!yes)
      consumer_disk_failed(turn, completion->error.text);
    else
      consumer->stage = stage_by_ground(consumer, &completion->ground);
    consumer->begun = consumer->stage == STAGE_APPEND;
    consumer->guarded = consumer->stage == STAGE_VERIFY;
    return;
  case STAGE_VERIFY:
    consumer->begun = yes && !ledger_vouched(&consumer->before); /* nothing is to be cut */
    if (yes)
      consumer->stage = consumer->begun ? STAGE_APPEND : STAGE_CUT;
    else if (completion->result != RESULT_UNKNOWN)
      consumer_fenced(turn);
    return;
  case STAGE_CUT:
    if (yes)
      consumer->stage = STAGE_APPEND;
    else
      consumer_disk_failed(turn, completion->error.text);
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

static void write_start(struct turn *turn)
{
  static const enum action_kind kinds[] = {
      [STAGE_GUARD] = ACTION_GUARD,           [STAGE_VERIFY] = ACTION_VERIFY, [STAGE_CUT] = ACTION_CUT,      [STAGE_CREATE] = ACTION_CREATE,
      [STAGE_COMMIT_SEGMENT] = ACTION_COMMIT, [STAGE_APPEND] = ACTION_APPEND, [STAGE_COMMIT] = ACTION_COMMIT};
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, kinds[consumer->stage]);
  if (consumer->stage == STAGE_CREATE) {
    action->reason = segment_reason(consumer);
    action->judge = true;
    memcpy(action->uuid, turn->moment->random, sizeof action->uuid);
    action->block_bytes = consumer->hand->batch.bytes;
  } else if (consumer->stage == STAGE_APPEND) {
    action->load = consumer->hand;
    consumer->hand = NULL;
  } else if (consumer->stage == STAGE_COMMIT || consumer->stage == STAGE_COMMIT_SEGMENT) {
    consumer->commit_sent = true;
    consumer_commit_fill(turn, action, &consumer->written);
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

/*
 * The longer the queue has been empty, the longer: where messages flow, the next one comes soon, with or without a wake-up. But looks take
 * no more than a fifth of the time.
 */
static int64_t empty_pause(const struct turn *turn, int64_t rest)
{
  const struct consumer *consumer = turn->consumer;
  int64_t pause = turn->moment->now_ms - consumer->empty_since_ms, most = consumer->options.poll_ms, least = rest / 5;
  if (pause < EMPTY_PAUSE_MIN_MS)
    pause = EMPTY_PAUSE_MIN_MS;
  if (pause > most)
    pause = most;
  return consumer_jitter(turn, pause > least ? pause : least);
}

/*
 * What is written is still committed; nothing more is read, written or deleted, and `settled` stays. An epoch that is abandoned is left as
 * it was to be: whoever comes next finds out again.
 */
static void draining_refused(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (consumer->leave == LEAVE_ABANDON || consumer->refused)
    return;
  consumer_refused(turn, completion);
  consumer->leave = LEAVE_RELEASE;
  consumer->after = STATE_STOPPED;
}

void consumer_epoch_read(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t now = turn->moment->now_ms;
  consumer->pass_open = completion->result == RESULT_YES;
  if (completion->result == RESULT_REFUSED)
    draining_refused(turn, completion);
  consumer_name_document(turn, completion);
  if (completion->load != NULL) {
    assert(consumer->ready_count < LOADS_READY_MAX);
    consumer->pass_messages += completion->load->messages;
    consumer->ready[consumer->ready_count++] = completion->load;
    consumer->empty_since_ms = consumer->empty_until_ms = -1;
  }
  consumer->read_unknown_row = completion->result == RESULT_UNKNOWN ? consumer->read_unknown_row + 1 : 0;
  if (completion->result == RESULT_UNKNOWN) {
    /* One is nothing unusual: a snapshot that was too old, an election. Many in a row are told, and another may have a better link. */
    bool told = consumer->read_unknown_row == READ_UNKNOWN_MAX;
    consumer_note(turn, told ? NOTE_WARN : NOTE_DEBUG, "pass", "%s%s%s",
                  told ? "five passes in a row brought no message, the last because of: " : "the pass ended early: ",
                  completion->error.text, told ? "; releases the lock and pauses" : "");
    consumer->read_ms = now + consumer_backoff(turn, consumer->read_unknown_row);
  } else if (completion->result == RESULT_NO && consumer->pass_messages == 0) {
    if (consumer->empty_since_ms < 0)
      consumer->empty_since_ms = now;
    int64_t rest = consumer_look_rest(consumer, completion);
    consumer->thorough_ms = now + rest;
    consumer->read_ms = now + (consumer->woken ? 0 : empty_pause(turn, rest));
    consumer->empty_until_ms = consumer->woken ? -1 : now + consumer_jitter(turn, consumer->options.poll_ms);
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
                     consumer_deletes(consumer) == 0 && !consumer_runs(consumer, ACTIVITY_MAIN);
  if (!all_deleted || turn->moment->now_ms < consumer->read_ms)
    return;
  consumer->pass_messages = 0;
  consumer->woken = false;
  consumer_start(turn, ACTION_READ)->begin = true;
}

void consumer_epoch_delete(struct turn *turn, struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  struct load *load = completion->load;
  bool yes = completion->result == RESULT_YES;
  consumer->delete_unknown_row = yes ? 0 : consumer->delete_unknown_row + 1;
  consumer->delete_ms = yes ? 0 : turn->moment->now_ms + consumer_backoff(turn, consumer->delete_unknown_row);
  load->deleting = false;
  load->ids_deleted += yes;
  if (completion->result == RESULT_REFUSED)
    draining_refused(turn, completion);
  /* `settled` is the end of the unbroken prefix. */
  int done = 0;
  while (done < consumer->committed_count && !consumer->committed_loads[done]->deleting &&
         consumer->committed_loads[done]->ids_deleted == consumer->committed_loads[done]->ids_count) {
    consumer->settled = consumer->committed_loads[done]->seq_last;
    consumer->counts.deleted += consumer->committed_loads[done]->messages;
    load_free(consumer->committed_loads[done++]);
  }
  consumer->committed_count -= done;
  memmove(consumer->committed_loads, consumer->committed_loads + done,
          (size_t)consumer->committed_count * sizeof consumer->committed_loads[0]);
}

static void delete_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer->leave == LEAVE_ABANDON || consumer->refused || !consumer_alive(turn) || turn->moment->now_ms < consumer->delete_ms)
    return;
  int free_deletes = DELETES_MAX - consumer_deletes(consumer);
  for (int i = 0; i < consumer->committed_count && free_deletes > 0; i++) {
    struct load *load = consumer->committed_loads[i];
    if (load->deleting || load->ids_deleted == load->ids_count)
      continue;
    load->deleting = true;
    consumer_start(turn, ACTION_DELETE)->load = load;
    free_deletes--;
  }
}

/* ---- draining: when to leave ---- */

static void leave_decide(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  const struct consumer_options *options = &consumer->options;
  if (consumer->leave != LEAVE_NOT)
    return;
  bool idle = consumer->stage == STAGE_NONE && consumer->ready_count == 0 && !consumer_runs(consumer, ACTIVITY_READ);
  bool got_on = consumer->wrote || consumer->settled > consumer->before.settled || consumer->empty_since_ms >= 0 || consumer->said_no_space;
  if (consumer->lost || consumer->stopping || (consumer->awaited && got_on))
    consumer->leave = LEAVE_RELEASE;
  else if (idle && consumer->read_unknown_row >= READ_UNKNOWN_MAX) {
    consumer->leave = LEAVE_RELEASE;
    consumer->give_up_row = consumer->read_unknown_row;
  } else if (idle && consumer->empty_since_ms >= 0 && turn->moment->now_ms - consumer->empty_since_ms >= options->linger_ms)
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
           : consumer->refused             ? "the database is not as it should be"
           : consumer->after != STATE_IDLE ? "it may not write"
           : consumer->give_up_row > 0     ? "the queue cannot be read"
           : consumer->awaited             ? "a tool waits for the lock"
                                           : "the queue is empty";
  case LEAVE_NOT:
    break;
  }
  return "";
}

/* It may take as long as its bytes come; a cursor of which one is lost has to be opened anew, so it has a moment to come. */
int64_t consumer_read_drop_ms(const struct consumer *consumer)
{
  bool waits = consumer->leave != LEAVE_NOT && consumer_runs(consumer, ACTIVITY_READ) && !consumer->activity[ACTIVITY_READ].dropped;
  return waits ? consumer->activity[ACTIVITY_READ].started_ms + READ_PATIENCE_MS : INT64_MAX;
}

static void drop_step(struct turn *turn)
{
  bool drop = turn->moment->now_ms >= consumer_read_drop_ms(turn->consumer);
  turn->consumer->activity[ACTIVITY_READ].dropped |= drop;
  turn->effects->drop_read |= drop;
}

void consumer_draining_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  leave_decide(turn);
  drop_step(turn);
  if (!consumer_runs(consumer, ACTIVITY_MAIN) && write_wanted(turn) && consumer_main_ready(turn))
    write_start(turn);
  delete_step(turn);
  read_step(turn);
  if (consumer->leave == LEAVE_NOT || consumer_runs(consumer, ACTIVITY_MAIN) || consumer_runs(consumer, ACTIVITY_READ) ||
      consumer_deletes(consumer) > 0)
    return;
  bool in_hand = consumer->leave != LEAVE_ABANDON &&
                 (consumer->stage == STAGE_COMMIT || (consumer->stage == STAGE_COMMIT_SEGMENT && consumer->commit_sent));
  /* Who is asked to stop while the database is away leaves them to the next holder; so does who must stop because of one of them. */
  bool hopeless = consumer->refused || (consumer->stopping && consumer->delete_unknown_row > 0);
  bool deletes_left = consumer->committed_count > 0 && consumer->leave != LEAVE_ABANDON && consumer_alive(turn) && !hopeless;
  if (!in_hand && !deletes_left)
    consumer_release(turn, consumer->after, leave_reason(consumer));
}
