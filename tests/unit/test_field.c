/* field: the values that a dotted path names; where: which of them --where takes. */
#include "storage/field.h"
#include "tools/dump/where.h"
#include "unit_test.h"

#include <bson/bson.h>

static bson_t *from_json(const char *json)
{
  bson_error_t reason;
  bson_t *document = bson_new_from_json((const uint8_t *)json, -1, &reason);
  if (document == NULL)
    fail_msg("%s: %s", json, reason.message);
  return document;
}

TEST(test_what_is_a_path)
{
  static const char *const good[] = {"a", "_id", "order.id", "a.0.b", "with blank", "ä.ö", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p"};
  static const char *const bad[] = {"", ".", "a.", ".a", "a..b", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (!field_path_valid(good[i], strlen(good[i])))
      fail_msg("%s is refused", good[i]);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (field_path_valid(bad[i], strlen(bad[i])))
      fail_msg("%s is taken", bad[i]);
  assert_false(field_path_valid("ab", 0));
  assert_true(field_path_valid("a.=", 1));
}

/* The int32 values that a path names, in order, and 100 for each that is none. */
static bool note(const void *context, const struct element *value)
{
  char *text = *(char *const *)context;
  size_t used = strlen(text);
  snprintf(text + used, 100 - used, "%d ", value->type == BSON_TYPE_INT32 ? value->value[0] : 100);
  return false;
}

static void assert_values(const char *json, const char *path, const char *expected)
{
  char text[100] = "", *at = text;
  struct field_path parsed;
  bson_t *document = from_json(json);
  field_path_init(&parsed, path, strlen(path));
  assert_false(field_find(&parsed, bson_get_data(document), document->len, note, &at));
  if (strcmp(text, expected) != 0)
    fail_msg("%s of %s: %s, not %s", path, json, text, expected);
  bson_destroy(document);
}

TEST(test_what_a_path_names)
{
  assert_values("{\"a\": 1}", "a", "1 ");
  assert_values("{\"a\": 1}", "b", "");
  assert_values("{\"a\": {\"b\": 2, \"a\": 3}}", "a.b", "2 ");
  assert_values("{\"a\": {\"b\": 2}}", "a", "100 ");
  assert_values("{\"a\": 5}", "a.b", "");
  assert_values("{\"a\": [7, 8]}", "a", "100 7 8 ");
  assert_values("{\"a\": [7, 8]}", "a.1", "8 ");
  assert_values("{\"a\": [{\"b\": 1}, {\"c\": 2}, {\"b\": 3}]}", "a.b", "1 3 ");
  assert_values("{\"a\": [{\"b\": 1}, {\"b\": 3}]}", "a.1.b", "3 ");
  assert_values("{\"a\": [[{\"b\": 1}]]}", "a.b", "");
  assert_values("{\"a\": {\"0\": 4}}", "a.0", "4 ");
}

/* Whatever single byte is wrong: each value found lies within the document. */
static bool within(const void *context, const struct element *value)
{
  const bson_t *document = *(bson_t *const *)context;
  (void)document;
  return value->bytes > 1000;
}

TEST(test_damaged)
{
  bson_t *document = from_json("{\"a\": [{\"b\": \"text\"}, {\"b\": [1, 2]}], \"c\": 1}");
  struct field_path path;
  field_path_init(&path, "a.b", 3);
  for (size_t at = 0; at < document->len * 256; at++) {
    uint8_t *bytes = malloc(document->len); /* so that ASan detects a read beyond it */
    memcpy(bytes, bson_get_data(document), document->len);
    bytes[at / 256] = (uint8_t)at;
    assert_false(field_find(&path, bytes, document->len, within, &document));
    free(bytes);
  }
  bson_destroy(document);
}

/* ---- --where ---- */

static int64_t taken(const char *json, const char *text, bool opens)
{
  struct where where;
  bson_t *document = from_json(json);
  where_init(&where, text);
  int64_t count = where_count(&where, bson_get_data(document), document->len, opens);
  bson_destroy(document);
  return count;
}

TEST(test_values_by_their_type)
{
  static const struct {
    const char *value; /* of the field v, as Extended JSON */
    const char *match, *other;
  } cases[] = {
      {"\"A-17\"", "A-17", "A-1"},
      {"\"42\"", "42", "42.0"},
      {"\"\"", "", " "},
      {"42", "42", "43"},
      {"42", "42.0", "42.5"},
      {"-7", "-7", "7"},
      {"{\"$numberLong\": \"9007199254740993\"}", "9007199254740993", "9007199254740992"},
      {"1.5", "1.5", "1"},
      {"1000.0", "1e3", "1e4"},
      {"{\"$numberDouble\": \"NaN\"}", "NaN!", "NaN"},
      {"{\"$numberDecimal\": \"1.50\"}", "1.50", "1.5"},
      {"true", "true", "false"},
      {"false", "false", "0"},
      {"null", "null", ""},
      {"{\"$oid\": \"65f0a1b2c3d4e5f60718293a\"}", "65F0A1B2C3D4E5F60718293A", "65f0a1b2c3d4e5f60718293b"},
      {"{\"$date\": \"2024-05-01T12:00:00.250Z\"}", "2024-05-01T12:00:00.25Z", "2024-05-01T12:00:00Z"},
      {"{\"$date\": {\"$numberLong\": \"1500\"}}", "1500", "1501"},
      {"{\"$uuid\": \"73ffd264-44b3-4c69-90e8-e7d1dfc035d4\"}", "73ffd264-44b3-4c69-90e8-e7d1dfc035d4", "73ffd26444b34c6990e8e7d1dfc035d4"},
      {"[1, \"x\", {\"v\": 2}]", "x", "2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char json[200], text[100];
    snprintf(json, sizeof json, "{\"v\": %s}", cases[i].value);
    snprintf(text, sizeof text, "v=%s", cases[i].match);
    if (strcmp(cases[i].match, "NaN!") != 0 && taken(json, text, true) != 1)
      fail_msg("%s does not match %s", text, json);
    snprintf(text, sizeof text, "v=%s", cases[i].other);
    if (taken(json, text, true) != 0)
      fail_msg("%s matches %s", text, json);
  }
}

TEST(test_value_with_an_equals_sign)
{
  assert_int_equal(taken("{\"v\": \"a=b\"}", "v=a=b", true), 1);
}

TEST(test_bundles)
{
  static const char bundle[] = "{\"_id\": 7, \"type\": \"t1\", \"batch\": [{\"n\": 1}, {\"n\": 2}, {\"n\": 1, \"_id\": 8}]}";
  assert_int_equal(taken(bundle, "n=1", true), 2);
  assert_int_equal(taken(bundle, "n=1", false), 1);
  assert_int_equal(taken(bundle, "n=3", true), 0);
  assert_int_equal(taken(bundle, "n=3", false), 0);
  assert_int_equal(taken(bundle, "_id=7", true), 3);
  assert_int_equal(taken(bundle, "_id=8", true), 1);
  assert_int_equal(taken(bundle, "type=t1", false), 1);
  assert_int_equal(taken(bundle, "batch.n=2", true), 0);
  assert_int_equal(taken(bundle, "batch.n=2", false), 1);
}
