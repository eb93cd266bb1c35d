/*
 * How types spread: many virtual workers with the decisions of worker/spread.c, on a clock of its own. A run is a seed. Each planted
 * bug replaces one decision, or what it is told, and must be found by its own text.
 */
#include "unit_test.h"
#include "worker/spread.h"

#include <stdlib.h>

enum { SEVERAL_GAP = 2 /* among more than two, some seconds are between what a row says and what is */ };
enum { WORKERS = 8, TYPES = 400, TICK_MS = 50, LEASE_MS = 30000, GROUP = 7, LOOK_MS = 1000 };
enum plant { PLANT_NONE, SPREADONE, SPREADSTALE, SPREADALL, FULLSTARVE, DEADROW };

struct virtual_type {
  int owner; /* -1: free */
  int64_t since_ms, free_ms, served_ms, expires_ms;
  int64_t not_by_ms[WORKERS];
};
struct virtual_worker {
  bool alive;
  bool takes_none, asks_a_third;
  int64_t held, max, look_ms, take_ms, written_ms, given_ms, given, stale;
  int64_t waits[TYPES]; /* since when a look sees it free; -1: it does not */
  struct worker_row row;
  int64_t row_ms; /* -1: there is none */
};

static struct {
  enum plant plant;
  uint64_t seed;
  int64_t now_ms, takes, most_given;
  int64_t pause_ms; /* from one look to the next */
  int types, workers;
  bool gave_away; /* a gift that makes the spread no better, as far as both could know */
  struct virtual_type type[TYPES];
  struct virtual_worker worker[WORKERS];
} world;

static uint64_t draw(uint64_t below)
{
  world.seed ^= world.seed << 13;
  world.seed ^= world.seed >> 7;
  world.seed ^= world.seed << 17;
  return world.seed % below;
}

static void world_begin(enum plant plant, uint64_t seed, int workers, int types, int64_t max)
{
  memset(&world, 0, sizeof world);
  world.plant = plant;
  world.pause_ms = LOOK_MS;
  world.seed = seed * 2654435761u + 1;
  world.workers = workers;
  world.types = types;
  for (int i = 0; i < types; i++)
    world.type[i].owner = -1;
  for (int i = 0; i < workers; i++)
    world.worker[i] = (struct virtual_worker){.max = max, .row_ms = -1, .look_ms = (int64_t)draw(LOOK_MS)};
}

static void worker_start(int index)
{
  struct virtual_worker *worker = &world.worker[index];
  worker->alive = true;
  worker->held = worker->stale = 0;
  worker->row_ms = -1;
  worker->look_ms = world.now_ms + (int64_t)draw(LOOK_MS);
  for (int i = 0; i < TYPES; i++)
    worker->waits[i] = -1;
}

static void worker_kill(int index)
{
  world.worker[index].alive = false;
  for (int i = 0; i < world.types; i++)
    if (world.type[i].owner == index)
      world.type[i].expires_ms = world.now_ms + LEASE_MS - (int64_t)draw(LEASE_MS / 3);
}

static void let_go(int index, int type, int64_t pause_ms)
{
  struct virtual_type *of = &world.type[type];
  of->owner = -1;
  of->free_ms = world.now_ms;
  of->not_by_ms[index] = world.now_ms + pause_ms;
  world.worker[index].held--;
}

static size_t rows_of(int index, struct worker_row *rows)
{
  size_t count = 0;
  for (int i = 0; i < world.workers; i++) {
    if (i == index || world.worker[i].row_ms < 0)
      continue;
    rows[count] = world.worker[i].row;
    rows[count++].age_ms = world.plant == DEADROW ? 0 : world.now_ms - world.worker[i].row_ms;
  }
  return count;
}

static void row_write(int index, const struct worker_row *ask)
{
  struct virtual_worker *worker = &world.worker[index];
  bool differs = worker->row.held != worker->held || worker->row.asks != (ask != NULL) ||
                 (ask != NULL && memcmp(&worker->row.asked, &ask->id, sizeof ask->id) != 0);
  if (worker->row_ms >= 0 && world.now_ms - worker->row_ms < (differs || ask != NULL ? LOOK_MS : LEASE_MS / 3))
    return;
  worker->row = (struct worker_row){.group = GROUP, .held = worker->held, .max = worker->max, .lease_ms = LEASE_MS, .asks = ask != NULL};
  worker->row.id.bytes[0] = (uint8_t)(index + 1);
  if (ask != NULL)
    worker->row.asked = ask->id;
  worker->row_ms = world.now_ms;
}

/* What the plants replace. */
static const struct worker_row *ask(const struct virtual_worker *worker, const struct worker_row *rows, size_t count)
{
  static const struct worker_row third = {.id.bytes = {WORKERS + 1}};
  if (worker->takes_none)
    return worker->asks_a_third ? &third : NULL;
  if (world.plant == SPREADONE)
    for (size_t i = 0; i < count; i++)
      if (spread_counts(&rows[i], GROUP) && rows[i].held > worker->held && worker->held < worker->max)
        return &rows[i];
  return spread_ask(worker->held, worker->max, GROUP, rows, count);
}

static bool gives(const struct virtual_worker *worker, int64_t asker)
{
  int64_t mine = world.plant == SPREADSTALE ? worker->row.held : worker->held;
  if (world.plant == SPREADONE)
    return mine > asker && worker->given == 0;
  return spread_gives(mine, asker, world.plant == SPREADALL ? 0 : worker->given);
}

static bool makes_room(int64_t held_ms, int64_t waited_ms)
{
  return world.plant != FULLSTARVE && waited_ms >= SPREAD_WAITED_MS && spread_makes_room(held_ms, LEASE_MS);
}

static int held_at(int index, int place)
{
  for (int i = 0; i < world.types; i++)
    if (world.type[i].owner == index && place-- == 0)
      return i;
  return -1;
}

static void give_types(int index, const struct worker_row *rows, size_t count)
{
  struct virtual_worker *worker = &world.worker[index];
  worker->given = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t asker = rows[i].held;
    if (!spread_asks(&rows[i], GROUP) || rows[i].asked.bytes[0] != index + 1)
      continue;
    while (worker->held > 0 && gives(worker, asker)) {
      world.gave_away = world.gave_away || worker->held - asker < 2;
      let_go(index, held_at(index, (int)draw((uint64_t)worker->held)), 2 * LOOK_MS);
      worker->given++;
      asker++;
    }
  }
  if (worker->given > world.most_given)
    world.most_given = worker->given;
}

static bool is_free(int type)
{
  const struct virtual_type *of = &world.type[type];
  return of->owner < 0 || (!world.worker[of->owner].alive && world.now_ms >= of->expires_ms);
}

static void make_room(int index)
{
  struct virtual_worker *worker = &world.worker[index];
  for (int i = 0; i < world.types && worker->held >= worker->max; i++) {
    int longest = -1;
    if (worker->waits[i] < 0)
      continue;
    for (int j = 0; j < world.types; j++)
      if (world.type[j].owner == index && (longest < 0 || world.type[j].since_ms < world.type[longest].since_ms))
        longest = j;
    if (longest >= 0 && makes_room(world.now_ms - world.type[longest].since_ms, world.now_ms - worker->waits[i]))
      let_go(index, longest, 0);
  }
}

static void look(int index)
{
  struct virtual_worker *worker = &world.worker[index];
  struct worker_row rows[WORKERS];
  size_t count = rows_of(index, rows);
  for (int i = 0; i < world.types; i++)
    if (!is_free(i))
      worker->waits[i] = -1;
    else if (worker->waits[i] < 0)
      worker->waits[i] = world.now_ms;
  give_types(index, rows, count);
  make_room(index);
  row_write(index, ask(worker, rows, count));
  worker->look_ms = world.now_ms + world.pause_ms;
}

/* One after the other, those that were served longest ago first; each after its wait. */
static void take_types(int index)
{
  struct virtual_worker *worker = &world.worker[index];
  struct worker_row rows[WORKERS];
  size_t count = rows_of(index, rows);
  while (worker->held < worker->max && !worker->takes_none) {
    int taken = -1, from = (int)draw((uint64_t)world.types);
    for (int n = 0; n < world.types; n++) {
      int i = (from + n) % world.types;
      if (is_free(i) && worker->waits[i] >= 0 && world.now_ms >= world.type[i].not_by_ms[index] &&
          (taken < 0 || world.type[i].served_ms < world.type[taken].served_ms))
        taken = i;
    }
    if (taken < 0)
      return;
    struct spread_take take = {.mine = worker->held, .taken_ms = worker->take_ms, .free_since_ms = worker->waits[taken]};
    if (world.now_ms < spread_take_ms(&take, world.now_ms, GROUP, rows, count))
      return;
    world.type[taken].owner = index;
    world.type[taken].since_ms = world.type[taken].served_ms = world.now_ms;
    worker->waits[taken] = -1;
    worker->held++;
    worker->take_ms = world.now_ms;
    world.takes++;
    if (draw(4) == 0)
      return; /* the others are as fast */
  }
}

static void pass_time(int64_t ms)
{
  for (int64_t end = world.now_ms + ms; world.now_ms < end; world.now_ms += TICK_MS)
    for (int n = 0, from = (int)draw((uint64_t)world.workers); n < world.workers; n++) {
      int i = (from + n) % world.workers;
      if (world.worker[i].alive && world.now_ms >= world.worker[i].look_ms)
        look(i);
      if (world.worker[i].alive)
        take_types(i);
    }
}

/* ---- what must hold; NULL: it does ---- */

static const char *even(int64_t gap)
{
  int64_t most = 0, least = INT64_MAX, sum = 0;
  for (int i = 0; i < world.workers; i++) {
    const struct virtual_worker *worker = &world.worker[i];
    if (!worker->alive)
      continue;
    most = worker->held > most ? worker->held : most;
    least = worker->held < least ? worker->held : least;
    sum += worker->held;
  }
  return sum < world.types ? "a type is not served" : most - least > gap ? "the types are not spread evenly" : NULL;
}

/* Two workers; one dies: the other has all; it comes back: they spread again, without a storm. */
static const char *two_workers(enum plant plant, uint64_t seed)
{
  world_begin(plant, seed, 2, 200 + (int)draw(3), 1000);
  worker_start(0);
  pass_time((int64_t)draw(20000));
  worker_start(1);
  pass_time(30000);
  const char *wrong = even(1);
  if (wrong != NULL)
    return wrong;
  int64_t takes = world.takes;
  pass_time(60000);
  if (world.takes != takes)
    return "types go to and fro though all have as many";
  worker_kill(0);
  pass_time(LEASE_MS + LOOK_MS + TICK_MS);
  if (world.worker[1].held < world.types)
    return "a dead worker's types were not taken within a lease and a second";
  takes = world.takes;
  world.most_given = 0;
  worker_start(0);
  pass_time(30000);
  if ((wrong = even(1)) != NULL)
    return wrong;
  if (world.most_given > world.types / 16 + 1)
    return "a storm: one worker gave many types in a second";
  return world.takes - takes > world.types / 2 + world.types / 10 ? "a storm: more types were moved than half of them" : NULL;
}

/* Several workers, that come and go. */
static const char *several_workers(enum plant plant, uint64_t seed)
{
  world_begin(plant, seed, 5, 100 + (int)draw(200), 1000);
  for (int i = 0; i < 5; i++) {
    worker_start(i);
    pass_time((int64_t)draw(8000));
  }
  pass_time(60000);
  const char *wrong = world.gave_away ? "a worker gave a type that it had not to spare" : even(SEVERAL_GAP);
  if (wrong != NULL)
    return wrong;
  worker_kill((int)draw(5));
  pass_time(2 * LEASE_MS + 15000);
  return even(SEVERAL_GAP);
}

/* More types than room: each is served now and then. */
static const char *too_many_types(enum plant plant, uint64_t seed)
{
  world_begin(plant, seed, 2, 60, 10);
  worker_start(0);
  worker_start(1);
  pass_time(60000);
  for (int i = 0; i < world.types; i++)
    if (world.type[i].owner < 0 && world.now_ms - world.type[i].served_ms > 30000)
      return "a type waits for a place for ever";
  return NULL;
}

/* The rich one looks at that pace. The poor one has room, and takes none: another version, or one that is about to end. */
static int64_t taken_after_ms(int64_t pause_ms, bool asks)
{
  world_begin(PLANT_NONE, 1, 2, 100, 1000);
  world.pause_ms = pause_ms;
  worker_start(0);
  pass_time(30000);
  world.worker[1].takes_none = true;
  world.worker[1].asks_a_third = asks;
  worker_start(1);
  pass_time(20000);
  int64_t from_ms = world.now_ms;
  int type = held_at(0, 0);
  let_go(0, type, 0);
  while (world.type[type].owner < 0 && world.now_ms - from_ms < 120000)
    pass_time(TICK_MS);
  return world.now_ms - from_ms;
}

TEST(the_pace_of_looks_changes_no_wait)
{
  assert_true(taken_after_ms(100, false) <= 100 + 500 + TICK_MS);
  assert_true(taken_after_ms(LOOK_MS, false) <= LOOK_MS + 500 + TICK_MS);
  assert_true(taken_after_ms(100, true) >= 15000);
  assert_true(taken_after_ms(100, true) <= 15000 + 100 + 500 + TICK_MS);
  assert_true(taken_after_ms(10000, true) >= 15000);
}

static const char *every(enum plant plant, uint64_t seed)
{
  const char *wrong = two_workers(plant, seed);
  if (wrong == NULL)
    wrong = several_workers(plant, seed);
  return wrong != NULL ? wrong : too_many_types(plant, seed);
}

TEST(test_types_spread)
{
  for (uint64_t seed = 1; seed <= 30; seed++) {
    const char *wrong = every(PLANT_NONE, seed);
    if (wrong != NULL)
      fail_msg("seed %d: %s", (int)seed, wrong);
  }
}

/* From when it is seen free. */
static int64_t take_after_ms(int64_t mine, int64_t free_ms, const struct worker_row *row)
{
  const struct spread_take take = {.mine = mine, .taken_ms = -1000000};
  return spread_take_ms(&take, free_ms, GROUP, row, 1);
}

static int64_t wait_for(int64_t mine, int64_t free_ms, struct worker_row row)
{
  row.group = GROUP;
  row.max = 1000;
  return take_after_ms(mine, free_ms, &row);
}

/* Written by any of these: an asker that was killed, a primary whose clock is ahead, somebody else. */
TEST(test_no_row_is_waited_for_without_end)
{
  enum { HOUR_MS = 3600000 };
  assert_int_equal(wait_for(9, 0, (struct worker_row){.lease_ms = HOUR_MS, .asks = true, .age_ms = 11999}), 15000);
  assert_int_equal(wait_for(9, 0, (struct worker_row){.lease_ms = HOUR_MS, .asks = true, .age_ms = 12000}), 80);
  assert_int_equal(wait_for(9, 0, (struct worker_row){.lease_ms = HOUR_MS, .asks = true, .age_ms = -500}), 15000);
  assert_int_equal(wait_for(9, 0, (struct worker_row){.lease_ms = HOUR_MS, .asks = true, .age_ms = -1001}), 0);
  assert_int_equal(wait_for(9, 0, (struct worker_row){.lease_ms = INT64_MAX, .age_ms = HOUR_MS / 2 - 1}), 80);
  assert_int_equal(wait_for(9, 0, (struct worker_row){.lease_ms = INT64_MAX, .age_ms = HOUR_MS / 2}), 0);
  assert_int_equal(wait_for(9, 14999, (struct worker_row){.lease_ms = HOUR_MS, .asks = true}), 15000);
  assert_int_equal(wait_for(9, 15000, (struct worker_row){.lease_ms = HOUR_MS, .asks = true}), 80);
  assert_int_equal(wait_for(900, 0, (struct worker_row){.lease_ms = HOUR_MS}), 500);
}

static void assert_found(enum plant plant, const char *text)
{
  for (uint64_t seed = 1; seed <= 30; seed++) {
    const char *wrong = every(plant, seed);
    if (wrong != NULL && strcmp(wrong, text) == 0)
      return;
    if (wrong != NULL)
      print_message("plant %d, seed %d: %s\n", (int)plant, (int)seed, wrong);
  }
  fail_msg("plant %d was not found by: %s", (int)plant, text);
}

TEST(test_a_gap_of_one_is_found)
{
  assert_found(SPREADONE, "types go to and fro though all have as many");
}

TEST(test_a_stale_count_is_found)
{
  assert_found(SPREADSTALE, "a worker gave a type that it had not to spare");
}

TEST(test_giving_all_is_found)
{
  assert_found(SPREADALL, "a storm: one worker gave many types in a second");
}

TEST(test_starving_is_found)
{
  assert_found(FULLSTARVE, "a type waits for a place for ever");
}

TEST(test_a_dead_row_is_found)
{
  assert_found(DEADROW, "a dead worker's types were not taken within a lease and a second");
}

/* Who has no room neither asks nor is waited for. */
TEST(room_counts)
{
  const struct worker_row rich = {.group = GROUP, .held = 10, .max = 10, .lease_ms = LEASE_MS};
  const struct worker_row full = {.group = GROUP, .held = 2, .max = 2, .lease_ms = LEASE_MS},
                          poor = {.group = GROUP, .held = 2, .max = 3, .lease_ms = LEASE_MS};
  assert_null(spread_ask(2, 2, GROUP, &rich, 1));
  assert_ptr_equal(spread_ask(2, 3, GROUP, &rich, 1), &rich);
  assert_int_equal(take_after_ms(10, 0, &full), 0);
  assert_true(take_after_ms(10, 0, &poor) > 0);
}

/* A process that has nothing to give is not asked; otherwise those that have some would not be. */
TEST(what_has_stopped_is_not_asked_for)
{
  const struct worker_row rows[] = {{.group = GROUP, .held = 50, .stopped = 50, .max = 99, .lease_ms = LEASE_MS},
                                    {.group = GROUP, .held = 30, .stopped = 20, .max = 99, .lease_ms = LEASE_MS}};
  assert_ptr_equal(spread_ask(0, 99, GROUP, rows, 2), &rows[1]);
  assert_null(spread_ask(0, 99, GROUP, rows, 1));
}
