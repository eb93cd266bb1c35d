/* Documents that are locked in place. */
#include "test_lock.h"

#define COLLECTION __func__

static bson_t *of_json(const char *json)
{
  bson_error_t reason;
  bson_t *document = bson_new_from_json((const uint8_t *)json, -1, &reason);
  if (document == NULL)
    fail_msg("%s: %s", json, reason.message);
  return document;
}

static void put(const char *collection, const char *json)
{
  bson_t *document = of_json(json);
  document_put(collection, document);
  bson_destroy(document);
}

static int64_t number_at(const bson_t *document, const char *path)
{
  bson_iter_t at, found;
  return bson_iter_init(&at, document) && bson_iter_find_descendant(&at, path, &found) ? bson_iter_as_int64(&found) : -1;
}

static int64_t number_of(const char *collection, const char *filter_json, const char *path)
{
  bson_t *filter = of_json(filter_json), *document = document_get(collection, filter);
  assert_non_null(document);
  int64_t number = number_at(document, path);
  bson_destroy(filter);
  bson_destroy(document);
  return number;
}

struct which {
  const char *collection, *filter, *sort, *field;
};

static enum pawl_result take_document(struct pawl *pawl, const struct which *which, int64_t wait_ms, bool begun, pawl_hold *hold)
{
  bson_t *filter = of_json(which->filter), *sort = which->sort != NULL ? of_json(which->sort) : NULL;
  const struct pawl_terms terms = {.size = sizeof terms, .wait_ms = wait_ms};
  const struct pawl_document document = {.size = sizeof document,
                                         .collection = which->collection,
                                         .field = which->field,
                                         .filter = bson_get_data(filter),
                                         .sort = sort != NULL ? bson_get_data(sort) : NULL};
  enum pawl_result result =
      begun ? pawl_document_take_begin(pawl, &document, &terms, hold, &error) : pawl_document_take(pawl, &document, &terms, hold, &error);
  bson_destroy(filter);
  if (sort != NULL)
    bson_destroy(sort);
  return result;
}

static pawl_hold taken(struct pawl *pawl, const struct which *which)
{
  pawl_hold hold;
  assert_result(take_document(pawl, which, 20 * lease_ms, false, &hold), PAWL_OK);
  assert_true(pawl_left_ms(pawl, hold) > 0);
  return hold;
}

static enum pawl_result update(struct pawl *pawl, pawl_hold hold, const char *json)
{
  bson_t *operators = of_json(json);
  enum pawl_result result = pawl_document_update(pawl, hold, bson_get_data(operators), &error);
  bson_destroy(operators);
  return result;
}

static int64_t held_number(struct pawl *pawl, pawl_hold hold, const char *path)
{
  bson_t document;
  uint32_t length;
  const uint8_t *bytes = pawl_document_bytes(pawl, hold);
  assert_non_null(bytes);
  memcpy(&length, bytes, sizeof length);
  assert_true(bson_init_static(&document, bytes, BSON_UINT32_FROM_LE(length)));
  return number_at(&document, path);
}

LOCK_TEST(document_taken_written_released)
{
  const struct which which = {.collection = COLLECTION, .filter = "{\"_id\": 1}"};
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold hold, other;
  put(COLLECTION, "{\"_id\": 1, \"n\": 7}");
  assert_result(take_document(one, &which, PAWL_NO_WAIT, false, &hold), PAWL_OK);
  assert_int_equal(held_number(one, hold, "n"), 7);
  int64_t token = pawl_token(one, hold);
  assert_true(token > 1600000000000); /* the server's time in milliseconds: it rises although `pawl` may be removed */
  assert_result(take_document(two, &which, PAWL_NO_WAIT, false, &other), PAWL_BUSY);
  assert_contains(error.text, "no document matches that is not locked");
  assert_result(update(one, hold, "{\"$set\": {\"n\": 8}, \"$inc\": {\"seen\": 2}}"), PAWL_OK);
  assert_int_equal(number_of(COLLECTION, which.filter, "n"), 8);
  assert_int_equal(number_of(COLLECTION, which.filter, "seen"), 2);
  release(one, hold);
  assert_null(pawl_document_bytes(one, hold));
  assert_int_equal(number_of(COLLECTION, which.filter, "pawl.at"), -1);
  assert_int_equal(number_of(COLLECTION, which.filter, "pawl.token"), token); /* it stays */
  other = taken(two, &which);
  assert_true(pawl_token(two, other) > token);
}

LOCK_TEST(the_oldest_that_nobody_works_at)
{
  const struct which which = {.collection = COLLECTION, .filter = "{\"done\": {\"$ne\": true}}", .sort = "{\"at\": 1}"};
  struct pawl *one = handle_open(), *two = handle_open();
  put(COLLECTION, "{\"_id\": 1, \"at\": 30}");
  put(COLLECTION, "{\"_id\": 2, \"at\": 10}");
  put(COLLECTION, "{\"_id\": 3, \"at\": 20, \"done\": true}");
  pawl_hold first = taken(one, &which), second = taken(two, &which), third;
  assert_int_equal(held_number(one, first, "_id"), 2);
  assert_int_equal(held_number(two, second, "_id"), 1);
  assert_result(take_document(one, &which, PAWL_NO_WAIT, false, &third), PAWL_BUSY);
  assert_result(update(one, first, "{\"$set\": {\"done\": true}}"), PAWL_OK);
  release(one, first);
  assert_result(take_document(one, &which, 300, false, &third), PAWL_TIMEOUT);
}

LOCK_TEST(a_dead_consumers_document_is_taken_over)
{
  const struct which which = {.collection = COLLECTION, .filter = "{\"done\": {\"$exists\": false}}"};
  struct pawl *dead = handle_open(), *other = handle_open();
  put(COLLECTION, "{\"_id\": 1}");
  pawl_hold lost = taken(dead, &which);
  handle_cut_off(dead, true);
  pawl_hold hold = taken(other, &which);
  assert_true(pawl_token(other, hold) > pawl_token(dead, lost));
  assert_int_equal(pawl_left_ms(dead, lost), 0);
  handle_cut_off(dead, false);
  assert_result(update(dead, lost, "{\"$set\": {\"by\": 1}}"), PAWL_LOST);
  assert_int_equal(number_of(COLLECTION, "{\"_id\": 1}", "by"), -1);
  assert_result(update(other, hold, "{\"$set\": {\"by\": 2}}"), PAWL_OK);
  assert_result(pawl_release(dead, lost, &error), PAWL_LOST);
  assert_true(pawl_left_ms(other, hold) > 0);
}

LOCK_TEST(document_waited_for_and_renewed)
{
  const struct which which = {.collection = COLLECTION, .filter = "{\"_id\": 1}", .field = "state.lock"};
  struct pawl *one = handle_open(), *two = handle_open();
  pawl_hold waits;
  put(COLLECTION, "{\"_id\": 1, \"state\": {\"n\": 1}}");
  pawl_hold hold = taken(one, &which);
  pawl_fd(two);
  assert_result(take_document(two, &which, PAWL_FOR_EVER, true, &waits), PAWL_OK);
  pass_ms(3 * lease_ms);
  assert_true(pawl_left_ms(one, hold) > 0);
  assert_int_equal(pawl_left_ms(two, waits), 0);
  release(one, hold);
  assert_int_equal(event_of(two).kind, PAWL_EVENT_HELD);
  assert_int_equal(held_number(two, waits, "state.n"), 1);
}

/* The server's clock was set back: no token is given twice, and no document stays closed until the old time has come again. */
LOCK_TEST(documents_after_a_clock_went_back)
{
  const struct which which = {.collection = COLLECTION, .filter = "{\"_id\": 1}"},
                     other = {.collection = COLLECTION, .filter = "{\"_id\": 2}"};
  struct pawl *pawl = handle_open();
  put(COLLECTION, "{\"_id\": 1, \"pawl\": {\"token\": {\"$numberLong\": \"4503599627370496\"}}}");
  assert_int_equal(pawl_token(pawl, taken(pawl, &which)), 4503599627370497);
  put(COLLECTION, "{\"_id\": 2, \"pawl\": {\"owner\": {\"$binary\": {\"base64\": \"AAECAwQFBgcICQoLDA0ODw==\", \"subType\": \"00\"}},"
                  " \"at\": {\"$date\": {\"$numberLong\": \"4102444800000\"}}, \"ttl\": {\"$numberLong\": \"1000\"},"
                  " \"token\": {\"$numberLong\": \"1\"}}}");
  pawl_hold hold;
  assert_result(take_document(pawl, &other, PAWL_NO_WAIT, false, &hold), PAWL_OK);
}

/* ---- fencing ---- */

static enum pawl_result guarded(struct pawl *pawl, const char *collection, const char *filter_json, const char *json, int64_t token)
{
  bson_t *filter = of_json(filter_json), *operators = of_json(json);
  const struct pawl_document which = {.size = sizeof which, .collection = collection, .filter = bson_get_data(filter)};
  enum pawl_result result = pawl_guarded_update(pawl, &which, bson_get_data(operators), token, &error);
  bson_destroy(filter);
  bson_destroy(operators);
  return result;
}

LOCK_TEST(a_lower_token_writes_nothing)
{
  const char *filter = "{\"_id\": 1}";
  struct pawl *pawl = handle_open();
  put(COLLECTION, "{\"_id\": 1}");
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$set\": {\"by\": 7}}", 7), PAWL_OK);
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$inc\": {\"by\": 1}}", 7), PAWL_OK); /* its own second write */
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$set\": {\"by\": 6}}", 6), PAWL_FENCED);
  assert_int_equal(number_of(COLLECTION, filter, "by"), 8);
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$set\": {\"by\": 9}}", 9), PAWL_OK);
  assert_int_equal(number_of(COLLECTION, filter, "pawl.token"), 9);
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$inc\": {\"by\": 1}}", 12), PAWL_OK); /* the token without a $set of the user's */
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$set\": {\"by\": 11}}", 11), PAWL_FENCED);
  assert_int_equal(number_of(COLLECTION, filter, "pawl.token"), 12);
  assert_result(guarded(pawl, COLLECTION, "{\"_id\": 2}", "{\"$set\": {\"by\": 9}}", 9), PAWL_NOTHING);
  assert_contains(error.text, "no document matches");
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$set\": {\"by\": 9}}", 0), PAWL_INVALID);
  assert_result(guarded(pawl, COLLECTION, filter, "{\"$set\": {\"pawl.token\": 9}}", 9), PAWL_REFUSED);
}

LOCK_TEST(wrong_documents)
{
  const struct which which = {.collection = COLLECTION, .filter = "{\"_id\": 1}"};
  struct pawl *pawl = handle_open();
  pawl_hold hold;
  static const char *const collections[] = {"", "a$b", "system.users"}, *const fields[] = {"", ".a", "a.", "a..b", "$a", "_id", "_id.x"};
  for (size_t i = 0; i < sizeof collections / sizeof *collections; i++)
    assert_result(take_document(pawl, &(struct which){.collection = collections[i], .filter = "{}"}, 0, false, &hold), PAWL_INVALID);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    assert_result(take_document(pawl, &(struct which){.collection = "c", .filter = "{}", .field = fields[i]}, 0, false, &hold),
                  PAWL_INVALID);
  assert_result(take_document(pawl, &(struct which){.collection = COLLECTION, .filter = "{\"a\": {\"$nonsense\": 1}}"}, 1000, false, &hold),
                PAWL_REFUSED);
  put(COLLECTION, "{\"_id\": 1}");
  hold = taken(pawl, &which);
  static const char *const updates[] = {"{}", "{\"n\": 1}", "{\"$nonsense\": {\"n\": 1}}"};
  for (size_t i = 0; i < sizeof updates / sizeof *updates; i++)
    assert_result(update(pawl, hold, updates[i]), PAWL_REFUSED);
  static const char *const of_the_lock[] = {"{\"$set\": {\"pawl\": 1}}", "{\"$set\": {\"pawl.token\": 1}}",
                                            "{\"$unset\": {\"pawl.owner\": 1}}", "{\"$rename\": {\"n\": \"pawl.token\"}}"};
  for (size_t i = 0; i < sizeof of_the_lock / sizeof *of_the_lock; i++) {
    assert_result(update(pawl, hold, of_the_lock[i]), PAWL_REFUSED);
    assert_contains(error.text, "has the field of the lock");
  }
  assert_result(pawl_document_update(pawl, hold, NULL, &error), PAWL_INVALID);
  assert_result(update(pawl, hold, "{\"$set\": {\"pawls\": 1}}"), PAWL_OK);
  const struct which below = {.collection = COLLECTION, .filter = "{\"_id\": 2}", .field = "state.lock"};
  put(COLLECTION, "{\"_id\": 2, \"state\": {\"n\": 1}}");
  pawl_hold deep = taken(pawl, &below);
  static const char *const above[] = {"{\"$set\": {\"state\": 1}}", "{\"$unset\": {\"state\": 1}}", "{\"$set\": {\"state.lock\": 1}}"};
  for (size_t i = 0; i < sizeof above / sizeof *above; i++)
    assert_result(update(pawl, deep, above[i]), PAWL_REFUSED);
  assert_result(update(pawl, deep, "{\"$set\": {\"state.n\": 2, \"stat\": 3}}"), PAWL_OK);
  pawl_hold lock = take(pawl, "wrong-documents");
  assert_null(pawl_document_bytes(pawl, lock));
  assert_result(update(pawl, lock, "{\"$set\": {\"n\": 1}}"), PAWL_INVALID);
}
