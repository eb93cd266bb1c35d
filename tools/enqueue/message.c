/* The pure half of input: bytes become a message, or an error that says why not. */
#include "tools/enqueue/input.h"

static const uint8_t no_id[12];

/* Appends an _id that is filled in later, at ID_OFFSET, so it must come first. */
static void append_no_id(bson_t *message)
{
  bson_oid_t id;
  bson_oid_init_from_data(&id, no_id);
  bson_append_oid(message, "_id", 3, &id);
}

static bool size_check(size_t length, struct error *error)
{
  if (length <= MESSAGE_BYTES_MAX)
    return true;
  error_set(error, "a message of %zu bytes; MongoDB takes at most %d", length, MESSAGE_BYTES_MAX);
  return false;
}

/* libbson accepts the two-byte form of NUL, which is not UTF-8 and which other drivers refuse to read. */
static bool utf8_valid(const char *text, size_t length)
{
  return bson_utf8_validate(text, length, true) && !memmem(text, length, "\xC0\x80", 2);
}

bool message_from_line(const uint8_t *line, size_t length, const char *type, bson_t *message, struct error *error)
{
  if (!size_check(length, error)) /* check before the copy */
    return false;
  bson_init(message);
  if (type) {
    append_no_id(message);
    bson_append_utf8(message, "type", 4, type, -1);
  }
  if (utf8_valid((const char *)line, length))
    bson_append_utf8(message, "payload", 7, (const char *)line, (int)length);
  else
    bson_append_binary(message, "payload", 7, BSON_SUBTYPE_BINARY, line, (uint32_t)length);
  if (size_check(type ? message->len : message->len + BUNDLE_AROUND, error))
    return true;
  bson_destroy(message);
  return false;
}

/* ---- documents ---- */

/*
 * Runs before bson_validate, which recurses without a limit into the scopes of code. MongoDB counts only levels that have an element: an
 * empty document may be one level deeper.
 */
static bool depth_check(const uint8_t *bytes, size_t length, int depth, struct error *error)
{
  bson_iter_t iter;
  if (!bson_iter_init_from_data(&iter, bytes, length)) {
    error_set(error, "no sound BSON document");
    return false;
  }
  while (bson_iter_next(&iter)) {
    const uint8_t *inner = NULL;
    uint32_t inner_length = 0, code_length;
    if (depth > MESSAGE_DEPTH_MAX) {
      error_set(error, "nested more than %d levels deep, in a bundle more than %d", MESSAGE_DEPTH_MAX, MESSAGE_DEPTH_MAX - BUNDLE_DEPTH);
      return false;
    }
    if (BSON_ITER_HOLDS_DOCUMENT(&iter))
      bson_iter_document(&iter, &inner_length, &inner);
    else if (BSON_ITER_HOLDS_ARRAY(&iter))
      bson_iter_array(&iter, &inner_length, &inner);
    else if (BSON_ITER_HOLDS_CODEWSCOPE(&iter))
      bson_iter_codewscope(&iter, &code_length, &inner_length, &inner);
    if (inner && !depth_check(inner, inner_length, depth + 1, error))
      return false;
  }
  if (iter.err_off)
    error_set(error, "no sound BSON document: wrong at its byte %u", (unsigned)iter.err_off);
  return iter.err_off == 0;
}

bool document_check(const uint8_t *bytes, size_t length, int around, struct error *error)
{
  bson_t document;
  bson_error_t reason;
  if (!size_check(length, error) || !depth_check(bytes, length, 1 + around, error))
    return false;
  if (!bson_init_static(&document, bytes, length)) {
    error_set(error, "no sound BSON document");
    return false;
  }
  if (bson_validate_with_error(&document, BSON_VALIDATE_NONE, &reason))
    return true;
  error_set(error, "no sound BSON document: %.200s", reason.message);
  return false;
}

static bool types_allow(const struct input_types *types, const char *name)
{
  for (size_t i = 0; i < types->count; i++)
    if (strcmp(types->names[i], name) == 0)
      return true;
  return types->count == 0;
}

/* True: the document's own type is valid, or it has none and there is one to add. */
static bool type_check(const bson_t *document, const struct input_types *types, bool *type_wanted, struct error *error)
{
  bson_iter_t iter;
  uint32_t length;
  *type_wanted = !bson_iter_init_find(&iter, document, "type");
  if (*type_wanted) {
    if (types->count != 1)
      error_set(error, "has no type, and %s", types->count ? "--type names several" : "no --type is given");
    return types->count == 1;
  }
  if (!BSON_ITER_HOLDS_UTF8(&iter)) {
    error_set(error, "its type is no string");
    return false;
  }
  const char *type = bson_iter_utf8(&iter, &length);
  if (strlen(type) != length || !type_name_valid(type)) {
    error_set(error, "its type is not 1 to %d bytes of A-Z a-z 0-9 _ . -, the first neither . nor -", TYPE_BYTES_MAX);
    return false;
  }
  if (!types_allow(types, type))
    error_set(error, "its type is %s, which is not what --type says", type);
  return types_allow(types, type);
}

bool message_from_document(const bson_t *document, const struct input_types *types, bson_t *message, bool *id_wanted, struct error *error)
{
  bool type_wanted;
  if (!type_check(document, types, &type_wanted, error))
    return false;
  *id_wanted = !bson_has_field(document, "_id");
  bson_init(message);
  if (*id_wanted)
    append_no_id(message);
  bool whole = bson_concat(message, document) && (!type_wanted || bson_append_utf8(message, "type", 4, types->names[0], -1));
  if (whole && size_check(message->len, error))
    return true;
  if (!whole)
    error_set(error, "no sound BSON document");
  bson_destroy(message);
  return false;
}

bool bare_from_document(const bson_t *document, const struct input_types *types, bson_t *message, char *type, struct error *error)
{
  bool type_wanted;
  bson_iter_t iter;
  if (!type_check(document, types, &type_wanted, error) || !size_check((size_t)document->len + BUNDLE_AROUND, error))
    return false;
  bool own = !type_wanted && bson_iter_init_find(&iter, document, "type");
  snprintf(type, TYPE_BYTES_MAX + 1, "%s", own ? bson_iter_utf8(&iter, NULL) : types->names[0]);
  bson_copy_to(document, message);
  return true;
}
