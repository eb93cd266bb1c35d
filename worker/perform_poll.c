#include "worker/clock.h"
#include "worker/perform_private.h"

#include <stdlib.h>

/* Polls: of a type, and the last one of --exit-when-empty. */

/* Where `messages` has none. One text tells of one document: where it is taken, the own collection's wait for the next poll. */
static enum outcome poll_own(struct performer *performer, const struct action *action, struct error *error)
{
  struct error own = {.text = ""};
  bool named = error->text[0] != 0;
  enum outcome outcome = perform_prepare_source(performer, SOURCE_OWN, &own);
  if (outcome == OUTCOME_YES)
    outcome =
        queue_poll_own(performer->options.store, performer->options.writer.type, named ? NULL : &performer->marks.own, action->tail, &own);
  if (!named || (outcome != OUTCOME_YES && outcome != OUTCOME_NO))
    *error = own;
  return outcome;
}

/* NO: asked; the error may still name a document. */
static enum outcome own_ask(struct performer *performer, struct completion *completion)
{
  const char *type = performer->options.writer.type;
  struct error error;
  enum outcome outcome = ledger_find_own(performer->options.store, &type, 1, &completion->own, &error);
  if (outcome == OUTCOME_YES)
    return OUTCOME_NO;
  completion->error = error;
  return outcome;
}

void perform_polled(struct performer *performer, const struct action *action, const struct poll_answer *answer,
                    struct completion *completion)
{
  perform_begun(completion, action);
  completion->took_ms = answer->took_ms;
  completion->took_types = answer->types;
  if (answer->outcome != OUTCOME_NO)
    completion->error = *answer->error;
  if (answer->outcome == OUTCOME_UNKNOWN)
    performer->rechecks = true;
  completion->result = perform_asked(completion, answer->outcome);
  performer->unanswered = completion->result == RESULT_UNKNOWN;
}

enum result perform_poll(struct performer *performer, const struct action *action, struct completion *completion)
{
  const char *type = performer->options.writer.type;
  enum outcome outcome = perform_prepare(performer, &completion->error);
  if (outcome != OUTCOME_YES)
    return perform_asked(completion, outcome);
  int64_t began_ms = clock_boot_ms();
  int named_count = performer->marks.shared.named_count;
  completion->tail = action->tail && (performer->marks.shared.set || (action->own && performer->marks.own.set));
  outcome = queue_poll(performer->options.store, &type, 1, false, &performer->marks.shared, action->tail, &completion->error);
  if (outcome == OUTCOME_NO && action->asks_own)
    outcome = own_ask(performer, completion);
  if (outcome == OUTCOME_NO && (action->own || completion->own))
    outcome = poll_own(performer, action, &completion->error);
  completion->took_ms = clock_boot_ms() - began_ms;
  completion->took_types = 1;
  completion->tail_next = performer->marks.shared.set || (action->own && performer->marks.own.set);
  if (outcome == OUTCOME_UNKNOWN) /* perhaps the index is gone with its database: it is made again */
    performer->rechecks = true;
  if (outcome != OUTCOME_YES && outcome != OUTCOME_NO)
    performer->marks.shared.named_count = named_count; /* the text is lost: it is named again */
  return perform_asked(completion, outcome);
}

enum outcome perform_last_poll(struct lockstore *store, const char *const *types, size_t count, struct error *error)
{
  enum outcome outcome = queue_poll(store, types, count, true, NULL, false, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  const char **own_types = calloc(count, sizeof *own_types);
  bool *own = calloc(count, sizeof *own);
  size_t own_count = 0;
  error_set(error, "looking at the queue: no memory");
  outcome = own_types != NULL && own != NULL ? ledger_find_own(store, types, count, own, error) : OUTCOME_UNKNOWN;
  for (size_t i = 0; outcome == OUTCOME_YES && i < count; i++)
    if (own[i])
      own_types[own_count++] = types[i];
  if (outcome == OUTCOME_YES)
    outcome = own_count > 0 ? queue_poll_both(store, own_types, own_count, error) : OUTCOME_NO;
  free(own_types);
  free(own);
  return outcome;
}
