/*
 * Walks: several handles take one lock, several locks at once, slots and documents at random, while processes freeze, links are cut,
 * answers are lost or late. After each step it is checked who believes to hold; in the end all is healed, and nobody waits for ever.
 */
#include "test_lock.h"

#include <pawl/lock_memory.h>
#include <stdio.h>

enum { WALKERS = 6, STEPS = 400, WALKS = 150, NAMES = 3, SLOTS = 2, DOCUMENTS = 2, WANTS_MAX = NAMES };
enum kind { KIND_NAME, KIND_NAMES, KIND_SLOT, KIND_DOCUMENT, KINDS };

struct walker {
  struct pawl *pawl;
  enum kind kind;
  pawl_hold holds[WANTS_MAX]; /* 0: there is none */
  int names[WANTS_MAX];       /* of the holds */
  bool frozen;
};

struct walk {
  struct walker walkers[WALKERS];
  uint64_t seed;
  int64_t last[NAMES + SLOTS + DOCUMENTS]; /* the greatest token that was seen valid, of each name, slot and document */
  int held[KINDS];                         /* how often one was seen valid */
};

static unsigned below(struct walk *walk, unsigned limit)
{
  walk->seed = walk->seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(walk->seed >> 33) % limit;
}

/* ---- what is checked ---- */

static int document_of(const struct walker *walker)
{
  bson_t document;
  bson_iter_t id;
  uint32_t length;
  const uint8_t *bytes = pawl_document_bytes(walker->pawl, walker->holds[0]);
  assert_non_null(bytes);
  memcpy(&length, bytes, sizeof length);
  assert_true(bson_init_static(&document, bytes, BSON_UINT32_FROM_LE(length)) && bson_iter_init_find(&id, &document, "_id"));
  return bson_iter_int32(&id);
}

/* Which of walk->last a valid hold is about. */
static int place_of(const struct walker *walker, int i)
{
  if (walker->kind == KIND_SLOT)
    return NAMES + pawl_slot(walker->pawl, walker->holds[i]);
  return walker->kind == KIND_DOCUMENT ? NAMES + SLOTS + document_of(walker) : walker->names[i];
}

/* One valid hold of each, at most; and no token below one that was seen before. */
static void check(struct walk *walk)
{
  bool valid[NAMES + SLOTS + DOCUMENTS] = {false};
  for (int w = 0; w < WALKERS; w++)
    for (int i = 0; i < WANTS_MAX; i++) {
      const struct walker *walker = &walk->walkers[w];
      if (pawl_left_ms(walker->pawl, walker->holds[i]) == 0)
        continue;
      int place = place_of(walker, i);
      int64_t token = pawl_token(walker->pawl, walker->holds[i]);
      assert_uint_in_range(place, 0, NAMES + SLOTS + DOCUMENTS - 1);
      assert_false(valid[place]);
      assert_true(token >= walk->last[place]);
      valid[place] = true;
      walk->last[place] = token;
      walk->held[walker->kind]++;
    }
}

/* ---- what they do ---- */

static bool is_idle(const struct walker *walker)
{
  for (int i = 0; i < WANTS_MAX; i++)
    if (walker->holds[i] != 0)
      return false;
  return true;
}

static void take_in(struct walker *walker)
{
  struct pawl_event event = {.size = sizeof event};
  while (pawl_next(walker->pawl, &event))
    for (int i = 0; i < WANTS_MAX; i++)
      if (event.hold == walker->holds[i] && (event.kind == PAWL_EVENT_FAILED || event.kind == PAWL_EVENT_RELEASED))
        walker->holds[i] = 0;
}

static void take_names(struct walk *walk, struct walker *walker, const struct pawl_terms *terms)
{
  static const char *const names[NAMES] = {"one", "two", "three"};
  struct pawl_want wants[WANTS_MAX];
  pawl_hold holds[WANTS_MAX];
  size_t count = 0;
  unsigned first = below(walk, NAMES), wanted = walker->kind == KIND_NAME ? 1 : 2 + below(walk, 2);
  for (; count < wanted; count++) {
    walker->names[count] = (int)((first + count) % NAMES);
    wants[count] = (struct pawl_want){.name = names[walker->names[count]]};
  }
  assert_result(pawl_take_begin(walker->pawl, wants, count, terms, holds, &error), PAWL_OK);
  memcpy(walker->holds, holds, count * sizeof *holds);
}

static void take_document(struct walker *walker, const struct pawl_terms *terms)
{
  bson_t all = BSON_INITIALIZER;
  const struct pawl_document which = {.size = sizeof which, .collection = "events", .filter = bson_get_data(&all)};
  assert_result(pawl_document_take_begin(walker->pawl, &which, terms, &walker->holds[0], &error), PAWL_OK);
  bson_destroy(&all);
}

static void begin_some(struct walk *walk, struct walker *walker)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = below(walk, 2) == 0 ? PAWL_FOR_EVER : 5000};
  walker->kind = below(walk, KINDS);
  if (walker->kind == KIND_DOCUMENT)
    take_document(walker, &terms);
  else if (walker->kind == KIND_SLOT)
    walker->holds[0] = begin(walker->pawl, "pool", SLOTS, terms.wait_ms);
  else
    take_names(walk, walker, &terms);
}

static void release_all(struct walker *walker)
{
  for (int i = 0; i < WANTS_MAX; i++)
    if (walker->holds[i] != 0)
      (void)pawl_release_begin(walker->pawl, walker->holds[i], NULL);
}

static void step(struct walk *walk, struct walker *walker)
{
  unsigned what = below(walk, 24);
  if (!walker->frozen)
    take_in(walker);
  if (what == 0)
    pawl_memory_freeze(walker->pawl, walker->frozen = !walker->frozen);
  else if (what == 1)
    pawl_memory_cut_off(walker->pawl, below(walk, 2) == 0);
  else if (what == 2)
    pawl_memory_lose_answers(walker->pawl, (int)below(walk, 4), 1 + (int)below(walk, 2), below(walk, 2) == 0);
  else if (what == 3)
    pawl_memory_slow(walker->pawl, below(walk, 3) == 0 ? below(walk, (unsigned)lease_ms / 3) : 0);
  else if (what < 14 && !walker->frozen && is_idle(walker))
    begin_some(walk, walker);
  else if (what < 20 && !walker->frozen)
    release_all(walker);
}

/* Without faults, and with all given back, each of them gets everything. */
static void heal(struct walk *walk)
{
  for (int w = 0; w < WALKERS; w++) {
    struct walker *walker = &walk->walkers[w];
    pawl_memory_freeze(walker->pawl, false);
    pawl_memory_cut_off(walker->pawl, false);
    pawl_memory_lose_answers(walker->pawl, 0, 0, false);
    pawl_memory_slow(walker->pawl, 0);
    release_all(walker);
  }
  pass_ms(3 * lease_ms);
  for (int w = 0; w < WALKERS; w++) {
    struct walker *walker = &walk->walkers[w];
    take_in(walker);
    assert_true(is_idle(walker));
    for (walker->kind = 0; walker->kind < KINDS; walker->kind++) {
      const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = lease_ms};
      if (walker->kind == KIND_DOCUMENT)
        take_document(walker, &terms);
      else if (walker->kind == KIND_SLOT)
        walker->holds[0] = begin(walker->pawl, "pool", SLOTS, lease_ms);
      else
        take_names(walk, walker, &terms);
      assert_int_equal(event_of(walker->pawl).kind, PAWL_EVENT_HELD);
      pass_ms(100);
      check(walk);
      release_all(walker);
      pass_ms(1000);
      take_in(walker);
      assert_true(is_idle(walker));
    }
  }
}

static void walk_run(struct walk *walk)
{
  for (int w = 0; w < WALKERS; w++) {
    walk->walkers[w] = (struct walker){.pawl = handle_open()};
    pawl_fd(walk->walkers[w].pawl);
  }
  for (int i = 0; i < DOCUMENTS; i++) {
    bson_t *event = BCON_NEW("_id", BCON_INT32(i));
    document_put("events", event);
    bson_destroy(event);
  }
  for (int i = 0; i < STEPS; i++) {
    step(walk, &walk->walkers[below(walk, WALKERS)]);
    pass_ms(1 + below(walk, 20) * below(walk, 200));
    check(walk);
  }
  heal(walk);
  world_end(NULL);
}

LOCK_TEST(walks)
{
  int held[KINDS] = {0};
  for (uint64_t seed = 1; seed <= WALKS; seed++) {
    struct walk walk = {.seed = seed};
    walk_run(&walk);
    for (int kind = 0; kind < KINDS; kind++)
      held[kind] += walk.held[kind];
  }
  for (int kind = 0; kind < KINDS; kind++)
    assert_true(held[kind] > 2000); /* they were not idle */
}
