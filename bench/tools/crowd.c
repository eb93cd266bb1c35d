/*
 * A program that uses the lock library, at its defaults.
 *
 *   crowd uri=… db=… how=cycles seconds=…                 takes a lock and releases it, over and over, alone
 *   crowd uri=… db=… how=documents seconds=…              the same with a document of the collection `work`
 *   crowd uri=… db=… how=turns name=… slots=… ms=… file=… [seconds=0]
 *                                                         takes the lock, holds it for `ms`, releases it: once, or again and again for
 *                                                         `seconds`.
 *                                                         Before each release it appends `asked begin end`, wall clock in ns, to FILE
 *   crowd uri=… db=… how=holds count=… lease_ms=…         takes `count` names of its own, prints a line, and holds them until it is killed
 */
#include "tools/client.h"

#include <fcntl.h>
#include <pawl/lock.h>
#include <time.h>
#include <unistd.h>

static struct pawl *pawl;
static struct pawl_error error;

static void must(enum pawl_result result)
{
  if (result != PAWL_OK)
    die("crowd: %s", error.text);
}

static void cycles(int64_t seconds)
{
  int64_t begin = wall_ns(), count = 0;
  for (; wall_ns() < begin + seconds * 1000000000; count++) {
    pawl_hold hold;
    must(pawl_take(pawl, "alone", PAWL_NO_WAIT, &hold, &error));
    must(pawl_release(pawl, hold, &error));
  }
  print_result(count, begin);
}

static void documents(int64_t seconds)
{
  bson_t *filter = BCON_NEW("state", BCON_UTF8("new"));
  const struct pawl_document which = {.size = sizeof which, .collection = "work", .filter = bson_get_data(filter)};
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_NO_WAIT};
  int64_t begin = wall_ns(), count = 0;
  for (; wall_ns() < begin + seconds * 1000000000; count++) {
    pawl_hold hold;
    must(pawl_document_take(pawl, &which, &terms, &hold, &error));
    must(pawl_release(pawl, hold, &error));
  }
  print_result(count, begin);
}

static void turn(const struct pawl_want *want, int64_t ms, int file)
{
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = PAWL_FOR_EVER};
  const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
  char line[80];
  pawl_hold hold;
  int64_t asked = wall_ns();
  must(pawl_take_all(pawl, want, 1, &terms, &hold, &error));
  int64_t begin = wall_ns();
  nanosleep(&time, NULL);
  int length = snprintf(line, sizeof line, "%lld %lld %lld\n", (long long)asked, (long long)begin, (long long)wall_ns());
  if (write(file, line, (size_t)length) != length)
    die("crowd: cannot write what was measured");
  must(pawl_release(pawl, hold, &error));
}

static void holds(int64_t count)
{
  for (int64_t i = 0; i < count; i++) {
    char name[64];
    pawl_hold hold;
    snprintf(name, sizeof name, "held-%ld-%lld", (long)getpid(), (long long)i);
    must(pawl_take(pawl, name, PAWL_NO_WAIT, &hold, &error));
  }
  puts("held");
  fflush(stdout);
  for (;;)
    pause();
}

int main(int argc, char **argv)
{
  (void)argc;
  const char *how = argument(argv, "how", NULL);
  const struct pawl_options options = {.size = sizeof options,
                                       .uri = argument(argv, "uri", NULL),
                                       .db = argument(argv, "db", NULL),
                                       .lease_ms = argument_number(argv, "lease_ms", "0")};
  int64_t seconds = argument_number(argv, "seconds", "0");
  must(pawl_open(&options, &pawl, &error));
  if (strcmp(how, "cycles") == 0) {
    cycles(seconds);
  } else if (strcmp(how, "documents") == 0) {
    documents(seconds);
  } else if (strcmp(how, "holds") == 0) {
    holds(argument_number(argv, "count", NULL));
  } else {
    const struct pawl_want want = {.name = argument(argv, "name", NULL), .slots = (int)argument_number(argv, "slots", "1")};
    int file = open(argument(argv, "file", NULL), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    int64_t until = wall_ns() + seconds * 1000000000;
    do
      turn(&want, argument_number(argv, "ms", NULL), file);
    while (wall_ns() < until);
  }
  pawl_close(pawl);
  end_at_once();
}
