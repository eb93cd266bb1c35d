/*
 * memory_private: the inside of the twin. Shared by memory.c (server, calls, wake-ups), memory_lock.c (mutex and wait queue) and
 * memory_ledger.c; private to these.
 */
#ifndef PAWL_LOCKSTORE_MEMORY_PRIVATE_H
#define PAWL_LOCKSTORE_MEMORY_PRIVATE_H

#include "lockstore/lockstore_memory.h"
#include "lockstore/wait_queue.h"
#include "lockstore/wakeup.h"

#include <pthread.h>

enum { TTL_MS_MAX = 3600000, MEMORY_WAKEUPS_MAX = 64 };

struct queue_document {
  char type[TYPE_BYTES_MAX + 1]; /* empty: no document */
  struct wait_queue queue;
};

struct lock_document {
  char type[TYPE_BYTES_MAX + 1]; /* empty: no document */
  int slot;
  struct owner owner;
  struct lock_holder holder;
  int64_t acquired_ms, expires_ms, ttl_ms;
};

struct wakeup_document {
  struct wakeup wakeup;
  bool to_all;
};

struct ledger_document {
  char type[TYPE_BYTES_MAX + 1];
  struct ledger ledger; /* with `newer` no change matches it */
  bool malformed;       /* `newer` stands for that */
};

struct user_document { /* of a user's own collection: only the lock library on the twin has these */
  char collection[256];
  struct _bson_t *bson;
};

struct memory_server {
  pthread_mutex_t mutex;
  int64_t now_ms;
  bool away;
  struct lock_document *locks;
  struct queue_document *queues;
  struct ledger_document *ledgers; /* in order of type */
  struct user_document *documents;
  int lock_room, queue_room, ledger_room, document_room; /* of the arrays; what is not used is zero */
  int ledger_count, document_count;
  int64_t floor;                                      /* of the epochs of ledgers that are made */
  struct wakeup_document wakeups[MEMORY_WAKEUPS_MAX]; /* a ring, like a capped collection */
  int64_t wakeup_count;                               /* ever sent */
  int64_t store_count;                                /* ever opened */
};

struct lockstore {
  struct memory_server *server;
  struct address address;
  uint64_t random;
  bool away;
  int skipping; /* calls until they begin that are */
  int failing;  /* still to answer UNKNOWN */
  bool failing_applied;
  void (*answered)(void *context); /* NULL: none */
  void *context;
};

static inline bool owner_equal(const struct owner *a, const struct owner *b)
{
  return memcmp(a->bytes, b->bytes, OWNER_BYTES) == 0;
}

/* Makes an array at least so long; what is new in it is zero. Where it lies may change. */
void *memory_grow(void *array, int *room, int wanted, size_t size);

/* What every call does first and last. False: the server is away, or the call shall fail. */
bool memory_call_begin(struct lockstore *store, bool *lost);
enum outcome memory_call_end(struct lockstore *store, bool lost, enum outcome outcome, struct error *error);

/* Its `why` is empty. */
struct wakeup *memory_wakeup_make(struct memory_server *server, const char *type, enum wakeup_about about, const struct owner *to,
                                  int64_t epoch);
void memory_documents_free(struct memory_server *server);
struct ledger_document *memory_ledger_find(struct memory_server *server, const char *type);
struct ledger_document *memory_ledger_make(struct memory_server *server, const char *type);

#endif
