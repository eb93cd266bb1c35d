/*
 * input: turns the bytes of a file or a pipe into messages, one at a time, and reports where each came from.
 *
 *   lines    a line, without its line feed, becomes `payload`: a string, or binary (subtype 0) if it is not UTF-8
 *   ndjson   a line is one document in MongoDB's Extended JSON; blank lines are skipped
 *   bson     documents back to back, in the format of mongodump and bsondump
 *
 * Memory: one message and its text; a line longer than the longest message is skipped without being held. Threads: one at a time for each
 * struct input. Waits for input, but never longer than half a second.
 */
#ifndef PAWL_TOOLS_ENQUEUE_INPUT_H
#define PAWL_TOOLS_ENQUEUE_INPUT_H

#include "base.h"

#include <bson/bson.h>
#include <signal.h>

enum {
  MESSAGE_BYTES_MAX = 16 * 1024 * 1024, /* a document's limit in MongoDB */
  MESSAGE_DEPTH_MAX = 180,              /* the same: levels that hold something, the document itself included */
  BUNDLE_DEPTH = 2,                     /* levels that a bundle has around its messages */
  BUNDLE_AROUND = 64 + TYPE_BYTES_MAX,  /* the most bytes that a bundle of one needs besides its message */
};

enum input_form { INPUT_LINES, INPUT_NDJSON, INPUT_BSON };

/* The types that a message may have. Exactly one: it is added to a document without a type. None: each document must have its own type. */
struct input_types {
  char (*names)[TYPE_BYTES_MAX + 1];
  size_t count;
};

struct input {
  int file;
  enum input_form form;
  struct input_types types;
  const char *name;              /* for error texts; the caller keeps it */
  int64_t number;                /* of the line, or of the document, from 1 */
  int64_t offset;                /* of its first byte */
  int64_t bytes_read;            /* so far, for the progress line */
  bool bare;                     /* set by the caller: messages go into bundles, so they stay unchanged, without _id and type added */
  const sigset_t *unblocked;     /* set by the caller: the mask of signals during the wait; NULL: unchanged */
  int64_t idle_at_ms;            /* set by the caller, on the monotonic clock: idle at this time unless bytes are there; 0: no such time */
  char type[TYPE_BYTES_MAX + 1]; /* of the last message */

  uint8_t *buffer; /* read and not yet used: [start, end) of size */
  size_t start, end, size;
  bool ended;    /* the file has ended */
  bool idle;     /* the last call found nothing */
  bool skipping; /* within a line that is too long */
};

enum input_result {
  INPUT_MESSAGE, /* *message is initialised; the caller destroys it */
  INPUT_BAD,     /* this is not a message, `error` says why; the next may be requested */
  INPUT_IDLE,    /* nothing is there at the moment, or a signal came: insert what you have, and call again */
  INPUT_BROKEN,  /* the rest of this file cannot be used, `error` says why */
  INPUT_END,
};

/* The caller closes *file. */
void input_init(struct input *input, int file, const char *name, enum input_form form, struct input_types types);
void input_deinit(struct input *input);

/*
 * The next message. Unless `bare`, its _id is its first element. *id_wanted: it has no _id of its own, and the 12 bytes at ID_OFFSET must
 * be filled in. `error` names file and line, or document and byte.
 */
enum { ID_OFFSET = 9 };
MUST_CHECK enum input_result input_next(struct input *input, bson_t *message, bool *id_wanted, struct error *error);

/* "FILE:12", or "FILE: document 12 at byte 3456". */
void input_place(const char *name, enum input_form form, int64_t number, int64_t offset, char *text, size_t size);

/* ---- the pure parts, public for the tests ---- */

/* A line as a message of this type (NULL: bare); fails only if it is too large. */
MUST_CHECK bool message_from_line(const uint8_t *line, size_t length, const char *type, bson_t *message, struct error *error);
/* A line of Extended JSON as a document: each value is exactly that of the text, or the line is refused. `around`: as in document_check. */
MUST_CHECK bool document_from_json(const uint8_t *line, size_t length, int around, bson_t *document, struct error *error);
/* Checks that the bytes are one valid document, not nested too deep, with `around` levels around it (0, or BUNDLE_DEPTH). */
MUST_CHECK bool document_check(const uint8_t *bytes, size_t length, int around, struct error *error);
/* A document as a message: its type is checked or added, and it has space for an _id. */
MUST_CHECK bool message_from_document(const bson_t *document, const struct input_types *types, bson_t *message, bool *id_wanted,
                                      struct error *error);
/* The same, bare: a copy of the document, and its type, its own or the one that would be added. */
MUST_CHECK bool bare_from_document(const bson_t *document, const struct input_types *types, bson_t *message, char *type,
                                   struct error *error);

#endif
