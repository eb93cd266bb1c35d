/*
 * perform: performs one action of a consumer, and reports the result. It knows the lockstore, the queue and the storage, and
 * decides nothing.
 *
 * One `struct performer` per type, the caller's memory; it holds what stays open between actions, the writer and the pass. From
 * CLOSE to the next OPEN it holds neither descriptor nor connection.
 * Actions of different activities may run at the same time, on different threads; of one activity only one at a time (the
 * consumer guarantees that). Every action blocks: on the database for at most the connection's time-out, on the disk without a
 * limit.
 */
#ifndef PAWL_WORKER_PERFORM_H
#define PAWL_WORKER_PERFORM_H

#include "base.h"
#include "storage/writer.h"
#include "worker/action.h"
#include "worker/budget.h"
#include "worker/message_trace.h"
#include "worker/queue.h"

#include <stdatomic.h>

struct performer_options {
  struct lockstore *store;      /* borrowed */
  const char *database;         /* its name, for texts; borrowed */
  struct writer_options writer; /* with the type */
  struct lock_holder holder;
  int64_t batch_messages, batch_bytes;
  const struct message_trace *trace; /* borrowed; NULL: no field of the messages is traced */
  uint32_t range_messages_min;       /* smaller batches are deleted by their `_id`s, which is faster than a transaction then */
};

struct performer {
  struct performer_options options;
  atomic_bool rechecks; /* collections and indexes are to be checked again: the queue could not be read, or a delete failed */
  /* The own collection was checked after that preparation of the store, which all types share (lockstore_prepared_at_ms); 0: never. */
  _Atomic int64_t own_prepared_at_ms;
  atomic_bool unanswered;   /* the last request got no answer */
  atomic_bool way_unclear;  /* an abandoned transaction may be open: a delete had no answer, or a holder died */
  _Atomic int64_t until_ms; /* performer_until */
  _Atomic int64_t batch_messages, batch_bytes;
  struct writer *writer;       /* of MAIN, from OPEN to CLOSE; NULL: none */
  struct budget_share share;   /* the submitter's (jobs.h): how much memory the type has, */
  int64_t answer_bytes;        /* of that the last answer, and the batches that will be made of it */
  struct queue_reader *reader; /* of READ; NULL: no memory */
  struct queue_pass *pass;     /* of READ and CLOSE */
  /* Of POLL and READ, of which one runs at a time: of `messages`, and of the type's own collection. */
  struct queue_marks marks;
};

void performer_init(struct performer *performer, const struct performer_options *options);
/* Closes what is open. Only when no action is running. */
void performer_deinit(struct performer *performer);

/*
 * From any thread: how long a running action may begin its next step, by the boot-time clock. It never cuts a step short, and
 * what is synced is still committed. 0: not at all, until the next call.
 */
void performer_until(struct performer *performer, int64_t until_ms);
/* From any thread: the size of the batches of the passes that begin after this. */
void performer_batches(struct performer *performer, int64_t messages, int64_t bytes);
/* From any thread: the reply of the running READ is not needed any more; READ soon returns UNKNOWN. */
void performer_drop_read(struct performer *performer);
/* Only by the thread that drops, before it lets another thread perform a READ that begins a pass. */
void performer_take_up_read(struct performer *performer);

/* Not for ACTION_RENEW. *completion is overwritten; its item, if any, belongs to the caller. */
void perform(struct performer *performer, const struct action *action, struct completion *completion);
/* Does nothing, and answers NO. */
void perform_skip(const struct action *action, struct completion *completion);

/*
 * --exit-when-empty: the last poll of the queues of several types. YES: there is a message. Linearizable, because a primary
 * that was replaced, and does not know it yet, might answer that there is none.
 */
MUST_CHECK enum outcome perform_last_poll(struct lockstore *store, const char *const *types, size_t count, struct error *error);

struct renewal {
  struct performer *performer; /* all of one store */
  const struct action *action; /* ACTION_RENEW */
  struct completion *completion;
};
/* Sends the renewals of several types in one request, so that each waits for one request only. At least one renewal. */
void perform_renewals(const struct renewal *renewals, size_t count);

#endif
