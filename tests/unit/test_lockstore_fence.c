/* The fence: which epoch follows, what a lost answer says, and for which end it vouches. */
#include "test_lockstore.h"

TEST(fence_from_nothing)
{
  struct ledger ledger, before;
  assert_int_equal(ledger_read(store, MY_TYPE, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger.epoch, 0);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(before.epoch, 0);
  assert_false(before.clean);
  assert_int_equal(ledger_read(store, MY_TYPE, &ledger, &error), OUTCOME_YES);
  assert_false(ledger.newer);
  assert_int_equal(ledger.epoch, 1);
  assert_true(ledger.has_owner);
  assert_memory_equal(&ledger.owner, &alice, sizeof alice);
  assert_false(ledger.clean);
  struct committed nothing = {0};
  assert_memory_equal(&ledger.end, &nothing, sizeof nothing);
  assert_int_equal(ledger.settled, 0);
  assert_string_equal(ledger.machine, "");
}

TEST(one_fence_an_epoch)
{
  struct ledger before;
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &bob, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(before.epoch, 1);
  assert_memory_equal(&before.owner, &alice, sizeof alice);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
}

/* A wake-up may give any number as the epoch. */
TEST(no_epoch_follows_on_the_last)
{
  static const int64_t epochs[] = {LEDGER_EPOCH_MAX + 1, INT64_MAX, -1, INT64_MIN};
  struct ledger before;
  for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++)
    assert_int_equal(ledger_fence(store, MY_TYPE, epochs[i], &alice, FENCER_LOCAL, &before, &error), OUTCOME_REFUSED);
  assert_non_null(strstr(error.text, "2^59"));
  assert_int_equal(ledger_fence(store, MY_TYPE, LEDGER_EPOCH_MAX, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
}

static enum outcome fence_again(const char *type, int64_t epoch_seen, bool clean_seen, const struct owner *owner, struct ledger *before)
{
  const struct ledger seen = {.epoch = epoch_seen, .clean = clean_seen};
  return ledger_fence_again(store, type, &seen, owner, FENCER_LOCAL, before, &error);
}

/* The fence was done, and the answer was lost: YES, with the ledger as it was before. `clean` is known only from an earlier read. */
TEST(unknown_fence_that_was_done)
{
  struct ledger before, ledger;
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(fence_again(MY_TYPE, 0, false, &alice, &before), OUTCOME_YES);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(fence_again(MY_TYPE, 0, false, &bob, &before), OUTCOME_NO);
  begin_file("done");
  struct ledger_commit commit = commit_of("done", 1, &alice, 0, 10);
  commit.settled = 3;
  assert_int_equal(ledger_commit(store, "done", &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "done", 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  for (int clean = 0; clean < 2; clean++) {
    assert_int_equal(fence_again("done", 1, clean, &bob, &ledger), OUTCOME_YES);
    assert_int_equal(ledger.epoch, 1);
    assert_true(ledger.clean == (clean == 1));
    assert_memory_equal(&ledger.end, &commit.after, sizeof ledger.end);
    assert_int_equal(ledger.settled, 3);
    assert_string_equal(ledger.machine, "machine-1");
  }
  assert_int_equal(read_ledger("done").epoch, 2);
}

/*
 * The fence was not done: the same request again. It takes over nothing that changed meanwhile; a ledger older than the one
 * seen is read again.
 */
TEST(unknown_fence_that_was_not_done)
{
  struct ledger before;
  assert_int_equal(fence_again(MY_TYPE, 0, false, &alice, &before), OUTCOME_YES);
  assert_int_equal(before.epoch, 0);
  begin_file("open");
  struct ledger_commit same = commit_of("open", 1, &alice, 0, 0);
  same.clean = true;
  assert_int_equal(ledger_commit(store, "open", &same, &error), OUTCOME_YES);
  assert_int_equal(fence_again("open", 2, true, &bob, &before), OUTCOME_UNKNOWN);
  assert_int_equal(fence_again("open", 1, false, &bob, &before), OUTCOME_YES);
  assert_true(before.clean && before.epoch == 1);
  assert_int_equal(fence_again("open", 1, true, &alice, &before), OUTCOME_NO);
  assert_int_equal(before.epoch, 0);
  assert_int_equal(ledger_fence(store, "open", 2, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(fence_again("open", 1, true, &bob, &before), OUTCOME_NO);
}

/* A file with ten messages, which end like this. */
static struct committed begin_ended(const char *type, bool clean, bool vouched)
{
  begin_file(type);
  struct ledger_commit commit = commit_of(type, 1, &alice, 0, 10);
  commit.clean = clean;
  commit.guarded = vouched;
  assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_YES);
  return commit.after;
}

/* Each fence, on each end that it may find. */
TEST(fence_vouches_for_the_end)
{
  static const struct {
    enum fencer fencer;
    bool clean, vouched; /* before the fence */
    bool clean_after, vouched_after;
  } table[] = {
      {FENCER_LOCAL, false, false, false, false},   {FENCER_LOCAL, false, true, false, true},
      {FENCER_LOCAL, true, false, false, true},     {FENCER_LOCAL, true, true, false, true},
      {FENCER_NETWORK, false, false, false, false}, {FENCER_NETWORK, false, true, false, false},
      {FENCER_NETWORK, true, false, false, false},  {FENCER_NETWORK, true, true, false, false},
      {FENCER_READER, false, false, false, false},  {FENCER_READER, false, true, false, true},
      {FENCER_READER, true, false, true, false},    {FENCER_READER, true, true, true, true},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char type[32];
    struct ledger before;
    snprintf(type, sizeof type, "vouched-%zu", i);
    struct committed end = begin_ended(type, table[i].clean, table[i].vouched);
    assert_int_equal(read_ledger(type).guarded, table[i].vouched ? 1 : 0);
    assert_int_equal(ledger_fence(store, type, 1, &bob, table[i].fencer, &before, &error), OUTCOME_YES);
    assert_true(before.clean == table[i].clean && ledger_vouched(&before) == table[i].vouched);
    struct ledger after = read_ledger(type);
    assert_int_equal(after.epoch, 2);
    assert_int_equal(after.guarded, table[i].vouched_after ? 2 : 0);
    assert_int_equal(after.clean, table[i].clean_after);
    assert_memory_equal(&after.end, &end, sizeof after.end);
  }
}

/* What a fence without an answer found, by the ledger now and by what was seen before. */
TEST(judged_fence_knows_what_was_vouched_for)
{
  static const struct {
    enum fencer fencer;
    bool clean, vouched; /* before the fence, and as seen */
    bool clean_judged, vouched_judged;
  } table[] = {
      {FENCER_LOCAL, false, false, false, false}, {FENCER_LOCAL, false, true, false, true},     {FENCER_LOCAL, true, false, true, false},
      {FENCER_LOCAL, true, true, true, true},     {FENCER_NETWORK, false, false, false, false}, {FENCER_NETWORK, false, true, false, true},
      {FENCER_NETWORK, true, false, true, false}, {FENCER_NETWORK, true, true, true, true},     {FENCER_READER, true, false, true, false},
      {FENCER_READER, true, true, true, true},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char type[32];
    struct ledger before, judged;
    snprintf(type, sizeof type, "judged-%zu", i);
    begin_ended(type, table[i].clean, table[i].vouched);
    struct ledger seen = read_ledger(type);
    assert_int_equal(ledger_fence(store, type, 1, &bob, table[i].fencer, &before, &error), OUTCOME_YES);
    assert_int_equal(ledger_fence_again(store, type, &seen, &bob, table[i].fencer, &judged, &error), OUTCOME_YES);
    assert_int_equal(judged.epoch, 1);
    assert_int_equal(judged.clean, table[i].clean_judged);
    assert_int_equal(ledger_vouched(&judged), table[i].vouched_judged);
  }
}

/* The holder committed after the ledger was seen: the local fence vouches for that end, and reports so. */
TEST(judged_fence_takes_what_was_committed_since)
{
  struct ledger before, judged;
  begin_file(MY_TYPE);
  struct ledger seen = read_ledger(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &seen, &bob, FENCER_LOCAL, &judged, &error), OUTCOME_YES);
  assert_true(ledger_vouched(&judged));
}

/* A clean end that came since may have been written over the network: local or not, the next writer begins a new page. */
TEST(judged_fence_does_not_know_through_which_view)
{
  struct ledger before, judged;
  begin_file(MY_TYPE);
  struct ledger seen = read_ledger(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.clean = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_string_equal(before.machine, "machine-1");
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &seen, &bob, FENCER_LOCAL, &judged, &error), OUTCOME_YES);
  assert_true(ledger_vouched(&judged));
  assert_string_equal(judged.machine, "");
}

/*
 * An older pawl's fence raises the epoch and leaves the number in `guarded`: that number then belongs to another epoch, and no
 * fence takes it up again.
 */
TEST(what_an_older_pawl_leaves_vouches_for_nothing)
{
  static const enum fencer fencers[] = {FENCER_LOCAL, FENCER_NETWORK, FENCER_READER};
  for (size_t i = 0; i < sizeof fencers / sizeof *fencers; i++) {
    char type[32];
    struct ledger before;
    snprintf(type, sizeof type, "older-%zu", i);
    begin_ended(type, false, true);
    fixture_fence_older(type);
    assert_int_equal(ledger_fence(store, type, 2, &bob, fencers[i], &before, &error), OUTCOME_YES);
    assert_int_equal(before.guarded, 1);
    assert_false(ledger_vouched(&before));
    assert_int_equal(read_ledger(type).guarded, 0);
  }
}

TEST(commit_without_the_guard_leaves_it)
{
  begin_file(MY_TYPE);
  struct ledger_commit first = commit_of(MY_TYPE, 1, &alice, 0, 10), second = commit_of(MY_TYPE, 1, &alice, 10, 20);
  first.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &second, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 7, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).guarded, 1);
}

TEST(put_vouches_for_nothing)
{
  begin_ended(MY_TYPE, false, true);
  struct ledger seen = read_ledger(MY_TYPE), adopted = seen;
  adopted.epoch = adopted.guarded = 5;
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &adopted, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).guarded, 0);
}
