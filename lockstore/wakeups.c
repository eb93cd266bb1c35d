#include "lockstore/document.h"
#include "lockstore/store.h"

/*
 * The collections of wake-ups: which there are, and whether they are pawl's. Others may have had one of that name before: it is told by
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

struct wakeups_name box_name(int number)
{
  struct wakeups_name name;
  snprintf(name.text, sizeof name.text, "%s.%d", WAKEUPS_FOR_ALL, number);
  return name;
}

struct wakeups_name box_of(const struct owner *process)
{
  return box_name(process->bytes[0] % BOXES);
}

static int32_t capped_bytes(const char *name)
{
  return strcmp(name, WAKEUPS_FOR_ALL) == 0 ? WAKEUPS_BYTES : BOX_BYTES;
}

enum outcome wakeups_insert(struct mongo *mongo, const char *name, bson_t *document, int *code, struct error *error)
{
  *code = 0;
  if (mongo_avoids(mongo, name)) {
    bson_destroy(document);
    return OUTCOME_YES;
  }
  bson_t *command =
      BCON_NEW("insert", BCON_UTF8(name), "documents", "[", BCON_DOCUMENT(document), "]", "writeConcern", "{", "w", BCON_INT32(1), "}");
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

/* All that pawl writes there, and no other field. */
static bool is_wakeup(const bson_t *document)
{
  static const char *const fields[] = {"_id", "type", "about", "to", "slot", "waiters", "epoch", NULL};
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
static enum outcome holds_wakeups(struct mongo *mongo, const char *name, int limit, int *count, struct error *error)
{
  bson_t *command =
      BCON_NEW("find", BCON_UTF8(name), "limit", BCON_INT32(limit + 1), "batchSize", BCON_INT32(limit + 1), "singleBatch", BCON_BOOL(true));
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

static enum outcome is_own(struct mongo *mongo, const char *name, bool capped, struct error *error)
{
  int count;
  enum outcome outcome = holds_wakeups(mongo, name, SAMPLE, &count, error);
  if (outcome == OUTCOME_YES && count > SAMPLE)
    outcome = holds_wakeups(mongo, name, SMALL_MAX, &count, error);
  return outcome == OUTCOME_YES && !capped && count > SMALL_MAX ? OUTCOME_NO : outcome;
}

void wakeups_explain_foreign(const struct mongo *mongo, const char *name, struct error *error)
{
  error_set(error,
            "the collection %s.%s holds other documents than wake-ups, or more than %d, or this user may not read it: it is left as it is",
            mongo_db(mongo), name, SMALL_MAX);
}

/* ---- the survey ---- */

enum shape { SHAPE_MISSING, SHAPE_VIEW, SHAPE_PLAIN, SHAPE_CAPPED, SHAPE_MADE };
struct shapes {
  enum shape of[1 + BOXES];
};

static void name_of(int number, struct wakeups_name *name)
{
  *name = number == 0 ? (struct wakeups_name){WAKEUPS_FOR_ALL} : box_name(number - 1);
}

static int number_of(const char *name)
{
  struct wakeups_name one;
  int number = 0;
  for (name_of(0, &one); number < 1 + BOXES && strcmp(one.text, name) != 0; name_of(++number, &one))
    ;
  return number;
}

static enum shape shape_of(const bson_t *found, const char *name)
{
  bson_t options;
  bool capped = false;
  int64_t size = 0;
  char kind[32];
  if (!document_text(found, "type", kind, sizeof kind) || strcmp(kind, "collection") != 0)
    return SHAPE_VIEW;
  if (!document_document(found, "options", &options) || !document_bool(&options, "capped", &capped) || !capped)
    return SHAPE_PLAIN;
  return document_int64(&options, "size", &size) && size == capped_bytes(name) ? SHAPE_MADE : SHAPE_CAPPED;
}

static void shape_note(void *context, const bson_t *found)
{
  struct shapes *shapes = context;
  char name[sizeof(struct wakeups_name)];
  int number = document_text(found, "name", name, sizeof name) ? number_of(name) : 1 + BOXES;
  if (number < 1 + BOXES)
    shapes->of[number] = shape_of(found, name);
}

static enum outcome shapes_look(struct mongo *mongo, struct shapes *shapes, struct error *error)
{
  bson_t *command =
      BCON_NEW("listCollections", BCON_INT32(1), "filter", "{", "name", BCON_REGEX("^" WAKEUPS_FOR_ALL "(\\.[0-9])?$", ""), "}");
  bson_t reply;
  int code;
  *shapes = (struct shapes){{SHAPE_MISSING}};
  enum outcome outcome = mongo_command(mongo, "looking for the collections for wake-ups", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    (void)mongo_batch_each(&reply, shape_note, shapes);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

bool mongo_avoids(const struct mongo *mongo, const char *name)
{
  int number = number_of(name);
  return number < 1 + BOXES && mongo_avoided(mongo) & 1u << number;
}

static enum outcome survey(struct mongo *mongo, struct shapes *shapes, struct error *error)
{
  uint32_t avoided = 0;
  enum outcome outcome = shapes_look(mongo, shapes, error);
  for (int i = 0; i < 1 + BOXES && outcome == OUTCOME_YES; i++) {
    struct wakeups_name name;
    name_of(i, &name);
    if (shapes->of[i] != SHAPE_PLAIN && shapes->of[i] != SHAPE_CAPPED)
      continue;
    outcome = is_own(mongo, name.text, shapes->of[i] == SHAPE_CAPPED, error);
    avoided |= outcome == OUTCOME_NO ? 1u << i : 0;
    outcome = outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
  }
  if (outcome == OUTCOME_YES)
    mongo_avoid(mongo, avoided);
  return outcome;
}

enum outcome wakeups_survey(struct mongo *mongo, struct error *error)
{
  struct shapes shapes;
  return survey(mongo, &shapes, error);
}

/* ---- making ---- */

enum outcome wakeups_make(struct mongo *mongo, const char *name, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("create", BCON_UTF8(name), "capped", BCON_BOOL(true), "size", BCON_INT32(capped_bytes(name))), reply;
  mongo_append_write_concern(command);
  enum outcome outcome = mongo_command(mongo, "making a collection for wake-ups", command, &reply, code, error);
  bson_destroy(&reply);
  bson_destroy(command);
  if (outcome != OUTCOME_YES && *code != CODE_NAMESPACE_EXISTS)
    return outcome;
  return wakeups_insert(mongo, name, BCON_NEW("about", "made"), code, error);
}

static enum outcome convert(struct mongo *mongo, const char *name, int *code, struct error *error)
{
  bson_t *command = BCON_NEW("convertToCapped", BCON_UTF8(name), "size", BCON_INT32(capped_bytes(name))), reply;
  mongo_append_write_concern(command);
  enum outcome outcome = mongo_command(mongo, "making a collection for wake-ups a capped one", command, &reply, code, error);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

enum outcome wakeups_convert_own(struct mongo *mongo, const char *name, int *code, struct error *error)
{
  *code = 0;
  enum outcome own = is_own(mongo, name, false, error);
  if (own == OUTCOME_YES)
    return convert(mongo, name, code, error);
  if (own != OUTCOME_NO)
    return own;
  wakeups_explain_foreign(mongo, name, error);
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

enum outcome wakeups_prepare(struct mongo *mongo, const char *name, struct error *error)
{
  struct shapes shapes;
  int code = 0;
  enum outcome outcome = survey(mongo, &shapes, error);
  enum shape shape = outcome == OUTCOME_YES ? shapes.of[number_of(name)] : SHAPE_MISSING;
  if (outcome != OUTCOME_YES || mongo_avoids(mongo, name) || shape == SHAPE_MADE || shape == SHAPE_CAPPED)
    return outcome;
  outcome = shape == SHAPE_PLAIN ? wakeups_convert_own(mongo, name, &code, error) : wakeups_make(mongo, name, &code, error);
  return judge(mongo, outcome, code);
}
