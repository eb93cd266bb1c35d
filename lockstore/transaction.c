#include "lockstore/transaction.h"

#include <stdlib.h>

/*
 * By hand, for the driver's own transactions cannot be given a cluster time. The server writes each one down in its session's record, and
 * that is a conflict if the record was last written after the time that the transaction sees: so a session serves once for a
 * time. They are kept, and serve again for a later one; given back to the driver they could come to somebody whose time is earlier.
 */
enum { SESSIONS_MAX = 1024, LEFT_MICROSECONDS = 1000000 };

struct mongo_transactor {
  struct mongo *mongo;
  mongoc_client_t *client; /* NULL: none came free yet */
  mongoc_client_session_t *sessions[SESSIONS_MAX];
  int made, used; /* `used` at the time `at` */
  uint64_t at;
  bson_t opts; /* the session */
  int64_t number;
};

struct mongo_transactor *mongo_transactor_new(struct mongo *mongo)
{
  struct mongo_transactor *transactor = calloc(1, sizeof *transactor);
  if (transactor)
    transactor->mongo = mongo;
  return transactor;
}

static void disconnect(struct mongo_transactor *transactor)
{
  for (int i = 0; i < transactor->made; i++)
    mongoc_client_session_destroy(transactor->sessions[i]);
  if (transactor->client)
    mongo_client_give(transactor->mongo, transactor->client);
  transactor->made = transactor->used = 0;
  transactor->client = NULL;
}

void mongo_transactor_free(struct mongo_transactor *transactor)
{
  if (!transactor)
    return;
  disconnect(transactor);
  free(transactor);
}

static mongoc_client_session_t *session_next(struct mongo_transactor *transactor, uint64_t at, bson_error_t *reason)
{
  if (transactor->at != at)
    transactor->used = 0;
  transactor->at = at;
  if (transactor->used == SESSIONS_MAX)
    return NULL;
  if (transactor->used == transactor->made) {
    mongoc_session_opt_t *options = mongoc_session_opts_new();
    mongoc_session_opts_set_causal_consistency(options, false);
    mongoc_client_session_t *session = mongoc_client_start_session(transactor->client, options, reason);
    mongoc_session_opts_destroy(options);
    if (!session)
      return NULL;
    transactor->sessions[transactor->made++] = session;
  }
  return transactor->sessions[transactor->used++];
}

static void append_transaction(const struct mongo_transactor *transactor, bson_t *command)
{
  BSON_APPEND_INT64(command, "txnNumber", transactor->number);
  BSON_APPEND_BOOL(command, "autocommit", false);
}

static enum outcome transaction_end(struct mongo_transactor *transactor, const char *doing, const char *how, int *code, struct error *error)
{
  bson_t *command = BCON_NEW(how, BCON_INT32(1)), reply;

  append_transaction(transactor, command);
  mongo_append_write_concern(command);
  enum outcome outcome =
      mongo_db_command(transactor->mongo, transactor->client, "admin", doing, command, &transactor->opts, &reply, code, error);
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

/* The server may have it open, and it is not wanted. NO: nothing was done. */
static enum outcome transaction_abort(struct mongo_transactor *transactor, const char *doing, bool commit_sent)
{
  struct error ignored;
  int code = 0;
  enum outcome outcome = transaction_end(transactor, doing, "abortTransaction", &code, &ignored);
  return outcome == OUTCOME_YES || !commit_sent ? OUTCOME_NO : OUTCOME_UNKNOWN;
}

static enum outcome transaction_run(struct mongo_transactor *transactor, const char *doing, bson_t *command, int64_t expected,
                                    struct error *error)
{
  bson_t concern, reply;
  int code = 0;
  int64_t count = 0;
  BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
  BSON_APPEND_UTF8(&concern, "level", "snapshot");
  BSON_APPEND_TIMESTAMP(&concern, "atClusterTime", (uint32_t)(transactor->at >> 32), (uint32_t)transactor->at);
  bson_append_document_end(command, &concern);
  BSON_APPEND_BOOL(command, "startTransaction", true);
  append_transaction(transactor, command);
  enum outcome outcome =
      mongo_client_command(transactor->mongo, transactor->client, doing, command, &transactor->opts, &reply, &code, error);
  bool counted = outcome == OUTCOME_YES && mongo_reply_count(&reply, doing, &count, error) && count == expected;
  bson_destroy(&reply);
  if (outcome == OUTCOME_UNKNOWN && code == 0) /* no answer: an abort would have none, either, and the transaction may be open */
    return OUTCOME_UNKNOWN;
  if (!counted) {
    if (outcome == OUTCOME_YES)
      error_set(error, "%s: not as many documents as expected", doing);
    return transaction_abort(transactor, doing, false);
  }
  outcome = transaction_end(transactor, doing, "commitTransaction", &code, error);
  return outcome == OUTCOME_YES ? OUTCOME_YES : transaction_abort(transactor, doing, true);
}

enum outcome mongo_transaction(struct mongo_transactor *transactor, const char *doing, bson_t *command, uint64_t at, int64_t expected,
                               struct error *error)
{
  bson_error_t reason = {.message = "too many at one time"};
  if (transactor->client && mongo_client_is_left(transactor->mongo, transactor->client))
    disconnect(transactor);
  if (!transactor->client && !(transactor->client = mongo_client_take(transactor->mongo, doing, error)))
    return OUTCOME_NO;
  mongoc_client_session_t *session = session_next(transactor, at, &reason);
  enum outcome outcome = OUTCOME_NO;
  bson_init(&transactor->opts);
  transactor->number = mongo_transaction_number(transactor->mongo);
  if (session && mongoc_client_session_append(session, &transactor->opts, &reason))
    outcome = transaction_run(transactor, doing, command, expected, error);
  else
    error_set(error, "%s: %s", doing, reason.message);
  bson_destroy(&transactor->opts);
  return outcome;
}

static enum outcome sessions_kill(struct mongo *mongo, const bson_t *sessions, struct error *error)
{
  bson_t command = BSON_INITIALIZER, reply;
  int code;
  BSON_APPEND_ARRAY(&command, "killSessions", sessions);
  enum outcome outcome = mongo_command(mongo, "ending transactions that were left open", &command, &reply, &code, error);
  bson_destroy(&reply);
  bson_destroy(&command);
  return outcome;
}

/* No other application's, whatever the URI calls them: the name of the connection begins with the program and its database. */
static bson_t *left_command(struct mongo *mongo)
{
  char mine[160];
  snprintf(mine, sizeof mine, "^\\Q%s\\E( |$)", mongo_program(mongo));
  return BCON_NEW("aggregate", BCON_INT32(1), "pipeline", "[", "{", "$currentOp", "{", "allUsers", BCON_BOOL(false), "idleSessions",
                  BCON_BOOL(true), "}", "}", "{", "$match", "{", "type", BCON_UTF8("idleSession"), "appName", "{", "$regex",
                  BCON_UTF8(mine), "}", "transaction.timeOpenMicros", "{", "$gt", BCON_INT32(LEFT_MICROSECONDS), "}", "}", "}", "{",
                  "$project", "{", "id", BCON_UTF8("$lsid.id"), "}", "}", "]", "cursor", "{", "batchSize", BCON_INT32(1000), "}");
}

enum outcome mongo_end_left_transactions(struct mongo *mongo, struct error *error)
{
  static const char doing[] = "looking for transactions that were left open";
  bson_t *command = left_command(mongo);
  bson_t sessions = BSON_INITIALIZER, reply;
  int code, count = 0;
  mongoc_client_t *client = mongo_client_take(mongo, doing, error);
  enum outcome outcome = OUTCOME_UNKNOWN;
  if (client) {
    outcome = mongo_db_command(mongo, client, "admin", doing, command, NULL, &reply, &code, error);
    mongo_client_give(mongo, client);
    struct mongo_batch batch;
    bson_t session;
    if (outcome == OUTCOME_YES) {
      mongo_reply_batch(&reply, &batch);
      while (mongo_batch_next(&batch, &session))
        if (bson_append_document(&sessions, bson_iter_key(&batch.documents), -1, &session))
          count++;
    }
    bson_destroy(&reply);
  }
  bson_destroy(command);
  if (outcome == OUTCOME_YES && count > 0)
    outcome = sessions_kill(mongo, &sessions, error);
  bson_destroy(&sessions);
  return outcome;
}
