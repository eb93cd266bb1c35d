/*
 * A process that takes locks of the library, for test_lock_history.py. It works in DIR until it has done TIMES rounds, or SIGTERM.
 *
 *   lock_contender count URI DB DIR LEASE_MS SEED TIMES NAME[:SLOTS]...    each name in each round: adds one to the number in DIR/NAME
 *   lock_contender write URI DB DIR LEASE_MS SEED TIMES NAME[:SLOTS]...    one of the names in each round: writes, and tells when
 *   lock_contender guard URI DB DIR LEASE_MS SEED TIMES COLLECTION         locks a document, writes it, and writes it by tokens
 *
 * A writer checks that it still holds the lock, is idle for some ms, and then writes its token to DIR/NAME.SLOT.plain, as anybody
 * could, and to DIR/NAME.SLOT.fenced, by pawl_file_append. What it saw goes to DIR/SEED.log, one line each, whole even if it is killed.
 */
#include <pawl/lock.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAMES_MAX = 1000 };

static volatile sig_atomic_t stopped;
static const char *dir;
static int log_fd;
static uint64_t seed;

static void on_term(int number)
{
  (void)number;
  stopped = 1;
}

static unsigned below(unsigned limit)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(seed >> 33) % limit;
}

static void idle_ms(unsigned ms)
{
  const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

static int64_t now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
  char line[1500];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (write(log_fd, line, (size_t)length) != length)
    exit(3);
}

/* ---- what is done under the lock ---- */

static void add_one(const char *name)
{
  char path[600];
  long number = 0;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "r");
  if (file != NULL && fscanf(file, "%ld", &number) != 1)
    exit(4);
  if (file != NULL)
    fclose(file);
  file = fopen(path, "w");
  if (file == NULL || fprintf(file, "%ld\n", number + 1) < 0 || fclose(file) != 0)
    exit(4);
}

static void write_some(struct pawl *pawl, const char *name, pawl_hold hold)
{
  char path[600], line[64];
  int64_t token = pawl_token(pawl, hold);
  int slot = pawl_slot(pawl, hold);
  for (unsigned writes = 1 + below(4); writes > 0 && !stopped; writes--) {
    int64_t at_us = now_us(), left_ms = pawl_left_ms(pawl, hold);
    tell("held %s %d %" PRId64 " %" PRId64 " %" PRId64 "\n", name, slot, token, at_us, left_ms);
    if (left_ms == 0)
      return;
    idle_ms(below(30));
    int length = snprintf(line, sizeof line, "%" PRId64 "\n", token);
    snprintf(path, sizeof path, "%s/%s.%d.plain", dir, name, slot);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
      exit(5);
    close(fd);
    snprintf(path, sizeof path, "%s/%s.%d.fenced", dir, name, slot);
    tell("wrote %s %d %" PRId64 " %s\n", name, slot, token, pawl_result_name(pawl_file_append(path, token, line, (size_t)length, NULL)));
  }
}

/* ---- rounds ---- */

/* False: it was not taken. */
static bool under_lock(struct pawl *pawl, const char *given, bool counts)
{
  char name[129];
  struct pawl_want want = {.name = name};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = counts ? PAWL_FOR_EVER : 20000};
  struct pawl_error error;
  pawl_hold hold;
  if (sscanf(given, "%128[^:]:%d", name, &want.slots) < 1)
    exit(2);
  enum pawl_result result = pawl_take_all(pawl, &want, 1, &terms, &hold, &error);
  if (result != PAWL_OK) {
    tell("failed %s %s %s\n", name, pawl_result_name(result), error.text);
    return false;
  }
  tell("took %s %d %" PRId64 " %" PRId64 "\n", name, pawl_slot(pawl, hold), pawl_token(pawl, hold), now_us());
  if (counts)
    add_one(name);
  else
    write_some(pawl, name, hold);
  result = pawl_release(pawl, hold, &error);
  tell("released %s %s\n", name, pawl_result_name(result));
  return true;
}

/* In an order of its own. */
static bool each_name(struct pawl *pawl, char **names, int count)
{
  char *order[NAMES_MAX];
  memcpy(order, names, (size_t)count * sizeof *order);
  for (int i = count; i-- > 0 && !stopped;) {
    unsigned at = below((unsigned)i + 1);
    if (!under_lock(pawl, order[at], true))
      return false;
    order[at] = order[i];
  }
  return true;
}

/* False: something is not as it should be. */
static bool guard(struct pawl *pawl, const char *collection)
{
  static const uint8_t any[] = {5, 0, 0, 0, 0};                                 /* {} */
  static const uint8_t set[] = "\x17\0\0\0\3$set\0\x0c\0\0\0\x10n\0\1\0\0\0\0"; /* {$set: {n: 1}}; the last 0 is the literal's own */
  const struct pawl_document which = {.size = sizeof which, .collection = collection, .filter = any};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = 20000};
  struct pawl_error error = {.text = ""};
  pawl_hold hold;
  bool ok = pawl_document_take(pawl, &which, &terms, &hold, &error) == PAWL_OK;
  int64_t token = ok ? pawl_token(pawl, hold) : 0;
  ok = ok && pawl_document_update(pawl, hold, set, &error) == PAWL_OK && pawl_release(pawl, hold, &error) == PAWL_OK &&
       pawl_guarded_update(pawl, &which, set, token + 1, &error) == PAWL_OK &&
       pawl_guarded_update(pawl, &which, set, token, &error) == PAWL_FENCED;
  if (!ok)
    fprintf(stderr, "guard: %s\n", error.text);
  return ok;
}

int main(int argc, char **argv)
{
  char path[600];
  struct pawl *pawl;
  struct pawl_error error;
  if (argc < 9 || argc > 8 + NAMES_MAX)
    return 2;
  bool counts = strcmp(argv[1], "count") == 0, guards = strcmp(argv[1], "guard") == 0;
  dir = argv[4];
  seed = strtoull(argv[6], NULL, 10);
  signal(SIGTERM, on_term);
  snprintf(path, sizeof path, "%s/%s.log", dir, argv[6]);
  log_fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  const struct pawl_options options = {
      .size = sizeof options, .uri = argv[2], .db = argv[3], .program = "contender", .lease_ms = atoi(argv[5])};
  if (log_fd < 0 || pawl_open(&options, &pawl, &error) != PAWL_OK)
    return 1;
  bool done = true;
  for (int times = atoi(argv[7]); times > 0 && !stopped && done; times--) {
    if (guards)
      done = guard(pawl, argv[8]);
    else if (counts)
      done = each_name(pawl, argv + 8, argc - 8);
    else
      (void)under_lock(pawl, argv[8 + below((unsigned)argc - 8)], false);
  }
  pawl_close(pawl);
  return done ? 0 : 1;
}
