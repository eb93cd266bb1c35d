/*
 * json_exact: the text of Extended JSON: where its values end, and whether libbson reads them without changing any. Pure.
 */
#ifndef PAWL_TOOLS_JSON_EXACT_H
#define PAWL_TOOLS_JSON_EXACT_H

#include "base.h"

#include <stddef.h>

/* Returns the end of the string that begins here; NULL: it does not end. */
const char *json_string_end(const char *at, const char *end);
/*
 * Returns the end of the object or array that begins here; NULL: brackets that do not match, or too many. libbson's reader looks at more
 * than the object that it returns, and does not handle a stray bracket after it correctly, so it gets the object and nothing else.
 */
const char *json_object_end(const char *at, const char *end, size_t *depth_max);
const char *json_blanks_end(const char *at, const char *end);
/* Where the value begins of the key whose string ends at `at`; NULL: that string is not a key. */
const char *json_value_of_key(const char *at, const char *end);
/* False: the reader would change a value. The structure of the text is valid, or the reader will refuse it. */
bool json_exact_check(const char *at, const char *end, struct error *error);
/* Most lines have no value that the reader could change, and need no check. */
bool json_exact_wanted(const char *text, size_t length);

/* Always false. The driver's text quotes the line, so it is cut to one short line. */
__attribute__((format(printf, 2, 3))) bool json_error(struct error *error, const char *format, ...);

#endif
