#include "tools/status/judge.h"
#include "tools/status/status.h"

#include <inttypes.h>
#include <stdlib.h>

/* The verdict for cron and Nagios: one line, `PAWL STATE: text | perfdata`, as the guidelines for plugins have it. */

enum state { STATE_OK, STATE_WARNING, STATE_CRITICAL };

enum { NAMED_MAX = 5 }; /* types in the line; the others are counted */

struct verdict {
  enum state state;
  int64_t named[STATE_CRITICAL + 1]; /* types with something to say, by state */
  char text[STATE_CRITICAL + 1][4096];
  int64_t types, moved, waiting, documents, oldest_ms;
};

static void say(struct verdict *verdict, enum state state, const char *text)
{
  char *all = verdict->text[state];
  size_t used = strlen(all), size = sizeof verdict->text[state];
  if (verdict->named[state]++ < NAMED_MAX)
    snprintf(all + used, size - used, "%s%s", used ? "; " : "", text);
  if (state > verdict->state)
    verdict->state = state;
}

static void judge_limits(struct verdict *verdict, const struct config *config, const struct overview_row *row)
{
  char text[1500], age[AGE_SIZE], limit[AGE_SIZE];
  enum finding finding = judge_row(row);
  bool paused = finding == FINDING_PAUSED; /* its documents are meant to wait */
  bool old = !paused && config->max_age_ms >= 0 && row->oldest_ms > config->max_age_ms;
  bool many = !paused && config->max_documents >= 0 && row->queued > config->max_documents;
  const char *why = row->problem ? row->problem : judge_text(finding);
  size_t used = (size_t)snprintf(text, sizeof text, "%s: ", row->type);
  status_age_text(row->oldest_ms, age);
  status_age_text(config->max_age_ms, limit);
  if (old)
    used += (size_t)snprintf(text + used, sizeof text - used, "the oldest waits %s (limit %s)", age, limit);
  if (many)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64 " documents (limit %" PRId64 ")", old ? ", " : "", row->queued,
                             config->max_documents);
  if (*why)
    used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", old || many ? ", " : "", why);
  if (finding == FINDING_MOVED)
    snprintf(text + used, sizeof text - used, ": it is at %s now", row->ledger.move.to);
  if (paused)
    snprintf(text + used, sizeof text - used, " by %s: %s", row->ledger.pause.by, row->ledger.pause.reason);
  if (old || many || finding != FINDING_NONE)
    say(verdict, old || many ? STATE_CRITICAL : STATE_WARNING, text);
}

static void judge_rows(struct verdict *verdict, const struct config *config, const struct overview *overview)
{
  for (size_t i = 0; i < overview->count; i++) {
    const struct overview_row *row = &overview->rows[i];
    verdict->types += row->kind == OVERVIEW_TYPE;
    verdict->moved += row->ledger.moved;
    verdict->waiting += row->kind == OVERVIEW_TYPE && row->waits;
    verdict->documents += row->queued > 0 ? row->queued : 0;
    if (row->oldest_ms > verdict->oldest_ms)
      verdict->oldest_ms = row->oldest_ms;
    judge_limits(verdict, config, row);
  }
}

/* A user who may only look at the queue need not be able to look at the indexes: that is no warning. */
static void judge_database(struct verdict *verdict, const struct overview *overview)
{
  struct error text;
  if (!overview->unusable.text[0] || (overview->usable == OUTCOME_UNKNOWN && overview->unusable.reason == ERROR_RIGHT))
    return;
  error_set(&text, "database %s: %s: %.800s", overview->db,
            overview->usable == OUTCOME_REFUSED ? "workers refuse it" : "whether workers would refuse it is not known",
            overview->unusable.text);
  say(verdict, overview->usable == OUTCOME_REFUSED ? STATE_CRITICAL : STATE_WARNING, text.text);
}

static void say_cannot(struct verdict *verdict, const char *what, const struct error *error)
{
  struct error text;
  error_set(&text, "%s: %.900s", what, error->text);
  say(verdict, STATE_CRITICAL, text.text);
}

/* Reads what the verdict needs, and no more. */
static void check(struct verdict *verdict, const struct config *config, struct lockstore *store, struct overview *overview)
{
  struct overview_types types = status_types(config);
  struct error error;
  if (overview_read(overview, store, &types, NULL, &error) != OUTCOME_YES) {
    say_cannot(verdict, "it cannot be checked", &error);
    return;
  }
  bool counts = overview->queue_known && (config->max_documents >= 0 || overview->by_count);
  if (overview->queue_error.text[0])
    say_cannot(verdict, "the queue cannot be read", &overview->queue_error);
  if (counts && overview_count(overview, store, &types, &error) != OUTCOME_YES)
    say_cannot(verdict, "the queue cannot be counted", &error);
  if (types.count == 0)
    overview_inspect(overview, store);
  judge_database(verdict, overview);
  judge_rows(verdict, config, overview);
}

/* A `|` begins the perfdata, and only that. */
static void print_text(const char *text)
{
  for (; *text; text++)
    putchar(*text == '|' ? '/' : *text);
}

static void print_verdict(const struct verdict *verdict, const struct config *config, const struct overview *overview)
{
  static const char *const states[] = {"OK", "WARNING", "CRITICAL"};
  char age[AGE_SIZE];
  status_age_text(verdict->oldest_ms, age);
  printf("PAWL %s: ", states[verdict->state]);
  for (int state = STATE_CRITICAL; state > STATE_OK; state--) {
    int64_t more = verdict->named[state] - NAMED_MAX;
    print_text(verdict->text[state]);
    if (more > 0)
      printf("; and %" PRId64 " more", more);
    if (state == STATE_CRITICAL && verdict->named[state] && verdict->named[STATE_WARNING])
      printf("; ");
  }
  if (verdict->state == STATE_OK)
    printf("%" PRId64 " type%s, %" PRId64 " with documents that wait%s%s", verdict->types, plural(verdict->types), verdict->waiting,
           verdict->waiting ? ", the oldest for " : "", verdict->waiting ? age : "");
  if (verdict->state == STATE_OK && verdict->moved > 0)
    printf(", %" PRId64 " moved away", verdict->moved);
  if (overview->read_at_ms == 0) {
    printf("\n");
    return;
  }
  printf(" | types=%" PRId64 " waiting=%" PRId64 " oldest=%" PRId64 "s;;", verdict->types, verdict->waiting, verdict->oldest_ms / 1000);
  if (config->max_age_ms >= 0)
    printf("%" PRId64, config->max_age_ms / 1000);
  printf(";0");
  if (overview->counted_at_ms)
    printf(" documents=%" PRId64 ";;;0", verdict->documents);
  printf("\n");
}

int status_check_once(const struct config *config, struct lockstore *store)
{
  struct verdict *verdict = calloc(1, sizeof *verdict);
  struct overview overview = {.count = 0};
  if (!verdict) {
    printf("PAWL CRITICAL: out of memory\n");
    return STATE_CRITICAL;
  }
  check(verdict, config, store, &overview);
  print_verdict(verdict, config, &overview);
  int code = (int)verdict->state;
  overview_free(&overview);
  free(verdict);
  return code;
}
