#include "tools/status/top_private.h"

void top_make_ascii(char *text)
{
  char *to = text;
  for (const char *at = text; *at; at++) {
    unsigned char byte = (unsigned char)*at;
    if (byte >= ' ' && byte < 0x7f)
      *to++ = *at;
    else if (byte < 0x80 || byte >= 0xc0) /* once a character */
      *to++ = '?';
  }
  *to = '\0';
}

/* "NO WORKER SERVES a, b +3" */
static size_t append_finding(const struct overview *overview, enum finding finding, char *line, size_t size)
{
  enum { NAMED_MAX = 4 };
  static const char *const titles[FINDINGS] = {
      [FINDING_PROBLEM] = "LEDGER OR LOCK UNUSABLE",
      [FINDING_EXPIRED] = "LEASE OVER (HOLDER FROZEN OR DEAD)",
      [FINDING_PAUSED] = "PAUSED",
      [FINDING_UNSERVED] = "NO WORKER SERVES",
      [FINDING_MOVED] = "DOCUMENTS WAIT WHERE A TYPE WAS MOVED AWAY:",
      [FINDING_STILL] = "NOTHING IS WRITTEN",
      [FINDING_TOOL] = "A TOOL HAS THE LOCK",
      [FINDING_UNUSABLE] = "NO WORKER CAN TAKE",
      [FINDING_REFUSED] = "NO WORKER CAN TAKE SOME OF",
  };
  size_t used = 0, count = 0;
  for (size_t i = 0; i < overview->count; i++) {
    if (judge_row(&overview->rows[i]) != finding)
      continue;
    if (count == 0)
      used += (size_t)snprintf(line + used, size - used, "%s", titles[finding]);
    if (count++ < NAMED_MAX)
      used += (size_t)snprintf(line + used, size - used, "%s %.*s", count > 1 ? "," : "", TYPE_BYTES_MAX, overview->rows[i].type);
  }
  if (count > NAMED_MAX)
    used += (size_t)snprintf(line + used, size - used, " +%zu", count - NAMED_MAX);
  return used;
}

static void findings_name(const struct overview *overview, char line[ALARM_SIZE])
{
  enum { ONE_MAX = 700 };
  size_t used = 0;
  for (enum finding finding = FINDING_NONE + 1; finding < FINDINGS; finding++) {
    char one[ONE_MAX] = "";
    if (append_finding(overview, finding, one, sizeof one) > 0 && used < ALARM_SIZE)
      used += (size_t)snprintf(line + used, ALARM_SIZE - used, "%s%s", used ? "; " : "", one);
  }
}

/* "1 LEASE OVER, 3 UNSERVED": each kind is seen on a small screen, too. */
static void findings_count(const struct overview *overview, char line[ALARM_SIZE])
{
  static const char *const titles[FINDINGS] = {
      [FINDING_PROBLEM] = "UNUSABLE",      [FINDING_EXPIRED] = "LEASE OVER",     [FINDING_UNSERVED] = "UNSERVED",
      [FINDING_STILL] = "NOT PROGRESSING", [FINDING_TOOL] = "LOCKED BY A TOOL",  [FINDING_UNUSABLE] = "NOT TAKEABLE",
      [FINDING_MOVED] = "MOVED AWAY",      [FINDING_REFUSED] = "PARTLY REFUSED", [FINDING_PAUSED] = "PAUSED",
  };
  size_t counts[FINDINGS] = {0}, used = 0;
  for (size_t i = 0; i < overview->count; i++)
    counts[judge_row(&overview->rows[i])]++;
  for (enum finding finding = FINDING_NONE + 1; finding < FINDINGS; finding++)
    if (counts[finding] > 0)
      used += (size_t)snprintf(line + used, ALARM_SIZE - used, "%s%zu %s", used ? ", " : "", counts[finding], titles[finding]);
}

static enum alarm findings_show(const struct overview *overview, size_t room, char line[ALARM_SIZE])
{
  enum alarm alarm = ALARM_FINE;
  for (size_t i = 0; i < overview->count; i++) {
    enum finding finding = judge_row(&overview->rows[i]);
    if (finding != FINDING_NONE && alarm != ALARM_WRONG)
      alarm = judge_is_mild(finding) ? ALARM_MILD : ALARM_WRONG;
  }
  snprintf(line, ALARM_SIZE, "%s", alarm == ALARM_FINE ? "all is well" : "");
  if (alarm != ALARM_FINE)
    findings_name(overview, line);
  if (strlen(line) > room && alarm != ALARM_FINE)
    findings_count(overview, line);
  return alarm;
}

enum alarm top_alarm(const struct overview *overview, const struct error *error, int64_t now_ms, size_t room, char line[ALARM_SIZE])
{
  enum { SILENCE_MS = 6000 }; /* longer than one request may take */
  char age[AGE_SIZE];
  enum alarm alarm = ALARM_WRONG;
  status_age_text(overview ? now_ms - overview->read_at_ms : OVERVIEW_UNKNOWN, age);
  if (error->text[0] && overview)
    snprintf(line, ALARM_SIZE, "DATABASE AWAY, this is the state of %s ago: %s", age, error->text);
  else if (error->text[0])
    snprintf(line, ALARM_SIZE, "DATABASE AWAY: %s", error->text);
  else if (overview && now_ms - overview->read_at_ms > SILENCE_MS)
    snprintf(line, ALARM_SIZE, "DATABASE DOES NOT ANSWER, this is the state of %s ago", age);
  else if (!overview)
    snprintf(line, ALARM_SIZE, "waiting for the database to answer");
  else if (overview->usable == OUTCOME_REFUSED)
    snprintf(line, ALARM_SIZE, "WORKERS REFUSE THE DATABASE: %s", overview->unusable.text);
  else if (overview->queue_error.text[0])
    snprintf(line, ALARM_SIZE, "QUEUE UNKNOWN: %s", overview->queue_error.text);
  else
    alarm = findings_show(overview, room, line);
  top_make_ascii(line);
  return alarm;
}
