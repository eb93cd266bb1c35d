/*
 * queue: how a worker reads and deletes the messages in MongoDB. Apart from lockstore, this is the only part of a worker that
 * knows the driver.
 *
 * Threads: any thread may call any function, but only one at a time may use a reader and its pass. Each call blocks for at most
 * the connection's time-out; queue_pass_next blocks as long as bytes of a reply come (lockstore/connection.h).
 */
#ifndef PAWL_WORKER_QUEUE_H
#define PAWL_WORKER_QUEUE_H

#include "base.h"
#include "lockstore/lockstore.h"
#include "worker/work_item.h"

#include <stdlib.h>

/* For the log, after a YES of lockstore_prepare: what the server is, and what follows from that. */
void queue_describe(struct lockstore *store, struct error *text);

enum { QUEUE_NAMED_MAX = 64 };
/*
 * What this process remembers of a type's queue: the last `_id` that it has read, and which documents that cannot be taken
 * (message_id.h) it has named.
 *
 * The `_id` is kept only if it is an ObjectId, because these rise with time. It lies after the deleted documents, so a tail
 * poll from there is cheap, however many were deleted. Only a poll from the beginning finds messages that came since with a
 * smaller `_id`.
 */
struct queue_mark {
  bool set;
  bson_oid_t id;
  uint64_t *named; /* hashes of their `_id`s, QUEUE_NAMED_MAX; NULL: none was named yet */
  int named_count;
  bool refused_seen; /* SOURCE_OWN: what cannot be taken was looked for since the last message was read */
};
/* Of `messages`, and of the type's own collection. */
struct queue_marks {
  struct queue_mark shared, own;
};
static inline bool queue_marks_name(const struct queue_marks *marks)
{
  return marks->shared.named_count > 0 || marks->own.named_count > 0;
}
static inline void queue_marks_deinit(struct queue_marks *marks)
{
  free(marks->shared.named);
  free(marks->own.named);
}

/*
 * Polls the queues of the types. YES: there is a message of one of them. NO: there is none, but perhaps documents that cannot
 * be taken; `error`, if it is set, names one that was not named before. After each thousand of such documents it asks again.
 *
 * `linearizable`: the state as of now, whichever process wrote it (a standalone server: local). `mark`: NULL, or the mark of
 * the only type; it is set to the greatest `_id` found. `tail`: a tail poll from the mark, if that is set.
 */
MUST_CHECK enum outcome queue_poll(struct lockstore *store, const char *const *types, size_t count, bool linearizable,
                                   struct queue_mark *mark, bool tail, struct error *error);

/* The same of the type's own collection. A missing one is UNKNOWN on a replica set, never NO. */
MUST_CHECK enum outcome queue_poll_own(struct lockstore *store, const char *type, struct queue_mark *mark, bool tail, struct error *error);
/*
 * --exit-when-empty, of types with their own collections: polls `messages` and these at one moment, which is not before anything that this
 * process has seen. A missing one is never NO.
 */
MUST_CHECK enum outcome queue_poll_both(struct lockstore *store, const char *const *types, size_t count, struct error *error);

/* The messages of a type in one collection. */
struct queue_part {
  const char *type;
  enum queue_source source; /* not SOURCE_BOTH */
  uint64_t read_at;         /* of a pass, SOURCE_OWN: the cluster time of the pass of `messages` before it; 0: a standalone server */
};

/*
 * Deletes the messages of the part with these `_id`s (an array of raw values). YES: acknowledged; *removed of them were there.
 * If that is fewer than named, queue_find_left tells whether the others were gone, or were there and not found.
 */
MUST_CHECK enum outcome queue_delete(struct lockstore *store, const struct queue_part *part, const bson_t *ids, int64_t *removed,
                                     struct error *error);
/*
 * Reads messages with these `_id`s, by the filter of the delete, in a snapshot that is not older than what this process
 * has seen acknowledged. YES: one is there, and `error` names it. NO: none is.
 */
MUST_CHECK enum outcome queue_find_left(struct lockstore *store, const struct queue_part *part, const bson_t *ids, struct error *error);

/*
 * Ends abandoned transactions. Call it before a delete after an unknown answer, or of what a dead holder left: such a
 * transaction would keep its documents locked for a minute. Its own result does not matter.
 */
void queue_clear_way(struct lockstore *store);

/*
 * Deletes an item's messages by the range of their `_id`s, which costs the server much less. It runs in a transaction that sees
 * the queue as the item's pass did, so messages that came later into the range stay. YES: deleted, and nothing else was. NO:
 * nothing was deleted, and this way is not possible: delete by `_id`s. UNKNOWN: perhaps deleted. Only if item->read_at is not
 * 0.
 */
MUST_CHECK enum outcome queue_delete_range(struct lockstore *store, const char *type, const struct work_item *item, struct error *error);

/*
 * Shared by all passes of a type: a connection, from the first pass until it rests, and the number of documents in a request.
 * After a reply that did not come the next request asks for a quarter, down to one; after a quick reply for twice as many, up to
 * a batch.
 */
struct queue_reader;
/* It rests, and holds no descriptor. NULL: no memory. */
MUST_CHECK struct queue_reader *queue_reader_new(struct lockstore *store);
void queue_reader_free(struct queue_reader *reader); /* NULL is allowed. Only after its pass */
/* The awaited reply is not needed any more: queue_pass_next answers UNKNOWN at once, and again until queue_reader_take_up. From
 * any thread. */
void queue_reader_drop(struct queue_reader *reader);
/*
 * Call it before a pass is opened, on the thread that drops, so that it does not undo a drop that comes while the pass is being
 * opened. Does not block.
 */
void queue_reader_take_up(struct queue_reader *reader);
/* Gives its connection back, until the next take-up. Only when it has no pass, and nobody drops. */
void queue_reader_rest(struct queue_reader *reader);

/*
 * One pass: the messages of a part at one moment of the cluster's time, by rising `_id`, read to its end. That moment lies after
 * everything that this process has seen acknowledged (afterClusterTime); of SOURCE_OWN it is part->read_at. A reader has one pass at a
 * time.
 */
struct queue_pass;
/* NULL: no memory, or no descriptor. Sends nothing yet. Reading sets `mark`, which must outlive the pass. */
MUST_CHECK struct queue_pass *queue_pass_open(struct queue_reader *reader, const struct queue_part *part, int64_t batch_messages,
                                              int64_t batch_bytes, struct queue_mark *mark);
/* Its cluster time, once it is known; 0: not known, or a standalone server. */
uint64_t queue_pass_read_at(const struct queue_pass *pass);
/*
 * Reads the next batch. YES: *item (the caller frees it) has at least one message, and is within the caps unless a single
 * message is larger; or *item is NULL, and `error` names a document that cannot be taken and was not named before. The pass
 * goes on without such documents. NO: the pass is over. UNKNOWN: it ended early, for any reason; the next pass reads the rest.
 *
 * A request asks for `ask_documents` at most. 0: none is sent, and if nothing is left of the last answer, *item is NULL and
 * `error` untouched.
 *
 * No request is sent twice, because the cursor would skip what it sent in a lost reply. On a replica set an answer without
 * documents is NO only with the cluster time of its snapshot: a missing collection reads as empty, too, but without that time.
 */
MUST_CHECK enum outcome queue_pass_next(struct queue_pass *pass, int64_t ask_documents, struct work_item **item, struct error *error);
/* What the pass has in memory: its last answer, unless that is used up, and the bytes of the documents that are left in it. */
void queue_pass_holds(const struct queue_pass *pass, int64_t *answer_bytes, int64_t *left_bytes);
/*
 * `answers`: the server answers, and is asked to close the cursor; otherwise the cursor ends by the server's own time-out. NULL
 * is allowed.
 */
void queue_pass_close(struct queue_pass *pass, bool answers);

#endif
