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

static void begun(struct turn *turn)
{
  turn->consumer->begun = true;
  turn->consumer->uncommitted = UNCOMMITTED_NOTHING;
}

static void segment_committed(struct turn *turn, const struct committed *end)
{
  struct consumer *consumer = turn->consumer;
  consumer_note(turn, NOTE_INFO, "segment", "writes to %s, a new segment (%s)", end->file,
                consumer->rolling                   ? "roll"
                : consumer->before.end.file[0] == 0 ? "first"
                                                    : "the file cannot be continued in place");
  consumer->committed = *end;
  consumer->counts.segments++;
  begun(turn);
}

static void begin_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  consumer->guarded = completion->guarded;
  consumer->unnamed = consumer->unnamed || completion->unnamed;
  switch (completion->result) {
  case RESULT_YES:
    if (completion->created)
      segment_committed(turn, &completion->end);
    else
      begun(turn);
    return;
  case RESULT_UNKNOWN: /* without a segment it begins anew */
    consumer->written = completion->end;
    consumer->uncommitted = completion->created ? UNCOMMITTED_SEGMENT : UNCOMMITTED_NOTHING;
    return;
  case RESULT_STOPPED: /* a segment that it has unlinked again has used up the epoch's name */
    if (consumer->leave == LEAVE_NOT)
      consumer_leave(consumer, LEAVE_RELEASE, STATE_IDLE, "the lease is about to end");
    return;
  case RESULT_NO:
    consumer_fenced(turn);
    return;
  case RESULT_NO_SPACE:
    no_space(turn, completion->error.text);
    return;
  case RESULT_SPENT:
    consumer_note(turn, NOTE_WARN, "spent", "gives the epoch up: %s", completion->error.text);
    consumer_leave(consumer, LEAVE_RELEASE, STATE_IDLE, "the name of its segment is taken");
    return;
  case RESULT_REFUSED:
    consumer_untrusted(turn, completion);
    consumer_leave(consumer, LEAVE_RELEASE, STATE_STOPPED, "the storage cannot be trusted");
    return;
  case RESULT_CHANGED:
  case RESULT_NEWER:
  case RESULT_FAILED:
  case RESULT_LEFT:
  case RESULT_COUNT:
    consumer_disk_failed(turn, completion->error.text);
    return;
  }
}

static void block_count(struct turn *turn, const struct committed *end)
{
  struct consumer *consumer = turn->consumer;
  consumer->counts.blocks++;
  consumer->counts.documents += end->seq - consumer->committed.seq;
  consumer->counts.messages += end->items - consumer->committed.items;
  consumer->counts.bytes += end->length - consumer->committed.length;
  consumer->commit_ms = turn->moment->now_ms;
}

static void block_committed(struct turn *turn, const struct committed *end)
{
  struct consumer *consumer = turn->consumer;
  struct load *load = consumer->hand;
  block_count(turn, end);
  consumer->committed = *end;
  consumer->seq_seen = consumer->committed.seq;
  load->seq_last = consumer->committed.seq;
  batch_deinit(&load->batch); /* only the ids are wanted from here on */
  assert(consumer->committed_count < LOADS_COMMITTED_MAX);
  consumer->committed_loads[consumer->committed_count++] = load;
  consumer->hand = NULL;
  consumer->uncommitted = UNCOMMITTED_NOTHING;
}

static void appended(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  consumer->wrote = true;
  consumer->disk_failures = 0;
  if (consumer->said_no_space)
    consumer_note(turn, NOTE_INFO, "no-space", "there is space again");
  consumer->said_no_space = false;
}

static void append_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  consumer->hand = completion->load;
  if (completion->result == RESULT_NO_SPACE) {
    no_space(turn, completion->error.text);
  } else if (completion->result == RESULT_YES) {
    appended(turn);
    block_committed(turn, &completion->end);
  } else if (completion->result == RESULT_UNKNOWN) {
    appended(turn);
    consumer->written = completion->end;
    consumer->uncommitted = UNCOMMITTED_BLOCK;
  } else if (completion->result == RESULT_NO) {
    consumer_fenced(turn);
  } else {
    consumer_disk_failed(turn, completion->error.text);
  }
}

static void commit_done(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  if (completion->result == RESULT_UNKNOWN)
    return; /* sent again: a repetition is harmless */
  if (completion->result != RESULT_YES)
    consumer_fenced(turn);
  else if (consumer->uncommitted == UNCOMMITTED_SEGMENT)
    segment_committed(turn, &consumer->written);
  else
    block_committed(turn, &consumer->written);
}

void consumer_draining_main(struct turn *turn, const struct completion *completion)
{
  if (completion->kind == ACTION_BEGIN)
    begin_done(turn, completion);
  else if (completion->kind == ACTION_APPEND)
    append_done(turn, completion);
  else
    commit_done(turn, completion);
}

static void begin_start(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, ACTION_BEGIN);
  action->ledger = consumer->before;
  action->fresh = consumer->rolling || consumer->committed.file[0] == 0;
  action->reason = segment_reason(consumer);
  action->judge = true;
  memcpy(action->uuid, turn->moment->random, sizeof action->uuid);
  action->block_bytes = consumer->hand->batch.bytes;
  consumer_commit_fill(consumer, &action->commit);
}

static void append_start(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, ACTION_APPEND);
  action->load = consumer->hand;
  consumer->hand = NULL;
  consumer_commit_fill(consumer, &action->commit);
}

/* Nothing of a block is under way. */
static bool hands_free(const struct consumer *consumer)
{
  return consumer->hand == NULL && consumer->uncommitted == UNCOMMITTED_NOTHING && !consumer_runs(consumer, ACTIVITY_MAIN);
}

/* What is synced, or may be named by the ledger already, is still tried to be committed: the epoch decides. */
static bool must_commit(const struct consumer *consumer)
{
  return consumer->uncommitted != UNCOMMITTED_NOTHING && consumer->leave != LEAVE_ABANDON;
}

static void load_take_up(struct consumer *consumer)
{
  if (consumer->hand != NULL || consumer->ready_count == 0 || consumer->committed_count == LOADS_COMMITTED_MAX)
    return;
  consumer->hand = consumer->ready[0];
  consumer->ready[0] = consumer->ready[1];
  consumer->ready_count--;
}

static void write_step(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  if (consumer_runs(consumer, ACTIVITY_MAIN))
    return;
  if (must_commit(consumer)) {
    if (consumer_main_ready(turn))
      consumer_commit_start(turn);
    return;
  }
  if (consumer->leave != LEAVE_NOT) {
    load_free(consumer->hand);
    consumer->hand = NULL;
    return;
  }
  if (!consumer_alive(turn))
    return;
  load_take_up(consumer);
  if (consumer->hand == NULL || !consumer_main_ready(turn))
    return;
  if (consumer->begun)
    append_start(turn);
  else
    begin_start(turn);
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
  consumer_leave(consumer, LEAVE_RELEASE, STATE_STOPPED, "the database is not as it should be");
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
  bool all_deleted =
      hands_free(consumer) && consumer->ready_count == 0 && consumer->committed_count == 0 && consumer_deletes(consumer) == 0;
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
  if (completion->result == RESULT_LEFT)
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

/* A tool waits, and this epoch has got on: it has written, settled, or found nothing to do. */
static bool tools_turn(const struct consumer *consumer)
{
  bool got_on = consumer->wrote || consumer->settled > consumer->before.settled || consumer->empty_since_ms >= 0 || consumer->said_no_space;
  return consumer->awaited && got_on;
}

static bool segment_is_full(const struct consumer *consumer)
{
  int64_t bytes = consumer->options.segment_bytes;
  return consumer->wrote && bytes > 0 && consumer->committed.length >= bytes;
}

static void leave_decide(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  bool idle = hands_free(consumer) && consumer->ready_count == 0 && !consumer_runs(consumer, ACTIVITY_READ);
  int64_t empty_ms = consumer->empty_since_ms >= 0 ? turn->moment->now_ms - consumer->empty_since_ms : -1;
  if (consumer->leave != LEAVE_NOT)
    return;
  if (consumer->lost || consumer->stopping) {
    consumer_leave(consumer, LEAVE_RELEASE, STATE_IDLE, consumer->lost ? "the lease was lost" : "asked to stop");
  } else if (tools_turn(consumer)) {
    consumer_leave(consumer, LEAVE_RELEASE, STATE_IDLE, "a tool waits for the lock");
  } else if (idle && consumer->read_unknown_row >= READ_UNKNOWN_MAX) {
    consumer->give_up_row = consumer->read_unknown_row;
    consumer_leave(consumer, LEAVE_RELEASE, STATE_IDLE, "the queue cannot be read");
  } else if (idle && empty_ms >= consumer->options.linger_ms) {
    consumer_leave(consumer, LEAVE_RELEASE, STATE_IDLE, "the queue is empty");
  } else if (hands_free(consumer) && segment_is_full(consumer) && consumer_alive(turn)) {
    consumer_leave(consumer, LEAVE_ROLL, STATE_IDLE, "the segment is large enough: roll");
  }
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
  write_step(turn);
  delete_step(turn);
  read_step(turn);
  if (consumer->leave == LEAVE_NOT || consumer_runs(consumer, ACTIVITY_MAIN) || consumer_runs(consumer, ACTIVITY_READ) ||
      consumer_deletes(consumer) > 0)
    return;
  /* Who is asked to stop while the database is away leaves them to the next holder; so does who must stop because of one of them. */
  bool hopeless = consumer->refused || (consumer->stopping && consumer->delete_unknown_row > 0);
  bool deletes_left = consumer->committed_count > 0 && consumer->leave != LEAVE_ABANDON && consumer_alive(turn) && !hopeless;
  if (!must_commit(consumer) && !deletes_left)
    consumer_release(turn, consumer->after, consumer->leave_why);
}
