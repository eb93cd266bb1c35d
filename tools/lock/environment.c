#include "tools/lock/environment.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const ours[] = {"PAWL_LOCK_NAME", "PAWL_LOCK_EPOCH", "PAWL_LOCK_HELD", "PAWL_LOCK_DOCUMENT"};
enum { OURS = sizeof ours / sizeof *ours };

enum { DOCUMENT_BYTES_MAX = 100 * 1024 }; /* the kernel takes no string of more than 128 KiB */

/* ---- of this process ---- */

/* Calls for each name between blanks; false: one call did not succeed. */
static bool each_name(const char *names, bool (*check)(const char *name, const struct config *config, struct error *error),
                      const struct config *config, struct error *error)
{
  char name[TYPE_BYTES_MAX + 1];
  int length;
  for (; names != NULL && sscanf(names, " %128[^ ]%n", name, &length) == 1; names += length)
    if (!check(name, config, error))
      return false;
  return true;
}

static bool check_one(const char *held, const struct config *config, struct error *error)
{
  for (char **name = config->names; *name != NULL; name++) {
    if (strcmp(*name, held) == 0) {
      error_set(error, "%s: the pawl-lock that this one runs under holds it (PAWL_LOCK_HELD): it would wait for itself", held);
      return false;
    }
    if (strcmp(*name, held) < 0 && config->timeout_ms < 0) {
      error_set(
          error,
          "%s: taken under %s, it may wait for ever for a process that takes them in the order of their names: takes both at once, or "
          "that order, or --timeout",
          *name, held);
      return false;
    }
  }
  return true;
}

bool environment_check(const struct config *config, struct error *error)
{
  if (config->names == NULL)
    return true;
  return each_name(getenv("PAWL_LOCK_HELD"), check_one, config, error) && each_name(getenv("PAWL_LOCK_NAME"), check_one, config, error);
}

/* ---- of the command ---- */

static void names_print(FILE *to, const struct session *session)
{
  for (int i = 0; i < session->count; i++)
    fprintf(to, "%s%s", i > 0 ? " " : "", session->names[i]);
}

static void held_print(FILE *to, const struct session *session)
{
  const char *outer = getenv("PAWL_LOCK_HELD");
  bool more = outer != NULL && outer[0] != 0;
  fprintf(to, "PAWL_LOCK_HELD=%s", more ? outer : "");
  if (session->config->names == NULL)
    return; /* a document */
  if (more)
    putc(' ', to);
  names_print(to, session);
}

/* One text, in which each entry ends with a NUL. NULL: no memory. */
static char *entries_print(const struct session *session)
{
  char *text = NULL;
  size_t size;
  bson_t document;
  FILE *to = open_memstream(&text, &size);
  if (to == NULL)
    return NULL;
  fputs("PAWL_LOCK_NAME=", to);
  names_print(to, session);
  fprintf(to, "%cPAWL_LOCK_EPOCH=", 0);
  for (int i = 0; i < session->count; i++)
    fprintf(to, "%s%" PRId64, i > 0 ? " " : "", pawl_token(session->pawl, session->holds[i]));
  putc(0, to);
  held_print(to, session);
  putc(0, to);
  char *json = session_document(session, &document) ? bson_as_canonical_extended_json(&document, NULL) : NULL;
  if (json != NULL && strlen(json) <= DOCUMENT_BYTES_MAX)
    fprintf(to, "PAWL_LOCK_DOCUMENT=%s%c", json, 0);
  bson_free(json);
  if (fclose(to) == 0) /* which adds a NUL: an empty entry */
    return text;
  free(text);
  return NULL;
}

static bool is_ours(const char *entry)
{
  for (int i = 0; i < OURS; i++)
    if (strncmp(entry, ours[i], strlen(ours[i])) == 0 && entry[strlen(ours[i])] == '=')
      return true;
  return false;
}

char **environment_new(const struct session *session)
{
  size_t count = 0, used = 0;
  while (environ[count] != NULL)
    count++;
  char *entries = entries_print(session), **environment = calloc(count + OURS + 1, sizeof *environment);
  if (entries == NULL || environment == NULL) {
    free(entries);
    free(environment);
    return NULL;
  }
  for (size_t i = 0; i < count; i++)
    if (!is_ours(environ[i]))
      environment[used++] = environ[i];
  for (char *entry = entries; *entry != 0; entry += strlen(entry) + 1)
    environment[used++] = entry;
  return environment;
}
