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

void fixture_put_v2(const char *type)
{
  struct ledger ledger = {.v = 2, .epoch = 5};
  memory_server_put_ledger(server, type, &ledger);
}

void fixture_put_malformed(const char *type)
{
  struct ledger ledger = {.epoch = 5};
  memory_server_put_ledger(server, type, &ledger);
}

void fixture_raise_v(const char *type)
{
  struct ledger ledger = read_ledger(type);
  ledger.v = 2;
  memory_server_put_ledger(server, type, &ledger);
}

void fixture_fence_older(const char *type)
{
  struct ledger ledger = read_ledger(type);
  ledger.epoch++;
  memory_server_put_ledger(server, type, &ledger);
}
