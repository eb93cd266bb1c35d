#include "worker/epoch.h"
#include "worker/drain.h"
#include "worker/lease.h"
#include "worker/leave.h"
#include "worker/trust.h"

#include <assert.h>
#include <inttypes.h>

void epoch_init(struct epoch *epoch)
{
  *epoch = (struct epoch){.settle_refused_since_ms = -1, .empty_since_ms = -1};
}

void epoch_drop_items(struct epoch *epoch)
{
  work_item_free(epoch->current);
  epoch->current = NULL;
  for (int i = 0; i < epoch->ready_count; i++)
    work_item_free(epoch->ready[i]);
  for (int i = 0; i < epoch->committed_count; i++)
    work_item_free(epoch->committed_items[i]);
  epoch->ready_count = epoch->committed_count = 0;
}

int64_t epoch_bytes(const struct epoch *epoch)
{
  int64_t bytes = epoch->writing_bytes + work_item_bytes(epoch->current);
  for (int i = 0; i < epoch->ready_count; i++)
    bytes += work_item_bytes(epoch->ready[i]);
  for (int i = 0; i < epoch->committed_count; i++)
    bytes += work_item_bytes(epoch->committed_items[i]);
  return bytes;
}

void epoch_forget(struct turn *turn)
{
  epoch_drop_items(turn->epoch);
  epoch_init(turn->epoch);
  turn->core->epoch = 0;
}

void epoch_start(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  struct core *core = turn->core;
  core->epoch = core->epoch_seen = completion->ledger.epoch + 1;
  core->own_seen = completion->ledger.own;
  core->own_known = true;
  core->seq_seen = completion->ledger.end.seq;
  core->settled = completion->ledger.settled;
  core->counts.acquisitions += !epoch->rolling;
  core->counts.unclean += !epoch->rolling && !completion->ledger.clean && completion->ledger.has_owner;
  epoch->before = completion->ledger;
  epoch->committed = completion->ledger.end;
  epoch->from = completion->ledger.from;
  epoch->place = completion->place;
  turn_enter(turn, STATE_OPENING, "the epoch is mine");
}

/* ---- opening ---- */

static void open_start(struct turn *turn)
{
  struct action *action = turn_start(turn, ACTION_OPEN);
  action->ledger = turn->epoch->before;
  action->place = turn->epoch->place;
  action->judge = trust_judges_open(turn, turn->epoch->before.end.link);
}

static void takeover_log(struct turn *turn)
{
  const struct ledger *before = &turn->epoch->before;
  const char *shutdown = before->clean ? "clean" : !before->has_owner ? "none" : "unclean";
  turn_log(turn, LEVEL_INFO, "takeover",
           "acquired epoch %" PRId64 " at seq %" PRId64 " (previous shutdown %s, %" PRId64 " deletes pending)", turn->core->epoch,
           before->end.seq, shutdown, before->end.seq - before->settled);
}

static void opened(struct turn *turn, const struct completion *completion)
{
  if (completion->result == RESULT_YES) {
    trust_opened(turn);
    if (!turn->epoch->rolling)
      takeover_log(turn);
    turn_enter(turn, STATE_SETTLING, "the file agrees with the ledger");
  } else if (completion->result == RESULT_NO) {
    leave_fenced(turn);
  } else if (completion->result == RESULT_UNKNOWN) {
    if (turn_hurries(turn))
      leave_release(turn, STATE_IDLE, "asked to stop");
  } else if (trust_open_refused(turn, completion, turn->epoch->before.end.link)) {
    leave_release(turn, STATE_CHECKING, "the storage does not match the ledger");
  } else {
    leave_release(turn, STATE_STOPPED, "the storage cannot be trusted");
  }
}

/* ---- settling: the `_id`s come from the files, and are deleted ---- */

static void settle_refused(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  int64_t now = turn->moment->now_ms;
  if (completion->result == RESULT_NEWER) {
    turn_log(turn, LEVEL_WARN, "newer", "a newer pawl is needed, releasing the lock: %s", completion->error.text);
    leave_release(turn, STATE_CHECKING, "a newer pawl is needed");
    return;
  }
  if (epoch->settle_refused_since_ms < 0) {
    epoch->settle_refused_since_ms = now;
    turn_log(turn, LEVEL_WARN, "untrusted", "cannot settle, retrying: %s", completion->error.text);
  }
  trust_set(turn, STORAGE_DISAGREES, &completion->error);
  turn->core->next_ms = now + RECHECK_MS;
  if (!completion->judged)
    return;
  trust_ends(turn, completion);
  leave_release(turn, STATE_STOPPED, "the storage cannot be trusted");
}

static void settled_to(struct turn *turn, int64_t seq)
{
  turn->core->counts.deleted += seq - turn->core->settled;
  turn->core->settled = seq;
  if (turn->trust->view == STORAGE_DISAGREES)
    trust_set(turn, STORAGE_AGREES, NULL);
}

static void settled(struct turn *turn, const struct completion *completion)
{
  if (completion->result == RESULT_REFUSED || completion->result == RESULT_NEWER) {
    settle_refused(turn, completion);
    return;
  }
  turn->epoch->settle_refused_since_ms = -1; /* the files have given the `_id`s, whatever became of the rest */
  if (completion->result == RESULT_YES) {
    settled_to(turn, completion->settled);
  } else if (completion->result == RESULT_NO) {
    leave_fenced(turn);
  } else if (completion->result == RESULT_LEFT) {
    turn_refused(turn, completion);
    leave_release(turn, STATE_STOPPED, "what is committed cannot be deleted");
  }
}

static void takeover_note(struct turn *turn)
{
  struct core *core = turn->core;
  if (turn->epoch->rolling)
    return;
  core->drains_ms = turn->moment->now_ms;
  latency_count(&core->counts.latencies, LATENCY_TAKEOVER, 1000 * (core->drains_ms - core->turn_ms));
}

static void settle_step(struct turn *turn)
{
  const struct epoch *epoch = turn->epoch;
  if (turn_runs(turn, ACTIVITY_MAIN))
    return;
  if (turn->core->stopping || turn->lease->lost) {
    leave_release(turn, STATE_IDLE, turn->lease->lost ? "the lease was lost" : "asked to stop");
  } else if (leave_for_tool(turn)) {
    leave_release(turn, STATE_IDLE, "a tool waits for the lock");
  } else if (turn->core->settled >= epoch->committed.seq) {
    takeover_note(turn);
    turn_enter(turn, STATE_DRAINING, "all committed messages are settled");
  } else if (turn_main_ready(turn) && lease_alive(turn)) {
    struct action *action = turn_start(turn, ACTION_SETTLE);
    action->end = epoch->committed;
    action->settled = turn->core->settled;
    action->source = epoch->from;
    action->judge = trust_judges(turn, epoch->settle_refused_since_ms);
  }
}

/* ---- by state ---- */

void epoch_main(struct turn *turn, const struct completion *completion)
{
  if (turn->core->state == STATE_OPENING)
    opened(turn, completion);
  else if (turn->core->state == STATE_SETTLING)
    settled(turn, completion);
  else if (turn->core->state == STATE_DRAINING)
    drain_done(turn, completion);
  else
    leave_done(turn, completion);
}

void epoch_step(struct turn *turn)
{
  if (turn->core->state == STATE_SETTLING)
    settle_step(turn);
  else if (turn->core->state == STATE_DRAINING)
    drain_step(turn);
  else if (turn->core->state == STATE_RELEASING)
    leave_step(turn);
  else if (turn_main_ready(turn))
    open_start(turn);
}
