/*
 * where: the messages that --where FIELD=VALUE selects.
 *
 * VALUE is a text. It is compared with each value that FIELD names (storage/field.h), by that value's own type:
 *
 *   string, symbol           the same bytes
 *   int32, int64, double     the same number: 42, -1.5, 1e3
 *   Decimal128               the same text, as pawl-dump prints it
 *   ObjectId                 24 hexadecimal digits
 *   bool, null               true, false, null; a field that is not there is not null
 *   date                     RFC 3339, or milliseconds since 1970
 *   binary                   of a UUID: its text, 8-4-4-4-12
 *   array                    any of its elements; other values never
 *
 * _id and type of a bundle count for each of its messages. Pure; one thread.
 */
#ifndef PAWL_TOOLS_DUMP_WHERE_H
#define PAWL_TOOLS_DUMP_WHERE_H

#include "base.h"
#include "storage/field.h"

struct where {
  struct field_path path;
  const char *value; /* borrowed */
  bool is_integer, is_number, is_oid, is_time, is_uuid;
  int64_t integer;
  double number;
  int64_t time_ms;
  uint8_t oid[12], uuid[16];
};

/* `text` is FIELD=VALUE, with a valid FIELD; it must live as long as *where. */
void where_init(struct where *where, const char *text);

/* Whether a message is selected. `document`: the bundle that it is in, or the message itself. `where` NULL: every message is. */
bool where_takes(const struct where *where, const uint8_t *document, size_t document_bytes, const uint8_t *message, size_t bytes);
/*
 * How many messages of a document are selected. `opens`: a bundle has as many messages as it holds; otherwise it is one, which is selected
 * if it matches itself or one of its messages does.
 */
int64_t where_count(const struct where *where, const uint8_t *document, size_t bytes, bool opens);

#endif
