#include "worker/message_id.h"

#include <inttypes.h>

/* LEVELS_MAX: deepest that a server stores through an insert; the filter of a delete takes a few levels more. */
enum { LEVELS_MAX = 180, SHOWN_BYTES = 100 };

/*
 * A DBPointer with a NUL inside its name: a server's index knows the name up to there. Beside other `_id`s of the kind it is not found
 * again (MongoDB 6.0), or looked for without an end.
 */
static bool is_cut_pointer(const struct element *element)
{
  return element->type == BSON_TYPE_DBPOINTER &&
         memchr(element->value + 4, 0, element->bytes - 4 - 12) != element->value + element->bytes - 12 - 1;
}

/* Of an array's elements that is the key of the one at `index`. A server looks for another array without an end (6.0). */
static bool is_key_of(const char *key, int64_t index)
{
  char wanted[24];
  snprintf(wanted, sizeof wanted, "%" PRId64, index);
  return strcmp(key, wanted) == 0;
}

/* At any depth; `levels` more of them are allowed. */
static const char *value_flaw(const struct element *value, int levels)
{
  struct elements elements;
  struct element inner;
  const char *flaw = NULL;
  if (is_cut_pointer(value))
    return "holds a DBPointer with a NUL in its name, which MongoDB does not find again";
  if (value->type != BSON_TYPE_DOCUMENT && value->type != BSON_TYPE_ARRAY)
    return NULL;
  if (levels == 0)
    return "has more than 180 levels, which no delete can name";
  elements_init(&elements, value->value, value->bytes);
  for (int64_t index = 0; flaw == NULL && elements_next(&elements, &inner); index++) {
    bool misplaced = value->type == BSON_TYPE_ARRAY && !is_key_of(inner.key, index);
    flaw = misplaced ? "holds an array whose keys are not 0, 1, 2, ..., which MongoDB does not find again" : value_flaw(&inner, levels - 1);
  }
  return flaw != NULL ? flaw : elements.malformed ? "is malformed" : NULL;
}

/* The server takes an object that begins so for a condition, but for a reference (DBRef). */
static bool begins_like_operator(const struct element *id)
{
  static const char *const reference[] = {"$ref", "$id", "$db"};
  struct elements elements;
  struct element first;
  elements_init(&elements, id->value, id->bytes);
  if (!elements_next(&elements, &first) || first.key[0] != '$')
    return false;
  for (size_t i = 0; i < sizeof reference / sizeof *reference; i++)
    if (strcmp(first.key, reference[i]) == 0)
      return false;
  return true;
}

/*
 * But for the pointer MongoDB refuses the insert of all of these today: they come from old servers, and by other ways than an insert. A
 * regular expression would delete the messages whose `_id`s match it.
 */
const char *message_id_find(const uint8_t *document, size_t bytes, struct element *id)
{
  *id = (struct element){0};
  if (!element_find(document, bytes, "_id", id))
    return "is missing";
  if (id->type == BSON_TYPE_REGEX)
    return "is a regular expression, which a delete takes for a pattern";
  if (id->type == BSON_TYPE_ARRAY)
    return "is an array, which a delete takes for any array that holds it";
  if (id->type == BSON_TYPE_UNDEFINED)
    return "is undefined, which no delete can name";
  if (id->type == BSON_TYPE_DOCUMENT && begins_like_operator(id))
    return "begins with a field whose name begins with $, which a delete takes for an operator";
  return value_flaw(id, LEVELS_MAX);
}

bool message_id_append(bson_t *to, const char *key, const struct element *id)
{
  size_t key_bytes = strlen(key) + 1, at = to->len - 1, length = to->len + 1 + key_bytes + id->bytes;
  uint8_t *bytes = length > INT32_MAX ? NULL : bson_reserve_buffer(to, (uint32_t)length);
  if (bytes == NULL)
    return false;
  bytes[at++] = id->type;
  memcpy(bytes + at, key, key_bytes);
  memcpy(bytes + at + key_bytes, id->value, id->bytes);
  bytes[length - 1] = 0;
  for (int i = 0; i < 4; i++)
    bytes[i] = (uint8_t)(length >> 8 * i);
  return true;
}

/* Nothing that a terminal obeys: DEL, and the C1 set, which JSON does not escape. */
static bool is_printable(const char *json)
{
  for (const char *at = json; *at != 0; at++)
    if (*at == 0x7f || (at[0] == '\xc2' && (at[1] & 0xe0) == 0x80))
      return false;
  return true;
}

/* Up to SHOWN_BYTES of them, and no character in part. */
static int shown_bytes(const char *json, size_t length)
{
  size_t shown = length < SHOWN_BYTES ? length : SHOWN_BYTES;
  while (shown < length && shown > 0 && (json[shown] & 0xc0) == 0x80)
    shown--;
  return (int)shown;
}

/* Without what is around it: { "" : VALUE }. False: it cannot be shown so. */
static bool show_json(const struct element *id, char *text, size_t size)
{
  enum { BEFORE = 7, AROUND = 9 };
  bson_t one = BSON_INITIALIZER;
  size_t length = 0;
  const bson_validate_flags_t flags = BSON_VALIDATE_UTF8 | BSON_VALIDATE_UTF8_ALLOW_NULL;
  bool whole = message_id_append(&one, "", id) && bson_validate(&one, flags, NULL);
  char *json = whole ? bson_as_relaxed_extended_json(&one, &length) : NULL;
  bool usable = json != NULL && length > AROUND && is_printable(json);
  if (usable)
    snprintf(text, size, "%.*s%s", shown_bytes(json + BEFORE, length - AROUND), json + BEFORE, length - AROUND > SHOWN_BYTES ? "..." : "");
  bson_free(json);
  bson_destroy(&one);
  return usable;
}

/* As hexadecimal, the first of them. */
static void show_bytes(const struct element *id, char *text, size_t size)
{
  enum { HEX_BYTES = 40 };
  size_t used = (size_t)snprintf(text, size, "(BSON type %d, %zu bytes: ", id->type, id->bytes);
  for (size_t i = 0; i < id->bytes && i < HEX_BYTES; i++)
    used += (size_t)snprintf(text + used, size - used, "%02x", id->value[i]);
  snprintf(text + used, size - used, "%s)", id->bytes > HEX_BYTES ? "..." : "");
}

struct message_id_shown message_id_show(const struct element *id)
{
  enum { JSON_BYTES_MAX = 64 * 1024, JSON_LEVELS_MAX = 80 }; /* libbson's printer descends without a limit of its own */
  struct message_id_shown shown = {.text = "(none)"};
  if (id->value == NULL)
    return shown;
  bool small = id->bytes <= JSON_BYTES_MAX && value_flaw(id, JSON_LEVELS_MAX) == NULL;
  if (!small || !show_json(id, shown.text, sizeof shown.text))
    show_bytes(id, shown.text, sizeof shown.text);
  return shown;
}
