#include "worker/perform.h"
#include "storage/chain.h"
#include "worker/clock.h"
#include "worker/fault.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

static enum result of_outcome(enum outcome outcome)
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

static enum result of_writer(enum writer_status status)
{
  switch (status) {
  case WRITER_OK:
    return RESULT_YES;
  case WRITER_NO_SPACE:
    return RESULT_NO_SPACE;
  case WRITER_NAME_TAKEN:
    return RESULT_REFUSED;
  case WRITER_NAME_SPENT:
    return RESULT_SPENT;
  case WRITER_FAILED:
    return RESULT_FAILED;
  }
  return RESULT_FAILED;
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

/* Server, collections and indexes: looked at once, and again after a failure to read the queue or to delete, or when the server went away.
 */
static enum outcome prepare(struct performer *performer, struct error *error)
{
  struct lockstore *store = performer->options.store;
  bool known = performer->prepared && lockstore_is_known(store);
  enum outcome prepared = known ? OUTCOME_YES : lockstore_prepare(store, error);
  performer->prepared = prepared == OUTCOME_YES;
  return prepared;
}

static enum result perform_peek(struct performer *performer, const struct action *action, struct completion *completion)
{
  const char *type = performer->options.writer.type;
  enum outcome outcome = prepare(performer, &completion->error);
  if (outcome != OUTCOME_YES)
    return of_outcome(outcome);
  int64_t began_ms = clock_boot_ms();
  completion->glanced = action->glance && performer->mark.set;
  outcome = queue_peek(performer->options.store, &type, 1, false, &performer->mark, action->glance, &completion->error);
  completion->took_ms = clock_boot_ms() - began_ms;
  completion->marked = performer->mark.set;
  if (outcome == OUTCOME_UNKNOWN) /* perhaps the index is gone with its database: it is made again */
    performer->prepared = false;
  return of_outcome(outcome);
}

enum outcome perform_last_look(struct lockstore *store, const char *const *types, size_t count, struct error *error)
{
  return queue_peek(store, types, count, true, NULL, false, error);
}

/* What is said of a ledger names its database: the wrong one is as likely as the wrong directory. */
static void name_database(const struct performer *performer, struct error *error)
{
  struct error cause = *error;
  error_set(error, "database %s: %.900s", performer->options.database, cause.text);
}

/* The last look before the verdict finds out as well whether files that the ledger does not fit could be adopted. */
static enum result judged(const struct performer *performer, const struct action *action, enum result result, int64_t seq,
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
  if (outcome == OUTCOME_REFUSED && ledger->v > 1)
    return RESULT_NEWER;
  return outcome == OUTCOME_NO ? RESULT_YES : of_outcome(outcome); /* no ledger is epoch 0 */
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
  enum check_status status = check_storage(&reader, options->dir, options->type, &ledger->end, ledger->epoch, &completion->error);
  if (status == CHECK_OK) {
    if (ledger->end.file[0] != 0)
      reader_close(&reader);
    return RESULT_YES;
  }
  name_database(performer, &completion->error);
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
  completion->missed_is_there = action->missed[0] != 0 && is_there(performer->options.writer.dir, action->missed);
  return judged(performer, action, result, completion->ledger.end.seq, completion);
}

static enum result perform_look(struct performer *performer, const struct action *action, struct completion *completion)
{
  completion->acquisition = action->acquisition;
  return of_outcome(acquire_look(performer->options.store, performer->options.writer.type, &completion->acquisition,
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
  return taken == OUTCOME_REFUSED ? RESULT_UNKNOWN : of_outcome(taken);
}

static enum result perform_leave(struct performer *performer, const struct action *action, struct completion *completion)
{
  completion->acquisition = action->acquisition;
  return of_outcome(
      acquire_leave(performer->options.store, performer->options.writer.type, &completion->acquisition, action->calls, &completion->error));
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
  return of_outcome(fenced);
}

/* `now`: not as a primary may still see it that has been replaced. That takes the server up to a tenth of a second. */
static enum result epoch_verify(struct performer *performer, const struct action *action, bool now, struct completion *completion)
{
  struct ledger *ledger = &completion->ledger;
  enum outcome outcome =
      (now ? ledger_read_now : ledger_read)(performer->options.store, performer->options.writer.type, ledger, &completion->error);
  if (outcome != OUTCOME_YES)
    return of_outcome(outcome);
  bool mine = ledger->epoch == action->epoch && ledger->has_owner && memcmp(&ledger->owner, &action->owner, sizeof ledger->owner) == 0;
  return mine ? RESULT_YES : RESULT_NO;
}

/*
 * What is refused is believed only while the epoch is mine: others may have written since, and a primary that was replaced would not know
 * of it. UNKNOWN: that could not be seen; NO: fenced.
 */
static enum result refused_or_fenced(struct performer *performer, const struct action *action, enum result refused,
                                     struct completion *completion)
{
  struct error cause = completion->error;
  enum result mine = epoch_verify(performer, action, true, completion);
  if (mine != RESULT_YES)
    return mine;
  completion->error = cause;
  return refused;
}

static enum result perform_open(struct performer *performer, const struct action *action, struct completion *completion)
{
  assert(!performer->writer_open);
  const struct ledger *ledger = &action->ledger;
  const struct writer_start start = {.epoch = action->epoch,
                                     .local = action->place == PLACE_LOCAL,
                                     .end = &ledger->end,
                                     .machine = ledger->machine,
                                     .vouched = ledger_vouched(ledger)};
  enum check_status status = writer_open(&performer->writer, &performer->options.writer, &start, &completion->error);
  performer->writer_open = status == CHECK_OK;
  /* Who was there before has deleted nothing as long as there is no file. */
  performer->way_unclear = performer->way_unclear || (!ledger->clean && ledger->end.file[0] != 0);
  if (status == CHECK_OK)
    return RESULT_YES;
  name_database(performer, &completion->error);
  return judged(performer, action, refused_or_fenced(performer, action, of_check(status), completion), ledger->end.seq, completion);
}

/* ---- settling ---- */

/* The `_id`s in one block of those messages that are above `settled` and not above `last`, up to a megabyte. */
static enum result settle_block(const struct reader *reader, int64_t settled, int64_t last, struct load *load, struct error *error)
{
  const uint8_t *document = reader->messages;
  for (uint32_t i = 0; i < reader->block.count && load_ids_bytes(load) < LOAD_IDS_BYTES_MAX; i++) {
    uint32_t bytes = (uint32_t)document[0] | (uint32_t)document[1] << 8 | (uint32_t)document[2] << 16 | (uint32_t)document[3] << 24;
    int64_t seq = reader->block.seq + i;
    if (seq > settled && seq <= last) {
      struct element id;
      const char *flaw = message_id_find(document, bytes, &id);
      if (seq != load->seq_last + 1)
        error_set(error, "%s: seq %" PRId64 " follows on seq %" PRId64, reader->file.name, seq, load->seq_last);
      else if (flaw != NULL)
        error_set(error, "%s: the message of seq %" PRId64 " cannot be deleted from the queue: its _id %s", reader->file.name, seq, flaw);
      else if (!load_add_id(load, &id))
        error_set(error, "%s: no memory for the _ids that are to be deleted", reader->file.name);
      else
        load->seq_last = seq;
      if (load->seq_last != seq)
        return RESULT_REFUSED;
    }
    document += bytes;
  }
  return RESULT_YES;
}

static enum result settle_read(struct chain_reader *at, const struct action *action, struct load *load, struct error *error)
{
  enum read_status status = chain_reader_seek_seq(at, action->settled + 1, error);
  while (status == READ_OK && load->seq_last < action->end.seq && load_ids_bytes(load) < LOAD_IDS_BYTES_MAX) {
    status = chain_reader_next(at, error);
    if (status == READ_OK && at->reader.block.kind == BLOCK_DATA &&
        settle_block(&at->reader, action->settled, action->end.seq, load, error) != RESULT_YES)
      return RESULT_REFUSED;
  }
  if (status == READ_END)
    error_set(error, "%s: the chain ends before seq %" PRId64, action->end.file, action->end.seq);
  return status == READ_OK ? RESULT_YES : status == READ_NEWER ? RESULT_NEWER : RESULT_REFUSED;
}

static enum result perform_settle_find(struct performer *performer, const struct action *action, struct completion *completion)
{
  const struct writer_options *options = &performer->options.writer;
  struct chain chain;
  struct chain_reader at;
  struct load *load = load_new();
  if (load == NULL) {
    error_set(&completion->error, "settling: no memory");
    return RESULT_REFUSED;
  }
  load->seq_last = action->settled;
  enum read_status loaded = chain_load(&chain, options->dir, options->type, &action->end, action->settled + 1, &completion->error);
  enum result result = loaded == READ_NEWER ? RESULT_NEWER : RESULT_REFUSED;
  if (loaded == READ_OK) {
    chain_reader_init(&at, options->dir, &chain);
    result = settle_read(&at, action, load, &completion->error);
    chain_reader_deinit(&at);
  }
  chain_free(&chain);
  if (result == RESULT_YES)
    completion->load = load;
  else
    load_free(load);
  return judged(performer, action, result, action->end.seq, completion);
}

/* Each delete that may run beside others has one of its own, for the life of the process. */
static struct queue_eraser *eraser_of(struct performer *performer, enum activity activity)
{
  struct queue_eraser **eraser = &performer->erasers[activity - ACTIVITY_DELETE];
  if (*eraser == NULL)
    *eraser = queue_eraser_new(performer->options.store);
  return *eraser;
}

static void delete_hopeless(struct error *error)
{
  struct error cause = *error;
  error_set(
      error,
      "%.700s: the type stops, for the next pass would write this message again, and again. Remove it from the queue; it is in the file",
      cause.text);
}

/*
 *   as many removed as named          YES
 *   fewer, and none of them is there  YES: they were gone
 *   fewer, and one is there           once more; then REFUSED: the next pass would write it again, and without end
 */
static enum result delete_by_ids(struct performer *performer, const bson_t *ids, struct error *error)
{
  enum { TRIES = 2 };
  const char *type = performer->options.writer.type;
  for (int tries = 1;; tries++) {
    int64_t removed = 0;
    enum outcome outcome = queue_delete(performer->options.store, type, ids, &removed, error);
    if (outcome != OUTCOME_YES || removed >= load_ids_named(ids))
      return of_outcome(outcome);
    enum outcome left = queue_find_left(performer->options.store, type, ids, error);
    if (left != OUTCOME_YES)
      return left == OUTCOME_NO ? RESULT_YES : RESULT_UNKNOWN;
    if (tries == TRIES) {
      delete_hopeless(error);
      return RESULT_REFUSED;
    }
  }
}

static enum result perform_delete(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct load *load = completion->load = action->load;
  enum outcome outcome = OUTCOME_NO;
  struct queue_eraser *eraser =
      load->read_at != 0 && load->messages >= performer->options.range_messages_min ? eraser_of(performer, action->activity) : NULL;
  /* No pass begins before it is done: so what a delete needs, and a pass would have seen missing, is made again here. */
  enum outcome prepared = prepare(performer, &completion->error);
  if (prepared != OUTCOME_YES)
    return of_outcome(prepared);
  if (eraser != NULL) {
    outcome = queue_delete_range(eraser, performer->options.writer.type, load, &completion->error);
    load->read_at = 0; /* after any other answer always by their `_id`s */
    if (outcome == OUTCOME_YES)
      load->ids_deleted = load->ids_count - 1; /* with this one all of them */
  }
  if (outcome == OUTCOME_NO && atomic_exchange(&performer->way_unclear, false))
    queue_clear_way(performer->options.store);
  enum result result =
      outcome == OUTCOME_NO ? delete_by_ids(performer, load->ids[load->ids_deleted], &completion->error) : of_outcome(outcome);
  if (result == RESULT_YES) {
    fault_point(FAULT_DELETED);
  } else {
    performer->way_unclear = true;
    performer->prepared = false;
  }
  return result;
}

/* ---- the block in hand ---- */

static enum result perform_guard(struct performer *performer, struct completion *completion)
{
  enum result result = of_writer(writer_guard(&performer->writer, &completion->ground, &completion->error));
  performer->exact = result == RESULT_YES && completion->ground.exact;
  return result;
}

static enum result perform_create(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct writer *writer = &performer->writer;
  enum result result =
      of_writer(writer_create(writer, action->reason, action->uuid, action->block_bytes, action->wall_us, &completion->error));
  completion->end = writer->end;
  if (result == RESULT_REFUSED) { /* the name is taken by a file with blocks */
    name_database(performer, &completion->error);
    return judged(performer, action, refused_or_fenced(performer, action, result, completion), writer->end.seq, completion);
  }
  if (result == RESULT_YES)
    fault_point(FAULT_SEGMENT_CREATED);
  return result;
}

static enum result perform_append(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct writer *writer = &performer->writer;
  completion->load = action->load;
  enum writer_status status = writer_append(writer, &action->load->batch, action->wall_us, &completion->error);
  if (status == WRITER_OK) {
    fault_point(FAULT_BLOCK_WRITTEN);
    status = writer_sync(writer, &completion->error);
  }
  completion->end = writer->end;
  if (status == WRITER_OK)
    fault_point(FAULT_BLOCK_SYNCED);
  return of_writer(status);
}

static enum result perform_commit(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct ledger_commit commit = action->commit;
  bool moves = commit.before.link != commit.after.link || strcmp(commit.before.file, commit.after.file) != 0;
  commit.machine = moves ? performer->options.writer.identity.machine : NULL;
  enum outcome outcome = (action->again ? ledger_commit_again : ledger_commit)(performer->options.store, performer->options.writer.type,
                                                                               &commit, &completion->error);
  if (outcome == OUTCOME_YES)
    fault_point(commit.set_clean ? FAULT_RELEASED : FAULT_BLOCK_COMMITTED);
  return of_outcome(outcome);
}

static enum result perform_close(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct writer *writer = &performer->writer;
  struct error ignored;
  queue_pass_close(performer->pass, !performer->unanswered);
  performer->pass = NULL;
  if (!performer->writer_open)
    return RESULT_YES;
  enum writer_status status = WRITER_OK;
  if (action->discard)
    completion->unnamed = !writer_discard(writer);
  if (action->write_close) {
    status = writer_append_close(writer, action->wall_us, &completion->error);
    if (status == WRITER_OK)
      status = writer_sync(writer, &completion->error);
  }
  completion->end = writer->end;
  enum writer_status closed = writer_close(writer, status == WRITER_OK ? &completion->error : &ignored);
  performer->writer_open = false;
  if (status == WRITER_OK && action->write_close) {
    status = closed;
    fault_point(FAULT_CLOSE_WRITTEN);
  }
  return of_writer(status);
}

/* ---- beside the block ---- */

static enum outcome pass_begin(struct performer *performer, struct completion *completion)
{
  const struct performer_options *options = &performer->options;
  const char *type = options->writer.type;
  enum outcome outcome = prepare(performer, &completion->error);
  queue_pass_close(performer->pass, !performer->unanswered);
  performer->pass = NULL;
  if (outcome != OUTCOME_YES)
    return outcome;
  if (performer->reader != NULL)
    performer->pass = queue_pass_open(performer->reader, type, options->batch_messages, options->batch_bytes, &performer->mark);
  if (performer->pass == NULL)
    error_set(&completion->error, "reading the queue: no memory");
  return performer->pass != NULL ? OUTCOME_YES : OUTCOME_UNKNOWN;
}

static enum result perform_read(struct performer *performer, const struct action *action, struct completion *completion)
{
  enum outcome outcome = action->begin ? pass_begin(performer, completion) : OUTCOME_YES;
  int64_t began_ms = clock_boot_ms();
  if (outcome == OUTCOME_YES)
    outcome = queue_pass_next(performer->pass, &completion->load, &completion->error);
  completion->took_ms = clock_boot_ms() - began_ms;
  if (outcome == OUTCOME_UNKNOWN)
    performer->prepared = false;
  if (outcome != OUTCOME_YES) {
    queue_pass_close(performer->pass, !performer->unanswered);
    performer->pass = NULL;
  }
  return of_outcome(outcome);
}

static enum result perform_kind(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct lockstore *store = performer->options.store;
  const char *type = performer->options.writer.type;
  switch (action->kind) {
  case ACTION_PEEK:
    return perform_peek(performer, action, completion);
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
  case ACTION_SETTLE_FIND:
    return perform_settle_find(performer, action, completion);
  case ACTION_SETTLE_DELETE:
  case ACTION_DELETE:
    return perform_delete(performer, action, completion);
  case ACTION_SETTLE_RECORD:
    return of_outcome(ledger_settle(store, type, action->epoch, &action->owner, action->settled, &completion->error));
  case ACTION_GUARD:
    return perform_guard(performer, completion);
  case ACTION_VERIFY:
    return epoch_verify(performer, action, !performer->exact, completion);
  case ACTION_CUT:
    return of_writer(writer_cut(&performer->writer, &completion->error));
  case ACTION_CREATE:
    return perform_create(performer, action, completion);
  case ACTION_APPEND:
    return perform_append(performer, action, completion);
  case ACTION_COMMIT:
    return perform_commit(performer, action, completion);
  case ACTION_CLOSE:
    return perform_close(performer, action, completion);
  case ACTION_UNLOCK:
    return of_outcome(acquire_release(store, type, &action->acquisition, action->epoch, &completion->error));
  case ACTION_LEAVE:
    return perform_leave(performer, action, completion);
  case ACTION_READ:
    return perform_read(performer, action, completion);
  case ACTION_RENEW: /* perform_renewals */
  case ACTION_COUNT:
    break;
  }
  assert(!"no action");
  return RESULT_FAILED;
}

static void completion_begin(struct completion *completion, const struct action *action)
{
  memset(completion, 0, sizeof *completion);
  completion->kind = action->kind;
  completion->activity = action->activity;
  completion->number = action->number;
}

void perform(struct performer *performer, const struct action *action, struct completion *completion)
{
  completion_begin(completion, action);
  completion->result = perform_kind(performer, action, completion);
  if (action_asks_database(action->kind))
    performer->unanswered = completion->result == RESULT_UNKNOWN;
}

void perform_skip(const struct action *action, struct completion *completion)
{
  completion_begin(completion, action);
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
        .type = options->writer.type, .kind = LOCK_BY_WORKER, .owner = renewals[i].action->owner, .ttl_ms = options->lease_ms};
  }
  error_set(&error, "renewing the locks: no memory");
  enum outcome outcome = locks != NULL ? lock_renew_all(renewals[0].performer->options.store, locks, count, &error) : OUTCOME_UNKNOWN;
  for (size_t i = 0; i < count; i++) {
    struct completion *completion = renewals[i].completion;
    completion_begin(completion, renewals[i].action);
    completion->sent_ms = sent_ms;
    completion->result = outcome == OUTCOME_YES ? of_outcome(locks[i].outcome) : RESULT_UNKNOWN;
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
  if (performer->writer_open && writer_close(&performer->writer, &ignored) != WRITER_OK) {
    /* The process ends: what was not committed comes again. */
  }
  performer->writer_open = false;
  for (int i = 0; i < DELETES_MAX; i++)
    queue_eraser_free(performer->erasers[i]);
}
