#include "unit_test.h"

int main(void)
{
  return tests_run(NULL, NULL);
}
