/* Patterns of types, the range that they leave, lists of types, and the types that are put aside. */
#include "type_pattern.h"
#include "unit_test.h"
#include "worker/aside.h"
#include "worker/waiting.h"

#include <stdlib.h>

TEST(test_pattern_names)
{
  char long_enough[TYPE_BYTES_MAX + 2];
  memset(long_enough, '*', sizeof long_enough);
  long_enough[TYPE_BYTES_MAX + 1] = '\0';
  assert_false(type_pattern_valid(long_enough));
  long_enough[TYPE_BYTES_MAX] = '\0';
  assert_true(type_pattern_valid(long_enough));
  static const char *const good[] = {"*", "a", "a*", "*.b", "a*b*c", "**", "orders.*", "_*"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    assert_true(type_pattern_valid(good[i]));
  static const char *const bad[] = {"", ".*", "-*", "a?", "[ab]*", "a b*", "a/*", "\xc3\xbc*", "a\\*", "{a,b}", "$a"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_false(type_pattern_valid(bad[i]));
}

TEST(test_patterns_match)
{
  static const struct {
    const char *pattern, *type;
    bool matches;
  } cases[] = {
      {"*", "a", true},
      {"*", "", true},
      {"a*", "a", true},
      {"a*", "ba", false},
      {"*a", "ba", true},
      {"*a", "ab", false},
      {"a*c", "abc", true},
      {"a*c", "abcb", false},
      {"a*c", "abcbc", true},
      {"a*b*c", "aXbYc", true},
      {"a*b*c", "aXcYb", false},
      {"orders.*", "orders.a", true},
      {"orders.*", "ordersXa", false},
      {"orders.*", "orders", false},
      {"a", "a", true},
      {"a", "ab", false},
      {"a**b", "ab", true},
      {"*ab*ab*", "abab", true},
      {"*ab*ab*", "abb", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (type_pattern_matches(cases[i].pattern, cases[i].type) != cases[i].matches)
      fail_msg("%s and %s", cases[i].pattern, cases[i].type);
}

/* With a matcher that tries every run for every star this would not end. */
TEST(test_many_stars_end)
{
  char pattern[TYPE_BYTES_MAX + 1] = "", type[TYPE_BYTES_MAX + 1];
  for (int i = 0; i < 60; i++)
    strcat(pattern, "a*");
  strcat(pattern, "b");
  memset(type, 'a', sizeof type);
  type[TYPE_BYTES_MAX] = '\0';
  assert_false(type_pattern_matches(pattern, type));
}

TEST(test_rules)
{
  static const type_name patterns[] = {"orders.*", "x*y"}, excepts[] = {"orders.test*", "orders.old"}, named[] = {"orders.mine", "zed"};
  const struct type_rules rules = {patterns, 2, excepts, 2, named, 2};
  assert_true(type_rules_find(&rules, "orders.a"));
  assert_true(type_rules_find(&rules, "xy"));
  static const char *const left[] = {"orders.test1", "orders.old", "orders.mine", "zed", "other", "orders.a b", "orders.\xff", ""};
  for (size_t i = 0; i < sizeof left / sizeof *left; i++)
    assert_false(type_rules_find(&rules, left[i]));
  assert_true(type_rules_serve(&rules, "zed"));
  assert_false(type_rules_serve(&rules, "orders.old"));
}

static void assert_range(const type_name *patterns, size_t count, const type_name *named, size_t named_count, const char *from,
                         const char *before)
{
  const struct type_rules rules = {.patterns = patterns, .pattern_count = count, .named = named, .named_count = named_count};
  type_name low, high;
  type_rules_range(&rules, low, high);
  assert_string_equal(low, from);
  assert_string_equal(high, before);
}

/* Whatever matches lies in it. */
TEST(test_range)
{
  static const type_name all[] = {"*"}, orders[] = {"orders.*"}, two[] = {"b*", "d*e"}, plain[] = {"abc"}, mixed[] = {"b*", "*a"};
  assert_range(all, 1, NULL, 0, "", "");
  assert_range(orders, 1, NULL, 0, "orders.", "orders/");
  assert_range(two, 2, NULL, 0, "b", "e");
  assert_range(two, 2, plain, 1, "abc", "e");
  assert_range(plain, 1, NULL, 0, "abc", "abd");
  assert_range(mixed, 2, NULL, 0, "", "");
}

TEST(test_lists)
{
  struct type_list list = {.count = 0};
  assert_false(type_list_has(&list, "a"));
  assert_int_equal(type_list_after(&list, ""), 0);
  for (int i = 99; i >= 0; i--) {
    type_name name;
    snprintf(name, sizeof name, "t%02d", i);
    assert_true(type_list_add(&list, name));
  }
  type_list_sort(&list);
  assert_true(type_list_has(&list, "t00") && type_list_has(&list, "t99") && !type_list_has(&list, "t100"));
  assert_int_equal(type_list_after(&list, ""), 0);
  assert_int_equal(type_list_after(&list, "t00"), 1);
  assert_int_equal(type_list_after(&list, "t005"), 1);
  assert_int_equal(type_list_after(&list, "t99"), 100);
  type_list_free(&list);
}

static struct aside_memory nothing;
static const struct aside_pause growing = {.ms = 0};

/* While it is found so, the pauses double to a minute; a wake-up ends one that has lasted for a second. */
TEST(test_aside)
{
  struct aside aside = {.count = 0};
  struct type_list found = {.count = 0}, held = {.count = 0};
  assert_true(aside_wake(&aside, "a", 0));
  aside_put(&aside, "a", growing, &nothing, 1000);
  assert_true(aside_has(&aside, "a", 1999) && !aside_has(&aside, "a", 2000) && !aside_has(&aside, "b", 1000));
  aside_put(&aside, "a", growing, &nothing, 3000);
  assert_true(aside_has(&aside, "a", 4999) && !aside_has(&aside, "a", 5000));
  assert_false(aside_wake(&aside, "a", 3999));
  assert_true(aside_wake(&aside, "a", 4000) && !aside_has(&aside, "a", 4000));
  for (int i = 0; i < 10; i++)
    aside_put(&aside, "a", growing, &nothing, 10000);
  assert_true(aside_has(&aside, "a", 69999) && !aside_has(&aside, "a", 70000));
  aside_calm(&aside, &found, &held, &(struct type_range){.from = "b"}); /* not looked for */
  aside_put(&aside, "a", growing, &nothing, 70000);
  assert_true(aside_has(&aside, "a", 129999));
  aside_calm(&aside, &found, &held, &(struct type_range){.from = "a"}); /* its messages are gone */
  aside_put(&aside, "a", growing, &nothing, 80000);
  assert_false(aside_has(&aside, "a", 81000));
  aside_put(&aside, "p", (struct aside_pause){.ms = 10000}, &nothing, 80000);
  assert_true(aside_has(&aside, "p", 89999) && !aside_has(&aside, "p", 90000));
  assert_int_equal(aside_count(&aside, 80000), 2);
  assert_int_equal(aside_count(&aside, 81000), 1);
  assert_int_equal(aside_count(&aside, 90000), 0);
  free(aside.types);
}

/* What was named is remembered for longer; and the memory has an end. */
TEST(test_ranges)
{
  struct type_range range = {.from = "b", .before = "d\1"}, all = {.from = ""};
  assert_true(type_range_has(&range, "b") && type_range_has(&range, "d") && !type_range_has(&range, "d0") && !type_range_has(&range, "a"));
  type_range_cut(&all, &range);
  assert_true(!type_range_has(&all, "a") && type_range_has(&all, "d") && !type_range_has(&all, "e"));
  type_range_cut(&all, &(struct type_range){.from = "c"});
  assert_true(!type_range_has(&all, "b") && type_range_has(&all, "c") && type_range_has(&all, "d") && !type_range_has(&all, "e"));
}

static bool is_not_k3(const void *context, const char *type)
{
  (void)context;
  return strcmp(type, "k3") != 0;
}

static void take(struct waiting *waiting, const char *types, const struct type_range *covered, const char *turn, int64_t now_ms)
{
  struct type_list found = {.count = 0};
  char text[64], *rest = NULL;
  snprintf(text, sizeof text, "%s", types);
  for (char *type = strtok_r(text, " ", &rest); type != NULL; type = strtok_r(NULL, " ", &rest))
    assert_true(type_list_add(&found, type));
  assert_true(waiting_take(waiting, &found, covered, turn, is_not_k3, NULL, now_ms));
  type_list_free(&found);
}

/* Looks that see a part each: what the others saw waits on, since then, and the turn goes round all of them. */
TEST(test_waiting)
{
  struct waiting waiting = {.count = 0};
  struct type_range low = {.before = "k4"}, high = {.from = "k4"};
  assert_null(waiting_next(&waiting));
  take(&waiting, "k1 k2 k2 k3", &low, "", 1000);
  assert_int_equal(waiting.left, 2);
  take(&waiting, "k5 k6", &high, "k1", 2000);
  assert_int_equal(waiting.left, 4);
  assert_int_equal(waiting_count(&waiting, 1000, 2000), 2);
  waiting_drop(&waiting, "k5");
  waiting_drop(&waiting, "k5");
  waiting_drop(&waiting, "k9");
  assert_string_equal(waiting_next(&waiting), "k2");
  assert_string_equal(waiting_next(&waiting), "k6");
  take(&waiting, "k2", &low, "k6", 3000);
  assert_int_equal(waiting_count(&waiting, 0, 3000), 1);
  assert_int_equal(waiting_count(&waiting, 1000, 3000), 0);
  assert_string_equal(waiting_next(&waiting), "k2");
  assert_null(waiting_next(&waiting));
  free(waiting.types);
  free(waiting.spare);
}

/* Otherwise the message that it tells of would wait for the whole pause. */
TEST(a_wakeup_that_comes_early_shortens_the_pause)
{
  struct aside aside = {.count = 0};
  aside_put(&aside, "a", (struct aside_pause){.ms = ASIDE_MS_MAX}, &nothing, 0);
  assert_false(aside_wake(&aside, "a", 10));
  assert_true(aside_has(&aside, "a", ASIDE_MS - 1));
  assert_false(aside_has(&aside, "a", ASIDE_MS));
  free(aside.types);
}

/* A message mends no disk, and what was given to another process is left to it. */
TEST(no_wakeup_shortens_a_firm_pause)
{
  struct aside aside = {.count = 0};
  aside_put(&aside, "a", (struct aside_pause){.ms = 2000, .firm = true}, &nothing, 0);
  assert_false(aside_wake(&aside, "a", 10));
  assert_false(aside_wake(&aside, "a", 1999));
  assert_true(aside_has(&aside, "a", 1999) && !aside_has(&aside, "a", 2000));
  aside_put(&aside, "a", growing, &nothing, 2000);
  assert_true(aside_has(&aside, "a", 2999) && !aside_has(&aside, "a", 3000)); /* a fixed pause makes the next one no longer */
  aside_put(&aside, "a", growing, &nothing, 3000);                            /* firm no more */
  assert_true(aside_has(&aside, "a", 4999) && aside_wake(&aside, "a", 4000));
  free(aside.types);
}

TEST(test_aside_forgets)
{
  struct aside aside = {.count = 0};
  aside_put(&aside, "a", growing, &nothing, 0);
  struct aside_memory named = {.told = STORAGE_PAUSED}, taken;
  named.marks.own = (struct queue_mark){.named_count = 1, .named = calloc(1, sizeof *named.marks.own.named)};
  aside_put(&aside, "n", growing, &named, 0);
  assert_null(named.marks.own.named);
  aside_forget(&aside, 600000);
  assert_int_equal(aside.count, 1);
  taken = aside_take_memory(&aside, "a");
  assert_true(!queue_marks_name(&taken.marks) && taken.told == STORAGE_UNSEEN);
  taken = aside_take_memory(&aside, "n");
  assert_true(taken.marks.own.named_count == 1 && taken.told == STORAGE_PAUSED);
  aside_put(&aside, "n", growing, &taken, 0);
  aside_forget(&aside, 7200000);
  assert_int_equal(aside.count, 0);
  for (int i = 0; i < ASIDE_MAX + 10; i++) {
    type_name name;
    snprintf(name, sizeof name, "t%d", i);
    aside_put(&aside, name, growing, &nothing, i);
  }
  assert_int_equal(aside.count, ASIDE_MAX);
  assert_false(aside_has(&aside, "t9", 100));
  assert_true(aside_has(&aside, "t10", 100));
  free(aside.types);
}

/* The same patterns and the same exceptions, in any order. */
TEST(test_hash)
{
  static const type_name one[] = {"a*", "b*"}, turned[] = {"b*", "a*"}, other[] = {"c*", "b*"}, except[] = {"a.x*"};
  uint64_t hash = type_rules_hash(&(struct type_rules){.patterns = one, .pattern_count = 2});
  assert_true(type_rules_hash(&(struct type_rules){.patterns = turned, .pattern_count = 2}) == hash);
  assert_false(type_rules_hash(&(struct type_rules){.patterns = other, .pattern_count = 2}) == hash);
  assert_false(type_rules_hash(&(struct type_rules){.patterns = one, .pattern_count = 2, .excepts = except, .except_count = 1}) == hash);
}

TEST(test_aside_while_another_holds_it)
{
  struct aside aside = {.count = 0};
  struct type_list found = {.count = 0}, held = {.count = 0};
  assert_true(type_list_add(&found, "a") && type_list_add(&held, "a"));
  for (int i = 0; i < 10; i++)
    aside_put(&aside, "a", growing, &nothing, 0);
  aside_calm(&aside, &found, &held, &(struct type_range){.from = ""});
  aside_put(&aside, "a", growing, &nothing, 1000);
  assert_true(aside_has(&aside, "a", 1999) && !aside_has(&aside, "a", 2000));
  free(aside.types);
  type_list_free(&found);
  type_list_free(&held);
}
