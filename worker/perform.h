/*
 * perform: carries out one action of a consumer, and says how it went. It knows the lockstore, the queue and the storage,
 * and decides nothing.
 *
 * One `struct performer` a type, the caller's memory; it holds what stays open between actions: the writer and the pass. Actions of
 * different activities may be performed at once, on different threads; of one activity, one at a time (the consumer sees to
 * that). Every action blocks, on the database for at most the connection's time-out, on the disk for as long as it takes.
 */
#ifndef PAWL_WORKER_PERFORM_H
#define PAWL_WORKER_PERFORM_H

#include "base.h"
#include "worker/consumer.h"
#include "worker/queue.h"

#include <stdatomic.h>

struct performer_options {
  struct lockstore *store;      /* borrowed */
  const char *database;         /* its name, for texts; borrowed */
  struct writer_options writer; /* with the type */
  struct lock_holder holder;
  int64_t lease_ms;
  int64_t batch_messages, batch_bytes;
  uint32_t range_messages_min; /* fewer are deleted by their `_id`s, which is faster than a transaction then */
};

struct performer {
  struct performer_options options;
  atomic_bool prepared;    /* collections and indexes were seen; cleared when the queue cannot be read, or a delete fails */
  atomic_bool unanswered;  /* the last request got no answer */
  atomic_bool way_unclear; /* a transaction may be open that nobody will end: a delete had no answer, or a holder died */
  struct writer writer;    /* MAIN's */
  bool writer_open;
  bool exact;                                /* GUARD found nothing behind the committed end: there will be nothing to cut */
  struct queue_reader *reader;               /* READ's; NULL: no memory */
  struct queue_pass *pass;                   /* READ's, and CLOSE's */
  struct queue_mark mark;                    /* PEEK's and READ's, of which one runs at a time */
  struct queue_eraser *erasers[DELETES_MAX]; /* a DELETE's each; NULL: not needed yet */
};

void performer_init(struct performer *performer, const struct performer_options *options);
/* Closes what is open. Only when no action is running. */
void performer_deinit(struct performer *performer);

/* From any thread: the reply that READ waits for is not wanted any more; it comes back soon, UNKNOWN. */
void performer_drop_read(struct performer *performer);
/* By the thread that drops, before it lets another perform a READ that begins a pass. */
void performer_take_up_read(struct performer *performer);

/* Not ACTION_RENEW. *completion is overwritten; its load, if any, belongs to the receiver. */
void perform(struct performer *performer, const struct action *action, struct completion *completion);

/*
 * --exit-when-empty: the last look at the queues of several types. YES: there is a message. Linearizable: a primary that was replaced, and
 * does not know it yet, would say that there is none.
 */
MUST_CHECK enum outcome perform_last_look(struct lockstore *store, const char *const *types, size_t count, struct error *error);

struct renewal {
  struct performer *performer; /* of one store, all */
  const struct action *action; /* ACTION_RENEW */
  struct completion *completion;
};
/* Those of several types in one request, so that each waits for one, however many there are. At least one. */
void perform_renewals(const struct renewal *renewals, size_t count);

#endif
