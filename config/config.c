#include "config/options.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

enum { URI_BYTES_MAX = 64 * 1024 };

/* Sets the error about a wrong value. It shows the value, except that of a URI option, which may contain a password. */
static void wrong_value(const struct config *config, int index, struct error *error)
{
  const struct option_row *row = &config_options[index];
  const struct config_setting *setting = &config->settings[index];
  char shown[120], takes[400];
  value_takes(row, takes, sizeof takes);
  if (row->kind == OPTION_URI)
    snprintf(shown, sizeof shown, "%s", *setting->value ? "a text that is not shown because it may hold a password" : "\"\"");
  else {
    char quoted[100];
    config_quote(setting->value, quoted, sizeof quoted);
    snprintf(shown, sizeof shown, "\"%s\"", quoted);
  }
  error_set(error, "--%s: got %s (from %.300s): takes %s", row->flag, shown, setting->origin, takes);
}

/* Removes blanks and CR around a line, and the byte order mark that editors on Windows put first. */
static char *line_trim(char *line)
{
  static const char blanks[] = " \t\r";
  line += strncmp(line, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
  line += strspn(line, blanks);
  size_t length = strlen(line);
  while (length > 0 && strchr(blanks, line[length - 1]))
    line[--length] = '\0';
  return line;
}

/* Returns the only line that is neither blank nor a comment; cuts the text into lines. NULL: there is none, or *second is the number of a
 * second one. */
static char *uri_line_find(char *text, int *second)
{
  char *found = NULL, *line;
  *second = 0;
  for (int number = 1; (line = strsep(&text, "\n")) != NULL; number++) {
    line = line_trim(line);
    if (*line == '\0' || *line == '#' || *line == ';')
      continue;
    if (found) {
      *second = number;
      return NULL;
    }
    found = line;
  }
  return found;
}

static char *uri_file_read(struct config *config, const char *path, struct error *error)
{
  char *text = config_keep(config, calloc(1, URI_BYTES_MAX + 1));
  FILE *stream = fopen(path, "re");
  if (!stream) {
    int reason = errno;
    char shown[400];
    config_quote(path, shown, sizeof shown);
    error_set(error, "--uri-file: cannot open %s: %s", shown, strerror(reason));
    return NULL;
  }
  errno = 0;
  size_t length = fread(text, 1, URI_BYTES_MAX, stream);
  bool failed = ferror(stream), more = getc(stream) != EOF;
  int reason = errno;
  fclose(stream);
  if (failed || more || strlen(text) != length) {
    char shown[400];
    config_quote(path, shown, sizeof shown);
    error_set(error, "--uri-file: cannot read a URI from %s: %s", shown, failed ? strerror(reason) : "too long, or no text");
    return NULL;
  }
  int second;
  char *uri = uri_line_find(text, &second);
  if (uri)
    return uri;
  char shown[400];
  config_quote(path, shown, sizeof shown);
  if (second)
    error_set(error, "--uri-file: got more than one line in %s, the second is line %d: takes one URI, blank lines and # comments", shown,
              second);
  else
    error_set(error, "--uri-file: got no URI in %s: takes one line with a URI, blank lines and # comments", shown);
  return NULL;
}

/* uri and uri-file are one setting in two forms: the higher source wins; both from the same source are an error. */
static bool uri_resolve(struct config *config, struct error *error)
{
  struct config_setting *uri = &config->settings[option_find(config->program, "uri")];
  struct config_setting *file = &config->settings[option_find(config->program, "uri-file")];
  config->uri_given = uri->source > SOURCE_DEFAULT || file->source > SOURCE_DEFAULT;
  if (file->source == SOURCE_NONE)
    return true;
  if (file->source == uri->source) {
    error_set(error, "--uri and --uri-file: got both (from %.300s and %.300s): give one of them", uri->origin, file->origin);
    return false;
  }
  if (file->source < uri->source) {
    *file = (struct config_setting){0};
    return true;
  }
  if (*file->value == '\0') {
    wrong_value(config, option_find(config->program, "uri-file"), error);
    return false;
  }
  char *text = uri_file_read(config, file->value, error);
  if (text)
    *uri = (struct config_setting){text, file->value, file->source};
  return text != NULL;
}

/*
 * If an '@' in a password is not written as %40, the driver takes the part of the password after it for a host, and shows it in every
 * error.
 */
static bool uri_user_encoded(const struct config *config, struct error *error)
{
  const struct config_setting *uri = &config->settings[option_find(config->program, "uri")];
  const char *begin = uri->value ? strstr(uri->value, "://") : NULL;
  if (begin == NULL)
    return true;
  size_t length = strcspn(begin + 3, "/?");
  const char *at = memchr(begin + 3, '@', length);
  if (at == NULL || memchr(at + 1, '@', (size_t)(begin + 3 + length - at - 1)) == NULL)
    return true;
  error_set(error, "--uri: got a connection string with more than one @ (from %.300s): in user and password, @ is written as %%40",
            uri->origin);
  return false;
}

static bool values_store(struct config *config, struct error *error)
{
  for (int i = 0; config_options[i].flag; i++)
    if (config->settings[i].value && !value_store(config, &config_options[i], config->settings[i].value)) {
      wrong_value(config, i, error);
      return false;
    }
  return true;
}

/*
 * Without --db the URI names the database, and its name there may be meant only for authentication. The field stays NULL, because the
 * driver decides; the setting is for --print-config and config_db_name.
 */
static bool db_resolve(struct config *config, struct error *error)
{
  struct config_setting *db = &config->settings[option_find(config->program, "db")];
  const struct config_setting *uri = &config->settings[option_find(config->program, "uri")];
  char name[80];
  if (db->value || !uri->value || !uri_db(uri->value, name, sizeof name))
    return true;
  if (db_reserved(name)) {
    error_set(error,
              "--uri: got the database \"%s\" (from %.300s): takes any but MongoDB's own admin, local and config (if it is the user's: "
              "authSource=%s in its place, or --db beside it)",
              name, uri->origin, name);
    return false;
  }
  db->value = config_keep(config, strdup(*name ? name : "pawl"));
  db->origin = config_keep(config, strdup(*name ? "the URI" : "default"));
  return true;
}

/* ---- values that depend on several options ---- */

static void setting_override(struct config *config, const char *flag, int64_t ms, const char *why)
{
  char text[40];
  value_duration_text(ms, text, sizeof text);
  struct config_setting *setting = &config->settings[option_find(config->program, flag)];
  setting->value = config_keep(config, strdup(text));
  setting->origin = config_keep(config, strdup(why));
}

static bool worker_derive(struct config *config, struct error *error)
{
  if (config->health && config->listen.port == 0) {
    error_set(error, "--health: got no --listen: takes the worker's, e.g. --listen 127.0.0.1:9464 (or PAWL_LISTEN, or the --config file)");
    return false;
  }
  if (config->type_count == 0 && !config->health) {
    error_set(error, "--type: got none: takes at least one type, e.g. --type t1 (or PAWL_TYPE=t1, or `type = t1` in the --config file)");
    return false;
  }
  if (config->exit_when_empty && config->settings[option_find(CONFIG_WORKER, "linger")].source == SOURCE_DEFAULT) {
    config->linger_ms = 0;
    setting_override(config, "linger", 0, "default with exit-when-empty");
  }
  if (config->stall_ms < 3 * config->lease_ms) {
    config->stall_ms = 3 * config->lease_ms;
    setting_override(config, "stall", config->stall_ms, "3 leases");
  }
  return true;
}

/* Makes an argument fit for a message: it may be a URI whose --uri, or even whose scheme, was forgotten. A name is shown unchanged. */
static void argument_quote(const char *argument, char *text, size_t size)
{
  char hidden[200];
  const char *colon = strchr(argument, ':');
  bool hides = colon && strchr(colon, '@');
  if (hides)
    config_uri_redact(argument, hidden, sizeof hidden);
  config_quote(hides ? hidden : argument, text, size);
}

static bool lock_name_check(const char *name, const char *what, struct error *error)
{
  char shown[150];
  if (type_name_valid(name))
    return true;
  argument_quote(name, shown, sizeof shown);
  error_set(error, "%s \"%s\": takes 1 to 128 bytes of A-Z a-z 0-9 _ . -, the first neither . nor -", what, shown);
  return false;
}

static bool lock_names_check(struct config *config, struct error *error)
{
  for (int i = 0; i < config->argument_count; i++) {
    if (!lock_name_check(config->arguments[i], "got the NAME", error))
      return false;
    for (int j = 0; j < i; j++)
      if (strcmp(config->arguments[i], config->arguments[j]) == 0) {
        error_set(error, "got the NAME \"%s\" twice: takes different NAMEs", config->arguments[i]);
        return false;
      }
  }
  if (config->argument_count > 0)
    config->names = config->arguments;
  return true;
}

/* The fields are not filled yet when the arguments are checked. */
static const char *lock_setting(const struct config *config, const char *flag)
{
  return config->settings[option_find(CONFIG_LOCK, flag)].value;
}

static bool lock_switch(const struct config *config, const char *flag)
{
  const char *value = lock_setting(config, flag);
  return value && strcmp(value, "true") == 0;
}

/* --forget, --show, --break and --list stand alone. False: none of them is given, or `error` says what is wrong; *alone tells. */
static bool lock_alone_check(struct config *config, bool *alone, struct error *error)
{
  static const char *const flags[] = {"forget", "show", "break"};
  const char *given = lock_switch(config, "list") ? "list" : NULL;
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    const char *name = lock_setting(config, flags[i]);
    char what[32];
    if (!name)
      continue;
    *alone = true;
    snprintf(what, sizeof what, "--%s: got", flags[i]);
    if (given)
      error_set(error, "--%s and --%s: takes one of them", given, flags[i]);
    if (given || !lock_name_check(name, what, error))
      return false;
    given = flags[i];
  }
  *alone = given != NULL;
  if (given && (config->argument_count > 0 || (config->command && config->command[0])))
    error_set(error, "--%s: takes no further NAME, and no command", given);
  else if (given && (lock_switch(config, "hold") || lock_setting(config, "document")))
    error_set(error, "--%s: takes no --%s: nothing is locked", given, lock_switch(config, "hold") ? "hold" : "document");
  else if (given && strcmp(given, "break") == 0 && !lock_setting(config, "reason"))
    error_set(error, "--break: takes --reason TEXT, too: the holder is told why");
  else
    return given != NULL;
  return false;
}

static bool lock_document_check(const struct config *config, struct error *error)
{
  static const char *const needy[] = {"sort", "field"};
  bool document = lock_setting(config, "document") != NULL;
  for (size_t i = 0; i < sizeof needy / sizeof *needy; i++)
    if (!document && lock_setting(config, needy[i]) != NULL) {
      error_set(error, "--%s: takes --document, too", needy[i]);
      return false;
    }
  if (document && config->argument_count > 0)
    error_set(error, "--document: takes no NAME: one document is locked, and nothing else");
  else if (document && strcmp(lock_setting(config, "slots"), "1") != 0)
    error_set(error, "--document: takes no --slots: a document has one holder");
  else
    return true;
  return false;
}

/* NAME... -- COMMAND...: command_cut took away the words after `--` before the flags were read. */
static bool lock_arguments_check(struct config *config, struct error *error)
{
  enum { NAMES_MAX = 100 };
  static const char takes[] = "takes NAME... -- COMMAND..., e.g. nightly -- ./backup";
  bool hold = lock_switch(config, "hold"), command = config->command && config->command[0], alone;
  if (lock_alone_check(config, &alone, error))
    return true;
  if (alone)
    return false;
  bool document = lock_setting(config, "document") != NULL;
  if (!lock_document_check(config, error))
    return false;
  if (config->argument_count == 0 && !document)
    error_set(error, "the NAME of a lock is missing: %s", takes);
  else if (config->argument_count > NAMES_MAX)
    error_set(error, "got %d NAMEs: takes at most %d", config->argument_count, NAMES_MAX);
  else if (!lock_names_check(config, error))
    return false;
  else if (hold && command)
    error_set(error, "--hold: takes NAMEs, and no command");
  else if (!hold && !command)
    error_set(error, "a command is missing after the NAME: %s", takes);
  else
    return true;
  return false;
}

static bool arguments_check(struct config *config, struct error *error)
{
  if (config->program == CONFIG_LOCK)
    return lock_arguments_check(config, error);
  if (config->program == CONFIG_ENQUEUE || config->program == CONFIG_DUMP || config->argument_count == 0)
    return true;
  char shown[100];
  argument_quote(config->arguments[0], shown, sizeof shown);
  error_set(error, "got \"%s\": takes options only%s", shown, config->program == CONFIG_WORKER ? ", e.g. --type t1" : "");
  return false;
}

static bool adopt_check(const struct config *config, struct error *error)
{
  if (config->adopt == NULL || type_name_valid(config->adopt))
    return true;
  char shown[150];
  config_quote(config->adopt, shown, sizeof shown);
  error_set(error, "--adopt: got \"%s\": takes a type, 1 to 128 bytes of A-Z a-z 0-9 _ . -, the first neither . nor -", shown);
  return false;
}

/* pawl-dump FILE ignores the types and DIR of the environment and of a file that all programs share: they are meant for other programs. */
static void dump_derive(struct config *config)
{
  static const char *const others[] = {"type", "dir"};
  for (size_t i = 0; i < sizeof others / sizeof *others && config->argument_count > 0; i++) {
    struct config_setting *setting = &config->settings[option_find(CONFIG_DUMP, others[i])];
    if (setting->source < SOURCE_FLAG)
      *setting = (struct config_setting){0};
  }
}

/* ---- public ---- */

enum config_status config_load(struct config *config, enum config_program program, int argc, char **argv, struct error *error)
{
  size_t count = 0;
  while (config_options[count].flag)
    count++;
  *config = (struct config){.program = program, .settings = calloc(count, sizeof *config->settings)};
  assert(config->settings);

  enum config_status status = source_flags(config, argc, argv, error);
  if (status == CONFIG_HELP || status == CONFIG_VERSION || status == CONFIG_WRONG)
    return status;
  source_environment(config);
  const char *path = config->settings[option_find(program, "config")].value;
  if (path && !source_file(config, path, error))
    return CONFIG_WRONG;
  source_defaults(config);
  if (program == CONFIG_DUMP)
    dump_derive(config);

  if (!arguments_check(config, error) || !uri_resolve(config, error) || !uri_user_encoded(config, error) || !values_store(config, error) ||
      !db_resolve(config, error))
    return CONFIG_WRONG;
  if (program == CONFIG_WORKER && !worker_derive(config, error))
    return CONFIG_WRONG;
  if (program == CONFIG_LOCK && config->nonblock)
    config->timeout_ms = 0;
  if (!adopt_check(config, error))
    return CONFIG_WRONG;
  return status;
}

const char *config_db_name(const struct config *config)
{
  const char *name = config->settings[option_find(config->program, "db")].value;
  return name ? name : "pawl";
}

void config_free(struct config *config)
{
  for (size_t i = 0; i < config->owned_count; i++)
    free(config->owned[i]);
  free(config->owned);
  free(config->settings);
  *config = (struct config){0};
}

/*
 * If a program is started without one of its standard streams, its next file or connection would get the number of the stream, and the
 * program would read from it or write to it. The descriptor opened here answers "Bad file descriptor", as the missing stream would.
 */
static void streams_occupy(void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

bool config_begin(struct config *config, enum config_program program, int argc, char **argv, FILE *out, FILE *err, int *exit_code)
{
  struct error error = {.text = ""};
  streams_occupy();
  enum config_status status = config_load(config, program, argc, argv, &error);
  bool loaded = status == CONFIG_RUN || status == CONFIG_PRINT;
  if (status == CONFIG_WRONG || (loaded && config->log_level >= CONFIG_LOG_WARN) || (loaded && program == CONFIG_STATUS))
    environment_warn(config, err);
  *exit_code = EXIT_DONE;
  switch (status) {
  case CONFIG_RUN:
    return true;
  case CONFIG_HELP:
    config_help(program, out);
    break;
  case CONFIG_VERSION:
    config_version(program, out);
    break;
  case CONFIG_PRINT:
    config_print(config, out);
    break;
  case CONFIG_WRONG:
    fprintf(err, "%s%s: %s\n", config_priority(CONFIG_LOG_ERROR), config_program_name(program), error.text);
    fprintf(err, "%ssee %s --help\n", config_priority(CONFIG_LOG_ERROR), config_program_name(program));
    *exit_code = EXIT_USAGE;
    break;
  }
  config_free(config);
  if (fflush(out) != 0)
    *exit_code = EXIT_FAILED;
  return false;
}
