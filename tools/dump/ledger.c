#include "tools/dump/ledger.h"
#include "lockstore/ledger.h"
#include "lockstore/mongo.h"
#include "tools/patience.h"

#include <signal.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 5000, CONNECTIONS = 1 };

/* ---- the connection ---- */

/*
 * Starts the driver's threads. They inherit a mask that blocks all signals: a signal that comes between follow's test of dump_interrupted
 * and its wait has to end the wait. Sends nothing.
 */
static void threads_start(struct mongo *mongo)
{
  sigset_t all, before;
  struct error ignored;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  mongoc_client_t *client = mongo_client_take(mongo, "connecting", &ignored);
  if (client != NULL)
    mongo_client_give(mongo, client);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ledger_begin(struct ledgers *ledgers, const char *uri, const char *db)
{
  *ledgers = (struct ledgers){.uri = uri, .db = db};
  mongo_start();
}

static bool store_open(struct ledgers *ledgers, struct error *error)
{
  struct lockstore_options options = {
      .uri = ledgers->uri, .db = ledgers->db, .timeout_ms = TIMEOUT_MS, .connections_max = CONNECTIONS, .program = "pawl-dump"};
  ledgers->store = lockstore_open(&options, error);
  if (ledgers->store == NULL) {
    ledgers->failure = EXIT_USAGE;
    return false;
  }
  threads_start(lockstore_mongo(ledgers->store));
  return true;
}

/* ---- questions ---- */

/* YES: answered. NO: one ledger, or the answer, is of no use. UNKNOWN: no answer. */
typedef enum outcome question_send(struct lockstore *store, void *context, struct error *error);

/* REFUSED: a server that pawl cannot use. */
static enum outcome put_once(struct lockstore *store, question_send *send, void *context, struct error *error)
{
  struct mongo *mongo = lockstore_mongo(store);
  enum outcome outcome = mongo_is_known(mongo) ? OUTCOME_YES : mongo_hello(mongo, error);
  return outcome == OUTCOME_YES ? send(store, context, error) : outcome;
}

static bool put(struct ledgers *ledgers, question_send *send, void *context, struct error *error)
{
  struct error waiting;
  if (ledgers->store == NULL && !store_open(ledgers, error))
    return false;
  error_set(&waiting, "pawl-dump: waiting for %.400s to answer\n", mongo_server(lockstore_mongo(ledgers->store)));
  patience_begin(waiting.text);
  enum outcome outcome = put_once(ledgers->store, send, context, error);
  if (outcome == OUTCOME_UNKNOWN && ledgers->answered)
    outcome = put_once(ledgers->store, send, context, error);
  patience_end();
  ledgers->answered = outcome == OUTCOME_YES || outcome == OUTCOME_NO;
  if (!ledgers->answered)
    ledgers->failure = mongo_exit_code(outcome, error);
  return outcome == OUTCOME_YES;
}

struct asking {
  const char *type;
  struct ledger_answer *answer;
};

static enum outcome ask(struct lockstore *store, void *context, struct error *error)
{
  struct asking *asking = context;
  struct ledger ledger;
  enum outcome outcome = ledger_read(store, asking->type, &ledger, error);
  *asking->answer = (struct ledger_answer){.end = ledger.end, .epoch = ledger.epoch};
  switch (outcome) {
  case OUTCOME_YES:
  case OUTCOME_NO: /* there is none: all zero */
    return OUTCOME_YES;
  case OUTCOME_REFUSED:
    return OUTCOME_NO;
  case OUTCOME_UNKNOWN:
    return OUTCOME_UNKNOWN;
  }
  return OUTCOME_UNKNOWN;
}

bool ledger_ask(struct ledgers *ledgers, const char *type, struct ledger_answer *answer, struct error *error)
{
  struct asking asking = {.type = type, .answer = answer};
  return put(ledgers, ask, &asking, error);
}

/* ---- the list ---- */

struct listing {
  char (*types)[TYPE_BYTES_MAX + 1];
  size_t count, room;
  bool failed; /* no memory */
};

static bool listing_grow(struct listing *listing)
{
  size_t room = listing->room > 0 ? 2 * listing->room : 64;
  void *types = realloc(listing->types, room * sizeof *listing->types);
  if (types == NULL)
    return false;
  listing->types = types;
  listing->room = room;
  return true;
}

/* What a ledger cannot be read for, the type's own verdict will say. */
static void list_one(void *context, const char *type, const struct ledger *ledger, const char *problem)
{
  struct listing *listing = context;
  if (!type_name_valid(type) || (ledger->end.file[0] == '\0' && problem == NULL))
    return;
  if (listing->count == listing->room && !listing_grow(listing)) {
    listing->failed = true;
    return;
  }
  snprintf(listing->types[listing->count++], sizeof *listing->types, "%s", type);
}

static enum outcome list(struct lockstore *store, void *context, struct error *error)
{
  struct listing *listing = context;
  listing->count = 0; /* of a list that broke off */
  enum outcome outcome = ledger_list(store, NULL, list_one, listing, error);
  if (outcome != OUTCOME_YES || !listing->failed)
    return outcome;
  error_set(error, "no memory for the types in the ledger");
  return OUTCOME_NO;
}

bool ledger_list_types(struct ledgers *ledgers, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error)
{
  struct listing listing = {.types = NULL};
  bool listed = put(ledgers, list, &listing, error);
  *types = listing.types;
  *count = listing.count;
  return listed;
}
