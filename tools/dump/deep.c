#include "tools/dump/deep.h"
#include "storage/bundle.h"
#include "tools/dump/dump.h"
#include "tools/dump/json.h"
#include "type_text.h"

#include <inttypes.h>
#include <stdlib.h>

enum { REPORTS_MAX = 3 }; /* findings of each kind that are reported one by one */

bool deep_init(struct deep *deep, const char *type)
{
  memset(deep, 0, sizeof *deep);
  deep->type = type;
  deep->ids = calloc(DEEP_IDS, sizeof *deep->ids);
  return deep->ids != NULL;
}

void deep_deinit(struct deep *deep)
{
  free(deep->ids);
  deep->ids = NULL;
}

/* ---- _id ---- */

/* FNV-1a. An attacker can make a collision; among a million _ids a chance collision is unlikely. */
static uint64_t hash_bytes(uint64_t hash, const uint8_t *bytes, size_t size)
{
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

/* The bytes of the value of the element at `at`: from the end of its key to the next element. */
static uint64_t hash_value(const bson_iter_t *at)
{
  uint8_t type = (uint8_t)bson_iter_type(at);
  uint64_t hash = hash_bytes(0xcbf29ce484222325u, &type, 1);
  hash = hash_bytes(hash, at->raw + at->d1, at->next_off - at->d1);
  return hash != 0 ? hash : 1;
}

static void check_id(struct deep *deep, const bson_iter_t *at, int64_t seq)
{
  uint64_t hash = hash_value(at);
  struct deep_id *place = &deep->ids[(hash ^ hash >> 32) % DEEP_IDS];
  if (place->hash == hash && ++deep->repeated <= REPORTS_MAX)
    dump_say("%s: seq %" PRId64 " has the _id of seq %" PRId64, deep->type, seq, place->seq);
  place->hash = hash;
  place->seq = seq;
}

/* ---- a document ---- */

struct seen {
  bool type; /* a document of an own collection needs none */
  bool type_right;
  bool id;
};

static void check_field(struct deep *deep, const bson_iter_t *at, int64_t seq, struct seen *seen)
{
  const char *key = bson_iter_key(at);
  uint32_t bytes = 0;
  if (strcmp(key, "_id") == 0 && !seen->id) {
    seen->id = true;
    check_id(deep, at, seq);
  } else if (strcmp(key, "type") == 0) {
    const char *type = type_text(at, &bytes);
    seen->type = true;
    seen->type_right = seen->type_right || (type != NULL && bytes == strlen(deep->type) && memcmp(type, deep->type, bytes) == 0);
  }
}

/* Returns how many messages the document holds. */
static int64_t check_document(struct deep *deep, const uint8_t *document, size_t bytes, int64_t seq)
{
  struct seen seen = {.type_right = deep->type[0] == 0};
  bson_iter_t at;
  bool whole = bson_iter_init_from_data(&at, document, bytes);
  while (whole && bson_iter_next(&at))
    check_field(deep, &at, seq, &seen);
  whole = whole && at.err_off == 0 && json_printable(document, bytes);
  if (!whole && ++deep->malformed <= REPORTS_MAX)
    dump_say("%s: seq %" PRId64 " is malformed inside", deep->type, seq);
  else if (whole && seen.type && !seen.type_right && ++deep->wrong_type <= REPORTS_MAX)
    dump_say("%s: seq %" PRId64 " is a document of another type", deep->type, seq);
  return bundle_items(document, bytes);
}

void deep_check(struct deep *deep, const struct block_marker *block, const uint8_t *documents, size_t bytes)
{
  const uint8_t *at = documents, *end = documents + bytes;
  int64_t messages = 0;
  for (uint32_t i = 0; i < block->count && end - at >= 5; i++) {
    size_t length = (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24;
    if (length < 5 || length > (size_t)(end - at))
      break;
    messages += check_document(deep, at, length, block->seq + i);
    at += length;
  }
  if (messages != block->items && ++deep->miscounted <= REPORTS_MAX)
    dump_say("%s: the block at offset %" PRId64 " holds %" PRId64 " message%s, its marker says %u", deep->type, block->offset, messages,
             plural(messages), block->items);
}
