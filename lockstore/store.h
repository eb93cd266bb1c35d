/* store: what a lockstore is made of. Private to lockstore. */
#ifndef PAWL_LOCKSTORE_STORE_H
#define PAWL_LOCKSTORE_STORE_H

#include "lockstore/mongo.h"
#include "lockstore/waiters.h"

#include <stdatomic.h>

/* A box holds twenty of the longest wake-ups, those that hand on a row of WAITERS_MAX. */
enum { WAKEUPS_BYTES = 256 * 1024, BOX_BYTES = 64 * 1024, BOXES = 8 };

struct lockstore {
  struct mongo *mongo;
  struct owner process;
  struct handed handed;
  pthread_mutex_t preparing;
  _Atomic uint64_t preparations;  /* that have ended; what follows is of the last one */
  int64_t prepared_ms;            /* options */
  _Atomic int64_t prepared_at_ms; /* on the boot-time clock: the last time it was YES */
  enum outcome prepared;
  struct error prepare_error;
};

/* The collections of wake-ups (wakeups.c): one for all, and BOXES for what is for one process. */
#define WAKEUPS_FOR_ALL "wakeups"
struct wakeups_name {
  char text[16];
};
struct wakeups_name box_name(int number);
struct wakeups_name box_of(const struct owner *process);

/*
 * Looks which of them there are, and which are not pawl's: those are avoided from now on (mongo_avoids). The one of that name is made where
 * it is missing, and made capped. YES: it is there, or one does without. REFUSED: it is a view.
 */
MUST_CHECK enum outcome wakeups_prepare(struct mongo *mongo, const char *name, struct error *error);
/* Only looks. */
MUST_CHECK enum outcome wakeups_survey(struct mongo *mongo, struct error *error);
/*
 * Makes the collection, capped, unless there is one, and puts a first document in, for a cursor that waits on an empty one dies. YES: it
 * is there, capped or not.
 */
MUST_CHECK enum outcome wakeups_make(struct mongo *mongo, const char *name, int *code, struct error *error);
/*
 * Whoever inserts the first wake-up before anything was prepared makes a plain collection of it: makes it a capped one. REFUSED: it holds
 * something else than a few wake-ups, and is left as it is.
 */
MUST_CHECK enum outcome wakeups_convert_own(struct mongo *mongo, const char *name, int *code, struct error *error);
void wakeups_explain_foreign(const struct mongo *mongo, const char *name, struct error *error);
/* One document, which is destroyed. YES, and nothing done: the collection is avoided. */
enum outcome wakeups_insert(struct mongo *mongo, const char *name, bson_t *document, int *code, struct error *error);

/* Wakes the first of the row, but for this process itself, and hands it the rest, and the epoch, unless that is 0. */
void waiters_wake(struct lockstore *store, const char *type, int slot, int64_t epoch, struct waiters *waiters);
void waiters_append(bson_t *document, const char *field, const struct waiters *waiters);
/* What is no nonce is left out. */
void waiters_parse(const bson_t *document, struct waiters *waiters);

#endif
