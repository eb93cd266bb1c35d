#include "tools/enqueue/destination.h"
#include "bson_array.h"
#include "lockstore/store.h"

#include <stdlib.h>

enum { ASK_MAX = 10000 }; /* types in a request */

/* ---- the types ---- */

void destinations_deinit(struct destinations *destinations)
{
  free(destinations->list);
  *destinations = (struct destinations){.count = 0};
}

/* Where it is, or belongs. */
static size_t find(const struct destinations *destinations, const char *type, bool *there)
{
  size_t low = 0, high = destinations->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(destinations->list[middle].type, type);
    *there = order == 0;
    if (order == 0)
      return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  *there = false;
  return low;
}

static struct destination *get(struct destinations *destinations, const char *type)
{
  bool there;
  size_t at = find(destinations, type, &there);
  if (there)
    return &destinations->list[at];
  if (destinations->count == destinations->room) {
    destinations->room = destinations->room > 0 ? 2 * destinations->room : 16;
    destinations->list = realloc(destinations->list, destinations->room * sizeof *destinations->list);
    assert(destinations->list);
  }
  memmove(destinations->list + at + 1, destinations->list + at, (destinations->count++ - at) * sizeof *destinations->list);
  destinations->list[at] = (struct destination){.own = false};
  snprintf(destinations->list[at].type, sizeof destinations->list[at].type, "%s", type);
  return &destinations->list[at];
}

const char *destination_type(const struct batch *batch, size_t i)
{
  bson_t document;
  bson_iter_t at;
  batch_document(batch, i, &document);
  return bson_iter_init_find(&at, &document, "type") && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : "";
}

/* ---- the ledgers ---- */

static bool needs(const bson_t *document, const char *word)
{
  bson_iter_t at, in;
  if (!bson_iter_init_find(&at, document, "needs") || !BSON_ITER_HOLDS_ARRAY(&at) || !bson_iter_recurse(&at, &in))
    return false;
  while (bson_iter_next(&in))
    if (BSON_ITER_HOLDS_UTF8(&in) && strcmp(bson_iter_utf8(&in, NULL), word) == 0)
      return true;
  return false;
}

/* The first that is found is enough: all of the batch waits for it. */
static void note_moved(struct destinations *destinations, const char *type, const bson_t *document)
{
  bson_iter_t at, to;
  bool named = bson_iter_init(&at, document) && bson_iter_find_descendant(&at, "moved.to", &to) && BSON_ITER_HOLDS_UTF8(&to);
  if (destinations->moved.text[0] == '\0')
    error_set(&destinations->moved, "%s was moved to %.300s: no worker takes its messages here; insert them there", type,
              named ? bson_iter_utf8(&to, NULL) : "another database");
}

static void note_needs(void *context, const bson_t *document)
{
  struct destinations *destinations = context;
  bson_iter_t id;
  bool there = false;
  if (!bson_iter_init_find(&id, document, "_id") || !BSON_ITER_HOLDS_UTF8(&id))
    return;
  size_t at = find(destinations, bson_iter_utf8(&id, NULL), &there);
  if (there && needs(document, LEDGER_NEED_OWN))
    destinations->list[at].own = true;
  if (there && needs(document, LEDGER_NEED_MOVED))
    note_moved(destinations, destinations->list[at].type, document);
}

/* Of those, the ones that have their own collection or were moved away, as the majority has it: that is not rolled back. */
static enum outcome ask(struct mongo *mongo, const bson_t *types, mongo_each *each, void *context, struct error *error)
{
  bson_t *command = BCON_NEW("find", "ledger", "filter", "{", "_id", "{", "$in", BCON_ARRAY(types), "}", "needs", "{", "$in", "[",
                             BCON_UTF8(LEDGER_NEED_OWN), BCON_UTF8(LEDGER_NEED_MOVED), "]", "}", "}", "projection", "{", "needs",
                             BCON_INT32(1), "moved.to", BCON_INT32(1), "}");
  mongo_append_read_concern(mongo, command, "majority", false);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_find(mongo, "asking which types have their own collection", command, each, context, error);
  bson_destroy(command);
  return outcome;
}

/* Those from *at on that are due, at most ASK_MAX; then *at is where to go on. */
static enum outcome ask_some(struct destinations *destinations, struct mongo *mongo, size_t *at, int64_t now_ms, struct error *error)
{
  bson_t types = BSON_INITIALIZER;
  size_t from = *at, count = 0;
  for (; *at < destinations->count && count < ASK_MAX; ++*at) {
    char key[24];
    if (!destinations->list[*at].due)
      continue;
    snprintf(key, sizeof key, "%zu", count++);
    bson_append_utf8(&types, key, -1, destinations->list[*at].type, -1);
  }
  enum outcome outcome = count > 0 ? ask(mongo, &types, note_needs, destinations, error) : OUTCOME_YES;
  destinations->denied |= outcome == OUTCOME_UNKNOWN && error->reason == ERROR_RIGHT;
  if (outcome == OUTCOME_UNKNOWN && error->reason == ERROR_RIGHT)
    outcome = OUTCOME_YES;
  for (size_t i = from; i < *at && outcome == OUTCOME_YES; i++) {
    destinations->list[i].asked_ms = destinations->list[i].due ? now_ms : destinations->list[i].asked_ms;
    destinations->list[i].due = false;
  }
  bson_destroy(&types);
  return outcome;
}

static void note_own(void *context, const bson_t *document)
{
  *(bool *)context |= needs(document, LEDGER_NEED_OWN);
}

enum outcome destination_is_own(struct mongo *mongo, const char *type, struct error *error)
{
  bson_t types = BSON_INITIALIZER;
  bool own = false;
  BSON_APPEND_UTF8(&types, "0", type);
  enum outcome outcome = ask(mongo, &types, note_own, &own, error);
  bson_destroy(&types);
  return outcome == OUTCOME_YES && !own ? OUTCOME_NO : outcome;
}

/*
 * An insert would make a plain collection where there is none. Names alone, and those that the user has a right on: everybody may ask for
 * them.
 */
static enum outcome look_for_collection(struct mongo *mongo, const char *type, struct error *error)
{
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  struct mongo_batch batch;
  int code;
  bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", BCON_UTF8(name.text), "}", "nameOnly",
                             BCON_BOOL(true), "authorizedCollections", BCON_BOOL(true)),
         reply, found;
  enum outcome outcome = mongo_command(mongo, "looking for the own collection", command, &reply, &code, error);
  bool there = outcome == OUTCOME_YES && mongo_reply_batch(&reply, &batch) && mongo_batch_next(&batch, &found);
  bson_destroy(command);
  bson_destroy(&reply);
  if (outcome != OUTCOME_YES || there)
    return outcome;
  error_set(error,
            "%s has its own collection, as its ledger says, but %s.%s is missing, or this user has no right on it: pawl-setup --type %s "
            "--own-collection makes it",
            type, mongo_db(mongo), name.text, type);
  return OUTCOME_REFUSED;
}

static enum outcome look_for_collections(struct destinations *destinations, struct mongo *mongo, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  for (size_t i = 0; i < destinations->count && outcome == OUTCOME_YES; i++) {
    struct destination *one = &destinations->list[i];
    if (!one->own || one->there)
      continue;
    outcome = look_for_collection(mongo, one->type, error);
    one->there = outcome == OUTCOME_YES;
  }
  return outcome;
}

/* ---- the batch ---- */

/* *known: each type of the batch was asked for, now or before. */
static void note_due(struct destinations *destinations, const struct batch *batch, size_t first, bool now, int64_t now_ms, bool *known)
{
  const char *last = "";
  for (size_t i = first; i < batch->count; i++) {
    const char *type = destination_type(batch, i);
    if (strcmp(type, last) == 0)
      continue;
    struct destination *one = get(destinations, type);
    *known &= one->asked_ms != 0;
    one->due = now || one->asked_ms == 0 || now_ms - one->asked_ms >= DESTINATION_ASK_MS;
    last = type;
  }
}

static void set_all(const struct destinations *destinations, struct batch *batch, size_t first)
{
  const char *last = "";
  bool own = false, there;
  for (size_t i = first; i < batch->count; i++) {
    const char *type = destination_type(batch, i);
    if (strcmp(type, last) != 0) {
      size_t at = find(destinations, type, &there);
      own = there && destinations->list[at].own;
    }
    batch->documents[i].own = own;
    last = type;
  }
}

enum outcome destinations_assign(struct destinations *destinations, struct mongo *mongo, struct batch *batch, size_t first, bool now,
                                 int64_t now_ms, bool *known, struct error *error)
{
  enum outcome outcome = OUTCOME_YES;
  *known = true;
  destinations->moved.text[0] = '\0';
  note_due(destinations, batch, first, now, now_ms, known);
  for (size_t at = 0; at < destinations->count && outcome == OUTCOME_YES;)
    outcome = ask_some(destinations, mongo, &at, now_ms, error);
  if (outcome == OUTCOME_YES && destinations->moved.text[0] != '\0') {
    *error = destinations->moved;
    outcome = OUTCOME_REFUSED;
  }
  if (outcome == OUTCOME_YES) {
    outcome = look_for_collections(destinations, mongo, error);
    *known &= outcome == OUTCOME_YES;
  }
  set_all(destinations, batch, first);
  return outcome;
}

struct queue_name destinations_run(const struct batch *batch, size_t first, size_t *count)
{
  const char *type = destination_type(batch, first);
  bool own = batch->documents[first].own;
  for (*count = 1; first + *count < batch->count && batch->documents[first + *count].own == own; ++*count)
    if (own && strcmp(destination_type(batch, first + *count), type) != 0)
      break;
  return queue_name_of(type, own ? SOURCE_OWN : SOURCE_SHARED);
}
