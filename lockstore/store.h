/* store: the inside of a lockstore. Private to lockstore. */
#ifndef PAWL_LOCKSTORE_STORE_H
#define PAWL_LOCKSTORE_STORE_H

#include "lockstore/ledger.h"
#include "lockstore/mongo.h"
#include "lockstore/wait_queue.h"

#include <pthread.h>
#include <stdatomic.h>

#define WAKEUPS "wakeups"
enum { WAKEUPS_BYTES = 256 * 1024 };

struct lockstore {
  struct mongo *mongo;
  struct address address;
  pthread_mutex_t preparing;
  _Atomic uint64_t preparations;  /* calls of lockstore_prepare that have ended; the fields below are of the last one */
  int64_t prepared_ms;            /* from the options */
  _Atomic int64_t prepared_at_ms; /* on the boot-time clock; 0: that was not YES */
  enum outcome prepared;
  struct error prepare_error;
};

/*
 * The collection `wakeups` (wakeup_collection.c). wakeups_prepare finds out whether it exists, and whether it is pawl's; if not, pawl
 * avoids it from now on (mongo_avoids_wakeups). Makes it if it is missing, and makes it capped if it is not. YES: it is there,
 * or pawl works without it. REFUSED: it is a view.
 */
MUST_CHECK enum outcome wakeups_prepare(struct mongo *mongo, struct error *error);
/* Only reads, as wakeups_prepare does, and changes nothing. */
MUST_CHECK enum outcome wakeups_survey(struct mongo *mongo, struct error *error);
/*
 * Makes it, capped, if there is none, and inserts a first document, because a cursor that waits on an empty collection dies.
 * YES: it is there, capped or not.
 */
MUST_CHECK enum outcome wakeups_make(struct mongo *mongo, int *code, struct error *error);
/*
 * If a wake-up was inserted before anything was prepared, MongoDB made a plain collection: converts it to a capped one.
 * REFUSED: it holds anything other than a few wake-ups, and stays as it is.
 */
MUST_CHECK enum outcome wakeups_convert_own(struct mongo *mongo, int *code, struct error *error);
void wakeups_explain_foreign(const struct mongo *mongo, struct error *error);
/* Inserts one document, and destroys it. YES without any effect: the collection is avoided. */
enum outcome wakeups_insert(struct mongo *mongo, bson_t *document, int *code, struct error *error);

/* The projection of a find of lock documents, and what a document then says: its outcome is lock_read's. */
void lock_append_view(bson_t *command);
MUST_CHECK enum outcome lock_parse_view(const bson_t *document, struct lock_view *view, struct error *error);
/* The field `name` of a holder or a waiter, which anybody may have written: empty if it is missing, or not as --name takes it. */
void lock_name_parse(const bson_t *document, char name[PROCESS_NAME_BYTES_MAX + 1]);
/* The same field, if there is a name. */
void lock_append_name(bson_t *document, const struct lock_holder *holder);
const char *lock_kind_name(enum lock_kind kind);
/* The field `kind`. False: it is none; *kind is LOCK_BY_WORKER. */
bool lock_kind_parse(const bson_t *document, enum lock_kind *kind);
/* `_id` of the document in `ledger` that is the floor of all ledgers. No name has an @. */
#define LEDGER_FLOOR "@floor"
/*
 * What a ledger of v 2 needs a pawl to know (`needs`): a set of words, each with a flag in struct ledger. Each change adds or removes its
 * own word and leaves the others. ledger_needs.c has the list.
 */
#define LEDGER_NEED_PAUSED "paused"
#define LEDGER_NEED_OWN "own"
#define LEDGER_NEED_MOVED "moved"
/* Reads it, into the flags. REFUSED: malformed, or a word is unknown (newer). */
MUST_CHECK enum outcome ledger_needs_parse(const bson_t *document, const char *type, struct ledger *ledger, struct error *error);
/* To a filter: any ledger that needs nothing but what a tool can fence; without `tool` nothing but what a worker can work with. */
void ledger_needs_append_known(bson_t *filter, bool tool);
/* To a filter: v and needs as this ledger has them; and to a document. */
void ledger_needs_append_same(bson_t *filter, const struct ledger *ledger);
void ledger_needs_append(bson_t *document, const struct ledger *ledger);
/* To an array of pipeline stages, from `index` on: adds the word to `needs`, or removes it, and makes `v` what follows from that. */
void ledger_needs_append_change(bson_t *stages, int index, const char *word, bool add);
/* A document of `ledger`. YES; NO: it is just being made, and *ledger has its birth alone; REFUSED, as ledger_read. */
MUST_CHECK enum outcome ledger_parse(const bson_t *document, const char *type, struct ledger *ledger, struct error *error);
/* Adds to the error of what is REFUSED which database it is in: the type alone does not say. */
enum outcome ledger_name_database(enum outcome outcome, const struct mongo *mongo, struct error *error);

/* The wait queue in its document; entries that are no waiters are skipped. now_ms stays as it is. */
void wait_queue_parse(const bson_t *document, struct wait_queue *queue);

/* To the updates of a command whose first is the take: the removal from the wait queue that goes with it. */
void wait_queue_append_departure(bson_t *updates, const char *type, const struct owner *taker, const struct departure *departure);

#endif
