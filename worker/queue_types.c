#include "worker/queue_types.h"
#include "bson_array.h"
#include "lockstore/hasten.h"
#include "lockstore/mongo.h"
#include "type_text.h"
#include "worker/clock.h"
#include "worker/queue_private.h"

enum {
  EXPLAIN_MS = 60000, /* an index becomes unfit for it by one document, and fit again only when it is made anew */
  PART_MAX = 100,     /* requests */
};

static const char doing[] = "looking for types";

/* ---- in one request ---- */

struct part { /* of all types: those that are named, or if none is, a range */
  const struct queue_types *types;
  const char *const *names;
  size_t count;
};

/* Nothing but the bounds: with a filter beside them the index is not skipped. */
static void match_append(bson_t *match, const struct part *part)
{
  bson_t type, list;
  BSON_APPEND_DOCUMENT_BEGIN(match, "type", &type);
  if (part->count > 0) {
    BSON_APPEND_ARRAY_UNSAFE_BEGIN(&type, "$in", &list);
    for (size_t i = 0; i < part->count; i++)
      BSON_APPEND_UTF8(&list, "0", part->names[i]);
    bson_append_array_end(&type, &list);
  } else {
    BSON_APPEND_UTF8(&type, "$gte", part->types->from);
    if (part->types->before[0] != '\0')
      BSON_APPEND_UTF8(&type, "$lt", part->types->before);
  }
  bson_append_document_end(match, &type);
}

static void pipeline_append(bson_t *command, const struct part *part)
{
  bson_t pipeline, stage, match;
  BSON_APPEND_UTF8(command, "aggregate", "messages");
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "pipeline", &pipeline);
  BSON_APPEND_DOCUMENT_BEGIN(&pipeline, "0", &stage);
  BSON_APPEND_DOCUMENT_BEGIN(&stage, "$match", &match);
  match_append(&match, part);
  bson_append_document_end(&stage, &match);
  bson_append_document_end(&pipeline, &stage);
  BCON_APPEND(&pipeline, "1", "{", "$group", "{", "_id", BCON_UTF8("$type"), "}", "}");
  bson_append_array_end(command, &pipeline);
  BCON_APPEND(command, "cursor", "{", "}");
  queue_append_hint(command);
}

void queue_types_give(void *context, const bson_t *document)
{
  const struct queue_types_giving *giving = context;
  bson_iter_t at;
  uint32_t length;
  const char *type = bson_iter_init_find(&at, document, "_id") ? type_text(&at, &length) : NULL;
  if (type != NULL && strlen(type) == length)
    giving->each(giving->context, type);
}

static enum outcome find_together(const struct part *part, const char *concern, const struct queue_types_giving *giving,
                                  struct error *error)
{
  const struct queue_types *types = part->types;
  struct mongo *mongo = lockstore_mongo(types->store);
  bson_t command = BSON_INITIALIZER;
  pipeline_append(&command, part);
  mongo_append_read_concern(mongo, &command, concern, false);
  mongo_append_max_time(mongo, &command);
  struct hasten hasten;
  hasten_begin(&hasten, mongo, types->linearizable);
  enum outcome outcome = mongo_find(mongo, doing, &command, queue_types_give, (void *)giving, error);
  hasten_end(&hasten);
  bson_destroy(&command);
  return outcome;
}

/* ---- how the server would do that ---- */

static bool has_stage(const bson_iter_t *at, const char *stage, int depth)
{
  bson_iter_t child = *at;
  while (bson_iter_next(&child)) {
    bson_iter_t inner;
    if (BSON_ITER_HOLDS_UTF8(&child) && strcmp(bson_iter_key(&child), "stage") == 0 && strcmp(bson_iter_utf8(&child, NULL), stage) == 0)
      return true;
    if (strcmp(bson_iter_key(&child), "rejectedPlans") == 0)
      continue;
    if (depth > 0 && bson_iter_recurse(&child, &inner) && has_stage(&inner, stage, depth - 1))
      return true;
  }
  return false;
}

static enum outcome explain(struct queue_types *types, const struct part *part, struct error *error)
{
  enum { DEPTH_MAX = 20 };
  struct mongo *mongo = lockstore_mongo(types->store);
  bson_t command = BSON_INITIALIZER, explained, reply;
  bson_iter_t at;
  int code;
  if (types->explained_ms > 0 && clock_boot_ms() - types->explained_ms < EXPLAIN_MS)
    return OUTCOME_YES;
  BSON_APPEND_DOCUMENT_BEGIN(&command, "explain", &explained);
  pipeline_append(&explained, part);
  bson_append_document_end(&command, &explained);
  BSON_APPEND_UTF8(&command, "verbosity", "queryPlanner");
  enum outcome outcome = mongo_command(mongo, doing, &command, &reply, &code, error);
  queue_explain(code, error);
  if (outcome == OUTCOME_YES && bson_iter_init(&at, &reply)) {
    types->one_by_one = !has_stage(&at, "DISTINCT_SCAN", DEPTH_MAX);
    types->explained_ms = clock_boot_ms();
  }
  bson_destroy(&reply);
  bson_destroy(&command);
  return outcome == OUTCOME_YES ? OUTCOME_YES : OUTCOME_UNKNOWN;
}

/* ---- one by one ---- */

/* By the index's key, for the document's `type` may be an array. YES: *key is the first one from there on, NO: there is none. */
static enum outcome next_key(const struct queue_types *types, const char *from, bson_t *reply, const char **key, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(types->store);
  struct mongo_batch batch;
  bson_t command = BSON_INITIALIZER, document;
  bson_iter_t at;
  uint32_t length;
  int code = 0;
  BCON_APPEND(&command, "find", BCON_UTF8("messages"), "filter", "{", "type", "{", "$gte", BCON_UTF8(from), "}", "}");
  queue_append_hint(&command);
  BCON_APPEND(&command, "returnKey", BCON_BOOL(true), "limit", BCON_INT32(1), "singleBatch", BCON_BOOL(true));
  mongo_append_read_concern(mongo, &command, types->linearizable ? "linearizable" : "local", false);
  mongo_append_max_time(mongo, &command);
  struct hasten hasten;
  hasten_begin(&hasten, mongo, types->linearizable);
  enum outcome outcome = mongo_command(mongo, doing, &command, reply, &code, error);
  hasten_end(&hasten);
  queue_explain(code, error);
  bson_destroy(&command);
  if (outcome != OUTCOME_YES)
    return OUTCOME_UNKNOWN;
  mongo_reply_batch(reply, &batch);
  *key = mongo_batch_next(&batch, &document) && bson_iter_init_find(&at, &document, "type") ? type_text(&at, &length) : NULL;
  if (*key == NULL)
    return OUTCOME_NO;
  return types->before[0] != '\0' && strcmp(*key, types->before) >= 0 ? OUTCOME_NO : OUTCOME_YES;
}

/*
 * After the key, and before every type after it. Texts with a NUL come before the first one with a byte of 1, which no type has; and
 * what begins with more bytes than a type has is passed over as a whole. False: nothing is after it.
 */
static bool pass_over(const char *key, char place[TYPE_BYTES_MAX + 2])
{
  size_t length = strnlen(key, TYPE_BYTES_MAX + 1);
  if (length <= TYPE_BYTES_MAX) {
    memcpy(place, key, length);
    memcpy(place + length, "\1", 2);
    return true;
  }
  for (length = TYPE_BYTES_MAX; length > 0 && (unsigned char)key[length - 1] == 0xff; length--)
    ;
  memcpy(place, key, length);
  place[length] = '\0';
  if (length > 0)
    place[length - 1] = (char)((unsigned char)place[length - 1] + 1);
  return length > 0;
}

static enum outcome find_one_by_one(struct queue_types *types, const struct queue_types_giving *giving, struct error *error)
{
  char place[TYPE_BYTES_MAX + 2];
  enum outcome outcome = OUTCOME_YES;
  snprintf(place, sizeof place, "%s", types->linearizable || types->next[0] == '\0' ? types->from : types->next);
  snprintf(types->seen.from, sizeof types->seen.from, "%s", place);
  for (int requests = 0; outcome == OUTCOME_YES && (types->linearizable || requests < PART_MAX); requests++) {
    bson_t reply;
    const char *key = "";
    outcome = next_key(types, place, &reply, &key, error);
    if (outcome == OUTCOME_YES) {
      giving->each(giving->context, key);
      if (!pass_over(key, place))
        outcome = OUTCOME_NO;
    }
    bson_destroy(&reply);
  }
  const char *next = outcome == OUTCOME_YES ? place : "";
  snprintf(types->seen.before, sizeof types->seen.before, "%s", next);
  if (!types->linearizable) /* that is all of them at once: the others go on where they were */
    snprintf(types->next, sizeof types->next, "%s", next);
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome == OUTCOME_YES ? OUTCOME_NO : outcome;
}

enum outcome queue_types_find(struct queue_types *types, queue_types_each *each, void *context, struct error *error)
{
  const struct queue_types_giving giving = {.each = each, .context = context};
  const struct part all = {.types = types};
  enum outcome outcome = explain(types, &all, error);
  types->seen = (struct type_range){.from = ""};
  if (outcome != OUTCOME_YES)
    return outcome;
  outcome = types->one_by_one ? find_one_by_one(types, &giving, error)
                              : find_together(&all, types->linearizable ? "linearizable" : "local", &giving, error);
  if (outcome == OUTCOME_UNKNOWN)
    types->explained_ms = 0; /* perhaps the index has become unfit for it */
  if (outcome == OUTCOME_UNKNOWN || outcome == OUTCOME_REFUSED)
    return outcome;
  enum outcome own = queue_types_find_own(types, each, context, error);
  if (own != OUTCOME_UNKNOWN || types->linearizable)
    return own == OUTCOME_YES ? outcome : own;
  types->denied = *error;
  types->seen = (struct type_range){.before = "\1"}; /* of no type is it known that it has nothing */
  return OUTCOME_NO;
}

enum outcome queue_types_among(struct queue_types *types, const char *const *names, size_t count, queue_types_each *each, void *context,
                               struct error *error)
{
  const struct queue_types_giving giving = {.each = each, .context = context};
  const struct part named = {.types = types, .names = names, .count = count};
  enum outcome outcome = explain(types, &named, error);
  if (outcome == OUTCOME_YES && types->one_by_one)
    return OUTCOME_NO;
  if (outcome == OUTCOME_YES)
    outcome = find_together(&named, "majority", &giving, error);
  if (outcome == OUTCOME_UNKNOWN)
    types->explained_ms = 0; /* perhaps the index has become unfit for it */
  return outcome;
}
