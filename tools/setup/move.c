#include "tools/setup/move.h"
#include "lockstore/mongo.h"
#include "tools/setup/command.h"
#include "worker/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { TRIES_MAX = 50, CLEAR_TRIES = 10, PAUSE_MS = 100, STEPS_MAX = 4 + 2 * COPY_PARTS_MAX };

/* ---- requests without a transaction ---- */

struct found {
  const struct original *original;
  uint8_t *copy; /* the bytes of the first */
  size_t bytes;
  int count;
};

static void note_found(void *context, const bson_t *document)
{
  struct found *found = context;
  if (found->count++ > 0 || (found->copy = malloc(document->len)) == NULL)
    return;
  memcpy(found->copy, bson_get_data(document), document->len);
  found->bytes = document->len;
}

/* The command is destroyed. YES: *found has what came; the caller frees its copy in any case. */
static enum outcome find(struct mover *mover, const char *doing, bson_t *command, struct found *found, struct error *error)
{
  *found = (struct found){.count = 0};
  mongo_append_read_concern(mover->mongo, command, "local", false);
  mongo_append_max_time(mover->mongo, command);
  enum outcome outcome = mongo_find(mover->mongo, doing, command, note_found, found, error);
  bson_destroy(command);
  if (outcome != OUTCOME_YES || found->count == 0 || found->copy != NULL)
    return outcome;
  error_set(error, "%s: no memory", doing);
  return OUTCOME_UNKNOWN;
}

static bool same(const struct found *found, const uint8_t *bytes, size_t count)
{
  return found->copy != NULL && found->bytes == count && memcmp(found->copy, bytes, count) == 0;
}

/* YES: it is there as it was, or in any form. NO: it is not. */
static enum outcome original_look(struct mover *mover, const struct original *original, bool whole, struct error *error)
{
  bson_t filter;
  struct found found;
  command_filter_original(&filter, original, whole, 0);
  enum outcome outcome = find(mover, "looking at the document", command_find(original_queue(original).text, &filter), &found, error);
  bool there = whole ? same(&found, original->document, original->bytes) : found.count > 0;
  free(found.copy);
  return outcome == OUTCOME_YES && !there ? OUTCOME_NO : outcome;
}

/* The command is destroyed. As mongo_write; and REFUSED: the server says of the statement that it does not do this. */
static enum outcome send_write(struct mover *mover, const char *doing, bson_t *command, int64_t *count, struct error *error)
{
  bson_t reply;
  int code = 0;
  *count = 0;
  mongo_append_write_concern(command);
  enum outcome outcome = mongo_command(mover->mongo, doing, command, &reply, &code, error);
  if (outcome == OUTCOME_YES && !mongo_reply_count(&reply, doing, count, error))
    outcome = OUTCOME_UNKNOWN;
  else if (outcome == OUTCOME_UNKNOWN && !bson_has_field(&reply, "writeConcernError") && bson_has_field(&reply, "writeErrors.0"))
    outcome = OUTCOME_REFUSED;
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

/* YES: inserted. NO: one with this `_id` is there. */
static enum outcome insert(struct mover *mover, const char *doing, const char *collection, const bson_t *document, struct error *error)
{
  int64_t count;
  return send_write(mover, doing, command_insert(collection, document), &count, error);
}

/* YES: it is there. NO: it is not. */
static enum outcome copy_look(struct mover *mover, const uint8_t key[COPY_KEY_BYTES], struct error *error)
{
  struct found found;
  enum outcome outcome = find(mover, "looking at the copy", command_find_copy(key), &found, error);
  free(found.copy);
  return outcome == OUTCOME_YES && found.count == 0 ? OUTCOME_NO : outcome;
}

/*
 * Before the end of the lease only: afterwards it may be the only one, because another pawl-setup has set the document aside. NO: the
 * lease was over.
 */
static enum outcome copy_remove(struct mover *mover, const uint8_t key[COPY_KEY_BYTES], int parts, int64_t end_ms, struct error *error)
{
  int64_t count;
  enum outcome outcome = send_write(mover, "removing the copy", command_delete_copy(key, end_ms), &count, error);
  if (outcome == OUTCOME_YES && count != 1) {
    error_set(error, "the lock was lost before its copy was removed; run it again, before anybody resumes the type");
    return OUTCOME_NO;
  }
  return outcome == OUTCOME_YES && parts > 0
             ? send_write(mover, "removing the parts of the copy", command_delete_parts(key, end_ms), &count, error)
             : outcome;
}

uint8_t *move_read_parts(struct mover *mover, const struct copy_view *copy, enum outcome *outcome, struct error *error)
{
  uint8_t *bytes = malloc(copy->bytes);
  size_t used = 0;
  *outcome = OUTCOME_YES;
  for (int i = 0; i < copy->part_count && *outcome == OUTCOME_YES; i++) {
    bson_t id = BSON_INITIALIZER, part;
    struct found found;
    copy_append_part_id(&id, "_id", copy->key, i);
    *outcome = find(mover, "reading a part of the copy", command_find_by_id(&id), &found, error);
    bool there = found.copy != NULL && bson_init_static(&part, found.copy, found.bytes) && bytes != NULL;
    if (*outcome == OUTCOME_YES && !(there && copy_append_data(&part, bytes, copy->bytes, &used))) {
      error_set(error, "part %d of its copy in " COPIES " is missing, or not as pawl wrote it", i);
      *outcome = OUTCOME_NO;
    }
    free(found.copy);
    bson_destroy(&id);
  }
  if (*outcome == OUTCOME_YES && used == copy->bytes)
    return bytes;
  if (*outcome == OUTCOME_YES) {
    error_set(error, "its copy in " COPIES " has %zu bytes of %zu", used, copy->bytes);
    *outcome = OUTCOME_NO;
  }
  free(bytes);
  return NULL;
}

/* ---- aside, on a standalone server: copy, compare, delete ---- */

/* YES: made now. NO: it was there; it may be of a run that was killed, and the comparison tells. */
static enum outcome copy_put(struct mover *mover, const struct copy *copy, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  for (int i = 0; i < copy->part_count && (outcome == OUTCOME_YES || outcome == OUTCOME_NO); i++)
    outcome = insert(mover, "copying a part of the document to " COPIES, COPIES, &copy->parts[i], error);
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
    return outcome;
  return insert(mover, "copying the document to " COPIES, COPIES, &copy->document, error);
}

/* Whether the copy in the database is the document, byte for byte. */
static enum outcome copy_compare(struct mover *mover, const struct copy *copy, const struct original *original, struct error *error)
{
  struct found found;
  struct copy_view view;
  bson_t document;
  uint8_t *parts = NULL;
  enum outcome outcome = find(mover, "reading the copy", command_find_by_id(&copy->document), &found, error);
  bool usable =
      outcome == OUTCOME_YES && found.copy != NULL && bson_init_static(&document, found.copy, found.bytes) && copy_view(&document, &view);
  if (usable && view.document == NULL)
    parts = move_read_parts(mover, &view, &outcome, error);
  const uint8_t *bytes = usable && parts == NULL ? view.document : parts;
  if (outcome == OUTCOME_YES && !(bytes != NULL && view.bytes == original->bytes && memcmp(bytes, original->document, view.bytes) == 0)) {
    error_set(error, COPIES " has another document under the same _id");
    outcome = OUTCOME_NO;
  }
  free(parts);
  free(found.copy);
  return outcome;
}

/*
 * None was deleted: it is as it was (the lease was over), or somebody has changed it, or it is gone, by another pawl-setup. `made`: the
 * copy is of this call.
 */
static enum outcome not_deleted(struct mover *mover, const struct copy *copy, const struct original *original, bool made, int64_t end_ms,
                                struct error *error)
{
  enum outcome whole = original_look(mover, original, true, error), any = OUTCOME_NO;
  if (whole == OUTCOME_NO)
    any = original_look(mover, original, false, error);
  if (whole == OUTCOME_UNKNOWN || any == OUTCOME_UNKNOWN)
    return OUTCOME_UNKNOWN;
  if (whole == OUTCOME_YES) {
    error_set(error, "the lock was lost before the document was deleted; run it again");
    return OUTCOME_NO;
  }
  if (any == OUTCOME_NO)
    return OUTCOME_YES;
  enum outcome removed = made ? copy_remove(mover, copy->key, copy->part_count, end_ms, error) : OUTCOME_YES;
  if (removed != OUTCOME_YES)
    return removed == OUTCOME_NO ? OUTCOME_NO : OUTCOME_UNKNOWN;
  error_set(error, "somebody has changed the document meanwhile");
  return OUTCOME_NO;
}

/* The server does not delete it, so it has no copy, either. */
static enum outcome delete_refused(struct mover *mover, const struct copy *copy, const struct original *original, int64_t end_ms,
                                   struct error *error)
{
  struct error why;
  enum outcome there = original_look(mover, original, true, &why), removed = OUTCOME_YES;
  if (there == OUTCOME_YES)
    removed = copy_remove(mover, copy->key, copy->part_count, end_ms, &why);
  if (there != OUTCOME_YES && there != OUTCOME_NO)
    return OUTCOME_UNKNOWN;
  if (removed != OUTCOME_YES && removed != OUTCOME_NO)
    return OUTCOME_UNKNOWN;
  if (removed == OUTCOME_NO)
    *error = why;
  error->reason = ERROR_OTHER;
  return OUTCOME_NO;
}

static enum outcome aside_by_steps(struct mover *mover, const struct copy *copy, const struct original *original, struct error *error)
{
  int64_t end_ms = 0, count = 0;
  enum outcome outcome = hold_end(mover->hold, &end_ms, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  enum outcome put = copy_put(mover, copy, error);
  if (put == OUTCOME_UNKNOWN || put == OUTCOME_REFUSED)
    return put == OUTCOME_REFUSED ? OUTCOME_NO : put;
  outcome = copy_compare(mover, copy, original, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  outcome = send_write(mover, "deleting the document", command_delete_original(original, end_ms), &count, error);
  if (outcome == OUTCOME_REFUSED)
    return delete_refused(mover, copy, original, end_ms, error);
  return outcome == OUTCOME_YES && count != 1 ? not_deleted(mover, copy, original, put == OUTCOME_YES, end_ms, error) : outcome;
}

/* ---- aside, in a transaction ---- */

struct steps {
  struct mongo_step list[STEPS_MAX];
  size_t count;
};

static void step_add(struct steps *steps, const char *doing, bson_t *command, int64_t expected, const bson_t *result)
{
  steps->list[steps->count++] = (struct mongo_step){.doing = doing, .command = command, .expected = expected, .result = result};
}

/* The commands are destroyed. */
static enum outcome steps_run(struct mover *mover, struct steps *steps, struct error *error)
{
  enum outcome outcome = mongo_transaction_steps(mover->transactor, steps->list, steps->count, error);
  for (size_t i = 0; i < steps->count; i++)
    bson_destroy(steps->list[i].command);
  return outcome;
}

static enum outcome aside_at_once(struct mover *mover, const struct copy *copy, const struct original *original, struct error *error)
{
  struct steps steps = {.count = 0};
  if (mover->hold != NULL)
    step_add(&steps, "renewing the lock", hold_renewal(mover->hold), 1, NULL);
  for (int i = 0; i < copy->part_count; i++) {
    step_add(&steps, "copying a part of the document to " COPIES, command_insert(COPIES, &copy->parts[i]), 1, NULL);
    step_add(&steps, "comparing a part of the copy", command_find_by_id(&copy->parts[i]), 1, &copy->parts[i]);
  }
  step_add(&steps, "copying the document to " COPIES, command_insert(COPIES, &copy->document), 1, NULL);
  step_add(&steps, "comparing the copy", command_find_by_id(&copy->document), 1, &copy->document);
  step_add(&steps, "deleting the document", command_delete_original(original, 0), 1, NULL);
  return steps_run(mover, &steps, error);
}

/*
 * After a NO. True: try again, others are at the same document, or one that died has left a transaction open, which this ends after a
 * second.
 */
static bool conflict_waits(struct mover *mover, int tries)
{
  struct error ignored;
  if (!mongo_transaction_conflicted(mover->transactor) || tries == TRIES_MAX)
    return false;
  nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
  return tries % CLEAR_TRIES != 0 || mongo_end_left_transactions(mover->mongo, &ignored) == OUTCOME_YES;
}

static enum outcome aside_by_transaction(struct mover *mover, const struct copy *copy, const struct original *original, struct error *error)
{
  struct error ignored;
  enum outcome outcome = aside_at_once(mover, copy, original, error);
  for (int tries = 1; outcome == OUTCOME_NO && conflict_waits(mover, tries); tries++)
    outcome = aside_at_once(mover, copy, original, error);
  /* Another pawl-setup has moved it, or its producer has changed it. */
  if (outcome == OUTCOME_NO && original_look(mover, original, true, &ignored) == OUTCOME_NO)
    error->text[0] = '\0';
  return outcome;
}

enum outcome move_aside(struct mover *mover, const struct original *original, struct error *error)
{
  struct copy copy;
  enum outcome outcome = OUTCOME_NO;
  if (!copy_make(&copy, original->document, original->bytes, &original->refusal, mover->by, clock_wall_us() / 1000))
    error_set(error, "it has %zu bytes, more than MongoDB takes", original->bytes);
  else if (mover->transactor != NULL)
    outcome = aside_by_transaction(mover, &copy, original, error);
  else
    outcome = aside_by_steps(mover, &copy, original, error);
  copy_free(&copy);
  return outcome;
}

/* ---- back ---- */

static bool back_document(const struct original *original, bson_t *document)
{
  return bson_init_static(document, original->document, original->bytes);
}

static enum outcome back_at_once(struct mover *mover, const struct copy_view *copy, const struct original *original, struct error *error)
{
  struct steps steps = {.count = 0};
  bson_t document, filter;
  if (!back_document(original, &document))
    return OUTCOME_NO;
  step_add(&steps, "removing the copy", command_delete_copy(copy->key, 0), 1, NULL);
  if (copy->part_count > 0)
    step_add(&steps, "removing the parts of the copy", command_delete_parts(copy->key, 0), copy->part_count, NULL);
  step_add(&steps, "inserting the document", command_insert(original_queue(original).text, &document), 1, NULL);
  command_filter_original(&filter, original, true, 0);
  step_add(&steps, "comparing the document", command_find(original_queue(original).text, &filter), 1, &document);
  return steps_run(mover, &steps, error);
}

static enum outcome back_by_transaction(struct mover *mover, const struct copy_view *copy, const struct original *original,
                                        struct error *error)
{
  struct error ignored;
  enum outcome outcome = back_at_once(mover, copy, original, error);
  for (int tries = 1; outcome == OUTCOME_NO && conflict_waits(mover, tries); tries++)
    outcome = back_at_once(mover, copy, original, error);
  if (outcome == OUTCOME_NO && copy_look(mover, copy->key, &ignored) == OUTCOME_NO)
    error->text[0] = '\0'; /* another pawl-setup has moved it */
  return outcome;
}

/* Whether workers stay away from it. REFUSED: as ledger_read. */
static enum outcome no_worker_takes(struct mover *mover, const struct original *original, struct error *error)
{
  const char *type = original->refusal.type;
  struct ledger ledger;
  if (strcmp(type, REFUSAL_UNTYPED) == 0)
    return OUTCOME_YES;
  enum outcome outcome = ledger_read(mover->hold->store, type, &ledger, error);
  if (outcome != OUTCOME_NO && (outcome != OUTCOME_YES || ledger.paused))
    return outcome;
  error_set(error, "this server has no transactions, and %s is not paused: a worker could write it twice", type);
  return OUTCOME_NO;
}

/*
 * YES: the copy can go. `made`: the insert is of this call; then a document that is gone was taken by a worker, because somebody has
 * resumed the type, and with a copy that stays it would come back a second time.
 */
static enum outcome back_arrived(struct mover *mover, const struct original *original, bool made, struct error *error)
{
  enum outcome outcome = original_look(mover, original, true, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  if (made && strcmp(original->refusal.type, REFUSAL_UNTYPED) != 0 && original->refusal.id.value != NULL) {
    enum outcome any = original_look(mover, original, false, error);
    if (any != OUTCOME_YES)
      return any == OUTCOME_NO ? OUTCOME_YES : any;
  }
  error_set(error, "%s has another document with its _id", original_queue(original).text);
  return OUTCOME_NO;
}

static enum outcome back_by_steps(struct mover *mover, const struct copy_view *copy, const struct original *original, struct error *error)
{
  int64_t end_ms = 0;
  bson_t document;
  if (!back_document(original, &document))
    return OUTCOME_NO;
  enum outcome outcome = hold_end(mover->hold, &end_ms, error);
  if (outcome == OUTCOME_YES)
    outcome = copy_look(mover, copy->key, error); /* it was read before the lock was taken; NO: another pawl-setup has moved it */
  if (outcome == OUTCOME_YES)
    outcome = no_worker_takes(mover, original, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  enum outcome put = insert(mover, "inserting the document", original_queue(original).text, &document,
                            error); /* NO: of a run that was killed, or another one */
  if (put == OUTCOME_UNKNOWN || put == OUTCOME_REFUSED)
    return put == OUTCOME_REFUSED ? OUTCOME_NO : put;
  outcome = back_arrived(mover, original, put == OUTCOME_YES, error);
  return outcome == OUTCOME_YES ? copy_remove(mover, copy->key, copy->part_count, end_ms, error) : outcome;
}

enum outcome move_back(struct mover *mover, const struct copy_view *copy, const struct original *original, struct error *error)
{
  return mover->transactor != NULL ? back_by_transaction(mover, copy, original, error) : back_by_steps(mover, copy, original, error);
}
