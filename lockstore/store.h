/* store: the inside of a lockstore. Private to lockstore. */
#ifndef PAWL_LOCKSTORE_STORE_H
#define PAWL_LOCKSTORE_STORE_H

#include "lockstore/mongo.h"
#include "lockstore/waiters.h"

#include <stdatomic.h>

/* An inbox has room for twenty of the longest wake-ups, which carry WAITERS_MAX inherited waiters. */
enum { WAKEUPS_BYTES = 256 * 1024, BOX_BYTES = 64 * 1024, BOXES = 8 };

struct lockstore {
  struct mongo *mongo;
  struct owner process;
  struct handed handed;
  pthread_mutex_t preparing;
  _Atomic uint64_t preparations;  /* calls of lockstore_prepare that have ended; the fields below are of the last one */
  int64_t prepared_ms;            /* from the options */
  _Atomic int64_t prepared_at_ms; /* on the boot-time clock: the time of the last YES */
  enum outcome prepared;
  struct error prepare_error;
};

/* The collections for wake-ups (wakeups.c): one for all processes, and BOXES inboxes. */
#define WAKEUPS_FOR_ALL "wakeups"
struct wakeups_name {
  char text[16];
};
struct wakeups_name box_name(int number);
struct wakeups_name box_of(const struct owner *process);

/*
 * Finds out which of the collections exist, and which do not belong to pawl; it avoids those from now on (mongo_avoids). Makes
 * the collection `name` if it is missing, and makes it capped if it is not. YES: it is there, or pawl works without it.
 * REFUSED: it is a view.
 */
MUST_CHECK enum outcome wakeups_prepare(struct mongo *mongo, const char *name, struct error *error);
/* Only reads, as wakeups_prepare does, and changes nothing. */
MUST_CHECK enum outcome wakeups_survey(struct mongo *mongo, struct error *error);
/*
 * Makes the collection, capped, if there is none, and inserts a first document, because a cursor that waits on an empty
 * collection dies. YES: it is there, capped or not.
 */
MUST_CHECK enum outcome wakeups_make(struct mongo *mongo, const char *name, int *code, struct error *error);
/*
 * If a wake-up was inserted before anything was prepared, MongoDB made a plain collection: converts it to a capped one.
 * REFUSED: it holds anything other than a few wake-ups, and stays as it is.
 */
MUST_CHECK enum outcome wakeups_convert_own(struct mongo *mongo, const char *name, int *code, struct error *error);
void wakeups_explain_foreign(const struct mongo *mongo, const char *name, struct error *error);
/* Inserts one document, and destroys it. YES without any effect: the collection is avoided. */
enum outcome wakeups_insert(struct mongo *mongo, const char *name, bson_t *document, int *code, struct error *error);

/* Wakes the first waiter other than this process, and passes the rest of the wait queue to it, and the epoch unless that is 0. */
void waiters_wake(struct lockstore *store, const char *type, int slot, int64_t epoch, struct waiters *waiters);
void waiters_append(bson_t *document, const char *field, const struct waiters *waiters);
/* Skips elements that are not nonces. */
void waiters_parse(const bson_t *document, struct waiters *waiters);

#endif
