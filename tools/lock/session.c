#include "tools/lock/session.h"
#include "tools/lock/command.h"
#include "tools/lock/document.h"
#include "tools/lock/hold.h"

#include <bson/bson.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { CANCEL_MS = 5000, RELEASE_MS = 6000 };

/* ---- logging ---- */

void session_say(const struct config *config, enum config_log_level level, const char *format, ...)
{
  char text[1400];
  va_list arguments;
  if (level > config->log_level)
    return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%spawl-lock: %s\n", config_priority(level), text);
}

/* The library's texts begin with what it was doing to which lock: "taking n: …". */
const char *session_text(const char *name, const char *text)
{
  char head[TYPE_BYTES_MAX + sizeof " : "];
  snprintf(head, sizeof head, " %s: ", name);
  if (strncmp(text, head + 1, strlen(head) - 1) == 0)
    return text + strlen(head) - 1;
  const char *found = strstr(text, head);
  return found != NULL ? found + strlen(head) : text;
}

static int session_place(const struct session *session, pawl_hold hold)
{
  int i = 0;
  while (i < session->count - 1 && session->holds[i] != hold)
    i++;
  return i;
}

const char *session_name(const struct session *session, pawl_hold hold)
{
  return session->names[session_place(session, hold)];
}

/* ---- the library's events ---- */

int session_exit_code(enum pawl_result result)
{
  switch (result) {
  case PAWL_OK:
  case PAWL_NOTHING:
    return EXIT_DONE;
  case PAWL_INVALID:
  case PAWL_REFUSED:
  case PAWL_DENIED:
  case PAWL_MISMATCH:
    return EXIT_USAGE;
  case PAWL_BUSY:
  case PAWL_TIMEOUT:
  case PAWL_UNKNOWN:
  case PAWL_LOGIN:
    return EXIT_UNAVAILABLE;
  case PAWL_MALFORMED:
    return EXIT_UNTRUSTED;
  case PAWL_FOREIGN:
  case PAWL_CANCELLED:
  case PAWL_LOST:
  case PAWL_FENCED:
  case PAWL_HELD:
  case PAWL_FORKED:
  case PAWL_MEMORY:
    break;
  }
  return EXIT_FAILED;
}

/* It comes for each lock; the first says why. */
static void failed(struct session *session, const struct pawl_event *event)
{
  const struct config *config = session->config;
  char name[TYPE_BYTES_MAX + 1] = "";
  if (sscanf(event->error.text, "taking %128[^:]: ", name) != 1) /* of all it fails for one */
    snprintf(name, sizeof name, "%s", session_name(session, event->hold));
  const char *why = session_text(name, event->error.text);
  bool conflict = event->result == PAWL_BUSY || event->result == PAWL_TIMEOUT;
  if (++session->failed == session->count)
    session->state = SESSION_FAILED; /* not before: what was taken has to be given back first */
  if (session->failed > 1)
    return;
  session->code = conflict ? (int)config->conflict_exit : session_exit_code(event->result);
  if (event->result == PAWL_CANCELLED) /* by a signal, which ends this process but for --hold; or by the end of standard input */
    session->code = (int)config->conflict_exit;
  if (event->result == PAWL_BUSY)
    session_say(config, CONFIG_LOG_ERROR, "%s: the time is over, and %s", name, why);
  else if (event->result == PAWL_UNKNOWN)
    session_say(config, CONFIG_LOG_ERROR, "%s: the time is over, and whether it is free is not known: %s", name, why);
  else if (event->result != PAWL_CANCELLED)
    session_say(config, CONFIG_LOG_ERROR, "%s: %s", name, why);
  else if (config->hold)
    session_say(config, CONFIG_LOG_ERROR, "%s: not held: standard input has ended, or a signal came, while it waited", name);
}

static void away(const struct session *session, const struct pawl_event *event)
{
  const struct config *config = session->config;
  const char *name = session_name(session, event->hold), *why = session_text(name, event->error.text);
  if (session->state == SESSION_HOLDS)
    session_say(config, CONFIG_LOG_WARN, "%s: %s; tries again", name, why);
  else if (event->result != PAWL_UNKNOWN)
    session_say(config, CONFIG_LOG_WARN, "%s; trying again", why);
  else
    session_say(config, CONFIG_LOG_WARN, "MongoDB gives no answer: %s; trying again until it does", why);
}

static void back(const struct session *session, const struct pawl_event *event)
{
  if (session->state == SESSION_HOLDS)
    session_say(session->config, CONFIG_LOG_INFO, "%s: the lock is renewed again", session_name(session, event->hold));
  else
    session_say(session->config, CONFIG_LOG_INFO, "MongoDB answers again");
}

void session_lost(struct session *session, const char *name, const char *why)
{
  command_end();
  if (!session->lost)
    session_say(session->config, CONFIG_LOG_ERROR, "%s: the lock is lost: %s%s", name, why,
                session->config->hold ? "" : "; ending the command");
  session->lost = true;
}

static void waits(const struct session *session, const struct pawl_event *event)
{
  const char *held = strstr(event->error.text, "held by ");
  const char *name = session_name(session, event->hold);
  session_say(session->config, CONFIG_LOG_INFO, "waits for %s, %s", name, held != NULL ? held : session_text(name, event->error.text));
}

/* The end of the wait may meet a lock that has just been taken. */
static void released(struct session *session, const struct pawl_event *event)
{
  session->results[session_place(session, event->hold)] = event->result;
  session->released++;
  if (session->state == SESSION_CANCELS)
    failed(session, &(struct pawl_event){.hold = event->hold, .result = PAWL_CANCELLED});
}

static void event_handle(struct session *session, const struct pawl_event *event)
{
  const char *name = session_name(session, event->hold);
  if (session->config->hold)
    hold_print(session, event);
  switch (event->kind) {
  case PAWL_EVENT_WAITS:
    waits(session, event);
    return;
  case PAWL_EVENT_AWAY:
    away(session, event);
    return;
  case PAWL_EVENT_BACK:
    back(session, event);
    return;
  case PAWL_EVENT_HELD:
    session->held++;
    if (session->held == session->count && session->state == SESSION_WAITS)
      session->state = SESSION_HOLDS;
    return;
  case PAWL_EVENT_FAILED:
    failed(session, event);
    return;
  case PAWL_EVENT_LOST:
    session_lost(session, name, session_text(name, event->error.text));
    return;
  case PAWL_EVENT_RELEASED:
    released(session, event);
    return;
  }
}

void session_events(struct session *session)
{
  struct pawl_event event = {.size = sizeof event};
  while (pawl_next(session->pawl, &event))
    event_handle(session, &event);
}

/* ---- taking ---- */

static int64_t soon(int64_t until_ms)
{
  int64_t soon_ms = command_now_ms() + LOOK_MS;
  return soon_ms < until_ms ? soon_ms : until_ms;
}

/* A signal ends the wait: its entry in the wait queue is removed first, which takes some requests. */
static void wait_for_events(struct session *session)
{
  struct pollfd polled[] = {{.fd = session->events, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  int64_t until_ms = INT64_MAX;
  bool ended = false;
  while ((session->state == SESSION_WAITS || session->state == SESSION_CANCELS) && command_now_ms() < until_ms) {
    if (session->state == SESSION_WAITS && (command_signalled() || ended)) {
      session->state = SESSION_CANCELS;
      for (int i = 0; i < session->count; i++)
        (void)pawl_release_begin(session->pawl, session->holds[i], NULL);
      session->code = (int)session->config->conflict_exit;
      until_ms = command_now_ms() + CANCEL_MS;
    }
    (void)command_poll(polled, session->config->hold && !ended ? 2 : 1, soon(until_ms));
    ended = ended || (session->config->hold && polled[1].revents != 0 && hold_input_ended());
    session_events(session);
  }
}

static enum pawl_result names_begin(struct session *session, const struct pawl_terms *terms, struct pawl_error *error)
{
  struct pawl_want wants[NAMES_MAX];
  session->names = session->config->names;
  for (session->count = 0; session->names[session->count] != NULL; session->count++)
    wants[session->count] = (struct pawl_want){.name = session->names[session->count], .slots = (int)session->config->slots};
  return pawl_take_begin(session->pawl, wants, (size_t)session->count, terms, session->holds, error);
}

static enum pawl_result document_begin(struct session *session, const struct pawl_terms *terms, struct pawl_error *error)
{
  static char *names[2];
  struct document document;
  struct error wrong;
  if (!document_read(session->config, &document, &wrong)) {
    snprintf(error->text, sizeof error->text, "%.1000s", wrong.text);
    return error->result = PAWL_INVALID;
  }
  const struct pawl_document which = {.size = sizeof which,
                                      .collection = document.collection,
                                      .field = session->config->field,
                                      .filter = bson_get_data(document.filter),
                                      .sort = document.sort != NULL ? bson_get_data(document.sort) : NULL};
  names[0] = document.collection;
  session->names = names;
  session->count = 1;
  enum pawl_result result = pawl_document_take_begin(session->pawl, &which, terms, session->holds, error);
  document_free(&document);
  return result;
}

bool session_take(struct session *session)
{
  const struct config *config = session->config;
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = config->timeout_ms < 0 ? PAWL_FOR_EVER : config->timeout_ms};
  struct pawl_error error;
  enum pawl_result result = (config->document != NULL ? document_begin : names_begin)(session, &terms, &error);
  if (result == PAWL_OK) {
    wait_for_events(session);
    return session->state == SESSION_HOLDS;
  }
  session->code = session_exit_code(result);
  session_say(config, CONFIG_LOG_ERROR, "%s", error.text);
  return false;
}

bool session_document(const struct session *session, bson_t *document)
{
  uint32_t length;
  const uint8_t *bytes = session->config->document != NULL ? pawl_document_bytes(session->pawl, session->holds[0]) : NULL;
  if (bytes == NULL)
    return false;
  memcpy(&length, bytes, sizeof length);
  return bson_init_static(document, bytes, BSON_UINT32_FROM_LE(length));
}

/* ---- releasing ---- */

/* The last first. */
void session_release(struct session *session)
{
  struct pollfd polled = {.fd = session->events, .events = POLLIN};
  int64_t until_ms = command_now_ms() + RELEASE_MS;
  session->released = 0;
  for (int i = session->count; i-- > 0;) {
    session->results[i] = PAWL_UNKNOWN;
    session->released += pawl_release_begin(session->pawl, session->holds[i], NULL) != PAWL_OK; /* there is no such hold any more */
  }
  while (session->released < session->count && command_now_ms() < until_ms) {
    (void)command_poll(&polled, 1, soon(until_ms));
    session_events(session);
  }
  for (int i = 0; i < session->count; i++)
    if (session->results[i] != PAWL_OK && session->results[i] != PAWL_LOST)
      session_say(session->config, CONFIG_LOG_WARN, "%s: %s; the lock ends with its lease", session->names[i],
                  session->results[i] == PAWL_UNKNOWN ? "MongoDB gave no answer to its release" : "MongoDB does not permit its release");
}
