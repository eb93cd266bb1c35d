#include "tools/lock/show.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- one a line ---- */

/* A host has no @, a name may have some. */
void show_append_host(bson_t *line, const struct pawl_entry *entry, const char *key)
{
  const char *at = strrchr(entry->host, '@');
  BSON_APPEND_UTF8(line, "host", at != NULL ? at + 1 : entry->host);
  if (at != NULL)
    bson_append_utf8(line, key, -1, entry->host, (int)(at - entry->host));
}

static void print_json(const struct pawl_entry *entry)
{
  bson_t line = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&line, "name", entry->name);
  BSON_APPEND_UTF8(&line, "state", entry->slot >= 0 ? "held" : "waiting");
  if (entry->slot >= 0) {
    BSON_APPEND_INT32(&line, "slot", entry->slot);
    BSON_APPEND_INT64(&line, "held_ms", entry->held_ms);
    BSON_APPEND_INT64(&line, "left_ms", entry->left_ms);
  } else {
    BSON_APPEND_INT32(&line, "place", entry->place);
  }
  show_append_host(&line, entry, "process");
  BSON_APPEND_INT64(&line, "pid", entry->pid);
  BSON_APPEND_UTF8(&line, "program", entry->program);
  char *json = bson_as_relaxed_extended_json(&line, NULL);
  printf("%s\n", json != NULL ? json : "{}");
  bson_free(json);
  bson_destroy(&line);
}

static void print_text(const struct pawl_entry *entry)
{
  char state[64];
  if (entry->slot < 0)
    snprintf(state, sizeof state, "waits, %d before it", entry->place);
  else
    snprintf(state, sizeof state, "held for %.1fs, lease %s%.1fs", (double)entry->held_ms / 1000, entry->left_ms > 0 ? "" : "over for ",
             (double)(entry->left_ms > 0 ? entry->left_ms : -entry->left_ms) / 1000);
  printf("%s", entry->name);
  if (entry->slot > 0)
    printf(" slot %d", entry->slot);
  printf(": %s, by %s, pid %" PRId64 " (%s)\n", state, entry->host[0] ? entry->host : "?", entry->pid, entry->program);
}

/* More may have come between two calls: asked again until all fit. A document that is not pawl's is said, and leaves the others to be
 * shown. NULL: said, and *code is the exit status. */
static struct pawl_entry *entries_of(const struct session *session, size_t *count, int *code)
{
  struct pawl_entry *entries = NULL;
  struct pawl_error error;
  for (size_t room = 0;;) {
    enum pawl_result result = pawl_list(session->pawl, session->config->show, entries, room, count, &error);
    bool listed = result == PAWL_OK || result == PAWL_FOREIGN, all = listed && *count <= room && entries != NULL;
    if (!all) {
      free(entries);
      room = *count + 64;
      entries = listed ? calloc(room, sizeof *entries) : NULL;
      if (entries != NULL)
        continue;
    }
    *code = session_exit_code(listed && !all ? PAWL_MEMORY : result);
    if (!all || result != PAWL_OK)
      session_say(session->config, CONFIG_LOG_ERROR, "%s", listed && !all ? "no memory" : error.text);
    return entries;
  }
}

int show_run(const struct session *session)
{
  size_t count;
  int code;
  bool held = false;
  struct pawl_entry *entries = entries_of(session, &count, &code);
  if (entries == NULL)
    return code;
  for (size_t i = 0; i < count; i++) {
    held = held || entries[i].slot >= 0;
    if (session->config->json)
      print_json(&entries[i]);
    else
      print_text(&entries[i]);
  }
  free(entries);
  if (fflush(stdout) != 0)
    return EXIT_FAILED;
  return held || session->config->show == NULL ? code : EXIT_FAILED;
}

int break_run(const struct session *session)
{
  const struct config *config = session->config;
  struct pawl_error error;
  enum pawl_result result = pawl_break(session->pawl, config->break_name, -1, config->reason, &error);
  if (result == PAWL_OK)
    session_say(config, CONFIG_LOG_INFO, "%s: broken", config->break_name);
  else
    session_say(config, CONFIG_LOG_ERROR, "%s: %s", config->break_name, session_text(config->break_name, error.text));
  return result == PAWL_NOTHING ? EXIT_FAILED : session_exit_code(result);
}
