/*
 * document: --document and --sort of pawl-lock: which document of a collection is locked. Private to pawl-lock.
 */
#ifndef PAWL_TOOLS_LOCK_DOCUMENT_H
#define PAWL_TOOLS_LOCK_DOCUMENT_H

#include "config/config.h"

struct _bson_t;

struct document {
  char *collection;
  struct _bson_t *filter, *sort; /* sort: NULL: none was given */
};

/*
 * COLLECTION/ID or COLLECTION/{QUERY}. An ID of 24 hexadecimal digits is an ObjectId, one of decimal digits a number, any other one a
 * string. False: `error` says what is wrong. The collection lives as long as the process; document_free frees the rest.
 */
MUST_CHECK bool document_read(const struct config *config, struct document *document, struct error *error);
void document_free(struct document *document);

#endif
