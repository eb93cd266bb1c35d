/* How much memory the types may have together: worker/budget.h. */
#include "unit_test.h"
#include "worker/budget.h"

enum { KIB = 1024, MIB = 1024 * KIB, ANSWER = 16 * MIB, BATCH = 10000, TYPES = 200 };

static struct budget budget;
static struct budget_share shares[TYPES];

static void start(int64_t most)
{
  budget = (struct budget){.most = most};
  memset(shares, 0, sizeof shares);
}

static int64_t ask(int type)
{
  return budget_ask(&budget, &shares[type], BATCH, false);
}

/* The answer has so many documents of that size, and the type holds the answer and as much to come of it. */
static void answer(int type, int64_t documents, int64_t document_bytes)
{
  int64_t bytes = documents * document_bytes < ANSWER ? documents * document_bytes : ANSWER;
  budget_answered(&budget, &shares[type], documents * document_bytes, documents);
  budget_hold(&budget, &shares[type], 2 * bytes);
}

static void done(int type)
{
  budget_hold(&budget, &shares[type], 0);
}

/* They know how large their documents are. */
static void learn(int types, int64_t document_bytes)
{
  for (int i = 0; i < types; i++)
    budget_answered(&budget, &shares[i], document_bytes, 1);
}

TEST(test_one_type_has_what_it_wants)
{
  start(96 * MIB);
  assert_int_equal(ask(0), BATCH);
  answer(0, BATCH, 1000);
  for (int i = 0; i < 100; i++) {
    done(0);
    assert_int_equal(ask(0), BATCH);
    answer(0, BATCH, 1000);
  }
}

TEST(test_reserves_until_the_answer)
{
  start(96 * MIB);
  learn(1, 1000);
  assert_int_equal(ask(0), BATCH);
  assert_int_equal(budget.used, 2 * ANSWER);
  answer(0, 10, 1000);
  assert_int_equal(budget.used, 2 * 10 * 1000);
  done(0);
  assert_int_equal(budget.used, 0);
}

/* A size that is not known may be the largest; after the first answer it is known of the others, too, more or less. */
TEST(test_the_unknown_is_large)
{
  start(96 * MIB);
  assert_int_equal(ask(0), BATCH);
  assert_int_equal(ask(1), BATCH);
  assert_int_equal(ask(2), 1);
  assert_int_equal(ask(3), 0);
  answer(0, BATCH, 100);
  assert_true(ask(3) > 1000);
}

TEST(test_a_large_document_is_remembered_for_a_while)
{
  start(96 * MIB);
  learn(1, MIB);
  for (int i = 1; i < 20; i++)
    budget_answered(&budget, &shares[i], 1000, 1);
  assert_true(budget.document_bytes > 200 * KIB);
  for (int i = 0; i < 300; i++)
    budget_answered(&budget, &shares[1], 1000, 1);
  assert_true(budget.document_bytes < 2000);
  assert_int_equal(shares[0].document_bytes, MIB + 1);
}

/* Small blocks cost as much as large ones, and most answers need less than is reserved for them. */
TEST(test_little_is_not_asked_for_while_answers_are_under_way)
{
  start(96 * MIB);
  learn(TYPES, 300);
  int asked = 0;
  for (int64_t documents; (documents = ask(asked)) > 0; asked++)
    assert_true(documents >= 2000);
  assert_uint_in_range(asked, 8, 32);
  int64_t documents = budget_ask(&budget, &shares[TYPES - 1], BATCH, true); /* patience is over */
  assert_uint_in_range(documents, 1, 2000);
  answer(0, 10, 300);
  done(0);
  assert_true(ask(asked) >= 2000);
  for (int i = 1; i < TYPES; i++) /* none is under way now */
    budget_answered(&budget, &shares[i], 0, 0);
  budget_hold(&budget, &shares[0], 94 * MIB);
  assert_uint_in_range(ask(1), 1, 2000);
}

/* Its own go without a READ. */
TEST(test_a_type_that_has_some_waits_rather_than_asking_for_little)
{
  start(96 * MIB);
  learn(TYPES, 300);
  budget_hold(&budget, &shares[0], 94 * MIB);
  budget_hold(&budget, &shares[1], MIB / 2);
  assert_int_equal(ask(1), 0);
  assert_int_equal(budget_ask(&budget, &shares[1], BATCH, true), 0);
  done(1);
  assert_uint_in_range(ask(1), 100, 2000);
}

/* However many there are: there is always something left for the next one. */
TEST(test_types_that_keep_what_they_have_leave_some)
{
  start(96 * MIB);
  learn(TYPES, 100);
  for (int i = 0; i < 12; i++) {
    int64_t documents = ask(i);
    assert_true(documents > 0);
    answer(i, documents, 100);
    assert_true(ask(i) == 0 || shares[i].reserved <= budget.most - budget.used + shares[i].reserved);
    budget_answered(&budget, &shares[i], 0, 0);
  }
  assert_true(ask(TYPES - 1) > 0);
  assert_true(budget.used <= budget.most);
}

/* No type takes twice what the others are left. */
TEST(test_no_type_has_more_than_half)
{
  start(96 * MIB);
  learn(2, 10 * KIB);
  for (int i = 0; i < 20; i++) {
    int64_t held = shares[0].held, documents = ask(0);
    if (documents == 0 || held + shares[0].reserved > 48 * MIB)
      break;
    documents = documents < ANSWER / (10 * KIB) ? documents : ANSWER / (10 * KIB);
    budget_answered(&budget, &shares[0], documents * 10 * KIB, documents);
    budget_hold(&budget, &shares[0], held + 2 * documents * 10 * KIB);
  }
  assert_uint_in_range(shares[0].held, 20 * MIB, 52 * MIB);
  assert_true(ask(1) >= 500);
}

/* Even one that is larger than all there is. */
TEST(test_one_message_always_gets_through)
{
  start(MIB);
  assert_int_equal(ask(0), 1);
  answer(0, 1, ANSWER);
  done(0);
  assert_int_equal(ask(0), 1);
  assert_int_equal(ask(1), 0);
  answer(0, 1, ANSWER);
  assert_int_equal(ask(1), 0);
  done(0);
  assert_int_equal(ask(1), 1);
}

/* What others hold without end keeps a type waiting for no longer than its patience: one document, where it has none; and never without
 * end. */
TEST(test_patience)
{
  start(8 * MIB);
  learn(TYPES, 3 * MIB);
  budget_hold(&budget, &shares[0], 7 * MIB);
  assert_int_equal(ask(1), 0);
  assert_int_equal(budget_ask(&budget, &shares[1], BATCH, true), 1);
  answer(1, 1, 3 * MIB);
  assert_int_equal(budget_ask(&budget, &shares[1], BATCH, true), 0);
  int overdue = 0;
  for (int i = 2; i < TYPES; i++)
    overdue += budget_ask(&budget, &shares[i], BATCH, true) > 0;
  assert_int_equal(overdue, 1);
  assert_uint_in_range(budget.used, 8 * MIB, 16 * MIB + 12 * MIB);
}

/* Seeded: types of all sizes ask, hold and give back in any order. It fits, and each gets its turns, however large the others are. */
TEST(test_walk)
{
  enum { WALKERS = 20, STEPS = 200000 };
  static const int64_t sizes[] = {100, 1000, 20000, 400000, 3000000};
  int waiting[WALKERS], count = 0, turns[WALKERS] = {0};
  uint64_t random = 42;
  start(64 * MIB);
  for (int step = 0; step < STEPS; step++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    int type = (int)(random >> 33) % WALKERS;
    struct budget_share *share = &shares[type];
    int64_t size = sizes[type % 5];
    bool waits = false;
    for (int i = 0; i < count; i++)
      waits = waits || waiting[i] == type;
    if (share->reserved > 0)
      answer(type, 1 + (int64_t)(random >> 40) % (share->reserved / 4 / size + 1), size);
    else if (share->held > 0)
      done(type);
    else if (!waits)
      waiting[count++] = type;
    while (count > 0 && ask(waiting[0]) > 0) { /* as jobs.c does: the first one first */
      turns[waiting[0]]++;
      memmove(waiting, waiting + 1, (size_t)--count * sizeof waiting[0]);
    }
    assert_true(budget.used <= budget.most);
  }
  for (int i = 0; i < WALKERS; i++)
    assert_true(turns[i] > turns[(i + 1) % WALKERS] / 2 && turns[i] > 100);
}
