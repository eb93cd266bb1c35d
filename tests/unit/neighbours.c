#include "neighbours.h"

static struct neighbour neighbours[NEIGHBOURS_MAX]; /* those of the test that runs */
static int neighbour_count;

int neighbours_close(void **state)
{
  (void)state;
  for (; neighbour_count > 0; neighbour_count--) {
    wakeup_reader_close(neighbours[neighbour_count - 1].reader);
    lockstore_close(neighbours[neighbour_count - 1].store);
  }
  return 0;
}

static void begin_waiting(struct neighbour *neighbour, enum lock_kind kind)
{
  acquire_init(&neighbour->lock, kind, LONG_MS, 100);
  neighbour->lock.listens = true;
}

struct neighbour *neighbour_of(const char *type, enum lock_kind kind)
{
  assert_true(neighbour_count < NEIGHBOURS_MAX);
  struct neighbour *neighbour = &neighbours[neighbour_count];
  *neighbour = (struct neighbour){.type = type, .store = fixture_store_new()};
  neighbour->reader = fixture_reader(neighbour->store, type);
  neighbour_count++;
  begin_waiting(neighbour, kind);
  assert_int_equal(wakeup_reader_begin(neighbour->reader, &error), OUTCOME_YES);
  return neighbour;
}

struct neighbour *neighbour_open(const char *type)
{
  return neighbour_of(type, LOCK_BY_WORKER);
}

struct wakeup expect_woken(struct neighbour *neighbour, enum wakeup_about about)
{
  struct wakeup wakeup = {.epoch = -1};
  enum outcome outcome = OUTCOME_NO;
  for (int tries = 0; outcome == OUTCOME_NO && tries < 10; tries++)
    outcome = wakeup_reader_next(neighbour->reader, 1000, &wakeup, &error);
  assert_int_equal(outcome, OUTCOME_YES);
  assert_string_equal(wakeup.type, neighbour->type);
  assert_int_equal(wakeup.about, about);
  return wakeup;
}

void expect_called_at(struct neighbour *neighbour, int64_t epoch)
{
  struct wakeup wakeup = expect_woken(neighbour, WAKEUP_LOCK);
  assert_memory_equal(&wakeup.owner, &neighbour->lock.owner, sizeof wakeup.owner);
  assert_int_equal(wakeup.epoch, epoch);
}

void expect_called(struct neighbour *neighbour)
{
  expect_called_at(neighbour, 0);
}

void expect_quiet(struct neighbour *neighbour)
{
  struct wakeup wakeup;
  assert_int_equal(wakeup_reader_next(neighbour->reader, 100, &wakeup, &error), OUTCOME_NO);
}

enum outcome look(struct neighbour *neighbour)
{
  return acquire_look(neighbour->store, neighbour->type, &neighbour->lock, &someone, &error);
}

void expect_waiting(struct neighbour *neighbour)
{
  assert_int_equal(look(neighbour), OUTCOME_NO);
  assert_true(neighbour->lock.queued);
  assert_uint_in_range(neighbour->lock.pause_ms, 1, LONG_MS + 1);
}

void takes_at_once(struct neighbour *neighbour)
{
  assert_int_equal(acquire_take(neighbour->store, neighbour->type, &neighbour->lock, &someone, &error), OUTCOME_YES);
}

void expect_takes(struct neighbour *neighbour)
{
  assert_int_equal(look(neighbour), OUTCOME_YES);
  takes_at_once(neighbour);
  assert_false(neighbour->lock.queued);
}

void gives_back_at(struct neighbour *neighbour, int64_t epoch)
{
  assert_int_equal(acquire_release(neighbour->store, neighbour->type, &neighbour->lock, epoch, &error), OUTCOME_YES);
  begin_waiting(neighbour, neighbour->lock.kind);
}

void gives_back(struct neighbour *neighbour)
{
  gives_back_at(neighbour, 0);
}

void takes_once(struct neighbour *neighbour)
{
  expect_takes(neighbour);
  gives_back(neighbour);
}

void has_its_turn(struct neighbour *neighbour)
{
  expect_called(neighbour);
  takes_once(neighbour);
}

void leaves(struct neighbour *neighbour, bool wants)
{
  assert_int_equal(acquire_leave(neighbour->store, neighbour->type, &neighbour->lock, wants, &error), OUTCOME_YES);
}

void dies(struct neighbour *neighbour)
{
  assert_int_equal(lock_delete(neighbour->store, neighbour->type, 0, &neighbour->lock.owner, &error), OUTCOME_YES);
}
