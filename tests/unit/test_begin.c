#include "storage/begin.h"
#include "unit_test.h"

/* docs/protocol.md, "May the file be continued?": all 32 cases, in groups. 2: either. */
static const struct {
  int local, guarded, exact, clean, vouched;
  enum begin_way way;
} cases[] = {
    {0, 2, 1, 1, 2, BEGIN_CONTINUE},   /* a network: clean and exactly as long */
    {0, 2, 0, 2, 2, BEGIN_SEGMENT},    /* shorter, or longer: somebody wrote */
    {0, 2, 1, 0, 2, BEGIN_SEGMENT},    /* a writer may still be at work */
    {1, 0, 2, 2, 2, BEGIN_SEGMENT},    /* a frozen writer has it open */
    {1, 1, 2, 2, 1, BEGIN_VERIFY_CUT}, /* whoever may still write would hold the guard */
    {1, 1, 1, 1, 0, BEGIN_VERIFY},     /* the last writer had no guard, and ended */
    {1, 1, 0, 1, 0, BEGIN_SEGMENT},    {1, 1, 2, 0, 0, BEGIN_SEGMENT},
};

static bool fits(int expected, bool found)
{
  return expected == 2 || expected == found;
}

TEST(test_table)
{
  for (unsigned bits = 0; bits < 32; bits++) {
    struct continue_check check = {.local = bits & 1, .guarded = bits >> 1 & 1, .exact = bits >> 2 & 1};
    bool clean = bits >> 3 & 1, vouched = bits >> 4 & 1;
    int matches = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      if (fits(cases[i].local, check.local) && fits(cases[i].guarded, check.guarded) && fits(cases[i].exact, check.exact) &&
          fits(cases[i].clean, clean) && fits(cases[i].vouched, vouched)) {
        assert_int_equal(begin_decide(&check, clean, vouched), cases[i].way);
        matches++;
      }
    assert_int_equal(matches, 1);
  }
}
