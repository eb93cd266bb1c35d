#include "tools/lock/hold.h"
#include "tools/lock/command.h"
#include "tools/lock/show.h"

#include <bson/bson.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- the lines ---- */

static void line_begin(bson_t *line, const char *event, const char *name)
{
  bson_init(line);
  BSON_APPEND_INT32(line, "v", 1);
  BSON_APPEND_UTF8(line, "event", event);
  BSON_APPEND_UTF8(line, "name", name);
}

/* At once: a program waits for it. Where nobody reads it any more, the next look at standard input sees the end. */
static void line_end(bson_t *line)
{
  char *json = bson_as_relaxed_extended_json(line, NULL);
  printf("%s\n", json != NULL ? json : "{}");
  fflush(stdout);
  bson_free(json);
  bson_destroy(line);
}

/* Not, if a text in it is not UTF-8. */
static bool json_holds(const bson_t *document)
{
  char *json = bson_as_relaxed_extended_json(document, NULL);
  bson_free(json);
  return json != NULL;
}

static void tell_held(const struct session *session, pawl_hold hold)
{
  bson_t line, document;
  struct timespec now;
  char text[sizeof "2026-01-01T00:00:00.000Z"];
  int64_t left_ms = pawl_left_ms(session->pawl, hold);
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t until_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 + left_ms;
  time_t seconds = (time_t)(until_ms / 1000);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime(&seconds));
  snprintf(text + strlen(text), sizeof text - strlen(text), ".%03dZ", (int)(until_ms % 1000));
  line_begin(&line, "held", session_name(session, hold));
  BSON_APPEND_INT64(&line, "epoch", pawl_token(session->pawl, hold));
  BSON_APPEND_INT32(&line, "slot", pawl_slot(session->pawl, hold));
  BSON_APPEND_INT64(&line, "lease_ms", session->config->lease_ms);
  BSON_APPEND_INT64(&line, "deadline_boot_ms", command_now_ms() + left_ms);
  BSON_APPEND_UTF8(&line, "deadline", text);
  if (session_document(session, &document) && json_holds(&document))
    BSON_APPEND_DOCUMENT(&line, "document", &document);
  line_end(&line);
}

static const char *reason_name(enum pawl_reason reason)
{
  static const char *const names[] = {
      [PAWL_REASON_NONE] = "none",       [PAWL_REASON_EXPIRED] = "expired", [PAWL_REASON_AWAY] = "away", [PAWL_REASON_STOLEN] = "stolen",
      [PAWL_REASON_REMOVED] = "removed", [PAWL_REASON_BROKEN] = "broken",   [PAWL_REASON_OVER] = "over", [PAWL_REASON_FORKED] = "forked"};
  return names[reason];
}

static bool is_mine(const struct pawl_entry *entry)
{
  char host[sizeof entry->host] = "";
  gethostname(host, sizeof host - 1);
  return entry->pid == getpid() && strcmp(entry->host, host) == 0;
}

static void append_holder(bson_t *line, const struct pawl_entry *entry)
{
  bson_t holder;
  BSON_APPEND_DOCUMENT_BEGIN(line, "holder", &holder);
  show_append_host(&holder, entry, "name");
  BSON_APPEND_INT64(&holder, "pid", entry->pid);
  BSON_APPEND_UTF8(&holder, "program", entry->program);
  BSON_APPEND_INT64(&holder, "held_ms", entry->held_ms);
  BSON_APPEND_INT64(&holder, "left_ms", entry->left_ms);
  bson_append_document_end(line, &holder);
}

/* Who holds it, of slots the first, and which one of those that wait this process is; what MongoDB does not tell just now is left out. */
static void append_queue(bson_t *line, const struct session *session, const char *name)
{
  enum { ENTRIES_MAX = 1600 }; /* a thousand slots, and all that the wait queue takes */
  size_t count = 0, holder = SIZE_MAX, mine = SIZE_MAX;
  struct pawl_entry *entries = calloc(ENTRIES_MAX, sizeof *entries);
  enum pawl_result result = entries != NULL ? pawl_list(session->pawl, name, entries, ENTRIES_MAX, &count, NULL) : PAWL_MEMORY;
  if (result != PAWL_OK && result != PAWL_FOREIGN) /* beside a document that is not pawl's the others are known */
    count = 0;
  for (size_t i = 0; entries != NULL && i < count && i < ENTRIES_MAX; i++) {
    if (entries[i].slot >= 0 && holder == SIZE_MAX)
      holder = i;
    if (entries[i].slot < 0 && is_mine(&entries[i]))
      mine = i;
  }
  if (mine != SIZE_MAX)
    BSON_APPEND_INT32(line, "position", entries[mine].place + 1);
  if (holder != SIZE_MAX)
    append_holder(line, &entries[holder]);
  free(entries);
}

void hold_print(const struct session *session, const struct pawl_event *event)
{
  const char *name = session_name(session, event->hold), *text = session_text(name, event->error.text);
  bson_t line;
  if (event->kind == PAWL_EVENT_HELD) {
    tell_held(session, event->hold);
  } else if (event->kind == PAWL_EVENT_WAITS) {
    line_begin(&line, "waiting", name);
    if (session->config->document == NULL)
      append_queue(&line, session, name);
    BSON_APPEND_UTF8(&line, "text", text);
    line_end(&line);
  } else if (event->kind == PAWL_EVENT_LOST) {
    line_begin(&line, "lost", name);
    BSON_APPEND_UTF8(&line, "reason", reason_name(event->reason));
    BSON_APPEND_UTF8(&line, "text", text);
    line_end(&line);
  }
}

static void tell_released(const struct session *session, int i, enum pawl_result result)
{
  bson_t line;
  line_begin(&line, "released", session->names[i]);
  BSON_APPEND_BOOL(&line, "sure", result == PAWL_OK);
  line_end(&line);
}

/* ---- the hold ---- */

/* What comes in is read and dropped. */
bool hold_input_ended(void)
{
  char dropped[4096];
  ssize_t size = read(STDIN_FILENO, dropped, sizeof dropped);
  return size == 0 || (size < 0 && errno != EINTR && errno != EAGAIN);
}

/* The events come later than the descriptor of a hold where a request hangs. */
static void look_at_the_clock(struct session *session)
{
  for (int i = 0; i < session->count && !session->lost; i++) {
    struct pawl_event event = {.kind = PAWL_EVENT_LOST, .hold = session->holds[i], .result = PAWL_LOST};
    if (pawl_left_ms(session->pawl, session->holds[i]) > 0)
      continue;
    event.reason = pawl_reason(session->pawl, session->holds[i], &event.error);
    hold_print(session, &event);
    session_lost(session, session->names[i], session_text(session->names[i], event.error.text));
  }
}

int hold_run(struct session *session)
{
  struct pollfd polled[2 + NAMES_MAX] = {{.fd = session->events, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
  for (int i = 0; i < session->count; i++)
    polled[2 + i] = (struct pollfd){.fd = pawl_hold_fd(session->pawl, session->holds[i]), .events = POLLIN};
  while (!session->lost && !command_signalled()) {
    (void)poll(polled, (nfds_t)(2 + session->count), LOOK_MS);
    session_events(session);
    look_at_the_clock(session);
    if (polled[1].revents != 0 && hold_input_ended())
      break;
  }
  session_release(session);
  for (int i = session->count; i-- > 0 && !session->lost;)
    tell_released(session, i, session->results[i]);
  return session->lost ? (int)session->config->lost_exit : EXIT_DONE;
}
