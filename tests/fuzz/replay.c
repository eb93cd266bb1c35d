/* replay: gives a target every file of its corpus, in every build, so that what the fuzzer once found does not come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "target.h"

#include <dirent.h>

static const char *folder;

static void replay_file(const char *path)
{
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  fseek(stream, 0, SEEK_END);
  size_t size = (size_t)ftell(stream);
  rewind(stream);
  uint8_t *bytes = malloc(size); /* exactly `size` bytes, for the sanitizer */
  assert_true(bytes != NULL && fread(bytes, 1, size, stream) == size);
  fclose(stream);
  fprintf(stderr, "%s\n", path);
  assert_int_equal(LLVMFuzzerTestOneInput(bytes, size), 0);
  free(bytes);
}

static void test_corpus(void **state)
{
  (void)state;
  char path[4096];
  int count = 0;
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (entry->d_name[0] != '.') {
      snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
      replay_file(path);
      count++;
    }
  closedir(dir);
  assert_true(count > 0);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_corpus)};
  folder = argc > 1 ? argv[1] : ".";
  return cmocka_run_group_tests(tests, NULL, NULL);
}
