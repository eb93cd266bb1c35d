#include "worker/consumer_parts.h"

#include <inttypes.h>

/* What looks at the storage have shown, and what follows from that; in any state. */

enum { LOOK_HANGS_MS = 10000 }; /* a look that takes so long makes it not ready */

void consumer_untrusted(struct turn *turn, const struct completion *completion)
{
  const struct consumer_options *options = &turn->consumer->options;
  consumer_storage_is(turn, STORAGE_DISAGREES, &completion->error);
  if (completion->adoptable)
    consumer_note(turn, NOTE_ERROR, "untrusted",
                  "the storage cannot be trusted: %s. If these files belong to database %s on %s: pawl-setup --adopt %s --db %s --dir %s",
                  completion->error.text, options->database, options->server, turn->consumer->type, options->database, options->dir);
  else
    consumer_note(turn, NOTE_ERROR, "untrusted", "the storage cannot be trusted: %s", completion->error.text);
}

bool consumer_judges(const struct turn *turn, int64_t since_ms)
{
  return since_ms >= 0 && turn->moment->now_ms - since_ms >= turn->consumer->options.distrust_ms;
}

void consumer_storage_is(struct turn *turn, enum storage_view view, const struct error *why)
{
  struct consumer *consumer = turn->consumer;
  if (view == STORAGE_AGREES && consumer->storage == STORAGE_DISAGREES)
    consumer_note(turn, NOTE_INFO, "trusted", "the storage agrees with the ledger again, of database %s", consumer->options.database);
  if (view == STORAGE_NEWER && consumer->storage != STORAGE_NEWER)
    consumer_note(turn, NOTE_WARN, "newer", "stands by: %s", why->text);
  consumer->storage = view;
  if (why != NULL)
    consumer->storage_why = *why;
  consumer->storage_ms = turn->moment->now_ms + (view == STORAGE_AGREES ? consumer->options.distrust_ms : RECHECK_MS);
}

/*
 * A machine that sees new files late finds each new segment missing for a moment: when the one that was missing is there by now, the
 * minute begins anew. A wrong directory shows none of them. Until it is there it stays the one: segments may come faster than they are
 * seen.
 */
static void distrust_begin(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  bool late = strcmp(consumer->storage_file, completion->ledger.end.file) != 0 && completion->missed_is_there;
  bool competes = consumer->state != STATE_IDLE;
  if ((consumer->distrust_since_ms < 0 && competes) || (consumer->distrust_since_ms >= 0 && late))
    consumer->distrust_since_ms = turn->moment->now_ms;
  if (consumer->storage != STORAGE_DISAGREES || late || consumer->storage_file[0] == 0)
    snprintf(consumer->storage_file, sizeof consumer->storage_file, "%s", completion->ledger.end.file);
}

/*
 * The check failed, and the ledger did not move meanwhile. While nothing is to be done it is not ready, looks every second, and goes on
 * when that is over. From the first failed look with a message in the queue to the first good one, whatever the queue does: a minute.
 */
static void storage_refused(struct turn *turn, const struct completion *completion)
{
  struct consumer *consumer = turn->consumer;
  int64_t now = turn->moment->now_ms, before = consumer->distrust_since_ms;
  bool begins = consumer->storage != STORAGE_DISAGREES;
  distrust_begin(turn, completion);
  int64_t since = consumer->distrust_since_ms, left = since < 0 ? RECHECK_MS : since + consumer->options.distrust_ms - now;
  if (completion->judged && left <= 0) {
    consumer_untrusted(turn, completion);
    consumer_stop_waiting(turn, STATE_STOPPED, "the storage cannot be trusted");
    return;
  }
  consumer_storage_is(turn, STORAGE_DISAGREES, &completion->error);
  consumer->storage_ms = now + (left <= 0 ? 0 : left < RECHECK_MS ? left : RECHECK_MS);
  if (since >= 0 && before < 0)
    consumer_note(turn, NOTE_WARN, "untrusted", "does not compete: %s. Stops in %" PRId64 " s unless that changes", completion->error.text,
                  (left + 999) / 1000);
  else if (begins)
    consumer_note(turn, NOTE_WARN, "untrusted", "is not ready: %s. Checks again every second", completion->error.text);
}

/* What a file shows that may only be read says nothing about an OPEN that was refused; a commit of others does. */
static void storage_agrees(struct turn *turn, const struct ledger *ledger)
{
  struct consumer *consumer = turn->consumer;
  consumer->distrust_since_ms = -1;
  consumer->epoch_seen = ledger->epoch;
  consumer->clean_seen = ledger->clean;
  consumer->vouched_seen = ledger_vouched(ledger);
  consumer->seq_seen = ledger->end.seq;
  consumer->settled = ledger->settled;
  if (consumer->open_refused_link != ledger->end.link)
    consumer->open_refused_since_ms = -1;
  if (consumer->open_refused_since_ms < 0 || consumer->state == STATE_IDLE)
    consumer_storage_is(turn, STORAGE_AGREES, NULL);
  consumer->storage_ms = turn->moment->now_ms + consumer->options.distrust_ms;
}

/* CHANGED, a holder at work, and UNKNOWN neither begin nor end a minute. */
bool consumer_storage_seen(struct turn *turn, const struct completion *completion)
{
  if (completion->result == RESULT_YES)
    storage_agrees(turn, &completion->ledger);
  else if (completion->result == RESULT_REFUSED)
    storage_refused(turn, completion);
  else if (completion->result == RESULT_NEWER) {
    turn->consumer->distrust_since_ms = -1;
    consumer_storage_is(turn, STORAGE_NEWER, &completion->error);
  } else
    return false;
  return true;
}

void consumer_check_start(struct turn *turn)
{
  struct consumer *consumer = turn->consumer;
  struct action *action = consumer_start(turn, ACTION_CHECK);
  action->judge = consumer_judges(turn, consumer->distrust_since_ms);
  if (consumer->storage == STORAGE_DISAGREES)
    snprintf(action->missed, sizeof action->missed, "%s", consumer->storage_file);
}

/* It agrees with the ledger, and what is to be written can be. */
static bool writes(const struct consumer *consumer, struct error *why)
{
  if (consumer->said_no_space)
    error_set(why, "%s waits for space: the file system of its storage is full", consumer->type);
  else if (consumer->state == STATE_BACKING_OFF)
    error_set(why, "%s pauses: writing to its storage failed, the log says how", consumer->type);
  else
    return true;
  return false;
}

bool consumer_trusts(const struct consumer *consumer, int64_t now_ms, struct error *why)
{
  int64_t looks_ms = now_ms - consumer->activity[ACTIVITY_MAIN].started_ms;
  enum action_kind kind = consumer->activity[ACTIVITY_MAIN].kind;
  bool looks = consumer_runs(consumer, ACTIVITY_MAIN) && (kind == ACTION_CHECK || kind == ACTION_OPEN);
  if (looks && looks_ms >= LOOK_HANGS_MS) {
    error_set(why, "the storage of %s does not answer: a look at it has taken %" PRId64 " s so far", consumer->type, looks_ms / 1000);
    return false;
  }
  switch (consumer->storage) {
  case STORAGE_AGREES:
    return writes(consumer, why);
  case STORAGE_UNSEEN:
    error_set(why, "the storage of %s has not been checked yet", consumer->type);
    return false;
  case STORAGE_DISAGREES:
    error_set(why, "the storage of %s does not agree with the ledger: %.700s", consumer->type, consumer->storage_why.text);
    return false;
  case STORAGE_NEWER:
    error_set(why, "%s needs a newer pawl: %.700s", consumer->type, consumer->storage_why.text);
    return false;
  }
  return false;
}
