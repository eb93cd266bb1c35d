/* The threads that all types share: worker/executor.h. */
#include "unit_test.h"
#include "worker/clock.h"
#include "worker/executor.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { JOBS_MAX = 400, LASTS_MS = 30, PATIENCE_MS = 10000 };

struct work {
  struct job job; /* first */
  int name;
  bool hangs; /* until `open` is posted */
};

static struct {
  struct executor *executor;
  sem_t notified, open;
  atomic_int running, most, begun_count;
  int begun[JOBS_MAX]; /* names */
} rig;

static void notify(void *context)
{
  sem_post(context);
}

static void run(struct job *job)
{
  struct work *work = (struct work *)job;
  int running = atomic_fetch_add(&rig.running, 1) + 1, most = atomic_load(&rig.most);
  while (running > most && !atomic_compare_exchange_weak(&rig.most, &most, running))
    ;
  int at = atomic_fetch_add(&rig.begun_count, 1);
  if (at < JOBS_MAX)
    rig.begun[at] = work->name;
  sem_post(&rig.notified);
  while (work->hangs && sem_wait(&rig.open) != 0)
    ;
  atomic_fetch_sub(&rig.running, 1);
}

static void start_lasting(int threads, int threads_most, int64_t lasts_ms)
{
  struct executor_size size = {threads, threads_most, lasts_ms};
  struct error error;
  sem_init(&rig.notified, 0, 0);
  sem_init(&rig.open, 0, 0);
  atomic_store(&rig.running, 0);
  atomic_store(&rig.most, 0);
  atomic_store(&rig.begun_count, 0);
  rig.executor = executor_new(&size, notify, &rig.notified, &error);
  assert_non_null(rig.executor);
}

static void start(int threads, int threads_most)
{
  start_lasting(threads, threads_most, LASTS_MS);
}

static void submit(struct work *work, int name, bool hangs)
{
  *work = (struct work){.job.work = run, .name = name, .hangs = hangs};
  executor_submit(rig.executor, &work->job);
}

/* Until something is to be taken or was begun, or so long. */
static void wait_for_news(int64_t ms)
{
  struct timespec at;
  clock_gettime(CLOCK_REALTIME, &at);
  ms = at.tv_nsec / 1000000 + (ms > 0 ? ms : 0);
  at.tv_sec += ms / 1000;
  at.tv_nsec = ms % 1000 * 1000000;
  (void)sem_timedwait(&rig.notified, &at);
}

/* The next that is done. It tends the executor as the loop does. */
static struct work *take(void)
{
  int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
  for (;;) {
    struct job *job = executor_take(rig.executor);
    if (job != NULL)
      return (struct work *)job;
    int64_t now_ms = clock_boot_ms(), next_ms = executor_tend(rig.executor);
    assert_true(now_ms < until_ms);
    wait_for_news(next_ms - now_ms < 1000 ? next_ms - now_ms : 1000);
  }
}

static struct executor_state look(void)
{
  struct executor_state state;
  executor_look(rig.executor, &state);
  return state;
}

/* Tends until there are so many threads. One that ends tells nobody. */
static void wait_for_threads(int threads)
{
  enum { LOOK_AGAIN_MS = 5 };
  int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
  while (look().threads != threads) {
    (void)!executor_tend(rig.executor);
    assert_true(clock_boot_ms() < until_ms);
    wait_for_news(LOOK_AGAIN_MS);
  }
}

static void wait_for_running(int running)
{
  int64_t until_ms = clock_boot_ms() + PATIENCE_MS;
  while (atomic_load(&rig.running) != running) {
    assert_true(clock_boot_ms() < until_ms);
    wait_for_news(1000);
  }
}

TEST(test_begins_in_the_order_of_submission)
{
  static struct work works[JOBS_MAX];
  start(1, 1);
  for (int i = 0; i < JOBS_MAX; i++)
    submit(&works[i], i, false);
  for (int i = 0; i < JOBS_MAX; i++)
    assert_int_equal(take()->name, i);
  for (int i = 0; i < JOBS_MAX; i++)
    assert_int_equal(rig.begun[i], i);
}

/* One type submits its next job as soon as one is done, without end. Another waits for no more than what was in the line before it. */
TEST(test_a_type_with_a_backlog_passes_nobody)
{
  enum { GREEDY = 1, OTHER = 2, AT_ONCE = 2, ROUNDS = 50 };
  struct work greedy[AT_ONCE], other;
  start(1, 1);
  for (int i = 0; i < AT_ONCE; i++)
    submit(&greedy[i], GREEDY, false);
  for (int round = 0; round < ROUNDS; round++) {
    int passed = 0;
    submit(&other, OTHER, false);
    for (struct work *done = take(); done->name != OTHER; done = take()) {
      submit(done, GREEDY, false);
      passed++;
    }
    assert_uint_in_range(passed, 0, AT_ONCE);
  }
  for (int i = 0; i < AT_ONCE; i++)
    take();
}

TEST(test_threads_come_when_there_is_work)
{
  static struct work works[8];
  start(4, 4);
  assert_int_equal(look().threads, 1);
  for (int i = 0; i < 8; i++)
    submit(&works[i], i, true);
  wait_for_running(4);
  for (int i = 0; i < 8; i++)
    sem_post(&rig.open);
  for (int i = 0; i < 8; i++)
    take();
  assert_int_equal(look().threads, 4);
  assert_int_equal(atomic_load(&rig.most), 4);
}

/* Each job that hangs keeps a thread, and there is another for the rest; when they are over, the threads are, too. */
TEST(test_grows_for_each_that_lasts)
{
  enum { HANGING = 10 };
  static struct work hanging[HANGING], quick;
  start(2, 32);
  for (int i = 0; i < HANGING; i++)
    submit(&hanging[i], i, true);
  for (int round = 0; round < 20; round++) {
    submit(&quick, 100 + round, false);
    assert_ptr_equal(take(), &quick);
  }
  assert_int_equal(atomic_load(&rig.running), HANGING);
  assert_uint_in_range(look().threads, HANGING + 1, HANGING + 2);
  for (int i = 0; i < HANGING; i++)
    sem_post(&rig.open);
  for (int i = 0; i < HANGING; i++)
    take();
  wait_for_threads(2);
  submit(&quick, 200, false);
  assert_ptr_equal(take(), &quick);
}

/* What does not last yet makes no room for more. */
TEST(test_a_short_job_makes_no_thread)
{
  enum { HANGING = 10 };
  static struct work works[HANGING];
  start_lasting(3, 32, 2 * PATIENCE_MS);
  for (int i = 0; i < HANGING; i++)
    submit(&works[i], i, true);
  wait_for_running(3);
  int64_t next_ms = executor_tend(rig.executor), now_ms = clock_boot_ms();
  assert_int_equal(look().threads, 3);
  assert_true(next_ms > now_ms + PATIENCE_MS && next_ms <= now_ms + 2 * PATIENCE_MS);
  for (int i = 0; i < HANGING; i++)
    sem_post(&rig.open);
  for (int i = 0; i < HANGING; i++)
    take();
  assert_int_equal(atomic_load(&rig.most), 3);
}

/* Never more than the bound. What waits there begins when one is over. */
TEST(test_never_above_the_bound)
{
  enum { HANGING = 30, MOST = 8 };
  static struct work hanging[HANGING], quick;
  start(2, MOST);
  for (int i = 0; i < HANGING; i++)
    submit(&hanging[i], i, true);
  submit(&quick, 100, false);
  wait_for_threads(MOST);
  wait_for_running(MOST);
  int64_t until_ms = clock_boot_ms() + 3 * LASTS_MS;
  while (clock_boot_ms() < until_ms) {
    assert_true(executor_tend(rig.executor) == INT64_MAX);
    assert_int_equal(look().threads, MOST);
  }
  assert_int_equal(look().waiting, HANGING + 1 - MOST);
  assert_null(executor_take(rig.executor));
  for (int i = 0; i < HANGING; i++)
    sem_post(&rig.open);
  for (int i = 0; i < HANGING + 1; i++)
    take();
  wait_for_threads(2);
  assert_int_equal(atomic_load(&rig.most), MOST);
}
