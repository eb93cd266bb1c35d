/*
 * Extended JSON: a line becomes a document that means the same, or an error that says why not.
 *
 * libbson reads it, but silently changes some values (an invalid decimal number to NaN, the 30th of February to the 1st of March), so the
 * values are checked before (exact_check). And it stops at 100 levels, where MongoDB accepts 180, so what is nested deeper is read in
 * parts.
 */
#include "bson_array.h"
#include "tools/enqueue/input.h"
#include "tools/json_exact.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

enum {
  DEPTH_AT_ONCE = 64, /* levels that libbson reads in one piece, without a value's own brackets */
};

/* ---- in parts ---- */

/* Replaces, in the text, a part that is read separately; `{"$pawlPart":7}`. */
#define PART_KEY "$pawlPart"

struct part {
  const char *begin, *end;
};

struct parts {
  struct part *all;
  size_t count;
};

static bool read_text(const char *begin, const char *end, size_t depth, bson_t *document, struct error *error);

static void part_add(struct parts *parts, const char *begin, const char *end, FILE *rest)
{
  fprintf(rest, "{\"" PART_KEY "\":%zu}", parts->count);
  parts->all = reallocarray(parts->all, parts->count + 1, sizeof *parts->all);
  assert(parts->all);
  parts->all[parts->count++] = (struct part){begin, end};
}

/* Copies the text to `rest`, without what is nested deeper than DEPTH_AT_ONCE. Never cuts through a value of Extended JSON. */
static void parts_cut(const char *begin, const char *end, struct parts *parts, FILE *rest)
{
  size_t depth = 0, inner;
  bool wrapped = false; /* the next value belongs to a key with a $ */
  for (const char *at = begin; at < end;) {
    const char *after = at + 1;
    if (*at == '"') {
      after = json_string_end(at, end);
      wrapped = json_value_of_key(after, end) && (at[1] == '$' || at[1] == '\\');
    } else if ((*at == '{' || *at == '[') && depth >= DEPTH_AT_ONCE && !wrapped) {
      after = json_object_end(at, end, &inner);
      part_add(parts, at, after, rest);
      at = after;
      continue;
    }
    depth += *at == '{' || *at == '[';
    depth -= *at == '}' || *at == ']';
    wrapped = wrapped && !strchr(",}]", *at);
    fwrite(at, 1, (size_t)(after - at), rest);
    at = after;
  }
}

static bool graft(const bson_t *from, const struct parts *parts, bson_t *to, struct error *error);

static FILE *text_begin(char **text, size_t *size)
{
  FILE *stream = open_memstream(text, size);
  assert(stream);
  return stream;
}

static void text_end(FILE *stream)
{
  int failed = fclose(stream);
  assert(!failed);
}

static bool too_deep(struct error *error)
{
  return json_error(error, "nested more than %d levels deep, or too large", MESSAGE_DEPTH_MAX);
}

/* An array is read as the only element of an object. */
static bool graft_array(const struct part *part, const char *key, bson_t *to, struct error *error)
{
  size_t depth, size = 0;
  char *text = NULL;
  bson_t document;
  bson_iter_t only;
  FILE *stream = text_begin(&text, &size);
  fputs("{\"\":", stream);
  fwrite(part->begin, 1, (size_t)(part->end - part->begin), stream);
  fputs("}", stream);
  text_end(stream);
  bool done = json_object_end(text, text + size, &depth) && read_text(text, text + size, depth, &document, error);
  free(text);
  if (!done)
    return false;
  done = (bson_iter_init_find(&only, &document, "") && bson_append_iter(to, key, -1, &only)) || too_deep(error);
  bson_destroy(&document);
  return done;
}

static bool graft_part(const struct part *part, const char *key, bson_t *to, struct error *error)
{
  size_t depth;
  bson_t document;
  if (*part->begin == '[')
    return graft_array(part, key, to, error);
  if (!json_object_end(part->begin, part->end, &depth) || !read_text(part->begin, part->end, depth, &document, error))
    return false;
  bool done = bson_append_document(to, key, -1, &document) || too_deep(error);
  bson_destroy(&document);
  return done;
}

/* NULL: the element is not a replaced part. */
static const struct part *part_of(const bson_iter_t *at, const struct parts *parts)
{
  bson_iter_t only;
  if (!BSON_ITER_HOLDS_DOCUMENT(at) || !bson_iter_recurse(at, &only) || !bson_iter_next(&only) ||
      strcmp(bson_iter_key(&only), PART_KEY) != 0)
    return NULL;
  int64_t index = bson_iter_as_int64(&only);
  return index >= 0 && (size_t)index < parts->count ? &parts->all[index] : NULL;
}

static bool graft_element(const bson_iter_t *at, const struct parts *parts, bson_t *to, struct error *error)
{
  const struct part *part = part_of(at, parts);
  const char *key = bson_iter_key(at);
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  bson_t inner, copied;
  bool array = BSON_ITER_HOLDS_ARRAY(at);
  if (part)
    return graft_part(part, key, to, error);
  if (!array && !BSON_ITER_HOLDS_DOCUMENT(at))
    return bson_append_iter(to, key, -1, at) || too_deep(error);
  array ? bson_iter_array(at, &length, &bytes) : bson_iter_document(at, &length, &bytes);
  if (!bson_init_static(&inner, bytes, length) ||
      !(array ? bson_append_array_unsafe_begin(to, key, -1, &copied) : bson_append_document_begin(to, key, -1, &copied)))
    return too_deep(error);
  bool done = graft(&inner, parts, &copied, error);
  bool ended = array ? bson_append_array_end(to, &copied) : bson_append_document_end(to, &copied);
  return done && (ended || too_deep(error));
}

static bool graft(const bson_t *from, const struct parts *parts, bson_t *to, struct error *error)
{
  bson_iter_t at;
  bool done = bson_iter_init(&at, from);
  while (done && bson_iter_next(&at))
    done = graft_element(&at, parts, to, error);
  return done;
}

static bool read_at_once(const char *begin, const char *end, bson_t *document, struct error *error)
{
  bson_error_t reason;
  return bson_init_from_json(document, begin, end - begin, &reason) || json_error(error, "%.200s", reason.message);
}

static bool read_in_parts(const char *begin, const char *end, bson_t *document, struct error *error)
{
  struct parts parts = {0};
  bson_t outside;
  char *text = NULL;
  size_t size = 0;
  if (memmem(begin, (size_t)(end - begin), PART_KEY, sizeof PART_KEY - 1))
    return json_error(error, "a key " PART_KEY " in a document that is nested so deeply");
  FILE *rest = text_begin(&text, &size);
  parts_cut(begin, end, &parts, rest);
  text_end(rest);
  bool done = read_at_once(text, text + size, &outside, error);
  if (done) {
    bson_init(document);
    done = graft(&outside, &parts, document, error);
    if (!done)
      bson_destroy(document);
    bson_destroy(&outside);
  }
  free(parts.all);
  free(text);
  return done;
}

/* `depth`: that of its brackets, which match. */
static bool read_text(const char *begin, const char *end, size_t depth, bson_t *document, struct error *error)
{
  return (depth <= DEPTH_AT_ONCE + 3 ? read_at_once : read_in_parts)(begin, end, document, error);
}

/* ---- a line ---- */

/* pawl-dump prints what it cannot show as JSON as {"$pawlRaw": binary}: this restores the document from those bytes. */
static bool raw_open(bson_t *document, int around, struct error *error)
{
  bson_iter_t only;
  const uint8_t *bytes = NULL;
  uint32_t length = 0;
  bson_t raw, copied;
  if (!bson_iter_init(&only, document) || !bson_iter_next(&only) || strcmp(bson_iter_key(&only), "$pawlRaw") != 0 ||
      !BSON_ITER_HOLDS_BINARY(&only))
    return document_check(bson_get_data(document), document->len, around, error);
  bson_iter_binary(&only, NULL, &length, &bytes);
  if (bson_iter_next(&only))
    return json_error(error, "something is beside $pawlRaw");
  if (!document_check(bytes, length, around, error) || !bson_init_static(&raw, bytes, length))
    return false;
  bson_copy_to(&raw, &copied);
  bson_destroy(document);
  return bson_steal(document, &copied);
}

bool document_from_json(const uint8_t *line, size_t length, int around, bson_t *document, struct error *error)
{
  const char *end = (const char *)line + length, *begin = json_blanks_end((const char *)line, end);
  size_t depth;
  if (begin == end || *begin != '{')
    return json_error(error, "a document begins with {");
  const char *after = json_object_end(begin, end, &depth);
  if (!after)
    return json_error(error, "brackets or quotes do not match, or are nested too deeply");
  if (json_blanks_end(after, end) != end)
    return json_error(error, "something follows the document");
  if (json_exact_wanted(begin, (size_t)(after - begin)) && !json_exact_check(begin, after, error))
    return false;
  if (!read_text(begin, after, depth, document, error))
    return false;
  if (raw_open(document, around, error))
    return true;
  bson_destroy(document);
  return false;
}
