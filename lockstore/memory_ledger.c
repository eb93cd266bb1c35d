#include "lockstore/ledger_requests.h"
#include "lockstore/memory_private.h"

#include <assert.h>
#include <stdlib.h>

static enum outcome check_usable(const struct ledger_document *document, struct error *error)
{
  if (!document->ledger.newer)
    return OUTCOME_YES;
  error_set(error, "the ledger of \"%s\"%s", document->type, document->malformed ? " is malformed" : ": a newer pawl is needed");
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
      outcome = check_usable(document, error);
      if (outcome == OUTCOME_YES)
        *ledger = document->ledger;
      ledger->newer = document->ledger.newer && !document->malformed;
      if (outcome == OUTCOME_YES && ledger->epoch == 0) {
        *ledger = (struct ledger){.birth = ledger->birth};
        outcome = OUTCOME_NO;
      }
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

enum outcome ledger_read_made(struct lockstore *store, const char *type, struct ledger_from *from, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (memory_call_begin(store, &lost)) {
    const struct ledger_document *document = memory_ledger_find(store->server, type);
    if (document != NULL) {
      *from = (struct ledger_from){.epoch = store->server->floor, .birth = document->ledger.birth};
      outcome = !document->ledger.newer && document->ledger.epoch == 0 ? OUTCOME_YES : OUTCOME_NO;
    }
  }
  return memory_call_end(store, lost, outcome, error);
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

enum outcome ledger_insert(struct lockstore *store, const char *type, int64_t birth, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost) && memory_ledger_find(store->server, type) == NULL) {
    memory_ledger_make(store->server, type)->ledger = (struct ledger){.birth = birth};
    outcome = OUTCOME_YES;
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_floor(struct lockstore *store, int64_t *floor, struct error *error)
{
  bool lost;
  *floor = memory_call_begin(store, &lost) && !lost ? store->server->floor : 0;
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

/* The very state that was seen; NULL: it is another by now. */
static struct ledger *ledger_as_seen(struct memory_server *server, const char *type, bool tool, int64_t epoch, int64_t birth)
{
  struct ledger_document *document = memory_ledger_find(server, type);
  struct ledger *ledger = document != NULL ? &document->ledger : NULL;
  bool same = ledger != NULL && !ledger->newer && !ledger->moved && (tool || !ledger->paused) && ledger->epoch == epoch &&
              (birth == 0 || ledger->birth == birth);
  return same ? ledger : NULL;
}

static void apply_change(const struct memory_server *server, struct ledger *ledger, const struct fence *fence)
{
  switch (fence->change) {
  case FENCE_ONLY:
    break;
  case FENCE_PAUSE:
    ledger->paused = true;
    ledger->pause = *fence->pause;
    ledger->pause.at_ms = server->now_ms;
    break;
  case FENCE_OWN_BEGIN:
    ledger->own = true;
    break;
  case FENCE_OWN_END:
    ledger->own = false;
    ledger->from = SOURCE_SHARED;
    break;
  }
}

static enum outcome fence_apply(struct memory_server *server, struct ledger *ledger, const struct ledger_from *from,
                                const struct fence *fence, struct ledger *before)
{
  if (ledger == NULL)
    return OUTCOME_NO;
  *before = from->birth != 0 ? (struct ledger){.epoch = from->epoch} : *ledger;
  ledger->epoch = from->epoch + 1;
  ledger->birth = 0;
  ledger->has_owner = true;
  ledger->owner = *fence->owner;
  fence_guarded(ledger, from->epoch, fence->fencer);
  ledger->clean = ledger->clean && fence->fencer == FENCER_READER;
  apply_change(server, ledger, fence);
  return OUTCOME_YES;
}

enum outcome ledger_fence_from(struct lockstore *store, const char *type, const struct ledger_from *from, const struct fence *fence,
                               struct ledger *before, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_UNKNOWN;
  *before = (struct ledger){0};
  if (!ledger_epoch_has_next(type, from->epoch, error))
    return OUTCOME_REFUSED;
  if (memory_call_begin(store, &lost)) {
    bool reader = fence->fencer == FENCER_READER;
    struct ledger *ledger = ledger_as_seen(store->server, type, reader, from->birth == 0 ? from->epoch : 0, from->birth);
    outcome = fence_apply(store->server, ledger, from, fence, before);
  }
  if (lost || outcome != OUTCOME_YES)
    *before = (struct ledger){0};
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_pause_end(struct lockstore *store, const char *type, const uint8_t id[16], struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct ledger_document *document = memory_ledger_find(store->server, type);
    if (document != NULL && document->ledger.paused && !document->ledger.newer &&
        memcmp(document->ledger.pause.id, id, sizeof document->ledger.pause.id) == 0) {
      document->ledger.paused = false;
      document->ledger.pause = (struct ledger_pause){.at_ms = 0};
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_draw_from(struct lockstore *store, const char *type, const struct ledger_from *from, int slots,
                              const struct owner *owner, int64_t *token, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct ledger_document *document = memory_ledger_find(store->server, type);
    struct ledger *ledger = document != NULL && !document->ledger.newer ? &document->ledger : NULL;
    if (from->birth != 0)
      ledger = ledger_as_seen(store->server, type, false, 0, from->birth);
    else if (ledger != NULL && (ledger->epoch == 0 || ledger->slots != slots))
      ledger = NULL;
    if (ledger != NULL) {
      *token = (from->birth != 0 ? from->epoch : ledger->epoch) + 1;
      ledger->epoch = *token;
      ledger->birth = 0;
      ledger->slots = slots;
      ledger->has_owner = true;
      ledger->owner = *owner;
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_raise_floor(struct lockstore *store, int64_t epoch, struct error *error)
{
  bool lost;
  if (memory_call_begin(store, &lost) && epoch > store->server->floor)
    store->server->floor = epoch;
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

enum outcome ledger_remove(struct lockstore *store, const struct ledger_name *names, size_t count, int64_t *removed, struct error *error)
{
  bool lost, reached = memory_call_begin(store, &lost);
  struct memory_server *server = store->server;
  *removed = 0;
  for (size_t i = 0; i < count && reached; i++) {
    struct ledger *ledger = ledger_as_seen(server, names[i].type, false, names[i].epoch, names[i].birth);
    if (ledger == NULL || ledger->own || ledger->end.file[0] != '\0' || ledger->end.seq != 0)
      continue;
    struct ledger_document *document = memory_ledger_find(server, names[i].type);
    server->ledger_count--;
    memmove(document, document + 1, (size_t)(server->ledgers + server->ledger_count - document) * sizeof *document);
    ++*removed;
  }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

static struct ledger *ledger_of_epoch(struct memory_server *server, const char *type, int64_t epoch, const struct owner *owner)
{
  struct ledger_document *document = memory_ledger_find(server, type);
  bool mine = document && !document->ledger.newer && !document->ledger.moved && !document->ledger.paused &&
              document->ledger.epoch == epoch && document->ledger.has_owner && owner_equal(&document->ledger.owner, owner);
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
  if (commit->after.seq > commit->before.seq)
    ledger->from = commit->from;
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
  assert(commit->after.seq == commit->before.seq || commit->from != SOURCE_BOTH);
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

enum outcome ledger_put_over(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                             const struct ledger *ledger, struct error *error)
{
  bool lost;
  enum outcome outcome = OUTCOME_NO;
  if (memory_call_begin(store, &lost)) {
    struct ledger_document *document = memory_ledger_find(store->server, type);
    if (document && found && memcmp(&document->ledger, &found->ledger, sizeof found->ledger) != 0)
      document = NULL;
    else if (document && !found &&
             (document->ledger.newer || document->ledger.paused != before->paused || document->ledger.own != before->own ||
              document->ledger.epoch != before->epoch || document->ledger.birth != before->birth ||
              document->ledger.end.seq != before->end.seq || document->ledger.end.link != before->end.link))
      document = NULL;
    if (document) {
      document->ledger = *ledger;
      document->malformed = false;
      document->ledger.guarded = 0;
      document->ledger.from = ledger->own ? SOURCE_BOTH : SOURCE_SHARED;
      outcome = OUTCOME_YES;
    }
  }
  return memory_call_end(store, lost, outcome, error);
}

enum outcome ledger_find_own(struct lockstore *store, const char *const *types, size_t count, bool *own, struct error *error)
{
  bool lost, reached = memory_call_begin(store, &lost);
  for (size_t i = 0; i < count; i++) {
    const struct ledger_document *document = reached && !lost ? memory_ledger_find(store->server, types[i]) : NULL;
    own[i] = document != NULL && !document->ledger.newer && document->ledger.own;
  }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}

enum outcome ledger_list(struct lockstore *store, const char *type, ledger_each *each, void *context, struct error *error)
{
  bool lost;
  if (memory_call_begin(store, &lost) && !lost)
    for (int i = 0; i < store->server->ledger_count; i++) {
      const struct ledger_document *document = &store->server->ledgers[i];
      struct error problem;
      if (type != NULL && strcmp(type, document->type) != 0)
        continue;
      bool ok = check_usable(document, &problem) == OUTCOME_YES;
      each(context, document->type, &document->ledger, ok ? NULL : problem.text);
    }
  return memory_call_end(store, lost, OUTCOME_YES, error);
}
