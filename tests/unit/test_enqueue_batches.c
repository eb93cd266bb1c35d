/* pawl-enqueue: how messages become bundles, what the answer to a batch says, and that `_id`s rise. */
#include "lockstore/own_collection.h"
#include "tools/enqueue/id.h"
#include "tools/enqueue/input.h"
#include "tools/enqueue/insert.h"
#include "unit_test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static struct error error;

/* ---- bundles ---- */

static void put_bundled(struct batch *batch, const char *type, bson_t *message, int64_t number)
{
  batch_bundle(batch, type, message, (struct place){"F", number, 0}, 12);
  bson_destroy(message);
}

/* Newer versions of libbson write one space into an empty document or array, as this test expects, older ones two. */
static void shorten_empty(char *json)
{
  for (char *at = json; (at = strstr(at, "  ")) != NULL;)
    memmove(at, at + 1, strlen(at));
}

static void assert_bundle(const struct batch *batch, size_t i, const char *json, int64_t first, int64_t last)
{
  bson_t document;
  batch_document(batch, i, &document);
  assert_true(bson_validate(&document, BSON_VALIDATE_UTF8, NULL));
  char *found = bson_as_relaxed_extended_json(&document, NULL);
  shorten_empty(found);
  assert_string_equal(found, json);
  assert_int_equal(batch->documents[i].first.number, first);
  assert_int_equal(batch->documents[i].last.number, last);
  assert_int_equal(batch->documents[i].messages, last - first + 1);
  bson_free(found);
}

#define NO_ID "{ \"_id\" : { \"$oid\" : \"000000000000000000000000\" }, "

TEST(test_batch_bundles)
{
  struct batch batch;
  batch_init(&batch, 5);
  assert_false(batch_bundle_takes(&batch, "t1", 5, 12));
  put_bundled(&batch, "t1", BCON_NEW("a", BCON_INT32(1)), 1);
  assert_true(batch_bundle_takes(&batch, "t1", 5, 12) && !batch_bundle_takes(&batch, "t", 5, 12));
  put_bundled(&batch, "t1", bson_new(), 2);
  put_bundled(&batch, "longer", BCON_NEW("b", "[", "]"), 3); /* another type begins another bundle; the first bundle is never continued */
  put_bundled(&batch, "t1", BCON_NEW("c", BCON_INT32(2)), 4);
  for (int64_t i = 5; i <= 16; i++) /* from the eleventh on the key has a digit more; the thirteenth does not fit */
    put_bundled(&batch, "t1", bson_new(), i);
  assert_int_equal(batch.count, 4);
  assert_bundle(&batch, 0, NO_ID "\"type\" : \"t1\", \"batch\" : [ { \"a\" : 1 }, { } ] }", 1, 2);
  assert_bundle(&batch, 1, NO_ID "\"type\" : \"longer\", \"batch\" : [ { \"b\" : [ ] } ] }", 3, 3);
  assert_bundle(&batch, 2,
                NO_ID "\"type\" : \"t1\", \"batch\" : [ { \"c\" : 2 }, { }, { }, { }, { }, { }, { }, { }, { }, { }, { }, { } ] }", 4, 15);
  assert_bundle(&batch, 3, NO_ID "\"type\" : \"t1\", \"batch\" : [ { } ] }", 16, 16);
  assert_int_equal(batch_messages(&batch, 0, 4), 16);
  assert_int_equal(batch_messages(&batch, 1, 2), 13);
  batch_deinit(&batch);
}

TEST(test_bundles_are_bounded)
{
  struct batch batch;
  char *text = calloc(1, 2 * BUNDLE_BYTES_MAX);
  memset(text, 'x', 2 * BUNDLE_BYTES_MAX - 1);
  batch_init(&batch, 10);
  put_bundled(&batch, "t1", BCON_NEW("a", BCON_UTF8(text)), 1); /* a larger message gets a bundle of its own */
  text[BUNDLE_BYTES_MAX / 3] = 0;
  for (int64_t i = 2; i <= 6; i++)
    put_bundled(&batch, "t1", BCON_NEW("a", BCON_UTF8(text)), i);
  assert_int_equal(batch.count, 4);
  for (size_t i = 1; i < 4; i++)
    assert_true(batch.documents[i].length <= BUNDLE_BYTES_MAX && batch.documents[i].messages == (i < 3 ? 2 : 1));
  batch_deinit(&batch);
  free(text);
}

/* ---- answers ---- */

static struct insert_outcome judge(bool done, const char *reply_json, uint32_t domain, uint32_t code)
{
  bson_t reply;
  bson_error_t reason = {.domain = domain, .code = code, .message = "reason"};
  assert_true(bson_init_from_json(&reply, reply_json, -1, NULL));
  struct insert_outcome outcome = insert_judge(done, &reply, &reason, 10, &error);
  bson_destroy(&reply);
  return outcome;
}

static void assert_outcome(struct insert_outcome outcome, enum insert_answer answer, size_t acknowledged, size_t unknown)
{
  assert_int_equal(outcome.answer, answer);
  assert_int_equal(outcome.acknowledged, acknowledged);
  assert_int_equal(outcome.unknown, unknown);
}

#define REFUSED_AT(index) "\"writeErrors\": [{\"index\": " index ", \"code\": 11000, \"errmsg\": \"E11000\\nx\"}]"
#define BUSY_AT(index, code) "\"writeErrors\": [{\"index\": " index ", \"code\": " code ", \"errmsg\": \"cache full\"}]"
#define INVALID(validator) \
  "\"writeErrors\": [{\"index\": 3, \"code\": 121, \"errInfo\": {\"details\": {\"specifiedAs\": {\"$expr\": " validator "}}}}]"
#define DOUBT "\"writeConcernErrors\": [{\"code\": 64}]"
#define WELL "\"writeConcernErrors\": []"

TEST(test_judge)
{
  assert_outcome(judge(true, "{\"nInserted\": 10, \"writeErrors\": []," WELL "}", 0, 0), INSERT_DONE, 10, 0);
  assert_outcome(judge(true, "{\"nInserted\": 9," WELL "}", 0, 0), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{\"nInserted\": 10," DOUBT "}", MONGOC_ERROR_WRITE_CONCERN, 64), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{" REFUSED_AT("3") "," WELL "}", MONGOC_ERROR_SERVER, 11000), INSERT_BAD, 3, 0);
  assert_string_equal(error.text, "E11000 x");
  assert_outcome(judge(false, "{" REFUSED_AT("3") "," DOUBT "}", MONGOC_ERROR_SERVER, 11000), INSERT_UNKNOWN, 0, 3);
  assert_outcome(judge(false, "{" REFUSED_AT("0") "," DOUBT "}", MONGOC_ERROR_SERVER, 11000), INSERT_BAD, 0, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "365") "," WELL "}", MONGOC_ERROR_SERVER, 365), INSERT_BUSY, 3, 0);
  assert_outcome(judge(false, "{" BUSY_AT("0", "112") "," WELL "}", MONGOC_ERROR_SERVER, 112), INSERT_BUSY, 0, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "24") "," WELL "}", MONGOC_ERROR_SERVER, 24), INSERT_BUSY, 3, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "146") "," WELL "}", MONGOC_ERROR_SERVER, 146), INSERT_BUSY, 3, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "14031") "," WELL "}", MONGOC_ERROR_SERVER, 14031), INSERT_BUSY, 3, 0);
  assert_outcome(judge(false, "{" BUSY_AT("3", "395") "," DOUBT "}", MONGOC_ERROR_SERVER, 395), INSERT_UNKNOWN, 0, 3);
  assert_outcome(judge(false, "{" INVALID("{\"$eq\": [\"n\", false]}") "}", MONGOC_ERROR_SERVER, 121), INSERT_INVALID, 3, 0);
  assert_outcome(judge(false, "{" INVALID("1") "}", MONGOC_ERROR_SERVER, 121), INSERT_INVALID, 3, 0);
  assert_outcome(judge(false, "{" INVALID("{\"$eq\": [\"" OWN_COLLECTION_CLOSED "\", false]}") "}", MONGOC_ERROR_SERVER, 121),
                 INSERT_CLOSED, 3, 0);
  assert_outcome(judge(false, "{\"nInserted\": 0}", MONGOC_ERROR_STREAM, 4), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{}", MONGOC_ERROR_SERVER, 10107), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{}", MONGOC_ERROR_STREAM, 13), INSERT_UNKNOWN, 0, 10);
  assert_outcome(judge(false, "{}", MONGOC_ERROR_SERVER, 13), INSERT_NONE, 0, 0);
  assert_outcome(judge(false, "{" DOUBT "}", MONGOC_ERROR_SERVER, 13), INSERT_UNKNOWN, 0, 10);
  struct insert_outcome outcome = judge(false, "{}", MONGOC_ERROR_SERVER_SELECTION, 13053);
  assert_outcome(outcome, INSERT_NONE, 0, 0);
  assert_true(outcome.unreachable);
}

/* The server quotes the whole command, including the documents. */
TEST(test_refusal_is_short)
{
  bson_t reply = BSON_INITIALIZER;
  bson_error_t reason = {.domain = MONGOC_ERROR_SERVER,
                         .code = 13,
                         .message = "not authorized on pawl to execute command { insert: \"messages\", ordered: true, lsid: { id: 1 } }"};
  assert_outcome(insert_judge(false, &reply, &reason, 10, &error), INSERT_NONE, 0, 0);
  assert_string_equal(error.text, "MongoDB does not permit it: not authorized on pawl to execute command { insert: \"messages\", ... }");
  bson_destroy(&reply);
}

/* ---- ids ---- */

static char state_file[] = "/tmp/test_enqueue_XXXXXX";
static struct id_source source;

static int open_ids(void **state)
{
  (void)state;
  strcpy(state_file + strlen(state_file) - 6, "XXXXXX");
  close(mkstemp(state_file));
  return id_source_open_at(&source, state_file, &error) ? 0 : -1;
}

static int close_ids(void **state)
{
  (void)state;
  id_source_close(&source);
  return unlink(state_file);
}

TEST_WITH(test_ids_rise, open_ids, close_ids)
{
  int64_t now = INT64_C(1700000000999990), first;
  uint8_t last[12] = {0}, id[12];
  for (int round = 0; round < 20; round++) {
    assert_true(id_source_reserve(&source, now, 50, &first, &error));
    for (int64_t tick = first; tick < first + 50; tick++) {
      id_make(&source, tick, id);
      assert_true(memcmp(id, last, 12) > 0);
      memcpy(last, id, 12);
    }
    now += round % 3 == 2 ? -5000000 : 30; /* a clock that also steps back */
  }
  assert_int_equal(last[0] << 24 | last[1] << 16 | last[2] << 8 | last[3], 1700000001);
}

TEST_WITH(test_ids_next_call, open_ids, close_ids)
{
  int64_t first, second, third;
  struct id_source other;
  assert_true(id_source_reserve(&source, 1000000, 10, &first, &error));
  assert_true(id_source_open_at(&other, state_file, &error));
  assert_true(id_source_reserve(&other, 500, 10, &second, &error));
  assert_true(id_source_reserve(&source, 500, 10, &third, &error));
  assert_int_equal(first, 1000000);
  assert_int_equal(second, 1000010);
  assert_int_equal(third, 1000020);
  id_source_close(&other);
}

/* Several processes at once: each sees its own ticks rise, and no tick is given twice, because the file counts them all. */
TEST_WITH(test_ids_processes, open_ids, close_ids)
{
  enum { PROCESSES = 4, ROUNDS = 200 };
  int64_t first;
  for (int i = 0; i < PROCESSES; i++)
    if (fork() == 0) {
      struct id_source mine;
      int64_t last = 0;
      bool right = id_source_open_at(&mine, state_file, &error);
      for (int round = 0; right && round < ROUNDS; round++) {
        right = id_source_reserve(&mine, 1, 3, &first, &error) && first > last;
        last = first + 2;
      }
      _exit(right ? 0 : 1);
    }
  for (int i = 0; i < PROCESSES; i++) {
    int status = -1;
    wait(&status);
    assert_int_equal(status, 0);
  }
  assert_true(id_source_reserve(&source, 1, 1, &first, &error));
  assert_int_equal(first, 1 + PROCESSES * ROUNDS * 3);
}

TEST_WITH(test_ids_file, open_ids, close_ids)
{
  int64_t first, second;
  struct id_source lost;
  assert_false(id_source_open_at(&lost, "/nowhere/last-id", &error));
  assert_contains(error.text, "/nowhere/last-id");
  assert_true(id_source_reserve(&lost, 1000, 5, &first, &error));
  assert_true(id_source_reserve(&lost, 10, 5, &second, &error));
  assert_int_equal(second, first + 5);
  assert_int_equal(pwrite(source.file, "garbage garbage garbage", 23, 0), 23);
  assert_true(id_source_reserve(&source, 7000, 5, &first, &error));
  assert_int_equal(first, 7000);
  close(source.file); /* the file fails, but the range stays valid */
  assert_false(id_source_reserve(&source, 10, 5, &first, &error));
  assert_int_equal(first, 7005);
  assert_true(id_source_reserve(&source, 10, 5, &first, &error));
  assert_int_equal(first, 7010);
}

/* The file where the environment says, of its own for each. */
TEST(test_ids_place)
{
  char home[] = "/tmp/test_enqueue_XXXXXX", path[128], command[64];
  const char *const places[][2] = {{"/one", NULL}, {"/two", ""}, {"/one", "/state"}, {"/two", "relative"}, {NULL, "/state"}};
  const char *const files[] = {"/one/.local/state", "/two/.local/state", "/state", "/two/.local/state", "/state"};
  assert_non_null(mkdtemp(home));
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *user = places[i][0], *chosen = places[i][1];
    struct id_source mine;
    int64_t first;
    snprintf(path, sizeof path, "%s%s", home, user ? user : "");
    assert_int_equal(user ? setenv("HOME", path, 1) : unsetenv("HOME"), 0);
    snprintf(path, sizeof path, "%s%s", chosen && *chosen == '/' ? home : "", chosen ? chosen : "");
    assert_int_equal(chosen ? setenv("XDG_STATE_HOME", path, 1) : unsetenv("XDG_STATE_HOME"), 0);
    assert_true(id_source_open(&mine, &error));
    assert_true(id_source_reserve(&mine, 1000000, 1, &first, &error));
    assert_int_equal(first, i < 3 ? 1000000 : 1000001); /* the fourth and the fifth find the file of an earlier one */
    id_source_close(&mine);
    snprintf(path, sizeof path, "%s%s/pawl/last-id", home, files[i]);
    assert_int_equal(access(path, R_OK | W_OK), 0);
  }
  snprintf(command, sizeof command, "rm -r %s", home);
  assert_int_equal(system(command), 0);
}

TEST_WITH(test_ids_without_a_place, open_ids, close_ids)
{
  struct id_source lost;
  int64_t first, second;
  assert_int_equal(setenv("HOME", "", 1), 0);
  assert_int_equal(setenv("XDG_STATE_HOME", "relative", 1), 0);
  assert_false(id_source_open(&lost, &error));
  assert_contains(error.text, "neither XDG_STATE_HOME nor HOME");
  assert_int_equal(setenv("HOME", state_file, 1), 0); /* no directory */
  assert_false(id_source_open(&lost, &error));
  assert_contains(error.text, state_file);
  assert_true(id_source_reserve(&lost, 1000, 5, &first, &error));
  assert_true(id_source_reserve(&lost, 10, 5, &second, &error));
  assert_int_equal(second, first + 5);
}
