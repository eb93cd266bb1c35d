#include "unit_test.h"

#include <stdlib.h>
#include <string.h>

enum { TESTS_MAX = 256 };

struct added {
  const char *file;
  int line;
  struct CMUnitTest test;
};

static struct added added[TESTS_MAX];
static size_t added_count;

void tests_add(const char *file, int line, const struct CMUnitTest *test)
{
  if (added_count == TESTS_MAX)
    abort();
  added[added_count++] = (struct added){.file = file, .line = line, .test = *test};
}

static int compare(const void *left, const void *right)
{
  const struct added *a = left, *b = right;
  int order = strcmp(a->file, b->file);
  return order != 0 ? order : a->line - b->line;
}

int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
  struct CMUnitTest tests[TESTS_MAX] = {{0}}; /* cmocka passes over those without a function */
  qsort(added, added_count, sizeof added[0], compare);
  for (size_t i = 0; i < added_count; i++)
    tests[i] = added[i].test;
  return cmocka_run_group_tests(tests, setup, teardown);
}
