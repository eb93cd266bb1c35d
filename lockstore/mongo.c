#include "lockstore/clients.h"
#include "lockstore/document.h"
#include "lockstore/mongo_private.h"

#include <assert.h>

/* ---- reading a reply ---- */

static void note_operation_time(struct mongo *mongo, const bson_t *reply)
{
  bson_iter_t at;
  if (!bson_iter_init_find(&at, reply, "operationTime") || !BSON_ITER_HOLDS_TIMESTAMP(&at))
    return;
  uint32_t seconds, increment;
  bson_iter_timestamp(&at, &seconds, &increment);
  uint64_t seen = (uint64_t)seconds << 32 | increment;
  uint64_t latest = atomic_load(&mongo->operation_time);
  while (seen > latest && !atomic_compare_exchange_weak(&mongo->operation_time, &latest, seen))
    ;
}

static int read_code(const bson_t *document)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, document, "code") && BSON_ITER_HOLDS_NUMBER(&at) ? (int)bson_iter_as_int64(&at) : 0;
}

static const char *headline_of(enum error_reason reason)
{
  switch (reason) {
  case ERROR_OTHER:
  case ERROR_ANSWERED:
    return "";
  case ERROR_LOGIN:
    return "MongoDB refuses these credentials: ";
  case ERROR_RIGHT:
    return "MongoDB does not permit it: ";
  }
  return "";
}

/* What the server says may hold line feeds (an index build's error does), and what somebody else wrote. The sentence goes on. */
static void set_text(struct error *error, enum error_reason reason, const char *doing, const bson_t *document, const char *fallback)
{
  bson_iter_t at;
  bool has = bson_iter_init_find(&at, document, "errmsg") && BSON_ITER_HOLDS_UTF8(&at);
  error_set(error, "%s%s: %s", headline_of(reason), doing, has ? bson_iter_utf8(&at, NULL) : fallback);
  error->reason = reason;
  document_make_printable(error->text);
  size_t length = strlen(error->text);
  if (length > 1 && error->text[length - 1] == '.' && error->text[length - 2] != '.')
    error->text[length - 1] = '\0';
}

/* The server quotes the whole command that is not allowed, with the ids of messages in it: its name and collection are enough. */
static void cut_command(struct error *error)
{
  char *command = strstr(error->text, "to execute command { "), *behind = command ? strchr(command, ',') : NULL;
  if (behind)
    snprintf(behind, sizeof error->text - (size_t)(behind - error->text), ", ... }");
}

/* A refusal is an answer. The outcome is UNKNOWN all the same: it may be put right at the server while a worker waits. */
static enum error_reason reason_of(const bson_error_t *driver, int code)
{
  if (code == CODE_AUTHENTICATION_FAILED || (driver->domain == MONGOC_ERROR_CLIENT && driver->code == MONGOC_ERROR_CLIENT_AUTHENTICATE))
    return ERROR_LOGIN;
  return code == CODE_UNAUTHORIZED ? ERROR_RIGHT : ERROR_OTHER;
}

int mongo_exit_code(enum outcome outcome, const struct error *error)
{
  switch (outcome) {
  case OUTCOME_YES:
    return EXIT_DONE;
  case OUTCOME_NO:
    return EXIT_FAILED;
  case OUTCOME_REFUSED:
    return EXIT_USAGE;
  case OUTCOME_UNKNOWN:
    return error->reason == ERROR_RIGHT ? EXIT_USAGE : EXIT_UNAVAILABLE;
  }
  return EXIT_FAILED;
}

void mongo_explain(const bson_error_t *driver, struct error *error)
{
  int code = driver->domain == MONGOC_ERROR_SERVER ? (int)driver->code : 0;
  enum error_reason reason = reason_of(driver, code);
  error_set(error, "%s%s", headline_of(reason), driver->message);
  error->reason = reason;
  document_make_printable(error->text);
  if (code == CODE_UNAUTHORIZED)
    cut_command(error);
}

/* The document at `path`, such as writeErrors.0; it borrows the reply's bytes. */
static bool reply_document(const bson_t *reply, const char *path, bson_t *document)
{
  bson_iter_t at, found;
  const uint8_t *bytes;
  uint32_t length;
  if (!bson_iter_init(&at, reply) || !bson_iter_find_descendant(&at, path, &found) || !BSON_ITER_HOLDS_DOCUMENT(&found))
    return false;
  bson_iter_document(&found, &length, &bytes);
  return bson_init_static(document, bytes, length);
}

/* In this order: an error of the write concern is unknown whatever else the reply says, for nothing in it is majority-committed. */
static enum outcome reply_judge(bool ok, const char *doing, const bson_t *reply, const bson_error_t *driver, int *code, struct error *error)
{
  bson_t part;
  if (reply_document(reply, "writeConcernError", &part)) {
    *code = read_code(&part);
    set_text(error, ERROR_OTHER, doing, &part, "writeConcernError");
    return OUTCOME_UNKNOWN;
  }
  if (reply_document(reply, "writeErrors.0", &part)) {
    *code = read_code(&part);
    set_text(error, ERROR_OTHER, doing, &part, "writeErrors");
    return *code == CODE_DUPLICATE_KEY ? OUTCOME_NO : OUTCOME_UNKNOWN;
  }
  *code = 0;
  if (ok)
    return OUTCOME_YES;
  *code = read_code(reply);
  if (driver->domain == MONGOC_ERROR_PROTOCOL && driver->code == MONGOC_ERROR_PROTOCOL_BAD_WIRE_VERSION)
    *code = CODE_WIRE_VERSION;
  set_text(error, reason_of(driver, *code), doing, reply, driver->message);
  if (*code == CODE_UNAUTHORIZED)
    cut_command(error);
  return *code == CODE_DUPLICATE_KEY ? OUTCOME_NO : OUTCOME_UNKNOWN;
}

/* "No suitable servers" alone helps nobody: say which hosts answered, and what they are. */
static void add_servers(mongoc_client_t *client, struct error *error)
{
  size_t count = 0, used = strlen(error->text);
  mongoc_server_description_t **servers = mongoc_client_get_server_descriptions(client, &count);
  for (size_t i = 0; i < count && used < sizeof error->text; i++) {
    const char *kind = mongoc_server_description_type(servers[i]);
    bool fresh = strcmp(kind, "RSGhost") == 0;
    used += (size_t)snprintf(error->text + used, sizeof error->text - used, "; %s is %s%s",
                             mongoc_server_description_host(servers[i])->host_and_port, strcmp(kind, "Unknown") == 0 ? "not known" : kind,
                             fresh ? " (a replica set not initiated yet: pawl-setup --replica-set NAME)" : "");
  }
  mongoc_server_descriptions_destroy_all(servers, count);
}

/* After this it may be another server that answers, of another version: no answer, or one that is about to be no primary any more. */
static bool server_went(enum outcome outcome, int code)
{
  enum { SHUTDOWN = 91, PRIMARY_STEPPED_DOWN = 189, NOT_WRITABLE_PRIMARY = 10107, INTERRUPTED_AT_SHUTDOWN = 11600, INTERRUPTED = 11602 };
  return outcome == OUTCOME_UNKNOWN && (code == 0 || code == SHUTDOWN || code == PRIMARY_STEPPED_DOWN || code == NOT_WRITABLE_PRIMARY ||
                                        code == INTERRUPTED_AT_SHUTDOWN || code == INTERRUPTED);
}

bool mongo_reply_batch(const bson_t *reply, struct mongo_batch *batch)
{
  static const uint8_t nothing[] = {5, 0, 0, 0, 0};
  bson_iter_t cursor, id, list;
  bool has = bson_iter_init_find(&cursor, reply, "cursor") && bson_iter_recurse(&cursor, &id);
  bool listed = has && ((list = id, bson_iter_find(&list, "firstBatch")) || (list = id, bson_iter_find(&list, "nextBatch")));
  has = listed && bson_iter_find(&id, "id") && bson_iter_recurse(&list, &batch->documents);
  batch->cursor = has ? bson_iter_as_int64(&id) : 0;
  return has || !bson_iter_init_from_data(&batch->documents, nothing, sizeof nothing);
}

/* Without a list an answer says nothing, not that there is nothing. */
static bool lacks_list(const bson_t *command, const bson_t *reply)
{
  static const char *const lists[] = {"find", "getMore", "aggregate", "listCollections", "listIndexes"};
  struct mongo_batch batch;
  bson_iter_t verb;
  bool wanted = false;
  if (bson_iter_init(&verb, command) && bson_iter_next(&verb))
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
      wanted |= strcmp(bson_iter_key(&verb), lists[i]) == 0;
  return wanted && !mongo_reply_batch(reply, &batch);
}

/*
 * The driver's "write command", for reads too: it adds no `secondaryOk` to a direct connection, so that a node that is no primary
 * any more refuses instead of answering from an old state; and it is not sent twice.
 */
enum outcome mongo_db_command(struct mongo *mongo, mongoc_client_t *client, const char *db, const char *doing, const bson_t *command,
                              const bson_t *opts, bson_t *reply, int *code, struct error *error)
{
  bson_error_t driver = {.message = "no answer"};
  bool ok = mongoc_client_write_command_with_opts(client, db, command, opts, reply, &driver);
  note_operation_time(mongo, reply);
  enum outcome outcome = reply_judge(ok, doing, reply, &driver, code, error);
  if (outcome == OUTCOME_YES && lacks_list(command, reply)) {
    error_set(error, "%s: the server's answer has no list", doing);
    outcome = OUTCOME_UNKNOWN;
  }
  if (outcome == OUTCOME_UNKNOWN && driver.domain == MONGOC_ERROR_SERVER_SELECTION)
    add_servers(client, error);
  if (server_went(outcome, *code))
    mongo_forget(mongo);
  if (outcome == OUTCOME_UNKNOWN && mongo_login_lost(mongo, client, *code, error->text)) {
    *code = CODE_LOGIN_LOST; /* no right that is missing */
    error_set(error, "%s%s: it does not know the user of this connection any more; connecting anew", headline_of(ERROR_LOGIN), doing);
    error->reason = ERROR_LOGIN;
  }
  return outcome;
}

int64_t mongo_transaction_number(struct mongo *mongo)
{
  return atomic_fetch_add(&mongo->transactions, 1) + 1;
}

const char *mongo_program(const struct mongo *mongo)
{
  return mongo->program;
}

enum outcome mongo_client_command(struct mongo *mongo, mongoc_client_t *client, const char *doing, const bson_t *command,
                                  const bson_t *opts, bson_t *reply, int *code, struct error *error)
{
  return mongo_db_command(mongo, client, mongo->db, doing, command, opts, reply, code, error);
}

mongoc_client_t *mongo_client_take(struct mongo *mongo, const char *doing, struct error *error)
{
  mongoc_client_t *client = clients_take(mongo->clients);
  if (!client)
    error_set(error, "%s: no connection came free within %lld ms", doing, (long long)mongo->timeout_ms);
  return client;
}

void mongo_client_give(struct mongo *mongo, mongoc_client_t *client)
{
  clients_give(mongo->clients, client);
}

void mongo_client_leave(struct mongo *mongo, mongoc_client_t *client)
{
  clients_leave(mongo->clients, client);
}

bool mongo_client_is_left(struct mongo *mongo, const mongoc_client_t *client)
{
  return clients_is_left(mongo->clients, client);
}

/* Dropped, or dropped and made again. Without a user in the URI that is a server that asks for one. */
bool mongo_login_lost(struct mongo *mongo, mongoc_client_t *client, int code, const char *text)
{
  bool lost = mongo->has_user &&
              (code == CODE_REAUTHENTICATION_REQUIRED || (code == CODE_UNAUTHORIZED && strstr(text, "requires authentication") != NULL));
  if (lost)
    clients_leave(mongo->clients, client);
  return lost;
}

static enum outcome command_once(struct mongo *mongo, const char *doing, const bson_t *command, bson_t *reply, int *code,
                                 struct error *error)
{
  mongoc_client_t *client = mongo_client_take(mongo, doing, error);
  if (!client) {
    bson_init(reply);
    *code = 0;
    return OUTCOME_UNKNOWN;
  }
  enum outcome outcome = mongo_client_command(mongo, client, doing, command, NULL, reply, code, error);
  mongo_client_give(mongo, client);
  return outcome;
}

/* What was refused for its login was not done: it is sent once more, on a new connection. */
enum outcome mongo_command(struct mongo *mongo, const char *doing, const bson_t *command, bson_t *reply, int *code, struct error *error)
{
  enum outcome outcome = command_once(mongo, doing, command, reply, code, error);
  if (outcome != OUTCOME_UNKNOWN || *code != CODE_LOGIN_LOST)
    return outcome;
  bson_destroy(reply);
  return command_once(mongo, doing, command, reply, code, error);
}

/* ---- find ---- */

bool mongo_reply_count(const bson_t *reply, const char *doing, int64_t *count, struct error *error)
{
  if (document_int64(reply, "n", count))
    return true;
  error_set(error, "%s: the reply has no count", doing);
  return false;
}

bool mongo_batch_next(struct mongo_batch *batch, bson_t *document)
{
  uint32_t length;
  const uint8_t *bytes;
  while (bson_iter_next(&batch->documents)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&batch->documents))
      continue;
    bson_iter_document(&batch->documents, &length, &bytes);
    if (bson_init_static(document, bytes, length))
      return true;
  }
  return false;
}

enum outcome mongo_write(struct mongo *mongo, const char *doing, bson_t *command, int64_t *count, struct error *error)
{
  bson_t reply;
  int code;
  if (!document_has(command, "writeConcern"))
    mongo_append_write_concern(command);
  mongo_append_max_time(mongo, command);
  enum outcome outcome = mongo_command(mongo, doing, command, &reply, &code, error);
  if (outcome == OUTCOME_YES && !mongo_reply_count(&reply, doing, count, error))
    outcome = OUTCOME_UNKNOWN;
  bson_destroy(&reply);
  bson_destroy(command);
  return outcome;
}

/* A command begins with its name and the collection. */
static const char *command_collection(const bson_t *command)
{
  bson_iter_t at;
  return bson_iter_init(&at, command) && bson_iter_next(&at) && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : NULL;
}

int64_t mongo_batch_each(const bson_t *reply, mongo_each *each, void *context)
{
  struct mongo_batch batch;
  bson_t document;
  mongo_reply_batch(reply, &batch);
  while (mongo_batch_next(&batch, &document))
    each(context, &document);
  return batch.cursor;
}

static enum outcome find_in_session(struct mongo *mongo, mongoc_client_t *client, const char *doing, const bson_t *command,
                                    const bson_t *opts, mongo_each *each, void *context, struct error *error)
{
  const char *collection = command_collection(command);
  assert(collection);
  bson_t reply;
  int code;
  enum outcome outcome = mongo_client_command(mongo, client, doing, command, opts, &reply, &code, error);
  int64_t cursor = outcome == OUTCOME_YES ? mongo_batch_each(&reply, each, context) : 0;
  while (cursor != 0) {
    bson_t *more = BCON_NEW("getMore", BCON_INT64(cursor), "collection", BCON_UTF8(collection));
    bson_destroy(&reply);
    outcome = mongo_client_command(mongo, client, doing, more, opts, &reply, &code, error);
    bson_destroy(more);
    cursor = outcome == OUTCOME_YES ? mongo_batch_each(&reply, each, context) : 0;
  }
  bson_destroy(&reply);
  return outcome == OUTCOME_NO ? OUTCOME_UNKNOWN : outcome;
}

enum outcome mongo_find(struct mongo *mongo, const char *doing, const bson_t *command, mongo_each *each, void *context, struct error *error)
{
  mongoc_client_t *client = mongo_client_take(mongo, doing, error);
  if (!client)
    return OUTCOME_UNKNOWN;
  bson_error_t reason;
  bson_t opts = BSON_INITIALIZER;
  enum outcome outcome = OUTCOME_UNKNOWN;
  mongoc_client_session_t *session = mongoc_client_start_session(client, NULL, &reason);
  if (session && mongoc_client_session_append(session, &opts, &reason))
    outcome = find_in_session(mongo, client, doing, command, &opts, each, context, error);
  else
    error_set(error, "%s: %s", doing, reason.message);
  bson_destroy(&opts);
  if (session)
    mongoc_client_session_destroy(session);
  mongo_client_give(mongo, client);
  return outcome;
}

/* ---- what each command carries ---- */

void mongo_append_write_concern(bson_t *command)
{
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_UTF8("majority"), "j", BCON_BOOL(true), "}");
}

/* A write that is to be acknowledged by the majority, or a read that waits until it has what was written. */
static bool waits_for_majority(const bson_t *command)
{
  bson_iter_t at, found;
  return (bson_iter_init(&at, command) && bson_iter_find_descendant(&at, "writeConcern.w", &found) && BSON_ITER_HOLDS_UTF8(&found)) ||
         (bson_iter_init(&at, command) && bson_iter_find_descendant(&at, "readConcern.afterClusterTime", &found)) ||
         (bson_iter_init(&at, command) && bson_iter_find_descendant(&at, "readConcern.level", &found) && BSON_ITER_HOLDS_UTF8(&found) &&
          strcmp(bson_iter_utf8(&found, NULL), "linearizable") == 0);
}

void mongo_append_max_time(const struct mongo *mongo, bson_t *command)
{
  int64_t whole_ms = waits_for_majority(command) ? mongo->majority_ms : mongo->timeout_ms, ms = whole_ms - whole_ms / 8;
  BSON_APPEND_INT64(command, "maxTimeMS", ms > INT32_MAX ? INT32_MAX : ms);
}

void mongo_append_read_concern(struct mongo *mongo, bson_t *command, const char *level, bool after)
{
  bool replica_set = mongo_is_replica_set(mongo);
  uint64_t latest = atomic_load(&mongo->operation_time);
  bson_t concern;
  BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
  BSON_APPEND_UTF8(&concern, "level", replica_set ? level : "local");
  if (after && replica_set && latest != 0)
    BSON_APPEND_TIMESTAMP(&concern, "afterClusterTime", (uint32_t)(latest >> 32), (uint32_t)latest);
  bson_append_document_end(command, &concern);
}

void mongo_append_read_at(bson_t *command, uint64_t at)
{
  bson_t concern;
  BSON_APPEND_DOCUMENT_BEGIN(command, "readConcern", &concern);
  BSON_APPEND_UTF8(&concern, "level", "snapshot");
  BSON_APPEND_TIMESTAMP(&concern, "atClusterTime", (uint32_t)(at >> 32), (uint32_t)at);
  bson_append_document_end(command, &concern);
}
