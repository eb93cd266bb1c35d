/* Names that are not options: finds the option that was probably meant, and the variables that have another use. */
#include "config/options.h"

#include <stdlib.h>
#include <strings.h>
#include <time.h>

enum { NAME_SIZE = 80 };

extern char **environ;

/* ---- the nearest name ---- */

static int least(int a, int b, int c)
{
  int two = a < b ? a : b;
  return two < c ? two : c;
}

/* The Damerau-Levenshtein distance: how many letters are inserted, left out, changed, or swapped with the next one. */
static int distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
  int rows[3][NAME_SIZE + 1];
  for (size_t j = 0; j <= b_length; j++)
    rows[0][j] = (int)j;
  for (size_t i = 1; i <= a_length; i++) {
    int *now = rows[i % 3], *before = rows[(i + 2) % 3], *earlier = rows[(i + 1) % 3];
    now[0] = (int)i;
    for (size_t j = 1; j <= b_length; j++) {
      now[j] = least(before[j] + 1, now[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && earlier[j - 2] + 1 < now[j])
        now[j] = earlier[j - 2] + 1;
    }
  }
  return rows[a_length % 3][b_length];
}

/* The name in the form of a flag: '_' counts as '-', and case does not count. */
static size_t flag_form(const char *name, size_t length, char form[NAME_SIZE])
{
  size_t used = 0;
  for (; used < length && used + 1 < NAME_SIZE && name[used]; used++)
    form[used] = name[used] == '_' ? '-' : name[used] >= 'A' && name[used] <= 'Z' ? (char)(name[used] + 'a' - 'A') : name[used];
  form[used] = '\0';
  return used;
}

const struct option_row *option_nearest(unsigned programs, const char *given, size_t length)
{
  const struct option_row *nearest = NULL;
  char form[NAME_SIZE];
  size_t given_length = flag_form(given, length, form);
  int best = 1 + (int)given_length / 3;
  for (const struct option_row *row = config_options; row->flag; row++) {
    size_t row_length = strlen(row->flag), common = row_length < given_length ? row_length : given_length;
    bool begins = common >= 3 && strncmp(row->flag, form, common) == 0; /* one is a prefix of the other */
    int far = begins ? 1 : distance(form, given_length, row->flag, row_length);
    if ((row->programs & programs) == 0 || far > best || (nearest && far == best))
      continue;
    nearest = row;
    best = far;
  }
  return nearest;
}

/* ---- the environment ---- */

/* Variables that Kubernetes sets for a Service named pawl or pawl-metrics: PAWL_SERVICE_HOST, PAWL_METRICS_PORT_9464_TCP_ADDR. */
static bool is_kubernetes(const char *variable)
{
  static const char *const parts[] = {"_SERVICE_HOST", "_SERVICE_PORT", "_TCP", "_UDP"};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (strstr(variable, parts[i]))
      return true;
  const char *value = getenv(variable);
  return strstr(variable, "_PORT") && value && strstr(value, "://"); /* tcp://10.0.0.1:9464 */
}

/* Variables of pawl that are not options: for the command of pawl-lock, for Compose, for tests and scripts. */
static bool is_other(const char *variable)
{
  static const char *const others[] = {"FAULT",           "FAULT_STOP",        "LOCK_NAME", "LOCK_EPOCH", "LOCK_HELD",  "LOCK_SLOT",
                                       "LOCK_DOCUMENT",   "LOCK_LIBRARY",      "WORKERS",   "RESTARTS",   "WORKERS_T2", "WORKER_TYPES",
                                       "WORKER_T2_TYPES", "MONGO_PORT",        "REVISION",  "IMAGE",      "BIN",        "BUILD",
                                       "MONGOD",          "MONGOD_DEADLINE_S", "PYTHON"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(variable + 5, others[i]) == 0)
      return true;
  return strncmp(variable + 5, "TEST_", 5) == 0 || is_kubernetes(variable);
}

static bool is_option(const char *variable)
{
  char name[NAME_SIZE];
  for (const struct option_row *row = config_options; row->flag; row++) {
    option_environment(row, name, sizeof name);
    if (row->kind != OPTION_ACTION && strcmp(name, variable) == 0)
      return true;
  }
  return false;
}

/* config has no JSON library. It needs none: warn_unknown lets only characters into `text` that need no escape. */
static void warn(const struct config *config, const char *text, FILE *err)
{
  const char *program = config_program_name(config->program), *priority = config_priority(CONFIG_LOG_WARN);
  char time_text[40];
  struct timespec now;
  struct tm utc;
  if (config->log_format != CONFIG_FORMAT_JSON) {
    fprintf(err, "%s%s: %s\n", priority, program, text);
    return;
  }
  clock_gettime(CLOCK_REALTIME, &now);
  gmtime_r(&now.tv_sec, &utc);
  strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%S", &utc);
  fprintf(err, "%s{ \"time\" : \"%s.%03dZ\", \"level\" : \"warn\", \"program\" : \"%s\", \"event\" : \"config\", \"text\" : \"%s\" }\n",
          priority, time_text, (int)(now.tv_nsec / 1000000), program, text);
}

static void warn_unknown(const struct config *config, const char *variable, FILE *err)
{
  const struct option_row *nearest = option_nearest(~0u, variable + 5, strlen(variable + 5));
  char shown[NAME_SIZE], name[NAME_SIZE] = "";
  struct error text;
  size_t used = 0;
  for (; variable[used] && used + 1 < sizeof shown; used++) /* another program may have chosen the name */
    shown[used] = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.", variable[used]) ? variable[used] : '?';
  shown[used] = '\0';
  if (nearest && nearest->kind != OPTION_ACTION)
    option_environment(nearest, name, sizeof name);
  error_set(&text, "%s is set, and is not an option of pawl%s%s%s", shown, *name ? ": did you mean " : "", name,
            *name ? "?" : "; it is ignored");
  warn(config, text.text, err);
}

void environment_warn(const struct config *config, FILE *err)
{
  for (char **one = environ; one && *one; one++) {
    char variable[NAME_SIZE];
    size_t length = strcspn(*one, "=");
    snprintf(variable, sizeof variable, "%.*s", (int)(length < sizeof variable ? length : sizeof variable - 1), *one);
    if (strncmp(variable, "PAWL_", 5) == 0 && (*one)[length] == '=' && (*one)[length + 1] && !is_option(variable) && !is_other(variable))
      warn_unknown(config, variable, err);
  }
}
