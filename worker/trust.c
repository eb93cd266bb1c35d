#include "worker/trust.h"

#include <inttypes.h>
#include <stdio.h>

enum { CHECK_HANGS_MS = 10000 }; /* a check that takes so long makes the worker not ready */

void trust_init(struct trust *trust)
{
  *trust = (struct trust){.due_ms = INT64_MAX, .distrust_since_ms = -1, .open_refused_since_ms = -1};
}

void trust_ends(struct turn *turn, const struct completion *completion)
{
  const struct consumer_options *options = &turn->core->options;
  trust_set(turn, STORAGE_DISAGREES, &completion->error);
  if (completion->adoptable)
    turn_log(turn, LEVEL_ERROR, "untrusted",
             "the storage cannot be trusted: %s. If these files belong to database %s on %s: pawl-setup --adopt %s --db %s --dir %s",
             completion->error.text, options->database, options->server, turn->core->type, options->database, options->dir);
  else
    turn_log(turn, LEVEL_ERROR, "untrusted", "the storage cannot be trusted: %s", completion->error.text);
}

bool trust_judges(const struct turn *turn, int64_t since_ms)
{
  return since_ms >= 0 && turn->moment->now_ms - since_ms >= turn->core->options.distrust_ms;
}

void trust_set(struct turn *turn, enum storage_view view, const struct error *why)
{
  struct trust *trust = turn->trust;
  if (view == STORAGE_AGREES && trust->view == STORAGE_DISAGREES)
    turn_log(turn, LEVEL_INFO, "trusted", "the storage agrees with the ledger again, of database %s", turn->core->options.database);
  if (view == STORAGE_PAUSED && trust->told != STORAGE_PAUSED)
    turn_log(turn, LEVEL_INFO, "paused", "not competing for the lock: %s", why->text);
  if (view != STORAGE_PAUSED && trust->told == STORAGE_PAUSED)
    turn_log(turn, LEVEL_INFO, "paused", "the type is not paused any more");
  if (view == STORAGE_NEWER && trust->told != STORAGE_NEWER)
    turn_log(turn, LEVEL_WARN, "newer", "standing by: %s", why->text);
  trust->view = trust->told = view;
  if (why != NULL)
    trust->why = *why;
  trust->due_ms = turn->moment->now_ms + (view == STORAGE_AGREES ? turn->core->options.distrust_ms : RECHECK_MS);
}

/* ---- the check ---- */

/*
 * A machine that sees new files late finds each new segment missing for a moment: when the one that was missing is there by now, the
 * minute begins anew. A wrong directory shows none of them. Until it is there it stays the one: segments may come faster than they are
 * seen.
 */
static void distrust_begin(struct turn *turn, const struct completion *completion)
{
  struct trust *trust = turn->trust;
  bool late = strcmp(trust->file, completion->ledger.end.file) != 0 && completion->missed_is_there;
  bool competes = turn->core->state != STATE_IDLE;
  if ((trust->distrust_since_ms < 0 && competes) || (trust->distrust_since_ms >= 0 && late))
    trust->distrust_since_ms = turn->moment->now_ms;
  if (trust->view != STORAGE_DISAGREES || late || trust->file[0] == 0)
    snprintf(trust->file, sizeof trust->file, "%s", completion->ledger.end.file);
}

/*
 * The check failed, and the ledger did not move meanwhile. While nothing is to be done it is not ready, looks every second, and goes on
 * when that is over. From the first failed look with a message in the queue to the first good one, whatever the queue does: a minute.
 */
static enum trust_answer refused(struct turn *turn, const struct completion *completion)
{
  struct trust *trust = turn->trust;
  int64_t now = turn->moment->now_ms, before = trust->distrust_since_ms;
  bool begins = trust->view != STORAGE_DISAGREES;
  distrust_begin(turn, completion);
  int64_t since = trust->distrust_since_ms, left = since < 0 ? RECHECK_MS : since + turn->core->options.distrust_ms - now;
  if (completion->judged && left <= 0) {
    trust_ends(turn, completion);
    return TRUST_ENDS;
  }
  trust_set(turn, STORAGE_DISAGREES, &completion->error);
  trust->due_ms = now + (left <= 0 ? 0 : left < RECHECK_MS ? left : RECHECK_MS);
  if (since >= 0 && before < 0)
    turn_log(turn, LEVEL_WARN, "untrusted",
             "storage check failed: not competing for the lock: %s. Stopping in %" PRId64 " s unless it succeeds", completion->error.text,
             (left + 999) / 1000);
  else if (begins)
    turn_log(turn, LEVEL_WARN, "untrusted", "storage check failed: not ready: %s. Checking again every second", completion->error.text);
  return TRUST_PAUSES;
}

/*
 * The epoch that a fence names is the one that was seen here, before the lock was taken: read after the take, it could be that of a holder
 * who has overtaken this process.
 *
 * What a file shows that may only be read says nothing about an OPEN that was refused; a commit of others does.
 */
static void agrees(struct turn *turn, const struct ledger *ledger)
{
  struct trust *trust = turn->trust;
  trust->distrust_since_ms = -1;
  turn->core->epoch_seen = ledger->epoch;
  if (ledger->own && !turn->core->own_seen && turn->core->state == STATE_IDLE)
    turn->core->next_ms = turn->moment->now_ms; /* there may be messages where no poll has looked */
  turn->core->own_seen = ledger->own;
  turn->core->own_known = true;
  turn->core->seq_seen = ledger->end.seq;
  turn->core->settled = ledger->settled;
  trust->clean_seen = ledger->clean;
  trust->vouched_seen = ledger_vouched(ledger);
  if (trust->open_refused_link != ledger->end.link)
    trust->open_refused_since_ms = -1;
  if (trust->open_refused_since_ms < 0 || turn->core->state == STATE_IDLE)
    trust_set(turn, STORAGE_AGREES, NULL);
  trust->due_ms = turn->moment->now_ms + turn->core->options.distrust_ms;
}

/* CHANGED, a holder at work, and UNKNOWN neither begin nor end a minute. */
enum trust_answer trust_checked(struct turn *turn, const struct completion *completion)
{
  if (completion->result == RESULT_REFUSED)
    return refused(turn, completion);
  if (completion->result == RESULT_YES) {
    agrees(turn, &completion->ledger);
    return TRUST_AGREES;
  }
  if (completion->result != RESULT_NEWER && completion->result != RESULT_PAUSED)
    return TRUST_SILENT;
  bool paused = completion->result == RESULT_PAUSED;
  turn->trust->distrust_since_ms = -1;
  if (paused) /* when it ends, the storage is judged anew */
    turn->trust->open_refused_since_ms = -1;
  trust_set(turn, paused ? STORAGE_PAUSED : STORAGE_NEWER, &completion->error);
  return paused ? TRUST_PAUSED : TRUST_PAUSES;
}

void trust_check_start(struct turn *turn)
{
  struct trust *trust = turn->trust;
  struct action *action = turn_start(turn, ACTION_CHECK);
  action->judge = trust_judges(turn, trust->distrust_since_ms);
  if (trust->view == STORAGE_DISAGREES)
    snprintf(action->missed, sizeof action->missed, "%s", trust->file);
}

void trust_begin(struct turn *turn)
{
  if (turn->trust->due_ms == INT64_MAX)
    turn->trust->due_ms = turn->moment->now_ms;
}

void trust_soon(struct turn *turn)
{
  turn->trust->due_ms = turn->moment->now_ms + RECHECK_MS;
}

void trust_by(struct turn *turn, int64_t ms)
{
  if (turn->trust->due_ms < INT64_MAX && turn->trust->due_ms > ms)
    turn->trust->due_ms = ms;
}

bool trust_is_due(const struct turn *turn)
{
  int64_t grace = turn_main_ready(turn) ? RECHECK_MS : 0, due_ms = turn->trust->due_ms;
  return !turn_runs(turn, ACTIVITY_MAIN) && due_ms < INT64_MAX && turn->moment->now_ms >= due_ms + grace;
}

/* ---- the holder's ---- */

void trust_left(struct turn *turn, int64_t epoch, bool vouched)
{
  turn->core->epoch_seen = epoch;
  turn->trust->clean_seen = true;
  turn->trust->vouched_seen = vouched;
}

void trust_opened(struct turn *turn)
{
  turn->trust->open_refused_since_ms = -1;
  trust_set(turn, STORAGE_AGREES, NULL);
}

/*
 * The check before the lock was taken saw it otherwise: the file may not be writable. Believed when it goes on for distrust_ms while
 * the committed end stays where it is; until then the lock is left to others between the tries.
 */
bool trust_open_refused(struct turn *turn, const struct completion *completion, uint64_t link)
{
  struct trust *trust = turn->trust;
  if (trust->open_refused_since_ms < 0 || trust->open_refused_link != link) {
    trust->open_refused_since_ms = turn->moment->now_ms;
    trust->open_refused_link = link;
    turn_log(turn, LEVEL_WARN, "untrusted", "storage check failed: releasing the lock and retrying: %s", completion->error.text);
  }
  trust_set(turn, completion->result == RESULT_NEWER ? STORAGE_NEWER : STORAGE_DISAGREES, &completion->error);
  if (completion->result == RESULT_NEWER || !completion->judged)
    return true;
  trust_ends(turn, completion);
  return false;
}

bool trust_judges_open(const struct turn *turn, uint64_t link)
{
  return turn->trust->open_refused_link == link && trust_judges(turn, turn->trust->open_refused_since_ms);
}

/* ---- readiness ---- */

bool trust_tells(const struct trust *trust, const struct core *core, int64_t now_ms, struct error *why)
{
  int64_t checks_ms = now_ms - core->activity[ACTIVITY_MAIN].started_ms;
  enum action_kind kind = core->activity[ACTIVITY_MAIN].kind;
  bool checks = core->activity[ACTIVITY_MAIN].running && (kind == ACTION_CHECK || kind == ACTION_OPEN);
  if (checks && checks_ms >= CHECK_HANGS_MS) {
    error_set(why, "the storage of %s does not answer: its check has taken %" PRId64 " s so far", core->type, checks_ms / 1000);
    return false;
  }
  switch (trust->view) {
  case STORAGE_AGREES:
  case STORAGE_PAUSED: /* as its operator wants it */
    return true;
  case STORAGE_UNSEEN:
    error_set(why, "the storage of %s has not been checked yet", core->type);
    return false;
  case STORAGE_DISAGREES:
    error_set(why, "the storage of %s does not agree with the ledger: %.700s", core->type, trust->why.text);
    return false;
  case STORAGE_NEWER:
    error_set(why, "%s needs a newer pawl: %.700s", core->type, trust->why.text);
    return false;
  }
  return false;
}
