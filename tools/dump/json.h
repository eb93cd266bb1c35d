/*
 * json: prints a producer's BSON document as MongoDB Extended JSON v2, in one line, for any document.
 *
 * The producer decides what is inside a message, and MongoDB's own JSON functions refuse some of it. A string of invalid UTF-8, such as one
 * that was cut within a character, is to be read all the same: it is shown with U+FFFD, one for each maximal part that is wrong, as the
 * Unicode standard advises (3.9, "U+FFFD Substitution of Maximal Subparts"). What cannot be shown as JSON (other text that is invalid
 * UTF-8: keys, code, regular expressions, ...; nested too deep, malformed inside, of an unknown element type, larger than MongoDB accepts)
 * becomes
 * {"$pawlRaw":{"$binary":{"base64":"...","subType":"00"}}}, which pawl-enqueue turns back into the document.
 *
 * Pure except for the FILE, whose own error flag shows a failed write. Memory, besides the document: 2 times its size for one long string;
 * at most about 36 times, because its JSON is up to 17 times as long (empty regular expressions), libbson holds that of a nested document
 * twice, and mending and json_write_value copy the document. Measured for a message of 16 MiB, all of pawl-dump: 50 MiB, and 594 MiB.
 */
#ifndef PAWL_TOOLS_DUMP_JSON_H
#define PAWL_TOOLS_DUMP_JSON_H

#include "base.h"

#include <bson/bson.h>
#include <stddef.h>

enum {
  JSON_DEPTH_MAX = 180,                               /* libbson prints nothing deeper than 200 levels; MongoDB accepts 180 */
  JSON_DOCUMENT_BYTES_MAX = 16 * 1024 * 1024 + 16384, /* the most that MongoDB itself can store */
};

enum json_shown {
  JSON_FAITHFUL,
  JSON_LATE,    /* internal: exact, but relaxed JSON has no text for one of its dates */
  JSON_MENDED,  /* U+FFFD replaces invalid UTF-8 in a string */
  JSON_INEXACT, /* internal: other text is invalid UTF-8, or libbson would print it otherwise, so it is shown as $pawlRaw */
  JSON_RAW,     /* as $pawlRaw */
};

/* Does not print a line feed. */
enum json_shown json_write(const uint8_t *document, size_t bytes, bool canonical, FILE *out);
/* Only the value of one element, relaxed. */
enum json_shown json_write_value(const bson_iter_t *element, FILE *out);

/* True: well-formed inside, except perhaps for its UTF-8, and not too deep. */
bool json_printable(const uint8_t *document, size_t bytes);

/* `text` with invalid UTF-8 replaced; the caller frees it. NULL: no memory. A NUL is a character like others. */
char *json_mend_text(const char *text, size_t bytes, size_t *mended_bytes);
bool json_text_valid(const char *text, size_t bytes);

#endif
