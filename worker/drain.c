#include "worker/drain.h"
#include "worker/lease.h"
#include "worker/leave.h"
#include "worker/pace.h"
#include "worker/trust.h"

#include <assert.h>
#include <inttypes.h>

enum {
  READ_UNKNOWN_MAX = 5, /* passes in a row without a message: told, and the lock is let go */
  READ_PATIENCE_MS = 1000,
};

/* ---- the block in hand ---- */

static const char *segment_reason(const struct epoch *epoch)
{
  return epoch->committed.file[0] == 0 ? "first" : epoch->rolling ? "roll" : "unclean";
}

static void no_space(struct turn *turn, const char *text)
{
  struct epoch *epoch = turn->epoch;
  if (!epoch->no_space)
    turn_log(turn, LEVEL_WARN, "no-space", "%s: waiting for free space", text);
  epoch->no_space = true;
  turn->core->next_ms = turn->moment->now_ms + RECHECK_MS;
}

static void begun(struct turn *turn)
{
  turn->epoch->begun = true;
  turn->epoch->uncommitted = UNCOMMITTED_NOTHING;
}

static void segment_committed(struct turn *turn, const struct committed *end)
{
  struct epoch *epoch = turn->epoch;
  turn_log(turn, LEVEL_INFO, "segment", "writing to the new segment %s (%s)", end->file,
           epoch->rolling                   ? "roll"
           : epoch->before.end.file[0] == 0 ? "first"
                                            : "the file cannot be continued in place");
  epoch->committed = *end;
  turn->core->counts.segments++;
  begun(turn);
}

static void begin_done(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  epoch->guarded = completion->guarded;
  epoch->unnamed = epoch->unnamed || completion->unnamed;
  switch (completion->result) {
  case RESULT_YES:
    if (completion->created)
      segment_committed(turn, &completion->end);
    else
      begun(turn);
    return;
  case RESULT_UNKNOWN: /* without a segment it begins anew */
    epoch->written = completion->end;
    epoch->uncommitted = completion->created ? UNCOMMITTED_SEGMENT : UNCOMMITTED_NOTHING;
    return;
  case RESULT_STOPPED: /* a segment that it has unlinked again has used up the epoch's name */
    if (epoch->leave == LEAVE_NOT)
      leave_by(turn, LEAVE_RELEASE, STATE_IDLE, "the lease is about to end");
    return;
  case RESULT_NO:
    leave_fenced(turn);
    return;
  case RESULT_NO_SPACE:
    no_space(turn, completion->error.text);
    return;
  case RESULT_SPENT:
    turn_log(turn, LEVEL_WARN, "spent", "giving up epoch %" PRId64 ": %s", turn->core->epoch, completion->error.text);
    leave_by(turn, LEAVE_RELEASE, STATE_IDLE, "the name of its segment is taken");
    return;
  case RESULT_REFUSED:
    trust_ends(turn, completion);
    leave_by(turn, LEAVE_RELEASE, STATE_STOPPED, "the storage cannot be trusted");
    return;
  case RESULT_CHANGED:
  case RESULT_NEWER:
  case RESULT_PAUSED:
  case RESULT_FAILED:
  case RESULT_LEFT:
  case RESULT_COUNT:
    leave_failed_disk(turn, completion->error.text);
    return;
  }
}

static void block_count(struct turn *turn, const struct committed *end)
{
  struct epoch *epoch = turn->epoch;
  turn->core->counts.blocks++;
  turn->core->counts.documents += end->seq - epoch->committed.seq;
  turn->core->counts.messages += end->items - epoch->committed.items;
  turn->core->counts.bytes += end->length - epoch->committed.length;
  turn->core->commit_ms = turn->moment->now_ms;
}

static void durable_count(struct turn *turn, const struct work_item *item)
{
  int64_t oldest_s = work_item_oldest_s(item);
  if (oldest_s >= 0)
    latency_count(&turn->core->counts.latencies, LATENCY_DURABLE, turn->moment->wall_us - oldest_s * 1000000);
}

static void block_committed(struct turn *turn, const struct committed *end)
{
  struct epoch *epoch = turn->epoch;
  struct work_item *item = epoch->current;
  block_count(turn, end);
  durable_count(turn, item);
  epoch->committed = *end;
  epoch->from = item->source;
  turn->core->seq_seen = epoch->committed.seq;
  item->seq_last = epoch->committed.seq;
  batch_deinit(&item->batch); /* only the ids are wanted from here on */
  assert(epoch->committed_count < ITEMS_COMMITTED_MAX);
  epoch->committed_items[epoch->committed_count++] = item;
  epoch->current = NULL;
  epoch->uncommitted = UNCOMMITTED_NOTHING;
}

static void appended(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  epoch->wrote = true;
  turn->core->failed_disks = 0;
  if (epoch->no_space)
    turn_log(turn, LEVEL_INFO, "no-space", "free space again, writing goes on");
  epoch->no_space = false;
}

static void append_done(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  epoch->current = completion->item;
  epoch->writing_bytes = 0;
  if (completion->result == RESULT_NO_SPACE) {
    no_space(turn, completion->error.text);
  } else if (completion->result == RESULT_YES) {
    appended(turn);
    block_committed(turn, &completion->end);
  } else if (completion->result == RESULT_UNKNOWN) {
    appended(turn);
    epoch->written = completion->end;
    epoch->uncommitted = UNCOMMITTED_BLOCK;
  } else if (completion->result == RESULT_NO) {
    appended(turn);
    leave_fenced(turn);
  } else {
    leave_failed_disk(turn, completion->error.text);
  }
}

static void commit_done(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  if (completion->result == RESULT_UNKNOWN)
    return; /* sent again: a repetition is harmless */
  if (completion->result != RESULT_YES)
    leave_fenced(turn);
  else if (epoch->uncommitted == UNCOMMITTED_SEGMENT)
    segment_committed(turn, &epoch->written);
  else
    block_committed(turn, &epoch->written);
}

void drain_done(struct turn *turn, const struct completion *completion)
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
  struct epoch *epoch = turn->epoch;
  struct action *action = turn_start(turn, ACTION_BEGIN);
  action->ledger = epoch->before;
  action->fresh = epoch->rolling || epoch->committed.file[0] == 0;
  action->reason = segment_reason(epoch);
  action->judge = true;
  memcpy(action->uuid, turn->moment->random, sizeof action->uuid);
  action->block_bytes = epoch->current->batch.bytes;
  leave_commit_fill(turn, &action->commit);
}

static void append_start(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  struct action *action = turn_start(turn, ACTION_APPEND);
  action->item = epoch->current;
  epoch->writing_bytes = work_item_bytes(epoch->current);
  leave_commit_fill(turn, &action->commit);
  epoch->current = NULL;
}

/* Nothing of a block is under way. */
static bool writes_nothing(const struct turn *turn)
{
  return turn->epoch->current == NULL && turn->epoch->uncommitted == UNCOMMITTED_NOTHING && !turn_runs(turn, ACTIVITY_MAIN);
}

/* What is synced, or may be named by the ledger already, is still tried to be committed: the epoch decides. */
static bool must_commit(const struct epoch *epoch)
{
  return epoch->uncommitted != UNCOMMITTED_NOTHING && epoch->leave != LEAVE_ABANDON;
}

static void item_take_up(struct epoch *epoch)
{
  if (epoch->current != NULL || epoch->ready_count == 0 || epoch->committed_count == ITEMS_COMMITTED_MAX)
    return;
  epoch->current = epoch->ready[0];
  epoch->ready[0] = epoch->ready[1];
  epoch->ready_count--;
}

static void write_step(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  if (turn_runs(turn, ACTIVITY_MAIN))
    return;
  if (must_commit(epoch)) {
    if (turn_main_ready(turn))
      leave_commit_start(turn);
    return;
  }
  if (epoch->leave != LEAVE_NOT) {
    work_item_free(epoch->current);
    epoch->current = NULL;
    return;
  }
  if (!lease_alive(turn))
    return;
  item_take_up(epoch);
  if (epoch->current == NULL || !turn_main_ready(turn))
    return;
  if (epoch->begun)
    append_start(turn);
  else
    begin_start(turn);
}

/* ---- reading and deleting ---- */

/*
 * What is written is still committed; nothing more is read, written or deleted, and `settled` stays. An epoch that is abandoned is left as
 * it was to be: the next holder finds out again.
 */
static void refused(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  if (epoch->leave == LEAVE_ABANDON || turn->core->refused)
    return;
  turn_refused(turn, completion);
  leave_by(turn, LEAVE_RELEASE, STATE_STOPPED, "the database check failed");
}

/* One is nothing unusual: a snapshot that was too old, an election. Many in a row are noted, and another may have a better link. */
static void pass_lost(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  bool many = ++epoch->read_unknown_row == READ_UNKNOWN_MAX;
  turn_log(turn, many ? LEVEL_WARN : LEVEL_DEBUG, "pass", "%s%s%s",
           many ? "five passes in a row read no message, the last because of: " : "the pass ended early: ", completion->error.text,
           many ? "; releasing the lock and pausing" : "");
  epoch->read_ms = turn->moment->now_ms + turn_backoff(turn, epoch->read_unknown_row);
}

static void item_read(struct turn *turn, struct work_item *item)
{
  struct epoch *epoch = turn->epoch;
  assert(epoch->ready_count < ITEMS_READY_MAX);
  epoch->pass_documents += item->documents;
  epoch->ready[epoch->ready_count++] = item;
  epoch->empty_since_ms = -1;
  pace_passed(turn);
}

/*
 * Of a type with its own collection `messages` comes first. True: it was read to its end, and the own collection follows, at the same
 * cluster time.
 */
static bool pass_goes_on(struct epoch *epoch, const struct completion *completion)
{
  bool shared = epoch->pass_source == SOURCE_SHARED;
  if (completion->result == RESULT_YES)
    return false;
  epoch->pass_source = SOURCE_SHARED;
  if (completion->result != RESULT_NO || !shared || !epoch->before.own)
    return false;
  epoch->pass_source = SOURCE_OWN;
  epoch->pass_at = completion->read_at;
  return true;
}

void drain_read(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  epoch->pass_open = completion->result == RESULT_YES;
  epoch->pass_took_ms += completion->took_ms;
  if (completion->result == RESULT_REFUSED)
    refused(turn, completion);
  turn_name_document(turn, completion);
  if (completion->item != NULL)
    item_read(turn, completion->item);
  if (completion->result == RESULT_UNKNOWN) {
    epoch->pass_source = SOURCE_SHARED;
    pass_lost(turn, completion);
    return;
  }
  if (pass_goes_on(epoch, completion))
    return;
  if (completion->item != NULL || completion->result == RESULT_NO)
    epoch->read_unknown_row = 0;
  if (completion->result != RESULT_NO || epoch->pass_documents > 0)
    return;
  if (epoch->empty_since_ms < 0)
    epoch->empty_since_ms = turn->moment->now_ms;
  epoch->read_ms = turn->moment->now_ms + pace_passed_empty(turn, epoch->pass_took_ms, epoch->empty_since_ms);
}

static void read_step(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  if (turn_runs(turn, ACTIVITY_READ) || epoch->leave != LEAVE_NOT || !lease_alive(turn))
    return;
  if (epoch->pass_open) {
    if (epoch->ready_count < ITEMS_READY_MAX)
      turn_start(turn, ACTION_READ);
    return;
  }
  /*
   * A pass begins only when nothing is on its way: else committed messages, not yet deleted, would be seen again. Its second collection
   * also: what is to be settled lies in one, the ledger's `from`.
   */
  bool all_deleted = writes_nothing(turn) && epoch->ready_count == 0 && epoch->committed_count == 0 && turn_deletes(turn) == 0;
  if (!all_deleted || turn->moment->now_ms < epoch->read_ms)
    return;
  if (epoch->pass_source == SOURCE_SHARED) {
    epoch->pass_documents = 0;
    epoch->pass_took_ms = 0;
    turn->core->woken = false;
  }
  struct action *action = turn_start(turn, ACTION_READ);
  action->begin = true;
  action->source = epoch->pass_source;
  action->read_at = epoch->pass_at;
}

void drain_deleted(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  struct work_item *item = completion->item;
  bool yes = completion->result == RESULT_YES;
  epoch->delete_unknown_row = yes ? 0 : epoch->delete_unknown_row + 1;
  epoch->delete_ms = yes ? 0 : turn->moment->now_ms + turn_backoff(turn, epoch->delete_unknown_row);
  item->deleting = false;
  item->ids_deleted += yes;
  if (completion->result == RESULT_LEFT)
    refused(turn, completion);
  /* `settled` is the end of the unbroken prefix. */
  int done = 0;
  while (done < epoch->committed_count && !epoch->committed_items[done]->deleting &&
         epoch->committed_items[done]->ids_deleted == epoch->committed_items[done]->ids_count) {
    turn->core->settled = epoch->committed_items[done]->seq_last;
    turn->core->counts.deleted += epoch->committed_items[done]->documents;
    work_item_free(epoch->committed_items[done++]);
  }
  epoch->committed_count -= done;
  memmove(epoch->committed_items, epoch->committed_items + done, (size_t)epoch->committed_count * sizeof epoch->committed_items[0]);
}

static void delete_step(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  if (epoch->leave == LEAVE_ABANDON || turn->core->refused || !lease_alive(turn) || turn->moment->now_ms < epoch->delete_ms)
    return;
  int free_deletes = DELETES_MAX - turn_deletes(turn);
  for (int i = 0; i < epoch->committed_count && free_deletes > 0; i++) {
    struct work_item *item = epoch->committed_items[i];
    if (item->deleting || item->ids_deleted == item->ids_count)
      continue;
    item->deleting = true;
    turn_start(turn, ACTION_DELETE)->item = item;
    free_deletes--;
  }
}

/* ---- when to leave ---- */

static bool segment_is_full(const struct turn *turn)
{
  const struct epoch *epoch = turn->epoch;
  int64_t bytes = turn->core->options.segment_bytes;
  return epoch->wrote && bytes > 0 && epoch->committed.length >= bytes;
}

static void leave_decide(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  bool idle = writes_nothing(turn) && epoch->ready_count == 0 && !turn_runs(turn, ACTIVITY_READ);
  int64_t empty_ms = epoch->empty_since_ms >= 0 ? turn->moment->now_ms - epoch->empty_since_ms : -1;
  if (epoch->leave != LEAVE_NOT)
    return;
  if (turn->lease->lost || turn->core->stopping) {
    leave_by(turn, LEAVE_RELEASE, STATE_IDLE, turn->lease->lost ? "the lease was lost" : "asked to stop");
  } else if (leave_for_tool(turn)) {
    leave_by(turn, LEAVE_RELEASE, STATE_IDLE, "a tool waits for the lock");
  } else if (idle && epoch->read_unknown_row >= READ_UNKNOWN_MAX) {
    turn->core->failed_holds = epoch->read_unknown_row;
    leave_by(turn, LEAVE_RELEASE, STATE_IDLE, "the queue cannot be read");
  } else if (idle && empty_ms >= turn->core->options.linger_ms) {
    leave_by(turn, LEAVE_RELEASE, STATE_IDLE, "the queue is empty");
  } else if (writes_nothing(turn) && segment_is_full(turn) && lease_alive(turn)) {
    leave_by(turn, LEAVE_ROLL, STATE_IDLE, "the segment is full: rolling");
  }
}

/* It may take as long as its bytes come; a cursor of which one is lost has to be opened anew, so it has a moment to come. */
static int64_t read_drop_ms(const struct epoch *epoch, const struct core *core)
{
  bool waits = epoch->leave != LEAVE_NOT && core->activity[ACTIVITY_READ].running && !core->activity[ACTIVITY_READ].dropped;
  return waits ? core->activity[ACTIVITY_READ].started_ms + READ_PATIENCE_MS : INT64_MAX;
}

static void drop_step(struct turn *turn)
{
  bool drop = turn->moment->now_ms >= read_drop_ms(turn->epoch, turn->core);
  turn->core->activity[ACTIVITY_READ].dropped |= drop;
  turn->effects->drop_read |= drop;
}

void drain_wake(struct turn *turn)
{
  if (turn_runs(turn, ACTIVITY_READ))
    turn->core->woken = true;
  else if (turn->epoch->read_unknown_row == 0)
    turn->epoch->read_ms = turn->moment->now_ms;
}

static int64_t sooner(const struct core *core, int64_t ms, int64_t than)
{
  return ms > core->now_ms && ms < than ? ms : than;
}

int64_t drain_wake_ms(const struct epoch *epoch, const struct core *core)
{
  int64_t wake = sooner(core, read_drop_ms(epoch, core), INT64_MAX);
  if (!core->activity[ACTIVITY_READ].running)
    wake = sooner(core, epoch->read_ms, wake);
  wake = sooner(core, epoch->delete_ms, wake);
  if (epoch->empty_since_ms >= 0)
    wake = sooner(core, epoch->empty_since_ms + core->options.linger_ms, wake);
  return wake;
}

void drain_step(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  leave_decide(turn);
  drop_step(turn);
  write_step(turn);
  delete_step(turn);
  read_step(turn);
  if (epoch->leave == LEAVE_NOT || turn_runs(turn, ACTIVITY_MAIN) || turn_runs(turn, ACTIVITY_READ) || turn_deletes(turn) > 0)
    return;
  /* Left to the next holder: at a stop while the database is away, and where one of them cannot be deleted. */
  bool hopeless = turn->core->refused || (turn->core->stopping && epoch->delete_unknown_row > 0);
  bool deletes_left = epoch->committed_count > 0 && epoch->leave != LEAVE_ABANDON && lease_alive(turn) && !hopeless;
  if (!must_commit(epoch) && !deletes_left)
    leave_release(turn, turn->core->after, epoch->leave_why);
}
