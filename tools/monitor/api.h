/*
 * api: the texts of /api. docs/pawl-monitor.md describes them.
 *
 * Each locks the board, and returns a text on the heap with *bytes its size; NULL: no memory. Any thread.
 */
#ifndef PAWL_TOOLS_MONITOR_API_H
#define PAWL_TOOLS_MONITOR_API_H

#include "tools/monitor/board.h"
#include "tools/monitor/first.h"

enum { API_TYPES_MAX = 100 }; /* of one request */

/* Names of types, as a request gives them; borrowed. */
struct api_names {
  const char *names[API_TYPES_MAX];
  int count;
};

MUST_CHECK char *api_types(struct board *board, int64_t now_ms, size_t *bytes);
MUST_CHECK char *api_history(struct board *board, int64_t now_ms, const struct api_names *names, size_t *bytes);
MUST_CHECK char *api_timeline(struct board *board, int64_t now_ms, const struct api_names *names, int64_t minutes, size_t *bytes);
/* `first` NULL: the first documents are not known. *found false: there is no such type, and no text. */
MUST_CHECK char *api_type(struct board *board, const char *type, const struct first *first, bool *found, size_t *bytes);

#endif
