#include "worker/poll_together.h"
#include "worker/clock.h"
#include "worker/perform_private.h"
#include "worker/type_rules.h"

struct listed {
  struct type_list types;
  bool memory;
};

static void note(void *context, const char *type)
{
  struct listed *listed = context;
  listed->memory = listed->memory && type_list_add(&listed->types, type);
}

static const char *type_of(const struct poll_one *one)
{
  return one->performer->options.writer.type;
}

/* Once for all of them: each alone would ask for the same. */
static enum outcome prepare(struct poll_together *together, struct error *error)
{
  struct lockstore *store = together->types.store;
  bool known = lockstore_is_known(store);
  for (size_t i = 0; i < together->count && known; i++)
    known = !together->polls[i].performer->rechecks;
  enum outcome outcome = known ? OUTCOME_YES : lockstore_prepare(store, error);
  for (size_t i = 0; i < together->count && !known; i++)
    together->polls[i].performer->rechecks = outcome != OUTCOME_YES;
  return outcome;
}

/* Of the types that have nothing in `messages`: which have a collection of their own, where that is not known. */
static enum outcome ask_own(struct poll_together *together, struct error *error)
{
  const char *types[POLL_TOGETHER_MAX];
  struct poll_one *asking[POLL_TOGETHER_MAX];
  bool own[POLL_TOGETHER_MAX];
  size_t count = 0;
  for (size_t i = 0; i < together->count; i++) {
    struct poll_one *one = &together->polls[i];
    if (one->told != POLL_ANSWERED || !one->action->asks_own)
      continue;
    asking[count] = one;
    types[count++] = type_of(one);
  }
  enum outcome outcome = count == 0 ? OUTCOME_YES : ledger_find_own(together->types.store, types, count, own, error);
  for (size_t i = 0; i < count && outcome == OUTCOME_YES; i++)
    asking[i]->told = own[i] ? POLL_UNTOLD : POLL_ANSWERED;
  return outcome;
}

/* Without an answer for these the others have theirs. */
static void poll_own(struct poll_together *together, struct listed *busy, struct error *error)
{
  const char *types[POLL_TOGETHER_MAX];
  struct poll_one *asking[POLL_TOGETHER_MAX];
  size_t count = 0;
  for (size_t i = 0; i < together->count; i++) {
    struct poll_one *one = &together->polls[i];
    if (one->told != POLL_ANSWERED || !one->action->own)
      continue;
    one->told = POLL_UNTOLD;
    if (!perform_own_is_prepared(one->performer))
      continue;
    asking[count] = one;
    types[count++] = type_of(one);
  }
  bool answered = queue_types_own_among(&together->types, types, count, note, busy, error) == OUTCOME_YES;
  type_list_sort(&busy->types);
  for (size_t i = 0; i < count && answered; i++)
    asking[i]->told = type_list_has(&busy->types, types[i]) ? POLL_FOUND : POLL_ANSWERED;
}

static enum outcome ask(struct poll_together *together, struct listed *busy, struct error *error)
{
  const char *types[POLL_TOGETHER_MAX];
  for (size_t i = 0; i < together->count; i++)
    types[i] = type_of(&together->polls[i]);
  enum outcome outcome = queue_types_among(&together->types, types, together->count, note, busy, error);
  type_list_sort(&busy->types);
  for (size_t i = 0; i < together->count; i++)
    together->polls[i].told = type_list_has(&busy->types, types[i]) ? POLL_FOUND : POLL_ANSWERED;
  if (outcome == OUTCOME_YES)
    outcome = ask_own(together, error);
  if (outcome == OUTCOME_YES)
    poll_own(together, busy, error);
  return outcome;
}

void poll_together(struct poll_together *together)
{
  struct listed busy = {.memory = true};
  struct error error = {.text = ""};
  enum outcome outcome = prepare(together, &error);
  int64_t began_ms = clock_boot_ms();
  if (outcome == OUTCOME_YES)
    outcome = ask(together, &busy, &error);
  const struct poll_answer answer = {.outcome = outcome == OUTCOME_YES ? OUTCOME_NO : outcome,
                                     .error = &error,
                                     .took_ms = clock_boot_ms() - began_ms,
                                     .types = (int64_t)together->count};
  for (size_t i = 0; i < together->count; i++) {
    struct poll_one *one = &together->polls[i];
    if (outcome == OUTCOME_NO || !busy.memory)
      one->told = POLL_UNTOLD;
    else if (outcome != OUTCOME_YES)
      one->told = POLL_ANSWERED;
    if (one->told == POLL_ANSWERED)
      perform_polled(one->performer, one->action, &answer, one->completion);
  }
  type_list_free(&busy.types);
}
