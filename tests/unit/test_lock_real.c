/* The library on the server at PAWL_TEST_URI. */
#include "lock/private.h"
#include "lockstore/mongo.h"
#include "test_lock.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

const int64_t lease_ms = 2500; /* a request waits for a third of it, also beside other tests and under sanitizers */
enum { HANDLES_MAX = 64, SKIPPED = 77 };
static char db[64];
static struct pawl *handles[HANDLES_MAX];
static int handle_count;

struct pawl *handle_open(void)
{
  char program[64];
  struct pawl *pawl;
  snprintf(program, sizeof program, "%s %d", handle_count == 0 ? "the first program" : "test", handle_count);
  struct pawl_options options = {
      .size = sizeof options, .uri = getenv("PAWL_TEST_URI"), .db = db, .lease_ms = lease_ms, .program = program};
  assert_true(handle_count < HANDLES_MAX);
  assert_result(pawl_open(&options, &pawl, &error), PAWL_OK);
  return handles[handle_count++] = pawl;
}

enum pawl_result handle_try(struct pawl_options options)
{
  struct pawl *pawl = NULL;
  options.size = sizeof options, options.uri = getenv("PAWL_TEST_URI"), options.db = db;
  enum pawl_result result = pawl_open(&options, &pawl, &error);
  assert_true((result == PAWL_OK) == (pawl != NULL));
  pawl_close(pawl);
  return result;
}

void handle_close(struct pawl *pawl)
{
  for (int i = 0; i < handle_count; i++)
    if (handles[i] == pawl)
      handles[i] = NULL;
  pawl_close(pawl);
}

int world_end(void **state)
{
  (void)state;
  for (int i = 0; i < handle_count; i++)
    pawl_close(handles[i]);
  handle_count = 0;
  return 0;
}

void pass_ms(int64_t ms)
{
  nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

struct pawl_event event_of(struct pawl *pawl)
{
  struct pawl_event event = {.size = sizeof event};
  struct pollfd polled = {.fd = pawl_fd(pawl), .events = POLLIN};
  while (!pawl_next(pawl, &event) || event.kind < PAWL_EVENT_HELD)
    assert_int_equal(poll(&polled, 1, (int)(20 * lease_ms)), 1);
  return event;
}

static mongoc_client_t *client_of_tests(struct mongo **of)
{
  static struct lockstore *store;
  struct error wrong;
  struct lockstore_options options = {
      .uri = getenv("PAWL_TEST_URI"), .db = db, .timeout_ms = 3000, .connections_max = 1, .program = "test_lock"};
  if (store == NULL && (store = lockstore_open(&options, &wrong)) == NULL)
    fail_msg("%s", wrong.text);
  *of = lockstore_mongo(store);
  return mongo_client_take(*of, "a test's command", &wrong);
}

static void command(const char *database, const bson_t *request, bson_t *reply)
{
  struct mongo *mongo;
  bson_error_t reason;
  mongoc_client_t *client = client_of_tests(&mongo);
  if (!mongoc_client_command_simple(client, database, request, NULL, reply, &reason))
    fail_msg("%s", reason.message);
  mongo_client_give(mongo, client);
}

static void run(const char *database, const char *json)
{
  bson_error_t reason;
  bson_t reply, *request = bson_new_from_json((const uint8_t *)json, -1, &reason);
  assert_non_null(request);
  command(database, request, &reply);
  bson_destroy(request);
  bson_destroy(&reply);
}

void document_put(const char *collection, const bson_t *document)
{
  bson_t reply, *request = BCON_NEW("insert", BCON_UTF8(collection), "documents", "[", BCON_DOCUMENT(document), "]", "writeConcern", "{",
                                    "w", BCON_UTF8("majority"), "}");
  command(db, request, &reply);
  bson_destroy(request);
  bson_destroy(&reply);
}

bson_t *document_get(const char *collection, const bson_t *filter)
{
  bson_t reply, document, *found = NULL, *request = BCON_NEW("find", BCON_UTF8(collection), "filter", BCON_DOCUMENT(filter));
  struct mongo_batch batch;
  command(db, request, &reply);
  mongo_reply_batch(&reply, &batch);
  if (mongo_batch_next(&batch, &document))
    found = bson_copy(&document);
  bson_destroy(request);
  bson_destroy(&reply);
  return found;
}

void handle_cut_off(struct pawl *pawl, bool away)
{
  char json[512];
  if (away)
    snprintf(json, sizeof json,
             "{\"configureFailPoint\": \"failCommand\", \"mode\": \"alwaysOn\", \"data\": {\"appName\": \"%s\", \"closeConnection\": true, "
             "\"failCommands\": [\"update\", \"find\", \"findAndModify\", \"delete\", \"insert\", \"getMore\"]}}",
             mongo_program(lockstore_mongo(pawl->store)));
  else
    snprintf(json, sizeof json, "{\"configureFailPoint\": \"failCommand\", \"mode\": \"off\"}");
  run("admin", json);
}

int main(void)
{
  if (getenv("PAWL_TEST_URI") == NULL) {
    fprintf(stderr, "test_lock_real: PAWL_TEST_URI names no server: skipped\n");
    return SKIPPED;
  }
  snprintf(db, sizeof db, "pawl_test_lock_%d", (int)getpid());
  int failed = tests_run(NULL, NULL);
  run(db, "{\"dropDatabase\": 1}");
  return failed;
}
