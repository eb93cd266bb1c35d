/* The library in memory; and what only that can show. */
#include "test_lock.h"

#include <pawl/lock_memory.h>
#include <stdio.h>

const int64_t lease_ms = 30000;
enum { HANDLES_MAX = 64 };
static struct pawl_memory *memory;
static struct pawl *handles[HANDLES_MAX];
static int handle_count;

static void world_new(void)
{
  memory = pawl_memory_new();
  assert_non_null(memory);
}

struct pawl *handle_open(void)
{
  struct pawl_options options = {.size = sizeof options, .lease_ms = lease_ms, .program = handle_count == 0 ? "the first program" : NULL};
  struct pawl *pawl;
  if (memory == NULL)
    world_new();
  assert_true(handle_count < HANDLES_MAX);
  assert_result(pawl_memory_open(memory, &options, &pawl, &error), PAWL_OK);
  return handles[handle_count++] = pawl;
}

enum pawl_result handle_try(struct pawl_options options)
{
  struct pawl *pawl = NULL;
  if (memory == NULL)
    world_new();
  options.size = sizeof options;
  enum pawl_result result = pawl_memory_open(memory, &options, &pawl, &error);
  assert_true((result == PAWL_OK) == (pawl != NULL));
  pawl_close(pawl);
  return result;
}

void handle_close(struct pawl *pawl)
{
  for (int i = 0; i < handle_count; i++)
    if (handles[i] == pawl)
      handles[i] = NULL;
  pawl_close(pawl);
}

int world_end(void **state)
{
  (void)state;
  for (int i = 0; i < handle_count; i++)
    pawl_close(handles[i]);
  handle_count = 0;
  pawl_memory_free(memory);
  memory = NULL;
  return 0;
}

void pass_ms(int64_t ms)
{
  pawl_memory_advance(memory, ms);
}

struct pawl_event event_of(struct pawl *pawl)
{
  struct pawl_event event = {.size = sizeof event};
  for (int64_t ms = 0; !pawl_next(pawl, &event) || event.kind < PAWL_EVENT_HELD; ms += 10) {
    assert_true(ms < 10 * lease_ms);
    pass_ms(10);
  }
  return event;
}

void handle_cut_off(struct pawl *pawl, bool away)
{
  pawl_memory_cut_off(pawl, away);
}

void document_put(const char *collection, const bson_t *document)
{
  if (memory == NULL)
    world_new();
  pawl_memory_document_put(memory, collection, bson_get_data(document));
}

bson_t *document_get(const char *collection, const bson_t *filter)
{
  bson_t found;
  const uint8_t *bytes = pawl_memory_document(memory, collection, bson_get_data(filter));
  uint32_t length;
  if (bytes == NULL)
    return NULL;
  memcpy(&length, bytes, sizeof length);
  assert_true(bson_init_static(&found, bytes, BSON_UINT32_FROM_LE(length)));
  return bson_copy(&found);
}

/* ---- a process that stands still ---- */

LOCK_TEST(frozen_beyond_its_lease)
{
  struct pawl *frozen = handle_open(), *other = handle_open();
  pawl_fd(frozen);
  pawl_hold hold = take(frozen, MY_NAME);
  pawl_memory_freeze(frozen, true);
  pawl_hold next = take(other, MY_NAME);
  assert_int_equal(pawl_left_ms(frozen, hold), 0); /* before anything of it has run again */
  assert_int_equal(pawl_reason(frozen, hold, &error), PAWL_REASON_EXPIRED);
  assert_true(pawl_token(other, next) > pawl_token(frozen, hold));
  pawl_memory_freeze(frozen, false);
  struct pawl_event event = event_of(frozen);
  assert_int_equal(event.kind, PAWL_EVENT_LOST);
  assert_int_equal(event.reason, PAWL_REASON_EXPIRED);
  assert_result(pawl_release(frozen, hold, &error), PAWL_LOST);
  assert_true(pawl_left_ms(other, next) > 0);
}

LOCK_TEST(frozen_for_less)
{
  struct pawl *frozen = handle_open();
  pawl_hold hold = take(frozen, MY_NAME);
  pawl_memory_freeze(frozen, true);
  pass_ms(lease_ms * 6 / 10);
  assert_true(pawl_left_ms(frozen, hold) > 0);
  pawl_memory_freeze(frozen, false);
  pass_ms(lease_ms);
  assert_true(pawl_left_ms(frozen, hold) > 0);
  release(frozen, hold);
}

LOCK_TEST(the_database_goes_away_and_comes_back)
{
  struct pawl *pawl = handle_open();
  struct pawl_event event = {.size = sizeof event};
  enum pawl_event_kind expected[] = {PAWL_EVENT_AWAY, PAWL_EVENT_BACK};
  pawl_fd(pawl);
  pawl_hold hold = take(pawl, MY_NAME);
  for (int i = 0; i < 2; i++) {
    handle_cut_off(pawl, i == 0);
    for (int j = 0; !pawl_next(pawl, &event); j++) {
      assert_true(j < 1000);
      pass_ms(lease_ms / 100);
    }
    assert_int_equal(event.kind, expected[i]);
    assert_int_equal(event.hold, hold);
  }
  release(pawl, hold);
}

/* That it was lost is what its user must hear. */
LOCK_TEST(a_lost_hold_is_released_without_an_answer)
{
  struct pawl *pawl = handle_open();
  pawl_hold hold = take(pawl, MY_NAME);
  pawl_memory_cut_off(pawl, true);
  pass_ms(lease_ms);
  assert_result(pawl_release(pawl, hold, &error), PAWL_LOST);
  assert_contains(error.text, "MongoDB gave no answer");
}

/* As many as a test likes. */
LOCK_TEST(hundreds_of_locks_and_of_wait_queues)
{
  enum { NAMES = 400 };
  struct pawl *holder = handle_open(), *waiter = handle_open();
  pawl_hold holds[NAMES];
  char name[24];
  pawl_fd(waiter);
  for (int i = 0; i < NAMES; i++) {
    snprintf(name, sizeof name, "name-%d", i);
    holds[i] = take(holder, name);
    (void)begin(waiter, name, 1, PAWL_FOR_EVER);
  }
  pass_ms(1000);
  for (int i = 0; i < NAMES; i++) {
    assert_true(pawl_left_ms(holder, holds[i]) > 0);
    release(holder, holds[i]);
  }
  for (int i = 0; i < NAMES; i++)
    assert_int_equal(event_of(waiter).kind, PAWL_EVENT_HELD);
}

/* ---- what is told ---- */

/* A renewal that had no answer until the hold was over: it is MongoDB that was silent. */
LOCK_TEST(a_silent_database_is_the_reason)
{
  struct pawl *pawl = handle_open();
  pawl_fd(pawl);
  pawl_hold hold = take(pawl, MY_NAME);
  pawl_memory_cut_off(pawl, true);
  pawl_memory_slow(pawl, lease_ms * 5 / 12);
  assert_int_equal(event_of(pawl).kind, PAWL_EVENT_LOST);
  assert_int_equal(pawl_reason(pawl, hold, &error), PAWL_REASON_AWAY);
}

static struct pawl_event next_event(struct pawl *pawl)
{
  struct pawl_event event = {.size = sizeof event};
  for (int64_t ms = 0; !pawl_next(pawl, &event); ms += 10) {
    assert_true(ms < 10 * lease_ms);
    pass_ms(10);
  }
  return event;
}

/* Away and back again before the user looks, and away: the last that he hears is true. */
LOCK_TEST(away_is_the_last_word)
{
  struct pawl *pawl = handle_open();
  struct pawl_event event = {.size = sizeof event};
  pawl_fd(pawl);
  take(pawl, MY_NAME);
  pawl_memory_cut_off(pawl, true);
  assert_int_equal(next_event(pawl).kind, PAWL_EVENT_AWAY);
  pawl_memory_cut_off(pawl, false);
  pass_ms(lease_ms / 10);
  pawl_memory_cut_off(pawl, true);
  pass_ms(lease_ms * 5 / 12);
  assert_false(pawl_next(pawl, &event));
}

LOCK_TEST(the_reason_of_a_break_outlives_a_renewal_without_an_answer)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold hold = take(one, MY_NAME);
  assert_result(pawl_break(two, MY_NAME, -1, "it must end", &error), PAWL_OK);
  pawl_memory_lose_answers(one, 0, 1, false);
  pass_ms(lease_ms / 2);
  assert_int_equal(pawl_reason(one, hold, &error), PAWL_REASON_BROKEN);
  assert_contains(error.text, "it must end");
}

/* Long ago somebody claimed that it was broken, and it was not. */
LOCK_TEST(an_old_rumour_is_no_reason)
{
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold hold = take(one, MY_NAME);
  pawl_memory_lose_answers(two, 4, 1, false); /* the delete */
  (void)pawl_break(two, MY_NAME, -1, "it must end", &error);
  assert_true(pawl_left_ms(one, hold) > 0);
  pass_ms(2 * lease_ms);
  assert_true(pawl_left_ms(one, hold) > 0);
  pawl_memory_cut_off(one, true); /* it does not hear of the next one */
  assert_result(pawl_break(two, MY_NAME, -1, "it must end", &error), PAWL_OK);
  pawl_memory_cut_off(one, false);
  pass_ms(lease_ms / 2);
  assert_int_equal(pawl_reason(one, hold, NULL), PAWL_REASON_REMOVED);
}

/* The event comes then, and not with the next renewal. */
LOCK_TEST(its_longest_time_is_over_at_once)
{
  struct pawl *pawl = handle_open();
  const struct pawl_want want = {.name = MY_NAME};
  const struct pawl_terms terms = {.size = sizeof terms, .longest_ms = lease_ms / 2};
  struct pawl_event event = {.size = sizeof event};
  pawl_hold hold;
  pawl_fd(pawl);
  assert_result(pawl_take_all(pawl, &want, 1, &terms, &hold, &error), PAWL_OK);
  pass_ms(lease_ms / 2 + 10);
  assert_true(pawl_next(pawl, &event));
  assert_int_equal(event.kind, PAWL_EVENT_LOST);
  assert_int_equal(event.reason, PAWL_REASON_OVER);
  assert_result(pawl_release(pawl, hold, &error), PAWL_LOST);
}

/* Who listens looks a second later or more. */
LOCK_TEST(a_wait_ends_when_its_time_is_over)
{
  struct pawl *one = handle_open(), *two = handle_open();
  struct pawl_event event = {.size = sizeof event};
  take(one, MY_NAME);
  pawl_fd(two);
  (void)begin(two, MY_NAME, 1, 300);
  pass_ms(100);
  while (pawl_next(two, &event))
    assert_true(event.kind < PAWL_EVENT_HELD);
  pass_ms(210);
  assert_true(pawl_next(two, &event));
  assert_int_equal(event.kind, PAWL_EVENT_FAILED);
  assert_int_equal(event.result, PAWL_TIMEOUT);
}

/* It was held, and is given back, before the user has heard of it. */
LOCK_TEST(each_hold_is_told)
{
  struct pawl *pawl = handle_open();
  pawl_fd(pawl);
  pawl_hold hold = begin(pawl, MY_NAME, 1, PAWL_FOR_EVER);
  pass_ms(1000);
  assert_result(pawl_release_begin(pawl, hold, &error), PAWL_OK);
  pass_ms(1000);
  assert_int_equal(event_of(pawl).kind, PAWL_EVENT_HELD);
  assert_int_equal(event_of(pawl).kind, PAWL_EVENT_RELEASED);
}

/* The documents are slow: a lock that becomes due meanwhile is renewed in between, when a third of its lease is over. */
LOCK_TEST(slow_documents_cost_no_lock)
{
  enum { DOCUMENTS = 40 };
  struct pawl *pawl = handle_open();
  pawl_hold lock, hold;
  const struct pawl_terms terms = {.size = sizeof terms};
  for (int i = 0; i < DOCUMENTS; i++) {
    bson_t *event = BCON_NEW("_id", BCON_INT32(i));
    const struct pawl_document which = {.size = sizeof which, .collection = "events", .filter = bson_get_data(event)};
    document_put("events", event);
    assert_result(pawl_document_take(pawl, &which, &terms, &hold, &error), PAWL_OK);
    bson_destroy(event);
  }
  pass_ms(lease_ms / 4);
  lock = take(pawl, MY_NAME);
  pawl_memory_slow(pawl, lease_ms / DOCUMENTS);
  for (int i = 0; i < 3 * DOCUMENTS; i++) {
    pass_ms(lease_ms / DOCUMENTS);
    assert_true(pawl_left_ms(pawl, lock) > lease_ms * 3 / 10); /* of two thirds */
  }
}

LOCK_TEST(any_longest_time)
{
  const struct pawl_want want = {.name = MY_NAME};
  const struct pawl_terms terms = {.size = sizeof terms, .longest_ms = INT64_MAX};
  pawl_hold hold;
  struct pawl *pawl = handle_open();
  assert_result(pawl_take_all(pawl, &want, 1, &terms, &hold, &error), PAWL_OK);
  pass_ms(lease_ms);
  assert_true(pawl_left_ms(pawl, hold) > 0);
}

/* Releases wait for their turn, and a take whose insert had no answer backs out: none of that ever ends. */
LOCK_TEST(closed_while_the_database_is_away)
{
  for (int locks = 1; locks < 8; locks++) {
    char name[24];
    struct pawl *pawl = handle_open();
    for (int i = 0; i < locks; i++) {
      snprintf(name, sizeof name, "lock-%d", i);
      take(pawl, name);
    }
    pawl_memory_lose_answers(pawl, 2, 1, true);
    (void)begin(pawl, "unanswered", 1, PAWL_FOR_EVER);
    pass_ms(1);
    pawl_memory_cut_off(pawl, true);
    pawl_memory_slow(pawl, lease_ms);
    handle_close(pawl);
    world_end(NULL);
  }
}

/* The first of several is lost when the last one is taken: none is. */
LOCK_TEST(several_are_taken_too_late)
{
  const struct pawl_want wants[] = {{.name = "a"}, {.name = "b"}};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = 2 * lease_ms};
  for (int64_t ms = 100, taken = 0; ms < lease_ms; ms += 100) {
    pawl_hold holds[2];
    struct pawl *pawl = handle_open();
    pawl_memory_slow(pawl, ms);
    enum pawl_result result = pawl_take_all(pawl, wants, 2, &terms, holds, &error);
    taken += result == PAWL_OK;
    for (int i = 0; i < 2 && result == PAWL_OK; i++)
      assert_true(pawl_left_ms(pawl, holds[i]) > 0);
    assert_true(taken > 0);
    world_end(NULL);
  }
}
