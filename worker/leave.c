#include "worker/leave.h"
#include "worker/lease.h"
#include "worker/trust.h"

#include <assert.h>

/* ---- decisions ---- */

void leave_by(struct turn *turn, enum leave leave, enum consumer_state after, const char *why)
{
  turn->epoch->leave = leave;
  turn->epoch->leave_why = why;
  turn->core->after = after;
}

void leave_release(struct turn *turn, enum consumer_state after, const char *why)
{
  epoch_drop_items(turn->epoch);
  if (turn->epoch->leave == LEAVE_NOT)
    turn->epoch->leave = LEAVE_RELEASE;
  turn->core->after = after;
  turn_enter(turn, STATE_RELEASING, why);
}

/* Nothing more is written or committed, `clean` stays false. What runs beside is waited for. */
static void abandon(struct turn *turn, enum consumer_state after)
{
  leave_by(turn, LEAVE_ABANDON, after, "the epoch is abandoned");
  if (turn->core->state != STATE_DRAINING)
    leave_release(turn, after, turn->epoch->leave_why);
}

bool leave_for_tool(const struct turn *turn)
{
  const struct epoch *epoch = turn->epoch;
  bool got_on = epoch->wrote || turn->core->settled > epoch->before.settled || epoch->empty_since_ms >= 0 || epoch->no_space;
  return turn->lease->awaited && got_on;
}

void leave_fenced(struct turn *turn)
{
  lease_lose(turn);
  turn_log(turn, LEVEL_WARN, "fenced", "another holder has taken over: dropping what is not committed");
  abandon(turn, STATE_IDLE);
}

void leave_failed_disk(struct turn *turn, const char *text)
{
  turn->core->failed_disks++;
  turn_log(turn, LEVEL_ERROR, "disk", "%s: this epoch writes nothing more", text);
  abandon(turn, STATE_BACKING_OFF);
}

/* ---- commits ---- */

void leave_commit_fill(const struct turn *turn, struct ledger_commit *commit)
{
  const struct epoch *epoch = turn->epoch;
  commit->epoch = turn->core->epoch;
  commit->owner = turn->core->owner;
  commit->before = commit->after = epoch->committed;
  commit->settled = turn->core->settled;
  commit->guarded = epoch->guarded;
  commit->from = epoch->current != NULL ? epoch->current->source : epoch->from;
  /* Else it would not be known where the messages before this block are still to be deleted. */
  assert(epoch->current == NULL || commit->from == epoch->from || commit->settled == epoch->committed.seq);
}

void leave_commit_start(struct turn *turn)
{
  struct ledger_commit *commit = &turn_start(turn, ACTION_COMMIT)->commit;
  leave_commit_fill(turn, commit);
  commit->after = turn->epoch->written;
  commit->clean = turn->epoch->uncommitted == UNCOMMITTED_CLEAN;
}

/* ---- releasing ---- */

static void unlock(struct turn *turn, const char *why)
{
  epoch_forget(turn);
  turn_enter(turn, STATE_UNLOCKING, why);
}

static void rolled(struct turn *turn)
{
  trust_left(turn, turn->core->epoch, turn->epoch->guarded);
  epoch_forget(turn);
  turn->epoch->rolling = true;
  turn_enter(turn, STATE_FENCING, "the next segment is a new epoch");
}

/* Whether `clean` is to be committed: with CLOSE; without a block it goes back to what it was, unless a segment is unnamed. */
static bool clean_wanted(const struct epoch *epoch)
{
  bool goes_back = epoch->before.clean && !epoch->unnamed;
  return epoch->leave != LEAVE_ABANDON && (epoch->wrote || goes_back);
}

/* The end stays unclean: the next holder sees to it. */
static void close_failed(struct turn *turn, const struct completion *completion)
{
  if (completion->result == RESULT_FAILED) {
    turn->core->failed_disks++;
    turn->core->after = STATE_BACKING_OFF;
  }
  turn_log(turn, LEVEL_WARN, "close", "the file has no clean end: %s", completion->error.text);
  unlock(turn, "the file is closed");
}

/* Asked to stop while the database is away: nothing is uncommitted, and the lease ends by itself. */
static void leave_to_lease(struct turn *turn, const struct completion *completion)
{
  turn_log(turn, LEVEL_WARN, "lock", "not releasing the lock, its lease will expire: %s", completion->error.text);
  epoch_forget(turn);
  lease_drop(turn);
  turn_enter(turn, turn->core->after == STATE_STOPPED ? STATE_STOPPED : STATE_DONE, "asked to stop");
}

static void clean_done(struct turn *turn, const struct completion *completion)
{
  struct core *core = turn->core;
  bool yes = completion->result == RESULT_YES;
  if (completion->result == RESULT_UNKNOWN && !turn_hurries(turn))
    return; /* sent again */
  if (yes && turn->epoch->leave == LEAVE_ROLL && !core->stopping && lease_alive(turn)) {
    rolled(turn);
  } else if (completion->result == RESULT_UNKNOWN) {
    leave_to_lease(turn, completion);
  } else {
    if (yes)
      core->epoch_left = core->epoch;
    unlock(turn, yes ? "the end is clean" : "another holder has taken over");
  }
}

void leave_done(struct turn *turn, const struct completion *completion)
{
  struct epoch *epoch = turn->epoch;
  if (completion->result == RESULT_NO_SPACE || completion->result == RESULT_FAILED) {
    close_failed(turn, completion);
  } else if (!clean_wanted(epoch)) {
    unlock(turn, epoch->leave == LEAVE_ABANDON ? "nothing more is written" : "nothing was written");
  } else {
    if (completion->kind == ACTION_CLOSE && completion->result == RESULT_UNKNOWN) {
      epoch->written = completion->end;
      epoch->uncommitted = UNCOMMITTED_CLEAN;
    }
    clean_done(turn, completion);
  }
}

void leave_step(struct turn *turn)
{
  struct epoch *epoch = turn->epoch;
  if (!turn_main_ready(turn))
    return;
  if (epoch->uncommitted == UNCOMMITTED_CLEAN) {
    leave_commit_start(turn);
    return;
  }
  struct action *action = turn_start(turn, ACTION_CLOSE);
  leave_commit_fill(turn, &action->commit);
  action->commit.clean = clean_wanted(epoch);
  action->write_close = action->commit.clean && epoch->wrote;
}
