#include "lockstore/ledger.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/hasten.h"
#include "lockstore/ledger_requests.h"
#include "lockstore/store.h"

#include <assert.h>
#include <stdlib.h>

/*
 * The documents of `ledger`: what is in them, and the changes within an epoch; ledger_epoch.c has those of the epoch. Every filter of a
 * change names what it was seen to be, so that a request that arrives late or twice changes nothing: what it needs, the epoch and the
 * owner; the fence without the owner; and an adoption (ledger_put) the whole document, where that is malformed.
 */

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

/* ---- reading ---- */

enum outcome ledger_name_database(enum outcome outcome, const struct mongo *mongo, struct error *error)
{
  struct error cause = *error;
  if (outcome == OUTCOME_REFUSED)
    error_set(error, "%.900s (database %s)", cause.text, mongo_db(mongo));
  return outcome;
}

struct reading {
  const char *type;
  struct ledger *ledger;
  enum outcome outcome;
  bson_t **document; /* as it is, where it is REFUSED; or NULL */
  struct error *error;
};

static void read_one(void *context, const bson_t *document)
{
  struct reading *reading = context;
  reading->outcome = ledger_parse(document, reading->type, reading->ledger, reading->error);
  if (reading->outcome == OUTCOME_REFUSED && reading->document)
    *reading->document = bson_copy(document);
}

static enum outcome read_at(const char *level, struct lockstore *store, const char *type, struct ledger *ledger, bson_t **document,
                            struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command =
      BCON_NEW("find", "ledger", "filter", "{", "_id", BCON_UTF8(type), "}", "limit", BCON_INT32(1), "singleBatch", BCON_BOOL(true));
  mongo_append_read_concern(mongo, command, level, false);
  mongo_append_max_time(mongo, command);
  struct reading reading = {.type = type, .ledger = ledger, .outcome = OUTCOME_NO, .document = document, .error = error};
  *ledger = (struct ledger){0};
  enum outcome outcome = mongo_find(mongo, "reading the ledger", command, read_one, &reading, error);
  bson_destroy(command);
  return outcome == OUTCOME_YES ? ledger_name_database(reading.outcome, mongo, error) : outcome;
}

enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  return read_at("majority", store, type, ledger, NULL, error);
}

enum outcome ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  struct hasten hasten;
  hasten_begin(&hasten, lockstore_mongo(store), true);
  enum outcome outcome = read_at("linearizable", store, type, ledger, NULL, error);
  hasten_end(&hasten);
  return outcome;
}

struct ledger_found {
  bson_t *document;
};

enum outcome ledger_read_found(struct lockstore *store, const char *type, struct ledger *ledger, struct ledger_found **found,
                               struct error *error)
{
  bson_t *document = NULL;
  enum outcome outcome = read_at("majority", store, type, ledger, &document, error);
  *found = document ? calloc(1, sizeof **found) : NULL;
  if (document && !*found) {
    bson_destroy(document);
    error_set(error, "reading the ledger: no memory");
    return OUTCOME_UNKNOWN;
  }
  if (*found)
    (*found)->document = document;
  return outcome;
}

void ledger_found_free(struct ledger_found *found)
{
  if (found)
    bson_destroy(found->document);
  free(found);
}

struct listing {
  const struct mongo *mongo;
  ledger_each *each;
  void *context;
};

static void list_one(void *context, const bson_t *document)
{
  struct listing *listing = context;
  struct ledger ledger;
  struct error error = {.text = ""};
  char type[TYPE_BYTES_MAX + 1];
  bool named = document_text(document, "_id", type, sizeof type);
  if (!named)
    snprintf(type, sizeof type, "%s", document_show(document, "_id").text);
  bool ok = ledger_parse(document, type, &ledger, &error) != OUTCOME_REFUSED;
  if (ok && !named) {
    error_set(&error, "the ledger of %s cannot be used: _id is no type", type);
    ok = false;
  }
  if (!ok)
    ledger_name_database(OUTCOME_REFUSED, listing->mongo, &error);
  listing->each(listing->context, type, &ledger, ok ? NULL : error.text);
}

enum outcome ledger_list(struct lockstore *store, const char *type, ledger_each *each, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "ledger", "filter", "{", "_id", "{", type != NULL ? "$eq" : "$ne",
                             BCON_UTF8(type != NULL ? type : LEDGER_FLOOR), "}", "}", "sort", "{", "_id", BCON_INT32(1), "}");
  mongo_append_read_concern(mongo, command, "majority", false);
  mongo_append_max_time(mongo, command);
  struct listing listing = {.mongo = mongo, .each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "listing the ledgers", command, list_one, &listing, error);
  bson_destroy(command);
  return outcome;
}

struct own_finding {
  const char *const *types;
  size_t count, next; /* they come in order, as the types are, as a rule */
  bool *own;
};

static void own_found(void *context, const bson_t *document)
{
  struct own_finding *finding = context;
  bson_iter_t at;
  if (!bson_iter_init_find(&at, document, "_id") || !BSON_ITER_HOLDS_UTF8(&at))
    return;
  for (size_t i = 0; i < finding->count; i++) {
    size_t place = (finding->next + i) % finding->count;
    if (strcmp(finding->types[place], bson_iter_utf8(&at, NULL)) != 0)
      continue;
    finding->own[place] = true;
    finding->next = place + 1;
    return;
  }
}

/* A type that was moved away has none any more. */
static void append_has_own(bson_t *filter)
{
  BCON_APPEND(filter, "needs", "{", "$eq", BCON_UTF8(LEDGER_NEED_OWN), "$ne", BCON_UTF8(LEDGER_NEED_MOVED), "}");
}

enum outcome ledger_find_own(struct lockstore *store, const char *const *types, size_t count, bool *own, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "ledger", "projection", "{", "_id", BCON_INT32(1), "}", "sort", "{", "_id", BCON_INT32(1), "}");
  bson_t filter, id, in;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&id, "$in", &in);
  for (size_t i = 0; i < count; i++) {
    BSON_APPEND_UTF8(&in, "0", types[i]);
    own[i] = false;
  }
  bson_append_array_end(&id, &in);
  bson_append_document_end(&filter, &id);
  append_has_own(&filter);
  bson_append_document_end(command, &filter);
  mongo_append_read_concern(mongo, command, "majority", true);
  mongo_append_max_time(mongo, command);
  struct own_finding finding = {.types = types, .count = count, .own = own};
  enum outcome outcome = mongo_find(mongo, "looking for own collections", command, own_found, &finding, error);
  bson_destroy(command);
  return outcome;
}

struct own_listing {
  ledger_each_own *each;
  void *context;
};

static void own_listed(void *context, const bson_t *document)
{
  const struct own_listing *listing = context;
  char type[TYPE_BYTES_MAX + 1];
  if (document_text(document, "_id", type, sizeof type))
    listing->each(listing->context, type);
}

enum outcome ledger_list_own(struct lockstore *store, const char *from, const char *before, ledger_each_own *each, void *context,
                             struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "ledger", "projection", "{", "_id", BCON_INT32(1), "}", "sort", "{", "_id", BCON_INT32(1), "}");
  bson_t filter, id;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  BSON_APPEND_DOCUMENT_BEGIN(&filter, "_id", &id);
  BSON_APPEND_UTF8(&id, "$gte", from);
  if (before[0] != '\0')
    BSON_APPEND_UTF8(&id, "$lt", before);
  bson_append_document_end(&filter, &id);
  append_has_own(&filter);
  bson_append_document_end(command, &filter);
  mongo_append_read_concern(mongo, command, "majority", true);
  mongo_append_max_time(mongo, command);
  struct own_listing listing = {.each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "looking for own collections", command, own_listed, &listing, error);
  bson_destroy(command);
  return outcome;
}

/* ---- commit ---- */

/* Sends and destroys the command, an update of one document. */
static enum outcome send_update(struct lockstore *store, const char *doing, bson_t *command, struct error *error)
{
  int64_t matched = 0;
  enum outcome outcome = mongo_write(lockstore_mongo(store), doing, command, &matched, error);
  if (outcome == OUTCOME_NO) /* nothing is inserted: somebody's own index on `ledger` */
    outcome = OUTCOME_UNKNOWN;
  return outcome == OUTCOME_YES && matched == 0 ? OUTCOME_NO : outcome;
}

static bool has_file(const struct committed *end)
{
  return end->file[0] != '\0';
}

static void append_link(bson_t *links, const char *key, const struct committed *end)
{
  if (has_file(end))
    BSON_APPEND_INT64(links, key, (int64_t)end->link);
  else
    BSON_APPEND_NULL(links, key); /* absent */
}

/* The state that the commit changes, or the one it makes: a repetition matches, a late copy of an older commit does not. */
static void append_commit_filter(bson_t *update, const char *type, const struct ledger_commit *commit)
{
  bson_t filter, link, links;
  BSON_APPEND_DOCUMENT_BEGIN(update, "q", &filter);
  BCON_APPEND(&filter, "_id", BCON_UTF8(type), "epoch", BCON_INT64(commit->epoch), "owner", OWNER(&commit->owner));
  ledger_needs_append_known(&filter, false);
  BSON_APPEND_DOCUMENT_BEGIN(&filter, "link", &link);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&link, "$in", &links);
  append_link(&links, "0", &commit->before);
  append_link(&links, "1", &commit->after);
  if (!has_file(&commit->before))
    BSON_APPEND_INT64(&links, "2", 0);
  bson_append_array_end(&link, &links);
  bson_append_document_end(&filter, &link);
  bson_append_document_end(update, &filter);
}

static bool has_block(const struct ledger_commit *commit)
{
  return commit->after.seq > commit->before.seq;
}

static void append_commit_change(bson_t *update, const struct ledger_commit *commit)
{
  const struct committed *after = &commit->after;
  bson_t change, set;
  BSON_APPEND_DOCUMENT_BEGIN(update, "u", &change);
  BCON_APPEND(&change, "$max", "{", "settled", BCON_INT64(commit->settled), "}");
  if (has_file(after) || commit->clean || commit->machine || commit->guarded) {
    BSON_APPEND_DOCUMENT_BEGIN(&change, "$set", &set);
    if (has_file(after))
      BCON_APPEND(&set, "file", BCON_UTF8(after->file), "uuid", BCON_BIN(BSON_SUBTYPE_BINARY, after->uuid, sizeof after->uuid), "length",
                  BCON_INT64(after->length), "tail", BCON_INT64(after->tail), "link", BCON_INT64((int64_t)after->link), "seq",
                  BCON_INT64(after->seq), "items", BCON_INT64(after->items));
    if (commit->clean)
      BSON_APPEND_BOOL(&set, "clean", true);
    if (commit->machine)
      BSON_APPEND_UTF8(&set, "machine", commit->machine);
    if (commit->guarded)
      BSON_APPEND_INT64(&set, "guarded", commit->epoch);
    if (has_block(commit) && commit->from == SOURCE_OWN)
      BSON_APPEND_UTF8(&set, "from", "own");
    bson_append_document_end(&change, &set);
  }
  if (has_block(commit) && commit->from == SOURCE_SHARED)
    BCON_APPEND(&change, "$unset", "{", "from", BCON_INT32(1), "}");
  bson_append_document_end(update, &change);
}

enum outcome ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error)
{
  assert(commit->epoch > 0 && commit->settled >= 0 && commit->settled <= commit->after.seq);
  assert(commit->after.seq >= commit->before.seq && (has_file(&commit->after) || !has_file(&commit->before)));
  assert(!has_block(commit) || commit->from != SOURCE_BOTH);
  bson_t *command = BCON_NEW("update", "ledger");
  bson_t updates, update;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
  append_commit_filter(&update, type, commit);
  append_commit_change(&update, commit);
  bson_append_document_end(&updates, &update);
  bson_append_array_end(command, &updates);
  return send_update(store, "committing", command, error);
}

enum outcome ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                           struct error *error)
{
  assert(epoch > 0 && settled >= 0);
  bson_t query = BSON_INITIALIZER;
  BCON_APPEND(&query, "_id", BCON_UTF8(type), "epoch", BCON_INT64(epoch), "owner", OWNER(owner));
  ledger_needs_append_known(&query, false);
  bson_t *command = BCON_NEW("update", "ledger", "updates", "[", "{", "q", BCON_DOCUMENT(&query), "u", "{", "$max", "{", "settled",
                             BCON_INT64(settled), "}", "}", "}", "]");
  bson_destroy(&query);
  return send_update(store, "recording what is settled", command, error);
}

/* ---- adopting ---- */

/* Kept, so that whoever paused the type can still say when it goes on. */
static void put_pause(bson_t *document, const struct ledger_pause *pause)
{
  BCON_APPEND(document, "paused", "{", "id", BCON_BIN(BSON_SUBTYPE_BINARY, pause->id, sizeof pause->id), "by", BCON_UTF8(pause->by),
              "reason", BCON_UTF8(pause->reason), "at", BCON_DATE_TIME(pause->at_ms), "}");
}

static bson_t *put_document(const char *type, const struct ledger *ledger)
{
  const struct committed *end = &ledger->end;
  bson_t *document =
      BCON_NEW("_id", BCON_UTF8(type), "epoch", BCON_INT64(ledger->epoch), "owner", OWNER(&ledger->owner), "clean",
               BCON_BOOL(ledger->clean), "file", BCON_UTF8(end->file), "uuid", BCON_BIN(BSON_SUBTYPE_BINARY, end->uuid, sizeof end->uuid),
               "length", BCON_INT64(end->length), "tail", BCON_INT64(end->tail), "link", BCON_INT64((int64_t)end->link), "seq",
               BCON_INT64(end->seq), "items", BCON_INT64(end->items), "settled", BCON_INT64(ledger->settled));
  ledger_needs_append(document, ledger);
  if (ledger->paused)
    put_pause(document, &ledger->pause);
  if (ledger->own) /* which of both the last block came from is not known */
    BSON_APPEND_UTF8(document, "from", "both");
  return document;
}

/* Not the epoch alone: a holder that wakes up in between may have committed another block in it. */
static void put_filter(bson_t *filter, const struct ledger *before)
{
  ledger_needs_append_same(filter, before);
  BSON_APPEND_INT64(filter, "epoch", before->epoch);
  if (before->epoch > 0)
    BSON_APPEND_INT64(filter, "seq", before->end.seq);
  else
    BSON_APPEND_INT64(filter, "birth", before->birth);
  if (has_file(&before->end))
    BSON_APPEND_INT64(filter, "link", (int64_t)before->end.link);
  else
    BSON_APPEND_NULL(filter, "file"); /* there is none */
}

/* The very document: any filter of a field or two matches ledgers that came later, too. */
static void put_filter_found(bson_t *filter, const struct ledger_found *found)
{
  bson_t expression, pair, literal;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "$expr", &expression);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&expression, "$eq", &pair);
  BSON_APPEND_UTF8(&pair, "0", "$$ROOT");
  BSON_APPEND_DOCUMENT_BEGIN(&pair, "1", &literal);
  BSON_APPEND_DOCUMENT(&literal, "$literal", found->document);
  bson_append_document_end(&pair, &literal);
  bson_append_array_end(&expression, &pair);
  bson_append_document_end(filter, &expression);
}

enum outcome ledger_put_over(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
                             const struct ledger *ledger, struct error *error)
{
  assert(has_file(&ledger->end) && ledger->has_owner && ledger->epoch > before->epoch);
  if (ledger->epoch > LEDGER_EPOCH_MAX) { /* nobody could read it again */
    error_set(error, "the files of %s call for epoch %lld, and a ledger takes at most 2^59", type, (long long)ledger->epoch);
    return OUTCOME_REFUSED;
  }
  bson_t *document = put_document(type, ledger);
  bson_t *command = BCON_NEW("update", "ledger"), updates, update, filter;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
  BSON_APPEND_DOCUMENT_BEGIN(&update, "q", &filter);
  BSON_APPEND_UTF8(&filter, "_id", type);
  if (found)
    put_filter_found(&filter, found);
  else
    put_filter(&filter, before);
  bson_append_document_end(&update, &filter);
  BSON_APPEND_DOCUMENT(&update, "u", document);
  bson_append_document_end(&updates, &update);
  bson_append_array_end(command, &updates);
  bson_destroy(document);
  return send_update(store, "writing the ledger", command, error);
}
