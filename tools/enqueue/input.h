/*
 * input: turns the bytes of a file or a pipe into messages, one at a time, and says where each came from.
 *
 *   lines    a line, without its line feed, becomes `payload`: a string, or binary (subtype 0) if it is not UTF-8
 *   ndjson   a line is one document in MongoDB's Extended JSON; blank lines are passed over
 *   bson     documents back to back, as mongodump and bsondump know them
 *
 * Memory: one message and its text; a line longer than any message may be is passed over without being held.
 * Threads: one at a time for each struct input. Waits for input, but never longer than half a second.
 */
#ifndef PAWL_TOOLS_ENQUEUE_INPUT_H
#define PAWL_TOOLS_ENQUEUE_INPUT_H

#include "base.h"

#include <bson/bson.h>
#include <signal.h>

enum {
  MESSAGE_BYTES_MAX = 16 * 1024 * 1024, /* a document's limit in MongoDB */
  MESSAGE_DEPTH_MAX = 180,              /* likewise: levels that hold something, the document itself included */
  BUNDLE_DEPTH = 2,                     /* levels that a bundle has around its messages */
  BUNDLE_AROUND = 64 + TYPE_BYTES_MAX,  /* what a bundle of one needs beside its message, at most */
};

enum input_form { INPUT_LINES, INPUT_NDJSON, INPUT_BSON };

/* The types a message may have. Exactly one: it is filled in where a document has none. None: a document must have its own. */
struct input_types {
  char (*names)[TYPE_BYTES_MAX + 1];
  size_t count;
};

struct input {
  int file;
  enum input_form form;
  struct input_types types;
  const char *name;              /* for messages; the caller's, who keeps it */
  int64_t number;                /* of the line, or of the document, from 1 */
  int64_t offset;                /* of its first byte */
  int64_t bytes_read;            /* so far, for a progress bar */
  bool bare;                     /* the caller's: messages are to go into bundles, so they stay as they are, without _id and type put in */
  const sigset_t *unblocked;     /* the caller's: the mask of signals while it waits; NULL: as it is */
  int64_t idle_at_ms;            /* the caller's, on the monotonic clock: idle then at the latest, unless something is there; 0: as it is */
  char type[TYPE_BYTES_MAX + 1]; /* of the last message */

  uint8_t *buffer; /* what is read and not yet used: [start, end) of size */
  size_t start, end, size;
  bool ended;    /* the file has */
  bool idle;     /* the last call found nothing */
  bool skipping; /* within a line that is too long */
};

enum input_result {
  INPUT_MESSAGE, /* *message is initialised: the caller destroys it */
  INPUT_BAD,     /* this one is no message, `error` says why; the next may be asked for */
  INPUT_IDLE,    /* nothing is there at the moment, or a signal came: insert what you have, and ask again */
  INPUT_BROKEN,  /* the rest of this file cannot be used, `error` says why */
  INPUT_END,
};

/* *file stays the caller's to close. */
void input_init(struct input *input, int file, const char *name, enum input_form form, struct input_types types);
void input_deinit(struct input *input);

/*
 * The next message. Unless `bare`, its _id is its first element; *id_wanted: it has none of its own, and ID_OFFSET of its bytes waits
 * for 12. `error` names file and line, or document and byte.
 */
enum { ID_OFFSET = 9 };
MUST_CHECK enum input_result input_next(struct input *input, bson_t *message, bool *id_wanted, struct error *error);

/* "FILE:12", or "FILE: document 12 at byte 3456". */
void input_place(const char *name, enum input_form form, int64_t number, int64_t offset, char *text, size_t size);

/* ---- the pure parts, here for the tests ---- */

/* A line as a message of this type (NULL: bare); never fails but by its size. */
MUST_CHECK bool message_from_line(const uint8_t *line, size_t length, const char *type, bson_t *message, struct error *error);
/* A line of Extended JSON as a document: each value is exactly the one in the text, or the line is refused. `around`: as of document_check.
 */
MUST_CHECK bool document_from_json(const uint8_t *line, size_t length, int around, bson_t *document, struct error *error);
/* The bytes are one sound document, not nested too deeply, with `around` levels around it (0, or BUNDLE_DEPTH). */
MUST_CHECK bool document_check(const uint8_t *bytes, size_t length, int around, struct error *error);
/* A document as a message: its type checked or filled in, an _id made room for. */
MUST_CHECK bool message_from_document(const bson_t *document, const struct input_types *types, bson_t *message, bool *id_wanted,
                                      struct error *error);
/* The same, bare: a copy of the document, and its type, its own or the one that would be filled in. */
MUST_CHECK bool bare_from_document(const bson_t *document, const struct input_types *types, bson_t *message, char *type,
                                   struct error *error);

#endif
