/*
 * queue_private: the parts of requests that polls (queue.c), passes (queue_pass.c) and deletes (queue_delete.c) have in common.
 * Private to these files.
 */
#ifndef PAWL_WORKER_QUEUE_PRIVATE_H
#define PAWL_WORKER_QUEUE_PRIVATE_H

#include "lockstore/mongo.h"
#include "worker/queue.h"

/* ---- parts of commands ---- */

void queue_append_type(bson_t *filter, const char *const *types, size_t count);
void queue_append_filter(bson_t *command, const char *const *types, size_t count, const bson_oid_t *from, bool arrays);
void queue_append_hint(bson_t *command);

/* ---- answers ---- */

void queue_explain(int code, struct error *error);
uint64_t queue_read_at(const bson_t *reply);
/* The text where a pass has no snapshot. */
extern const char queue_no_snapshot[];

void queue_mark_set(struct queue_mark *mark, const struct element *id);
bool queue_name_refused(struct queue_mark *mark, const struct element *id, const char *flaw, struct error *error);
enum outcome queue_find_ids(struct mongo *mongo, const char *doing, bson_t *command, int32_t limit, bool snapshot, bson_t *reply,
                            bson_iter_t *documents, struct error *error);

#endif
