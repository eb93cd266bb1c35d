/* On a real MongoDB: documents, indexes and collections that pawl did not write. */
#include "lockstore/document.h"
#include "lockstore/document_lock.h"
#include "lockstore/mongo.h"
#include "lockstore/store.h"
#include "test_lockstore.h"
#include "test_lockstore_real.h"

#define OWNER_JSON "{\"$binary\": {\"base64\": \"YWxpY2UAAAAAAAAAAAAAAA==\", \"subType\": \"00\"}}"

TEST(lock_without_owner_is_refused)
{
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
    real_insert("locks", document);
    assert_int_equal(lock_take(store, type, 0, &alice, 60000, &someone, &error), OUTCOME_NO);
    assert_int_equal(lock_read(store, type, 0, &view, &error), OUTCOME_REFUSED);
    snprintf(document, sizeof document, "deleteOne({type: \"%s\", slot: 0})", type);
    assert_non_null(strstr(error.text, document));
  }
}

TEST(lock_with_odd_times_is_judged)
{
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
    real_insert("locks", document);
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

TEST(malformed_ledger_is_refused)
{
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
      {"\"paused\": {}", "expected nothing, where `needs` does not name it"},
      {"\"v\": 2", "needs is absent, expected a list of what a pawl must know"},
      {"\"v\": 2, \"needs\": \"paused\"", "needs is \"paused\""},
      {"\"v\": 2, \"needs\": []", "expected a list of what a pawl must know"},
      {"\"v\": 2, \"needs\": [\"own\"]", NULL},
      {"\"v\": 2, \"needs\": [\"own\"], \"from\": \"own\"", NULL},
      {"\"v\": 2, \"needs\": [\"own\"], \"from\": \"both\"", NULL},
      {"\"v\": 2, \"needs\": [\"own\"], \"from\": \"messages\"", "from is \"messages\", expected \"own\" or \"both\""},
      {"\"v\": 2, \"needs\": [\"own\"], \"from\": 1", "from is 1, expected \"own\" or \"both\""},
      {"\"from\": \"own\"", "expected nothing, where `needs` does not name \"own\""},
      {"\"v\": 2, \"needs\": [\"paused\"], \"from\": \"own\"", "expected nothing, where `needs` does not name \"own\""},
      {"\"v\": 2, \"needs\": [\"paused\"]", "paused is absent, expected a document with an id"},
      {"\"v\": 2, \"needs\": [\"paused\"], \"paused\": {\"id\": 1}", "paused is {"},
      {"\"v\": 2, \"needs\": [\"paused\"], \"paused\": {\"id\": " OWNER_JSON "}", NULL},
      {"\"v\": 2, \"needs\": [\"paused\"], \"paused\": {\"id\": " OWNER_JSON ", \"by\": 5, \"reason\": \"a\\u0007b\", \"at\": 1}", NULL},
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
    real_insert("ledger", json);
    const char *named = strstr(cases[i][0], "TYPE"), *rest = named ? named + 4 : cases[i][0];
    snprintf(json, sizeof json, "{\"update\": \"ledger\", \"updates\": [{\"q\": {\"_id\": \"%s\"}, \"u\": {\"$set\": {%.*s%s%s}}}]}", type,
             named ? (int)(named - cases[i][0]) : 0, cases[i][0], named ? type : "", rest);
    real_run(store, NULL, json);
    enum outcome outcome = ledger_read(store, type, &ledger, &error);
    if (outcome != (cases[i][1] ? OUTCOME_REFUSED : OUTCOME_YES) || (cases[i][1] && !strstr(error.text, cases[i][1])))
      fail_msg("%s: %d %s", cases[i][0], outcome, outcome == OUTCOME_YES ? "" : error.text);
    assert_false(ledger.newer);
  }
}

/* What a pawl of tomorrow may need. */
TEST(an_unknown_need_is_a_newer_pawls)
{
  struct ledger ledger;
  real_insert("ledger", "{\"_id\": \"needy\", \"v\": 2, \"epoch\": 3, \"needs\": [\"paused\", \"wings\"]}");
  assert_int_equal(ledger_read(store, "needy", &ledger, &error), OUTCOME_REFUSED);
  assert_true(ledger.newer);
  assert_non_null(strstr(error.text, "needs [ \"paused\", \"wings\" ], which this pawl does not know: a newer pawl is needed"));
  assert_int_equal(ledger_fence(store, "needy", 3, &alice, FENCER_READER, &ledger, &error), OUTCOME_NO);
}

/* Files with an epoch so high that no ledger can have a higher one. */
TEST(adopting_has_an_end)
{
  const struct ledger none = {0};
  struct ledger ledger = {.epoch = ((int64_t)1 << 59) + 1, .has_owner = true, .owner = alice, .end = first_commit("high").after};
  assert_int_equal(ledger_put(store, "high", &none, NULL, &ledger, &error), OUTCOME_REFUSED);
  assert_non_null(strstr(error.text, "high call for epoch 576460752303423489"));
  assert_int_equal(ledger_read(store, "high", &ledger, &error), OUTCOME_NO);
  ledger = (struct ledger){.epoch = (int64_t)1 << 59, .has_owner = true, .owner = alice, .end = first_commit("high").after};
  assert_int_equal(ledger_put(store, "high", &none, NULL, &ledger, &error), OUTCOME_YES);
  assert_int_equal(ledger_read(store, "high", &ledger, &error), OUTCOME_YES);
}

TEST(what_others_wrote_is_shown_printable)
{
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

TEST(ledger_without_file_has_nothing_of_it)
{
  struct ledger ledger;
  real_insert("ledger",
              "{\"_id\": \"nofile-1\", \"v\": 1, \"epoch\": 3, \"clean\": true, \"seq\": 0, \"items\": 0, \"settled\": 0, \"link\": 5}");
  real_insert("ledger", "{\"_id\": \"nofile-2\", \"v\": 1, \"epoch\": 3, \"clean\": true, \"seq\": 4, \"items\": 4, \"settled\": 0}");
  real_insert("ledger",
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

TEST(lists_name_what_is_malformed)
{
  int locks = 0, ledgers = 0;
  real_insert("locks", "{\"nothing\": 1}");
  real_insert("locks", "{\"type\": {\"a\": 1}, \"slot\": \"x\", \"owner\": " OWNER_JSON "}");
  real_insert("ledger", "{\"_id\": {\"a\": 1}, \"v\": 1}");
  assert_int_equal(lock_list(store, NULL, see_any_lock, &locks, &error), OUTCOME_YES);
  assert_int_equal(ledger_list(store, NULL, see_any_ledger, &ledgers, &error), OUTCOME_YES);
  assert_true(locks >= 2);
  assert_true(ledgers >= 1);
}

static void count_one(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  (void)ledger, (void)problem;
  *(int *)context += strncmp(type, "many-", 5) == 0;
}

TEST(long_list_is_whole)
{
  int count = 0;
  for (int from = 0; from < 250; from += 10) {
    char documents[1024];
    size_t used = 0;
    for (int i = from; i < from + 10; i++)
      used += (size_t)snprintf(documents + used, sizeof documents - used, "%s{\"_id\": \"many-%d\"}", i == from ? "" : ", ", i);
    real_insert("ledger", documents);
  }
  assert_int_equal(ledger_list(store, NULL, count_one, &count, &error), OUTCOME_YES);
  assert_int_equal(count, 250);
}

TEST(prepare_is_repeatable)
{
  for (int i = 0; i < 2; i++)
    assert_int_equal(lockstore_prepare(store, &error), OUTCOME_YES);
}

/* A longer one lets two documents of a slot in: pawl makes its own beside it. */
TEST(longer_index_does_not_decide)
{
  char db[64];
  snprintf(db, sizeof db, "%s_longer", mongo_db(lockstore_mongo(store)));
  struct lockstore *other = real_open(db, 30000);
  real_run(other, NULL,
           "{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"type\": 1, \"slot\": 1, \"owner\": 1}, \"name\": \"longer\", "
           "\"unique\": true}]}");
  assert_int_equal(lockstore_prepare(other, &error), OUTCOME_YES);
  assert_int_equal(lock_take(other, "t", 0, &alice, 60000, &someone, &error), OUTCOME_YES);
  assert_int_equal(lock_take(other, "t", 0, &bob, 60000, &someone, &error), OUTCOME_NO);
  real_drop(other);
}

TEST(database_is_refused)
{
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
      {"{\"createIndexes\": \"ledger\", \"indexes\": [{\"key\": {\"paused.at\": 1}, \"name\": \"ttl\", \"expireAfterSeconds\": 3600}]}",
       "expireAfterSeconds"},
      {"{\"createIndexes\": \"locks\", \"indexes\": [{\"key\": {\"expires_at\": 1}, \"name\": \"ttl\", \"expireAfterSeconds\": 3600}]}",
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
    assert_true(lockstore_is_known(other) == (outcome == OUTCOME_YES));
    real_drop(other);
  }
}

/* ---- documents that are locked ---- */

/* A document of its own. */
static struct document_hold hold_document(const char *collection, const bson_t *id)
{
  struct document_hold hold = {.place = {.collection = collection, .field = "pawl"}, .id = id, .owner = alice};
  bson_t document;
  char *json = bson_as_canonical_extended_json(id, NULL), command[256];
  snprintf(command, sizeof command, "{\"update\": \"%s\", \"updates\": [{\"q\": %s, \"u\": {\"$set\": {\"n\": 1}}, \"upsert\": true}]}",
           collection, json);
  bson_free(json);
  real_run(store, NULL, command);
  assert_int_equal(document_take(store, &hold.place, id, NULL, &hold.owner, 60000, &document, &hold.token, &error), OUTCOME_YES);
  bson_destroy(&document);
  return hold;
}

/* It would be refused again, and is no time-out, whatever code the server has for it. */
TEST(an_update_that_the_server_refuses)
{
  static const char *const updates[] = {
      "{\"$set\": {\"_id\": 2}}",                     /* 66 */
      "{\"$set\": {\"n\": 1}, \"$inc\": {\"n\": 1}}", /* 40 */
      "{\"$set\": {\"n.x\": 1}}",                     /* 28 */
      "{\"$inc\": {\"n\": \"text\"}}",                /* 14 */
      "{\"$setOnInsert\": 1}",                        /* 9 */
  };
  bson_t *id = BCON_NEW("_id", "refused");
  struct document_hold hold = hold_document("events", id);
  for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
    bson_t *update = bson_new_from_json((const uint8_t *)updates[i], -1, NULL);
    enum outcome outcome = document_update(store, &hold, update, &error);
    if (outcome != OUTCOME_REFUSED)
      fail_msg("%s: %d %s", updates[i], outcome, error.text);
    bson_destroy(update);
  }
  char *large = malloc(16 << 20);
  memset(large, 'x', 16 << 20);
  large[(16 << 20) - 1000] = 0;
  bson_t *update = BCON_NEW("$push", "{", "list", BCON_UTF8(large), "}");
  assert_int_equal(document_update(store, &hold, update, &error), OUTCOME_YES);
  assert_int_equal(document_update(store, &hold, update, &error), OUTCOME_REFUSED); /* 10334: it would be too large */
  bson_destroy(update);
  free(large);
  bson_destroy(id);
}

/* Of an index of the user's own. */
TEST(an_update_that_a_unique_index_refuses)
{
  bson_t *id = BCON_NEW("_id", "second"), *update = BCON_NEW("$set", "{", "number", BCON_INT32(1), "}");
  real_run(store, NULL,
           "{\"createIndexes\": \"numbered\", \"indexes\": [{\"key\": {\"number\": 1}, \"name\": \"number\", \"unique\": true}]}");
  real_insert("numbered", "{\"_id\": \"first\", \"number\": 1}");
  struct document_hold hold = hold_document("numbered", id);
  assert_int_equal(document_update(store, &hold, update, &error), OUTCOME_REFUSED);
  bson_destroy(update);
  bson_destroy(id);
}

/* And a validator of the collection does not take the lock (121). */
TEST(a_lock_that_a_validator_refuses)
{
  const struct document_place place = {.collection = "validated", .field = "pawl"};
  bson_t filter = BSON_INITIALIZER, document;
  int64_t token;
  real_run(store, NULL, "{\"create\": \"validated\", \"validator\": {\"pawl\": {\"$exists\": false}}}");
  real_insert("validated", "{\"_id\": 1}");
  assert_int_equal(document_take(store, &place, &filter, NULL, &alice, 60000, &document, &token, &error), OUTCOME_REFUSED);
}

/* A late renewal would lock it once more, and no process would serve it. */
TEST(a_document_is_not_renewed_after_its_end)
{
  bson_t *id = BCON_NEW("_id", "late");
  struct document_hold hold = hold_document("events", id);
  assert_int_equal(document_renew(store, &hold, 1, &error), OUTCOME_YES);
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  assert_int_equal(document_renew(store, &hold, 60000, &error), OUTCOME_NO);
  bson_destroy(id);
}
