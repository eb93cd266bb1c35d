/* api_private: what the files of api share. Private to them. */
#ifndef PAWL_TOOLS_MONITOR_API_PRIVATE_H
#define PAWL_TOOLS_MONITOR_API_PRIVATE_H

#include "tools/monitor/api.h"

#include <bson/bson.h>

/* Writes the document as JSON, and destroys it. */
void api_write(FILE *out, bson_t *document);
/* Writes a text in quotes. */
void api_write_text(FILE *out, const char *text);
/* Closes the stream; returns its text, or NULL if any write failed. */
MUST_CHECK char *api_close(FILE *out, char **text);
/* Fills in an empty document. The board is locked. */
void api_fill_row(bson_t *row, const struct board *board, const struct overview_row *from);
void api_append_text(bson_t *document, const char *name, const char *text);           /* NULL or empty: null */
void api_append_count(bson_t *document, const char *name, int64_t value, bool known); /* not known: null */

#endif
