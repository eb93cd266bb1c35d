#include "lockstore/transaction.h"
#include "lockstore/mongo_private.h"

#include <stdlib.h>

/*
 * By hand, for the driver's own transactions cannot be given a cluster time. The server writes each one down in its session's record, and
 * that is a conflict if the record was last written after the time that the transaction sees. So the sessions stand in a ring, the one that
 * was used longest ago first: it serves if it was used by then, and otherwise none does, and another is made. Given back to the driver they
 * could come to somebody whose time is earlier.
 */
enum { SESSIONS_MAX = 4096, LEFT_MICROSECONDS = 1000000 };

struct used_session {
  mongoc_client_session_t *session;
  uint64_t used_at; /* its record was written by this operation time */
};

struct mongo_transactor {
  struct mongo *mongo;
  struct mongo_transactor *next; /* of those of the mongo that are not in use */
  mongoc_client_t *client;       /* NULL: none came free yet */
  struct used_session *ring;     /* SESSIONS_MAX; NULL: none was made yet */
  int first, count;
  mongoc_client_session_t *session; /* in use */
  uint64_t at;
  bson_t opts; /* the session */
  int64_t number;
  bool conflicted; /* the last mongo_transaction_steps */
};

struct mongo_transactor *mongo_transactor_new(struct mongo *mongo)
{
  struct mongo_transactor *transactor = aligned_zeros(_Alignof(struct mongo_transactor), sizeof *transactor);
  if (transactor)
    transactor->mongo = mongo;
  return transactor;
}

static void disconnect(struct mongo_transactor *transactor)
{
  for (; transactor->count > 0; transactor->count--) {
    mongoc_client_session_destroy(transactor->ring[transactor->first].session);
    transactor->first = (transactor->first + 1) % SESSIONS_MAX;
  }
  if (transactor->client)
    mongo_client_give(transactor->mongo, transactor->client);
  transactor->client = NULL;
}

void mongo_transactor_free(struct mongo_transactor *transactor)
{
  if (!transactor)
    return;
  disconnect(transactor);
  free(transactor->ring);
  free(transactor);
}

/* ---- sessions ---- */

static mongoc_client_session_t *session_make(struct mongo_transactor *transactor, bson_error_t *reason)
{
  if (!transactor->ring && !(transactor->ring = calloc(SESSIONS_MAX, sizeof *transactor->ring)))
    return NULL;
  mongoc_session_opt_t *options = mongoc_session_opts_new();
  mongoc_session_opts_set_causal_consistency(options, false);
  mongoc_client_session_t *session = mongoc_client_start_session(transactor->client, options, reason);
  mongoc_session_opts_destroy(options);
  return session;
}

/* One that was not used after `at`; NULL: none is left, or none can be made. */
static mongoc_client_session_t *session_take(struct mongo_transactor *transactor, uint64_t at, bson_error_t *reason)
{
  const struct used_session *oldest = transactor->count > 0 ? &transactor->ring[transactor->first] : NULL;
  if (!oldest || oldest->used_at > at)
    return transactor->count < SESSIONS_MAX ? session_make(transactor, reason) : NULL;
  transactor->first = (transactor->first + 1) % SESSIONS_MAX;
  transactor->count--;
  return oldest->session;
}

/* What it has written, if anything, was seen by now: this process knows the operation times of all replies. */
static void session_give(struct mongo_transactor *transactor)
{
  int last = (transactor->first + transactor->count++) % SESSIONS_MAX;
  transactor->ring[last] = (struct used_session){transactor->session, mongo_operation_time(transactor->mongo)};
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

static void transaction_over(struct mongo_transactor *transactor)
{
  bson_destroy(&transactor->opts);
  if (transactor->session)
    session_give(transactor);
  transactor->session = NULL;
}

/* Takes a session for that time, with its `opts`, until transaction_over. False: there is none. */
static bool transaction_begin(struct mongo_transactor *transactor, const char *doing, uint64_t at, struct error *error)
{
  bson_error_t reason = {.message = "too many at one time"};
  if (transactor->client && mongo_client_is_left(transactor->mongo, transactor->client))
    disconnect(transactor);
  if (!transactor->client && !(transactor->client = mongo_client_take(transactor->mongo, doing, error)))
    return false;
  transactor->at = at;
  transactor->session = session_take(transactor, at, &reason);
  bson_init(&transactor->opts);
  transactor->number = mongo_transaction_number(transactor->mongo);
  if (transactor->session && mongoc_client_session_append(transactor->session, &transactor->opts, &reason))
    return true;
  transaction_over(transactor);
  error_set(error, "%s: %s", doing, reason.message);
  return false;
}

/* ---- several commands ---- */

/* Whether a find has found this document, and no other. */
static bool found_it(const bson_t *reply, const bson_t *document)
{
  struct mongo_batch batch;
  bson_t found, more;
  return mongo_reply_batch(reply, &batch) && mongo_batch_next(&batch, &found) && found.len == document->len &&
         memcmp(bson_get_data(&found), bson_get_data(document), found.len) == 0 && !mongo_batch_next(&batch, &more);
}

static enum outcome step_run(struct mongo_transactor *transactor, const struct mongo_step *step, bool first, int *code, struct error *error)
{
  bson_t reply;
  int64_t count = 0;
  if (first) {
    mongo_append_read_concern(transactor->mongo, step->command, "snapshot", true);
    BSON_APPEND_BOOL(step->command, "startTransaction", true);
  }
  append_transaction(transactor, step->command);
  enum outcome outcome =
      mongo_client_command(transactor->mongo, transactor->client, step->doing, step->command, &transactor->opts, &reply, code, error);
  if (outcome == OUTCOME_YES && step->result != NULL && !found_it(&reply, step->result)) {
    error_set(error, "%s: what was written is not what is read", step->doing);
    outcome = OUTCOME_NO;
  } else if (outcome == OUTCOME_YES && step->result == NULL &&
             (!mongo_reply_count(&reply, step->doing, &count, error) || count != step->expected)) {
    error_set(error, "%s: %lld documents instead of %lld", step->doing, (long long)count, (long long)step->expected);
    outcome = OUTCOME_NO;
  }
  bson_destroy(&reply);
  return outcome;
}

static bool is_conflict(int code)
{
  enum { LOCK_TIMEOUT = 24, WRITE_CONFLICT = 112, SNAPSHOT_UNAVAILABLE = 246, NO_SUCH_TRANSACTION = 251 };
  return code == LOCK_TIMEOUT || code == WRITE_CONFLICT || code == SNAPSHOT_UNAVAILABLE || code == NO_SUCH_TRANSACTION;
}

bool mongo_transaction_conflicted(const struct mongo_transactor *transactor)
{
  return transactor->conflicted;
}

static enum outcome steps_run(struct mongo_transactor *transactor, const struct mongo_step *steps, size_t count, struct error *error)
{
  int code = 0;
  transactor->conflicted = false;
  for (size_t i = 0; i < count; i++) {
    enum outcome outcome = step_run(transactor, &steps[i], i == 0, &code, error);
    if (outcome == OUTCOME_YES)
      continue;
    transactor->conflicted = outcome == OUTCOME_UNKNOWN && is_conflict(code);
    if (outcome == OUTCOME_UNKNOWN && code == 0) /* no answer: an abort would have none, either; without a commit nothing is done */
      return OUTCOME_UNKNOWN;
    return transaction_abort(transactor, steps[i].doing, false);
  }
  static const char doing[] = "committing the transaction";
  enum outcome outcome = transaction_end(transactor, doing, "commitTransaction", &code, error);
  return outcome == OUTCOME_YES ? OUTCOME_YES : transaction_abort(transactor, doing, true);
}

enum outcome mongo_transaction_steps(struct mongo_transactor *transactor, const struct mongo_step *steps, size_t count, struct error *error)
{
  /* No snapshot of the past: any session serves again. */
  if (!transaction_begin(transactor, steps[0].doing, UINT64_MAX, error))
    return OUTCOME_NO;
  enum outcome outcome = steps_run(transactor, steps, count, error);
  transaction_over(transactor);
  return outcome;
}

/* ---- one command, from any thread ---- */

static struct mongo_transactor *transactor_take(struct mongo *mongo)
{
  pthread_mutex_lock(&mongo->shared_mutex);
  struct mongo_transactor *transactor = mongo->transactors;
  if (transactor)
    mongo->transactors = transactor->next;
  pthread_mutex_unlock(&mongo->shared_mutex);
  return transactor ? transactor : mongo_transactor_new(mongo);
}

static void transactor_give(struct mongo *mongo, struct mongo_transactor *transactor)
{
  pthread_mutex_lock(&mongo->shared_mutex);
  transactor->next = mongo->transactors;
  mongo->transactors = transactor;
  pthread_mutex_unlock(&mongo->shared_mutex);
}

void mongo_transactors_free(struct mongo *mongo)
{
  struct mongo_transactor *transactor;
  while ((transactor = mongo->transactors)) {
    mongo->transactors = transactor->next;
    mongo_transactor_free(transactor);
  }
}

enum outcome mongo_transaction(struct mongo *mongo, const char *doing, bson_t *command, uint64_t at, int64_t expected, struct error *error)
{
  struct mongo_transactor *transactor = transactor_take(mongo);
  if (!transactor) {
    error_set(error, "%s: no memory", doing);
    return OUTCOME_NO;
  }
  enum outcome outcome = OUTCOME_NO;
  if (transaction_begin(transactor, doing, at, error)) {
    outcome = transaction_run(transactor, doing, command, expected, error);
    transaction_over(transactor);
  }
  transactor_give(mongo, transactor);
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
