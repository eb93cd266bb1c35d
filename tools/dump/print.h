/*
 * print: writes one message to a FILE, in one of pawl-dump's formats.
 *
 * Pure except for the FILE, whose own error flag shows a failed write; one thread. The message comes from a producer and may hold anything.
 * The printer counts what it could not show as it is, and the caller reports it.
 */
#ifndef PAWL_TOOLS_DUMP_PRINT_H
#define PAWL_TOOLS_DUMP_PRINT_H

#include "base.h"
#include "storage/format.h"

#include <stddef.h>

enum print_format {
  PRINT_RELAXED,   /* Extended JSON, one document a line */
  PRINT_CANONICAL, /* the same, with all types explicit */
  PRINT_PAYLOAD,   /* the bytes of the field `payload` if it is a string or binary, else its value as relaxed JSON */
  PRINT_BSON,      /* the bytes, back to back: for bsondump and mongorestore */
  PRINT_HEX,       /* the bytes in hexadecimal, one message a line */
  PRINT_BLOCKS,    /* no messages: one line a block */
  PRINT_SUMMARY,   /* no messages: the contents of each segment */
  PRINT_NONE,      /* read and check only */
};

struct printer {
  enum print_format format;
  bool with_meta;        /* relaxed, canonical, bson: the message inside {seq, index, epoch, offset, time, message} */
  const char *separator; /* payload: printed after each message, the last one too; borrowed */
  size_t separator_bytes;
  FILE *out;

  uint64_t printed;         /* messages */
  uint64_t mended;          /* of them, with U+FFFD for invalid UTF-8 */
  uint64_t raw;             /* of them, as $pawlRaw */
  uint64_t without_payload; /* payload: messages without that field, for which nothing was printed */
};

MUST_CHECK bool print_format_parse(const char *name, enum print_format *format);
/* True if --with-meta has a meaning for the format. */
bool print_format_takes_meta(enum print_format format);

/* False for the formats that print the bytes as they are stored: there a bundle stays one document. */
bool print_format_opens(enum print_format format);

/*
 * `block`: the block that holds the message. `index`: its place in the bundle of this seq, from 0; INDEX_NONE: the message is a document of
 * its own.
 */
enum { INDEX_NONE = -1 };
void printer_put(struct printer *printer, const struct block_marker *block, int64_t seq, int64_t index, const uint8_t *message,
                 size_t bytes);

/* RFC 3339, UTC, with microseconds; a time outside the calendar as a number of microseconds. */
enum { TIME_TEXT_SIZE = 48 };
const char *time_text(int64_t time_us, char text[TIME_TEXT_SIZE]);

#endif
