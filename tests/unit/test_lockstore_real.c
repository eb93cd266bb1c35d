#include "test_lockstore_real.h"
#include "lockstore/mongo.h"
#include "lockstore/wakeup.h"
#include "test_lockstore.h"

#include <stdlib.h>
#include <time.h>

struct lockstore *store;
static char db[64];

struct lockstore *real_open(const char *name, int64_t timeout_ms)
{
  struct lockstore_options options = {
      .uri = getenv("PAWL_TEST_URI"), .db = name, .timeout_ms = timeout_ms, .connections_max = 16, .program = REAL_PROGRAM};
  struct lockstore *opened = lockstore_open(&options, &error);
  if (!opened)
    fail_msg("%s", error.text);
  return opened;
}

void real_send(struct lockstore *at, const char *database, const bson_t *command)
{
  bson_error_t reason;
  bson_t reply;
  struct mongo *mongo = lockstore_mongo(at);
  mongoc_client_t *client = mongo_client_take(mongo, "a test's command", &error);
  bool ok = mongoc_client_command_simple(client, database ? database : mongo_db(lockstore_mongo(at)), command, NULL, &reply, &reason);
  mongo_client_give(mongo, client);
  if (!ok || bson_has_field(&reply, "writeErrors")) {
    char *json = bson_as_relaxed_extended_json(command, NULL);
    fail_msg("%.500s: %s", json, ok ? "writeErrors" : reason.message);
  }
  bson_destroy(&reply);
}

void real_run(struct lockstore *at, const char *database, const char *json)
{
  bson_error_t reason;
  bson_t *command = bson_new_from_json((const uint8_t *)json, -1, &reason);
  if (!command)
    fail_msg("%s: %s", json, reason.message);
  real_send(at, database, command);
  bson_destroy(command);
}

static void fail_commands(const char *mode, const char *data)
{
  char json[1024];
  snprintf(json, sizeof json, "{\"configureFailPoint\": \"failCommand\", \"mode\": %s, \"data\": {\"appName\": \"%s\", %s}}", mode,
           mongo_program(lockstore_mongo(store)), data);
  real_run(store, "admin", json);
}

void real_fail_next(const char *data)
{
  fail_commands("{\"times\": 1}", data);
}

void real_fail_after(int skip, const char *data)
{
  char mode[32];
  snprintf(mode, sizeof mode, "{\"skip\": %d}", skip);
  fail_commands(mode, data);
}

void real_fail_no_more(void)
{
  real_run(store, "admin", "{\"configureFailPoint\": \"failCommand\", \"mode\": \"off\"}");
}

void real_insert(const char *collection, const char *document)
{
  char json[2048];
  snprintf(json, sizeof json, "{\"insert\": \"%s\", \"documents\": [%s]}", collection, document);
  real_run(store, NULL, json);
}

static void count_document(void *context, const bson_t *document)
{
  (void)document;
  ++*(int *)context;
}

int real_count(struct lockstore *at, bson_t *query)
{
  int found = 0;
  assert_int_equal(mongo_find(lockstore_mongo(at), "counting", query, count_document, &found, &error), OUTCOME_YES);
  bson_destroy(query);
  return found;
}

void real_drop(struct lockstore *at)
{
  real_run(at, NULL, "{\"dropDatabase\": 1}");
  lockstore_close(at);
}

bool fixture_begin(void)
{
  if (!getenv("PAWL_TEST_URI")) {
    fprintf(stderr, "skipped: PAWL_TEST_URI names no MongoDB to test against\n");
    return false;
  }
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(db, sizeof db, "pawl_test_%llx_%lx", (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec);
  store = real_open(db, 30000);
  if (lockstore_prepare(store, &error) == OUTCOME_YES)
    return true;
  fprintf(stderr, "%s\n", error.text);
  exit(1);
}

void fixture_end(void)
{
  real_drop(store);
}

struct lockstore *fixture_store_new(void)
{
  return real_open(db, 30000);
}

static struct lockstore_options watch_options(void)
{
  return (struct lockstore_options){
      .uri = getenv("PAWL_TEST_URI"), .db = db, .timeout_ms = 30000, .await_ms = 500, .program = REAL_PROGRAM};
}

struct wakeup_reader *fixture_reader(struct lockstore *of, const char *type)
{
  struct lockstore_options options = watch_options();
  struct wakeup_reader *reader = wakeup_reader_open(of, &options, &type, 1, &error);
  if (!reader)
    fail_msg("%s", error.text);
  return reader;
}

void fixture_wait_expired(const char *type, int slot)
{
  struct lock_view view;
  for (int tries = 0; tries < 1000; tries++) {
    assert_int_equal(lock_read(store, type, slot, &view, &error), OUTCOME_YES);
    if (view.stealable)
      return;
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
  fail_msg("the lease of %s does not end", type);
}

void fixture_jump(const char *type, int slot)
{
  char json[512];
  snprintf(json, sizeof json,
           "{\"update\": \"locks\", \"updates\": [{\"q\": {\"type\": \"%s\", \"slot\": %d}, \"u\": [{\"$set\": {\"expires_at\": "
           "{\"$add\": [\"$$NOW\", {\"$multiply\": [3, \"$ttl_ms\"]}]}}}]}]}",
           type, slot);
  real_run(store, NULL, json);
}

void fixture_age_queue(const char *type, int ms)
{
  char json[1024];
  snprintf(json, sizeof json,
           "{\"update\": \"locks\", \"updates\": [{\"q\": {\"type\": \"%s\", \"slot\": -1}, \"u\": [{\"$set\": {\"queue\": {\"$map\": "
           "{\"input\": \"$queue\", \"in\": {\"$mergeObjects\": [\"$$this\", {\"at\": {\"$subtract\": [\"$$this.at\", %d]}}, {\"$cond\": "
           "[\"$$this.called\", {\"called\": {\"$subtract\": [\"$$this.called\", %d]}}, {}]}]}}}}}]}]}",
           type, ms, ms);
  real_run(store, NULL, json);
}

void fixture_put_newer(const char *type)
{
  char json[512];
  snprintf(json, sizeof json, "{\"_id\": \"%s\", \"v\": 3, \"epoch\": 5}", type);
  real_insert("ledger", json);
}

void fixture_put_malformed(const char *type)
{
  char json[512];
  snprintf(json, sizeof json, "{\"_id\": \"%s\", \"v\": 1, \"epoch\": 5, \"file\": [\"t1.bin\"], \"x\": {\"y\": [1.5]}}", type);
  real_insert("ledger", json);
}

static void update_ledger(const char *type, const char *update)
{
  char json[512];
  snprintf(json, sizeof json, "{\"update\": \"ledger\", \"updates\": [{\"q\": {\"_id\": \"%s\"}, \"u\": %s}]}", type, update);
  real_run(store, NULL, json);
}

void fixture_make_newer(const char *type)
{
  update_ledger(type, "{\"$set\": {\"v\": 3}}");
}

void fixture_fence_older(const char *type)
{
  update_ledger(type, "{\"$inc\": {\"epoch\": {\"$numberLong\": \"1\"}}}");
}
