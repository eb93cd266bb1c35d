/*
 * The consumer in a world that answers at random: any result that an action may give, late or at once, in any order, with jumps
 * of the clock and stops. The watch (consumer_rules.c) checks each action. The walks check that a consumer never spins, and
 * that it comes to its end as soon as the world behaves.
 *
 * A failure prints its seed: `test_consumer_walk SEED` repeats that walk alone.
 */
#include "consumer_edges.h"
#include "consumer_rig.h"
#include "unit_test.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { WALKS = 20000, STEPS = 250, STEPS_TO_END_MAX = 300 };

static uint64_t seed_only;
static const struct rig *walking;

/* An assertion of the consumer failed: print which walk it was. */
static void on_abort(int signal_number)
{
  (void)signal_number;
  if (walking != NULL)
    rig_history(walking);
  _exit(1);
}

/* ---- a random world ---- */

static void world_change(struct rig *rig)
{
  struct ledger *ledger = &rig->ledger;
  rig->item_ids = 1 + rig_random(rig, 3);
  rig->item_messages = 1 + (uint32_t)rig_random(rig, 50);
  rig->block_bytes = rig_random(rig, 10) == 0 ? (int64_t)1 << 30 : 1000;
  rig->discard_fails = rig_random(rig, 3) == 0;
  rig->awaited = rig_random(rig, 4) == 0;
  rig->view.stealable = rig_random(rig, 3) == 0;
  rig->view.left_ms = (int64_t)rig_random(rig, 30000) - 10;
  rig->network = rig_random(rig, 2) == 0;
  rig->segment = rig_random(rig, 2) == 0;
  if (rig->rules.locked)
    return; /* here nothing changes the ledger under a holder: a fenced one learns of it by its answers */
  ledger->clean = rig_random(rig, 2) == 0;
  ledger->settled = ledger->end.seq - (int64_t)rig_random(rig, 80);
  if (ledger->settled < 0)
    ledger->settled = 0;
  if (rig_random(rig, 20) == 0)
    memset(ledger, 0, sizeof *ledger);
}

static enum result result_random(struct rig *rig, const struct action *action)
{
  /* Mostly good answers, so that the walk makes progress. */
  if (rig_random(rig, 10) < 8) {
    bool often_no = action->kind == ACTION_READ && rig_random(rig, 4) == 0;
    return often_no ? RESULT_NO : RESULT_YES;
  }
  for (;;) {
    enum result result = (enum result)rig_random(rig, RESULT_COUNT);
    /* These results end a consumer; most walks do not have them. */
    bool end = result == RESULT_REFUSED && (action->kind == ACTION_POLL || action->kind == ACTION_READ || action->kind == ACTION_BEGIN);
    if (rig_may_answer(action, result) && (!end || rig->seed % 16 == 0))
      return result;
  }
}

static bool answer_some(struct rig *rig)
{
  int first = (int)rig_random(rig, ACTIVITY_COUNT);
  for (int i = 0; i < ACTIVITY_COUNT; i++) {
    int activity = (first + i) % ACTIVITY_COUNT;
    if (!rig->slots[activity].running)
      continue;
    rig_answer(rig, activity, result_random(rig, &rig->slots[activity].action));
    return true;
  }
  return false;
}

static void wake(struct rig *rig)
{
  int64_t at = consumer_wake_ms(&rig->consumer);
  rig_timer(rig, at < INT64_MAX ? at - rig->moment.now_ms + (int64_t)rig_random(rig, 20) : 1);
}

static void configure(struct rig *rig)
{
  struct consumer_options options = rig->consumer.core.options;
  options.lease_ms = 1000 + (int64_t)rig_random(rig, 2) * (int64_t)rig_random(rig, 60000);
  options.stall_ms = 3 * options.lease_ms;
  options.poll_ms = 1 + (int64_t)rig_random(rig, 1000);
  options.linger_ms = (int64_t)rig_random(rig, 10000);
  rig_configure(rig, &options);
}

static void step(struct rig *rig)
{
  uint64_t dice = rig_random(rig, 100);
  if (rig_random(rig, 10) == 0)
    world_change(rig);
  if (dice < 65) {
    if (!answer_some(rig))
      wake(rig);
  } else if (dice < 85) {
    wake(rig);
  } else if (dice < 90) {
    rig_timer(rig, (int64_t)rig_random(rig, 3000));
  } else if (dice < 93) { /* a frozen process, a machine asleep */
    rig_timer(rig, (int64_t)rig_random(rig, 200000));
  } else if (dice < 96) {
    rig_stale(rig);
  } else if (dice < 98) {
    rig_wake(rig, (enum wakeup_about)rig_random(rig, WAKEUP_LOST + 1));
  } else if (dice < 99) {
    rig_notifications(rig, rig_random(rig, 3) > 0);
  } else if (rig_random(rig, 4) == 0) {
    rig_stop(rig);
  } else {
    configure(rig);
  }
}

/* ---- a world that behaves, or whose database is away when it is left ---- */

static void answer_well(struct rig *rig, enum activity activity)
{
  const struct action *action = &rig->slots[activity].action;
  bool no = action->kind == ACTION_POLL || action->kind == ACTION_READ,
       away = rig->seed % 4 == 1 && rig->consumer.core.state == STATE_RELEASING;
  rig_answer(rig, activity, away && rig_may_answer(action, RESULT_UNKNOWN) ? RESULT_UNKNOWN : no ? RESULT_NO : RESULT_YES);
}

static void walk_to_end(struct rig *rig)
{
  rig->late_answers = false;
  rig_stop(rig);
  for (int i = 0; !consumer_is_over(&rig->consumer); i++) {
    bool any = false;
    rig_assert(rig, i < STEPS_TO_END_MAX);
    for (int activity = 0; activity < ACTIVITY_COUNT; activity++)
      if (rig->slots[activity].running)
        answer_well(rig, activity), any = true;
    if (!any)
      wake(rig);
  }
}

static void walk(uint64_t seed)
{
  struct consumer_options options = rig_options();
  struct rig rig;
  if (seed % 2 == 0) {
    options.lease_ms = 1000;
    options.stall_ms = 3000;
  }
  rig_init(&rig, &options, seed);
  walking = &rig;
  rig.late_answers = true;
  rig_timer(&rig, 0);
  for (int i = 0; i < STEPS; i++)
    step(&rig);
  walk_to_end(&rig);
  walking = NULL;
  rig_deinit(&rig);
}

TEST(test_walks)
{
  for (uint64_t seed = 1; seed <= WALKS; seed++)
    if (seed_only == 0 || seed == seed_only)
      walk(seed);
}

/* ---- an answer that never changes ---- */

enum { CONSTANT_ANSWERS = 1500, CONSTANT_MS_MIN = 15000 }; /* 100 answers a second at most */

/* These results end the consumer quickly, as they should, or need another holder each time, which takes time of its own. */
static bool constant_is_rightly_quick(enum action_kind kind, enum result result)
{
  switch (kind) {
  case ACTION_POLL:
    return result == RESULT_REFUSED;
  case ACTION_READ: /* an endless backlog is an endless drain; refused: the type stops */
    return result == RESULT_YES || result == RESULT_REFUSED;
  case ACTION_DELETE: /* the type stops */
    return result == RESULT_LEFT;
  case ACTION_FENCE: /* the ledger has moved on */
    return result == RESULT_NO || result == RESULT_REFUSED;
  case ACTION_OPEN:
  case ACTION_COMMIT:
  case ACTION_APPEND:
  case ACTION_CLOSE:
    return result == RESULT_NO;
  case ACTION_SETTLE:
    return result == RESULT_NO || result == RESULT_LEFT;
  case ACTION_BEGIN: /* a new segment in every epoch; fenced */
    return result == RESULT_REFUSED || result == RESULT_SPENT || result == RESULT_NO || result == RESULT_STOPPED;
  case ACTION_CHECK:
  case ACTION_LOOK:
  case ACTION_TAKE:
  case ACTION_UNLOCK:
  case ACTION_LEAVE_QUEUE:
  case ACTION_RENEW:
  case ACTION_COUNT:
    break;
  }
  return false;
}

/*
 * There is a message for each epoch, a free lock, and an unclean ledger with something to settle; one action always gets the
 * same answer.
 */
static enum result constant_answer(struct rig *rig, const struct action *action, enum action_kind kind, enum result result)
{
  if (action->kind == kind && rig_may_answer(action, result))
    return result;
  if (action->kind == ACTION_READ)
    return rig->rules.items_read == 0 ? RESULT_YES : RESULT_NO;
  return RESULT_YES;
}

static void constant_walk(enum action_kind kind, enum result result, bool local)
{
  struct consumer_options options = rig_options();
  struct rig rig;
  rig_init(&rig, &options, 1);
  rig.network = !local;
  rig.segment = !local;
  rig.ledger.clean = false;
  int64_t start = rig.moment.now_ms;
  rig_timer(&rig, 0);
  for (int answered = 0; answered < CONSTANT_ANSWERS && !consumer_is_over(&rig.consumer);) {
    bool any = false;
    if (!rig.rules.locked)
      rig.ledger.settled = rig.ledger.end.seq > 30 ? rig.ledger.end.seq - 30 : 0;
    for (int i = 0; i < ACTIVITY_COUNT; i++)
      if (rig.slots[i].running) {
        rig_answer(&rig, i, constant_answer(&rig, &rig.slots[i].action, kind, result));
        answered++, any = true;
      }
    if (!any)
      wake(&rig);
  }
  if (rig.moment.now_ms - start < CONSTANT_MS_MIN) {
    fprintf(stderr, "%s is always answered %s: %d answers in %lld ms\n", rig_kind_name(kind), rig_result_name(result), CONSTANT_ANSWERS,
            (long long)(rig.moment.now_ms - start));
    rig_fail(&rig, __FILE__, __LINE__, "it pauses");
  }
  rig_deinit(&rig);
}

/* Whatever answer always comes at once, the consumer pauses between its attempts. */
TEST(test_nothing_makes_it_spin)
{
  for (enum action_kind kind = 0; kind < ACTION_COUNT; kind++)
    for (enum result result = 0; result < RESULT_COUNT; result++) {
      struct action action = {.kind = kind, .write_close = true, .commit.clean = true};
      if (!rig_may_answer(&action, result) || constant_is_rightly_quick(kind, result))
        continue;
      constant_walk(kind, result, true);
      constant_walk(kind, result, false);
    }
}

/* The storage is refused for as long as it takes, with an empty queue or while another holds the lock: chance does not come this way. */
static void distrust(const char *begin, const char *peek)
{
  struct consumer_options options = rig_options();
  struct rig rig;
  rig_init(&rig, &options, 1);
  rig_play_all(&rig, begin);
  while (!consumer_is_over(&rig.consumer)) {
    if (!rig.slots[ACTIVITY_MAIN].running)
      rig_play(&rig, "wake");
    enum action_kind kind = rig.slots[ACTIVITY_MAIN].action.kind;
    rig_play(&rig, kind == ACTION_CHECK         ? "CHECK REFUSED"
                   : kind == ACTION_LOOK        ? "LOOK NO"
                   : kind == ACTION_LEAVE_QUEUE ? "LEAVE YES"
                                                : peek);
  }
  rig_assert(&rig, rig.consumer.core.state == STATE_STOPPED && !rig.consumer.seek.acquisition.queued);
  rig_deinit(&rig);
}

TEST(test_distrust)
{
  distrust("wait 0; POLL YES; CHECK REFUSED", "POLL NO");
  distrust("wait 0; POLL YES; CHECK YES; LOOK NO", "POLL YES");
}

/* After the walks: what the map allows does happen. */
TEST(test_the_map_has_no_edge_too_many)
{
  if (seed_only == 0)
    assert_int_equal(edges_unseen(), 0);
}

int main(int argc, char **argv)
{
  seed_only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  signal(SIGABRT, on_abort);
  return tests_run(NULL, NULL);
}
