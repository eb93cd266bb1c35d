/* ask: fewer documents after a reply that did not come, and no more than make a block. */
#include "unit_test.h"
#include "worker/ask.h"

enum { BATCH = 10000, TIMEOUT_MS = 3000 };
static const int64_t batch_bytes = 8 * 1024 * 1024;

TEST(test_a_batch_after_the_first_reply)
{
  struct ask ask;
  ask_init(&ask);
  assert_int_equal(ask_count(&ask, BATCH), BATCH);
  assert_int_equal(ask_fitting(&ask, BATCH, batch_bytes), 2500);
  assert_int_equal(ask_fitting(&ask, 100, batch_bytes), 100);
  ask_got(&ask, 2500, (int64_t)2500 * 256);
  assert_int_equal(ask_fitting(&ask, BATCH, batch_bytes), BATCH);
}

TEST(test_less_and_more)
{
  struct ask ask;
  ask_init(&ask);
  for (int i = 0; i < 20; i++)
    ask_less(&ask, BATCH);
  assert_int_equal(ask_count(&ask, BATCH), 1);
  ask_more(&ask, TIMEOUT_MS, TIMEOUT_MS); /* slow */
  assert_int_equal(ask_count(&ask, BATCH), 1);
  for (int i = 0; i < 20; i++)
    ask_more(&ask, 1, TIMEOUT_MS);
  assert_int_equal(ask_count(&ask, BATCH), BATCH);
}

/* A block's worth and no more, so that nothing is left over. */
TEST(test_no_more_than_make_a_block)
{
  struct ask ask;
  ask_init(&ask);
  ask_got(&ask, 0, 0); /* a reply without documents says nothing of their size */
  assert_int_equal(ask_fitting(&ask, BATCH, batch_bytes), 2500);
  ask_got(&ask, 600, (int64_t)600 * 26000);
  int64_t count = ask_fitting(&ask, BATCH, batch_bytes);
  assert_true(count * 26000 <= batch_bytes && count * 26000 > batch_bytes * 9 / 10);
  assert_int_equal(ask_fitting(&ask, 100, batch_bytes), 100);
  ask_got(&ask, 1, (int64_t)15 * 1024 * 1024);
  assert_int_equal(ask_fitting(&ask, BATCH, batch_bytes), 1);
  ask_got(&ask, 1, 256);
  assert_int_equal(ask_fitting(&ask, BATCH, batch_bytes), BATCH);
}
