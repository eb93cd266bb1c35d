#include "tools/turn.h"
#include "worker/clock.h"

#include <time.h>

enum {
  LEASE_MS_MAX = 3600000, /* of any pawl */
  SPARE_MS = 2000,        /* beyond the lease of a holder that is gone */
};

void turn_rest(void)
{
  nanosleep(&(struct timespec){.tv_nsec = TURN_RETRY_MS * 1000000L}, NULL);
}

static bool lease_lasts(const struct turn *turn)
{
  int64_t ttl_ms = turn->lock->view.ttl_ms < LEASE_MS_MAX ? turn->lock->view.ttl_ms : LEASE_MS_MAX;
  return clock_boot_ms() - turn->began_ms < (ttl_ms > 0 ? ttl_ms + SPARE_MS : TURN_TRIES_MS);
}

/* Whether it looks again, after this outcome. */
static bool goes_on(const struct turn *turn, enum outcome outcome)
{
  switch (turn->patience) {
  case TURN_UNTIL:
    return outcome == OUTCOME_NO && clock_boot_ms() < turn->until_ms;
  case TURN_QUEUE:
    return outcome == OUTCOME_NO && turn->lock->view.left_ms <= 0 && clock_boot_ms() < turn->until_ms;
  case TURN_LEASE:
    return outcome != OUTCOME_REFUSED && lease_lasts(turn);
  }
  return false;
}

static enum outcome look(const struct turn *turn, struct error *error)
{
  error->text[0] = '\0';
  return acquire_look(turn->store, turn->type, turn->lock, turn->holder, error);
}

enum outcome turn_wait(struct turn *turn, struct error *error)
{
  enum outcome outcome = look(turn, error);
  while (outcome != OUTCOME_YES && goes_on(turn, outcome)) {
    int64_t pause_ms = turn->lock->pause_ms > 0 && turn->lock->pause_ms < TURN_RETRY_MS ? turn->lock->pause_ms : TURN_RETRY_MS;
    nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
    outcome = look(turn, error);
  }
  return outcome;
}

/* After UNKNOWN it may become mine later: then it is released, and the next take has another owner. */
static enum outcome take(struct turn *turn, struct error *error)
{
  struct error ignored;
  error->text[0] = '\0';
  enum outcome outcome = acquire_take(turn->store, turn->type, turn->lock, turn->holder, error);
  if (outcome == OUTCOME_UNKNOWN && acquire_release(turn->store, turn->type, turn->lock, 0, &ignored) != OUTCOME_UNKNOWN)
    acquire_init(turn->lock, turn->lock->kind, turn->lock->ttl_ms, turn->lock->retry_ms);
  return outcome;
}

enum outcome turn_take(struct turn *turn, struct error *error)
{
  struct error ignored;
  enum outcome outcome;
  do {
    outcome = turn_wait(turn, error);
    if (outcome == OUTCOME_YES && (outcome = take(turn, error)) != OUTCOME_YES)
      turn_rest();
  } while (outcome != OUTCOME_YES && goes_on(turn, outcome));
  if (outcome != OUTCOME_YES && acquire_leave(turn->store, turn->type, turn->lock, true, &ignored) != OUTCOME_YES) {
    /* Its entry in the wait queue expires. */
  }
  return outcome;
}

const char *turn_failure(enum outcome outcome)
{
  static const char *const why[] = {[OUTCOME_YES] = "",
                                    [OUTCOME_NO] = "its holder did not release the lock within its lease",
                                    [OUTCOME_UNKNOWN] = "the lock could not be taken: MongoDB gave no answer",
                                    [OUTCOME_REFUSED] = "the lock cannot be used"};
  return why[outcome];
}
