#include "worker/lease.h"
#include "lockstore/lease.h"

#include <inttypes.h>

/* What was sent may be another lease than is wanted by now. */
static int64_t next_renewal_ms(const struct turn *turn, const struct completion *completion, int64_t lease_ms)
{
  bool changed = completion->lease_ms != turn->core->options.lease_ms;
  return changed ? turn->moment->now_ms : completion->sent_ms + lease_renew_ms(lease_ms);
}

void lease_taken(struct turn *turn, const struct completion *completion)
{
  int64_t lease_ms = completion->lease_ms;
  *turn->lease = (struct lease){.held = true,
                                .taken_number = completion->number,
                                .safe_until_ms = completion->sent_ms + lease_safe_ms(lease_ms),
                                .end_ms = completion->sent_ms + lease_ms,
                                .renew_ms = next_renewal_ms(turn, completion, lease_ms),
                                .least_ms = INT64_MAX};
}

void lease_lose(struct turn *turn)
{
  turn->lease->lost = true;
}

void lease_drop(struct turn *turn)
{
  turn->lease->held = false;
}

bool lease_alive(const struct turn *turn)
{
  return !turn->lease->lost && turn->moment->now_ms < turn->lease->safe_until_ms;
}

int64_t lease_end_ms(const struct lease *lease)
{
  return lease->end_ms;
}

static int64_t smaller(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

void lease_changed(struct turn *turn)
{
  struct lease *lease = turn->lease;
  if (lease->held && !lease->lost)
    lease->renew_ms = smaller(lease->renew_ms, turn->moment->now_ms);
}

void lease_renewed(struct turn *turn, const struct completion *completion)
{
  struct lease *lease = turn->lease;
  int64_t lease_ms = smaller(completion->lease_ms, lease->least_ms);
  if (!lease->held || completion->number < lease->taken_number)
    return;
  if (completion->result == RESULT_YES) {
    lease->safe_until_ms = completion->sent_ms + lease_safe_ms(lease_ms);
    lease->end_ms = completion->sent_ms + lease_ms;
    lease->renew_ms = next_renewal_ms(turn, completion, lease_ms);
    lease->awaited = completion->awaited;
  } else if (completion->result != RESULT_NO) {
    lease->least_ms = lease_ms;
    lease->renew_ms = turn->moment->now_ms + turn_jitter(turn, lease_ms / 12);
  } else if (turn->core->state != STATE_UNLOCKING) { /* there it came behind the delete */
    lease->lost = true;
    turn_log(turn, LEVEL_WARN, "lost", "the lease was lost");
  }
}

void lease_warned(struct turn *turn)
{
  struct lease *lease = turn->lease;
  if (lease->held && !lease->lost && !turn_runs(turn, ACTIVITY_RENEW))
    lease->renew_ms = turn->moment->now_ms;
}

/*
 * A stuck action must not keep the lease; a slow one may. Only MAIN's can be stuck, in the disk: a delete may have waited for a thread, and
 * its requests have a time-out; a reply that READ waits for may take long, and ends when its bytes do.
 */
static bool stalled(struct turn *turn)
{
  struct lease *lease = turn->lease;
  int64_t ms = turn->moment->now_ms - turn->core->activity[ACTIVITY_MAIN].started_ms;
  if (!turn_runs(turn, ACTIVITY_MAIN) || ms < turn->core->options.stall_ms)
    return false;
  if (!lease->logged_stall)
    turn_log(turn, LEVEL_WARN, "stall", "an action has run for %" PRId64 " s: letting the lease expire", ms / 1000);
  lease->logged_stall = true;
  return true;
}

/* A renewal with a shorter lease also shortens the one that is there, answered or not. */
static void lease_shorten(struct lease *lease, int64_t now_ms, int64_t lease_ms)
{
  lease->safe_until_ms = smaller(lease->safe_until_ms, now_ms + lease_safe_ms(lease_ms));
  lease->end_ms = smaller(lease->end_ms, now_ms + lease_ms);
}

void lease_step(struct turn *turn)
{
  struct lease *lease = turn->lease;
  int64_t lease_ms = turn->core->options.lease_ms;
  if (!lease->held || lease->lost || turn->core->state == STATE_UNLOCKING || turn_runs(turn, ACTIVITY_RENEW) ||
      turn->moment->now_ms < lease->renew_ms)
    return;
  /*
   * Over by this machine's clock, which counts from before the request: nothing will bring it back. Leaving now closes the file, so
   * that the next holder can go on in it.
   */
  if (turn->moment->now_ms >= lease_end_ms(lease)) {
    lease->lost = true;
    turn_log(turn, LEVEL_WARN, "lost", "the lease expired, and no renewal was answered");
  } else if (stalled(turn))
    lease->renew_ms = turn->moment->now_ms + lease_renew_ms(lease_ms) / 4;
  else {
    lease_shorten(lease, turn->moment->now_ms, lease_ms);
    turn_start(turn, ACTION_RENEW);
  }
}

int64_t lease_wake_ms(const struct lease *lease, bool renewing)
{
  return lease->held && !lease->lost && !renewing ? lease->renew_ms : INT64_MAX;
}
