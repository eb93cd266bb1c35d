#include "config_fixture.h"

#include <stdlib.h>
#include <unistd.h>

struct config config;
struct error error;
char folder[] = "/tmp/test_config_XXXXXX";
static char path[200];

enum config_status load(enum config_program program, char **argv)
{
  int argc = 0;
  while (argv[argc])
    argc++;
  config_free(&config);
  error.text[0] = '\0';
  return config_load(&config, program, argc, argv, &error);
}

const char *file_with(const char *name, const char *text)
{
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *stream = fopen(path, "w");
  assert_non_null(stream);
  fputs(text, stream);
  fclose(stream);
  return path;
}

void assert_lacks(const char *text, const char *part)
{
  if (strstr(text, part))
    fail_msg("\"%s\" is in \"%s\"", part, text);
}

void assert_wrong(enum config_status status, const char *part, const char *other)
{
  assert_int_equal(status, CONFIG_WRONG);
  assert_contains(error.text, part);
  assert_contains(error.text, other);
  assert_lacks(error.text, "\n");
}

int clear(void **state)
{
  (void)state;
  config_free(&config);
  for (int i = 0; config_options[i].flag; i++) {
    char name[80];
    option_environment(&config_options[i], name, sizeof name);
    unsetenv(name);
  }
  return 0;
}

static int setup_folder(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
  (void)state;
  char command[100];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

int main(void)
{
  return tests_run(setup_folder, remove_folder);
}
