/* A paused type: no worker's fence matches its ledger, a tool's does, and the pause ends only by its own id. */
#include "test_lockstore.h"

static const struct ledger_pause pause_a = {.id = {1, 2, 3}, .by = "ops@w1", .reason = "$$NOW is when the disk is moved"};
static const struct ledger_pause pause_b = {.id = {1, 2, 4}, .by = "ops@w2", .reason = "another"};

static struct ledger paused(const char *type, int64_t epoch_seen, const struct ledger_pause *pause)
{
  struct ledger before;
  assert_int_equal(ledger_pause_begin(store, type, epoch_seen, &bob, pause, &before, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(type);
  assert_true(ledger.paused);
  assert_int_equal(ledger.epoch, before.epoch + 1);
  assert_memory_equal(ledger.pause.id, pause->id, sizeof pause->id);
  assert_string_equal(ledger.pause.by, pause->by);
  assert_string_equal(ledger.pause.reason, pause->reason);
  return ledger;
}

static enum outcome fence_at(const char *type, int64_t epoch_seen, enum fencer fencer)
{
  struct ledger before;
  return ledger_fence(store, type, epoch_seen, &alice, fencer, &before, &error);
}

TEST(a_pause_keeps_workers_away)
{
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  int64_t epoch = read_ledger(MY_TYPE).epoch;
  struct ledger ledger = paused(MY_TYPE, epoch, &pause_a);
  assert_true(ledger.pause.at_ms > 0);
  /* The holder from before, and a worker that has read the ledger before, or reads it now. */
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, epoch, &alice, 0, &error), OUTCOME_NO);
  for (int64_t seen = epoch; seen <= epoch + 1; seen++) {
    assert_int_equal(fence_at(MY_TYPE, seen, FENCER_LOCAL), OUTCOME_NO);
    assert_int_equal(fence_at(MY_TYPE, seen, FENCER_NETWORK), OUTCOME_NO);
  }
  assert_true(read_ledger(MY_TYPE).paused);
}

TEST(a_pause_leaves_the_end_as_it_is)
{
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.clean = commit.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  struct ledger ledger = paused(MY_TYPE, 1, &pause_a);
  assert_true(ledger.clean && ledger_vouched(&ledger));
  assert_int_equal(ledger.end.seq, 10);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  ledger = read_ledger(MY_TYPE);
  assert_true(!ledger.paused && ledger.clean && ledger_vouched(&ledger));
  assert_int_equal(ledger.epoch, 2);
  assert_int_equal(fence_at(MY_TYPE, 2, FENCER_LOCAL), OUTCOME_YES);
}

TEST(a_tool_takes_a_paused_type)
{
  struct ledger before;
  int64_t token;
  int slots;
  begin_file(MY_TYPE);
  int64_t epoch = paused(MY_TYPE, 1, &pause_a).epoch;
  assert_int_equal(ledger_fence(store, MY_TYPE, epoch, &alice, FENCER_READER, &before, &error), OUTCOME_YES);
  assert_true(before.paused && before.epoch == epoch);
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_true(ledger.paused && ledger.epoch == epoch + 1);
  assert_memory_equal(&ledger.pause, &before.pause, sizeof before.pause);
  assert_int_equal(ledger_draw(store, MY_TYPE, 3, &alice, &token, &slots, &error), OUTCOME_NO);
  assert_int_equal(slots, 0);
}

TEST(a_pause_ends_by_its_own_id)
{
  begin_file(MY_TYPE);
  int64_t epoch = paused(MY_TYPE, 1, &pause_a).epoch;
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_b.id, &error), OUTCOME_NO);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_NO);
  epoch = paused(MY_TYPE, epoch, &pause_b).epoch;
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_NO); /* a late copy */
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_true(ledger.paused && ledger.epoch == epoch);
  assert_int_equal(ledger_pause_end(store, "nothing", pause_a.id, &error), OUTCOME_NO);
}

TEST(a_late_pause_pauses_nothing)
{
  struct ledger before;
  begin_file(MY_TYPE);
  int64_t epoch = paused(MY_TYPE, 1, &pause_a).epoch;
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  assert_int_equal(ledger_pause_begin(store, MY_TYPE, 1, &bob, &pause_a, &before, &error), OUTCOME_NO);
  assert_false(read_ledger(MY_TYPE).paused);
  assert_int_equal(read_ledger(MY_TYPE).epoch, epoch);
}

/* Before its first message. */
TEST(a_type_without_a_ledger_is_paused)
{
  struct ledger ledger = paused(MY_TYPE, 0, &pause_a);
  assert_true(!ledger.clean && ledger.end.file[0] == '\0' && ledger.birth == 0);
  assert_int_equal(fence_at(MY_TYPE, 0, FENCER_LOCAL), OUTCOME_NO);
  assert_int_equal(fence_at(MY_TYPE, ledger.epoch, FENCER_LOCAL), OUTCOME_NO);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  assert_int_equal(fence_at(MY_TYPE, ledger.epoch, FENCER_LOCAL), OUTCOME_YES);
}

TEST(adopting_keeps_a_pause)
{
  begin_file(MY_TYPE);
  struct ledger unpaused = read_ledger(MY_TYPE), seen = paused(MY_TYPE, 1, &pause_a), adopted = seen;
  adopted.epoch = 9;
  adopted.end = end_at(MY_TYPE, 4);
  unpaused.epoch = seen.epoch;
  assert_int_equal(ledger_put(store, MY_TYPE, &unpaused, NULL, &adopted, &error), OUTCOME_NO);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &adopted, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_true(ledger.paused && ledger.epoch == 9);
  assert_memory_equal(&ledger.pause, &seen.pause, sizeof seen.pause);
  /* Resumed between the look and the change: the pause does not come back. */
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  seen = ledger;
  adopted.epoch = 10;
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &adopted, &error), OUTCOME_NO);
  assert_false(read_ledger(MY_TYPE).paused);
}

TEST(a_newer_ledger_is_not_resumed)
{
  begin_file(MY_TYPE);
  paused(MY_TYPE, 1, &pause_a);
  fixture_make_newer(MY_TYPE);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_NO);
}

TEST(a_newer_ledger_is_not_paused)
{
  struct ledger before;
  begin_file(MY_TYPE);
  fixture_make_newer(MY_TYPE);
  assert_int_equal(ledger_pause_begin(store, MY_TYPE, 1, &bob, &pause_a, &before, &error), OUTCOME_NO);
}
