#include "bson_array.h"
#include "lockstore/collections.h"
#include "lockstore/document.h"
#include "lockstore/own_collection.h"
#include "lockstore/store.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

/*
 * Opening a lockstore, and preparing the database for it. What is there is looked at first and made only when it is missing, so
 * that a user without the right to make anything can work where all is there.
 */

struct lockstore *lockstore_open(const struct lockstore_options *options, struct error *error)
{
  struct lockstore *store = calloc(1, sizeof *store);
  if (!store) {
    error_set(error, "out of memory");
    return NULL;
  }
  store->prepared_ms = options->prepared_ms;
  pthread_mutex_init(&store->preparing, NULL);
  store->mongo = mongo_open(options, error);
  if (store->mongo && getrandom(store->address.bytes, ADDRESS_BYTES, 0) == ADDRESS_BYTES)
    return store;
  if (store->mongo)
    error_set(error, "getting random bytes: %s", strerror(errno));
  lockstore_close(store);
  return NULL;
}

void lockstore_close(struct lockstore *store)
{
  if (store) {
    mongo_close(store->mongo);
    pthread_mutex_destroy(&store->preparing);
  }
  free(store);
}

const struct address *lockstore_address(const struct lockstore *store)
{
  return &store->address;
}

void lockstore_random(struct lockstore *store, void *bytes, size_t size)
{
  (void)store;
  if (getrandom(bytes, size, 0) != (ssize_t)size)
    abort(); /* cannot happen for so few bytes; a nonce that is none must not be used */
}

struct mongo *lockstore_mongo(struct lockstore *store)
{
  return store->mongo;
}

/* What prepare wants of the database: the collections, and the index without which each would be useless. */
struct wanted {
  const char *collection;
  const char *index; /* NULL: none but _id */
  const char *keys[2];
  const char *index_text; /* as in a shell */
  bool unique;
  bool clustered; /* made so, where that can be; taken as it is */
};

static const struct wanted wanted[] = {
    {"messages", "type_1__id_1", {"type", "_id"}, "{type: 1, _id: 1}", false, true},
    {"locks", "type_1_slot_1", {"type", "slot"}, "{type: 1, slot: 1}", true, false},
    {"ledger", NULL, {NULL, NULL}, NULL, false, false},
};
enum { WANTED = sizeof wanted / sizeof *wanted };

void mongo_make_queue(struct mongo *mongo)
{
  struct error ignored;
  const struct wanted *messages = &wanted[0];
  if (collection_look(mongo, messages->collection, NULL, &ignored) == OUTCOME_NO &&
      collection_make(mongo, messages->collection, messages->clustered, &ignored) != OUTCOME_YES)
    return; /* the insert makes it, or says what is wrong */
}

void mongo_survey_wakeups(struct mongo *mongo)
{
  struct error ignored;
  if (wakeups_survey(mongo, &ignored) != OUTCOME_YES)
    return; /* it may not look: then those who watch do */
}

/* ---- indexes ---- */

static bool index_has_keys(const bson_t *index, const char *const keys[2])
{
  bson_t key;
  bson_iter_t at;
  if (!document_document(index, "key", &key) || !bson_iter_init(&at, &key))
    return false;
  for (int i = 0; i < 2; i++)
    if (!bson_iter_next(&at) || strcmp(bson_iter_key(&at), keys[i]) != 0 || !BSON_ITER_HOLDS_NUMBER(&at) || bson_iter_as_int64(&at) != 1)
      return false;
  return !bson_iter_next(&at);
}

static bool index_flag(const bson_t *index, const char *name)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, index, name) && bson_iter_as_bool(&at);
}

/* What keeps the index on the wanted keys from doing its work; NULL: nothing. A hidden index still decides, but serves no query. */
static const char *index_flaw(const bson_t *index, bool unique)
{
  if (unique && !index_flag(index, "unique"))
    return "is not unique";
  if (document_has(index, "partialFilterExpression"))
    return "is partial";
  if (index_flag(index, "sparse"))
    return "is sparse";
  if (!collection_collation_simple(index))
    return "has a collation other than simple";
  if (!unique && index_flag(index, "hidden"))
    return "is hidden";
  return NULL;
}

struct index_look {
  const struct wanted *wanted;
  const char *db;
  bool found;
  bool refused;
  struct error *error;
};

static void index_judge(struct index_look *look, const bson_t *index)
{
  const struct wanted *want = look->wanted;
  const struct document_shown name = document_show(index, "name");
  if (document_has(index, "expireAfterSeconds")) {
    error_set(look->error, "the index %s on %s.%s has expireAfterSeconds: what pawl keeps may not vanish by itself; drop the index",
              name.text, look->db, want->collection);
    look->refused = true;
    return;
  }
  if (!want->index || !index_has_keys(index, want->keys))
    return;
  const char *flaw = index_flaw(index, want->unique);
  look->found = true;
  if (!flaw)
    return;
  error_set(look->error,
            "the index %s on %s.%s %s: pawl needs %s%s there, neither partial nor sparse nor with a collation; drop the index "
            "and run pawl-setup",
            name.text, look->db, want->collection, flaw, want->unique ? "a unique index " : "an index ", want->index_text);
  look->refused = true;
}

/* YES: there and usable, or none is wanted. NO: it is missing. */
static enum outcome index_look(struct mongo *mongo, const struct wanted *want, struct error *error)
{
  bson_t *command = BCON_NEW("listIndexes", BCON_UTF8(want->collection), "cursor", "{", "batchSize", BCON_INT32(1000), "}"), reply;
  char doing[64];
  int code;
  snprintf(doing, sizeof doing, "looking at the indexes of %s", want->collection);
  enum outcome outcome = collection_command(mongo, doing, command, &reply, &code, error);
  struct index_look look = {.wanted = want, .db = mongo_db(mongo), .error = error};
  struct mongo_batch batch;
  bson_t index;
  if (outcome == OUTCOME_YES) {
    mongo_reply_batch(&reply, &batch);
    while (!look.refused && mongo_batch_next(&batch, &index))
      index_judge(&look, &index);
  }
  bson_destroy(&reply);
  if (outcome != OUTCOME_YES)
    return outcome;
  return look.refused ? OUTCOME_REFUSED : look.found || !want->index ? OUTCOME_YES : OUTCOME_NO;
}

/*
 * Building over a long queue may outlast the time-out: UNKNOWN, and the next attempt joins the build. What the server says no to
 * (duplicates, a name that is taken) it will say no to again.
 */
static enum outcome index_make(struct mongo *mongo, const struct wanted *want, struct error *error)
{
  bson_t *command = BCON_NEW("createIndexes", BCON_UTF8(want->collection));
  bson_t indexes, index;
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(command, "indexes", &indexes);
  BSON_APPEND_DOCUMENT_BEGIN(&indexes, "0", &index);
  BCON_APPEND(&index, "key", "{", want->keys[0], BCON_INT32(1), want->keys[1], BCON_INT32(1), "}", "name", BCON_UTF8(want->index));
  if (want->unique)
    BSON_APPEND_BOOL(&index, "unique", true);
  bson_append_document_end(&indexes, &index);
  bson_append_array_end(command, &indexes);
  enum { INDEX_OPTIONS_CONFLICT = 85, INDEX_KEY_SPECS_CONFLICT = 86, CANNOT_CREATE_INDEX = 67 };
  bson_t reply;
  char doing[128];
  int code;
  snprintf(doing, sizeof doing, "making the %sindex %s on %s.%s", want->unique ? "unique " : "", want->index_text, mongo_db(mongo),
           want->collection);
  if (mongo_is_replica_set(mongo))
    BSON_APPEND_UTF8(command, "commitQuorum", "majority");
  mongo_append_write_concern(command);
  enum outcome outcome = collection_command(mongo, doing, command, &reply, &code, error);
  bson_destroy(&reply);
  if (outcome == OUTCOME_UNKNOWN && (code == INDEX_OPTIONS_CONFLICT || code == INDEX_KEY_SPECS_CONFLICT || code == CANNOT_CREATE_INDEX))
    return OUTCOME_REFUSED;
  return outcome == OUTCOME_NO ? OUTCOME_REFUSED : outcome; /* NO: documents there are duplicates */
}

static enum outcome index_prepare(struct mongo *mongo, const struct wanted *want, struct error *error)
{
  enum outcome outcome = index_look(mongo, want, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  outcome = index_make(mongo, want, error);
  if (outcome != OUTCOME_YES)
    return outcome;
  outcome = index_look(mongo, want, error);
  if (outcome != OUTCOME_NO)
    return outcome;
  error_set(error, "the index %s on %s was made, and is gone again", want->index_text, want->collection);
  return OUTCOME_UNKNOWN;
}

/* ---- snapshots ---- */

/* What a server says that does not know the read concern. */
static bool is_lacking(int code)
{
  static const int codes[] = {2, 9, 115, 123, 148, 238, 303};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    if (codes[i] == code)
      return true;
  return false;
}

/*
 * A server that passes over read concerns would let a pass see messages again that were deleted before. One that keeps them says at which
 * time it has read, and that is none before the one asked for. On a collection that is there, for else it says none.
 */
static enum outcome snapshots_look(struct mongo *mongo, struct error *error)
{
  uint64_t after = mongo_operation_time(mongo);
  uint32_t seconds = 0, increment = 0;
  bson_iter_t at, time;
  int code;
  if (!mongo_is_replica_set(mongo))
    return OUTCOME_YES;
  bson_t *command =
      BCON_NEW("find", "ledger", "projection", "{", "_id", BCON_INT32(1), "}", "limit", BCON_INT32(1), "singleBatch", BCON_BOOL(true));
  bson_t reply;
  mongo_append_read_concern(mongo, command, "snapshot", true);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = collection_command(mongo, "reading in a snapshot", command, &reply, &code, error);
  if (outcome == OUTCOME_YES && bson_iter_init(&at, &reply) && bson_iter_find_descendant(&at, "cursor.atClusterTime", &time) &&
      BSON_ITER_HOLDS_TIMESTAMP(&time))
    bson_iter_timestamp(&time, &seconds, &increment);
  bson_destroy(&reply);
  bool kept = seconds != 0 && ((uint64_t)seconds << 32 | increment) >= after;
  if (outcome == OUTCOME_YES && kept)
    mongo_lacks_not(mongo, MONGO_LACKS_SNAPSHOTS);
  if (outcome == OUTCOME_YES ? kept : !is_lacking(code))
    return outcome;
  struct error cause = *error;
  error_set(error,
            "this server does not keep read concerns: a find with {level: \"snapshot\", afterClusterTime} %.400s; pawl takes MongoDB 5.0 "
            "or later",
            outcome != OUTCOME_YES ? cause.text
            : seconds == 0         ? "came back without atClusterTime"
                                   : "came back with an atClusterTime before it");
  return mongo_lacks(mongo, MONGO_LACKS_SNAPSHOTS);
}

/* ---- the whole ---- */

/* What is missing is no fault: a worker makes it. */
static enum outcome inspect_one(struct mongo *mongo, const struct wanted *want, bool *missing, struct error *error)
{
  enum outcome outcome = collection_look(mongo, want->collection, NULL, error);
  *missing = outcome == OUTCOME_NO;
  if (outcome == OUTCOME_YES)
    outcome = index_look(mongo, want, error);
  return outcome == OUTCOME_NO ? OUTCOME_YES : outcome;
}

enum outcome lockstore_inspect(struct lockstore *store, struct error *error)
{
  enum outcome outcome = mongo_hello(store->mongo, error);
  bool missing = false;
  for (int i = 0; i < WANTED && outcome == OUTCOME_YES; i++)
    outcome = inspect_one(store->mongo, &wanted[i], &missing, error);
  if (outcome == OUTCOME_YES && !missing) /* the last is the ledger */
    outcome = snapshots_look(store->mongo, error);
  if (outcome == OUTCOME_YES && !missing)
    outcome = own_collection_inspect(store, error);
  /* That this user may not look says nothing of a worker's. */
  return outcome == OUTCOME_REFUSED && error->reason == ERROR_RIGHT ? OUTCOME_UNKNOWN : outcome;
}

enum outcome lockstore_own_check(struct lockstore *store, const char *type, struct error *error)
{
  const struct queue_name name = queue_name_of(type, SOURCE_OWN);
  const struct wanted want = {.collection = name.text};
  enum outcome outcome = collection_look(store->mongo, name.text, NULL, error);
  return outcome == OUTCOME_YES ? index_look(store->mongo, &want, error) : outcome;
}

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool lockstore_is_known(struct lockstore *store)
{
  int64_t at_ms = atomic_load(&store->prepared_at_ms);
  bool fresh = at_ms != 0 && (store->prepared_ms == 0 || now_ms() - at_ms < store->prepared_ms);
  return fresh && mongo_is_known(store->mongo);
}

int64_t lockstore_prepared_at_ms(struct lockstore *store)
{
  return atomic_load(&store->prepared_at_ms);
}

static enum outcome prepare(struct lockstore *store, struct error *error)
{
  enum outcome outcome = mongo_hello(store->mongo, error);
  for (int i = 0; i < WANTED && outcome == OUTCOME_YES; i++)
    outcome = collection_prepare(store->mongo, wanted[i].collection, wanted[i].clustered, error);
  for (int i = 0; i < WANTED && outcome == OUTCOME_YES; i++)
    outcome = index_prepare(store->mongo, &wanted[i], error);
  if (outcome == OUTCOME_YES)
    outcome = snapshots_look(store->mongo, error);
  if (outcome == OUTCOME_YES)
    outcome = wakeups_prepare(store->mongo, error);
  if (outcome == OUTCOME_YES)
    mongo_note_prepared(store->mongo);
  atomic_store(&store->prepared_at_ms, outcome == OUTCOME_YES ? now_ms() : 0);
  return outcome;
}

/*
 * One at a time: an index that another is just making is already listed, and serves no query yet. A caller that has waited takes the answer
 * that it waited for, so that none waits twice for a server that does not answer.
 */
enum outcome lockstore_prepare(struct lockstore *store, struct error *error)
{
  uint64_t before = atomic_load(&store->preparations);
  pthread_mutex_lock(&store->preparing);
  if (atomic_load(&store->preparations) == before) {
    store->prepared = prepare(store, &store->prepare_error);
    atomic_fetch_add(&store->preparations, 1);
  }
  enum outcome outcome = store->prepared;
  if (outcome != OUTCOME_YES)
    *error = store->prepare_error;
  pthread_mutex_unlock(&store->preparing);
  return outcome;
}
