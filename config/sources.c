/* The sources of the texts of options: flags, environment, file, defaults. setting_put decides which one counts. */
#include "config/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stdlib.h>
#include <strings.h>

enum {
  NAME_SIZE = 80,     /* of an environment variable */
  ORIGIN_SIZE = 4200, /* FILE:LINE */
  LONG_BASE = 1000,   /* getopt's value of a flag: this plus the row; below it: a letter */
};

/* The word mongodb alone does not make a URI: a name may be mongodb-backup. What has the form NAME:PASSWORD@ may be one whose scheme is
 * missing. */
static bool is_uri(const char *value)
{
  const char *colon = strchr(value, ':');
  return strstr(value, "://") || (strncasecmp(value, "mongodb", 7) == 0 && value[7] && strchr(":+%/", value[7])) ||
         (colon != NULL && strchr(colon, '@') != NULL);
}

void config_quote(const char *value, char *text, size_t size)
{
  char hidden[1024]; /* a URI in the place of another value is still a secret */
  size_t used = 0;
  if (is_uri(value)) {
    config_uri_redact(value, hidden, sizeof hidden);
    value = hidden;
  }
  for (; *value && used + 4 < size; value++)
    text[used++] = iscntrl((unsigned char)*value) ? '?' : *value;
  snprintf(text + used, size - used, "%s", *value ? "..." : "");
}

static char *copy(struct config *config, const char *text)
{
  return config_keep(config, strdup(text));
}

void setting_put(struct config *config, int index, enum source source, const char *value, const char *origin)
{
  struct config_setting *setting = &config->settings[index];
  if (setting->source > source)
    return;
  if (config_options[index].kind == OPTION_TYPES && setting->source == source) {
    size_t size = strlen(setting->value) + strlen(value) + 2;
    char *joined = config_keep(config, malloc(size));
    snprintf(joined, size, "%s,%s", setting->value, value);
    setting->value = joined;
    return;
  }
  *setting = (struct config_setting){copy(config, value), copy(config, origin), source};
}

/* ---- flags ---- */

struct getopt_tables {
  struct option *longs;
  char letters[64];
};

static void tables_add(struct getopt_tables *tables, size_t count, int index)
{
  const struct option_row *row = &config_options[index];
  int takes = row->kind == OPTION_ACTION ? no_argument : row->kind == OPTION_BOOL ? optional_argument : required_argument;
  tables->longs[count] = (struct option){row->flag, takes, NULL, LONG_BASE + index};
  if (row->letter) {
    char letter[] = {row->letter, takes == required_argument ? ':' : '\0', '\0'};
    strcat(tables->letters, letter);
  }
}

static int options_count(void)
{
  int count = 0;
  while (config_options[count].flag)
    count++;
  return count;
}

static void tables_make(struct getopt_tables *tables, struct config *config)
{
  size_t count = 0;
  tables->longs = (struct option *)config_keep(config, calloc((size_t)options_count() + 1, sizeof *tables->longs));
  snprintf(tables->letters, sizeof tables->letters, ":"); /* getopt then reports a missing value as ':' */
  for (int i = 0; config_options[i].flag; i++)
    if (option_taken(&config_options[i], config->program))
      tables_add(tables, count++, i);
}

/* Names the flags that begin with the given text, if there are several. */
static void error_ambiguous(const struct option *longs, const char *given, size_t length, struct error *error)
{
  char names[600] = "";
  size_t used = 0;
  for (; longs->name; longs++)
    if (strncmp(longs->name, given, length) == 0 && used < sizeof names)
      used += (size_t)snprintf(names + used, sizeof names - used, "%s--%s", used ? ", " : "", longs->name);
  error_set(error, "--%.*s: could be %s: write it out", (int)length, given, names);
}

static void error_unknown(const struct config *config, const char *given, size_t length, struct error *error)
{
  const struct option_row *nearest = option_nearest(1u << config->program, given, length);
  error_set(error, "--%.*s: no such option%s%s%s", (int)length, given, nearest ? ": did you mean --" : "", nearest ? nearest->flag : "",
            nearest ? "?" : "");
}

/* Never shows the value: the flag may be a mistyped --uri. */
static void error_flag(const struct config *config, const struct getopt_tables *tables, const char *word, struct error *error)
{
  if (optopt >= LONG_BASE) {
    error_set(error, "--%s: takes no value", config_options[optopt - LONG_BASE].flag);
  } else if (optopt) {
    error_set(error, "-%c: no such option", isprint(optopt) ? optopt : '?');
  } else {
    char given[NAME_SIZE];
    snprintf(given, sizeof given, "%s", word + strspn(word, "-"));
    /* Stop where a flag's name must end: a URI whose '=' was forgotten may follow. */
    size_t length = strspn(given, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"), matches = 0;
    for (const struct option *option = tables->longs; option->name; option++)
      matches += strncmp(option->name, given, length) == 0;
    if (matches > 1 && length > 0)
      error_ambiguous(tables->longs, given, length, error);
    else
      error_unknown(config, given, length, error);
  }
}

static void error_no_value(struct error *error)
{
  int index = optopt - LONG_BASE;
  for (int i = 0; index < 0 && config_options[i].flag; i++)
    if (config_options[i].letter == optopt)
      index = i;
  char takes[500];
  value_takes(&config_options[index], takes, sizeof takes);
  error_set(error, "--%s: got no value: takes %s", config_options[index].flag, takes);
}

static int row_of(const struct config *config, int value)
{
  if (value >= LONG_BASE)
    return value - LONG_BASE;
  for (int i = 0; config_options[i].flag; i++)
    if (config_options[i].letter == value && option_taken(&config_options[i], config->program))
      return i;
  return -1;
}

static enum config_status flag_action(struct config *config, const char *flag, enum config_status status)
{
  int level = option_find(config->program, "log-level");
  if (strcmp(flag, "help") == 0)
    return CONFIG_HELP;
  if (strcmp(flag, "version") == 0)
    return CONFIG_VERSION;
  if (strcmp(flag, "print-config") == 0)
    return CONFIG_PRINT;
  if (strcmp(flag, "health") == 0) {
    config->health = true;
    return status;
  }
  setting_put(config, level, SOURCE_FLAG, strcmp(flag, "quiet") == 0 ? "error" : "debug", "command line");
  return status;
}

static enum config_status flags_loop(struct config *config, const struct getopt_tables *tables, int argc, char **argv, struct error *error)
{
  enum config_status status = CONFIG_RUN;
  int value;
  opterr = 0;
  optind = 0; /* glibc: reset getopt */
  while ((value = getopt_long(argc, argv, tables->letters, tables->longs, NULL)) != -1) {
    if (value == '?' || value == ':') {
      if (value == '?')
        error_flag(config, tables, argv[optind - 1], error);
      else
        error_no_value(error);
      return CONFIG_WRONG;
    }
    int index = row_of(config, value);
    const struct option_row *row = &config_options[index];
    if (row->kind == OPTION_ACTION)
      status = flag_action(config, row->flag, status);
    else
      setting_put(config, index, SOURCE_FLAG, optarg ? optarg : "true", "command line");
    if (status == CONFIG_HELP || status == CONFIG_VERSION)
      return status;
  }
  return status;
}

/* Returns the number of words before `--`. The words after it are the command, whose flags are not pawl's. */
static int command_cut(struct config *config, int argc, char **argv)
{
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--") == 0) {
      config->command = argv + i + 1;
      return i;
    }
  return argc;
}

enum config_status source_flags(struct config *config, int argc, char **argv, struct error *error)
{
  if (config->program == CONFIG_LOCK)
    argc = command_cut(config, argc, argv);
  struct getopt_tables tables;
  char **words = calloc((size_t)argc + 1, sizeof *words); /* a copy, because getopt reorders it */
  config_keep(config, (char *)words);
  memcpy(words, argv, (size_t)argc * sizeof *words);
  tables_make(&tables, config);
  enum config_status status = flags_loop(config, &tables, argc, words, error);
  config->arguments = words + (optind < argc ? optind : argc);
  config->argument_count = optind < argc ? argc - optind : 0;
  return status;
}

/* ---- environment, defaults ---- */

void source_environment(struct config *config)
{
  for (int i = 0; config_options[i].flag; i++) {
    const struct option_row *row = &config_options[i];
    char name[NAME_SIZE];
    if (!option_taken(row, config->program) || row->kind == OPTION_ACTION)
      continue;
    option_environment(row, name, sizeof name);
    const char *value = getenv(name);
    if (value && *value)
      setting_put(config, i, SOURCE_ENVIRONMENT, value, name);
  }
}

void source_defaults(struct config *config)
{
  for (int i = 0; config_options[i].flag; i++)
    if (option_taken(&config_options[i], config->program) && config_options[i].text)
      setting_put(config, i, SOURCE_DEFAULT, config_options[i].text, "default");
}

/* ---- file ---- */

struct file_state {
  struct config *config;
  const char *path;
  FILE *stream;
  int line;
  bool failed; /* `error` is filled; reading stops */
  struct error *error;
  int *seen; /* for each row the line that set it; 0: none */
};

__attribute__((format(printf, 2, 3))) static int file_fail(struct file_state *state, const char *format, ...)
{
  char what[600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  if (!state->failed)
    error_set(state->error, "%.400s:%d: %s", state->path, state->line, what);
  state->failed = true;
  return 0;
}

/*
 * The reader for inih: like fgets, but without the line feed, and a line that does not fit is an error, because inih would take the rest
 * for another line. Since version 57 inih takes a full buffer for a line without an end, so one byte stays free.
 */
static char *file_line(char *text, int size, void *context)
{
  struct file_state *state = context;
  int used = 0, byte = EOF;
  if (state->failed)
    return NULL;
  state->line++;
  while ((byte = getc(state->stream)) != EOF && byte != '\n') {
    if (byte == '\0' || used == size - 2) {
      if (byte == '\0')
        file_fail(state, "a NUL byte: this is not a text file");
      else
        file_fail(state, "longer than %d bytes; put a long URI in a file and name it with uri-file", size - 2);
      return NULL;
    }
    text[used++] = (char)byte;
  }
  text[used] = '\0';
  return byte == EOF && used == 0 ? NULL : text;
}

static int file_unknown(struct file_state *state, const char *name)
{
  const struct option_row *nearest = option_nearest(~0u, name, strlen(name));
  return file_fail(state, "%s: no such option%s%s%s", name, nearest ? ": did you mean " : "", nearest ? nearest->flag : "",
                   nearest ? "?" : "");
}

static int file_pair(void *context, const char *section, const char *name, const char *value)
{
  struct file_state *state = context;
  char shown[NAME_SIZE], origin[ORIGIN_SIZE];
  if (state->failed)
    return 0;
  config_quote(name, shown, sizeof shown);
  if (*section)
    return file_fail(state, "%s: is in a [section]; the file must not have sections", shown);
  int index = option_find(state->config->program, name);
  if (index < 0 && option_exists(name))
    return 1; /* an option of another program */
  if (index < 0)
    return file_unknown(state, shown);
  const struct option_row *row = &config_options[index];
  if (row->kind == OPTION_ACTION || strcmp(name, "config") == 0)
    return file_fail(state, "%s: only on the command line", shown);
  if (state->seen[index] && row->kind != OPTION_TYPES)
    return file_fail(state, "%s: already set in line %d", shown, state->seen[index]);
  state->seen[index] = state->line;
  snprintf(origin, sizeof origin, "%s:%d", state->path, state->line);
  setting_put(state->config, index, SOURCE_FILE, value, origin);
  return 1;
}

bool source_file(struct config *config, const char *path, struct error *error)
{
  struct file_state state = {.config = config, .path = path, .stream = fopen(path, "re"), .error = error};
  if (!state.stream) {
    int reason = errno;
    char shown[400];
    config_quote(path, shown, sizeof shown);
    error_set(error, "--config: cannot open %s: %s", shown, strerror(reason));
    return false;
  }
  state.seen = calloc((size_t)options_count(), sizeof *state.seen);
  assert(state.seen);
  int wrong = ini_parse_stream(file_line, &state, file_pair, &state);
  if (ferror(state.stream) && !state.failed)
    state.line--, file_fail(&state, "cannot be read: %s", strerror(errno));
  state.line = wrong > 0 ? wrong : state.line;
  if (wrong != 0)
    file_fail(&state, "takes lines of the form `name = value`");
  free(state.seen);
  fclose(state.stream);
  return !state.failed;
}
