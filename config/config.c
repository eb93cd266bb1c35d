#include "config/options.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* Of a list what is wrong with it; but of a URI, which may be there by mistake, no part: its password may have commas. */
static void value_quote(const struct option_row *row, const char *value, char *quoted, size_t size)
{
  char name[TYPE_BYTES_MAX + 2]; /* longer than a type: it does not look like one */
  size_t length;
  const char *wrong = row->kind == OPTION_TYPES && strstr(value, "://") == NULL ? types_wrong(value, &length) : NULL;
  bool shown = wrong != NULL && length > 0;
  if (shown)
    snprintf(name, sizeof name, "%.*s", (int)length, wrong);
  config_quote(shown ? name : value, quoted, size);
}

void wrong_value(const struct config *config, int index, struct error *error)
{
  const struct option_row *row = &config_options[index];
  const struct config_setting *setting = &config->settings[index];
  char shown[120], takes[500];
  value_takes(row, takes, sizeof takes);
  if (row->kind == OPTION_URI)
    snprintf(shown, sizeof shown, "%s", *setting->value ? "a text that is not shown because it may hold a password" : "\"\"");
  else {
    char quoted[100];
    value_quote(row, setting->value, quoted, sizeof quoted);
    snprintf(shown, sizeof shown, "\"%s\"", quoted);
  }
  error_set(error, "--%s: got %s (from %.300s): takes %s", row->flag, shown, setting->origin, takes);
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

/* A path to a field, of which --where has the value after it. */
static bool path_check(const struct config *config, const char *flag, const char *text, bool valued, struct error *error)
{
  char shown[100];
  if (text == NULL)
    return true;
  size_t length = valued ? strcspn(text, "=") : strlen(text);
  if (field_path_valid(text, length) && (!valued || text[length] == '='))
    return true;
  config_quote(text, shown, sizeof shown);
  error_set(error, "--%s: got \"%s\" (from %.300s): takes %s, %s 1 to %d keys with dots between them, such as order.id", flag, shown,
            config->settings[option_find(config->program, flag)].origin, valued ? "FIELD=VALUE" : "FIELD", valued ? "the FIELD of" : "of",
            FIELD_PATH_KEYS_MAX);
  return false;
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
  if (!path_check(config, "trace", config->trace, false, error))
    return false;
  if (config->health && config->listen.port == 0) {
    error_set(error, "--health: got no --listen: takes the worker's, e.g. --listen 127.0.0.1:9464 (or PAWL_LISTEN, or the --config file)");
    return false;
  }
  if (!worker_types_derive(config, error))
    return false;
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

static bool monitor_derive(const struct config *config, struct error *error)
{
  if (config->listen.port != 0)
    return true;
  error_set(error, "--listen: got none: pawl-monitor takes an address, for it does nothing else, e.g. --listen 127.0.0.1:9465");
  return false;
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
  bool on = true; /* a wrong value: the error comes when it is stored */
  return value && (!value_bool(value, &on) || on);
}

/* --forget, --prune, --show, --break and --list stand alone. False: none of them is given, or `error` says what is wrong; *alone tells. */
static bool lock_alone_check(struct config *config, bool *alone, struct error *error)
{
  static const char *const flags[] = {"forget", "show", "break"};
  bool list = lock_switch(config, "list"), prune = lock_switch(config, "prune");
  const char *given = list ? "list" : prune ? "prune" : NULL;
  if (list && prune) {
    error_set(error, "--list and --prune: takes one of them");
    *alone = true;
    return false;
  }
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

bool type_check(const char *flag, const char *type, struct error *error)
{
  if (type == NULL || type_name_valid(type))
    return true;
  char shown[150];
  config_quote(type, shown, sizeof shown);
  error_set(error, "--%s: got \"%s\": takes a type, 1 to 128 bytes of A-Z a-z 0-9 _ . -, the first neither . nor -", flag, shown);
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

  if (!arguments_check(config, error) || !uris_resolve(config, error) || !values_store(config, error) || !types_resolve(config, error) ||
      !dbs_resolve(config, error))
    return CONFIG_WRONG;
  if (program == CONFIG_WORKER && !worker_derive(config, error))
    return CONFIG_WRONG;
  if (program == CONFIG_MONITOR && !monitor_derive(config, error))
    return CONFIG_WRONG;
  if (program == CONFIG_LOCK && config->nonblock)
    config->timeout_ms = 0;
  if (program == CONFIG_LOCK && !reason_check(config->reason, error))
    return CONFIG_WRONG;
  if (program == CONFIG_STATUS && !status_modes_check(config, error))
    return CONFIG_WRONG;
  if (program == CONFIG_SETUP)
    config->yes_typed = config->yes && config->settings[option_find(program, "yes")].source == SOURCE_FLAG;
  if ((program == CONFIG_SETUP && !setup_check(config, error)) || !path_check(config, "where", config->where, true, error))
    return CONFIG_WRONG;
  return status;
}

const char *config_file_name(const struct config *config, const char *flag)
{
  return config->settings[option_find(config->program, flag)].value;
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
