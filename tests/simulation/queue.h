/*
 * queue: worker/queue.h for the simulation (queue.c), and the messages (messages.c). Every change of a type's queue is an
 * operation with a number. A pass sees the queue as it was after one of them, and that one is not before the latest that its
 * process has seen acknowledged (afterClusterTime).
 */
#ifndef PAWL_TESTS_SIMULATION_QUEUE_H
#define PAWL_TESTS_SIMULATION_QUEUE_H

#include "lockstore/ledger.h"

#include <bson/bson.h>

enum { SOURCES = SOURCE_OWN + 1 };

/* A document that is no message, in a collection that has the name of a type's own one. */
enum foreign {
  FOREIGN_NOT,
  FOREIGN_TYPE, /* it has another `type`: no worker's filter matches it */
  FOREIGN_BARE, /* it has none, as those of GridFS. Only where the type never gets a collection of its own */
};

struct message {
  int type, producer;
  enum queue_source source; /* the collection that it is inserted into */
  enum foreign foreign;
  int64_t index;  /* among the type's messages: `k` in the document */
  int64_t number; /* among its producer's messages: `n` in the document */
  int64_t id;     /* its `_id` */
  uint8_t *document;
  size_t bytes;
  bool queued;                 /* in the queue, as the majority sees it */
  bool inserted;               /* the majority has had the insert */
  uint64_t put_at, removed_at; /* operations; removed_at 0: not removed */
  int64_t seq;                 /* in committed file data; 0: not there */
};

struct queue_range {   /* a delete in a transaction */
  int64_t first, last; /* `_id`s */
  uint64_t read_at;    /* the delete sees the queue as it was after this operation */
  int64_t count;       /* the delete does nothing unless it finds this number */
};

void queue_begin(void);
void queue_end(void);

/* Not yet in the queue: type, producer, source, foreign, number and id are this one's. The message lives until queue_end. */
struct message *queue_message_new(const struct message *like);
struct message *queue_message(int type, int64_t index);
int64_t queue_message_count(int type);
void queue_insert(struct message *message);
/* Removes those of the named messages that are there; `part`: only some of them. Returns how many it removed. */
int64_t queue_remove(int type, enum queue_source source, const bson_t *ids, bool part);
/* False: nothing was removed. */
bool queue_remove_range(int type, enum queue_source source, const struct queue_range *range);
/* The messages of both collections, without foreign documents. */
size_t queue_length(int type);
bool queue_own_is_empty(int type);
/* Whether both collections were empty at some moment since then. */
bool queue_was_empty(int type, int64_t since_us);

/* queue_operation: the last operation that a majority has. queue_operation_latest: the last one of all. */
uint64_t queue_operation(void);
uint64_t queue_operation_latest(void);
void queue_election_begin(void);
void queue_election_end(bool keep);

#endif
