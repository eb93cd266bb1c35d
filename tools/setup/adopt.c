#include "tools/setup/adopt.h"
#include "lockstore/acquire.h"
#include "lockstore/ledger.h"
#include "storage/chain.h"
#include "worker/clock.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

enum { LEASE_MS = 60000, RENEW_MS = 10000, WAIT_MS = 15000, RETRY_MS = 100 };

/* What was found in the files. */
struct survey {
  struct committed end;
  int64_t epoch_max; /* in names, headers and blocks */
  int64_t first_seq; /* of the oldest segment present */
  int64_t segments;
  struct file file;        /* the newest segment */
  bool has_file;           /* `file` is open */
  bool tail;               /* something follows the last valid block */
  struct acquisition lock; /* renewed during the work */
  int64_t renewed_ms;
};

struct replaced {
  enum outcome had; /* YES: a ledger; NO: none; REFUSED: malformed, `problem` says how */
  struct ledger ledger;
  struct error problem;
  struct ledger_found *found; /* REFUSED: the document; otherwise NULL */
};

static enum adopt_status of_outcome(enum outcome outcome)
{
  return outcome == OUTCOME_UNKNOWN ? ADOPT_UNAVAILABLE : ADOPT_UNTRUSTED;
}

/* ---- the lock ---- */

/*
 * Not for a holder: that one is to be stopped. But processes that were killed while they waited stand in the wait queue for some seconds.
 */
static enum outcome wait_for_turn(struct lockstore *store, const char *type, struct acquisition *lock, const struct lock_holder *holder,
                                  struct error *error)
{
  int64_t until_ms = clock_boot_ms() + WAIT_MS;
  enum outcome outcome = acquire_look(store, type, lock, holder, error);
  while (outcome == OUTCOME_NO && lock->view.left_ms <= 0 && clock_boot_ms() < until_ms) {
    nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
    outcome = acquire_look(store, type, lock, holder, error);
  }
  return outcome;
}

static enum adopt_status lock(struct lockstore *store, const char *type, struct survey *survey, struct error *error)
{
  struct lock_holder holder;
  struct error ignored;
  const struct lock_view *view = &survey->lock.view;
  lock_holder_self(&holder, LOCK_BY_TOOL, "pawl-setup --adopt");
  acquire_init(&survey->lock, LOCK_BY_TOOL, LEASE_MS, RETRY_MS);
  enum outcome outcome = wait_for_turn(store, type, &survey->lock, &holder, error);
  survey->renewed_ms = clock_boot_ms();
  if (outcome == OUTCOME_YES)
    outcome = acquire_take(store, type, &survey->lock, &holder, error);
  if (outcome != OUTCOME_NO)
    return outcome == OUTCOME_YES ? ADOPT_DONE : of_outcome(outcome);
  if (acquire_leave(store, type, &survey->lock, true, &ignored) != OUTCOME_YES) {
    /* Its entry ends by itself. */
  }
  if (view->left_ms > 0)
    error_set(error, "%s is held by %s, pid %" PRId64 ": stop the workers of this type first", type, view->holder.host, view->holder.pid);
  else
    error_set(error, "%s was locked a moment ago, or others wait for it: stop the workers of this type first", type);
  return ADOPT_BUSY;
}

/* ---- the files ---- */

static void epoch_raise(struct survey *survey, int64_t epoch)
{
  survey->epoch_max = epoch > survey->epoch_max ? epoch : survey->epoch_max;
}

/* Includes orphans: no epoch that any of these files has may be used again. */
static void epochs_of_orphans(const struct chain *chain, struct survey *survey)
{
  for (size_t i = 0; i < chain->orphan_count; i++) {
    char type[TYPE_BYTES_MAX + 1];
    int64_t epoch = 0;
    if (segment_name_parse(chain->orphans[i], type, &epoch))
      epoch_raise(survey, epoch);
  }
}

static bool renewed(struct lockstore *store, const char *type, struct survey *survey, struct error *error)
{
  if (clock_boot_ms() - survey->renewed_ms < RENEW_MS)
    return true;
  survey->renewed_ms = clock_boot_ms();
  if (lock_renew(store, type, 0, &survey->lock.owner, LEASE_MS, error) == OUTCOME_YES)
    return true;
  error_set(error, "the lock of %s was lost while the files were being read", type);
  return false;
}

/* Every block of every segment, checked. */
static enum adopt_status blocks_read(struct lockstore *store, const struct adoption *adoption, const struct chain *chain,
                                     struct survey *survey, struct error *error)
{
  struct chain_reader at;
  enum read_status status = READ_OK;
  chain_reader_init(&at, adoption->dir, chain);
  while ((status = chain_reader_next(&at, error)) == READ_OK) {
    survey->end.items += at.reader.block.items;
    epoch_raise(survey, at.reader.block.epoch);
    if (!renewed(store, adoption->type, survey, error)) {
      chain_reader_deinit(&at);
      return ADOPT_UNAVAILABLE;
    }
  }
  if (status == READ_END || status == READ_TAIL) {
    const struct reader *reader = &at.reader;
    snprintf(survey->end.file, sizeof survey->end.file, "%s", chain->segments[chain->count - 1].name);
    memcpy(survey->end.uuid, reader->header.uuid, sizeof survey->end.uuid);
    survey->end.length = reader->offset;
    survey->end.tail = reader->has_last ? reader->last.offset : 0;
    survey->end.link = reader->has_last ? format_marker_link(&reader->last) : format_header_link(&reader->header);
    survey->end.seq = reader->next_seq - 1;
    survey->tail = status == READ_TAIL;
  }
  chain_reader_deinit(&at);
  return status == READ_END || status == READ_TAIL ? ADOPT_DONE : ADOPT_UNTRUSTED;
}

/*
 * The newest segment is held open, and guarded where the guard is reliable, until the ledger is written: a frozen holder that has it open
 * could wake up and cut off what is being adopted.
 */
static enum adopt_status file_hold(const struct adoption *adoption, const char *name, struct survey *survey, struct error *error)
{
  struct file_place place;
  if (file_place(adoption->dir, &place, error) != FILE_OK || file_open(&survey->file, adoption->dir, name, FILE_WRITE, 0, error) != FILE_OK)
    return ADOPT_UNTRUSTED;
  survey->has_file = true;
  enum file_status guarded = place.local ? file_guard(&survey->file, error) : FILE_OK;
  if (guarded != FILE_BUSY)
    return guarded == FILE_OK ? ADOPT_DONE : ADOPT_UNTRUSTED;
  error_set(error, "%s/%s is held open by a worker, frozen or live (fuser shows which): end it first", adoption->dir, name);
  return ADOPT_BUSY;
}

/* What was read may be only in this machine's memory, so sync it before the ledger says that it is committed. */
static enum adopt_status file_settle(const struct adoption *adoption, struct survey *survey, struct error *error)
{
  return file_sync_new(&survey->file, adoption->dir, error) == FILE_OK ? ADOPT_DONE : ADOPT_UNTRUSTED;
}

/*
 * A version that may not append to a segment does not know what an append must keep, so it cannot determine the committed end of the
 * segment.
 */
static bool appendable(const struct adoption *adoption, const struct segment *newest, struct error *error)
{
  if (newest->header.ro_compat == 0)
    return true;
  error_set(error, "%s/%s has features %08" PRIx32 " that forbid appending: a newer pawl is needed", adoption->dir, newest->name,
            newest->header.ro_compat);
  return false;
}

static enum adopt_status files_survey(struct lockstore *store, const struct adoption *adoption, struct survey *survey, struct error *error)
{
  struct chain chain;
  enum adopt_status status = ADOPT_UNTRUSTED;
  enum read_status loaded = chain_load(&chain, adoption->dir, adoption->type, NULL, 0, error);
  if (loaded == READ_OK && chain.count == 0) {
    error_set(error, "%s has no segment of type %s", adoption->dir, adoption->type);
  } else if (loaded == READ_OK && appendable(adoption, &chain.segments[chain.count - 1], error)) {
    survey->segments = (int64_t)chain.count;
    survey->first_seq = chain.segments[0].header.first_seq;
    survey->end.items = survey->first_seq - 1; /* of pruned segments only the number of documents is known */
    for (size_t i = 0; i < chain.count; i++)
      epoch_raise(survey, chain.segments[i].header.epoch);
    epochs_of_orphans(&chain, survey);
    status = file_hold(adoption, chain.segments[chain.count - 1].name, survey, error);
    if (status == ADOPT_DONE)
      status = blocks_read(store, adoption, &chain, survey, error);
    if (status == ADOPT_DONE)
      status = file_settle(adoption, survey, error);
  }
  chain_free(&chain);
  return status;
}

/* ---- the ledger ---- */

/* The ledger has messages that these files do not hold: they are lost, and the operator must learn it now. */
static void describe_loss(const struct survey *survey, const struct ledger *old, char *text, size_t size)
{
  text[0] = 0;
  if (old->end.seq > survey->end.seq)
    snprintf(text, size,
             "\nWARNING: the ledger counts seq %" PRId64 " to %" PRId64
             " as committed, and these files do not hold them. They are lost, and "
             "their numbers will be given again.",
             survey->end.seq + 1, old->end.seq);
}

static void describe(const struct adoption *adoption, const struct survey *survey, enum outcome had, const struct ledger *old,
                     const struct error *problem, char *text, size_t size)
{
  char now[400], loss[256];
  describe_loss(survey, old, loss, sizeof loss);
  if (had == OUTCOME_YES)
    snprintf(now, sizeof now, "The ledger of %s says epoch %" PRId64 ", seq %" PRId64 ", file %.150s", adoption->type, old->epoch,
             old->end.seq, old->end.file[0] != 0 ? old->end.file : "none");
  else if (had == OUTCOME_NO)
    snprintf(now, sizeof now, "The ledger of %s is not there", adoption->type);
  else
    snprintf(now, sizeof now, "As it is, %.350s", problem->text);
  snprintf(text, size,
           "Database %s on %.120s:\n%s.\n"
           "%s/%s: %" PRId64 " segment%s, seq %" PRId64 " to %" PRId64 ", %" PRId64 " bytes of the last are whole%s.\n"
           "The ledger will be replaced by epoch %" PRId64 ", seq %" PRId64
           ", and the messages that are in these files will be deleted from the queue.%s",
           adoption->database, adoption->server, now, path_show(adoption->dir).text, survey->end.file, survey->segments,
           survey->segments == 1 ? "" : "s", survey->first_seq, survey->end.seq, survey->end.length,
           survey->tail ? " (what follows is no block)" : "", survey->epoch_max + 1, survey->end.seq, loss);
}

/* The ledger that is to be replaced; read before the files, to detect changes that are made meanwhile. */
static enum adopt_status ledger_look(struct lockstore *store, const struct adoption *adoption, struct replaced *old, struct error *error)
{
  old->had = ledger_read_found(store, adoption->type, &old->ledger, &old->found, &old->problem);
  if (old->had != OUTCOME_UNKNOWN && (old->had != OUTCOME_REFUSED || old->ledger.v <= 1))
    return ADOPT_DONE;
  *error = old->problem;
  return of_outcome(old->had);
}

static enum adopt_status ledger_replace(struct lockstore *store, const struct adoption *adoption, const struct replaced *old,
                                        struct survey *survey, struct error *error)
{
  char text[2048]; /* large enough for its end, which describes the loss */
  epoch_raise(survey, old->ledger.epoch);
  describe(adoption, survey, old->had, &old->ledger, &old->problem, text, sizeof text);
  if (!adoption->confirm(adoption->context, text))
    return ADOPT_DECLINED;
  if (lock_renew(store, adoption->type, 0, &survey->lock.owner, LEASE_MS, error) != OUTCOME_YES) {
    error_set(error, "the lock of %s was lost", adoption->type);
    return ADOPT_UNAVAILABLE;
  }
  struct ledger ledger = {.v = 1, .epoch = survey->epoch_max + 1, .has_owner = true, .owner = survey->lock.owner, .end = survey->end};
  ledger.settled = survey->first_seq - 1;
  enum outcome written = ledger_put(store, adoption->type, &old->ledger, old->found, &ledger, error);
  if (written == OUTCOME_NO)
    error_set(error, "the ledger of %s moved meanwhile: a worker is at work; nothing was changed", adoption->type);
  return written == OUTCOME_YES ? ADOPT_DONE : written == OUTCOME_NO ? ADOPT_BUSY : of_outcome(written);
}

enum adopt_status adopt(struct lockstore *store, const struct adoption *adoption, struct error *error)
{
  struct survey survey = {0};
  struct replaced old = {0};
  struct error ignored;
  enum adopt_status status = lock(store, adoption->type, &survey, error);
  if (status == ADOPT_BUSY)
    return status;
  if (status == ADOPT_DONE)
    status = ledger_look(store, adoption, &old, error);
  if (status == ADOPT_DONE)
    status = files_survey(store, adoption, &survey, error);
  if (status == ADOPT_DONE)
    status = ledger_replace(store, adoption, &old, &survey, error);
  ledger_found_free(old.found);
  if (survey.has_file && file_close(&survey.file, &ignored) != FILE_OK) {
    /* Nothing was written to the file, so the error has no effect. */
  }
  if (acquire_release(store, adoption->type, &survey.lock, 0, &ignored) == OUTCOME_UNKNOWN) {
    /* The lock's lease expires within a minute. */
  }
  return status;
}
