#include "lockstore/document.h"
#include "lockstore/store.h"

/*
 * The collection for wake-ups: whether it is there, and whether it is pawl's. Others may have had one of that name before: it is told by
 * what it holds, and left as it is.
 *
 *   missing                                       made, capped
 *   capped, with pawl's size                      pawl's
 *   capped otherwise, nothing but wake-ups        pawl's
 *   plain, nothing but wake-ups, SMALL_MAX at most  pawl's, and converted: nothing is lost but old wake-ups
 *   anything else                                 avoided: neither converted, nor written to, nor watched
 *   a view, a time-series collection              refused
 */

enum {
  SMALL_MAX = 1000, /* documents */
  SAMPLE = 10,      /* what others have there differs at the first document, as a rule */
  CODE_UNAUTHORIZED = 13,
  CODE_NAMESPACE_EXISTS = 48,
  CODE_VIEW = 166,
};

enum outcome wakeups_insert(struct mongo *mongo, bson_t *document, int *code, struct error *error)
{
  *code = 0;
  if (mongo_avoids_wakeups(mongo)) {
    bson_destroy(document);
    return OUTCOME_YES;
  }
  bson_t *command =
      BCON_NEW("insert", WAKEUPS, "documents", "[", BCON_DOCUMENT(document), "]", "writeConcern", "{", "w", BCON_INT32(1), "}");
  bson_t reply;
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, "sending a wake-up", command, &reply, code, error);
  bson_destroy(&reply);
  bson_destroy(command);
  bson_destroy(document);
  return outcome;
}

/* ---- whose it is ---- */

static bool is_one_of(const char *text, const char *const *texts)
{
  while (*texts && strcmp(*texts, text) != 0)
    texts++;
  return *texts != NULL;
}

/* All that pawl writes there, or has written, and no other field. */
static bool is_wakeup(const bson_t *document)
{
  static const char *const fields[] = {"_id", "type", "about", "to", "owners", "epoch", "why", "by", "slot", "waiters", NULL};
  static const char *const of_types[] = {"message", "lock", "lost", NULL}, *const others[] = {"made", "end", NULL};
  char about[16], type[TYPE_BYTES_MAX + 1];
  bson_iter_t at;
  bool known = bson_iter_init(&at, document);
  while (known && bson_iter_next(&at))
    known = is_one_of(bson_iter_key(&at), fields);
  return known && document_text(document, "about", about, sizeof about) &&
         (is_one_of(about, others) || (is_one_of(about, of_types) && document_text(document, "type", type, sizeof type)));
}

struct holding {
  int count;
  bool strange;
};

static void look_at(void *context, const bson_t *document)
{
  struct holding *holding = context;
  holding->count++;
  holding->strange = holding->strange || !is_wakeup(document);
}

/* The first `limit` documents, and one more. NO: one of them is no wake-up, or this user may not see them. */
static enum outcome holds_wakeups(struct mongo *mongo, int limit, int *count, struct error *error)
{
  bson_t *command =
      BCON_NEW("find", WAKEUPS, "limit", BCON_INT32(limit + 1), "batchSize", BCON_INT32(limit + 1), "singleBatch", BCON_BOOL(true));
  bson_t reply;
  struct holding holding = {.count = 0};
  int code;
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, "looking whose the collection for wake-ups is", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    (void)mongo_batch_each(&reply, look_at, &holding);
  bson_destroy(&reply);
  bson_destroy(command);
  *count = holding.count;
  if (outcome == OUTCOME_YES)
    return holding.strange ? OUTCOME_NO : OUTCOME_YES;
  return code == CODE_UNAUTHORIZED ? OUTCOME_NO : OUTCOME_UNKNOWN;
}

static enum outcome is_own(struct mongo *mongo, bool capped, struct error *error)
{
  int count;
  enum outcome outcome = holds_wakeups(mongo, SAMPLE, &count, error);
  if (outcome == OUTCOME_YES && count > SAMPLE)
    outcome = holds_wakeups(mongo, SMALL_MAX, &count, error);
  return outcome == OUTCOME_YES && !capped && count > SMALL_MAX ? OUTCOME_NO : outcome;
}

void wakeups_explain_foreign(const struct mongo *mongo, struct error *error)
{
  error_set(error,
            "the collection %s." WAKEUPS
            " holds other documents than wake-ups, or more than %d, or this user may not read it: it is left as it is",
            mongo_db(mongo), SMALL_MAX);
}

/* ---- the survey ---- */

enum shape { SHAPE_MISSING, SHAPE_VIEW, SHAPE_PLAIN, SHAPE_CAPPED, SHAPE_MADE };

static void shape_note(void *context, const bson_t *found)
{
  enum shape *shape = context;
  bson_t options;
  bool capped = false;
  int64_t size = 0;
  char kind[32];
  if (!document_text(found, "type", kind, sizeof kind) || strcmp(kind, "collection") != 0)
    *shape = SHAPE_VIEW;
  else if (!document_document(found, "options", &options) || !document_bool(&options, "capped", &capped) || !capped)
    *shape = SHAPE_PLAIN;
  else
    *shape = document_int64(&options, "size", &size) && size == WAKEUPS_BYTES ? SHAPE_MADE : SHAPE_CAPPED;
}

static enum outcome shape_look(struct mongo *mongo, enum shape *shape, struct error *error)
{
  bson_t *command = BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", WAKEUPS, "}");
  bson_t reply;
  int code;
  *shape = SHAPE_MISSING;
  enum outcome outcome = mongo_command(mongo, "looking for the collection for wake-ups", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    (void)mongo_batch_each(&reply, shape_note, shape);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

static enum outcome survey(struct mongo *mongo, enum shape *shape, struct error *error)
{
  enum outcome outcome = shape_look(mongo, shape, error), own = OUTCOME_YES;
  if (outcome == OUTCOME_YES && (*shape == SHAPE_PLAIN || *shape == SHAPE_CAPPED))
    own = is_own(mongo, *shape == SHAPE_CAPPED, error);
  if (outcome != OUTCOME_YES || (own != OUTCOME_YES && own != OUTCOME_NO))
    return outcome != OUTCOME_YES ? outcome : own;
  mongo_avoid_wakeups(mongo, own == OUTCOME_NO);
  return OUTCOME_YES;
}

enum outcome wakeups_survey(struct mongo *mongo, struct error *error)
{
  enum shape shape;
  return survey(mongo, &shape, error);
}

/* ---- making ---- */

enum outcome wakeups_make(struct mongo *mongo, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("create", WAKEUPS, "capped", BCON_BOOL(true), "size", BCON_INT32(WAKEUPS_BYTES)), reply;
  mongo_append_write_concern(command);
  enum outcome outcome = mongo_command(mongo, "making the collection for wake-ups", command, &reply, code, error);
  bson_destroy(&reply);
  bson_destroy(command);
  if (outcome != OUTCOME_YES && *code != CODE_NAMESPACE_EXISTS)
    return outcome;
  return wakeups_insert(mongo, BCON_NEW("about", "made"), code, error);
}

static enum outcome convert(struct mongo *mongo, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("convertToCapped", WAKEUPS, "size", BCON_INT32(WAKEUPS_BYTES)), reply;
  mongo_append_write_concern(command);
  enum outcome outcome = mongo_command(mongo, "making the collection for wake-ups a capped one", command, &reply, code, error);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

enum outcome wakeups_convert_own(struct mongo *mongo, int *code, struct error *error)
{
  *code = 0;
  enum outcome own = is_own(mongo, false, error);
  if (own == OUTCOME_YES)
    return convert(mongo, code, error);
  if (own != OUTCOME_NO)
    return own;
  wakeups_explain_foreign(mongo, error);
  return OUTCOME_REFUSED;
}

/* Of an attempt to make or convert: one can do without, but not with a view of that name. */
static enum outcome judge(struct mongo *mongo, enum outcome outcome, int code)
{
  if (outcome == OUTCOME_YES || code == 0)
    return outcome == OUTCOME_YES || outcome == OUTCOME_REFUSED ? OUTCOME_YES : OUTCOME_UNKNOWN;
  mongo_note_without_wakeups(mongo);
  return code == CODE_VIEW ? OUTCOME_REFUSED : OUTCOME_YES;
}

enum outcome wakeups_prepare(struct mongo *mongo, struct error *error)
{
  enum shape shape;
  int code = 0;
  enum outcome outcome = survey(mongo, &shape, error);
  if (outcome != OUTCOME_YES || mongo_avoids_wakeups(mongo) || shape == SHAPE_MADE || shape == SHAPE_CAPPED)
    return outcome;
  outcome = shape == SHAPE_PLAIN ? wakeups_convert_own(mongo, &code, error) : wakeups_make(mongo, &code, error);
  return judge(mongo, outcome, code);
}
