/* The ledger: what a commit, a settled seq and an adoption change in it, and what a late one does not. */
#include "test_lockstore.h"

TEST(commit_moves_the_end)
{
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.settled = 3;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_memory_equal(&ledger.end, &commit.after, sizeof ledger.end);
  assert_int_equal(ledger.settled, 3);
  assert_string_equal(ledger.machine, "machine-1");
  assert_false(ledger.clean);
}

TEST(unknown_commit_is_judged)
{
  struct ledger before;
  begin_file(MY_TYPE);
  struct ledger_commit first = commit_of(MY_TYPE, 1, &alice, 0, 10), second = commit_of(MY_TYPE, 1, &alice, 10, 20);
  struct ledger_commit early = commit_of(MY_TYPE, 2, &alice, 0, 10), foreign = commit_of(MY_TYPE, 1, &bob, 0, 10);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &early, &error), OUTCOME_UNKNOWN);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &foreign, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &second, &error), OUTCOME_NO); /* a third link */
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &first, &error), OUTCOME_YES); /* the repetition sends it now */
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 10);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &first, &error), OUTCOME_YES);    /* it was done before */
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &foreign, &error), OUTCOME_NO);   /* done by another owner */
  struct ledger_commit settled = commit_of(MY_TYPE, 1, &alice, 10, 10), clean = settled; /* the end does not move */
  settled.settled = clean.settled = 7;
  clean.clean = true;
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &settled, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(ledger_commit_again(store, MY_TYPE, &clean, &error), OUTCOME_YES);
    assert_true(read_ledger(MY_TYPE).clean);
  }
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &clean, &error), OUTCOME_NO);
}

TEST(repeated_commit_is_yes)
{
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 10);
}

TEST(late_commit_changes_nothing)
{
  begin_file(MY_TYPE);
  struct ledger_commit first = commit_of(MY_TYPE, 1, &alice, 0, 10), second = commit_of(MY_TYPE, 1, &alice, 10, 20);
  struct ledger_commit third = commit_of(MY_TYPE, 1, &alice, 20, 30);
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &third, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, MY_TYPE, &second, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 20);
}

TEST(first_commit_late_changes_nothing)
{
  begin_file(MY_TYPE);
  struct ledger_commit file = first_commit(MY_TYPE), block = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &file, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &block, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &file, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 10);
}

TEST(commit_needs_epoch_owner_and_link)
{
  begin_file(MY_TYPE);
  struct ledger_commit other = commit_of(MY_TYPE, 1, &bob, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  other = commit_of(MY_TYPE, 2, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  other = commit_of(MY_TYPE, 1, &alice, 5, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, "no-such-type", &other, &error), OUTCOME_NO);
  struct ledger before;
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  other = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &other, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).end.seq, 0);
}

TEST(fence_keeps_the_end)
{
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  commit.settled = 10;
  commit.clean = true;
  commit.machine = "machine-2";
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  struct ledger before, after;
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_memory_equal(&before.end, &commit.after, sizeof before.end);
  assert_true(before.clean);
  assert_int_equal(before.settled, 10);
  after = read_ledger(MY_TYPE);
  assert_memory_equal(&after.end, &commit.after, sizeof after.end);
  assert_false(after.clean);
  assert_int_equal(after.settled, 10);
  assert_string_equal(after.machine, "machine-2");
}

TEST(clean_is_set_and_stays)
{
  begin_file(MY_TYPE);
  struct ledger_commit same = commit_of(MY_TYPE, 1, &alice, 0, 0);
  same.clean = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &same, &error), OUTCOME_YES);
  assert_true(read_ledger(MY_TYPE).clean);
  same.clean = false;
  assert_int_equal(ledger_commit(store, MY_TYPE, &same, &error), OUTCOME_YES);
  assert_true(read_ledger(MY_TYPE).clean);
  assert_string_equal(read_ledger(MY_TYPE).machine, "machine-1");
}

TEST(clean_without_a_file)
{
  struct ledger before, ledger;
  struct ledger_commit commit = {.epoch = 1, .owner = alice, .clean = true};
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  ledger = read_ledger(MY_TYPE);
  assert_true(ledger.clean);
  assert_string_equal(ledger.end.file, "");
}

TEST(settled_never_lowers)
{
  begin_file(MY_TYPE);
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 7, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 4, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  commit.settled = 5;
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &bob, 9, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 2, &alice, 9, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
}

TEST(put_only_over_what_was_seen)
{
  const struct ledger none = {0};
  struct ledger ledger = {.epoch = 5, .has_owner = true, .owner = bob, .end = commit_of(MY_TYPE, 1, &bob, 0, 10).after};
  begin_file(MY_TYPE);
  struct ledger seen = read_ledger(MY_TYPE);
  assert_int_equal(ledger_put(store, MY_TYPE, &none, NULL, &ledger, &error), OUTCOME_NO);
  struct ledger_commit closed = commit_of(MY_TYPE, 1, &alice, 0, 0); /* a block without messages, in the epoch that was seen */
  closed.after.link++;
  assert_int_equal(ledger_commit(store, MY_TYPE, &closed, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  seen = read_ledger(MY_TYPE);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 1);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 5);
  ledger.epoch = 6;
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 5);
}

/* Seen without a file, it has one by now; or a first block too. */
TEST(put_only_where_there_is_still_no_file)
{
  struct ledger before, ledger = {.epoch = 5, .has_owner = true, .owner = bob, .end = commit_of(MY_TYPE, 1, &bob, 0, 10).after};
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  struct ledger seen = read_ledger(MY_TYPE);
  struct ledger_commit first = first_commit(MY_TYPE), second = commit_of(MY_TYPE, 1, &alice, 0, 10);
  assert_int_equal(ledger_commit(store, MY_TYPE, &first, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, MY_TYPE, &second, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).epoch, 1);
}

/* A late copy of the adoption, and an adoption that began before the document changed: they change nothing. */
TEST(malformed_is_replaced_once)
{
  struct ledger before, ledger = {.epoch = 9, .has_owner = true, .owner = bob, .end = commit_of(MY_TYPE, 1, &bob, 0, 10).after};
  struct ledger_found *found = NULL;
  fixture_put_malformed(MY_TYPE);
  assert_int_equal(ledger_read_found(store, MY_TYPE, &before, &found, &error), OUTCOME_REFUSED);
  assert_non_null(found);
  assert_int_equal(ledger_put(store, MY_TYPE, &before, found, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_settle(store, MY_TYPE, 9, &bob, 7, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &before, found, &ledger, &error), OUTCOME_NO);
  assert_int_equal(read_ledger(MY_TYPE).settled, 7);
  ledger_found_free(found);
  assert_int_equal(ledger_read_found(store, MY_TYPE, &before, &found, &error), OUTCOME_YES);
  assert_null(found);
}

TEST(newer_ledger_is_refused)
{
  struct ledger ledger;
  struct ledger_commit commit = {.epoch = 5, .owner = alice};
  fixture_put_newer(MY_TYPE);
  assert_int_equal(ledger_read(store, MY_TYPE, &ledger, &error), OUTCOME_REFUSED);
  assert_true(ledger.newer);
  assert_non_null(strstr(error.text, "a newer pawl"));
  assert_int_equal(ledger_fence(store, MY_TYPE, 0, &alice, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 5, &alice, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 5, &alice, 0, &error), OUTCOME_NO);
}

/* A newer pawl has taken over the ledger: whatever this pawl still sends names v 1, and matches nothing. */
TEST(newer_ledger_is_left_alone)
{
  struct ledger seen, ledger;
  begin_file(MY_TYPE);
  seen = ledger = read_ledger(MY_TYPE);
  ledger.epoch++;
  struct ledger_commit commit = commit_of(MY_TYPE, 1, &alice, 0, 10);
  fixture_make_newer(MY_TYPE);
  assert_int_equal(ledger_commit(store, MY_TYPE, &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 0, &error), OUTCOME_NO);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence(store, MY_TYPE, 1, &bob, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);

  /* Its epoch is not known here: that must not count as the old epoch that a replaced primary would show. */
  struct ledger later = seen;
  later.epoch = 2;
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &commit, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &seen, &bob, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &later, &bob, FENCER_LOCAL, &ledger, &error), OUTCOME_NO);
}
