/* On a real MongoDB: the URI, what each request carries, and requests without an answer. */
#include "lockstore/document.h"
#include "lockstore/mongo_private.h"
#include "lockstore/store.h"
#include "test_lockstore.h"
#include "test_lockstore_real.h"

#include <time.h>

TEST(wrong_uri_shows_no_password)
{
  static const char *const uris[] = {
      "mongodb://user:s3cret@",
      "mongodb://user:s3cret@host:port/",
      "mongodb://user:s3c@ret@host",
      "mongodb://user:s3cret/@host",
      "mongodb://user:%zzs3cret@host",
      "mongodb://user:s3cret",
      "user:s3cret@host",
      "mongodb://user:s3cret@host/db?authMechanism=MADE-UP",
      "mongodb://host/?tlsCertificateKeyFilePassword=s3cret&directConnection=perhaps",
      "mongodb://user:s3cret@a,b/?directConnection=true",
      "mongodb://user:12/s3c.ret@host",
      "nonsense",
      "",
  };
  int refused = 0;
  for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
    struct lockstore_options options = {.uri = uris[i], .timeout_ms = 100, .connections_max = 1};
    struct lockstore *opened = lockstore_open(&options, &error);
    if (opened) /* the driver only warns about these */
      lockstore_close(opened);
    else if (strstr(error.text, "s3c") || strstr(error.text, "ret@") || !strstr(error.text, "URI"))
      fail_msg("%s: %s", uris[i], error.text);
    refused += opened == NULL;
  }
  assert_true(refused >= 8);
}

TEST(db_is_chosen_and_checked)
{
  static const struct {
    const char *uri, *db, *expected;
  } cases[] = {
      {"mongodb://h", NULL, "pawl"},   {"mongodb://h/", "", "pawl"},      {"mongodb://h/other", NULL, "other"},
      {"mongodb://h/other", "x", "x"}, {"mongodb://h", "bad.name", NULL}, {"mongodb://h", "a b", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct lockstore_options options = {.uri = cases[i].uri, .db = cases[i].db, .timeout_ms = 100, .connections_max = 1};
    struct lockstore *opened = lockstore_open(&options, &error);
    assert_true((opened != NULL) == (cases[i].expected != NULL));
    if (opened)
      assert_string_equal(mongo_db(lockstore_mongo(opened)), cases[i].expected);
    else
      assert_non_null(strstr(error.text, cases[i].db));
    lockstore_close(opened);
  }
}

/* The program and its database come first, whatever the URI says; the URI's name follows as far as the handshake has room. */
TEST(connections_bear_a_name_of_their_own)
{
  enum { ACCENTS = 60 };
  static const char db[] = "a-name-of-some-length";
  char accents[ACCENTS * 6 + 1], uri[ACCENTS * 6 + 100], expected[256];
  for (int i = 0; i < ACCENTS; i++)
    strcpy(accents + (size_t)i * 6, "%C3%A9");
  struct lockstore_options options = {.uri = uri, .timeout_ms = 100, .connections_max = 1, .program = "pawl-worker"};
  for (int i = 0; i < 3; i++) {
    snprintf(uri, sizeof uri, "mongodb://h/%s?%s%s", db, i > 0 ? "appName=" : "tls=false", i > 1 ? accents : i > 0 ? "shop" : "");
    struct lockstore *opened = lockstore_open(&options, &error);
    if (!opened)
      fail_msg("%s", error.text);
    struct mongo *mongo = lockstore_mongo(opened);
    mongoc_client_t *client = mongo_client_take(mongo, "looking", &error);
    const char *name = mongoc_uri_get_appname(mongoc_client_get_uri(client));
    snprintf(expected, sizeof expected, "pawl-worker@%s", db);
    assert_string_equal(mongo_program(mongo), expected);
    assert_memory_equal(name, expected, strlen(expected));
    if (i == 1)
      assert_string_equal(name + strlen(expected), " shop");
    else
      assert_int_equal(strlen(name), i == 0 ? strlen(expected) : 127 + strlen(expected) % 2); /* whole characters */
    mongo_client_give(mongo, client);
    lockstore_close(opened);
  }
}

static int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

TEST(absent_server_is_unknown_in_time)
{
  struct lockstore_options options = {.uri = "mongodb://127.0.0.1:1", .timeout_ms = 700, .connections_max = 1};
  struct lockstore *opened = lockstore_open(&options, &error);
  struct lock_view view;
  assert_non_null(opened);
  int64_t began = now_ms();
  assert_int_equal(lockstore_prepare(opened, &error), OUTCOME_UNKNOWN);
  assert_non_null(strstr(error.text, "127.0.0.1:1"));
  assert_int_equal(lock_read(opened, "t", 0, &view, &error), OUTCOME_UNKNOWN);
  assert_uint_in_range(now_ms() - began, 500, 25000);
  lockstore_close(opened);
}

/* The time that a read is to wait for; 0: none. */
static uint64_t waited_for(struct mongo *mongo)
{
  bson_t command = BSON_INITIALIZER;
  bson_iter_t at, found;
  uint32_t seconds = 0, increment = 0;
  mongo_append_read_concern(mongo, &command, "snapshot", true);
  if (bson_iter_init(&at, &command) && bson_iter_find_descendant(&at, "readConcern.afterClusterTime", &found))
    bson_iter_timestamp(&found, &seconds, &increment);
  bson_destroy(&command);
  return (uint64_t)seconds << 32 | increment;
}

TEST(read_concern_fits_the_server)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct ledger before;
  assert_int_equal(ledger_fence(store, "concern", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  uint64_t first = waited_for(mongo);
  assert_int_equal(ledger_fence(store, "concern", 1, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  assert_true(waited_for(mongo) > first || !mongo_is_replica_set(mongo)); /* for what this process has just written */
  bson_t command = BSON_INITIALIZER;
  mongo_append_read_concern(mongo, &command, "snapshot", true);
  bson_iter_t at, found;
  assert_true(bson_iter_init(&at, &command) && bson_iter_find_descendant(&at, "readConcern.level", &found));
  assert_string_equal(bson_iter_utf8(&found, NULL), mongo_is_replica_set(mongo) ? "snapshot" : "local");
  bool after = bson_iter_init(&at, &command) && bson_iter_find_descendant(&at, "readConcern.afterClusterTime", &found);
  assert_true(after == mongo_is_replica_set(mongo));
  bson_destroy(&command);
}

/* The server's profiler shows it: a read that must not be out of date is linearizable. */
TEST(ledger_is_read_as_of_now)
{
  struct mongo *mongo = lockstore_mongo(store);
  struct ledger ledger;
  real_run(store, NULL, "{\"profile\": 2}");
  assert_int_equal(ledger_read(store, "as-of-now", &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_read_now(store, "as-of-now", &ledger, &error), OUTCOME_NO);
  real_run(store, NULL, "{\"profile\": 0}");
  bson_t *query =
      BCON_NEW("find", BCON_UTF8("system.profile"), "filter", "{", "command.find", BCON_UTF8("ledger"), "command.filter._id",
               BCON_UTF8("as-of-now"), "command.readConcern.level", BCON_UTF8(mongo_is_replica_set(mongo) ? "linearizable" : "local"), "}");
  assert_int_equal(real_count(store, query), mongo_is_replica_set(mongo) ? 1 : 2);
}

TEST(unknown_commit_is_repeated)
{
  static const char *const faults[] = {
      "\"failCommands\": [\"update\"], \"closeConnection\": true",
      "\"failCommands\": [\"update\"], \"errorCode\": 10107",
      "\"failCommands\": [\"update\"], \"errorCode\": 91, \"errorLabels\": [\"RetryableWriteError\"]",
      "\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}",
  };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    char type[32];
    struct ledger ledger;
    snprintf(type, sizeof type, "unknown-%zu", i);
    struct ledger_commit commit = first_commit(type);
    assert_int_equal(ledger_fence(store, type, 0, &alice, FENCER_LOCAL, &ledger, &error), OUTCOME_YES);
    real_fail_next(faults[i]);
    error.text[0] = '\0';
    assert_int_equal(ledger_commit(store, type, &commit, &error), OUTCOME_UNKNOWN);
    assert_non_null(strstr(error.text, "committing: "));
    if (ledger_commit(store, type, &commit, &error) != OUTCOME_YES)
      fail_msg("%s: %s", faults[i], error.text);
    assert_int_equal(ledger_read(store, type, &ledger, &error), OUTCOME_YES);
    assert_int_equal(ledger.end.length, 4096);
  }
}

/* The next answer may come from another server, so pawl asks again what it is. Not after a mere delay. */
TEST(server_that_went_is_not_known)
{
  static const struct {
    const char *fault;
    bool known;
  } cases[] = {
      {"\"failCommands\": [\"update\"], \"closeConnection\": true", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 10107", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 189", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 91", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 11600", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 11602", false},
      {"\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
    assert_true(lockstore_is_known(store));
    real_fail_next(cases[i].fault);
    assert_int_equal(lock_renew(store, "known", 0, &alice, 1000, &error), OUTCOME_UNKNOWN);
    if (lockstore_is_known(store) != cases[i].known)
      fail_msg("%s", cases[i].fault);
  }
  assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
}

/* This fault point loses only the reply: the request is done, and its answer is unknown all the same. */
TEST(unknown_take_is_mine)
{
  struct lock_view view;
  real_fail_next("\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 91, \"errmsg\": \"shut\\ndown\"}");
  assert_int_equal(lock_take(store, "unknown-take", 0, &alice, 60000, &someone, &error), OUTCOME_UNKNOWN);
  assert_non_null(strstr(error.text, "shut down"));
  assert_int_equal(lock_read(store, "unknown-take", 0, &view, &error), OUTCOME_YES);
  assert_int_equal(lock_take(store, "unknown-take", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
}

TEST(unknown_beats_a_duplicate)
{
  assert_int_equal(lock_take(store, "beats", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  real_fail_next("\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}");
  assert_int_equal(lock_take(store, "beats", 0, &bob, 60000, &someone, &error), OUTCOME_UNKNOWN);
  assert_int_equal(lock_take(store, "beats", 0, &bob, 60000, &someone, &error), OUTCOME_NO);
}

TEST(unknown_fence_may_have_happened)
{
  struct ledger before, ledger;
  real_fail_next("\"failCommands\": [\"findAndModify\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}");
  assert_int_equal(ledger_fence(store, "unknown-fence", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_UNKNOWN);
  assert_int_equal(ledger_fence(store, "unknown-fence", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_read_now(store, "unknown-fence", &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger.epoch, 1);
}

TEST(slow_server_is_unknown_in_time)
{
  struct lockstore *hasty = real_open(mongo_db(lockstore_mongo(store)), 2000);
  struct lock_view view;
  assert_int_equal(lock_read(hasty, "slow", 0, &view, &error), OUTCOME_NO);
  real_fail_next("\"failCommands\": [\"find\"], \"blockConnection\": true, \"blockTimeMS\": 15000");
  int64_t began = now_ms();
  assert_int_equal(lock_read(hasty, "slow", 0, &view, &error), OUTCOME_UNKNOWN);
  assert_uint_in_range(now_ms() - began, 1000, 12000);
  assert_int_equal(lock_read(hasty, "slow", 0, &view, &error), OUTCOME_NO);
  lockstore_close(hasty);
}

/* Another thread has had a later answer. */
TEST(older_answer_sets_no_time_back)
{
  struct lockstore *other = fixture_store_new();
  struct mongo *mongo = lockstore_mongo(other);
  struct ledger ledger;
  atomic_store(&mongo->operation_time, UINT64_MAX);
  assert_int_equal(ledger_read(other, "no-such-ledger", &ledger, &error), OUTCOME_NO);
  assert_true(mongo_operation_time(mongo) == UINT64_MAX);
  lockstore_close(other);
}

static int64_t max_time_of(struct mongo *mongo, bson_t *command)
{
  int64_t ms = 0;
  mongo_append_max_time(mongo, command);
  assert_true(document_int64(command, "maxTimeMS", &ms));
  bson_destroy(command);
  return ms;
}

/* What waits for a majority may take longer. */
TEST(each_request_ends_at_the_server_before_it_is_given_up)
{
  struct lockstore_options options = {.uri = "mongodb://h", .timeout_ms = 800, .majority_ms = 8000, .connections_max = 1};
  struct lockstore *opened = lockstore_open(&options, &error);
  struct mongo *mongo = lockstore_mongo(opened);
  assert_int_equal(max_time_of(mongo, BCON_NEW("readConcern", "{", "level", "local", "}")), 700);
  assert_int_equal(max_time_of(mongo, BCON_NEW("readConcern", "{", "level", "majority", "}")), 700);
  assert_int_equal(max_time_of(mongo, BCON_NEW("writeConcern", "{", "w", BCON_INT32(1), "}")), 700);
  assert_int_equal(max_time_of(mongo, BCON_NEW("writeConcern", "{", "w", "majority", "}")), 7000);
  assert_int_equal(max_time_of(mongo, BCON_NEW("readConcern", "{", "level", "linearizable", "}")), 7000);
  assert_int_equal(max_time_of(mongo, BCON_NEW("readConcern", "{", "level", "majority", "afterClusterTime", BCON_TIMESTAMP(1, 1), "}")),
                   7000);
  lockstore_close(opened);
}

/* Here a rule of the operator's; the same of a full disk, or of a write that was interrupted. */
TEST(only_a_duplicate_is_no)
{
  real_run(store, NULL, "{\"collMod\": \"locks\", \"validator\": {\"type\": {\"$ne\": \"against-a-rule\"}}}");
  enum outcome outcome = lock_take(store, "against-a-rule", 0, &alice, 60000, &someone, &error);
  real_run(store, NULL, "{\"collMod\": \"locks\", \"validator\": {}}");
  assert_int_equal(outcome, OUTCOME_UNKNOWN);
}

TEST(what_it_lacked_once_is_forgotten)
{
  struct mongo *mongo = lockstore_mongo(store);
  for (int what = 0; what < MONGO_LACKS; what++)
    for (int times = 0; times < 2; times++) /* not yet for five seconds */
      assert_int_equal(mongo_lacks(mongo, (enum mongo_lack)what), OUTCOME_UNKNOWN);
  assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
  assert_true(atomic_load(&mongo->lacks_since_ms[MONGO_LACKS_TIMES]) == 0);
  assert_true(!mongo_is_replica_set(mongo) || atomic_load(&mongo->lacks_since_ms[MONGO_LACKS_SNAPSHOTS]) == 0);
  mongo_lacks_not(mongo, MONGO_LACKS_SNAPSHOTS);
}
