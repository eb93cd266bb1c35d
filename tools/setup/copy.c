#include "tools/setup/copy.h"
#include "lockstore/document.h"

enum {
  NESTED_BYTES_MAX = 15 * 1024 * 1024, /* 16 MiB is MongoDB's limit for the whole */
  NESTED_LEVELS_MAX = 150,             /* 180 is MongoDB's limit for the whole */
  PART_BYTES = 8 * 1024 * 1024,
};

/* Twice FNV-1a, from two beginnings. It need not be safe: where two documents have one key, the second stays where it is. */
static void key_of(const uint8_t *document, size_t bytes, uint8_t key[COPY_KEY_BYTES])
{
  uint64_t hashes[] = {0xcbf29ce484222325u, 0x84222325cbf29ce4u};
  for (size_t i = 0; i < bytes; i++)
    for (int k = 0; k < 2; k++)
      hashes[k] = (hashes[k] ^ document[i] ^ (k == 0 ? 0 : i & 0xff)) * 0x100000001b3u;
  for (int i = 0; i < COPY_KEY_BYTES; i++)
    key[i] = (uint8_t)(hashes[i / 8] >> 8 * (i % 8));
}

/* Whether it has at most so many levels, itself included. What is malformed has too many. */
static bool levels_within(const uint8_t *document, size_t bytes, int most)
{
  struct elements elements;
  struct element inner;
  bool within = most > 0;
  elements_init(&elements, document, bytes);
  while (within && elements_next(&elements, &inner))
    if (inner.type == BSON_TYPE_DOCUMENT || inner.type == BSON_TYPE_ARRAY || inner.type == BSON_TYPE_CODEWSCOPE)
      within = inner.type != BSON_TYPE_CODEWSCOPE && levels_within(inner.value, inner.bytes, most - 1);
  return within && !elements.malformed;
}

void copy_append_part_id(bson_t *document, const char *name, const uint8_t key[COPY_KEY_BYTES], int number)
{
  BCON_APPEND(document, name, "{", "of", BCON_BIN(BSON_SUBTYPE_BINARY, key, COPY_KEY_BYTES), "part", BCON_INT32(number), "}");
}

static bool parts_make(struct copy *copy, const uint8_t *document, size_t bytes)
{
  for (size_t at = 0; at < bytes; at += PART_BYTES) {
    if (copy->part_count == COPY_PARTS_MAX)
      return false;
    size_t length = bytes - at < PART_BYTES ? bytes - at : PART_BYTES;
    bson_t *part = &copy->parts[copy->part_count];
    bson_init(part);
    copy_append_part_id(part, "_id", copy->key, copy->part_count++);
    bson_append_binary(part, "data", -1, BSON_SUBTYPE_BINARY, document + at, (uint32_t)length);
  }
  BSON_APPEND_INT32(&copy->document, "parts", copy->part_count);
  return true;
}

bool copy_make(struct copy *copy, const uint8_t *document, size_t bytes, const struct refusal *refusal, const char *by, int64_t at_ms)
{
  bson_t nested;
  copy->part_count = 0;
  key_of(document, bytes, copy->key);
  bson_init(&copy->document);
  BCON_APPEND(&copy->document, "_id", BCON_BIN(BSON_SUBTYPE_BINARY, copy->key, COPY_KEY_BYTES), "type", BCON_UTF8(refusal->type), "from",
              BCON_UTF8(queue_name_of(refusal->type, refusal->from).text), "why", BCON_UTF8(refusal->why), "at", BCON_DATE_TIME(at_ms),
              "by", BCON_UTF8(by), "bytes", BCON_INT64((int64_t)bytes));
  if (bytes > NESTED_BYTES_MAX || !levels_within(document, bytes, NESTED_LEVELS_MAX) || !bson_init_static(&nested, document, bytes))
    return parts_make(copy, document, bytes);
  return BSON_APPEND_DOCUMENT(&copy->document, "document", &nested);
}

void copy_free(struct copy *copy)
{
  bson_destroy(&copy->document);
  for (int i = 0; i < copy->part_count; i++)
    bson_destroy(&copy->parts[i]);
}

static void text_or_unknown(const bson_t *document, const char *field, char *text, size_t size)
{
  if (!document_text(document, field, text, size))
    snprintf(text, size, "?");
}

/* False: a collection from where pawl sets nothing aside. */
static bool view_from(const bson_t *document, struct copy_view *view)
{
  char from[QUEUE_NAME_SIZE];
  if (!document_text(document, "from", from, sizeof from))
    return false;
  bool own = type_name_valid(view->type) && strcmp(from, queue_name_of(view->type, SOURCE_OWN).text) == 0;
  view->from = own ? SOURCE_OWN : SOURCE_SHARED;
  return own || strcmp(from, QUEUE_SHARED) == 0;
}

bool copy_view(const bson_t *document, struct copy_view *view)
{
  bson_t nested;
  int64_t bytes = 0, parts = 0;
  *view = (struct copy_view){.at_ms = 0};
  text_or_unknown(document, "why", view->why, sizeof view->why);
  text_or_unknown(document, "by", view->by, sizeof view->by);
  (void)document_date(document, "at", &view->at_ms);
  if (!document_binary(document, "_id", view->key, COPY_KEY_BYTES) || !document_text(document, "type", view->type, sizeof view->type) ||
      !view_from(document, view))
    return false;
  if (document_document(document, "document", &nested)) {
    view->document = bson_get_data(&nested);
    view->bytes = nested.len;
    return true;
  }
  if (!document_int64(document, "bytes", &bytes) || !document_int64(document, "parts", &parts) || parts < 1 || parts > COPY_PARTS_MAX ||
      bytes < 5 || bytes > (int64_t)COPY_PARTS_MAX * PART_BYTES)
    return false;
  view->bytes = (size_t)bytes;
  view->part_count = (int)parts;
  return true;
}

bool copy_append_data(const bson_t *part, uint8_t *bytes, size_t room, size_t *used)
{
  bson_iter_t at;
  bson_subtype_t subtype;
  uint32_t length;
  const uint8_t *data;
  if (!bson_iter_init_find(&at, part, "data") || !BSON_ITER_HOLDS_BINARY(&at))
    return false;
  bson_iter_binary(&at, &subtype, &length, &data);
  if (length > room - *used)
    return false;
  memcpy(bytes + *used, data, length);
  *used += length;
  return true;
}
