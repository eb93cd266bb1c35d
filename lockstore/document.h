/*
 * document: reads the fields of a document that anybody may have written. Private to lockstore, except document_make_….
 *
 * Pure; any thread. A field of another kind than the requested one counts as absent, and document_show names what is there.
 */
#ifndef PAWL_LOCKSTORE_DOCUMENT_H
#define PAWL_LOCKSTORE_DOCUMENT_H

#include "base.h"

#include <bson/bson.h>

bool document_has(const bson_t *document, const char *field);
/* int32, int64, or a double that is whole and exact: shells and other languages write numbers as they like. */
MUST_CHECK bool document_int64(const bson_t *document, const char *field, int64_t *value);
/* Milliseconds since 1970. */
bool document_date(const bson_t *document, const char *field, int64_t *ms);
MUST_CHECK bool document_bool(const bson_t *document, const char *field, bool *value);
/* Binary of subtype 0 and exactly `size` bytes. */
MUST_CHECK bool document_binary(const bson_t *document, const char *field, uint8_t *bytes, size_t size);
/* A string that fits with its NUL, and has no control characters. On false *text is empty. */
MUST_CHECK bool document_text(const bson_t *document, const char *field, char *text, size_t size);
MUST_CHECK bool document_document(const bson_t *document, const char *field, bson_t *value);

/*
 * For a text that is shown to people. Control characters become spaces, so that it stays on one line and a terminal does not
 * obey it. A last UTF-8 character that was cut in two is removed.
 */
void document_make_printable(char *text);
/* Replaces what is not UTF-8 by `?`: documents may hold any bytes, and neither JSON nor Prometheus takes them. */
void document_make_utf8(char *text);

/* What the field holds, for people: `absent`, or its JSON, cut to 80 bytes; printable. */
struct document_shown {
  char text[81];
};
struct document_shown document_show(const bson_t *document, const char *field);

#endif
