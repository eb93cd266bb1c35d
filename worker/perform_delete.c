#include "storage/chain.h"
#include "worker/clock.h"
#include "worker/fault.h"
#include "worker/perform_private.h"

#include <inttypes.h>

/* ---- deleting ---- */

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
 *   fewer, and one is there           once more; then LEFT: the next pass would write it again, and without end
 */
static enum result delete_by_ids(struct performer *performer, enum queue_source source, const bson_t *ids, struct error *error)
{
  enum { TRIES = 2 };
  const struct queue_part part = {.type = performer->options.writer.type, .source = source};
  for (int tries = 1;; tries++) {
    int64_t removed = 0;
    enum outcome outcome = queue_delete(performer->options.store, &part, ids, &removed, error);
    if (outcome != OUTCOME_YES || removed >= work_item_ids_named(ids))
      return result_of_outcome(outcome);
    enum outcome left = queue_find_left(performer->options.store, &part, ids, error);
    if (left != OUTCOME_YES)
      return left == OUTCOME_NO ? RESULT_YES : RESULT_UNKNOWN;
    if (tries == TRIES) {
      delete_hopeless(error);
      return RESULT_LEFT;
    }
  }
}

/* The same after a delete that may have left a transaction open; and it is noted if this one may. */
static enum result ids_delete(struct performer *performer, enum queue_source source, const bson_t *ids, struct completion *completion)
{
  if (atomic_exchange(&performer->way_unclear, false))
    queue_clear_way(performer->options.store);
  enum result result = RESULT_YES;
  if (source != SOURCE_OWN)
    result = delete_by_ids(performer, SOURCE_SHARED, ids, &completion->error);
  if (result == RESULT_YES && source != SOURCE_SHARED)
    result = delete_by_ids(performer, SOURCE_OWN, ids, &completion->error);
  return result;
}

static enum result deleted(struct performer *performer, enum result result, struct completion *completion)
{
  completion->asked = true;
  if (result == RESULT_YES) {
    fault_point(FAULT_DELETED);
  } else {
    performer->way_unclear = true;
    performer->rechecks = true;
  }
  return result;
}

/* The database check: where it fails nothing can be deleted. */
static enum result prepare(struct performer *performer, enum queue_source source, struct completion *completion)
{
  enum outcome prepared = perform_prepare_source(performer, source, &completion->error);
  if (prepared == OUTCOME_YES)
    return RESULT_YES; /* perhaps nothing was sent */
  enum result result = perform_asked(completion, prepared);
  return result == RESULT_REFUSED ? RESULT_LEFT : result;
}

/* NO: it is not to be deleted by its range, or not all of it was there: by its `_id`s. */
static enum outcome range_delete(struct performer *performer, const struct action *action, struct error *error)
{
  struct work_item *item = action->item;
  if (item->read_at == 0 || item->documents < performer->options.range_messages_min)
    return OUTCOME_NO;
  enum outcome outcome = queue_delete_range(performer->options.store, performer->options.writer.type, item, error);
  item->read_at = 0; /* after any other answer always by their `_id`s */
  if (outcome == OUTCOME_YES)
    item->ids_deleted = item->ids_count - 1; /* with this one all of them */
  return outcome;
}

enum result perform_delete(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct work_item *item = completion->item = action->item;
  /* No pass begins before it is done: so what a delete needs, and a pass would have seen missing, is made again here. */
  enum result prepared = prepare(performer, item->source, completion);
  if (prepared != RESULT_YES)
    return prepared;
  int64_t began_us = clock_boot_us();
  enum outcome outcome = range_delete(performer, action, &completion->error);
  enum result result =
      outcome == OUTCOME_NO ? ids_delete(performer, item->source, item->ids[item->ids_deleted], completion) : result_of_outcome(outcome);
  completion->took_us[LATENCY_DELETE] = clock_boot_us() - began_us;
  return deleted(performer, result, completion);
}

/* ---- settling: what the last holder committed and did not delete ---- */

/* The `_id`s in one block of those messages that are above `settled` and not above `last`, up to a megabyte. */
static enum result settle_block(const struct reader *reader, int64_t settled, int64_t last, struct work_item *item, struct error *error)
{
  const uint8_t *document = reader->messages;
  for (uint32_t i = 0; i < reader->block.count && work_item_ids_bytes(item) < WORK_ITEM_IDS_BYTES_MAX; i++) {
    uint32_t bytes = (uint32_t)document[0] | (uint32_t)document[1] << 8 | (uint32_t)document[2] << 16 | (uint32_t)document[3] << 24;
    int64_t seq = reader->block.seq + i;
    if (seq > settled && seq <= last) {
      struct element id;
      const char *flaw = message_id_find(document, bytes, &id);
      if (seq != item->seq_last + 1)
        error_set(error, "%s: seq %" PRId64 " follows on seq %" PRId64, reader->file.name, seq, item->seq_last);
      else if (flaw != NULL)
        error_set(error, "%s: the message of seq %" PRId64 " cannot be deleted from the queue: its _id %s", reader->file.name, seq, flaw);
      else if (!work_item_add_id(item, &id))
        error_set(error, "%s: no memory for the _ids that are to be deleted", reader->file.name);
      else
        item->seq_last = seq;
      if (item->seq_last != seq)
        return RESULT_REFUSED;
    }
    document += bytes;
  }
  return RESULT_YES;
}

static enum result settle_read(struct chain_reader *at, const struct action *action, struct work_item *item, struct error *error)
{
  enum read_status status = chain_reader_seek_seq(at, action->settled + 1, error);
  while (status == READ_OK && item->seq_last < action->end.seq && work_item_ids_bytes(item) < WORK_ITEM_IDS_BYTES_MAX) {
    status = chain_reader_next(at, error);
    if (status == READ_OK && at->reader.block.kind == BLOCK_DATA &&
        settle_block(&at->reader, action->settled, action->end.seq, item, error) != RESULT_YES)
      return RESULT_REFUSED;
  }
  if (status == READ_END)
    error_set(error, "%s: the chain ends before seq %" PRId64, action->end.file, action->end.seq);
  return status == READ_OK ? RESULT_YES : status == READ_NEWER ? RESULT_NEWER : RESULT_REFUSED;
}

/* YES: *item names what is to be deleted next. */
static enum result settle_find(const struct performer *performer, const struct action *action, struct work_item *item, struct error *error)
{
  const struct writer_options *options = &performer->options.writer;
  struct chain chain;
  struct chain_reader at;
  item->seq_last = action->settled;
  item->source = action->source;
  enum read_status loaded = chain_load(&chain, options->dir, options->type, &action->end, action->settled + 1, error);
  enum result result = loaded == READ_NEWER ? RESULT_NEWER : RESULT_REFUSED;
  if (loaded == READ_OK) {
    chain_reader_init(&at, options->dir, &chain);
    result = settle_read(&at, action, item, error);
    chain_reader_deinit(&at);
  }
  chain_free(&chain);
  return result;
}

static enum result settle_delete(struct performer *performer, struct work_item *item, struct completion *completion)
{
  if (!perform_may_go_on(performer))
    return RESULT_STOPPED;
  enum result prepared = prepare(performer, item->source, completion);
  if (prepared != RESULT_YES)
    return prepared;
  for (size_t i = 0; i < item->ids_count; i++) {
    if (!perform_may_go_on(performer))
      return RESULT_STOPPED;
    enum result result = deleted(performer, ids_delete(performer, item->source, item->ids[i], completion), completion);
    if (result != RESULT_YES)
      return result;
  }
  return perform_may_go_on(performer) ? RESULT_YES : RESULT_STOPPED;
}

static enum result settle_load(struct performer *performer, const struct action *action, struct work_item *item,
                               struct completion *completion)
{
  const struct performer_options *options = &performer->options;
  enum result found = settle_find(performer, action, item, &completion->error);
  if (found != RESULT_YES)
    return perform_judged(performer, action, found, action->end.seq, completion);
  enum result gone = settle_delete(performer, item, completion);
  if (gone != RESULT_YES)
    return gone;
  completion->settled = item->seq_last;
  return perform_asked(
      completion, ledger_settle(options->store, options->writer.type, action->epoch, &action->owner, item->seq_last, &completion->error));
}

enum result perform_settle(struct performer *performer, const struct action *action, struct completion *completion)
{
  struct work_item *item = work_item_new();
  if (item == NULL) {
    error_set(&completion->error, "settling: no memory");
    return RESULT_REFUSED;
  }
  enum result result = settle_load(performer, action, item, completion);
  work_item_free(item);
  return result;
}
