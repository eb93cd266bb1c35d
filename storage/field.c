#include "storage/field.h"

#include <assert.h>
#include <bson/bson.h>

struct find {
  bool (*visit)(const void *context, const struct element *value);
  const void *context;
};

void field_path_init(struct field_path *path, const char *text, size_t length)
{
  assert(field_path_valid(text, length));
  path->parts = 1;
  for (size_t i = 0; i < length; i++) {
    path->text[i] = text[i] == '.' ? '\0' : text[i];
    path->parts += text[i] == '.';
  }
  path->text[length] = '\0';
}

static const char *key_after(const char *key)
{
  return key + strlen(key) + 1;
}

/* ---- the walk: it goes down by a key, or from an array into a document in it, so its depth is bounded by the path ---- */

static bool in_document(const struct find *find, const char *key, int left, const uint8_t *document, size_t bytes);

static bool visit_value(const struct find *find, const struct element *value)
{
  struct elements elements;
  struct element each;
  if (find->visit(find->context, value))
    return true;
  if (value->type != BSON_TYPE_ARRAY)
    return false;
  elements_init(&elements, value->value, value->bytes);
  while (elements_next(&elements, &each))
    if (find->visit(find->context, &each))
      return true;
  return false;
}

/* `left`: how many keys of the path are left, of which `key` is the first. */
static bool in_value(const struct find *find, const char *key, int left, const struct element *value)
{
  struct elements elements;
  struct element each;
  if (left == 0)
    return visit_value(find, value);
  if (value->type == BSON_TYPE_DOCUMENT)
    return in_document(find, key, left, value->value, value->bytes);
  if (value->type != BSON_TYPE_ARRAY)
    return false;
  elements_init(&elements, value->value, value->bytes);
  while (elements_next(&elements, &each)) {
    if (strcmp(each.key, key) == 0 && in_value(find, key_after(key), left - 1, &each))
      return true;
    if (each.type == BSON_TYPE_DOCUMENT && in_document(find, key, left, each.value, each.bytes))
      return true;
  }
  return false;
}

static bool in_document(const struct find *find, const char *key, int left, const uint8_t *document, size_t bytes)
{
  struct elements elements;
  struct element each;
  elements_init(&elements, document, bytes);
  while (elements_next(&elements, &each))
    if (strcmp(each.key, key) == 0 && in_value(find, key_after(key), left - 1, &each))
      return true;
  return false;
}

bool field_find(const struct field_path *path, const uint8_t *document, size_t bytes,
                bool (*visit)(const void *context, const struct element *value), const void *context)
{
  const struct find find = {.visit = visit, .context = context};
  return in_document(&find, path->text, path->parts, document, bytes);
}

static bool take_first(const void *context, const struct element *value)
{
  struct element *const *first = context;
  **first = *value;
  return true;
}

bool field_first(const struct field_path *path, const uint8_t *document, size_t bytes, struct element *value)
{
  return field_find(path, document, bytes, take_first, &value);
}

bool field_is_bundles(const struct field_path *path)
{
  return strcmp(path->text, "_id") == 0 || strcmp(path->text, "type") == 0;
}
