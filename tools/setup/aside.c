#include "tools/setup/aside.h"
#include "lockstore/mongo.h"
#include "tools/setup/move.h"
#include "worker/clock.h"
#include "worker/message_id.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

enum { ROUND_BYTES_MAX = 64 * 1024 * 1024, SHOWN_MAX = 10, LINE_SIZE = 700 };

static bool untyped(const char *type)
{
  return strcmp(type, REFUSAL_UNTYPED) == 0;
}

static enum aside_status of_outcome(enum outcome outcome)
{
  return outcome == OUTCOME_REFUSED ? ASIDE_UNTRUSTED : ASIDE_UNAVAILABLE;
}

/* ---- what is there ---- */

struct one { /* a document of a queue, or of refused */
  uint8_t *bytes;
  size_t count;
  const char *own; /* borrowed: the type in whose own collection it is; NULL: in messages, or in refused */
};

static bool judge(const struct one *one, struct refusal *refusal)
{
  return one->own != NULL ? refusal_judge_own(one->bytes, one->count, one->own, refusal) : refusal_judge(one->bytes, one->count, refusal);
}

struct round { /* as many documents as are kept in memory at a time */
  const struct aside *aside;
  bool copies;    /* those of refused, else those of a queue that no worker can take */
  bool own;       /* they are in the own collection of the type */
  size_t skipped; /* the first of these stay, as an earlier round has told */
  struct one *list;
  size_t count, room, bytes;
  bool more, no_memory;
};

static void round_free(struct round *round)
{
  for (size_t i = 0; i < round->count; i++)
    free(round->list[i].bytes);
  free(round->list);
}

static bool wanted(const struct round *round, const bson_t *document)
{
  struct refusal refusal;
  struct copy_view view;
  const struct one one = {
      .bytes = (uint8_t *)bson_get_data(document), .count = document->len, .own = round->own ? round->aside->type : NULL};
  if (round->copies)
    return copy_view(document, &view);
  return judge(&one, &refusal) && strcmp(refusal.type, round->aside->type) == 0;
}

static void round_add(void *context, const bson_t *document)
{
  struct round *round = context;
  if (!wanted(round, document))
    return;
  if (round->skipped > 0) {
    round->skipped--;
    return;
  }
  if (round->bytes + document->len > ROUND_BYTES_MAX && round->count > 0) {
    round->more = true;
    return;
  }
  if (round->count == round->room) {
    size_t room = round->room > 0 ? 2 * round->room : 64;
    struct one *list = realloc(round->list, room * sizeof *list);
    round->no_memory |= list == NULL;
    if (list == NULL)
      return;
    round->list = list;
    round->room = room;
  }
  uint8_t *bytes = malloc(document->len);
  round->no_memory |= bytes == NULL;
  if (bytes == NULL)
    return;
  memcpy(bytes, bson_get_data(document), document->len);
  round->list[round->count++] = (struct one){.bytes = bytes, .count = document->len, .own = round->own ? round->aside->type : NULL};
  round->bytes += document->len;
}

static bson_t *copies_command(const char *type)
{
  bson_t *command = BCON_NEW("find", COPIES), filter;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  if (type != NULL)
    BSON_APPEND_UTF8(&filter, "type", type);
  else
    BCON_APPEND(&filter, "type", "{", "$exists", BCON_BOOL(true), "}"); /* not the parts */
  bson_append_document_end(command, &filter);
  return command;
}

static bson_t *messages_command(const char *type)
{
  bson_t *command = BCON_NEW("find", "messages");
  refusal_append_filter(command, type);
  return command;
}

static bson_t *own_command(const char *type)
{
  bson_t *command = BCON_NEW("find", BCON_UTF8(queue_name_of(type, SOURCE_OWN).text));
  refusal_append_filter_own(command, type);
  return command;
}

/* The command is destroyed. It may go over a whole queue. */
static enum outcome scan(const struct aside *aside, const char *doing, bson_t *command, mongo_each *each, void *context,
                         struct error *error)
{
  struct mongo *mongo = lockstore_mongo(aside->patient);
  mongo_append_read_concern(mongo, command, "majority", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, doing, command, each, context, error);
  bson_destroy(command);
  return outcome;
}

/* NO: the type has no own collection. */
static enum outcome is_own(const struct aside *aside, const char *type, struct error *error)
{
  struct ledger ledger;
  enum outcome outcome = untyped(type) ? OUTCOME_NO : ledger_read(aside->store, type, &ledger, error);
  return outcome == OUTCOME_YES && !ledger.own ? OUTCOME_NO : outcome;
}

static enum outcome round_scan_own(struct round *round, struct error *error)
{
  const struct aside *aside = round->aside;
  enum outcome outcome = is_own(aside, aside->type, error);
  round->own = outcome == OUTCOME_YES;
  if (round->own)
    outcome = scan(aside, "looking for documents that no worker can take", own_command(aside->type), round_add, round, error);
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
}

static enum outcome round_read(struct round *round, struct error *error)
{
  const char *type = round->aside->type;
  enum outcome outcome = scan(round->aside, round->copies ? "reading " COPIES : "looking for documents that no worker can take",
                              round->copies ? copies_command(type) : messages_command(type), round_add, round, error);
  if (outcome == OUTCOME_YES && !round->copies && !round->more)
    outcome = round_scan_own(round, error);
  if (outcome == OUTCOME_YES && round->no_memory) {
    error_set(error, "no memory for the documents");
    return OUTCOME_UNKNOWN;
  }
  return outcome;
}

/* ---- words ---- */

static void describe(const struct one *one, bool copy, char line[LINE_SIZE])
{
  struct refusal refusal = {.why = ""};
  struct copy_view view;
  bson_t document;
  struct one shown = *one;
  if (copy && bson_init_static(&document, one->bytes, one->count) && copy_view(&document, &view))
    shown = (struct one){.bytes = (uint8_t *)view.document, .count = view.bytes, .own = view.from == SOURCE_OWN ? view.type : NULL};
  if (shown.bytes != NULL)
    (void)judge(&shown, &refusal);
  snprintf(line, LINE_SIZE, "%s: _id %s, %zu bytes: %s", copy ? view.type : refusal.type,
           shown.bytes != NULL ? message_id_show(&refusal.id).text : "(in parts)", shown.count, copy ? view.why : refusal.why);
}

static void tell(const struct aside *aside, const struct one *one, bool copy, const char *what)
{
  char line[LINE_SIZE], text[LINE_SIZE + sizeof(struct error) + 64];
  describe(one, copy, line);
  snprintf(text, sizeof text, "%s%s", line, what);
  aside->tell(aside->context, text);
}

static bool confirmed(const struct round *round)
{
  char text[SHOWN_MAX * LINE_SIZE + 200], line[LINE_SIZE];
  size_t used = 0, shown = round->count < SHOWN_MAX ? round->count : SHOWN_MAX;
  for (size_t i = 0; i < shown; i++) {
    describe(&round->list[i], round->copies, line);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s\n", line);
  }
  snprintf(text + used, sizeof text - used, "%s%zu document%s%s will be moved %s.", round->count > shown ? "...\n" : "", round->count,
           plural((int64_t)round->count), round->more ? " and more" : "",
           round->copies ? "back to the queue" : "to the collection " COPIES);
  return round->aside->confirm(round->aside->context, text);
}

/* ---- the way there ---- */

struct totals {
  size_t moved, left; /* left: told, and it stays where it is */
};

/* DONE or UNAVAILABLE. */
static enum aside_status round_set(const struct round *round, struct mover *mover, struct totals *totals, struct error *error)
{
  for (size_t i = 0; i < round->count; i++) {
    struct original original = {.document = round->list[i].bytes, .bytes = round->list[i].count};
    struct error why = {.text = ""};
    (void)judge(&round->list[i], &original.refusal);
    enum outcome outcome = mover->hold != NULL ? hold_renew(mover->hold, error) : OUTCOME_YES;
    if (outcome != OUTCOME_YES)
      return ASIDE_UNAVAILABLE;
    outcome = move_aside(mover, &original, &why);
    if (outcome == OUTCOME_UNKNOWN) {
      *error = why;
      return ASIDE_UNAVAILABLE;
    }
    totals->moved += outcome == OUTCOME_YES;
    if (outcome != OUTCOME_YES && why.text[0] != '\0') {
      char text[sizeof why.text + 20];
      snprintf(text, sizeof text, "; it stays: %s", why.text);
      tell(round->aside, &round->list[i], false, text);
      totals->left++;
    }
  }
  return ASIDE_DONE;
}

/* The lock, where one is needed: a type's, with its fence; without transactions also one of the tools alone. */
static enum aside_status lock(const struct aside *aside, struct mover *mover, struct hold *hold, struct error *error)
{
  bool fences = !untyped(aside->type);
  if (!fences && mover->transactor != NULL)
    return ASIDE_DONE;
  int64_t until_ms = aside->wait_ms < 0 ? INT64_MAX : clock_boot_ms() + aside->wait_ms;
  enum outcome outcome = hold_take(hold, aside->store, aside->type, fences, until_ms, error);
  if (outcome != OUTCOME_YES)
    return outcome == OUTCOME_NO ? ASIDE_BUSY : of_outcome(outcome);
  mover->hold = hold;
  return !fences || hold_settled(hold, error) ? ASIDE_DONE : ASIDE_BUSY;
}

/* False: no memory. */
static bool mover_init(struct mover *mover, const struct aside *aside)
{
  struct lock_holder self;
  lock_holder_self(&self, LOCK_BY_TOOL, "pawl-setup");
  *mover = (struct mover){.mongo = lockstore_mongo(aside->store)};
  snprintf(mover->by, sizeof mover->by, "%.250s, pid %" PRId64, self.host, self.pid);
  if (!mongo_is_replica_set(mover->mongo))
    return true;
  return (mover->transactor = mongo_transactor_new(mover->mongo)) != NULL;
}

static void mover_deinit(struct mover *mover)
{
  if (mover->hold != NULL)
    hold_release(mover->hold);
  mongo_transactor_free(mover->transactor);
}

/* What a run that was killed has left open would keep its documents closed. */
static void clear_way(struct mover *mover)
{
  struct error ignored;
  if (mover->transactor != NULL && mongo_end_left_transactions(mover->mongo, &ignored) != OUTCOME_YES) {
    /* conflict_waits (move.c) tries again. */
  }
}

typedef enum aside_status round_move(const struct round *round, struct mover *mover, struct totals *totals, struct error *error);

static enum aside_status run(const struct aside *aside, bool copies, struct hold *hold, round_move *move, size_t *moved,
                             struct error *error)
{
  struct mover mover;
  struct totals totals = {.moved = 0};
  enum aside_status status = ASIDE_DONE;
  bool first = true, more = true;
  *moved = 0;
  if (!mover_init(&mover, aside)) {
    error_set(error, "no memory");
    return ASIDE_UNAVAILABLE;
  }
  while (more && status == ASIDE_DONE) {
    struct round round = {.aside = aside, .copies = copies, .skipped = totals.left};
    enum outcome read = round_read(&round, error);
    more = round.more;
    if (read != OUTCOME_YES)
      status = of_outcome(read);
    else if (first && round.count > 0 && !confirmed(&round))
      status = ASIDE_DECLINED;
    if (first && status == ASIDE_DONE && round.count > 0) {
      clear_way(&mover);
      status = copies && mover.transactor != NULL ? ASIDE_DONE : lock(aside, &mover, hold, error);
    }
    if (status == ASIDE_DONE)
      status = move(&round, &mover, &totals, error);
    first = false;
    round_free(&round);
  }
  mover_deinit(&mover);
  *moved = totals.moved;
  return status == ASIDE_DONE && totals.left > 0 ? ASIDE_LEFT : status;
}

enum aside_status aside_set(const struct aside *aside, size_t *moved, struct error *error)
{
  struct hold hold;
  return run(aside, false, &hold, round_set, moved, error);
}

/* ---- the way back ---- */

/* NO: no worker would look at what is put back. */
static enum outcome queue_is_there(const struct aside *aside, const struct copy_view *view, struct error *error)
{
  struct ledger ledger = {.own = false};
  bool own = view->from == SOURCE_OWN;
  enum outcome outcome = untyped(view->type) ? OUTCOME_NO : ledger_read(aside->store, view->type, &ledger, error);
  if (outcome == OUTCOME_UNKNOWN || (own && outcome == OUTCOME_REFUSED))
    return outcome == OUTCOME_REFUSED ? OUTCOME_NO : outcome;
  if (outcome == OUTCOME_YES && ledger.moved) {
    error_set(error, "%s was moved to %s, and no worker takes it here", view->type, ledger.move.to);
    return OUTCOME_NO;
  }
  if (!own || (outcome == OUTCOME_YES && ledger.own))
    return OUTCOME_YES;
  error_set(error, "it is from %s, and %s has no own collection any more", queue_name_of(view->type, SOURCE_OWN).text, view->type);
  return OUTCOME_NO;
}

static enum outcome copy_back(const struct aside *aside, struct mover *mover, const struct one *one, struct error *error)
{
  bson_t document;
  struct copy_view view;
  uint8_t *parts = NULL;
  if (!bson_init_static(&document, one->bytes, one->count) || !copy_view(&document, &view))
    return OUTCOME_NO;
  enum outcome outcome = queue_is_there(aside, &view, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  if (view.document == NULL && (parts = move_read_parts(mover, &view, &outcome, error)) == NULL)
    return outcome;
  struct original original = {.document = parts != NULL ? parts : view.document, .bytes = view.bytes};
  const struct one whole = {
      .bytes = (uint8_t *)original.document, .count = original.bytes, .own = view.from == SOURCE_OWN ? view.type : NULL};
  (void)judge(&whole, &original.refusal);
  outcome = move_back(mover, &view, &original, error);
  free(parts);
  return outcome;
}

static enum aside_status round_back(const struct round *round, struct mover *mover, struct totals *totals, struct error *error)
{
  for (size_t i = 0; i < round->count; i++) {
    struct error why = {.text = ""};
    enum outcome outcome = copy_back(round->aside, mover, &round->list[i], &why);
    if (outcome == OUTCOME_UNKNOWN) {
      *error = why;
      return ASIDE_UNAVAILABLE;
    }
    totals->moved += outcome == OUTCOME_YES;
    if (outcome != OUTCOME_YES && why.text[0] != '\0') {
      char text[sizeof why.text + 40];
      snprintf(text, sizeof text, "; it stays in " COPIES ": %s", why.text);
      tell(round->aside, &round->list[i], true, text);
      totals->left++;
    }
  }
  return ASIDE_DONE;
}

enum aside_status aside_back(const struct aside *aside, size_t *moved, struct error *error)
{
  struct hold hold;
  return run(aside, true, &hold, round_back, moved, error);
}

/* ---- the list ---- */

struct listing {
  const struct aside *aside;
  size_t waiting;
  char (*own)[TYPE_BYTES_MAX + 1]; /* the types with own collections */
  size_t own_count, own_room, at;  /* at: the one that is read, from 1; 0: messages */
  bool no_memory;
  struct error malformed; /* says why a ledger cannot be used; "": all can be */
};

static bool listed(const struct listing *listing, const char *type)
{
  return listing->aside->type == NULL || strcmp(listing->aside->type, type) == 0;
}

static void list_waiting(void *context, const bson_t *document)
{
  struct listing *listing = context;
  struct refusal refusal;
  const struct one one = {
      .bytes = (uint8_t *)bson_get_data(document), .count = document->len, .own = listing->at > 0 ? listing->own[listing->at - 1] : NULL};
  if (!judge(&one, &refusal) || !listed(listing, refusal.type))
    return;
  listing->waiting++;
  tell(listing->aside, &one, false, "");
}

static void list_copy(void *context, const bson_t *document)
{
  const struct listing *listing = context;
  struct copy_view view;
  char text[400], at[sizeof "2026-01-01T00:00:00Z"] = "?";
  const struct one one = {.bytes = (uint8_t *)bson_get_data(document), .count = document->len};
  if (!copy_view(document, &view) || !listed(listing, view.type))
    return;
  time_t seconds = (time_t)(view.at_ms / 1000);
  struct tm tm;
  if (gmtime_r(&seconds, &tm) != NULL)
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &tm);
  snprintf(text, sizeof text, "; set aside at %s by %s", at, view.by);
  tell(listing->aside, &one, true, text);
}

static void note_own(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  struct listing *listing = context;
  if (problem != NULL && listed(listing, type))
    error_set(&listing->malformed, "%s", problem);
  if (problem != NULL || !ledger->own || !type_name_valid(type) || !listed(listing, type))
    return;
  if (listing->own_count == listing->own_room) {
    size_t room = listing->own_room > 0 ? 2 * listing->own_room : 16;
    void *own = realloc(listing->own, room * sizeof *listing->own);
    listing->no_memory |= own == NULL;
    if (own == NULL)
      return;
    listing->own = own;
    listing->own_room = room;
  }
  snprintf(listing->own[listing->own_count++], sizeof *listing->own, "%s", type);
}

/* A user who may read the queue alone sees what is in that, and is told so. */
static enum outcome list_own(struct listing *listing, struct error *error)
{
  enum outcome outcome = ledger_list(listing->aside->store, NULL, note_own, listing, error);
  if (outcome == OUTCOME_UNKNOWN && error->reason == ERROR_RIGHT) {
    char text[sizeof error->text + 64];
    snprintf(text, sizeof text, "own collections are left out: %s", error->text);
    listing->aside->warn(listing->aside->context, text);
    return OUTCOME_YES;
  }
  if (outcome == OUTCOME_YES && listing->no_memory) {
    error_set(error, "no memory for the list of own collections");
    outcome = OUTCOME_UNKNOWN;
  }
  for (listing->at = 1; listing->at <= listing->own_count && outcome == OUTCOME_YES; listing->at++)
    outcome = scan(listing->aside, "looking for documents that no worker can take", own_command(listing->own[listing->at - 1]),
                   list_waiting, listing, error);
  free(listing->own);
  return outcome;
}

enum aside_status aside_list(const struct aside *aside, size_t *waiting, struct error *error)
{
  struct listing listing = {.aside = aside};
  enum outcome outcome =
      scan(aside, "looking for documents that no worker can take", messages_command(aside->type), list_waiting, &listing, error);
  if (outcome == OUTCOME_YES)
    outcome = list_own(&listing, error);
  if (outcome == OUTCOME_YES)
    outcome = scan(aside, "reading " COPIES, copies_command(aside->type), list_copy, &listing, error);
  *waiting = listing.waiting;
  if (outcome == OUTCOME_YES && listing.malformed.text[0] != '\0') {
    *error = listing.malformed;
    return ASIDE_UNTRUSTED;
  }
  return outcome == OUTCOME_YES ? ASIDE_DONE : ASIDE_UNAVAILABLE;
}
