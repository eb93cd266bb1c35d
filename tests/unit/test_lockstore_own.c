/* A type with its own collection: who changes what of its ledger, and what each change leaves as it is. */
#include "lockstore/queue_name.h"
#include "test_lockstore.h"

static const struct ledger_pause pause_a = {.id = {7, 2, 3}, .by = "ops@w1", .reason = "moved"};

static struct ledger own_begin(const char *type, int64_t epoch_seen)
{
  struct ledger before;
  assert_int_equal(ledger_own_begin(store, type, epoch_seen, &bob, &before, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(type);
  assert_true(ledger.own && ledger.epoch == before.epoch + 1);
  return ledger;
}

static void fence(const char *type, int64_t epoch_seen, struct ledger *before)
{
  assert_int_equal(ledger_fence(store, type, epoch_seen, &alice, FENCER_LOCAL, before, &error), OUTCOME_YES);
}

static enum queue_source commit(const char *type, int64_t epoch, int64_t from, int64_t to, enum queue_source source)
{
  struct ledger_commit next = commit_of(type, epoch, &alice, from, to);
  next.settled = from;
  next.from = source;
  assert_int_equal(ledger_commit(store, type, &next, &error), OUTCOME_YES);
  return read_ledger(type).from;
}

TEST(the_switch_fences_the_holder)
{
  begin_file(MY_TYPE);
  struct ledger_commit late = commit_of(MY_TYPE, 1, &alice, 0, 10);
  struct ledger ledger = own_begin(MY_TYPE, 1), before;
  assert_int_equal(ledger.from, SOURCE_SHARED);
  assert_int_equal(ledger_commit(store, MY_TYPE, &late, &error), OUTCOME_NO);
  assert_int_equal(ledger_settle(store, MY_TYPE, 1, &alice, 0, &error), OUTCOME_NO);
  fence(MY_TYPE, 2, &before);
  assert_true(before.own);
  assert_int_equal(ledger_own_begin(store, MY_TYPE, 2, &bob, &before, &error), OUTCOME_NO);
}

TEST(the_switch_leaves_the_end_as_it_is)
{
  struct ledger before;
  begin_file(MY_TYPE);
  struct ledger_commit last = commit_of(MY_TYPE, 1, &alice, 0, 10);
  last.clean = last.guarded = true;
  assert_int_equal(ledger_commit(store, MY_TYPE, &last, &error), OUTCOME_YES);
  struct ledger ledger = own_begin(MY_TYPE, 1);
  assert_true(ledger.clean && ledger_vouched(&ledger));
  assert_int_equal(ledger.end.seq, 10);
  assert_int_equal(ledger_own_end(store, MY_TYPE, 2, &bob, &before, &error), OUTCOME_YES);
  ledger = read_ledger(MY_TYPE);
  assert_true(!ledger.own && ledger.clean && ledger_vouched(&ledger) && ledger.epoch == 3);
}

TEST(a_type_without_a_ledger_becomes_own)
{
  struct ledger ledger = own_begin(MY_TYPE, 0), before;
  assert_true(!ledger.clean && ledger.end.file[0] == '\0' && ledger.from == SOURCE_SHARED);
  fence(MY_TYPE, ledger.epoch, &before);
  assert_true(before.own);
}

/* A type with a file and its own collection, in epoch 3. */
static void begin_own(const char *type)
{
  struct ledger before;
  begin_file(type);
  own_begin(type, 1);
  fence(type, 2, &before);
}

TEST(a_commit_says_where_its_block_came_from)
{
  begin_own(MY_TYPE);
  assert_int_equal(commit(MY_TYPE, 3, 0, 10, SOURCE_SHARED), SOURCE_SHARED);
  assert_int_equal(commit(MY_TYPE, 3, 10, 20, SOURCE_OWN), SOURCE_OWN);
  struct ledger_commit none = commit_of(MY_TYPE, 3, &alice, 20, 20); /* what only settles is of no source */
  none.settled = 20;
  assert_int_equal(ledger_commit(store, MY_TYPE, &none, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).from, SOURCE_OWN);
  assert_int_equal(ledger_settle(store, MY_TYPE, 3, &alice, 20, &error), OUTCOME_YES);
  assert_int_equal(commit(MY_TYPE, 3, 20, 30, SOURCE_SHARED), SOURCE_SHARED);
  assert_true(read_ledger(MY_TYPE).own);
}

TEST(a_way_back_forgets_the_source)
{
  struct ledger before;
  begin_own(MY_TYPE);
  assert_int_equal(commit(MY_TYPE, 3, 0, 10, SOURCE_OWN), SOURCE_OWN);
  assert_int_equal(ledger_own_end(store, MY_TYPE, 3, &bob, &before, &error), OUTCOME_YES);
  assert_true(before.own && before.from == SOURCE_OWN);
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_true(!ledger.own && ledger.from == SOURCE_SHARED && ledger.epoch == 4);
}

/* Each change is one of its own word. */
TEST(a_pause_leaves_the_collection)
{
  struct ledger before;
  begin_file(MY_TYPE);
  own_begin(MY_TYPE, 1);
  assert_int_equal(ledger_pause_begin(store, MY_TYPE, 2, &bob, &pause_a, &before, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(MY_TYPE);
  assert_true(ledger.own && ledger.paused && ledger.epoch == 3);
  assert_int_equal(ledger_fence(store, MY_TYPE, 3, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  ledger = read_ledger(MY_TYPE);
  assert_true(ledger.own && !ledger.paused);
  fence(MY_TYPE, 3, &before);
  assert_true(before.own);
}

TEST(a_paused_type_changes_its_collection)
{
  struct ledger before;
  begin_file(MY_TYPE);
  assert_int_equal(ledger_pause_begin(store, MY_TYPE, 1, &bob, &pause_a, &before, &error), OUTCOME_YES);
  struct ledger ledger = own_begin(MY_TYPE, 2);
  assert_true(ledger.paused);
  assert_memory_equal(ledger.pause.id, pause_a.id, sizeof pause_a.id);
  assert_int_equal(ledger_own_end(store, MY_TYPE, 3, &bob, &before, &error), OUTCOME_YES);
  ledger = read_ledger(MY_TYPE);
  assert_true(!ledger.own && ledger.paused);
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  fence(MY_TYPE, 4, &before);
}

TEST(adopting_keeps_the_collection)
{
  begin_file(MY_TYPE);
  struct ledger shared = read_ledger(MY_TYPE), seen = own_begin(MY_TYPE, 1), adopted = seen;
  adopted.epoch = 9;
  adopted.end = end_at(MY_TYPE, 4);
  shared.epoch = seen.epoch;
  assert_int_equal(ledger_put(store, MY_TYPE, &shared, NULL, &adopted, &error), OUTCOME_NO);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &adopted, &error), OUTCOME_YES);
  struct ledger ledger = read_ledger(MY_TYPE), before;
  assert_true(ledger.own && ledger.from == SOURCE_BOTH);
  fence(MY_TYPE, 9, &before);
  assert_int_equal(before.from, SOURCE_BOTH);
  struct ledger_commit none = commit_of(MY_TYPE, 10, &alice, 4, 4);
  none.settled = 4;
  assert_int_equal(ledger_commit(store, MY_TYPE, &none, &error), OUTCOME_YES);
  assert_int_equal(read_ledger(MY_TYPE).from, SOURCE_BOTH);
  assert_int_equal(commit(MY_TYPE, 10, 4, 5, SOURCE_SHARED), SOURCE_SHARED);
}

TEST(own_collections_are_found)
{
  const char *types[] = {"found-b", "found-none", "found-a", "found-shared"};
  bool own[4] = {false, true, false, true};
  own_begin("found-a", 0);
  own_begin("found-b", 0);
  begin_file("found-shared");
  assert_int_equal(ledger_find_own(store, types, 4, own, &error), OUTCOME_YES);
  assert_true(own[0] && !own[1] && own[2] && !own[3]);
}

TEST(a_type_with_its_own_collection_is_no_lock)
{
  int64_t token;
  int slots;
  own_begin(MY_TYPE, 0);
  assert_int_equal(ledger_draw(store, MY_TYPE, 3, &alice, &token, &slots, &error), OUTCOME_NO);
  assert_int_equal(slots, 0);
}

TEST(an_own_collection_is_named_after_its_type)
{
  char longest[TYPE_BYTES_MAX + 1];
  memset(longest, 'x', sizeof longest - 1);
  longest[sizeof longest - 1] = 0;
  assert_string_equal(queue_name_of("t1", SOURCE_SHARED).text, "messages");
  assert_string_equal(queue_name_of("t1", SOURCE_OWN).text, "messages.t1");
  assert_int_equal(strlen(queue_name_of(longest, SOURCE_OWN).text), TYPE_BYTES_MAX + strlen("messages."));
}

/* It was resumed meanwhile, and the switch is still there. */
TEST(adopting_brings_no_pause_back)
{
  struct ledger before;
  begin_file(MY_TYPE);
  own_begin(MY_TYPE, 1);
  assert_int_equal(ledger_pause_begin(store, MY_TYPE, 2, &bob, &pause_a, &before, &error), OUTCOME_YES);
  struct ledger seen = read_ledger(MY_TYPE), ledger = seen;
  ledger.epoch++;
  assert_int_equal(ledger_pause_end(store, MY_TYPE, pause_a.id, &error), OUTCOME_YES);
  assert_int_equal(ledger_put(store, MY_TYPE, &seen, NULL, &ledger, &error), OUTCOME_NO);
  assert_false(read_ledger(MY_TYPE).paused);
}
