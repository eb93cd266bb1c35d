/*
 * queue: the messages in MongoDB, as a worker reads and deletes them. With lockstore, the only place that knows the driver.
 *
 * Threads: every function may be called from any thread; one reader and its pass, though, by one at a time. Each call blocks for at
 * most the time-out of the connection; but queue_pass_next as long as bytes of a reply come (lockstore/link.h).
 */
#ifndef PAWL_WORKER_QUEUE_H
#define PAWL_WORKER_QUEUE_H

#include "base.h"
#include "lockstore/lockstore.h"
#include "worker/load.h"

/* For the log, once lockstore_prepare has said YES: what the server is, and what follows from that. */
void queue_describe(struct lockstore *store, struct error *text);

enum { QUEUE_NAMED_MAX = 64 };
/*
 * What this process remembers of a type's queue. The last `_id` that it has read, where it is an ObjectId, for these rise with time: a
 * place behind what is deleted, from which a look is cheap however much that was. What came with a smaller one since is seen only from
 * the beginning. And which documents that cannot be taken (message_id.h) it has named.
 */
struct queue_mark {
  bool set;
  bson_oid_t id;
  uint64_t named[QUEUE_NAMED_MAX]; /* hashes of their `_id`s */
  int named_count;
};

/*
 * YES: there is a message of one of the types; NO: there was none, but perhaps documents that cannot be taken: `error`, if it is set, names
 * one that was not named before. Behind a thousand of those it asks once more for each thousand. `linearizable`: as of now, whoever wrote
 * it (a standalone server: local). `mark`: of one type, is set by what is found, the greatest `_id` of it; or NULL. `glance`: begin there,
 * if it is set.
 */
MUST_CHECK enum outcome queue_peek(struct lockstore *store, const char *const *types, size_t count, bool linearizable,
                                   struct queue_mark *mark, bool glance, struct error *error);

/*
 * Deletes the messages of the type with these `_id`s (an array of raw values). YES: acknowledged; *removed were there. Fewer than were
 * named: queue_find_left tells whether the others were gone, or were not found though they are there.
 */
MUST_CHECK enum outcome queue_delete(struct lockstore *store, const char *type, const bson_t *ids, int64_t *removed, struct error *error);
/*
 * Looks for messages with these `_id`s, by the very filter of the delete, in a snapshot that is not older than what this process has seen
 * acknowledged. YES: one is there, and `error` names it. NO: none is.
 */
MUST_CHECK enum outcome queue_find_left(struct lockstore *store, const char *type, const bson_t *ids, struct error *error);

/*
 * Before deleting again after an unknown outcome, or what a dead holder left: transactions that nobody will end would keep its documents
 * closed for a minute. What comes of it does not matter.
 */
void queue_clear_way(struct lockstore *store);

struct queue_eraser; /* holds a connection; one thread at a time */
/* NULL: no memory. */
MUST_CHECK struct queue_eraser *queue_eraser_new(struct lockstore *store);
void queue_eraser_free(struct queue_eraser *eraser); /* NULL is allowed */
/*
 * Deletes a load's messages by the range of their `_id`s, which costs the server much less, in a transaction that sees the queue as the
 * load's pass did: what came late into the range stays. YES: deleted, and nothing else was. NO: nothing was, and it is not to be had this
 * way: by their `_id`s. UNKNOWN: perhaps. Only if load->read_at is not 0.
 */
MUST_CHECK enum outcome queue_delete_range(struct queue_eraser *eraser, const char *type, const struct load *load, struct error *error);

/*
 * What passes have in common: a connection of its own, and how many documents are asked for. After a reply that did not come these
 * are a quarter, down to one; after a quick one twice as many, up to a batch.
 */
struct queue_reader;
/* Does not connect. NULL: no memory, or no descriptor. */
MUST_CHECK struct queue_reader *queue_reader_new(struct lockstore *store);
void queue_reader_free(struct queue_reader *reader); /* NULL is allowed. After its pass */
/* The reply that is waited for is not wanted any more: queue_pass_next says UNKNOWN at once, and again until queue_reader_take_up. From any
 * thread. */
void queue_reader_drop(struct queue_reader *reader);
/* Before a pass is opened, by the thread that drops: so a drop stands that comes while the pass is still on its way. */
void queue_reader_take_up(struct queue_reader *reader);

/*
 * One pass: the queue of a type at one moment of the cluster's time, by rising `_id`, read to its end. It begins after everything
 * that this process has seen acknowledged (afterClusterTime). A reader has one at a time.
 */
struct queue_pass;
/* NULL: no memory. Nothing is sent yet. `mark` is set by what is read, and must outlive the pass. */
MUST_CHECK struct queue_pass *queue_pass_open(struct queue_reader *reader, const char *type, int64_t batch_messages, int64_t batch_bytes,
                                              struct queue_mark *mark);
/*
 * The next batch. YES: *load (the caller frees it), at least one message, within the caps but for a single large one; or NULL, and `error`
 * names a document that cannot be taken and was not named before. Such documents are passed over. NO: the pass is over. UNKNOWN: it
 * ended early, for any reason; the next pass will see the rest. Nothing is asked for twice: what a cursor has sent into a lost reply it
 * would pass over. On a replica set an answer without documents is NO only with the cluster time of its snapshot: a collection that is
 * missing reads as empty, and has none.
 */
MUST_CHECK enum outcome queue_pass_next(struct queue_pass *pass, struct load **load, struct error *error);
/* `answers`: the server is there, and is told to forget the cursor; else that waits for the server's own time-out. NULL is allowed. */
void queue_pass_close(struct queue_pass *pass, bool answers);

#endif
