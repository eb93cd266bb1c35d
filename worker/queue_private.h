/*
 * queue_private: the parts of requests that polls (queue.c), passes (queue_pass.c) and deletes (queue_delete.c) have in common.
 * Private to these files.
 */
#ifndef PAWL_WORKER_QUEUE_PRIVATE_H
#define PAWL_WORKER_QUEUE_PRIVATE_H

#include "lockstore/mongo.h"
#include "worker/queue.h"

/* ---- parts of commands ---- */

/* Of the collection `source`: the documents of the type that lie in it, and the index by which they are found and deleted. */
void queue_append_part(bson_t *filter, const char *type, enum queue_source source);
void queue_append_part_hint(bson_t *command, enum queue_source source);
/* readConcern of a part that is read at its cluster time, if there are such. */
void queue_append_read_at(struct mongo *mongo, bson_t *command, uint64_t read_at);

void queue_append_type(bson_t *filter, const char *const *types, size_t count);
void queue_append_filter(bson_t *command, const char *const *types, size_t count, const bson_oid_t *from, bool arrays);
void queue_append_hint(bson_t *command);

/* ---- answers ---- */

void queue_explain(int code, struct error *error);
uint64_t queue_read_at(const bson_t *reply);
/* Where an answer has neither documents nor a snapshot. */
void queue_no_snapshot(const struct queue_name *collection, struct error *error);
/* Why a document in the type's own collection is not one of the type; NULL: it is. */
const char *queue_type_flaw(const uint8_t *document, uint32_t bytes, const char *type);

void queue_mark_set(struct queue_mark *mark, const struct element *id);
/* `field`: which one has the flaw. */
bool queue_name_refused(struct queue_mark *mark, const struct element *id, const char *field, const char *flaw, struct error *error);
/* What a look has seen so far of the documents that it goes over, by their `_id`s. */
struct queue_sight {
  struct queue_mark *mark; /* or NULL; is set to the first that can be taken */
  bool any, found;         /* there are documents; one of them can be taken */
  struct error named;      /* the text for one that cannot be taken; empty: none is to be named */
};
/* `own_type`: of the type's own collection; otherwise NULL. False: it is no document. */
bool queue_sight_add(struct queue_sight *sight, const bson_iter_t *document, const char *own_type, struct element *id);
/* A look at so many documents. A reply ends before 16 MiB, whatever it was asked for: one of so many bytes may have ended early. */
enum { QUEUE_LOOK_SOME = 1000, QUEUE_LOOK_BYTES_MANY = 1024 * 1024 };
struct queue_find {
  const char *doing;
  const char *type; /* for SOURCE_OWN */
  enum queue_source source;
  int32_t limit;
  bool snapshot;
};
enum outcome queue_find_ids(struct mongo *mongo, const struct queue_find *find, bson_t *command, bson_t *reply, bson_iter_t *documents,
                            struct error *error);
/* As queue_poll, in a snapshot that is not before anything that this process has seen; *read_at is its cluster time (0: it has none). */
enum outcome queue_poll_at(struct lockstore *store, const char *const *types, size_t count, uint64_t *read_at, struct error *error);

#endif
