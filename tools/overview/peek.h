/*
 * peek: the first documents that wait, untouched, and a document as text for people and pages.
 *
 * Threads: any. overview_peek blocks for some requests, each at most the lockstore's time-out, and as long as a large reply takes.
 */
#ifndef PAWL_TOOLS_OVERVIEW_PEEK_H
#define PAWL_TOOLS_OVERVIEW_PEEK_H

#include "lockstore/lockstore.h"

#include <bson/bson.h>

/* `document` is valid during the call. It must not call the lockstore. */
typedef void overview_peek_each(void *context, const bson_t *document);

/*
 * Passes the first `limit` documents of the type, in the order in which a worker takes them: by rising _id, as the majority has them. It
 * reads these documents and no others. REFUSED: the index {type: 1, _id: 1} is missing, and all documents would have to be read; or the type's
 * ledger cannot be used, which says whether it has its own collection.
 */
MUST_CHECK enum outcome overview_peek(struct lockstore *store, const char *type, int64_t limit, overview_peek_each *each, void *context,
                                      struct error *error);

/*
 * The same of each document in brief: {_id, bytes: of its BSON, whole: the document}. `whole` is null where it has more than whole_max
 * bytes: then the server keeps it.
 */
MUST_CHECK enum outcome overview_peek_brief(struct lockstore *store, const char *type, int limit, int whole_max, overview_peek_each *each,
                                            void *context, struct error *error);

/*
 * The document, or one of its elements, as relaxed Extended JSON in one line. Nothing in it acts on a terminal or hides in a text: control
 * characters, also those of Unicode, and characters that change the direction are \u escapes. What JSON cannot show is shown as pawl-dump
 * shows it (tools/dump/json.h). More than bytes_max bytes (0: no limit) are cut at a character, and end with "…". The caller frees it.
 * NULL: no memory.
 */
char *overview_document_json(const bson_t *document, size_t bytes_max);
char *overview_element_json(const bson_iter_t *element, size_t bytes_max);

#endif
