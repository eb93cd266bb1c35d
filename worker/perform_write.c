#include "storage/begin.h"
#include "storage/foreign.h"
#include "worker/clock.h"
#include "worker/fault.h"
#include "worker/perform_private.h"

#include <stdlib.h>

enum result result_of_writer(enum writer_status status)
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

/* ---- commits ---- */

static bool commit_moves(const struct ledger_commit *commit)
{
  return commit->before.link != commit->after.link || strcmp(commit->before.file, commit->after.file) != 0;
}

static enum result commit_send(struct performer *performer, struct ledger_commit *commit, bool again, struct completion *completion)
{
  const struct performer_options *options = &performer->options;
  commit->machine = commit_moves(commit) ? options->writer.identity.machine : NULL;
  int64_t began_us = clock_boot_us();
  enum outcome outcome = (again ? ledger_commit_again : ledger_commit)(options->store, options->writer.type, commit, &completion->error);
  completion->took_us[LATENCY_COMMIT] = clock_boot_us() - began_us;
  if (outcome == OUTCOME_YES)
    fault_point(commit->clean ? FAULT_RELEASED : FAULT_BLOCK_COMMITTED);
  return perform_asked(completion, outcome);
}

enum result perform_commit(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct ledger_commit commit = action->commit;
  return commit_send(performer, &commit, true, completion);
}

/* ---- begin ---- */

/* Its commit was not sent, so the ledger does not know it. */
static enum result segment_discard(struct performer *performer, struct completion *completion)
{
  completion->created = false;
  completion->unnamed = !writer_discard(performer->writer);
  return RESULT_STOPPED;
}

static enum result segment_commit(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct ledger_commit commit = action->commit;
  completion->created = true;
  completion->guarded = commit.guarded = performer->writer->local; /* else it would not have been made */
  fault_point(FAULT_SEGMENT_CREATED);
  if (!perform_may_go_on(performer))
    return segment_discard(performer, completion);
  commit.after = completion->end;
  return commit_send(performer, &commit, false, completion);
}

/* NO, REFUSED: the database has no id, or does not show it; then nothing is looked for. */
static enum outcome mark_first(struct performer *performer, uint8_t uuid[16], struct completion *completion)
{
  uint8_t id[16];
  enum outcome outcome = lockstore_database_id(performer->options.store, id, &completion->error);
  performer->writer->marked = outcome == OUTCOME_YES;
  if (outcome == OUTCOME_YES)
    foreign_mark(uuid, id);
  return perform_asked(completion, outcome) == RESULT_UNKNOWN ? OUTCOME_UNKNOWN : outcome;
}

static enum result segment_begin(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct writer *writer = performer->writer;
  uint8_t uuid[16];
  memcpy(uuid, action->uuid, sizeof uuid);
  if (writer->end.file[0] == '\0' && mark_first(performer, uuid, completion) == OUTCOME_UNKNOWN)
    return RESULT_UNKNOWN;
  if (!perform_may_go_on(performer))
    return RESULT_STOPPED;
  enum writer_status status = writer_create(writer, action->reason, uuid, action->block_bytes, action->wall_us, &completion->error);
  completion->end = writer->end;
  completion->unnamed = status == WRITER_NAME_SPENT;
  if (status == WRITER_OK)
    return segment_commit(performer, action, completion);
  if (status != WRITER_NAME_TAKEN)
    return result_of_writer(status);
  perform_name_database(performer, &completion->error);
  enum result result = perform_refused_or_fenced(performer, action, RESULT_REFUSED, completion);
  return perform_judged(performer, action, result, writer->end.seq, completion);
}

/*
 * Before bytes are cut off the ledger is read as it is now: a primary that was replaced would not know of a later epoch. Where
 * nothing is beyond the committed end an older state does no harm.
 */
static enum result continue_guarded(struct performer *performer, const struct action *action, bool cut, bool exact,
                                    struct completion *completion)
{
  if (!perform_may_go_on(performer))
    return RESULT_STOPPED;
  enum result mine = perform_verify(performer, action, cut && !exact, completion);
  if (mine != RESULT_YES)
    return mine == RESULT_UNKNOWN ? RESULT_UNKNOWN : RESULT_NO;
  if (!perform_may_go_on(performer))
    return RESULT_STOPPED;
  completion->guarded = true;
  return cut ? result_of_writer(writer_cut(performer->writer, &completion->error)) : RESULT_YES;
}

enum result perform_begin(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct continue_check check;
  if (action->fresh)
    return segment_begin(performer, action, completion);
  enum writer_status status = writer_guard(performer->writer, &check, &completion->error);
  if (status != WRITER_OK)
    return result_of_writer(status);
  switch (begin_decide(&check, action->ledger.clean, ledger_vouched(&action->ledger))) {
  case BEGIN_SEGMENT:
    return segment_begin(performer, action, completion);
  case BEGIN_CONTINUE:
    return RESULT_YES;
  case BEGIN_VERIFY:
    return continue_guarded(performer, action, false, check.exact, completion);
  case BEGIN_VERIFY_CUT:
    return continue_guarded(performer, action, true, check.exact, completion);
  }
  return RESULT_FAILED;
}

/* ---- append ---- */

static void append_trace(const struct performer *performer, const struct action *action, const struct completion *completion,
                         enum result result)
{
  const struct traced_block block = {.type = performer->options.writer.type,
                                     .epoch = action->epoch,
                                     .end = &completion->end,
                                     .batch = &action->item->batch,
                                     .outcome = result == RESULT_YES  ? "committed"
                                                : result == RESULT_NO ? "void"
                                                                      : "not yet committed"};
  if (message_trace_wanted(performer->options.trace))
    message_trace_block(performer->options.trace, &block);
}

static enum writer_status sync_file(struct writer *writer, struct completion *completion)
{
  int64_t began_us = clock_boot_us();
  enum writer_status status = writer_sync(writer, &completion->error);
  completion->took_us[LATENCY_SYNC] = clock_boot_us() - began_us;
  return status;
}

enum result perform_append(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct writer *writer = performer->writer;
  struct ledger_commit commit = action->commit;
  completion->item = action->item;
  enum writer_status status = writer_append(writer, &action->item->batch, action->wall_us, &completion->error);
  if (status == WRITER_OK) {
    fault_point(FAULT_BLOCK_WRITTEN);
    status = sync_file(writer, completion);
  }
  completion->end = commit.after = writer->end;
  if (status != WRITER_OK)
    return result_of_writer(status);
  fault_point(FAULT_BLOCK_SYNCED);
  enum result result = commit_send(performer, &commit, false, completion);
  append_trace(performer, action, completion, result);
  return result;
}

/* ---- close ---- */

static enum writer_status close_file(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct writer *writer = performer->writer;
  enum writer_status status = WRITER_OK;
  struct error ignored;
  if (action->write_close) {
    status = writer_append_close(writer, action->wall_us, &completion->error);
    if (status == WRITER_OK)
      status = sync_file(writer, completion);
    completion->end = writer->end;
  }
  enum writer_status closed = writer_close(writer, status == WRITER_OK ? &completion->error : &ignored);
  free(writer);
  performer->writer = NULL;
  if (status != WRITER_OK || !action->write_close)
    return status; /* without CLOSE nothing was written that a failed close could lose */
  fault_point(FAULT_CLOSE_WRITTEN);
  return closed;
}

static enum result close_and_commit(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct ledger_commit commit = action->commit;
  completion->end = commit.after;
  enum writer_status status = performer->writer != NULL ? close_file(performer, action, completion) : WRITER_OK;
  if (status != WRITER_OK || !action->commit.clean)
    return result_of_writer(status);
  commit.after = completion->end;
  return commit_send(performer, &commit, false, completion);
}

/* READ and deletes are over. What the type does not need before its next epoch is given back. */
enum result perform_close(struct performer *performer, const struct action *action, struct completion *completion)
{
  queue_pass_close(performer->pass, !performer->unanswered);
  performer->pass = NULL;
  enum result result = close_and_commit(performer, action, completion);
  if (performer->reader != NULL)
    queue_reader_rest(performer->reader);
  return result;
}
