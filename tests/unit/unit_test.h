/*
 * unit_test: a test adds itself to its program, so that its name stands in one place:
 *
 *   TEST(name) { … }                      without a fixture
 *   TEST_WITH(name, begin, end) { … }     with cmocka's functions before and after it; either may be NULL
 *
 * A program is its test files: unit_main.c runs them where none of them has a main of its own, which calls tests_run.
 */
#ifndef PAWL_TESTS_UNIT_TEST_H
#define PAWL_TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cmocka_range.h"

#define TEST(name) TEST_WITH(name, NULL, NULL)
#define TEST_WITH(name, begin, end)                                       \
  static void name(void);                                                 \
  static void run_##name(void **state)                                    \
  {                                                                       \
    (void)state;                                                          \
    name();                                                               \
  }                                                                       \
  __attribute__((constructor)) static void add_##name(void)               \
  {                                                                       \
    const struct CMUnitTest test = {#name, run_##name, begin, end, NULL}; \
    tests_add(__FILE__, __LINE__, &test);                                 \
  }                                                                       \
  static void name(void)

#define assert_contains(text, part)                    \
  do {                                                 \
    if (strstr(text, part) == NULL)                    \
      fail_msg("\"%s\" is not in \"%s\"", part, text); \
  } while (0)

void tests_add(const char *file, int line, const struct CMUnitTest *test);
/* Runs all tests, file by file, in the order in which they stand there. Returns the number of those that failed. */
int tests_run(CMFixtureFunction setup, CMFixtureFunction teardown);

#endif
