#include "config/options.h"

#include <errno.h>
#include <stdlib.h>

/* The options that name a connection and a database: --uri, --uri-file and --db, and in pawl-setup those of --carry. */

enum { URI_BYTES_MAX = 64 * 1024 };

struct uri_options {
  const char *uri, *file, *db;
};
static const struct uri_options own_options = {"uri", "uri-file", "db"}, carry_options = {"to-uri", "to-uri-file", "to-db"};

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

static char *uri_file_read(struct config *config, const struct uri_options *options, const char *path, struct error *error)
{
  char *text = config_keep(config, calloc(1, URI_BYTES_MAX + 1));
  FILE *stream = fopen(path, "re");
  if (!stream) {
    int reason = errno;
    char shown[400];
    config_quote(path, shown, sizeof shown);
    error_set(error, "--%s: cannot open %s: %s", options->file, shown, strerror(reason));
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
    error_set(error, "--%s: cannot read a URI from %s: %s", options->file, shown, failed ? strerror(reason) : "too long, or no text");
    return NULL;
  }
  int second;
  char *uri = uri_line_find(text, &second);
  if (uri)
    return uri;
  char shown[400];
  config_quote(path, shown, sizeof shown);
  if (second)
    error_set(error, "--%s: got more than one line in %s, the second is line %d: takes one URI, blank lines and # comments", options->file,
              shown, second);
  else
    error_set(error, "--%s: got no URI in %s: takes one line with a URI, blank lines and # comments", options->file, shown);
  return NULL;
}

/* A URI and its file are one setting in two forms: the higher source wins; both from the same source are an error. */
static bool uri_resolve(struct config *config, const struct uri_options *options, struct error *error)
{
  struct config_setting *uri = &config->settings[option_find(config->program, options->uri)];
  struct config_setting *file = &config->settings[option_find(config->program, options->file)];
  if (file->source == SOURCE_NONE)
    return true;
  if (file->source == uri->source) {
    error_set(error, "--%s and --%s: got both (from %.300s and %.300s): give one of them", options->uri, options->file, uri->origin,
              file->origin);
    return false;
  }
  if (file->source < uri->source) {
    *file = (struct config_setting){0};
    return true;
  }
  if (*file->value == '\0') {
    wrong_value(config, option_find(config->program, options->file), error);
    return false;
  }
  char *text = uri_file_read(config, options, file->value, error);
  if (text)
    *uri = (struct config_setting){text, file->value, file->source};
  return text != NULL;
}

/*
 * If an '@' in a password is not written as %40, the driver takes the part of the password after it for a host, and shows it in every
 * error.
 */
static bool uri_user_encoded(const struct config *config, const struct uri_options *options, struct error *error)
{
  const struct config_setting *uri = &config->settings[option_find(config->program, options->uri)];
  const char *begin = uri->value ? strstr(uri->value, "://") : NULL;
  if (begin == NULL)
    return true;
  size_t length = strcspn(begin + 3, "/?");
  const char *at = memchr(begin + 3, '@', length);
  if (at == NULL || memchr(at + 1, '@', (size_t)(begin + 3 + length - at - 1)) == NULL)
    return true;
  error_set(error, "--%s: got a connection string with more than one @ (from %.300s): in user and password, @ is written as %%40",
            options->uri, uri->origin);
  return false;
}

/*
 * Without --db the URI names the database, and its name there may be meant only for authentication. The field stays NULL, because the
 * driver decides; the setting is for --print-config and config_db_name.
 */
static bool db_resolve(struct config *config, const struct uri_options *options, struct error *error)
{
  struct config_setting *db = &config->settings[option_find(config->program, options->db)];
  const struct config_setting *uri = &config->settings[option_find(config->program, options->uri)];
  char name[80];
  if (db->value || !uri->value || !uri_db(uri->value, name, sizeof name))
    return true;
  if (db_reserved(name)) {
    error_set(error,
              "--%s: got the database \"%s\" (from %.300s): takes any but MongoDB's own admin, local and config (if it is the user's: "
              "authSource=%s in its place, or --%s beside it)",
              options->uri, name, uri->origin, name, options->db);
    return false;
  }
  db->value = config_keep(config, strdup(*name ? name : "pawl"));
  db->origin = config_keep(config, strdup(*name ? "the URI" : "default"));
  return true;
}

bool uris_resolve(struct config *config, struct error *error)
{
  config->uri_given = config->settings[option_find(config->program, "uri")].source > SOURCE_DEFAULT ||
                      config->settings[option_find(config->program, "uri-file")].source > SOURCE_DEFAULT;
  return uri_resolve(config, &own_options, error) && uri_user_encoded(config, &own_options, error) &&
         (config->program != CONFIG_SETUP ||
          (uri_resolve(config, &carry_options, error) && uri_user_encoded(config, &carry_options, error)));
}

bool dbs_resolve(struct config *config, struct error *error)
{
  return db_resolve(config, &own_options, error) && (config->program != CONFIG_SETUP || db_resolve(config, &carry_options, error));
}
