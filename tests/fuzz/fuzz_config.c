/*
 * config: flags, environment, file and URI file of any program. The input consists of lines; the first byte of each says where it goes:
 *
 *   A word     an argument                     F text     a line of the --config file
 *   E name=v   PAWL_NAME in the environment    U text     a line of the --uri-file
 *   P how, prefix, text: a URI with a password in it, passed in one of many ways, right and wrong
 *
 * Checked: no log line, no error and no output ever contains the password.
 */
#include "config/options.h"
#include "image.h"
#include "target.h"

#include <sys/mman.h>
#include <unistd.h>

enum { WORDS_MAX = 32, NAME_BYTES = 64, INPUT_BYTES_MAX = 16 * 1024 };

#define PASSWORD "TopSecretWord"

static int config_file = -1, uri_file = -1;
static char config_path[64], uri_path[64];
static char text[INPUT_BYTES_MAX + 1];
static char *words[WORDS_MAX + 1], *owned[WORDS_MAX * 2];
static int word_count, owned_count;

static char *own(char *heap)
{
  CHECK(heap != NULL);
  if (owned_count == WORDS_MAX * 2) {
    free(owned[--owned_count]);
    CHECK(false);
  }
  return owned[owned_count++] = heap;
}

static void word(char *value)
{
  if (word_count < WORDS_MAX)
    words[word_count++] = value;
}

static void environment_clear(void)
{
  for (int i = 0; config_options[i].flag; i++) {
    char name[80];
    option_environment(&config_options[i], name, sizeof name);
    unsetenv(name);
  }
}

static void environment_put(const char *line)
{
  char name[NAME_BYTES];
  size_t length = strcspn(line, "=");
  if (line[length] == 0 || length > 40)
    return;
  snprintf(name, sizeof name, "PAWL_%.*s", (int)length, line);
  if (strcmp(name, "PAWL_CONFIG") != 0 && strcmp(name, "PAWL_URI_FILE") != 0) /* only files that this target made */
    setenv(name, line + length + 1, 1);
}

static void file_add(int file, const char *line)
{
  CHECK(write(file, line, strlen(line)) >= 0 && write(file, "\n", 1) == 1);
}

/* Any text may surround the password, as long as the URI has the '@' after it that makes it a password. */
static void password_put(const char *line)
{
  static const char *const schemes[] = {"mongodb://", "mongodb+srv://", "MongoDB://", "mongodb:/", "", "mongodb://u:x@h,mongodb://"};
  static const char *const flags[] = {"--uri", "--urii", "--ur", "-u", "--uri-fil"};
  char how = line[0], *uri = NULL, *flagged = NULL;
  if (how == 0 || line[1] == 0)
    return;
  const char *scheme = schemes[(unsigned char)line[1] % (sizeof schemes / sizeof *schemes)], *user = line + 2;
  size_t user_bytes = strcspn(user, "|");
  const char *before = user + user_bytes + (user[user_bytes] != 0);
  size_t before_bytes = strcspn(before, "|");
  const char *rest = before + before_bytes + (before[before_bytes] != 0);
  CHECK(asprintf(&uri, "%s%.*s:%.*s" PASSWORD "@%s", scheme, (int)user_bytes, user, (int)before_bytes, before, rest) >= 0);
  own(uri);
  size_t which = (unsigned char)how / 8 % (sizeof flags / sizeof *flags);
  if (*scheme == 0 && which == 4) /* without a scheme this would be the name of a file like any other */
    which = 0;
  const char *flag = flags[which];
  switch (how % 7) {
  case 0:
    CHECK(asprintf(&flagged, "%s=%s", flag, uri) >= 0);
    word(own(flagged));
    break;
  case 1:
    word((char *)flag);
    word(uri);
    break;
  case 2:
    setenv("PAWL_URI", uri, 1);
    break;
  case 3:
    file_add(uri_file, uri);
    break;
  case 4:
    CHECK(asprintf(&flagged, "uri = %s", uri) >= 0);
    file_add(config_file, own(flagged));
    break;
  case 5:
    word(uri);
    break;
  default:
    CHECK(asprintf(&flagged, "%s%s", flag, uri) >= 0);
    word(own(flagged));
    break;
  }
  char shown[600];
  config_uri_redact(uri, shown, sizeof shown);
  CHECK(strstr(shown, PASSWORD) == NULL);
  char small[20];
  config_uri_redact(uri, small, 1 + strlen(rest) % sizeof small);
}

static void lines_take(char *at)
{
  for (char *next; at != NULL && *at != 0; at = next) {
    next = strchr(at, '\n');
    if (next != NULL)
      *next++ = 0;
    if (owned_count + 3 > WORDS_MAX * 2)
      return;
    if (*at != 'P' && strchr(at, '/') != NULL && strstr(at, "://") == NULL) /* a path could lead to a file that blocks */
      continue;
    switch (*at) {
    case 'A':
      word(at + 1);
      break;
    case 'E':
      environment_put(at + 1);
      break;
    case 'F':
      file_add(config_file, at + 1);
      break;
    case 'U':
      file_add(uri_file, at + 1);
      break;
    case 'P':
      password_put(at + 1);
      break;
    default:
      break;
    }
  }
}

static int file_make(const char *name, char *path)
{
  int file = memfd_create(name, MFD_CLOEXEC);
  CHECK(file >= 0);
  snprintf(path, sizeof config_path, "/proc/self/fd/%d", file);
  return file;
}

static void begin(void)
{
  if (config_file < 0) {
    config_file = file_make("config", config_path);
    uri_file = file_make("uri", uri_path);
  }
  CHECK(ftruncate(config_file, 0) == 0 && lseek(config_file, 0, SEEK_SET) == 0);
  CHECK(ftruncate(uri_file, 0) == 0 && lseek(uri_file, 0, SEEK_SET) == 0);
  environment_clear();
  word_count = owned_count = 0;
}

static void load(enum config_program program)
{
  struct config config;
  struct error error = {.text = ""};
  char *said = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&said, &size);
  enum config_status status = config_load(&config, program, word_count, words, &error);
  if (status == CONFIG_WRONG) {
    CHECK(error.text[0] != 0);
    fputs(error.text, out);
  } else if (status == CONFIG_HELP)
    config_help(program, out);
  else if (status == CONFIG_VERSION)
    config_version(program, out);
  else
    config_print(&config, out);
  fclose(out);
  if (memmem(said, size, PASSWORD, strlen(PASSWORD)) != NULL)
    fprintf(stderr, "said: %s\n", said);
  CHECK(memmem(said, size, PASSWORD, strlen(PASSWORD)) == NULL);
  CHECK(status != CONFIG_WRONG || strpbrk(error.text, "\n\r\x1b") == NULL);
  free(said);
  config_free(&config);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
  if (size < 1 || size > INPUT_BYTES_MAX)
    return 0;
  enum config_program program = input[0] % CONFIG_PROGRAMS;
  memcpy(text, input + 1, size - 1);
  text[size - 1] = 0;
  if (memmem(text, size, PASSWORD, strlen(PASSWORD)) != NULL) /* the fuzzer has learnt the password, so that it may occur anywhere */
    return 0;
  begin();
  word((char *)config_program_name(program));
  lines_take(text);
  if (lseek(config_file, 0, SEEK_CUR) > 0)
    setenv("PAWL_CONFIG", config_path, 1);
  if (lseek(uri_file, 0, SEEK_CUR) > 0)
    setenv("PAWL_URI_FILE", uri_path, 1);
  words[word_count] = NULL;
  load(program);
  int64_t time_us = 0;
  if (config_parse_time(text, 1700000000000000, &time_us))
    CHECK(time_us != INT64_MIN);
  for (int i = 0; i < owned_count; i++)
    free(owned[i]);
  environment_clear();
  return 0;
}
