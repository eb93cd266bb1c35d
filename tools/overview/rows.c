#include "tools/overview/private.h"

#include <bson/bson.h>
#include <stdlib.h>

/* FNV-1a. */
static uint64_t name_hash(const char *name)
{
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; name++)
    hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return hash;
}

/* Where the name is, or would be. At most half of the slots are used. */
static size_t slot_find(const struct rows *rows, const char *name)
{
  size_t at = (size_t)name_hash(name) & (rows->slot_count - 1);
  while (rows->slots[at] && strcmp(rows->overview->rows[rows->slots[at] - 1].type, name) != 0)
    at = (at + 1) & (rows->slot_count - 1);
  return at;
}

static bool rows_make_room(struct rows *rows, size_t room)
{
  struct overview_row *all = realloc(rows->overview->rows, room * sizeof *all);
  if (all)
    rows->overview->rows = all;
  uint32_t *slots = all ? calloc(2 * room, sizeof *slots) : NULL;
  if (!slots)
    return false;
  free(rows->slots);
  rows->slots = slots;
  rows->slot_count = 2 * room;
  rows->room = room;
  for (size_t i = 0; i < rows->overview->count; i++)
    slots[slot_find(rows, all[i].type)] = (uint32_t)i + 1;
  return true;
}

void rows_begin(struct rows *rows, struct overview *overview, const struct overview_types *types)
{
  size_t room = 64; /* a power of two */
  while (room <= overview->count)
    room *= 2;
  *rows = (struct rows){.overview = overview};
  rows->failed = !rows_make_room(rows, room);
  for (size_t i = 0; i < types->count && !rows->failed; i++)
    (void)rows_get(rows, types->names[i], OVERVIEW_TYPE);
  rows->closed = types->count > 0;
}

struct overview_row *rows_get(struct rows *rows, const char *type, enum overview_kind kind)
{
  struct overview *overview = rows->overview;
  size_t at = rows->failed ? 0 : slot_find(rows, type);
  if (!rows->failed && rows->slots[at])
    return &overview->rows[rows->slots[at] - 1];
  if (rows->failed || rows->closed)
    return NULL;
  rows->failed = overview->count == rows->room && !rows_make_room(rows, 2 * rows->room);
  if (rows->failed)
    return NULL;
  struct overview_row *row = &overview->rows[overview->count];
  *row = (struct overview_row){.kind = kind,
                               .oldest_ms = OVERVIEW_UNKNOWN,
                               .rate_out = OVERVIEW_UNKNOWN,
                               .rate_messages = OVERVIEW_UNKNOWN,
                               .rate_in = OVERVIEW_UNKNOWN,
                               .own_queued = OVERVIEW_UNKNOWN,
                               .counted = OVERVIEW_UNKNOWN};
  snprintf(row->type, sizeof row->type, "%s", type);
  rows->slots[slot_find(rows, type)] = (uint32_t)++overview->count;
  return row;
}

static int row_compare(const void *a, const void *b)
{
  return strcmp(((const struct overview_row *)a)->type, ((const struct overview_row *)b)->type);
}

bool rows_end(struct rows *rows, struct error *error)
{
  free(rows->slots);
  if (rows->overview->count > 0)
    qsort(rows->overview->rows, rows->overview->count, sizeof *rows->overview->rows, row_compare);
  if (rows->failed)
    error_set(error, "out of memory");
  return !rows->failed;
}

struct overview_row *overview_find(const struct overview *overview, const char *type)
{
  size_t low = 0, high = overview->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(overview->rows[middle].type, type);
    if (order == 0)
      return &overview->rows[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* ---- names ---- */

enum { NAME_SHOWN_MAX = 80 };

/* Writes \uXXXX, two of them above U+FFFF, and U+FFFD for invalid UTF-8. Returns how many bytes it consumed. */
static size_t name_show_character(const char *from, size_t bytes, char one[16])
{
  bson_unichar_t character = 0xfffd;
  size_t length = 1;
  unsigned char first = (unsigned char)from[0];
  size_t wanted = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 0;
  if (wanted > 0 && wanted <= bytes && bson_utf8_validate(from, wanted, true)) {
    character = bson_utf8_get_char(from);
    length = wanted;
  }
  if (character > 0xffff)
    sprintf(one, "\\u%04x\\u%04x", 0xd800 + (unsigned)((character - 0x10000) >> 10), 0xdc00 + (unsigned)((character - 0x10000) & 0x3ff));
  else
    sprintf(one, "\\u%04x", (unsigned)character);
  return length;
}

/* As JSON, in ASCII, so that invisible characters can be seen; cut if it is too long. */
static void name_show(const char *from, size_t bytes, char shown[TYPE_BYTES_MAX + 1])
{
  char one[16];
  size_t used = (size_t)sprintf(shown, "\"");
  for (size_t i = 0; i < bytes && used < NAME_SHOWN_MAX;) {
    unsigned char byte = (unsigned char)from[i];
    size_t length = 1;
    if (byte == '"' || byte == '\\')
      sprintf(one, "\\%c", byte);
    else if (byte >= ' ' && byte < 0x7f)
      sprintf(one, "%c", byte);
    else if (byte == '\t' || byte == '\n' || byte == '\r')
      sprintf(one, "\\%c", byte == '\t' ? 't' : byte == '\n' ? 'n' : 'r');
    else
      length = name_show_character(from + i, bytes - i, one);
    used += (size_t)snprintf(shown + used, NAME_SHOWN_MAX + 1 - used, "%s", one);
    i += length;
  }
  if (used < NAME_SHOWN_MAX)
    strcpy(shown + used, "\"");
}

struct overview_row *rows_get_name(struct rows *rows, const char *name, size_t bytes)
{
  char shown[TYPE_BYTES_MAX + 1];
  if (strlen(name) == bytes && type_name_valid(name))
    return rows_get(rows, name, OVERVIEW_TYPE);
  name_show(name, bytes, shown);
  return rows_get(rows, shown, OVERVIEW_INVALID);
}
