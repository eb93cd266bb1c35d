#include "worker/database_log.h"
#include "worker/clock.h"
#include "worker/log.h"
#include "worker/queue.h"

#include <assert.h>

enum { REFUSED_MS = 30000 }; /* what is still wanted is tried again sooner */

static void say(enum config_log_level level, const char *event, const char *text)
{
  struct log_subject process = {0};
  log_line(level, &process, event, text);
}

/* What was not refused again for so long is not wanted any more. */
static void refusals_forget(struct database_log *log, int64_t now_ms)
{
  for (int kind = 0; kind < ACTION_COUNT; kind++)
    if (log->refused & 1u << kind && now_ms - log->refused_ms[kind] >= REFUSED_MS)
      log->refused &= ~(1u << kind);
}

/*
 * One line when the database goes away, one when it is back, whatever the number of types. What it refuses (user, password, a right) is
 * said once for a kind of action, until one of that kind succeeds; others may well succeed meanwhile, and some are not
 * sent again when the lock is gone.
 */
void database_log_action(struct database_log *log, const struct completion *completion)
{
  static_assert(ACTION_COUNT <= 8 * sizeof log->refused, "a bit for each kind of action");
  if (!completion->asked)
    return;
  const char *why = completion->error.text;
  enum action_kind asked = completion->kind == ACTION_BEGIN || completion->kind == ACTION_APPEND || completion->kind == ACTION_CLOSE
                               ? ACTION_COMMIT /* that is what they ask for, and what is sent again */
                               : completion->kind;
  unsigned kind = 1u << asked;
  bool away = completion->result == RESULT_UNKNOWN, refused = away && completion->error.reason != ERROR_OTHER;
  struct error text;
  if (away) {
    log->last = completion->error;
    log->last_ms = clock_boot_ms();
  }
  if (refused && !(log->refused & kind)) {
    error_set(&text, "%.800s; trying again", why);
    say(CONFIG_LOG_WARN, "database", text.text);
  } else if (away && !refused && !log->logged_away) {
    error_set(&text, "MongoDB gives no answer: %.800s; trying again until it does", why);
    say(CONFIG_LOG_WARN, "database", text.text);
  } else if (!away && (log->logged_away || log->refused & kind)) {
    say(CONFIG_LOG_INFO, "database", "MongoDB answers again");
  }
  log->asked = true;
  log->refused = refused ? log->refused | kind : away ? log->refused : log->refused & ~kind;
  if (refused)
    log->refused_ms[asked] = clock_boot_ms();
  else if (!away)
    refusals_forget(log, clock_boot_ms());
  log->denied = log->refused != 0 && (refused ? completion->error.reason == ERROR_RIGHT : log->denied);
  log->away = away && !refused;
  log->logged_away = away && (!refused || log->logged_away);
}

/* A poll or pass that was answered has also prepared the database, where that was to be done: at first, and after an upgrade. */
bool database_log_server(struct database_log *log, const struct completion *completion, struct lockstore *store)
{
  struct error text;
  bool polled = completion->kind == ACTION_POLL || completion->kind == ACTION_READ;
  if (!polled || (completion->result != RESULT_YES && completion->result != RESULT_NO) || !lockstore_is_known(store))
    return false;
  queue_describe(store, &text);
  if (strcmp(log->described.text, text.text) == 0)
    return false;
  log->described = text;
  say(CONFIG_LOG_INFO, "database", text.text);
  return true;
}
