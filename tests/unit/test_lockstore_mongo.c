/* Tests that need a real MongoDB: foreign documents and indexes, lost replies, URIs. */
#include "bson_array.h"
#include "cmocka_range.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"
#include "lockstore/store.h"
#include "lockstore/wakeup.h"
#include "test_lockstore.h"
#include "test_lockstore_real.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static struct lockstore *store;
static struct error error;

static const struct owner alice = {"alice"}, bob = {"bob"};
static const struct lock_holder someone = {.host = "host", .pid = 42};

#define OWNER_JSON "{\"$binary\": {\"base64\": \"YWxpY2UAAAAAAAAAAAAAAA==\", \"subType\": \"00\"}}"

/* ---- URI ---- */

static void wrong_uri_shows_no_password(void **state)
{
  (void)state;
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

static void db_is_chosen_and_checked(void **state)
{
  (void)state;
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
static void connections_bear_a_name_of_their_own(void **state)
{
  (void)state;
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

static void absent_server_is_unknown_in_time(void **state)
{
  (void)state;
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

/* ---- what every request carries ---- */

static void read_concern_fits_the_server(void **state)
{
  (void)state;
  struct mongo *mongo = lockstore_mongo(store);
  struct ledger before;
  assert_int_equal(ledger_fence(store, "concern", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_YES);
  bson_t command = BSON_INITIALIZER;
  mongo_append_read_concern(mongo, &command, "snapshot", true);
  bson_iter_t at, found;
  assert_true(bson_iter_init(&at, &command) && bson_iter_find_descendant(&at, "readConcern.level", &found));
  assert_string_equal(bson_iter_utf8(&found, NULL), mongo_is_replica_set(mongo) ? "snapshot" : "local");
  bool after = bson_iter_init(&at, &command) && bson_iter_find_descendant(&at, "readConcern.afterClusterTime", &found);
  assert_true(after == mongo_is_replica_set(mongo));
  bson_destroy(&command);
}

static void count_document(void *context, const bson_t *document)
{
  (void)document;
  ++*(int *)context;
}

/* The server's profiler shows it: a read that must not be out of date is linearizable. */
static void ledger_is_read_as_of_now(void **state)
{
  (void)state;
  struct mongo *mongo = lockstore_mongo(store);
  struct ledger ledger;
  int found = 0;
  real_run(store, NULL, "{\"profile\": 2}");
  assert_int_equal(ledger_read(store, "as-of-now", &ledger, &error), OUTCOME_NO);
  assert_int_equal(ledger_read_now(store, "as-of-now", &ledger, &error), OUTCOME_NO);
  real_run(store, NULL, "{\"profile\": 0}");
  bson_t *query =
      BCON_NEW("find", BCON_UTF8("system.profile"), "filter", "{", "command.find", BCON_UTF8("ledger"), "command.filter._id",
               BCON_UTF8("as-of-now"), "command.readConcern.level", BCON_UTF8(mongo_is_replica_set(mongo) ? "linearizable" : "local"), "}");
  assert_int_equal(mongo_find(mongo, "looking", query, count_document, &found, &error), OUTCOME_YES);
  assert_int_equal(found, mongo_is_replica_set(mongo) ? 1 : 2);
  bson_destroy(query);
}

static void fail_next(const char *data)
{
  char json[1024];
  snprintf(json, sizeof json, "{\"configureFailPoint\": \"failCommand\", \"mode\": {\"times\": 1}, \"data\": {\"appName\": \"%s\", %s}}",
           mongo_program(lockstore_mongo(store)), data);
  real_run(store, "admin", json);
}

static const struct acquisition by_alice = {.kind = LOCK_BY_WORKER, .ttl_ms = 1000, .owner = {"alice"}};

/* All but the first `skip`, until it is turned off. */
static void fail_after(int skip, const char *data)
{
  char json[1024];
  snprintf(json, sizeof json, "{\"configureFailPoint\": \"failCommand\", \"mode\": {\"skip\": %d}, \"data\": {\"appName\": \"%s\", %s}}",
           skip, mongo_program(lockstore_mongo(store)), data);
  real_run(store, "admin", json);
}

static void fail_no_more(void)
{
  real_run(store, "admin", "{\"configureFailPoint\": \"failCommand\", \"mode\": \"off\"}");
}

static struct ledger_commit first_commit(const char *type)
{
  struct ledger_commit commit = {.epoch = 1, .owner = alice};
  snprintf(commit.after.file, sizeof commit.after.file, "%s.bin", type);
  commit.after.length = 4096;
  commit.after.link = 0xffffffff00000000u;
  return commit;
}

static void unknown_commit_is_repeated(void **state)
{
  (void)state;
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
    fail_next(faults[i]);
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
static void server_that_went_is_not_known(void **state)
{
  (void)state;
  static const struct {
    const char *fault;
    bool known;
  } cases[] = {
      {"\"failCommands\": [\"update\"], \"closeConnection\": true", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 10107", false},
      {"\"failCommands\": [\"update\"], \"errorCode\": 189", false},
      {"\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
    assert_true(lockstore_is_known(store));
    fail_next(cases[i].fault);
    assert_int_equal(lock_renew(store, "known", 0, &alice, 1000, &error), OUTCOME_UNKNOWN);
    if (lockstore_is_known(store) != cases[i].known)
      fail_msg("%s", cases[i].fault);
  }
  assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
}

/* This fault point loses only the reply: the request is done, and its answer is unknown all the same. */
static void unknown_take_is_mine(void **state)
{
  (void)state;
  struct lock_view view;
  fail_next("\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 91, \"errmsg\": \"shut\\ndown\"}");
  assert_int_equal(lock_take(store, "unknown-take", 0, &alice, 60000, &someone, &error), OUTCOME_UNKNOWN);
  assert_non_null(strstr(error.text, "shut down"));
  assert_int_equal(lock_read(store, "unknown-take", 0, &view, &error), OUTCOME_YES);
  assert_int_equal(lock_take(store, "unknown-take", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
}

static void unknown_beats_a_duplicate(void **state)
{
  (void)state;
  assert_int_equal(lock_take(store, "beats", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  fail_next("\"failCommands\": [\"update\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}");
  assert_int_equal(lock_take(store, "beats", 0, &bob, 60000, &someone, &error), OUTCOME_UNKNOWN);
  assert_int_equal(lock_take(store, "beats", 0, &bob, 60000, &someone, &error), OUTCOME_NO);
}

static void unknown_fence_may_have_happened(void **state)
{
  (void)state;
  struct ledger before, ledger;
  fail_next("\"failCommands\": [\"findAndModify\"], \"writeConcernError\": {\"code\": 64, \"errmsg\": \"waiting timed out\"}");
  assert_int_equal(ledger_fence(store, "unknown-fence", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_UNKNOWN);
  assert_int_equal(ledger_fence(store, "unknown-fence", 0, &alice, FENCER_LOCAL, &before, &error), OUTCOME_NO);
  assert_int_equal(ledger_read(store, "unknown-fence", &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger.epoch, 1);
}

static void slow_server_is_unknown_in_time(void **state)
{
  (void)state;
  struct lockstore *hasty = real_open(mongo_db(lockstore_mongo(store)), 2000);
  struct lock_view view;
  assert_int_equal(lock_read(hasty, "slow", 0, &view, &error), OUTCOME_NO);
  fail_next("\"failCommands\": [\"find\"], \"blockConnection\": true, \"blockTimeMS\": 15000");
  int64_t began = now_ms();
  assert_int_equal(lock_read(hasty, "slow", 0, &view, &error), OUTCOME_UNKNOWN);
  assert_uint_in_range(now_ms() - began, 1000, 12000);
  assert_int_equal(lock_read(hasty, "slow", 0, &view, &error), OUTCOME_NO);
  lockstore_close(hasty);
}

/* ---- documents that pawl did not write ---- */

static void insert(const char *collection, const char *document)
{
  char json[2048];
  snprintf(json, sizeof json, "{\"insert\": \"%s\", \"documents\": [%s]}", collection, document);
  real_run(store, NULL, json);
}

static void lock_without_owner_is_refused(void **state)
{
  (void)state;
  static const char *const owners[] = {
      "\"me\"",
      "null",
      "{\"$binary\": {\"base64\": \"AAAA\", \"subType\": \"00\"}}",
      "{\"$binary\": {\"base64\": \"YWxpY2UAAAAAAAAAAAAAAA==\", \"subType\": \"04\"}}",
  };
  for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
    char type[32], document[512];
    struct lock_view view;
    snprintf(type, sizeof type, "foreign-%zu", i);
    snprintf(document, sizeof document, "{\"type\": \"%s\", \"slot\": 0, \"owner\": %s}", type, owners[i]);
    insert("locks", document);
    assert_int_equal(lock_take(store, type, 0, &alice, 60000, &someone, &error), OUTCOME_NO);
    assert_int_equal(lock_read(store, type, 0, &view, &error), OUTCOME_REFUSED);
    snprintf(document, sizeof document, "deleteOne({type: \"%s\", slot: 0})", type);
    assert_non_null(strstr(error.text, document));
  }
}

static void lock_with_odd_times_is_judged(void **state)
{
  (void)state;
  static const char far[] = "{\"$date\": {\"$numberLong\": \"9223372036854775807\"}}";
  static const char past[] = "{\"$date\": {\"$numberLong\": \"-9223372036854775808\"}}";
  static const char later[] = "{\"$date\": {\"$numberLong\": \"4102444800000\"}}"; /* 2100 */
  const char *const odd[][2] = {
      {"null", "1000"},
      {"\"tomorrow\"", "1000"},
      {"{\"$timestamp\": {\"t\": 4000000000, \"i\": 1}}", "1000"},
      {past, "1000"},
      {far, "1000"},
      {far, "null"},
      {far, "\"long\""},
      {far, "-1"},
      {far, "{\"$numberLong\": \"9223372036854775807\"}"},
      {far, "{\"$numberDouble\": \"NaN\"}"},
      {far, "{\"$numberDouble\": \"Infinity\"}"},
      {far, "[1, 2]"},
      {later, "{\"$numberLong\": \"4102444800000\"}"}, /* no lease is that long */
  };
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    char type[32], document[512];
    struct lock_view view;
    snprintf(type, sizeof type, "odd-%zu", i);
    snprintf(document, sizeof document,
             "{\"type\": \"%s\", \"slot\": 0, \"owner\": " OWNER_JSON ", \"expires_at\": %s, \"ttl_ms\": %s, \"holder\": 7}", type,
             odd[i][0], odd[i][1]);
    insert("locks", document);
    assert_int_equal(lock_read(store, type, 0, &view, &error), OUTCOME_YES);
    assert_true(view.stealable);
    assert_true((view.left_ms > 0) == (odd[i][0] == far || odd[i][0] == later));
    assert_int_equal(lock_steal(store, type, 0, &alice, &error), OUTCOME_YES);
    assert_int_equal(lock_take(store, type, 0, &bob, 60000, &someone, &error), OUTCOME_YES);
  }
}

#define MOST "{\"$numberLong\": \"4611686018427387903\"}"     /* 2^62 - 1 */
#define TOO_MUCH "{\"$numberLong\": \"4611686018427387904\"}" /* 2^62 */
#define LARGEST "{\"$numberLong\": \"9223372036854775807\"}"
#define SMALLEST "{\"$numberLong\": \"-9223372036854775808\"}"
#define MOST_EPOCH "{\"$numberLong\": \"576460752303423488\"}" /* 2^59 */

static void malformed_ledger_is_refused(void **state)
{
  (void)state;
  /* The fields that replace those of a good ledger, and what the text must name. NULL: the ledger stays good. */
  static const char *const cases[][2] = {
      {"\"clean\": true", NULL},
      {"\"owner\": \"none\"", NULL},
      {"\"epoch\": 3, \"length\": {\"$numberDouble\": \"4196.0\"}", NULL},
      {"\"v\": \"1\"", "v is \"1\""},
      {"\"v\": null", "v is null"},
      {"\"epoch\": 0", "epoch is 0"},
      {"\"epoch\": -1", "epoch is -1"},
      {"\"epoch\": " MOST_EPOCH, NULL},
      {"\"epoch\": {\"$numberLong\": \"576460752303423489\"}",
       "epoch is 576460752303423489, expected a whole number above 0 and at most 2^59"},
      {"\"epoch\": " LARGEST, "epoch is 9223372036854775807"},
      {"\"epoch\": \"3\"", "epoch is"},
      {"\"epoch\": {\"$numberDouble\": \"1.5\"}", "epoch is 1.5"},
      {"\"epoch\": {\"$numberDouble\": \"NaN\"}", "epoch is"},
      {"\"clean\": 1", "clean is 1"},
      {"\"epoch\": 3, \"guarded\": 3", NULL},
      {"\"epoch\": 3, \"guarded\": 1", NULL},
      {"\"epoch\": 3, \"guarded\": 4", "guarded is 4, expected a whole number above 0 and not above epoch"},
      {"\"guarded\": 0", "guarded is 0"},
      {"\"guarded\": true", "guarded is true"},
      {"\"file\": \"../t.bin\"", "file is \"../t.bin\""},
      {"\"file\": \"other.bin\"", "file is"},
      {"\"file\": \"TYPE@5.bin\"", NULL},
      {"\"file\": \"TYPE.bin\"", NULL},
      {"\"file\": \"TYPE@999999999999999999.bin\"", NULL},
      {"\"file\": \"TYPE@1000000000000000000.bin\"", "file is"},
      {"\"file\": \"TYPE@0.bin\"", "file is"},
      {"\"file\": \"TYPE@05.bin\"", "file is"},
      {"\"file\": \"TYPE@5x.bin\"", "file is"},
      {"\"file\": \"TYPE@.bin\"", "file is"},
      {"\"file\": \"TYPE5.bin\"", "file is"},
      {"\"file\": 5", "file is 5"},
      {"\"file\": null", "file is null"},
      {"\"uuid\": null", "uuid is null"},
      {"\"uuid\": \"0123456789abcdef\"", "uuid is"},
      {"\"length\": -1", "length is -1"},
      {"\"length\": \"x\"", "length is \"x\""},
      {"\"tail\": -1", "tail is -1"},
      {"\"length\": 0", "length is 0"},
      {"\"length\": " MOST, NULL},
      {"\"length\": " TOO_MUCH, "length is 4611686018427387904, expected a whole number above 0 and below 2^62"},
      {"\"length\": " LARGEST ", \"tail\": {\"$numberLong\": \"9223372036854775806\"}", "length is 9223372036854775807"},
      {"\"tail\": 4195", NULL},
      {"\"tail\": 4196", "tail is 4196, expected a number below length"},
      {"\"tail\": 99999", "tail is 99999"},
      {"\"tail\": " TOO_MUCH, "tail is 4611686018427387904, expected a whole number, not negative and below 2^62"},
      {"\"tail\": " SMALLEST, "tail is -9223372036854775808"},
      {"\"link\": " LARGEST, NULL},
      {"\"link\": \"0\"", "link is"},
      {"\"seq\": -3", "seq is -3"},
      {"\"items\": null", "items is null"},
      {"\"settled\": -1", "settled is -1"},
      {"\"seq\": " MOST ", \"items\": " MOST ", \"settled\": " MOST, NULL},
      {"\"seq\": " TOO_MUCH, "seq is 4611686018427387904, expected a whole number, not negative and below 2^62"},
      {"\"seq\": " LARGEST ", \"settled\": " LARGEST, "seq is 9223372036854775807"},
      {"\"seq\": {\"$numberDouble\": \"1e19\"}", "seq is 10000000000000000000.0"},
      {"\"seq\": {\"$numberDecimal\": \"5\"}", "seq is"},
      {"\"items\": -1", "items is -1"},
      {"\"items\": " TOO_MUCH, "items is 4611686018427387904"},
      {"\"settled\": " SMALLEST, "settled is -9223372036854775808"},
      {"\"settled\": " LARGEST, "settled is 9223372036854775807"},
      {"\"settled\": 3", "settled is 3, expected a number not above seq"},
      {"\"settled\": 2", NULL},
      {"\"settled\": 99", "settled is 99"},
      {"\"machine\": 1", "machine is 1"},
      {"\"machine\": \"0123456789012345678901234567890123456789012345678901234567890123456789\"", "machine is"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char type[32], json[1024];
    struct ledger ledger;
    snprintf(type, sizeof type, "bad-%zu", i);
    snprintf(json, sizeof json,
             "{\"_id\": \"%s\", \"v\": 1, \"epoch\": 3, \"owner\": " OWNER_JSON
             ", \"clean\": true, \"file\": \"%s@3.bin\", \"uuid\": " OWNER_JSON
             ", \"length\": 4196, \"tail\": 4096, \"link\": {\"$numberLong\": \"-1\"}, \"seq\": 2, \"items\": 2, \"settled\": 1}",
             type, type);
    insert("ledger", json);
    const char *named = strstr(cases[i][0], "TYPE"), *rest = named ? named + 4 : cases[i][0];
    snprintf(json, sizeof json, "{\"update\": \"ledger\", \"updates\": [{\"q\": {\"_id\": \"%s\"}, \"u\": {\"$set\": {%.*s%s%s}}}]}", type,
             named ? (int)(named - cases[i][0]) : 0, cases[i][0], named ? type : "", rest);
    real_run(store, NULL, json);
    enum outcome outcome = ledger_read(store, type, &ledger, &error);
    if (outcome != (cases[i][1] ? OUTCOME_REFUSED : OUTCOME_YES) || (cases[i][1] && !strstr(error.text, cases[i][1])))
      fail_msg("%s: %d %s", cases[i][0], outcome, outcome == OUTCOME_YES ? "" : error.text);
    assert_true(ledger.v <= 1);
  }
}

/* Files with an epoch so high that no ledger can have a higher one. */
static void adopting_has_an_end(void **state)
{
  (void)state;
  const struct ledger none = {0};
  struct ledger ledger = {.v = 1, .epoch = ((int64_t)1 << 59) + 1, .has_owner = true, .owner = alice, .end = first_commit("high").after};
  assert_int_equal(ledger_put(store, "high", &none, NULL, &ledger, &error), OUTCOME_REFUSED);
  assert_non_null(strstr(error.text, "high call for epoch 576460752303423489"));
  assert_int_equal(ledger_read(store, "high", &ledger, &error), OUTCOME_NO);
  ledger = (struct ledger){.v = 1, .epoch = (int64_t)1 << 59, .has_owner = true, .owner = alice, .end = first_commit("high").after};
  assert_int_equal(ledger_put(store, "high", &none, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_read(store, "high", &ledger, &error), OUTCOME_YES);
}

static void what_others_wrote_is_shown_printable(void **state)
{
  (void)state;
  static const char *const cases[][2] = {
      {"plain \xc3\xbc \xe2\x82\xac", "plain \xc3\xbc \xe2\x82\xac"},
      {"a\nb\x1b[31m\x7f", "a b [31m "},
      {"\xc2\x9b"
       "31m\xc2\x80\xc2\x9f\xc2\xa0",
       "  31m    \xc2\xa0"},
      {"cut \xc3", "cut "},
      {"cut \xe2\x82", "cut "},
      {"cut \xf0\x9f\x92", "cut "},
      {"whole \xf0\x9f\x92\xa9", "whole \xf0\x9f\x92\xa9"},
      {"", ""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64];
    snprintf(text, sizeof text, "%s", cases[i][0]);
    document_make_printable(text);
    assert_string_equal(text, cases[i][1]);
  }
  char longer[121] = "x"; /* the 80 bytes that are shown end in the middle of a character, whatever their start */
  for (size_t i = 1; i + 2 < sizeof longer; i += 2)
    memcpy(longer + i, "\xc3\xbc", 3);
  for (size_t skip = 0; skip < 2; skip++) {
    bson_t *document = BCON_NEW("f", BCON_UTF8(longer + (skip ? 1 : 0)), "g",
                                BCON_UTF8("a\xc2\x9b"
                                          "b"));
    assert_true(bson_utf8_validate(document_show(document, "f").text, strlen(document_show(document, "f").text), false));
    assert_string_equal(document_show(document, "g").text, "\"a  b\"");
    char text[64];
    assert_false(document_text(document, "g", text, sizeof text));
    bson_destroy(document);
  }
}

static void ledger_without_file_has_nothing_of_it(void **state)
{
  (void)state;
  struct ledger ledger;
  insert("ledger",
         "{\"_id\": \"nofile-1\", \"v\": 1, \"epoch\": 3, \"clean\": true, \"seq\": 0, \"items\": 0, \"settled\": 0, \"link\": 5}");
  insert("ledger", "{\"_id\": \"nofile-2\", \"v\": 1, \"epoch\": 3, \"clean\": true, \"seq\": 4, \"items\": 4, \"settled\": 0}");
  insert("ledger",
         "{\"_id\": \"nofile-3\", \"v\": 1, \"epoch\": 3, \"clean\": true, \"seq\": 0, \"items\": 0, \"settled\": 0, \"link\": 0}");
  assert_int_equal(ledger_read(store, "nofile-1", &ledger, &error), OUTCOME_REFUSED);
  assert_non_null(strstr(error.text, "link is 5"));
  assert_int_equal(ledger_read(store, "nofile-2", &ledger, &error), OUTCOME_REFUSED);
  assert_non_null(strstr(error.text, "seq is 4"));
  assert_int_equal(ledger_read(store, "nofile-3", &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_fence(store, "nofile-3", 3, &alice, FENCER_LOCAL, &ledger, &error), OUTCOME_YES);
  struct ledger_commit commit = first_commit("nofile-3");
  commit.epoch = 4;
  assert_int_equal(ledger_commit(store, "nofile-3", &commit, &error), OUTCOME_YES);
}

static void see_any_lock(void *context, const char *type, int slot, const struct lock_view *view, const char *problem)
{
  (void)slot, (void)view;
  *(int *)context += type && problem;
}

static void see_any_ledger(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  (void)ledger;
  *(int *)context += type && problem;
}

static void lists_name_what_is_malformed(void **state)
{
  (void)state;
  int locks = 0, ledgers = 0;
  insert("locks", "{\"nothing\": 1}");
  insert("locks", "{\"type\": {\"a\": 1}, \"slot\": \"x\", \"owner\": " OWNER_JSON "}");
  insert("ledger", "{\"_id\": {\"a\": 1}, \"v\": 1}");
  assert_int_equal(lock_list(store, see_any_lock, &locks, &error), OUTCOME_YES);
  assert_int_equal(ledger_list(store, see_any_ledger, &ledgers, &error), OUTCOME_YES);
  assert_true(locks >= 2);
  assert_true(ledgers >= 1);
}

static void count_one(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  (void)ledger, (void)problem;
  *(int *)context += strncmp(type, "many-", 5) == 0;
}

static void long_list_is_whole(void **state)
{
  (void)state;
  int count = 0;
  for (int from = 0; from < 250; from += 10) {
    char documents[1024];
    size_t used = 0;
    for (int i = from; i < from + 10; i++)
      used += (size_t)snprintf(documents + used, sizeof documents - used, "%s{\"_id\": \"many-%d\"}", i == from ? "" : ", ", i);
    insert("ledger", documents);
  }
  assert_int_equal(ledger_list(store, count_one, &count, &error), OUTCOME_YES);
  assert_int_equal(count, 250);
}

/* ---- prepare ---- */

static void prepare_is_repeatable(void **state)
{
  (void)state;
  for (int i = 0; i < 2; i++)
    assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
}

static void database_is_refused(void **state)
{
  (void)state;
  /* What exists before pawl starts, and what the text must name. NULL: pawl accepts it. */
  static const char *const cases[][2] = {
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"type\": 1, \"slot\": 1}, \"name\": \"mine\", \"unique\": true}]}", NULL},
      {"{\"createIndexes\": \"messages\", \"indexes\": [{\"key\": {\"type\": 1, \"_id\": 1}, \"name\": \"mine\"}]}", NULL},
      {"{\"createIndexes\": \"messages\", \"indexes\": [{\"key\": {\"type\": 1}, \"name\": \"other\"}]}", NULL},
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"type\": 1, \"slot\": 1}, \"name\": \"mine\"}]}", "is not unique"},
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"type\": 1, \"slot\": 1}, \"name\": \"mine\", \"unique\": true, "
       "\"partialFilterExpression\": {\"slot\": {\"$gt\": 0}}}]}",
       "is partial"},
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"type\": 1, \"slot\": 1}, \"name\": \"mine\", \"unique\": true, "
       "\"sparse\": true}]}",
       "is sparse"},
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"type\": 1, \"slot\": 1}, \"name\": \"mine\", \"unique\": true, "
       "\"collation\": {\"locale\": \"en\", \"strength\": 2}}]}",
       "collation"},
      {"{\"create\": \"wakeups\", \"viewOn\": \"messages\", \"pipeline\": []}", "wakeups is a view"},
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"slot\": 1, \"type\": 1}, \"name\": \"type_1_slot_1\"}]}",
       "type_1_slot_1"},
      {"{\"insert\": \"locks\", \"documents\": [{\"type\": \"a\", \"slot\": 0}, {\"type\": \"a\", \"slot\": 0}]}",
       "unique index {type: 1, slot: 1}"},
      {"{\"createIndexes\": \"messages\", \"indexes\": [{\"key\": {\"at\": 1}, \"name\": \"ttl\", \"expireAfterSeconds\": 60}]}",
       "expireAfterSeconds"},
      {"{\"createIndexes\": \"messages\", \"indexes\": [{\"key\": {\"type\": 1, \"_id\": 1}, \"name\": \"mine\", \"hidden\": true}]}",
       "is hidden"},
      {"{\"createIndexes\": \"messages\", \"indexes\": [{\"key\": {\"type\": 1, \"_id\": 1}, \"name\": \"mine\", "
       "\"partialFilterExpression\": {\"type\": \"t1\"}}]}",
       "is partial"},
      {"{\"create\": \"messages\", \"capped\": true, \"size\": 100000}", "is capped"},
      {"{\"create\": \"messages\", \"viewOn\": \"elsewhere\"}", "view"},
      {"{\"create\": \"messages\", \"timeseries\": {\"timeField\": \"at\"}}", "time-series"},
      {"{\"create\": \"messages\", \"collation\": {\"locale\": \"en\"}}", "collation"},
      {"{\"create\": \"locks\", \"collation\": {\"locale\": \"en\"}}", "collation"},
      {"{\"create\": \"ledger\", \"collation\": {\"locale\": \"en\"}}", "collation"},
      {"{\"create\": \"ledger\", \"collation\": {\"locale\": \"simple\"}}", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char db[64];
    snprintf(db, sizeof db, "%s_%zu", mongo_db(lockstore_mongo(store)), i);
    struct lockstore *other = real_open(db, 30000);
    real_run(other, NULL, cases[i][0]);
    enum outcome outcome = lockstore_prepare(other, &error);
    if (outcome != (cases[i][1] ? OUTCOME_REFUSED : OUTCOME_YES) || (cases[i][1] && !strstr(error.text, cases[i][1])))
      fail_msg("%s: %d %s", cases[i][0], outcome, outcome == OUTCOME_YES ? "" : error.text);
    if (cases[i][1])
      assert_null(strchr(error.text, '\n'));
    real_drop(other);
  }
}

/* ---- wake-ups ---- */

static struct watcher *watcher_of(struct lockstore *of, int64_t await_ms)
{
  static const char *const types[] = {"t"};
  struct lockstore_options options = {.uri = getenv("PAWL_TEST_URI"),
                                      .db = mongo_db(lockstore_mongo(of)),
                                      .timeout_ms = 30000,
                                      .await_ms = await_ms,
                                      .program = REAL_PROGRAM};
  struct watcher *watcher = watcher_open(of, &options, types, 1, &error);
  assert_non_null(watcher);
  return watcher;
}

static void lost_watch_is_begun_again(void **state)
{
  (void)state;
  struct watcher *watcher = watcher_of(store, 200);
  struct wakeup wakeup;
  assert_int_equal(watcher_begin(watcher, &error), OUTCOME_YES);
  fail_next("\"failCommands\": [\"getMore\"], \"closeConnection\": true");
  assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_UNKNOWN);
  assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_UNKNOWN); /* not begun */
  assert_int_equal(watcher_begin(watcher, &error), OUTCOME_YES);
  assert_int_equal(wakeup_send(store, "t", WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
  assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_YES);
  watcher_close(watcher);
}

/* Anybody may write a wake-up: an epoch that no ledger can be fenced from counts as not told. */
static void made_up_epochs_are_not_taken(void **state)
{
  (void)state;
  static const struct {
    const char *told;
    int64_t taken;
  } cases[] = {{"7", 7},
               {"576460752303423488", LEDGER_EPOCH_MAX},
               {"576460752303423489", 0},
               {"9223372036854775807", 0},
               {"-1", 0},
               {"-9223372036854775808", 0}};
  struct watcher *watcher = watcher_of(store, 500);
  struct acquisition me;
  acquire_init(&me, LOCK_BY_TOOL, 1000, 1000);
  acquire_draw(store, &me);
  assert_int_equal(watcher_begin(watcher, &error), OUTCOME_YES);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char json[512];
    struct wakeup wakeup = {.epoch = -1};
    bson_t *document =
        BCON_NEW("type", BCON_UTF8("t"), "about", BCON_UTF8("lock"), "to", "[",
                 BCON_BIN(BSON_SUBTYPE_BINARY, me.owner.bytes, ADDRESS_BYTES), "]", "owners", "[",
                 BCON_BIN(BSON_SUBTYPE_BINARY, me.owner.bytes, OWNER_BYTES), "]", "epoch", BCON_INT64(strtoll(cases[i].told, NULL, 10)));
    char *text = bson_as_canonical_extended_json(document, NULL);
    snprintf(json, sizeof json, "{\"insert\": \"wakeups\", \"documents\": [%s]}", text);
    real_run(store, NULL, json);
    bson_free(text);
    bson_destroy(document);
    assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_YES);
    assert_int_equal(wakeup.epoch, cases[i].taken);
  }
  watcher_close(watcher);
}

/* What another program has made of the collection. */
static void spoil(struct lockstore *other, int how, const char *name)
{
  char command[256];
  if (how == 0)
    return;     /* nothing: it is missing */
  if (how == 1) /* a plain collection */
    snprintf(command, sizeof command, "{\"insert\": \"%s\", \"documents\": [{\"type\": \"t\", \"about\": \"message\"}]}", name);
  else /* an empty one */
    snprintf(command, sizeof command, "{\"create\": \"%s\", \"capped\": true, \"size\": 4096}", name);
  real_run(other, NULL, command);
}

/* The watcher mends it, or lockstore_prepare does. */
static void wakeups_collection_is_mended(void **state)
{
  (void)state;
  for (int i = 0; i < 6; i++) {
    bool prepared = i / 3;
    char name[64];
    snprintf(name, sizeof name, "pawl_test_wakeups_%d_%lld", i, (long long)time(NULL));
    struct lockstore *other = real_open(name, 30000);
    struct watcher *watcher = watcher_of(other, 200);
    struct wakeup wakeup;
    spoil(other, i % 3, WAKEUPS);
    for (int j = 0; prepared && j < 2; j++)
      assert_int_equal(lockstore_prepare(other, &error), OUTCOME_YES);
    assert_int_equal(watcher_begin(watcher, &error), OUTCOME_YES);
    assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_NO);
    assert_int_equal(wakeup_send(other, "t", WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
    assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_YES);
    watcher_close(watcher);
    real_drop(other);
  }
}

/* {insert: name, documents: [{field: "message", type: "t", n}, …]}; the other fields are those of another application. */
static void fill(struct lockstore *other, const char *name, int count, const char *field)
{
  bson_t *command = BCON_NEW("insert", BCON_UTF8(name)), documents;
  bson_append_array_unsafe_begin(command, "documents", -1, &documents);
  for (int i = 0; i < count; i++) {
    char key[16];
    bson_t document;
    snprintf(key, sizeof key, "%d", i);
    bson_append_document_begin(&documents, key, -1, &document);
    BCON_APPEND(&document, "type", "t", field, "message");
    bson_append_document_end(&documents, &document);
  }
  bson_append_array_end(command, &documents);
  char *json = bson_as_relaxed_extended_json(command, NULL);
  real_run(other, NULL, json);
  bson_free(json);
  bson_destroy(command);
}

static int held(struct lockstore *other, const char *name)
{
  int found = 0;
  bson_t *query = BCON_NEW("find", BCON_UTF8(name), "filter", "{", "}");
  assert_int_equal(mongo_find(lockstore_mongo(other), "counting", query, count_document, &found, &error), OUTCOME_YES);
  bson_destroy(query);
  return found;
}

/*
 * A collection of that name belongs to another application: pawl neither converts it nor writes to it, whichever call meets it
 * first, and works without wake-ups.
 */
static void a_foreign_collection_is_left_alone(void **state)
{
  (void)state;
  static const struct {
    const char *create;
    int count;
    const char *field;
  } cases[] = {
      {NULL, 5, "body"},
      {NULL, 2000, "about"},
      {"\"capped\": true, \"size\": 1000000", 5, "body"},
  };
  for (int i = 0; i < 6; i++) {
    bool prepared = i / 3;
    char name[64], create[256];
    if (cases[i % 3].create && !prepared) /* a watcher only begins in a prepared database */
      continue;
    snprintf(name, sizeof name, "pawl_test_foreign_%d_%lld", i, (long long)time(NULL));
    struct lockstore *other = real_open(name, 30000);
    struct watcher *watcher = watcher_of(other, 200);
    snprintf(create, sizeof create, "{\"create\": \"" WAKEUPS "\"%s%s}", cases[i % 3].create ? ", " : "",
             cases[i % 3].create ? cases[i % 3].create : "");
    real_run(other, NULL, create);
    fill(other, WAKEUPS, cases[i % 3].count, cases[i % 3].field);
    if (prepared) {
      assert_int_equal(lockstore_prepare(other, &error), OUTCOME_YES);
      assert_int_equal(wakeup_send(other, "t", WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
    }
    if (watcher_begin(watcher, &error) != OUTCOME_REFUSED || !strstr(error.text, WAKEUPS))
      fail_msg("case %d: %s", i, error.text);
    assert_int_equal(held(other, WAKEUPS), cases[i % 3].count);
    watcher_close(watcher);
    real_drop(other);
  }
}

/* The queue is a document that anybody may write: what is no waiter is skipped, and what is no array keeps nobody from the lock. */
static void odd_wait_queues_do_no_harm(void **state)
{
  (void)state;
  static const char *const queues[] = {"[]",
                                       "7",
                                       "[1, null, {}, {\"owner\": 7}]",
                                       "{\"a\": 1}",
                                       "[{\"owner\": {\"$binary\": {\"base64\": \"AAAAAAAAAAAAAAAAAAAAAA==\", \"subType\": \"00\"}}, "
                                       "\"kind\": \"worker\", \"at\": {\"$date\": "
                                       "\"2000-01-01T00:00:00Z\"}, \"ttl_ms\": 30000}]",
                                       "[{\"owner\": {\"$binary\": {\"base64\": \"AAAAAAAAAAAAAAAAAAAAAA==\", \"subType\": \"00\"}}, "
                                       "\"kind\": \"worker\", \"at\": {\"$date\": "
                                       "\"2100-01-01T00:00:00Z\"}, \"ttl_ms\": 30000}]"};
  static const char last[] =
      ", \"last\": {\"owner\": {\"$binary\": {\"base64\": \"AAAAAAAAAAAAAAAAAAAAAA==\", \"subType\": \"00\"}}, \"kind\": \"worker\"}";
  enum { COUNT = sizeof queues / sizeof *queues };
  for (size_t i = 0; i < 2 * COUNT; i++) {
    char json[1024];
    struct acquisition mine;
    acquire_init(&mine, LOCK_BY_TOOL, 30000, 100);
    snprintf(json, sizeof json,
             "{\"update\": \"locks\", \"updates\": [{\"q\": {\"type\": \"odd\", \"slot\": -1}, \"u\": {\"$set\": {\"queue\": %s%s}}, "
             "\"upsert\": true}]}",
             queues[i % COUNT], i < COUNT ? "" : last);
    real_run(store, NULL, json);
    if (acquire_look(store, "odd", &mine, &someone, &error) != OUTCOME_YES)
      fail_msg("%s keeps others from a free lock", queues[i % COUNT]);
    assert_int_equal(acquire_take(store, "odd", &mine, &someone, &error), OUTCOME_YES);
    assert_int_equal(acquire_release(store, "odd", &mine, 0, &error), OUTCOME_YES);
  }
}

/* Called, and it does not come: after a moment the next one may, and it costs that once. */
static void a_dead_waiter_is_passed_over(void **state)
{
  (void)state;
  struct acquisition dead, next;
  struct lockstore *other = real_open(mongo_db(lockstore_mongo(store)), 30000);
  acquire_init(&dead, LOCK_BY_WORKER, 1000, 100); /* its lease is shorter than the call */
  acquire_init(&next, LOCK_BY_WORKER, 1000, 100);
  assert_int_equal(lock_take(store, "dead", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  assert_int_equal(acquire_look(other, "dead", &dead, &someone, &error), OUTCOME_NO);
  assert_int_equal(acquire_look(store, "dead", &next, &someone, &error), OUTCOME_NO);
  assert_int_equal(acquire_release(store, "dead", &by_alice, 0, &error), OUTCOME_YES);
  assert_int_equal(acquire_look(store, "dead", &next, &someone, &error), OUTCOME_NO);
  assert_uint_in_range(next.pause_ms, 1, 1201);
  nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
  assert_int_equal(acquire_look(store, "dead", &next, &someone, &error), OUTCOME_YES);
  assert_int_equal(acquire_take(store, "dead", &next, &someone, &error), OUTCOME_YES);
  /* Nothing is left of it. */
  struct acquisition third;
  acquire_init(&third, LOCK_BY_WORKER, 1000, 100);
  assert_int_equal(acquire_release(store, "dead", &next, 0, &error), OUTCOME_YES);
  assert_int_equal(acquire_look(store, "dead", &third, &someone, &error), OUTCOME_YES);
  lockstore_close(other);
}

static void *look_main(void *argument)
{
  struct acquisition mine;
  struct error ignored;
  acquire_init(&mine, LOCK_BY_WORKER, 30000, 100);
  *(enum outcome *)argument = acquire_look(store, "between", &mine, &someone, &ignored);
  return NULL;
}

/* The lock is released while the waiter enters: nobody is in the queue yet, so nobody is called. */
static void release_before_the_entry_is_seen(void **state)
{
  (void)state;
  enum outcome outcome = OUTCOME_REFUSED;
  pthread_t thread;
  struct lockstore *other = real_open(mongo_db(lockstore_mongo(store)), 30000);
  assert_int_equal(lock_take(other, "between", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  fail_next("\"failCommands\": [\"update\"], \"blockConnection\": true, \"blockTimeMS\": 1000");
  assert_int_equal(pthread_create(&thread, NULL, look_main, &outcome), 0);
  nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  assert_int_equal(acquire_release(other, "between", &by_alice, 0, &error), OUTCOME_YES);
  pthread_join(thread, NULL);
  fail_no_more();
  assert_int_equal(outcome, OUTCOME_YES);
  lockstore_close(other);
}

static void *release_main(void *argument)
{
  struct error ignored;
  *(enum outcome *)argument = acquire_release(store, "confirmed", &by_alice, 0, &ignored);
  return NULL;
}

/* A fail-over rolls back the first half of a release: the second half deletes the lock again. */
static void release_that_was_undone_is_done_again(void **state)
{
  (void)state;
  enum outcome outcome = OUTCOME_REFUSED;
  struct lock_view view;
  pthread_t thread;
  struct lockstore *other = real_open(mongo_db(lockstore_mongo(store)), 30000);
  assert_int_equal(lock_take(store, "confirmed", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  fail_after(1, "\"failCommands\": [\"delete\"], \"blockConnection\": true, \"blockTimeMS\": 3000");
  assert_int_equal(pthread_create(&thread, NULL, release_main, &outcome), 0);
  while (lock_read(other, "confirmed", 0, &view, &error) == OUTCOME_YES)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  assert_int_equal(lock_take(other, "confirmed", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  pthread_join(thread, NULL);
  fail_no_more();
  assert_int_equal(outcome, OUTCOME_YES);
  assert_int_equal(lock_read(other, "confirmed", 0, &view, &error), OUTCOME_NO);
  lockstore_close(other);
}

/* The first or the second half of a release gets no answer: unknown. The next waiter is called all the same, at the latest by the
 * repetition. */
static void unknown_release_is_repeated(void **state)
{
  (void)state;
  struct watcher *watcher = watcher_of(store, 500);
  struct wakeup wakeup;
  struct lockstore *other = real_open(mongo_db(lockstore_mongo(store)), 30000);
  assert_int_equal(watcher_begin(watcher, &error), OUTCOME_YES);
  for (int i = 0; i < 2; i++) {
    struct acquisition waiter;
    acquire_init(&waiter, LOCK_BY_WORKER, 30000, 100);
    assert_int_equal(lock_take(other, "repeated", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
    assert_int_equal(acquire_look(store, "repeated", &waiter, &someone, &error), OUTCOME_NO);
    fail_after(i, "\"failCommands\": [\"delete\"], \"writeConcernError\": {\"code\": 91, \"errmsg\": \"shutdown\"}");
    assert_int_equal(acquire_release(other, "repeated", &by_alice, 0, &error), OUTCOME_UNKNOWN);
    fail_no_more();
    assert_int_equal(acquire_release(other, "repeated", &by_alice, 0, &error), OUTCOME_NO);
    assert_int_equal(watcher_next(watcher, INT64_MAX, &wakeup, &error), OUTCOME_YES);
    assert_int_equal(acquire_leave(store, "repeated", &waiter, true, &error), OUTCOME_YES);
  }
  lockstore_close(other);
  watcher_close(watcher);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_uri_shows_no_password),
      cmocka_unit_test(db_is_chosen_and_checked),
      cmocka_unit_test(connections_bear_a_name_of_their_own),
      cmocka_unit_test(absent_server_is_unknown_in_time),
      cmocka_unit_test(read_concern_fits_the_server),
      cmocka_unit_test(ledger_is_read_as_of_now),
      cmocka_unit_test(unknown_commit_is_repeated),
      cmocka_unit_test(server_that_went_is_not_known),
      cmocka_unit_test(unknown_take_is_mine),
      cmocka_unit_test(unknown_beats_a_duplicate),
      cmocka_unit_test(unknown_fence_may_have_happened),
      cmocka_unit_test(slow_server_is_unknown_in_time),
      cmocka_unit_test(lock_without_owner_is_refused),
      cmocka_unit_test(lock_with_odd_times_is_judged),
      cmocka_unit_test(malformed_ledger_is_refused),
      cmocka_unit_test(adopting_has_an_end),
      cmocka_unit_test(what_others_wrote_is_shown_printable),
      cmocka_unit_test(ledger_without_file_has_nothing_of_it),
      cmocka_unit_test(lists_name_what_is_malformed),
      cmocka_unit_test(long_list_is_whole),
      cmocka_unit_test(prepare_is_repeatable),
      cmocka_unit_test(database_is_refused),
      cmocka_unit_test(lost_watch_is_begun_again),
      cmocka_unit_test(made_up_epochs_are_not_taken),
      cmocka_unit_test(wakeups_collection_is_mended),
      cmocka_unit_test(a_foreign_collection_is_left_alone),
      cmocka_unit_test(odd_wait_queues_do_no_harm),
      cmocka_unit_test(a_dead_waiter_is_passed_over),
      cmocka_unit_test(release_before_the_entry_is_seen),
      cmocka_unit_test(unknown_release_is_repeated),
      cmocka_unit_test(release_that_was_undone_is_done_again),
  };
  if (!fixture_begin())
    return SKIPPED;
  store = fixture_store();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  fixture_end();
  return failed ? 1 : 0;
}
