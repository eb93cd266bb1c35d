/* Random lives of holders: a reader always reads back what was committed. */
#include "storage_fixture.h"

#include <stdlib.h>

enum { SEEDS = 300, EPOCHS = 12 };

static uint64_t random_state;

static int64_t pick(int64_t count)
{
  return (int64_t)(memory_disk_random(&random_state) % (uint64_t)count);
}

/* The table of docs/protocol.md, "May the file be continued?". True: the file was continued, or a new segment was made. */
static bool epoch_start(void)
{
  struct continue_check check = {0};
  const char *machine = (const char *[]){"A", "B"}[pick(2)];
  bool was_clean = holder.clean, was_vouched = holder.vouched, first = holder.committed.file[0] == 0;
  if (holder_open(&holder, machine) != CHECK_OK)
    fail_msg("%s", holder.error.text);
  holder.clean = false;
  if (!first)
    assert_int_equal(writer_guard(&holder.writer, &check, &error), WRITER_OK);
  bool roll = first || pick(6) == 0;
  bool in_order = was_clean && check.exact;
  if (!roll && (check.local ? check.guarded && (was_vouched || in_order) : in_order))
    return !check.guarded || writer_cut(&holder.writer, &error) == WRITER_OK;
  uint8_t uuid[16];
  for (int i = 0; i < 16; i++)
    uuid[i] = (uint8_t)pick(256);
  const char *reason = first ? "first" : roll ? "roll" : "unclean";
  if (writer_create(&holder.writer, reason, uuid, 0, holder.now_us, &error) != WRITER_OK)
    return false;
  if (pick(8) == 0)
    return false; /* the holder dies before the commit */
  holder_commit(&holder);
  return true;
}

/* Writes blocks until the end of the epoch; true: the epoch ended clean. */
static bool epoch_write(void)
{
  for (int64_t n = pick(6); n > 0; n--) {
    if (holder_write(&holder, 1 + (int)pick(4)) != WRITER_OK || pick(10) == 0)
      return false;
    holder_commit(&holder);
  }
  if (!holder.writer.opened || pick(3) == 0)
    return false;
  if (writer_append_close(&holder.writer, holder.now_us, &error) != WRITER_OK || writer_sync(&holder.writer, &error) != WRITER_OK)
    return false;
  if (pick(10) == 0 || writer_close(&holder.writer, &error) != WRITER_OK)
    return false;
  holder_commit(&holder);
  holder.clean = true;
  return true;
}

/* A reader reads everything that was committed; beyond that it may read only the one uncommitted block. */
static void everything_read(void)
{
  struct error why = {.text = ""};
  if (holder.committed.file[0] != 0) {
    read_chain("t1", &holder.committed, &reading);
    if (reading.status != READ_END || reading.messages != holder.committed.seq)
      fail_msg("with the ledger: %d, %lld messages: %s", reading.status, (long long)reading.messages, reading.error.text);
  }
  read_chain("t1", NULL, &reading);
  why = reading.error;
  if ((reading.status != READ_END && reading.status != READ_TAIL) || reading.messages < holder.committed.seq ||
      reading.messages > holder.committed.seq + 4)
    fail_msg("offline: %d, %lld of %lld messages: %s", reading.status, (long long)reading.messages, (long long)holder.committed.seq,
             why.text);
}

/* A holder that freezes in the middle of its epoch, and wakes up after others have gone on. */
static struct holder frozen;
static int frozen_process; /* 0: there is none */

static void frozen_end(void)
{
  if (frozen_process == 0)
    return;
  memory_disk_kill(frozen_process);
  free(frozen.writer.encoded);
  frozen_process = 0;
}

/* The frozen holder finishes the one write that it may have been in, at the offset where it believed the end to be. */
static void frozen_wake(void)
{
  if (frozen_process != 0 && frozen.writer.has_file && memcmp(&frozen.writer.end, &frozen.committed, sizeof frozen.committed) == 0)
    if (holder_write(&frozen, 1 + (int)pick(4)) == WRITER_OK)
      everything_read();
  frozen_end();
}

static void epoch_break(void)
{
  int64_t how = pick(3);
  if (how == 0) {
    frozen_end();
    frozen = holder;
    frozen_process = memory_disk.process;
    return;
  }
  if (how == 1)
    memory_disk_kill(memory_disk.process);
  else {
    frozen_end();
    memory_disk_crash(FATE_MIXED, &random_state);
  }
  free(holder.writer.encoded);
}

static void one_life(uint64_t number)
{
  static const enum disk_call calls[] = {DISK_WRITE, DISK_SYNC, DISK_PLACE, DISK_CLOSE};
  storage_begin(NULL);
  random_state = number * 0x9E3779B97F4A7C15U + 1;
  memory_disk.local = pick(3) != 0;
  holder.options.codec_zstd = pick(4) == 0;
  for (int epoch = 0; epoch < EPOCHS; epoch++) {
    memory_disk.process++;
    bool begun = epoch_start();
    memory_disk.failed_write_bytes = (size_t)pick(1000);
    if (pick(3) == 0)
      memory_disk.fail_in[calls[pick(4)]] = 1 + (int)pick(3);
    bool clean = begun && epoch_write();
    memset(memory_disk.fail_in, 0, sizeof memory_disk.fail_in);
    if (!clean)
      epoch_break();
    everything_read();
    if (pick(2) == 0)
      frozen_wake();
  }
  frozen_end();
  holder.writer.has_file = false;
}

static uint64_t seed;

static int finish_life(void **state)
{
  if (seed != 0)
    print_error("it failed with PAWL_TEST_SEED=%llu\n", (unsigned long long)seed);
  return storage_end(state);
}

/* PAWL_TEST_SEED=n plays one life only. */
TEST_WITH(test_whatever_happens, storage_begin, finish_life)
{
  const char *only = getenv("PAWL_TEST_SEED");
  uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1, last = only != NULL ? first : SEEDS;
  for (seed = first; seed <= last; seed++)
    one_life(seed);
  seed = 0;
}
