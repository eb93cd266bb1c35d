/*
 * copy: how a document of a queue lies in the collection `refused`.
 *
 *   {_id: BinData(0, "…16 bytes…"), type: "t1", from: "messages", why: "its _id is …", at: ISODate("…"), by: "w1, pid 77", bytes: 130,
 *    document: {…}}
 *
 * `from` is the collection that it was in: `messages`, or the own collection of `type`. `document` is the document as it is. One that does
 * not fit into another document (of more than 15 MiB, or nested too deep) is in `parts` further documents, {_id: {of: its _id, part: 0},
 * data: BinData(0, "…")}, which have no `type`. `_id` follows from the document's bytes: two copies of one document cannot be there.
 *
 * Pure, except for memory; any thread.
 */
#ifndef PAWL_TOOLS_SETUP_COPY_H
#define PAWL_TOOLS_SETUP_COPY_H

#include "tools/setup/refusal.h"

#define COPIES "refused"
enum { COPY_KEY_BYTES = 16, COPY_PARTS_MAX = 4 };

struct copy {
  uint8_t key[COPY_KEY_BYTES]; /* its `_id` */
  bson_t document;             /* the one with a type */
  bson_t parts[COPY_PARTS_MAX];
  int part_count;
};

/* `by`: who does it; at_ms: since 1970 UTC. False: the document is larger than MongoDB takes. copy_free must follow in any case. */
MUST_CHECK bool copy_make(struct copy *copy, const uint8_t *document, size_t bytes, const struct refusal *refusal, const char *by,
                          int64_t at_ms);
void copy_free(struct copy *copy);
/* The `_id` of a part: {of: key, part: number}. */
void copy_append_part_id(bson_t *document, const char *name, const uint8_t key[COPY_KEY_BYTES], int number);

/* What a document of `refused` says. False: pawl did not write it. The texts are "?" if they are missing. */
struct copy_view {
  uint8_t key[COPY_KEY_BYTES];
  const uint8_t *document; /* inside it; NULL: it is in parts */
  size_t bytes;
  int part_count;
  char type[TYPE_BYTES_MAX + 1], why[280], by[300];
  enum queue_source from; /* SOURCE_OWN: `type` is a valid one */
  int64_t at_ms;
};
MUST_CHECK bool copy_view(const bson_t *document, struct copy_view *view);
/* Appends the data of a part to the bytes that are there. False: it has none, or there is no room for it. */
MUST_CHECK bool copy_append_data(const bson_t *part, uint8_t *bytes, size_t room, size_t *used);

#endif
