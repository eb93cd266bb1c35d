#include "storage/search.h"

#include <stdlib.h>

enum { WINDOW_BYTES = 1 << 20 };

bool search_marker_is_here(const struct block_marker *marker, const uint8_t *uuid, int64_t offset)
{
  return memcmp(marker->file_id, uuid, sizeof marker->file_id) == 0 && marker->offset == offset;
}

/* Searches the `size` bytes at `window`, which are those of the file from offset `from` on. */
static enum search_status window_search(const struct search *search, const uint8_t *window, size_t size, int64_t from,
                                        struct block_marker *found)
{
  enum search_status status = SEARCH_NONE;
  for (size_t at = 0; at + FORMAT_MARKER_BYTES <= size; at++) {
    struct block_marker marker;
    struct error ignored;
    const uint8_t *hit = memchr(window + at, 0x80, size - FORMAT_MARKER_BYTES + 1 - at);
    if (hit == NULL)
      break;
    at = (size_t)(hit - window);
    if (!format_marker_begins(hit) || format_marker_decode(hit, &marker, &ignored) == FORMAT_INVALID ||
        !search_marker_is_here(&marker, search->uuid, from + (int64_t)at) || !search->fits(search->context, &marker))
      continue;
    *found = marker;
    status = SEARCH_FOUND;
    if (!search->last)
      break;
  }
  return status;
}

enum search_status search_marker(const struct search *search, struct block_marker *found, struct error *error)
{
  uint8_t *window = malloc(WINDOW_BYTES);
  enum search_status status = window != NULL ? SEARCH_NONE : SEARCH_FAILED;
  if (window == NULL)
    error_set(error, "%s: no memory to search in", search->file->name);
  for (int64_t from = search->from; window != NULL && search->to - from >= FORMAT_MARKER_BYTES;
       from += WINDOW_BYTES - FORMAT_MARKER_BYTES + 1) {
    size_t size = search->to - from < WINDOW_BYTES ? (size_t)(search->to - from) : WINDOW_BYTES, got = 0;
    if (file_read(search->file, from, window, size, &got, error) != FILE_OK) {
      status = SEARCH_FAILED;
      break;
    }
    if (window_search(search, window, got, from, found) == SEARCH_FOUND)
      status = SEARCH_FOUND;
    if (got < size || (status == SEARCH_FOUND && !search->last))
      break;
  }
  free(window);
  return status;
}
