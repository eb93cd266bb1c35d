#include "lockstore/ledger.h"
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"

#include <assert.h>
#include <stdlib.h>

/*
 * The documents of `ledger`. Every filter of a change names what it was seen to be, so that a request that arrives late or twice changes
 * nothing: `v: 1`, the epoch and the owner; the fence without the owner; and an adoption (ledger_put) the whole document, where that is
 * malformed.
 */

/* What a document may hold, whoever wrote it. The numbers beside the epoch are below 2^62 in the file, so that sums of two do not overflow.
 */
#define NUMBER_MAX (((int64_t)1 << 62) - 1)

#define OWNER(owner) BCON_BIN(BSON_SUBTYPE_BINARY, (owner)->bytes, OWNER_BYTES)

/* ---- reading a document ---- */

static bool wrong(struct error *error, const bson_t *document, const char *field, const char *expected)
{
  error_set(error, "the ledger of %s cannot be used: %s is %s, expected %s", document_show(document, "_id").text, field,
            document_show(document, field).text, expected);
  return false;
}

static bool parse_number(const bson_t *document, const char *field, int64_t min, int64_t *value, struct error *error)
{
  if (document_int64(document, field, value) && *value >= min && *value <= NUMBER_MAX)
    return true;
  *value = 0;
  return wrong(error, document, field, min > 0 ? "a whole number above 0 and below 2^62" : "a whole number, not negative and below 2^62");
}

/* `T.bin` or `T@<epoch>.bin`, the epoch decimal without leading zeros, at most 18 digits. */
static bool file_name_of_type(const char *name, const char *type)
{
  size_t length = strlen(type);
  if (strncmp(name, type, length) != 0)
    return false;
  const char *rest = name + length;
  if (*rest == '@') {
    size_t digits = strspn(++rest, "0123456789");
    if (digits < 1 || digits > 18 || *rest == '0')
      return false;
    rest += digits;
  }
  return strcmp(rest, ".bin") == 0;
}

static bool zero_or_absent(const bson_t *document, const char *field)
{
  int64_t value;
  return !document_has(document, field) || (document_int64(document, field, &value) && value == 0);
}

static bool parse_no_file(const bson_t *document, struct error *error)
{
  static const char *const fields[] = {"uuid", "length", "tail", "link"};
  if (document_has(document, "file"))
    return wrong(error, document, "file", "the name of a segment of the type");
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (!zero_or_absent(document, fields[i]))
      return wrong(error, document, fields[i], "nothing, for there is no file");
  return true;
}

static bool parse_file(const bson_t *document, const char *type, struct committed *end, struct error *error)
{
  int64_t link;
  if (!document_text(document, "file", end->file, sizeof end->file))
    return parse_no_file(document, error);
  if (!file_name_of_type(end->file, type))
    return wrong(error, document, "file", "the name of a segment of the type");
  if (!document_binary(document, "uuid", end->uuid, sizeof end->uuid))
    return wrong(error, document, "uuid", "16 bytes of binary, subtype 0");
  if (!parse_number(document, "length", 1, &end->length, error) || !parse_number(document, "tail", 0, &end->tail, error))
    return false;
  if (end->tail >= end->length)
    return wrong(error, document, "tail", "a number below length");
  if (!document_int64(document, "link", &link))
    return wrong(error, document, "link", "a whole number");
  end->link = (uint64_t)link;
  return true;
}

/* Kept even when the rest is of no use: an adopted ledger must be above it. */
static bool parse_epoch(const bson_t *document, struct ledger *ledger, struct error *error)
{
  if (document_int64(document, "epoch", &ledger->epoch) && ledger->epoch >= 1 && ledger->epoch <= LEDGER_EPOCH_MAX)
    return true;
  ledger->epoch = 0;
  return wrong(error, document, "epoch", "a whole number above 0 and at most 2^59");
}

static bool parse_numbers(const bson_t *document, struct ledger *ledger, struct error *error)
{
  if (!parse_number(document, "seq", 0, &ledger->end.seq, error) || !parse_number(document, "items", 0, &ledger->end.items, error) ||
      !parse_number(document, "settled", 0, &ledger->settled, error))
    return false;
  if (ledger->settled > ledger->end.seq)
    return wrong(error, document, "settled", "a number not above seq");
  if (ledger->end.seq > 0 && ledger->end.file[0] == '\0')
    return wrong(error, document, "seq", "0, for there is no file");
  return true;
}

static bool parse_slots(const bson_t *document, struct ledger *ledger, struct error *error)
{
  enum { SLOTS_MAX = 1000 };
  int64_t slots = 0;
  bool ok = document_int64(document, "slots", &slots) && slots >= 2 && slots <= SLOTS_MAX && ledger->end.file[0] == '\0';
  ledger->slots = ok ? (int)slots : 0;
  return ok || wrong(error, document, "slots", "nothing, or, where there is no file, a number from 2 to 1000");
}

/* Above the epoch it would come true one day. */
static bool parse_guarded(const bson_t *document, struct ledger *ledger, struct error *error)
{
  if (document_int64(document, "guarded", &ledger->guarded) && ledger->guarded >= 1 && ledger->guarded <= ledger->epoch)
    return true;
  ledger->guarded = 0;
  return wrong(error, document, "guarded", "a whole number above 0 and not above epoch");
}

static enum outcome parse_ledger(const bson_t *document, const char *type, struct ledger *ledger, struct error *error)
{
  int64_t v;
  *ledger = (struct ledger){0};
  if (!document_int64(document, "v", &v) || v < 1) {
    wrong(error, document, "v", "1");
    return OUTCOME_REFUSED;
  }
  ledger->v = v > INT32_MAX ? INT32_MAX : (int)v;
  if (v != 1) {
    error_set(error, "the ledger of \"%s\" has v %lld and this pawl knows 1: a newer pawl is needed", type, (long long)v);
    return OUTCOME_REFUSED;
  }
  ledger->has_owner = document_binary(document, "owner", ledger->owner.bytes, OWNER_BYTES);
  bool ok =
      parse_epoch(document, ledger, error) && parse_file(document, type, &ledger->end, error) && parse_numbers(document, ledger, error);
  if (ok && !document_bool(document, "clean", &ledger->clean))
    ok = wrong(error, document, "clean", "true or false");
  if (ok && document_has(document, "guarded"))
    ok = parse_guarded(document, ledger, error);
  if (ok && document_has(document, "slots"))
    ok = parse_slots(document, ledger, error);
  if (ok && document_has(document, "machine") && !document_text(document, "machine", ledger->machine, sizeof ledger->machine))
    ok = wrong(error, document, "machine", "a string of at most 63 bytes");
  return ok ? OUTCOME_YES : OUTCOME_REFUSED;
}

/* Which database it is in, the type alone does not say. */
static enum outcome name_database(enum outcome outcome, const struct mongo *mongo, struct error *error)
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
  reading->outcome = parse_ledger(document, reading->type, reading->ledger, reading->error);
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
  return outcome == OUTCOME_YES ? name_database(reading.outcome, mongo, error) : outcome;
}

enum outcome ledger_read(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  return read_at("majority", store, type, ledger, NULL, error);
}

enum outcome ledger_read_now(struct lockstore *store, const char *type, struct ledger *ledger, struct error *error)
{
  return read_at("linearizable", store, type, ledger, NULL, error);
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
  bool ok = parse_ledger(document, type, &ledger, &error) == OUTCOME_YES;
  if (ok && !named) {
    wrong(&error, document, "_id", "a type");
    ok = false;
  }
  if (!ok)
    name_database(OUTCOME_REFUSED, listing->mongo, &error);
  listing->each(listing->context, type, &ledger, ok ? NULL : error.text);
}

enum outcome ledger_list(struct lockstore *store, ledger_each *each, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  bson_t *command = BCON_NEW("find", "ledger", "filter", "{", "}", "sort", "{", "_id", BCON_INT32(1), "}");
  mongo_append_read_concern(mongo, command, "majority", false);
  mongo_append_max_time(mongo, command);
  struct listing listing = {.mongo = mongo, .each = each, .context = context};
  enum outcome outcome = mongo_find(mongo, "listing the ledgers", command, list_one, &listing, error);
  bson_destroy(command);
  return outcome;
}

/* ---- fence ---- */

/* The reply of findAndModify: its `value` is the document as it was, or null. */
static enum outcome parse_fenced(const bson_t *reply, const char *type, int64_t epoch_seen, struct ledger *before, struct error *error)
{
  bson_t value, last;
  bool updated = false;
  if (document_document(reply, "value", &value))
    return parse_ledger(&value, type, before, error);
  if (epoch_seen > 0)
    return OUTCOME_NO;
  if (document_document(reply, "lastErrorObject", &last) && document_has(&last, "upserted") &&
      (!document_bool(&last, "updatedExisting", &updated) || !updated))
    return OUTCOME_YES;
  error_set(error, "fencing: the reply does not say what was done");
  return OUTCOME_UNKNOWN;
}

/*
 * A pipeline, because what becomes of `guarded` depends on the document: an end that is vouched for stays so, and to a clean one no write
 * is under way.
 */
/* clang-format off */
#define IF_ABSENT(field, value) "{", "$ifNull", "[", BCON_UTF8("$" field), value, "]", "}"
/* clang-format on */

static void append_guarded(bson_t *set, int64_t epoch_seen, enum fencer fencer)
{
  if (fencer == FENCER_NETWORK)
    BSON_APPEND_UTF8(set, "guarded", "$$REMOVE");
  else
    BCON_APPEND(set, "guarded", "{", "$cond", "[", "{", "$or", "[", "{", "$eq", "[", BCON_UTF8("$guarded"), BCON_INT64(epoch_seen), "]",
                "}", "{", "$and", "[", BCON_BOOL(fencer == FENCER_LOCAL), "{", "$eq", "[", BCON_UTF8("$clean"), BCON_BOOL(true), "]", "}",
                "]", "}", "]", "}", BCON_INT64(epoch_seen + 1), BCON_UTF8("$$REMOVE"), "]", "}");
}

static void append_fence(bson_t *set, int64_t epoch_seen, const struct owner *owner, enum fencer fencer)
{
  BCON_APPEND(set, "epoch", BCON_INT64(epoch_seen + 1), "owner", OWNER(owner));
  append_guarded(set, epoch_seen, fencer);
  if (fencer != FENCER_READER)
    BSON_APPEND_BOOL(set, "clean", false);
  else if (epoch_seen == 0)
    BCON_APPEND(set, "clean", IF_ABSENT("clean", BCON_BOOL(false)));
  if (epoch_seen == 0)
    BCON_APPEND(set, "seq", IF_ABSENT("seq", BCON_INT64(0)), "items", IF_ABSENT("items", BCON_INT64(0)), "settled",
                IF_ABSENT("settled", BCON_INT64(0)));
}

enum outcome ledger_fence(struct lockstore *store, const char *type, int64_t epoch_seen, const struct owner *owner, enum fencer fencer,
                          struct ledger *before, struct error *error)
{
  *before = (struct ledger){0};
  struct mongo *mongo = lockstore_mongo(store);
  if (!ledger_epoch_has_next(type, epoch_seen, error))
    return name_database(OUTCOME_REFUSED, mongo, error);
  bson_t *command = BCON_NEW("findAndModify", "ledger", "query", "{", "_id", BCON_UTF8(type), "v", BCON_INT32(1), "epoch",
                             BCON_INT64(epoch_seen), "}", "new", BCON_BOOL(false), "upsert", BCON_BOOL(epoch_seen == 0));
  bson_t set = BSON_INITIALIZER;
  append_fence(&set, epoch_seen, owner, fencer);
  BCON_APPEND(command, "update", "[", "{", "$set", BCON_DOCUMENT(&set), "}", "]");
  bson_destroy(&set);
  mongo_append_write_concern(command);
  mongo_append_max_time(mongo, command);
  bson_t reply;
  int code;
  enum outcome outcome = mongo_command(mongo, "fencing", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    outcome = name_database(parse_fenced(&reply, type, epoch_seen, before, error), mongo, error);
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

/* ---- commit ---- */

/* Sends and destroys the command, an update of one document. With `upsert` a duplicate is a NO: there is one by now, in another state. */
static enum outcome send_update(struct lockstore *store, const char *doing, bson_t *command, bool upsert, struct error *error)
{
  int64_t matched = 0;
  enum outcome outcome = mongo_write(lockstore_mongo(store), doing, command, &matched, error);
  if (outcome == OUTCOME_NO && !upsert) /* nothing is inserted: somebody's own index on `ledger` */
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
  BCON_APPEND(&filter, "_id", BCON_UTF8(type), "v", BCON_INT32(1), "epoch", BCON_INT64(commit->epoch), "owner", OWNER(&commit->owner));
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
    bson_append_document_end(&change, &set);
  }
  bson_append_document_end(update, &change);
}

enum outcome ledger_commit(struct lockstore *store, const char *type, const struct ledger_commit *commit, struct error *error)
{
  assert(commit->epoch > 0 && commit->settled >= 0 && commit->settled <= commit->after.seq);
  assert(commit->after.seq >= commit->before.seq && (has_file(&commit->after) || !has_file(&commit->before)));
  bson_t *command = BCON_NEW("update", "ledger");
  bson_t updates, update;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "updates", &updates);
  BSON_APPEND_DOCUMENT_BEGIN(&updates, "0", &update);
  append_commit_filter(&update, type, commit);
  append_commit_change(&update, commit);
  bson_append_document_end(&updates, &update);
  bson_append_array_end(command, &updates);
  return send_update(store, "committing", command, false, error);
}

enum outcome ledger_settle(struct lockstore *store, const char *type, int64_t epoch, const struct owner *owner, int64_t settled,
                           struct error *error)
{
  assert(epoch > 0 && settled >= 0);
  bson_t *command =
      BCON_NEW("update", "ledger", "updates", "[", "{", "q", "{", "_id", BCON_UTF8(type), "v", BCON_INT32(1), "epoch", BCON_INT64(epoch),
               "owner", OWNER(owner), "}", "u", "{", "$max", "{", "settled", BCON_INT64(settled), "}", "}", "}", "]");
  return send_update(store, "recording what is settled", command, false, error);
}

/* ---- forgetting ---- */

/* ---- adopting ---- */

static bson_t *put_document(const char *type, const struct ledger *ledger)
{
  const struct committed *end = &ledger->end;
  bson_t *document =
      BCON_NEW("_id", BCON_UTF8(type), "v", BCON_INT32(1), "epoch", BCON_INT64(ledger->epoch), "owner", OWNER(&ledger->owner), "clean",
               BCON_BOOL(ledger->clean), "file", BCON_UTF8(end->file), "uuid", BCON_BIN(BSON_SUBTYPE_BINARY, end->uuid, sizeof end->uuid),
               "length", BCON_INT64(end->length), "tail", BCON_INT64(end->tail), "link", BCON_INT64((int64_t)end->link), "seq",
               BCON_INT64(end->seq), "items", BCON_INT64(end->items), "settled", BCON_INT64(ledger->settled));
  return document;
}

/* Not the epoch alone: a holder that wakes up in between may have committed another block in it. */
static void put_filter(bson_t *filter, const struct ledger *before)
{
  BCON_APPEND(filter, "v", BCON_INT32(1), "epoch", BCON_INT64(before->epoch));
  if (before->epoch > 0)
    BSON_APPEND_INT64(filter, "seq", before->end.seq);
  if (has_file(&before->end))
    BSON_APPEND_INT64(filter, "link", (int64_t)before->end.link);
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

enum outcome ledger_put(struct lockstore *store, const char *type, const struct ledger *before, const struct ledger_found *found,
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
  bool upsert = before->epoch == 0 && !found;
  BSON_APPEND_BOOL(&update, "upsert", upsert);
  bson_append_document_end(&updates, &update);
  bson_append_array_end(command, &updates);
  bson_destroy(document);
  return send_update(store, "writing the ledger", command, upsert, error);
}
