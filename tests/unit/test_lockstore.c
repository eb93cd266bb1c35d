#include "test_lockstore.h"

struct error error;
const struct owner alice = {"alice"}, bob = {"bob"};
const struct lock_holder someone = {.host = "$host", .boot = "boot-1", .program = "pawl-worker", .pid = 42, .started_wall_ms = 1700};

enum outcome take(const char *type, const struct owner *owner, int64_t ttl_ms)
{
  return lock_take(store, type, 0, owner, ttl_ms, &someone, &error);
}

struct committed end_at(const char *type, int64_t seq)
{
  struct committed end = {.uuid = "0123456789abcde", .length = 4096 + 100 * seq, .tail = seq ? 4096 + 100 * (seq - 1) : 0};
  snprintf(end.file, sizeof end.file, "%s.bin", type);
  end.link = 0xfedcba9800000000u + (uint64_t)seq; /* negative as an int64 */
  end.seq = seq;
  end.items = 2 * seq;
  return end;
}

struct ledger_commit commit_of(const char *type, int64_t epoch, const struct owner *owner, int64_t from, int64_t to)
{
  struct ledger_commit commit = {.epoch = epoch, .owner = *owner, .before = end_at(type, from), .after = end_at(type, to)};
  return commit;
}

struct ledger_commit first_commit(const char *type)
{
  struct ledger_commit commit = commit_of(type, 1, &alice, 0, 0);
  commit.before = (struct committed){0};
  return commit;
}

void begin_file(const char *type)
{
  struct ledger before;
  struct ledger_commit commit = first_commit(type);
  commit.machine = "machine-1";
  assert_int_equal(ledger_fence(store, type, 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_YES);
}

struct ledger read_ledger(const char *type)
{
  struct ledger ledger;
  assert_int_equal(ledger_read(store, type, &ledger, &error), OUTCOME_YES);
  return ledger;
}

int main(void)
{
  if (!fixture_begin())
    return SKIPPED;
  int failed = tests_run(NULL, NULL);
  fixture_end();
  return failed ? 1 : 0;
}
