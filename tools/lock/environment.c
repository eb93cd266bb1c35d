#include "tools/lock/environment.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const ours[] = {"PAWL_LOCK_NAME", "PAWL_LOCK_EPOCH", "PAWL_LOCK_SLOT", "PAWL_LOCK_HELD", "PAWL_LOCK_DOCUMENT"};
enum { OURS = sizeof ours / sizeof *ours };

enum { DOCUMENT_BYTES_MAX = 100 * 1024 }; /* the kernel takes no string of more than 128 KiB */

/* ---- of this process ---- */

static bool same(const char *name, const char *held, size_t length)
{
  return strlen(name) == length && memcmp(name, held, length) == 0;
}

static bool waits_for_itself(const char *name, struct error *error)
{
  error_set(error, "%.200s: the pawl-lock that this one runs under holds it (PAWL_LOCK_HELD): it would wait for itself", name);
  return false;
}

/* `held` is one name that is held above, or COLLECTION/ID. */
static bool check_one(const struct config *config, const char *held, size_t length, struct error *error)
{
  if (config->document != NULL && same(config->document, held, length))
    return waits_for_itself(config->document, error);
  for (char **name = config->names; name != NULL && *name != NULL; name++) {
    if (same(*name, held, length))
      return waits_for_itself(*name, error);
    if (memchr(held, '/', length) == NULL && strncmp(*name, held, length) < 0 && config->timeout_ms < 0) {
      error_set(error,
                "%s: taken under %.*s, it may wait for ever for a process that takes them in the order of their names: take both at once, "
                "or in that order, or with --timeout",
                *name, (int)length, held);
      return false;
    }
  }
  return true;
}

bool environment_check(const struct config *config, struct error *error)
{
  const char *held = getenv("PAWL_LOCK_HELD");
  size_t length;
  for (held = held != NULL ? held : ""; *held != 0; held += length) {
    held += strspn(held, " ");
    length = strcspn(held, " ");
    if (length > 0 && !check_one(config, held, length, error))
      return false;
  }
  return true;
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
  const char *document = session->config->document;
  fprintf(to, "PAWL_LOCK_HELD=%s", more ? outer : "");
  if (document != NULL && strpbrk(document, " {") != NULL)
    return; /* of a query, which may mean another document each time, nothing is known */
  if (more)
    putc(' ', to);
  if (document != NULL)
    fputs(document, to);
  else
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
  fprintf(to, "%cPAWL_LOCK_SLOT=", 0);
  for (int i = 0; i < session->count; i++)
    fprintf(to, "%s%d", i > 0 ? " " : "", pawl_slot(session->pawl, session->holds[i]));
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
