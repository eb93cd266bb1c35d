/* On a real MongoDB: the reader, the collection of wake-ups, and waiters and releases of which an answer is lost. */
#include "bson_array.h"
#include "lockstore/document.h"
#include "lockstore/mongo.h"
#include "lockstore/store.h"
#include "lockstore/wakeup.h"
#include "test_lockstore.h"
#include "test_lockstore_real.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static const struct acquisition by_alice = {.kind = LOCK_BY_WORKER, .ttl_ms = 1000, .owner = {"alice"}};

static struct wakeup_reader *reader_of(struct lockstore *of, int64_t await_ms)
{
  static const char *const types[] = {"t"};
  struct lockstore_options options = {.uri = getenv("PAWL_TEST_URI"),
                                      .db = mongo_db(lockstore_mongo(of)),
                                      .timeout_ms = 30000,
                                      .await_ms = await_ms,
                                      .program = REAL_PROGRAM};
  struct wakeup_reader *reader = wakeup_reader_open(of, &options, types, 1, &error);
  assert_non_null(reader);
  return reader;
}

TEST(lost_watch_is_begun_again)
{
  struct wakeup_reader *reader = reader_of(store, 200);
  struct wakeup wakeup;
  assert_int_equal(wakeup_reader_begin(reader, &error), OUTCOME_YES);
  assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
  assert_true(lockstore_is_known(store));
  real_fail_next("\"failCommands\": [\"getMore\"], \"closeConnection\": true");
  assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_UNKNOWN);
  assert_false(lockstore_is_known(store));                                                   /* it may be another server now */
  assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_UNKNOWN); /* not begun */
  assert_int_equal(wakeup_reader_begin(reader, &error), OUTCOME_YES);
  assert_int_equal(wakeup_send(store, "t", WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
  assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_YES);
  wakeup_reader_close(reader);
  assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
}

/* Anybody may write a wake-up: an epoch that no ledger can be fenced from counts as not told. */
TEST(made_up_epochs_are_not_taken)
{
  static const struct {
    const char *told;
    int64_t taken;
  } cases[] = {{"7", 7},
               {"576460752303423488", LEDGER_EPOCH_MAX},
               {"576460752303423489", 0},
               {"9223372036854775807", 0},
               {"-1", 0},
               {"-9223372036854775808", 0}};
  struct wakeup_reader *reader = reader_of(store, 500);
  struct acquisition me;
  acquire_init(&me, LOCK_BY_TOOL, 1000, 1000);
  acquire_draw(store, &me);
  assert_int_equal(wakeup_reader_begin(reader, &error), OUTCOME_YES);
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
    assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_YES);
    assert_int_equal(wakeup.epoch, cases[i].taken);
  }
  wakeup_reader_close(reader);
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

/* The reader mends it, or lockstore_prepare does. */
TEST(wakeups_collection_is_mended)
{
  for (int i = 0; i < 6; i++) {
    bool prepared = i / 3;
    char name[64];
    snprintf(name, sizeof name, "pawl_test_wakeups_%d_%lld", i, (long long)time(NULL));
    struct lockstore *other = real_open(name, 30000);
    struct wakeup_reader *reader = reader_of(other, 200);
    struct wakeup wakeup;
    spoil(other, i % 3, WAKEUPS);
    for (int j = 0; prepared && j < 2; j++)
      assert_int_equal(lockstore_prepare(other, &error), OUTCOME_YES);
    assert_int_equal(wakeup_reader_begin(reader, &error), OUTCOME_YES);
    assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_NO);
    assert_int_equal(wakeup_send(other, "t", WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
    assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_YES);
    wakeup_reader_close(reader);
    real_drop(other);
  }
}

/* {insert: name, documents: [{field: "message", type: "t", n}, …]}; the other fields are those of another application. */
/* Each has `field` "message", and perhaps a body. */
static void fill(struct lockstore *other, const char *name, int count, const char *field, bool body)
{
  bson_t *command = BCON_NEW("insert", BCON_UTF8(name)), documents;
  bson_append_array_unsafe_begin(command, "documents", -1, &documents);
  for (int i = 0; i < count; i++) {
    char key[16];
    bson_t document;
    snprintf(key, sizeof key, "%d", i);
    bson_append_document_begin(&documents, key, -1, &document);
    BCON_APPEND(&document, "type", "t", field, "message");
    if (body)
      BCON_APPEND(&document, "body", BCON_INT32(1));
    bson_append_document_end(&documents, &document);
  }
  bson_append_array_end(command, &documents);
  char *json = bson_as_relaxed_extended_json(command, NULL);
  real_run(other, NULL, json);
  bson_free(json);
  bson_destroy(command);
}

/*
 * A collection of that name belongs to another application: pawl neither converts it nor writes to it, whichever call meets it
 * first, and works without wake-ups.
 */
TEST(a_foreign_collection_is_left_alone)
{
  static const struct {
    const char *create;
    int count;
    const char *field;
    bool body;
  } cases[] = {
      {NULL, 5, "title", false},
      {NULL, 5, "about", true},
      {NULL, 2000, "about", false},
      {"\"capped\": true, \"size\": 1000000", 5, "title", false},
  };
  enum { CASES = sizeof cases / sizeof *cases };
  for (int i = 0; i < 2 * CASES; i++) {
    bool prepared = i / CASES;
    char name[64], create[256];
    if (cases[i % CASES].create && !prepared) /* a reader only begins in a prepared database */
      continue;
    snprintf(name, sizeof name, "pawl_test_foreign_%d_%lld", i, (long long)time(NULL));
    struct lockstore *other = real_open(name, 30000);
    struct wakeup_reader *reader = reader_of(other, 200);
    snprintf(create, sizeof create, "{\"create\": \"" WAKEUPS "\"%s%s}", cases[i % CASES].create ? ", " : "",
             cases[i % CASES].create ? cases[i % CASES].create : "");
    real_run(other, NULL, create);
    fill(other, WAKEUPS, cases[i % CASES].count, cases[i % CASES].field, cases[i % CASES].body);
    if (prepared) {
      assert_int_equal(lockstore_prepare(other, &error), OUTCOME_YES);
      assert_int_equal(wakeup_send(other, "t", WAKEUP_MESSAGE, NULL, 0, &error), OUTCOME_YES);
    }
    if (wakeup_reader_begin(reader, &error) != OUTCOME_REFUSED || !strstr(error.text, WAKEUPS))
      fail_msg("case %d: %s", i, error.text);
    bson_t *all = BCON_NEW("find", BCON_UTF8(WAKEUPS), "filter", "{", "}");
    assert_int_equal(real_count(other, all), cases[i % CASES].count);
    wakeup_reader_close(reader);
    real_drop(other);
  }
}

/* The queue is a document that anybody may write: what is no waiter is skipped, and what is no array keeps nobody from the lock. */
TEST(odd_wait_queues_do_no_harm)
{
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
TEST(a_dead_waiter_is_passed_over)
{
  struct acquisition dead, next;
  struct lockstore *other = fixture_store_new();
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
TEST(release_before_the_entry_is_seen)
{
  enum outcome outcome = OUTCOME_REFUSED;
  pthread_t thread;
  struct lockstore *other = fixture_store_new();
  assert_int_equal(lock_take(other, "between", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  real_fail_next("\"failCommands\": [\"update\"], \"blockConnection\": true, \"blockTimeMS\": 1000");
  assert_int_equal(pthread_create(&thread, NULL, look_main, &outcome), 0);
  nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
  assert_int_equal(acquire_release(other, "between", &by_alice, 0, &error), OUTCOME_YES);
  pthread_join(thread, NULL);
  real_fail_no_more();
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
TEST(release_that_was_undone_is_done_again)
{
  enum outcome outcome = OUTCOME_REFUSED;
  struct lock_view view;
  pthread_t thread;
  struct lockstore *other = fixture_store_new();
  assert_int_equal(lock_take(store, "confirmed", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  real_fail_after(1, "\"failCommands\": [\"delete\"], \"blockConnection\": true, \"blockTimeMS\": 3000");
  assert_int_equal(pthread_create(&thread, NULL, release_main, &outcome), 0);
  while (lock_read(other, "confirmed", 0, &view, &error) == OUTCOME_YES)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  assert_int_equal(lock_take(other, "confirmed", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  pthread_join(thread, NULL);
  real_fail_no_more();
  assert_int_equal(outcome, OUTCOME_YES);
  assert_int_equal(lock_read(other, "confirmed", 0, &view, &error), OUTCOME_NO);
  lockstore_close(other);
}

/* The first or the second half of a release gets no answer: unknown. The next waiter is called all the same, at the latest by the
 * repetition. */
TEST(unknown_release_is_repeated)
{
  struct wakeup_reader *reader = reader_of(store, 500);
  struct wakeup wakeup;
  struct lockstore *other = fixture_store_new();
  assert_int_equal(wakeup_reader_begin(reader, &error), OUTCOME_YES);
  for (int i = 0; i < 2; i++) {
    struct acquisition waiter;
    acquire_init(&waiter, LOCK_BY_WORKER, 30000, 100);
    assert_int_equal(lock_take(other, "repeated", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
    assert_int_equal(acquire_look(store, "repeated", &waiter, &someone, &error), OUTCOME_NO);
    real_fail_after(i, "\"failCommands\": [\"delete\"], \"writeConcernError\": {\"code\": 91, \"errmsg\": \"shutdown\"}");
    assert_int_equal(acquire_release(other, "repeated", &by_alice, 0, &error), OUTCOME_UNKNOWN);
    real_fail_no_more();
    assert_int_equal(acquire_release(other, "repeated", &by_alice, 0, &error), OUTCOME_NO);
    assert_int_equal(wakeup_reader_next(reader, INT64_MAX, &wakeup, &error), OUTCOME_YES);
    assert_int_equal(acquire_leave(store, "repeated", &waiter, true, &error), OUTCOME_YES);
  }
  lockstore_close(other);
  wakeup_reader_close(reader);
}
