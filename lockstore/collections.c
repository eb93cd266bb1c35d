#include "lockstore/collections.h"
#include "lockstore/document.h"

enum { CODE_UNAUTHORIZED = 13, CODE_NAMESPACE_EXISTS = 48, CODE_INVALID_OPTIONS = 72 };

/*
 * Sends a command that looks or makes, and destroys it. Without the right to do so, trying again does not help; but a right that was there
 * before, and was taken away, may come back. A duplicate key is refused by the caller, who knows what it means.
 */
enum outcome collection_command(struct mongo *mongo, const char *doing, bson_t *command, bson_t *reply, int *code, struct error *error)
{
  enum outcome outcome = mongo_command(mongo, doing, command, reply, code, error);
  bson_destroy(command);
  return outcome == OUTCOME_UNKNOWN && *code == CODE_UNAUTHORIZED && !mongo_was_prepared(mongo) ? OUTCOME_REFUSED : outcome;
}

bool collection_collation_simple(const bson_t *options)
{
  bson_t collation;
  char locale[64];
  return !document_has(options, "collation") ||
         (document_document(options, "collation", &collation) && document_text(&collation, "locale", locale, sizeof locale) &&
          strcmp(locale, "simple") == 0);
}

enum outcome collection_judge(struct mongo *mongo, const char *name, const bson_t *found, struct error *error)
{
  bson_t options;
  bool capped = false;
  char kind[32];
  const char *problem = NULL;
  if (!document_text(found, "type", kind, sizeof kind) || strcmp(kind, "collection") != 0)
    problem = "is a view or a time-series collection";
  else if (document_document(found, "options", &options)) {
    if (document_bool(&options, "capped", &capped) && capped)
      problem = "is capped";
    else if (!collection_collation_simple(&options))
      problem = "has a collation other than simple";
    else if (document_has(&options, "expireAfterSeconds"))
      problem = "has expireAfterSeconds, so that documents vanish by themselves,";
  }
  if (strcmp(name, "messages") == 0)
    mongo_note_clustered(mongo, document_document(found, "options", &options) && document_has(&options, "clusteredIndex"));
  if (!problem)
    return OUTCOME_YES;
  error_set(error, "the collection %s.%s %s: pawl needs a plain one, neither capped nor with a collation or an expiry", mongo_db(mongo),
            name, problem);
  return OUTCOME_REFUSED;
}

static void options_copy(const bson_t *found, bson_t *options)
{
  bson_t inside;
  if (document_document(found, "options", &inside))
    bson_copy_to(&inside, options);
  else
    bson_init(options);
}

enum outcome collection_look(struct mongo *mongo, const char *name, bson_t *options, struct error *error)
{
  bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", BCON_UTF8(name), "}"), reply, found;
  char doing[COLLECTION_DOING_SIZE];
  int code;
  snprintf(doing, sizeof doing, "looking for the collection %s", name);
  enum outcome outcome = collection_command(mongo, doing, command, &reply, &code, error);
  struct mongo_batch batch;
  if (outcome == OUTCOME_YES) {
    mongo_reply_batch(&reply, &batch);
    outcome = mongo_batch_next(&batch, &found) ? collection_judge(mongo, name, &found, error) : OUTCOME_NO;
    if (outcome == OUTCOME_YES && options != NULL)
      options_copy(&found, options);
  }
  bson_destroy(&reply);
  return outcome;
}

static enum outcome collection_create(struct mongo *mongo, const char *name, bool clustered, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("create", BCON_UTF8(name)), reply;
  char doing[COLLECTION_DOING_SIZE];
  snprintf(doing, sizeof doing, "making the collection %s", name);
  if (clustered)
    BCON_APPEND(command, "clusteredIndex", "{", "key", "{", "_id", BCON_INT32(1), "}", "unique", BCON_BOOL(true), "}");
  mongo_append_write_concern(command);
  enum outcome outcome = collection_command(mongo, doing, command, &reply, code, error);
  bson_destroy(&reply);
  return outcome;
}

/*
 * The queue is clustered where the server can: a message is one record then, not two, and goes for two thirds of the work. Who inserts
 * sees no difference. A newer server whose featureCompatibilityVersion is still 5.0 cannot, and says so.
 */
enum outcome collection_make(struct mongo *mongo, const char *name, bool wants_clustered, struct error *error)
{
  int code;
  bool clustered = wants_clustered && mongo_makes_clustered(mongo);
  enum outcome outcome = collection_create(mongo, name, clustered, &code, error);
  if (clustered && outcome == OUTCOME_UNKNOWN && code == CODE_INVALID_OPTIONS)
    outcome = collection_create(mongo, name, false, &code, error);
  return outcome == OUTCOME_UNKNOWN && code == CODE_NAMESPACE_EXISTS ? OUTCOME_YES : outcome; /* another was faster */
}

enum outcome collection_prepare(struct mongo *mongo, const char *name, bool clustered, struct error *error)
{
  enum outcome outcome = collection_look(mongo, name, NULL, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  outcome = collection_make(mongo, name, clustered, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  outcome = collection_look(mongo, name, NULL, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  error_set(error, "the collection %s was made, and is gone again", name);
  return OUTCOME_UNKNOWN;
}
