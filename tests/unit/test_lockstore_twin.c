#include "lockstore/lockstore_memory.h"
#include "lockstore/wakeup.h"
#include "test_lockstore.h"

static struct memory_server *server;
struct lockstore *store;

bool fixture_begin(void)
{
  server = memory_server_new();
  store = lockstore_memory_open(server);
  return true;
}

void fixture_end(void)
{
  lockstore_close(store);
  memory_server_free(server);
}

struct lockstore *fixture_store_new(void)
{
  return lockstore_memory_open(server);
}

struct wakeup_reader *fixture_reader(struct lockstore *of, const char *type)
{
  static const char *types[64]; /* the twin only borrows them */
  static int used;
  types[used] = type;
  struct wakeup_reader *reader = wakeup_reader_open(of, NULL, &types[used], 1, &error);
  used++;
  return reader;
}

void fixture_wait_expired(const char *type, int slot)
{
  struct lock_view view;
  assert_int_equal(lock_read(store, type, slot, &view, &error), OUTCOME_YES);
  memory_server_set_now(server, memory_server_now(server) + view.left_ms + 1);
}

void fixture_jump(const char *type, int slot)
{
  struct lock_view view;
  assert_int_equal(lock_read(store, type, slot, &view, &error), OUTCOME_YES);
  memory_server_set_now(server, memory_server_now(server) - 3 * view.ttl_ms);
}

void fixture_age_queue(const char *type, int ms)
{
  (void)type;
  memory_server_set_now(server, memory_server_now(server) + ms);
}

void fixture_put_newer(const char *type)
{
  struct ledger ledger = {.newer = true, .epoch = 5};
  memory_server_put_ledger(server, type, &ledger);
}

void fixture_put_malformed(const char *type)
{
  struct ledger ledger = {.epoch = 5};
  memory_server_put_ledger(server, type, &ledger);
  memory_server_spoil_ledger(server, type);
}

void fixture_make_newer(const char *type)
{
  struct ledger ledger = read_ledger(type);
  ledger.newer = true;
  memory_server_put_ledger(server, type, &ledger);
}

void fixture_fence_older(const char *type)
{
  struct ledger ledger = read_ledger(type);
  ledger.epoch++;
  memory_server_put_ledger(server, type, &ledger);
}

/* ---- what only the twin can show ---- */

static struct lockstore *other;
static int answers;

/* Another process uses the pool for the first time, too, and is faster. */
static void draws_first(void *context)
{
  enum { AFTER_THE_FLOOR = 4 }; /* draw, read, insert, read */
  int64_t token;
  int found;
  (void)context;
  if (++answers == AFTER_THE_FLOOR)
    assert_int_equal(ledger_draw(other, "pool", 3, &bob, &token, &found, &error), OUTCOME_YES);
}

TEST(two_draw_for_the_first_time)
{
  int64_t token = 0;
  int found = 0;
  struct lockstore *mine = fixture_store_new();
  other = fixture_store_new();
  lockstore_memory_on_answer(mine, draws_first, NULL);
  assert_int_equal(ledger_draw(mine, "pool", 3, &alice, &token, &found, &error), OUTCOME_YES);
  assert_int_equal(token, 2);
  lockstore_close(mine);
  lockstore_close(other);
}

/* Whether it was forgotten has no answer: then neither has what became of the request. */
TEST(one_that_may_be_forgotten_is_not_judged)
{
  const struct ledger seen = {.epoch = 1};
  struct ledger_commit commit = first_commit(MY_TYPE);
  struct ledger before;
  lockstore_memory_fail_after(store, 1, 1, false);
  assert_int_equal(ledger_commit_again(store, MY_TYPE, &commit, &error), OUTCOME_UNKNOWN);
  lockstore_memory_fail_after(store, 1, 1, false);
  assert_int_equal(ledger_fence_again(store, MY_TYPE, &seen, &bob, FENCER_LOCAL, &before, &error), OUTCOME_UNKNOWN);
}
