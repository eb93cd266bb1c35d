#include "tools/setup/adopt.h"
#include "lockstore/acquire.h"
#include "lockstore/ledger.h"
#include "lockstore/own_collection.h"
#include "storage/chain.h"
#include "tools/setup/own.h"
#include "tools/turn.h"
#include "worker/clock.h"

#include <inttypes.h>
#include <unistd.h>

enum { LEASE_MS = 60000, RENEW_MS = 10000, WAIT_MS = 15000 };

/* What the files and the lock show. */
struct findings {
  struct committed end;
  int64_t epoch_max; /* in names, headers and blocks */
  int64_t first_seq; /* of the oldest segment present */
  int64_t segments;
  struct file file;        /* the newest segment */
  bool has_file;           /* `file` is open */
  bool tail;               /* bytes follow the last valid block */
  struct acquisition lock; /* renewed during the work */
  int64_t renewed_ms;
};

struct replaced {
  enum outcome had; /* YES: a ledger; NO: none; REFUSED: malformed, `problem` says how */
  struct ledger ledger;
  struct error problem;
  struct ledger_found *found; /* REFUSED: the document; otherwise NULL */
  int64_t floor;              /* NO: the new epoch is above it (ledger_put), and the operator is told the epoch before */
};

static enum adopt_status of_outcome(enum outcome outcome)
{
  return outcome == OUTCOME_UNKNOWN ? ADOPT_UNAVAILABLE : ADOPT_UNTRUSTED;
}

/* ---- the lock ---- */

/*
 * Does not wait for a holder, which the operator must stop. But a process that was killed while it waited stays in the wait queue for some
 * seconds.
 */
static enum outcome wait_for_turn(struct lockstore *store, const char *type, struct acquisition *lock, const struct lock_holder *holder,
                                  struct error *error)
{
  struct turn turn = {.store = store, .type = type, .lock = lock, .holder = holder, .patience = TURN_QUEUE};
  turn.until_ms = clock_boot_ms() + WAIT_MS;
  return turn_wait(&turn, error);
}

static enum adopt_status lock(struct lockstore *store, const char *type, struct findings *findings, struct error *error)
{
  struct lock_holder holder;
  struct error ignored;
  const struct lock_view *view = &findings->lock.view;
  lock_holder_self(&holder, LOCK_BY_TOOL, "pawl-setup --adopt");
  acquire_init(&findings->lock, LOCK_BY_TOOL, LEASE_MS, TURN_RETRY_MS);
  enum outcome outcome = wait_for_turn(store, type, &findings->lock, &holder, error);
  findings->renewed_ms = clock_boot_ms();
  if (outcome == OUTCOME_YES)
    outcome = acquire_take(store, type, &findings->lock, &holder, error);
  if (outcome != OUTCOME_NO)
    return outcome == OUTCOME_YES ? ADOPT_DONE : of_outcome(outcome);
  if (acquire_leave(store, type, &findings->lock, true, &ignored) != OUTCOME_YES) {
    /* Its entry in the wait queue expires. */
  }
  if (view->left_ms > 0)
    error_set(error, "%s is held by %s, pid %" PRId64 ": stop the workers of this type first", type, lock_holder_show(&view->holder).text,
              view->holder.pid);
  else
    error_set(error, "%s was just unlocked, or other processes wait for it: stop the workers of this type first", type);
  return ADOPT_BUSY;
}

/* ---- the files ---- */

static void epoch_raise(struct findings *findings, int64_t epoch)
{
  findings->epoch_max = epoch > findings->epoch_max ? epoch : findings->epoch_max;
}

/* Orphans count, too, because no epoch of any of these files may be used again. */
static void epochs_of_orphans(const struct chain *chain, struct findings *findings)
{
  for (size_t i = 0; i < chain->orphan_count; i++) {
    char type[TYPE_BYTES_MAX + 1];
    int64_t epoch = 0;
    if (segment_name_parse(chain->orphans[i], type, &epoch))
      epoch_raise(findings, epoch);
  }
}

static bool renewed(struct lockstore *store, const char *type, struct findings *findings, struct error *error)
{
  if (clock_boot_ms() - findings->renewed_ms < RENEW_MS)
    return true;
  findings->renewed_ms = clock_boot_ms();
  if (lock_renew(store, type, 0, &findings->lock.owner, LEASE_MS, error) == OUTCOME_YES)
    return true;
  error_set(error, "the lock of %s was lost while the files were being read", type);
  return false;
}

/* Reads and checks each block of each segment. */
static enum adopt_status blocks_read(struct lockstore *store, const struct adoption *adoption, const struct chain *chain,
                                     struct findings *findings, struct error *error)
{
  struct chain_reader at;
  enum read_status status = READ_OK;
  chain_reader_init(&at, adoption->dir, chain);
  while ((status = chain_reader_next(&at, error)) == READ_OK) {
    findings->end.items += at.reader.block.items;
    epoch_raise(findings, at.reader.block.epoch);
    if (!renewed(store, adoption->type, findings, error)) {
      chain_reader_deinit(&at);
      return ADOPT_UNAVAILABLE;
    }
  }
  if (status == READ_END || status == READ_TAIL) {
    const struct reader *reader = &at.reader;
    snprintf(findings->end.file, sizeof findings->end.file, "%s", chain->segments[chain->count - 1].name);
    memcpy(findings->end.uuid, reader->header.uuid, sizeof findings->end.uuid);
    findings->end.length = reader->offset;
    findings->end.tail = reader->has_last ? reader->last.offset : 0;
    findings->end.link = reader->has_last ? format_marker_link(&reader->last) : format_header_link(&reader->header);
    findings->end.seq = reader->next_seq - 1;
    findings->tail = status == READ_TAIL;
  }
  chain_reader_deinit(&at);
  return status == READ_END || status == READ_TAIL ? ADOPT_DONE : ADOPT_UNTRUSTED;
}

/*
 * The newest segment is held open, and guarded where the guard is reliable, until the ledger is written: a frozen holder that has it open
 * could wake up and cut off what is being adopted.
 */
static enum adopt_status file_hold(const struct adoption *adoption, const char *name, struct findings *findings, struct error *error)
{
  struct file_place place;
  if (file_place(adoption->dir, &place, error) != FILE_OK ||
      file_open(&findings->file, adoption->dir, name, FILE_WRITE, 0, error) != FILE_OK)
    return ADOPT_UNTRUSTED;
  findings->has_file = true;
  enum file_status guarded = place.local ? file_guard(&findings->file, error) : FILE_OK;
  if (guarded != FILE_BUSY)
    return guarded == FILE_OK ? ADOPT_DONE : ADOPT_UNTRUSTED;
  error_set(error, "%s/%s is held open by a worker, frozen or live (fuser shows which): end it first", adoption->dir, name);
  return ADOPT_BUSY;
}

/* The bytes that were read may be only in the page cache, so sync them before the ledger counts them as committed. */
static enum adopt_status newest_sync(const struct adoption *adoption, struct findings *findings, struct error *error)
{
  return file_sync_new(&findings->file, adoption->dir, error) == FILE_OK ? ADOPT_DONE : ADOPT_UNTRUSTED;
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

static enum adopt_status files_inspect(struct lockstore *store, const struct adoption *adoption, struct findings *findings,
                                       struct error *error)
{
  struct chain chain;
  enum adopt_status status = ADOPT_UNTRUSTED;
  enum read_status loaded = chain_load(&chain, adoption->dir, adoption->type, NULL, 0, error);
  if (loaded == READ_OK && chain.count == 0) {
    error_set(error, "%s has no segment of type %s", adoption->dir, adoption->type);
  } else if (loaded == READ_OK && appendable(adoption, &chain.segments[chain.count - 1], error)) {
    findings->segments = (int64_t)chain.count;
    findings->first_seq = chain.segments[0].header.first_seq;
    findings->end.items = findings->first_seq - 1; /* of pruned segments only the number of documents is known */
    for (size_t i = 0; i < chain.count; i++)
      epoch_raise(findings, chain.segments[i].header.epoch);
    epochs_of_orphans(&chain, findings);
    status = file_hold(adoption, chain.segments[chain.count - 1].name, findings, error);
    if (status == ADOPT_DONE)
      status = blocks_read(store, adoption, &chain, findings, error);
    if (status == ADOPT_DONE)
      status = newest_sync(adoption, findings, error);
  }
  chain_free(&chain);
  return status;
}

/* ---- the ledger ---- */

/* If the ledger counts messages that these files do not hold, they are lost. The operator must know that before confirming. */
static void describe_loss(const struct findings *findings, const struct ledger *old, char *text, size_t size)
{
  text[0] = 0;
  if (old->end.seq > findings->end.seq)
    snprintf(text, size,
             "\nWARNING: the ledger counts seq %" PRId64 " to %" PRId64
             " as committed, and these files do not hold them. They are lost, and "
             "their numbers will be used again.",
             findings->end.seq + 1, old->end.seq);
}

/*
 * Nothing but the lost ledger said whether the type has its own collection. Without that, what is in it would never be read; and with it,
 * what is in it is written and deleted, so the operator must know that before confirming.
 */
static enum outcome own_look(struct lockstore *store, const struct adoption *adoption, const struct ledger *old, struct error *text,
                             struct error *error)
{
  struct own_collection collection;
  enum outcome unfit = adoption->own ? OUTCOME_REFUSED : OUTCOME_YES; /* it cannot be the type's, or is not there */
  if (old->own && !adoption->own)
    return OUTCOME_YES;
  if (!own_collection_name_check(adoption->type, error))
    return unfit;
  enum outcome outcome = own_collection_look(store, adoption->type, &collection, error);
  if (outcome == OUTCOME_YES)
    outcome = own_collection_is_empty(store, adoption->type, error);
  else
    return outcome == OUTCOME_REFUSED ? unfit : outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
  if (outcome == OUTCOME_NO && adoption->own)
    error_set(text, "\nmessages.%s has documents. The workers of %s will write them to these files, and delete them.", adoption->type,
              adoption->type);
  else if (outcome == OUTCOME_NO)
    error_set(text,
              "\nWARNING: messages.%s has documents. If it is the own collection of %s, answer no, and give --own-collection, too: no "
              "worker reads it otherwise.",
              adoption->type, adoption->type);
  return outcome == OUTCOME_UNKNOWN ? outcome : OUTCOME_YES;
}

/* Opened when the ledger says that the type has it: before that, no worker reads what is inserted. */
static enum adopt_status own_open(struct lockstore *store, const struct adoption *adoption, const struct owner *owner, int64_t epoch,
                                  struct error *error)
{
  const struct own own = {.store = store, .type = adoption->type};
  struct ledger ledger;
  struct error why;
  enum own_status status = own_agree(&own, owner, epoch, &ledger, &why);
  if (status == OWN_DONE && ledger.own)
    return ADOPT_DONE;
  if (status == OWN_DONE)
    error_set(&why, "another pawl-setup has given it back meanwhile");
  error_set(error,
            "the ledger is replaced, but whether messages.%s takes inserts is not known: pawl-setup --type %s --own-collection sees to "
            "that: %.500s",
            adoption->type, adoption->type, why.text);
  return status == OWN_DONE || status == OWN_BUSY ? ADOPT_BUSY : of_outcome(status == OWN_UNAVAILABLE ? OUTCOME_UNKNOWN : OUTCOME_REFUSED);
}

static void describe(const struct adoption *adoption, const struct findings *findings, enum outcome had, const struct ledger *old,
                     const struct error *problem, char *text, size_t size)
{
  char now[400], loss[256];
  describe_loss(findings, old, loss, sizeof loss);
  if (had == OUTCOME_YES)
    snprintf(now, sizeof now, "The ledger of %s says epoch %" PRId64 ", seq %" PRId64 ", file %.150s", adoption->type, old->epoch,
             old->end.seq, old->end.file[0] != 0 ? old->end.file : "none");
  else if (had == OUTCOME_NO)
    snprintf(now, sizeof now, "There is no ledger of %s", adoption->type);
  else
    snprintf(now, sizeof now, "As it is, %.350s", problem->text);
  snprintf(text, size,
           "Database %s on %.120s:\n%s.\n"
           "%s/%s: %" PRId64 " segment%s, seq %" PRId64 " to %" PRId64 ", %" PRId64 " bytes of the last are whole%s.\n"
           "The ledger will be replaced by epoch %" PRId64 ", seq %" PRId64
           ", and the messages that are in these files will be deleted from the queue.%s",
           adoption->database, adoption->server, now, path_show(adoption->dir).text, findings->end.file, findings->segments,
           findings->segments == 1 ? "" : "s", findings->first_seq, findings->end.seq, findings->end.length,
           findings->tail ? " (what follows is no block)" : "", findings->epoch_max + 1, findings->end.seq, loss);
}

/* The ledger that is to be replaced; read before the files, to detect changes that are made meanwhile. */
static enum adopt_status ledger_before(struct lockstore *store, const struct adoption *adoption, struct replaced *old, struct error *error)
{
  old->had = ledger_read_found(store, adoption->type, &old->ledger, &old->found, &old->problem);
  if (old->had == OUTCOME_NO) { /* the name may have been forgotten */
    enum outcome known = ledger_floor(store, &old->floor, error);
    return known == OUTCOME_YES ? ADOPT_DONE : of_outcome(known);
  }
  if (ledger_moved(old->had, adoption->type, &old->ledger, error) != old->had) /* its files belong to the ledger there */
    return ADOPT_BUSY;
  if (old->had == OUTCOME_REFUSED && old->ledger.moved) {
    error_set(error, "%s was moved to another database, and is served there; its ledger here is damaged besides: %.700s", adoption->type,
              old->problem.text);
    return ADOPT_BUSY;
  }
  if (old->had == OUTCOME_YES && old->ledger.slots > 0) {
    error_set(error, "%s is a lock with %d slots, and no type", adoption->type, old->ledger.slots);
    return ADOPT_BUSY;
  }
  if (old->had != OUTCOME_UNKNOWN && (old->had != OUTCOME_REFUSED || !old->ledger.newer))
    return ADOPT_DONE;
  *error = old->problem;
  return of_outcome(old->had);
}

static enum adopt_status ledger_replace(struct lockstore *store, const struct adoption *adoption, const struct replaced *old,
                                        struct findings *findings, struct error *error)
{
  char text[2560]; /* large enough for its end, which describes the loss */
  struct error own = {.text = ""};
  enum outcome looked = own_look(store, adoption, &old->ledger, &own, error);
  if (looked != OUTCOME_YES)
    return of_outcome(looked);
  epoch_raise(findings, old->ledger.epoch);
  epoch_raise(findings, old->floor);
  describe(adoption, findings, old->had, &old->ledger, &old->problem, text, sizeof text);
  snprintf(text + strlen(text), sizeof text - strlen(text), "%s", own.text);
  if (!adoption->confirm(adoption->context, text))
    return ADOPT_DECLINED;
  if (lock_renew(store, adoption->type, 0, &findings->lock.owner, LEASE_MS, error) != OUTCOME_YES) {
    error_set(error, "the lock of %s was lost", adoption->type);
    return ADOPT_UNAVAILABLE;
  }
  enum outcome made = adoption->own ? own_collection_make(store, adoption->type, error) : OUTCOME_YES;
  if (made != OUTCOME_YES)
    return of_outcome(made);
  struct ledger ledger = {.epoch = findings->epoch_max + 1, .has_owner = true, .owner = findings->lock.owner, .end = findings->end};
  ledger.settled = findings->first_seq - 1;
  ledger.own = old->ledger.own || adoption->own;
  ledger.paused = old->ledger.paused;
  ledger.pause = old->ledger.pause;
  enum outcome written = ledger_put(store, adoption->type, &old->ledger, old->found, &ledger, error);
  if (written == OUTCOME_NO)
    error_set(error, "the ledger of %s changed meanwhile: a worker is at work; nothing was changed", adoption->type);
  if (written != OUTCOME_YES)
    return written == OUTCOME_NO ? ADOPT_BUSY : of_outcome(written);
  return adoption->own ? own_open(store, adoption, &findings->lock.owner, ledger.epoch, error) : ADOPT_DONE;
}

enum adopt_status adopt(struct lockstore *store, const struct adoption *adoption, struct error *error)
{
  struct findings findings = {0};
  struct replaced old = {0};
  struct error ignored;
  enum adopt_status status = lock(store, adoption->type, &findings, error);
  if (status == ADOPT_BUSY)
    return status;
  if (status == ADOPT_DONE)
    status = ledger_before(store, adoption, &old, error);
  if (status == ADOPT_DONE)
    status = files_inspect(store, adoption, &findings, error);
  if (status == ADOPT_DONE)
    status = ledger_replace(store, adoption, &old, &findings, error);
  ledger_found_free(old.found);
  if (findings.has_file && file_close(&findings.file, &ignored) != FILE_OK) {
    /* Nothing was written to the file, so the error has no effect. */
  }
  if (acquire_release(store, adoption->type, &findings.lock, 0, &ignored) == OUTCOME_UNKNOWN) {
    /* The lock's lease expires within a minute. */
  }
  return status;
}
