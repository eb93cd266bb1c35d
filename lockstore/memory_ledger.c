#include "lockstore/memory_private.h"

#include <assert.h>
#include <stdlib.h>

static enum outcome check_v(const char *type, const struct ledger *ledger, struct error *error)
{
  if (ledger->v == 1)
    return OUTCOME_YES;
  error_set(error, "the ledger of \"%s\" has v %d and this pawl knows 1: a newer pawl is needed", type, ledger->v);
  return OUTCOME_REFUSED;
}

enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  *ledger = (struct ledger){0};
  if (memory_call_begin(store, &lost)) {
    const struct ledger_document *document = memory_ledger_find(store->server, type);
    if (document && !lost) {
      outcome = check_v(type, &document->ledger, error);
      if (outcome == OUTCOME_YES)
        *ledger = document->ledger;
      ledger->v = document->ledger.v;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

struct ledger_found {
  struct ledger ledger;
};

enum outcome ledger_read_found(struct lockstore *store, const char *type, struct ledger *ledger, struct ledger_found **found,
                               struct error *error)
{
  enum outcome outcome = ledger_read(store, type, ledger, error);
  *found = NULL;
  if (outcome != OUTCOME_REFUSED)
    return outcome;
  *found = calloc(1, sizeof **found);
  assert(*found);
  (*found)->ledger = memory_ledger_find(store->server, type)->ledger;
  return outcome;
}

void ledger_found_free(struct ledger_found *found)
{
  free(found);
}

enum outcome ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  return ledger_read(store, type, ledger, error);
}

static void fence_guarded(struct ledger *ledger, int64_t epoch_seen, enum fencer fencer)
{
  bool vouched = ledger->guarded != 0 && ledger->guarded == epoch_seen;
  vouched = fencer == FENCER_LOCAL ? vouched || ledger->clean : fencer == FENCER_READER && vouched;
  ledger->guarded = vouched ? epoch_seen + 1 : 0;
}

static enum outcome fence(struct memory_server *server, const char *type, int64_t epoch_seen, const struct owner *owner, enum fencer fencer,
                          struct ledger *before)
{
  struct ledger_document *document = memory_ledger_find(server, type);
  *before = (struct ledger){0};
  if (!document && epoch_seen == 0) {
    document = memory_ledger_make(server, type);
    document->ledger.v = 1;
  } else if (document && document->ledger.v == 1 && document->ledger.epoch == epoch_seen) {
    *before = document->ledger;
  } else {
    return OUTCOME_NO;
  }
  document->ledger.epoch = epoch_seen + 1;
  document->ledger.has_owner = true;
  document->ledger.owner = *owner;
  fence_guarded(&document->ledger, epoch_seen, fencer);
  document->ledger.clean = document->ledger.clean && fencer == FENCER_READER;
  return OUTCOME_YES;
}

enum outcome ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner, enum fencer fencer,
                          struct ledger *before, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  *before = (struct ledger){0};
  if (!ledger_epoch_has_next(type, epoch_seen, error))
    return OUTCOME_REFUSED;
  if (memory_call_begin(store, &lost))
    outcome = fence(store->server, type, epoch_seen, owner, fencer, before);
  if (lost || outcome != OUTCOME_YES)
    *before = (struct ledger){0};
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_draw(struct lockstore *store, const char *type, int slots, const struct owner *owner, int64_t *token, int *found,
                         struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost)) {
    struct ledger_document *document = memory_ledger_find(store->server, type);
    if (!document) {
      document = memory_ledger_make(store->server, type);
      document->ledger.v = 1;
      document->ledger.slots = slots;
    }
    struct ledger *ledger = &document->ledger;
    *found = ledger->slots;
    outcome = ledger->v == 1 && ledger->slots == slots ? OUTCOME_YES : OUTCOME_NO;
    if (outcome == OUTCOME_YES) {
      *token = ++ledger->epoch;
      ledger->has_owner = true;
      ledger->owner = *owner;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

static struct ledger *ledger_of_epoch(struct memory_server *server, const char *type, int64_t epoch, const struct owner *owner)
{
  struct ledger_document *document = memory_ledger_find(server, type);
  bool mine = document && document->ledger.v == 1 && document->ledger.epoch == epoch && document->ledger.has_owner &&
              owner_equal(&document->ledger.owner, owner);
  return mine ? &document->ledger : NULL;
}

/* `link` is absent as long as there is no file. */
static bool link_equal(const struct committed *a, const struct committed *b)
{
  return (a->file[0] == '\0') == (b->file[0] == '\0') && a->link == b->link;
}

static enum outcome commit_to(struct ledger *ledger, const struct ledger_commit *commit)
{
  if (!ledger || !(link_equal(&ledger->end, &commit->before) || link_equal(&ledger->end, &commit->after)))
    return OUTCOME_NO;
  if (commit->after.file[0])
    ledger->end = commit->after;
  if (commit->settled > ledger->settled)
    ledger->settled = commit->settled;
  ledger->clean = ledger->clean || commit->clean;
  if (commit->machine) {
    assert(strlen(commit->machine) < MACHINE_SIZE);
    strcpy(ledger->machine, commit->machine);
  }
  if (commit->guarded)
    ledger->guarded = commit->epoch;
  return OUTCOME_YES;
}

enum outcome ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error)
{
  assert(commit->epoch > 0 && commit->settled >= 0 && commit->settled <= commit->after.seq);
  assert(commit->after.seq >= commit->before.seq && (commit->after.file[0] || !commit->before.file[0]));
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost))
    outcome = commit_to(ledger_of_epoch(store->server, type, commit->epoch, &commit->owner), commit);
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                           struct error *error)
{
  assert(epoch > 0 && settled >= 0);
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct ledger *ledger = ledger_of_epoch(store->server, type, epoch, owner);
    if (ledger) {
      ledger->settled = settled > ledger->settled ? settled : ledger->settled;
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_forget(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct memory_server *server = store->server;
    struct ledger *ledger = ledger_of_epoch(server, type, epoch, owner);
    if (ledger && ledger->end.file[0] == '\0' && ledger->end.seq == 0) {
      struct ledger_document *document = memory_ledger_find(server, type);
      server->ledger_count--;
      memmove(document, document + 1, (size_t)(server->ledgers + server->ledger_count - document) * sizeof *document);
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_put(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                        const struct ledger *ledger, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct ledger_document *document = memory_ledger_find(store->server, type);
    if (!document && before->epoch == 0 && !found)
      document = memory_ledger_make(store->server, type);
    else if (document && found && memcmp(&document->ledger, &found->ledger, sizeof found->ledger) != 0)
      document = NULL;
    else if (document && !found &&
             (document->ledger.v != 1 || document->ledger.epoch != before->epoch || document->ledger.end.seq != before->end.seq ||
              document->ledger.end.link != before->end.link))
      document = NULL;
    if (document) {
      document->ledger = *ledger;
      document->ledger.guarded = 0;
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_list(struct lockstore *store, ledger_each *each, void *context, struct error *error)
{
  bool lost;
  if (memory_call_begin(store, &lost) && !lost)
    for (int i = 0; i < store->server->ledger_count; i++) {
      const struct ledger_document *document = &store->server->ledgers[i];
      struct error problem;
      bool ok = check_v(document->type, &document->ledger, &problem) == OUTCOME_YES;
      each(context, document->type, &document->ledger, ok ? NULL : problem.text);
    }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}
