#include "bson_array.h"
#include "lockstore/ledger.h"
#include "lockstore/mongo.h"
#include "worker/queue_private.h"
#include "worker/queue_types.h"
#include "worker/type_rules.h"

/* Which types have documents in their own collections: an aggregate over many of them, of which each gives one line at most. */

enum { TOGETHER = 200, PART_MAX = 10 /* requests */ };

static const struct type_range nothing_seen = {.before = "\1"};

struct listing {
  const struct type_rules *rules;
  struct type_list types;
  bool memory;
};

/* The user of a worker may have no right on the collections of other types, and one of these would fail the request for all. */
static void note(void *context, const char *type)
{
  struct listing *listing = context;
  if (type_name_valid(type) && (listing->rules == NULL || type_rules_serve(listing->rules, type)))
    listing->memory = listing->memory && type_list_add(&listing->types, type);
}

/*
 * [{$match: the type's}, {$sort: {_id: -1}}, {$limit: 1}, {$project: {_id: the type}}], from the place on. Returns the place after it.
 * Backwards, as a poll does: at the front there is what was deleted.
 */
static int append_stages(bson_t *pipeline, int place, const char *type)
{
  char key[16];
  bson_t stage, match;
  snprintf(key, sizeof key, "%d", place++);
  BSON_APPEND_DOCUMENT_BEGIN(pipeline, key, &stage);
  BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &match);
  queue_append_part(&match, type, SOURCE_OWN);
  bson_append_document_end(&stage, &match);
  bson_append_document_end(pipeline, &stage);
  snprintf(key, sizeof key, "%d", place++);
  BCON_APPEND(pipeline, key, "{", "$sort", "{", "_id", BCON_INT32(-1), "}", "}");
  snprintf(key, sizeof key, "%d", place++);
  BCON_APPEND(pipeline, key, "{", "$limit", BCON_INT32(1), "}");
  snprintf(key, sizeof key, "%d", place++);
  BCON_APPEND(pipeline, key, "{", "$project", "{", "_id", "{", "$literal", BCON_UTF8(type), "}", "}", "}");
  return place;
}

static void append_union(bson_t *pipeline, int place, const char *type)
{
  char key[16];
  bson_t stage, with, inner;
  snprintf(key, sizeof key, "%d", place);
  BSON_APPEND_DOCUMENT_BEGIN(pipeline, key, &stage);
  BSON_APPEND_DOCUMENT_BEGIN(&stage, "$unionWith", &with);
  BSON_APPEND_UTF8(&with, "coll", queue_name_of(type, SOURCE_OWN).text);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&with, "pipeline", &inner);
  append_stages(&inner, 0, type);
  bson_append_array_end(&with, &inner);
  bson_append_document_end(&stage, &with);
  bson_append_document_end(pipeline, &stage);
}

static enum outcome ask(struct queue_types *types, const char *const *names, size_t count, const char *concern,
                        const struct queue_types_giving *giving, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(types->store);
  bson_t command = BSON_INITIALIZER, pipeline;
  BSON_APPEND_UTF8(&command, "aggregate", queue_name_of(names[0], SOURCE_OWN).text);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&command, "pipeline", &pipeline);
  int place = append_stages(&pipeline, 0, names[0]);
  for (size_t i = 1; i < count; i++)
    append_union(&pipeline, place++, names[i]);
  bson_append_array_end(&command, &pipeline);
  BCON_APPEND(&command, "cursor", "{", "}");
  mongo_append_read_concern(mongo, &command, concern, false);
  mongo_append_max_time(mongo, &command);
  enum outcome outcome = mongo_find(mongo, "looking for types with own collections", &command, queue_types_give, (void *)giving, error);
  bson_destroy(&command);
  return outcome;
}

/*
 * Where a right on one of them is lacking, or one takes too long, the server tells of none: then each is asked, and that one left out.
 * Where two have no answer, the others would have none.
 */
static enum outcome ask_each(struct queue_types *types, const char *const *names, size_t count, const struct queue_types_giving *giving,
                             struct error *error)
{
  enum { UNANSWERED_MAX = 2 };
  enum outcome outcome = OUTCOME_YES;
  int unanswered = 0;
  for (size_t i = 0; i < count && outcome == OUTCOME_YES; i++) {
    outcome = ask(types, &names[i], 1, "local", giving, error);
    if (outcome != OUTCOME_UNKNOWN)
      continue;
    error_set(&types->denied, "%s: %.800s", queue_name_of(names[i], SOURCE_OWN).text, error->text);
    unanswered += error->reason != ERROR_RIGHT;
    if (unanswered < UNANSWERED_MAX)
      outcome = OUTCOME_YES;
  }
  return outcome;
}

/* A part of them, from where the last call ended. */
static enum outcome ask_part(struct queue_types *types, const struct type_list *own, const struct queue_types_giving *giving,
                             struct error *error)
{
  size_t at = type_list_after(own, types->next_own);
  enum outcome outcome = OUTCOME_YES;
  if (at >= own->count)
    at = 0;
  struct type_range part = {.from = ""};
  if (at > 0)
    snprintf(part.from, sizeof part.from, "%s\1", types->next_own);
  types->next_own[0] = '\0';
  bool answered = true;
  for (int requests = 0; requests < PART_MAX && at < own->count && outcome == OUTCOME_YES && answered; requests++) {
    const char *names[TOGETHER];
    size_t count = 0;
    while (count < TOGETHER && at < own->count)
      names[count++] = own->names[at++];
    outcome = ask(types, names, count, "local", giving, error);
    answered = outcome != OUTCOME_UNKNOWN || error->reason == ERROR_RIGHT; /* else this look has taken long enough */
    if (outcome == OUTCOME_UNKNOWN)
      outcome = ask_each(types, names, count, giving, error);
    snprintf(types->next_own, sizeof types->next_own, "%s", at < own->count ? own->names[at - 1] : "");
  }
  if (types->next_own[0] != '\0')
    snprintf(part.before, sizeof part.before, "%s\1", types->next_own);
  type_range_cut(&types->seen, &part);
  if (!answered)
    types->seen = nothing_seen;
  return outcome;
}

enum outcome queue_types_find_own(struct queue_types *types, queue_types_each *each, void *context, struct error *error)
{
  struct listing listing = {.rules = types->rules, .memory = true};
  const struct queue_types_giving giving = {.each = each, .context = context};
  types->denied.text[0] = '\0';
  enum outcome outcome = ledger_list_own(types->store, types->from, types->before, note, &listing, error);
  type_list_sort(&listing.types);
  if (outcome == OUTCOME_YES && !listing.memory) {
    error_set(error, "looking for types with own collections: no memory");
    outcome = OUTCOME_UNKNOWN;
  }
  for (size_t i = 0; outcome == OUTCOME_YES && types->linearizable && i < listing.types.count; i++)
    each(context, listing.types.names[i]);
  if (outcome == OUTCOME_YES && !types->linearizable)
    outcome = ask_part(types, &listing.types, &giving, error);
  type_list_free(&listing.types);
  return outcome;
}

enum outcome queue_types_own_among(struct queue_types *types, const char *const *names, size_t count, queue_types_each *each, void *context,
                                   struct error *error)
{
  const struct queue_types_giving giving = {.each = each, .context = context};
  enum outcome outcome = OUTCOME_YES;
  for (size_t at = 0; at < count && outcome == OUTCOME_YES; at += TOGETHER)
    outcome = ask(types, names + at, count - at < TOGETHER ? count - at : TOGETHER, "majority", &giving, error);
  return outcome;
}
