#include "tools/lock/document.h"
#include "tools/json_exact.h"

#include <bson/bson.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool read_json(const char *flag, const char *json, bson_t **document, struct error *error)
{
  bson_error_t wrong;
  *document = bson_new_from_json((const uint8_t *)json, -1, &wrong);
  if (*document == NULL) {
    error_set(error, "--%s: %.200s is not Extended JSON: %.400s", flag, json, wrong.message);
    return false;
  }
  struct error inexact;
  if (json_exact_check(json, json + strlen(json), &inexact))
    return true;
  error_set(error, "--%s: %.200s is %.400s", flag, json, inexact.text);
  bson_destroy(*document);
  *document = NULL;
  return false;
}

static bool is_number(const char *id, int64_t *number)
{
  char *end;
  errno = 0;
  *number = strtoll(id, &end, 10);
  return errno == 0 && *end == 0 && strspn(id, "-0123456789") == strlen(id);
}

static bson_t *filter_of_id(const char *id)
{
  bson_t *filter = bson_new();
  bson_oid_t oid;
  int64_t number;
  if (bson_oid_is_valid(id, strlen(id))) {
    bson_oid_init_from_string(&oid, id);
    BSON_APPEND_OID(filter, "_id", &oid);
  } else if (is_number(id, &number)) {
    BSON_APPEND_INT64(filter, "_id", number);
  } else {
    BSON_APPEND_UTF8(filter, "_id", id);
  }
  return filter;
}

static bool read_filter(const char *text, bson_t **filter, struct error *error)
{
  if (text[0] == '{')
    return read_json("document", text, filter, error);
  *filter = filter_of_id(text);
  return true;
}

bool document_read(const struct config *config, struct document *document, struct error *error)
{
  const char *slash = strchr(config->document, '/');
  *document = (struct document){.collection = NULL};
  if (slash == NULL || slash == config->document || slash[1] == 0) {
    error_set(error, "--document: got \"%.200s\": takes COLLECTION/ID or COLLECTION/{QUERY}, e.g. events/42", config->document);
    return false;
  }
  if (!read_filter(slash + 1, &document->filter, error))
    return false;
  if (config->sort != NULL && !read_json("sort", config->sort, &document->sort, error)) {
    document_free(document);
    return false;
  }
  document->collection = bson_strndup(config->document, (size_t)(slash - config->document));
  return true;
}

void document_free(struct document *document)
{
  bson_destroy(document->filter);
  if (document->sort != NULL)
    bson_destroy(document->sort);
}
