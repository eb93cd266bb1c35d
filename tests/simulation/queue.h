/*
 * queue: worker/queue.h for the simulation (queue.c), and the messages (messages.c). Every change of a type's queue is an operation with a
 * number; a pass sees the queue as it was after one of them, not before the latest that its process has seen acknowledged
 * (afterClusterTime).
 */
#ifndef PAWL_TESTS_SIMULATION_QUEUE_H
#define PAWL_TESTS_SIMULATION_QUEUE_H

#include "base.h"

#include <bson/bson.h>

struct message {
  int type, producer;
  int64_t index;  /* among the type's messages: in the document as `k` */
  int64_t number; /* among its producer's: in the document as `n` */
  int64_t id;     /* its `_id` */
  uint8_t *document;
  size_t bytes;
  bool queued;                 /* by the majority */
  bool inserted;               /* has been, by the majority */
  uint64_t put_at, removed_at; /* operations; removed_at 0: it is there */
  int64_t seq;                 /* in committed file data; 0: not there */
};

struct queue_range {   /* a delete in a transaction */
  int64_t first, last; /* `_id`s */
  uint64_t read_at;    /* the operation that it sees the queue after */
  int64_t count;       /* as many as there must be, or it does nothing */
};

void queue_begin(void);
void queue_end(void);

/* Not yet in the queue. Lives until queue_end. */
struct message *queue_message_new(int type, int producer, int64_t number, int64_t id);
struct message *queue_message(int type, int64_t index);
int64_t queue_message_count(int type);
void queue_insert(struct message *message);
/* Those that are there; `part`: only some of them. How many that were. */
int64_t queue_remove(int type, const bson_t *ids, bool part);
/* False: nothing was removed. */
bool queue_remove_range(int type, const struct queue_range *range);
size_t queue_length(int type);
/* Was it, at some moment since then? */
bool queue_was_empty(int type, int64_t since_us);

/* The last one that a majority has; and the last one of all. */
uint64_t queue_operation(void);
uint64_t queue_operation_latest(void);
void queue_election_begin(void);
void queue_election_end(bool keep);

#endif
