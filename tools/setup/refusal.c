#include "tools/setup/refusal.h"
#include "bson_array.h"
#include "type_text.h"
#include "worker/message_id.h"

/* What type_name_valid takes. Not $ for the end: it would match before a line feed, too. */
#define USABLE "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}\\z"

/* False: it is no string, or no name; then what is in `name` is of no use. */
static bool usable_type(const struct element *type, char name[TYPE_BYTES_MAX + 1])
{
  enum { LENGTH_BYTES = 4 };
  size_t length = type->bytes - LENGTH_BYTES - 1;
  if (!type_is_text(type->type) || length > TYPE_BYTES_MAX)
    return false;
  memcpy(name, type->value + LENGTH_BYTES, length);
  name[length] = '\0';
  return strlen(name) == length && type_name_valid(name);
}

bool refusal_judge(const uint8_t *document, size_t bytes, struct refusal *refusal)
{
  struct element type;
  char name[TYPE_BYTES_MAX + 1];
  *refusal = (struct refusal){.type = REFUSAL_UNTYPED};
  const char *flaw = message_id_find(document, bytes, &refusal->id);
  if (!element_find(document, bytes, "type", &type))
    snprintf(refusal->why, sizeof refusal->why, "it has no type");
  else if (usable_type(&type, name)) {
    memcpy(refusal->type, name, sizeof name);
    snprintf(refusal->why, sizeof refusal->why, "%s%s", flaw != NULL ? "its _id " : "", flaw != NULL ? flaw : "");
  } else
    snprintf(refusal->why, sizeof refusal->why, "its type is %s: %s", type_is_text(type.type) ? "no valid name" : "not a string",
             message_id_show(&type).text);
  return refusal->why[0] != '\0';
}

bool refusal_judge_own(const uint8_t *document, size_t bytes, const char *type, struct refusal *refusal)
{
  struct element own;
  char name[TYPE_BYTES_MAX + 1];
  *refusal = (struct refusal){.from = SOURCE_OWN};
  snprintf(refusal->type, sizeof refusal->type, "%s", type);
  const char *flaw = message_id_find(document, bytes, &refusal->id);
  if (element_find(document, bytes, "type", &own) && !(usable_type(&own, name) && strcmp(name, type) == 0))
    snprintf(refusal->why, sizeof refusal->why, "its type is not that of the collection: %s", message_id_show(&own).text);
  else if (flaw != NULL)
    snprintf(refusal->why, sizeof refusal->why, "its _id %s", flaw);
  return refusal->why[0] != '\0';
}

static void append_type(bson_t *filter, const char *type)
{
  BCON_APPEND(filter, "type", "{", "$eq", BCON_UTF8(type), "$not", "{", "$type", BCON_UTF8("array"), "}", "}");
}

/* Of these BSON types is each `_id` that has a flaw: an object, an array, undefined, a regular expression, a DBPointer. */
static void append_flawed_ids(bson_t *list)
{
  BCON_APPEND(list, "0", "{", "_id", "{", "$type", "[", BCON_INT32(BSON_TYPE_DOCUMENT), BCON_INT32(BSON_TYPE_ARRAY),
              BCON_INT32(BSON_TYPE_UNDEFINED), BCON_INT32(BSON_TYPE_REGEX), BCON_INT32(BSON_TYPE_DBPOINTER), "]", "}", "}");
  BCON_APPEND(list, "1", "{", "_id", "{", "$exists", BCON_BOOL(false), "}", "}");
}

static void append_no_usable_type(bson_t *filter)
{
  BCON_APPEND(filter, "$nor", "[", "{", "type", "{", "$type", "[", BCON_INT32(BSON_TYPE_UTF8), BCON_INT32(BSON_TYPE_SYMBOL), "]", "$not",
              "{", "$type", BCON_UTF8("array"), "}", "$regex", BCON_UTF8(USABLE), "}", "}", "]");
}

void refusal_append_filter(bson_t *command, const char *type)
{
  bson_t filter, list, one;
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  if (type != NULL && strcmp(type, REFUSAL_UNTYPED) == 0) {
    append_no_usable_type(&filter);
    bson_append_document_end(command, &filter);
    return;
  }
  if (type != NULL)
    append_type(&filter, type);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&filter, "$or", &list);
  append_flawed_ids(&list);
  if (type == NULL) {
    BSON_APPEND_DOCUMENT_BEGIN(&list, "2", &one);
    append_no_usable_type(&one);
    bson_append_document_end(&list, &one);
  }
  bson_append_array_end(&filter, &list);
  bson_append_document_end(command, &filter);
}

void refusal_append_filter_own(bson_t *command, const char *type)
{
  bson_t filter, list, one, fits = BSON_INITIALIZER;
  append_type(&fits, type);
  BSON_APPEND_DOCUMENT_BEGIN(command, "filter", &filter);
  BSON_APPEND_ARRAY_UNSAFE_BEGIN(&filter, "$or", &list);
  append_flawed_ids(&list);
  BSON_APPEND_DOCUMENT_BEGIN(&list, "2", &one);
  BCON_APPEND(&one, "$nor", "[", BCON_DOCUMENT(&fits), "{", "type", "{", "$exists", BCON_BOOL(false), "}", "}", "]");
  bson_append_document_end(&list, &one);
  bson_append_array_end(&filter, &list);
  bson_append_document_end(command, &filter);
  bson_destroy(&fits);
}
