#include "worker/perform.h"
#include "worker/clock.h"
#include "worker/fault.h"
#include "worker/perform_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum result result_of_outcome(enum outcome outcome)
{
  switch (outcome) {
  case OUTCOME_YES:
    return RESULT_YES;
  case OUTCOME_NO:
    return RESULT_NO;
  case OUTCOME_UNKNOWN:
    return RESULT_UNKNOWN;
  case OUTCOME_REFUSED:
    return RESULT_REFUSED;
  }
  return RESULT_UNKNOWN;
}

enum result perform_asked(struct completion *completion, enum outcome outcome)
{
  completion->asked = true;
  return result_of_outcome(outcome);
}

bool perform_may_go_on(const struct performer *performer)
{
  return clock_boot_ms() < atomic_load(&performer->until_ms);
}

void performer_until(struct performer *performer, int64_t until_ms)
{
  atomic_store(&performer->until_ms, until_ms);
}

void performer_batches(struct performer *performer, int64_t messages, int64_t bytes)
{
  atomic_store(&performer->batch_messages, messages);
  atomic_store(&performer->batch_bytes, bytes);
}

static enum result of_check(enum check_status status)
{
  switch (status) {
  case CHECK_OK:
    return RESULT_YES;
  case CHECK_UNTRUSTED:
    return RESULT_REFUSED;
  case CHECK_NEWER:
    return RESULT_NEWER;
  }
  return RESULT_REFUSED;
}

/* ---- on the way to the lock ---- */

enum outcome perform_prepare(struct performer *performer, struct error *error)
{
  struct lockstore *store = performer->options.store;
  bool known = !performer->rechecks && lockstore_is_known(store);
  enum outcome prepared = known ? OUTCOME_YES : lockstore_prepare(store, error);
  performer->rechecks = prepared != OUTCOME_YES;
  return prepared;
}

bool perform_own_is_prepared(const struct performer *performer)
{
  int64_t at_ms = performer->own_prepared_at_ms;
  return at_ms != 0 && at_ms == lockstore_prepared_at_ms(performer->options.store);
}

/* A missing one is not made: it may have been renamed. An insert makes it, too. */
enum outcome perform_prepare_source(struct performer *performer, enum queue_source source, struct error *error)
{
  const char *type = performer->options.writer.type;
  enum outcome prepared = perform_prepare(performer, error);
  if (prepared != OUTCOME_YES || source == SOURCE_SHARED || perform_own_is_prepared(performer))
    return prepared;
  int64_t at_ms = lockstore_prepared_at_ms(performer->options.store);
  prepared = lockstore_own_check(performer->options.store, type, error);
  performer->own_prepared_at_ms = prepared == OUTCOME_YES ? at_ms : 0;
  if (prepared != OUTCOME_NO)
    return prepared;
  error_set(error, "the collection %s.%s is missing, which the ledger names as that of %s: pawl-setup --type %s --own-collection makes it",
            performer->options.database, queue_name_of(type, SOURCE_OWN).text, type, type);
  error->reason = ERROR_ANSWERED;
  return OUTCOME_UNKNOWN;
}

void perform_name_database(const struct performer *performer, struct error *error)
{
  struct error cause = *error;
  error_set(error, "database %s: %.900s", performer->options.database, cause.text);
}

enum result perform_judged(const struct performer *performer, const struct action *action, enum result result, int64_t seq,
                           struct completion *completion)
{
  const struct writer_options *options = &performer->options.writer;
  completion->judged = action->judge;
  completion->adoptable = action->judge && result == RESULT_REFUSED && check_adoptable(options->dir, options->type, seq);
  return result;
}

/* The ledger of a newer pawl is no fault of the storage. */
static enum result of_ledger(enum outcome outcome, const struct ledger *ledger)
{
  if (outcome == OUTCOME_REFUSED && ledger->newer)
    return RESULT_NEWER;
  return outcome == OUTCOME_NO ? RESULT_YES : result_of_outcome(outcome); /* no ledger is epoch 0 */
}

static enum result paused(const char *type, const struct ledger_pause *pause, struct error *error)
{
  struct tm tm;
  char at[32];
  time_t seconds = (time_t)(pause->at_ms / 1000);
  if (!gmtime_r(&seconds, &tm) || strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
    strcpy(at, "?");
  error_set(error, "%s is paused since %s, by %s: %s. pawl-status --resume %s ends it", type, at, pause->by, pause->reason, type);
  return RESULT_PAUSED;
}

static bool is_there(const char *dir, const char *name)
{
  struct file file;
  struct error ignored;
  return file_open(&file, dir, name, FILE_READ, 0, &ignored) == FILE_OK && file_close(&file, &ignored) == FILE_OK;
}

/*
 * Ledger, then files; a failure counts only if the ledger did not move meanwhile. The last one before the verdict asks for the ledger as
 * it is now: from a primary that was replaced it would be old for as long as the worker talks to that one.
 */
static enum result ledger_and_files(const struct performer *performer, bool judge, struct completion *completion)
{
  const struct writer_options *options = &performer->options.writer;
  struct ledger *ledger = &completion->ledger, again;
  struct reader reader;
  struct error error;
  enum result result = of_ledger(ledger_read(performer->options.store, options->type, ledger, &completion->error), ledger);
  if (result != RESULT_YES)
    return result;
  if (ledger_moved(OUTCOME_YES, options->type, ledger, &completion->error) == OUTCOME_REFUSED)
    return RESULT_PAUSED;
  if (ledger->paused)
    return paused(options->type, &ledger->pause, &completion->error);
  if (ledger->slots > 0) {
    error_set(&completion->error, "%s is a lock with %d slots, not a type: one of them needs another name", options->type, ledger->slots);
    return RESULT_REFUSED;
  }
  enum check_status status = check_storage(&reader, options->dir, options->type, &ledger->end, ledger->epoch, &completion->error);
  if (status == CHECK_OK) {
    if (ledger->end.file[0] != 0)
      reader_close(&reader);
    return RESULT_YES;
  }
  perform_name_database(performer, &completion->error);
  enum outcome outcome = (judge ? ledger_read_now : ledger_read)(performer->options.store, options->type, &again, &error);
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED) {
    completion->error = error;
    return of_ledger(outcome, &again);
  }
  bool same = again.epoch == ledger->epoch && again.end.link == ledger->end.link && strcmp(again.end.file, ledger->end.file) == 0;
  return same ? of_check(status) : RESULT_CHANGED;
}

static enum result perform_check(struct performer *performer, const struct action *action, struct completion *completion)
{
  enum result result = ledger_and_files(performer, action->judge, completion);
  completion->asked = true;
  completion->missed_is_there = action->missed[0] != 0 && is_there(performer->options.writer.dir, action->missed);
  return perform_judged(performer, action, result, completion->ledger.end.seq, completion);
}

static enum result perform_look(struct performer *performer, const struct action *action, struct completion *completion)
{
  completion->acquisition = action->acquisition;
  return perform_asked(completion, acquire_look(performer->options.store, performer->options.writer.type, &completion->acquisition,
                                                &performer->options.holder, &completion->error));
}

static enum result perform_take(struct performer *performer, const struct action *action, struct completion *completion)
{
  completion->acquisition = action->acquisition;
  completion->sent_ms = clock_boot_ms();
  enum outcome taken = acquire_take(performer->options.store, performer->options.writer.type, &completion->acquisition,
                                    &performer->options.holder, &completion->error);
  if (taken == OUTCOME_YES)
    fault_point(FAULT_LOCK_INSERTED);
  return perform_asked(completion, taken == OUTCOME_REFUSED ? OUTCOME_UNKNOWN : taken);
}

static enum result perform_leave_queue(struct performer *performer, const struct action *action, struct completion *completion)
{
  completion->acquisition = action->acquisition;
  return perform_asked(completion, acquire_leave(performer->options.store, performer->options.writer.type, &completion->acquisition,
                                                 action->calls, &completion->error));
}

/* ---- epoch ---- */

static bool place_ask(const struct performer *performer, struct completion *completion)
{
  struct file_place place;
  if (file_place(performer->options.writer.dir, &place, &completion->error) != FILE_OK)
    return false;
  completion->place = place.local ? PLACE_LOCAL : PLACE_NETWORK;
  return true;
}

static enum result perform_fence(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct lockstore *store = performer->options.store;
  const char *type = performer->options.writer.type;
  const struct ledger seen = {
      .epoch = action->epoch_seen, .clean = action->clean_seen, .guarded = action->vouched_seen ? action->epoch_seen : 0};
  completion->place = action->place;
  if (action->place == PLACE_UNASKED && !place_ask(performer, completion))
    return RESULT_FAILED;
  enum fencer fencer = completion->place == PLACE_LOCAL ? FENCER_LOCAL : FENCER_NETWORK;
  enum outcome fenced =
      action->again ? ledger_fence_again(store, type, &seen, &action->owner, fencer, &completion->ledger, &completion->error)
                    : ledger_fence(store, type, action->epoch_seen, &action->owner, fencer, &completion->ledger, &completion->error);
  if (fenced == OUTCOME_YES)
    fault_point(FAULT_FENCED);
  return perform_asked(completion, fenced);
}

enum result perform_verify(struct performer *performer, const struct action *action, bool now, struct completion *completion)
{
  struct ledger *ledger = &completion->ledger;
  enum outcome outcome =
      (now ? ledger_read_now : ledger_read)(performer->options.store, performer->options.writer.type, ledger, &completion->error);
  if (outcome != OUTCOME_YES)
    return perform_asked(completion, outcome);
  completion->asked = true;
  bool mine = ledger->epoch == action->epoch && ledger->has_owner && memcmp(&ledger->owner, &action->owner, sizeof ledger->owner) == 0;
  return mine ? RESULT_YES : RESULT_NO;
}

enum result perform_refused_or_fenced(struct performer *performer, const struct action *action, enum result refused,
                                      struct completion *completion)
{
  struct error cause = completion->error;
  enum result mine = perform_verify(performer, action, true, completion);
  if (mine != RESULT_YES)
    return mine;
  completion->error = cause;
  return refused;
}

static enum result perform_open(struct performer *performer, const struct action *action, struct completion *completion)
{
  assert(performer->writer == NULL);
  const struct ledger *ledger = &action->ledger;
  const struct writer_start start = {.epoch = action->epoch,
                                     .local = action->place == PLACE_LOCAL,
                                     .end = &ledger->end,
                                     .machine = ledger->machine,
                                     .vouched = ledger_vouched(ledger)};
  struct writer_options options = performer->options.writer;
  options.lease_ms = action->lease_ms;
  struct writer *writer = calloc(1, sizeof *writer);
  if (writer == NULL)
    abort(); /* a few kilobytes, as for the action itself */
  enum check_status status = writer_open(writer, &options, &start, &completion->error);
  if (status == CHECK_OK)
    performer->writer = writer;
  else
    free(writer);
  /* No earlier holder has deleted anything as long as there is no file. */
  performer->way_unclear = performer->way_unclear || (!ledger->clean && ledger->end.file[0] != 0);
  if (status == CHECK_OK)
    return RESULT_YES;
  perform_name_database(performer, &completion->error);
  return perform_judged(performer, action, perform_refused_or_fenced(performer, action, of_check(status), completion), ledger->end.seq,
                        completion);
}

/* ---- beside the block ---- */

static enum outcome pass_begin(struct performer *performer, const struct action *action, struct completion *completion)
{
  const struct queue_part part = {.type = performer->options.writer.type, .source = action->source, .read_at = action->read_at};
  struct queue_mark *mark = action->source == SOURCE_OWN ? &performer->marks.own : &performer->marks.shared;
  enum outcome outcome = perform_prepare_source(performer, action->source, &completion->error);
  queue_pass_close(performer->pass, !performer->unanswered);
  performer->pass = NULL;
  if (outcome != OUTCOME_YES)
    return outcome;
  if (performer->reader != NULL)
    performer->pass =
        queue_pass_open(performer->reader, &part, atomic_load(&performer->batch_messages), atomic_load(&performer->batch_bytes), mark);
  if (performer->pass == NULL)
    error_set(&completion->error, "reading the queue: no memory, or too many open files");
  return performer->pass != NULL ? OUTCOME_YES : OUTCOME_UNKNOWN;
}

static enum result perform_read(struct performer *performer, const struct action *action, struct completion *completion)
{
  enum outcome outcome = action->begin ? pass_begin(performer, action, completion) : OUTCOME_YES;
  int64_t began_ms = clock_boot_ms();
  if (outcome == OUTCOME_YES)
    outcome = queue_pass_next(performer->pass, action->ask_documents, &completion->item, &completion->error);
  completion->took_ms = clock_boot_ms() - began_ms;
  /* It lasts, and what is in `messages` would hide it. */
  completion->asked = action->source == SOURCE_OWN && outcome == OUTCOME_UNKNOWN && completion->error.reason == ERROR_ANSWERED;
  completion->read_at = performer->pass != NULL ? queue_pass_read_at(performer->pass) : 0;
  if (outcome == OUTCOME_UNKNOWN)
    performer->rechecks = true;
  if (outcome != OUTCOME_YES) {
    queue_pass_close(performer->pass, !performer->unanswered);
    performer->pass = NULL;
  }
  if (performer->pass != NULL)
    queue_pass_holds(performer->pass, &completion->answer_bytes, &completion->left_bytes);
  return result_of_outcome(outcome);
}

static enum result perform_kind(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct lockstore *store = performer->options.store;
  const char *type = performer->options.writer.type;
  switch (action->kind) {
  case ACTION_POLL:
    return perform_poll(performer, action, completion);
  case ACTION_CHECK:
    return perform_check(performer, action, completion);
  case ACTION_LOOK:
    return perform_look(performer, action, completion);
  case ACTION_TAKE:
    return perform_take(performer, action, completion);
  case ACTION_FENCE:
    return perform_fence(performer, action, completion);
  case ACTION_OPEN:
    return perform_open(performer, action, completion);
  case ACTION_SETTLE:
    return perform_settle(performer, action, completion);
  case ACTION_DELETE:
    return perform_delete(performer, action, completion);
  case ACTION_BEGIN:
    return perform_begin(performer, action, completion);
  case ACTION_APPEND:
    return perform_append(performer, action, completion);
  case ACTION_COMMIT:
    return perform_commit(performer, action, completion);
  case ACTION_CLOSE:
    return perform_close(performer, action, completion);
  case ACTION_UNLOCK:
    return perform_asked(completion, acquire_release(store, type, &action->acquisition, action->epoch, &completion->error));
  case ACTION_LEAVE_QUEUE:
    return perform_leave_queue(performer, action, completion);
  case ACTION_READ:
    return perform_read(performer, action, completion);
  case ACTION_RENEW: /* perform_renewals */
  case ACTION_COUNT:
    break;
  }
  assert(!"no action");
  return RESULT_FAILED;
}

void perform_begun(struct completion *completion, const struct action *action)
{
  memset(completion, 0, sizeof *completion);
  completion->kind = action->kind;
  completion->activity = action->activity;
  completion->number = action->number;
  completion->lease_ms = action->lease_ms;
}

void perform(struct performer *performer, const struct action *action, struct completion *completion)
{
  perform_begun(completion, action);
  completion->result = perform_kind(performer, action, completion);
  if (completion->asked)
    performer->unanswered = completion->result == RESULT_UNKNOWN;
}

void perform_skip(const struct action *action, struct completion *completion)
{
  perform_begun(completion, action);
  completion->result = RESULT_NO;
}

void perform_renewals(const struct renewal *renewals, size_t count)
{
  struct error error;
  struct lock_renewal *locks = calloc(count, sizeof *locks);
  int64_t sent_ms = clock_boot_ms();
  for (size_t i = 0; i < count && locks != NULL; i++) {
    const struct performer_options *options = &renewals[i].performer->options;
    locks[i] = (struct lock_renewal){
        .type = options->writer.type, .kind = LOCK_BY_WORKER, .owner = renewals[i].action->owner, .ttl_ms = renewals[i].action->lease_ms};
  }
  error_set(&error, "renewing the locks: no memory");
  enum outcome outcome = locks != NULL ? lock_renew_all(renewals[0].performer->options.store, locks, count, &error) : OUTCOME_UNKNOWN;
  for (size_t i = 0; i < count; i++) {
    struct completion *completion = renewals[i].completion;
    perform_begun(completion, renewals[i].action);
    completion->sent_ms = sent_ms;
    completion->asked = true;
    completion->result = outcome == OUTCOME_YES ? result_of_outcome(locks[i].outcome) : RESULT_UNKNOWN;
    completion->awaited = completion->result == RESULT_YES && locks[i].awaited;
    completion->error = error;
    renewals[i].performer->unanswered = completion->result == RESULT_UNKNOWN;
  }
  free(locks);
}

void performer_init(struct performer *performer, const struct performer_options *options)
{
  memset(performer, 0, sizeof *performer);
  performer->options = *options;
  performer_batches(performer, options->batch_messages, options->batch_bytes);
  performer->reader = queue_reader_new(options->store);
}

void performer_drop_read(struct performer *performer)
{
  if (performer->reader != NULL)
    queue_reader_drop(performer->reader);
}

void performer_take_up_read(struct performer *performer)
{
  if (performer->reader != NULL)
    queue_reader_take_up(performer->reader);
}

void performer_deinit(struct performer *performer)
{
  struct error ignored;
  queue_pass_close(performer->pass, !performer->unanswered);
  performer->pass = NULL;
  queue_reader_free(performer->reader);
  if (performer->writer != NULL && writer_close(performer->writer, &ignored) != WRITER_OK) {
    /* The process ends: what was not committed comes again. */
  }
  free(performer->writer);
  performer->writer = NULL;
  queue_marks_deinit(&performer->marks);
}
