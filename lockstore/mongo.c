#include "lockstore/mongo.h"
#include "lockstore/clients.h"
#include "lockstore/document.h"
#include "lockstore/reach.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum deployment { DEPLOYMENT_UNKNOWN, DEPLOYMENT_STANDALONE, DEPLOYMENT_REPLICA_SET };

enum {
  DB_BYTES_MAX = 63,
  APPNAME_BYTES_MAX = 128,     /* of the handshake */
  WIRE_VERSION_MIN = 13,       /* MongoDB 5.0 */
  WIRE_VERSION_CLUSTERED = 16, /* 5.3 */
  SPARE_CONNECTIONS = 2,
  LACKS_MS = 5000,
  REACH_MS = 1000,     /* for the first word of the hosts */
  HEARTBEAT_MS = 2000, /* instead of 10 s: how long a primary that hangs, or was given up by mistake, goes unnoticed */
};

enum {
  CODE_UNAUTHORIZED = 13,
  CODE_AUTHENTICATION_FAILED = 18,
  CODE_COMMAND_NOT_FOUND = 59,
  CODE_DUPLICATE_KEY = 11000,
  CODE_REAUTHENTICATION_REQUIRED = 391,
  CODE_WIRE_VERSION = -1, /* no server's, but the driver's */
  CODE_LOGIN_LOST = -2,   /* nor is this: mongo_login_lost */
};

struct mongo {
  struct clients *clients; /* for one that awaits: one alone */
  struct reach *reach;     /* what the pool's hosts say of their set; NULL: not asked */
  bool has_user;           /* in the URI */
  char db[DB_BYTES_MAX + 1];
  int64_t timeout_ms, majority_ms;
  _Atomic uint64_t operation_time; /* the latest seen: seconds << 32 | increment; 0: none */
  _Atomic int deployment;
  _Atomic uint64_t version;     /* major << 32 | minor << 16 | patch; 0: not known yet */
  _Atomic bool clustered;       /* `messages` is */
  _Atomic bool prepared;        /* lockstore_prepare has said YES */
  _Atomic bool without_wakeups; /* their collection is missing, and may not be made */
  _Atomic bool avoids_wakeups;
  _Atomic int64_t wire_version;                /* of the primary; 0: not known yet */
  _Atomic int64_t lacks_since_ms[MONGO_LACKS]; /* monotonic; 0: it does not */
  _Atomic int64_t transactions;                /* the number of the last one */
  char server[300];                            /* the URI's hosts */
  char program[96];                            /* the beginning of what the server knows this process by */
};

/* ---- opening ---- */

static void drop_log(mongoc_log_level_t level, const char *domain, const char *message, void *context)
{
  (void)level, (void)domain, (void)message, (void)context;
}

/*
 * Never undone: another thread of the process may use the driver until the end. It keeps counters in a file of /dev/shm that it has made
 * before main; nobody reads them, and a process that does not live to remove it would leave it to the next one with its pid.
 */
static void driver_start(void)
{
  char counters[40];
  snprintf(counters, sizeof counters, "/mongoc-%ld", (long)getpid());
  (void)shm_unlink(counters);
  mongoc_log_set_handler(drop_log, NULL);
  mongoc_init();
}

/*
 * The driver's reason may quote any piece of the URI. It is repeated only if there can be no secret in it: no '@', no option that
 * is one, and no ':' but the scheme's and those before a port.
 */
static bool uri_may_hold_secret(const char *uri)
{
  const char *scheme = strstr(uri, "://");
  const char *at = scheme ? scheme + 3 : uri;
  if (strchr(at, '@') || strcasestr(at, "password") || strcasestr(at, "token"))
    return true;
  for (const char *colon = strchr(at, ':'); colon; colon = strchr(colon + 1, ':'))
    if (!strchr(",/?", colon[1 + strspn(colon + 1, "0123456789")]))
      return true;
  return false;
}

static bool uri_set_number(mongoc_uri_t *uri, const char *option, int64_t value)
{
  return mongoc_uri_set_option_as_int32(uri, option, value > INT32_MAX ? INT32_MAX : (int32_t)value);
}

static int64_t majority_ms(const struct lockstore_options *options)
{
  return options->majority_ms > options->timeout_ms ? options->majority_ms : options->timeout_ms;
}

/*
 * "pawl-worker@DB", which is pawl's alone; and behind it what the URI says, as far as there is room, by which
 * people tell their applications.
 */
static bool uri_set_program(struct mongo *mongo, mongoc_uri_t *uri, const char *program)
{
  const char *given = mongoc_uri_get_appname(uri);
  char name[APPNAME_BYTES_MAX + 1];
  if (!program)
    return true;
  snprintf(mongo->program, sizeof mongo->program, "%s@%s", program, mongo->db);
  snprintf(name, sizeof name, "%s%s%s", mongo->program, given ? " " : "", given ? given : "");
  while (!bson_utf8_validate(name, strlen(name), false)) /* cut within a character */
    name[strlen(name) - 1] = '\0';
  return mongoc_uri_set_appname(uri, name);
}

static bool uri_set_options(mongoc_uri_t *uri, const struct lockstore_options *options)
{
  bool ok = uri_set_number(uri, MONGOC_URI_CONNECTTIMEOUTMS, options->timeout_ms) &&
            uri_set_number(uri, MONGOC_URI_SOCKETTIMEOUTMS, majority_ms(options) + options->await_ms) &&
            uri_set_number(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, options->timeout_ms) &&
            uri_set_number(uri, MONGOC_URI_WAITQUEUETIMEOUTMS, options->timeout_ms) &&
            uri_set_number(uri, MONGOC_URI_MAXPOOLSIZE, options->connections_max + SPARE_CONNECTIONS) &&
            mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, options->retry_writes) &&
            mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false);
  if (ok && options->await_ms > 0)
    ok = uri_set_number(uri, MONGOC_URI_HEARTBEATFREQUENCYMS, MONGO_NEVER_MS);
  else if (ok && !mongoc_uri_has_option(uri, MONGOC_URI_HEARTBEATFREQUENCYMS))
    ok = uri_set_number(uri, MONGOC_URI_HEARTBEATFREQUENCYMS, HEARTBEAT_MS);
  if (ok && options->direct)
    ok = mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, true);
  else if (ok && !mongoc_uri_has_option(uri, MONGOC_URI_DIRECTCONNECTION) && !mongoc_uri_get_option_as_bool(uri, "loadbalanced", false))
    ok = mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, false);
  return ok;
}

/* Concerns stand in each command; the driver is given its defaults, so that it appends none of its own. */
static void uri_clear_concerns(mongoc_uri_t *uri)
{
  mongoc_write_concern_t *write = mongoc_write_concern_new();
  mongoc_read_concern_t *read = mongoc_read_concern_new();
  mongoc_read_prefs_t *primary = mongoc_read_prefs_new(MONGOC_READ_PRIMARY);
  mongoc_uri_set_write_concern(uri, write);
  mongoc_uri_set_read_concern(uri, read);
  mongoc_uri_set_read_prefs_t(uri, primary);
  mongoc_write_concern_destroy(write);
  mongoc_read_concern_destroy(read);
  mongoc_read_prefs_destroy(primary);
}

static bool db_choose(struct mongo *mongo, const mongoc_uri_t *uri, const char *asked, struct error *error)
{
  const char *db = asked && *asked ? asked : mongoc_uri_get_database(uri);
  if (!db || !*db)
    db = "pawl";
  if (strlen(db) > DB_BYTES_MAX || strpbrk(db, "/\\. \"$*<>:|?")) {
    error_set(error, "the database name \"%.80s\" is not valid: it takes 1 to %d bytes without any of /\\. \"$*<>:|?", db, DB_BYTES_MAX);
    return false;
  }
  strcpy(mongo->db, db);
  return true;
}

/* Those beyond the room there is are not named. */
static void server_name(struct mongo *mongo, const mongoc_uri_t *uri)
{
  size_t used = 0;
  const char *service = mongoc_uri_get_srv_hostname(uri);
  if (service)
    snprintf(mongo->server, sizeof mongo->server, "%s", service);
  for (const mongoc_host_list_t *host = service ? NULL : mongoc_uri_get_hosts(uri); host; host = host->next) {
    if (used + strlen(host->host_and_port) + sizeof ",…" >= sizeof mongo->server) {
      strcpy(mongo->server + used, ",…");
      return;
    }
    used += (size_t)sprintf(mongo->server + used, "%s%s", used > 0 ? "," : "", host->host_and_port);
  }
}

static mongoc_uri_t *uri_parse(const char *text, struct error *error)
{
  bson_error_t reason;
  mongoc_uri_t *uri = mongoc_uri_new_with_error(text, &reason);
  if (!uri && uri_may_hold_secret(text))
    error_set(error, "the MongoDB URI is not valid (the driver's reason is not shown, for it may quote a password; in user and password, "
                     "the characters : / ? # [ ] @ %% must be percent-encoded)");
  else if (!uri)
    error_set(error, "the MongoDB URI is not valid: %s", reason.message);
  return uri;
}

struct mongo *mongo_open(const struct lockstore_options *options, struct error *error)
{
  static pthread_once_t started = PTHREAD_ONCE_INIT;
  assert(options->timeout_ms > 0 && options->connections_max > 0);
  pthread_once(&started, driver_start);
  mongoc_uri_t *uri = uri_parse(options->uri, error);
  if (!uri)
    return NULL;
  struct mongo *mongo = calloc(1, sizeof *mongo);
  bson_error_t reason = {.message = "out of memory"};
  if (!mongo)
    error_set(error, "%s", reason.message);
  bool ok = mongo && db_choose(mongo, uri, options->db, error);
  if (ok) {
    mongo->timeout_ms = options->timeout_ms;
    mongo->majority_ms = majority_ms(options);
    server_name(mongo, uri);
    ok = reach_check_files(uri, mongo->server, error);
  }
  if (ok) {
    uri_clear_concerns(uri);
    bool set = uri_set_options(uri, options) && uri_set_program(mongo, uri, options->program);
    mongo->has_user = mongoc_uri_get_username(uri) || mongoc_uri_get_auth_mechanism(uri);
    mongo->reach = options->await_ms > 0 ? NULL : reach_new(uri);
    mongo->clients = set ? clients_new(uri, options->await_ms > 0, mongo->reach, &reason) : NULL;
    ok = mongo->clients != NULL;
    if (!ok)
      error_set(error, "the MongoDB URI cannot be used: %s",
                uri_may_hold_secret(options->uri) ? "its options contradict each other" : reason.message);
  }
  mongoc_uri_destroy(uri);
  if (ok)
    return mongo;
  mongo_close(mongo);
  return NULL;
}

void mongo_close(struct mongo *mongo)
{
  if (mongo) {
    clients_free(mongo->clients);
    reach_free(mongo->reach);
  }
  free(mongo);
}

const char *mongo_db(const struct mongo *mongo)
{
  return mongo->db;
}

const char *mongo_server(const struct mongo *mongo)
{
  return mongo->server;
}

int64_t mongo_timeout_ms(const struct mongo *mongo)
{
  return mongo->timeout_ms;
}

int64_t mongo_majority_ms(const struct mongo *mongo)
{
  return mongo->majority_ms;
}

bool mongo_is_known(const struct mongo *mongo)
{
  return atomic_load(&mongo->deployment) != DEPLOYMENT_UNKNOWN;
}

void mongo_forget(struct mongo *mongo)
{
  atomic_store(&mongo->deployment, DEPLOYMENT_UNKNOWN);
}

bool mongo_is_replica_set(const struct mongo *mongo)
{
  return atomic_load(&mongo->deployment) != DEPLOYMENT_STANDALONE;
}

void mongo_note_clustered(struct mongo *mongo, bool clustered)
{
  atomic_store(&mongo->clustered, clustered);
}

void mongo_describe(const struct mongo *mongo, char *text, size_t size)
{
  uint64_t version = atomic_load(&mongo->version);
  bool set = mongo_is_replica_set(mongo);
  snprintf(text, size, "MongoDB %u.%u.%u, %s; messages is %s; it is read %s; messages are deleted %s", (unsigned)(version >> 32),
           (unsigned)(version >> 16 & 0xffff), (unsigned)(version & 0xffff), set ? "a replica set" : "a standalone server",
           atomic_load(&mongo->clustered) ? "clustered" : "not clustered",
           set ? "in snapshots" : "without snapshots, so that no order is promised",
           set ? "by ranges in transactions, small batches by their _ids" : "by their _ids");
}

void mongo_note_prepared(struct mongo *mongo)
{
  atomic_store(&mongo->prepared, true);
}

bool mongo_was_prepared(const struct mongo *mongo)
{
  return atomic_load(&mongo->prepared);
}

void mongo_note_without_wakeups(struct mongo *mongo)
{
  atomic_store(&mongo->without_wakeups, true);
}

void mongo_avoid_wakeups(struct mongo *mongo, bool avoid)
{
  atomic_store(&mongo->avoids_wakeups, avoid);
}

bool mongo_avoids_wakeups(const struct mongo *mongo)
{
  return atomic_load(&mongo->avoids_wakeups);
}

bool mongo_has_wakeups(const struct mongo *mongo)
{
  return !atomic_load(&mongo->without_wakeups);
}

bool mongo_makes_clustered(const struct mongo *mongo)
{
  return atomic_load(&mongo->wire_version) >= WIRE_VERSION_CLUSTERED;
}

uint64_t mongo_operation_time(const struct mongo *mongo)
{
  return atomic_load(&mongo->operation_time);
}

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

bool mongo_reply_batch(const bson_t *reply, struct mongo_batch *batch)
{
  static const uint8_t nothing[] = {5, 0, 0, 0, 0};
  bson_iter_t cursor, id, list;
  bool has = bson_iter_init_find(&cursor, reply, "cursor") && bson_iter_recurse(&cursor, &id);
  list = id;
  has = has && bson_iter_find(&id, "id");
  while (has && bson_iter_next(&list))
    if (strcmp(bson_iter_key(&list), "firstBatch") == 0 || strcmp(bson_iter_key(&list), "nextBatch") == 0)
      break;
  has = has && bson_iter_recurse(&list, &batch->documents);
  batch->cursor = has ? bson_iter_as_int64(&id) : 0;
  return has || !bson_iter_init_from_data(&batch->documents, nothing, sizeof nothing);
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

/* ---- hello ---- */

static bool reply_flag(const bson_t *reply, const char *name)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, reply, name) && bson_iter_as_bool(&at);
}

static const char *reply_text(const bson_t *reply, const char *name)
{
  bson_iter_t at;
  return bson_iter_init_find(&at, reply, name) && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : NULL;
}

/* "6.0.5"; other endings (-rc1) are passed over. */
static enum outcome ask_version(struct mongo *mongo, char text[32], struct error *error)
{
  bson_t *command = BCON_NEW("buildInfo", BCON_INT32(1)), reply;
  unsigned major = 0, minor = 0, patch = 0;
  int code;
  enum outcome outcome = mongo_command(mongo, "asking MongoDB for its version", command, &reply, &code, error);
  const char *version = outcome == OUTCOME_YES ? reply_text(&reply, "version") : NULL;
  snprintf(text, 32, "%s", version ? version : "unknown");
  if (version && sscanf(version, "%5u.%5u.%5u", &major, &minor, &patch) >= 2)
    atomic_store(&mongo->version, (uint64_t)major << 32 | (uint64_t)(minor & 0xffff) << 16 | (patch & 0xffff));
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}

static enum outcome refuse_old(struct mongo *mongo, struct error *error)
{
  char version[32];
  if (ask_version(mongo, version, error) != OUTCOME_YES)
    return OUTCOME_UNKNOWN; /* it went away meanwhile: whatever comes back is asked again */
  error_set(error, "this MongoDB is too old: its version is %s, and pawl takes 5.0 or later", version);
  return OUTCOME_REFUSED;
}

static enum outcome refuse_wire(struct error *error)
{
  struct error reason = *error;
  error_set(error, "this MongoDB and this driver do not know each other: %.900s; pawl takes MongoDB 5.0 or later", reason.text);
  return OUTCOME_REFUSED;
}

static bool is_sharded(const bson_t *reply)
{
  return bson_has_field(reply, "configsvr") || bson_has_field(reply, "isImplicitDefaultMajorityWC") ||
         bson_has_field(reply, "lastCommittedOpTime");
}

static enum outcome refuse_sharded(const bson_t *reply, const char *me, const char *set, struct error *error)
{
  error_set(error,
            "%s, of the replica set %s, is %s of a sharded cluster, reached directly: it shows documents that belong to other shards; pawl "
            "takes a replica set of its own, whose members were not started with --shardsvr or --configsvr, or a standalone server",
            me ? me : "this MongoDB", set ? set : "(no name)",
            bson_has_field(reply, "configsvr") ? "a config server" : "a member of a shard");
  return OUTCOME_REFUSED;
}

/*
 * A server that was just started, and loads the keys of its members, gives no times for some tenths of a second; a collection that was just
 * dropped has none. So it is asked again, and refused only if it still lacks them after LACKS_MS.
 */
enum outcome mongo_lacks(struct mongo *mongo, enum mongo_lack what)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, never = 0;
  if (atomic_compare_exchange_strong(&mongo->lacks_since_ms[what], &never, now_ms))
    return OUTCOME_UNKNOWN;
  return now_ms - never >= LACKS_MS ? OUTCOME_REFUSED : OUTCOME_UNKNOWN;
}

void mongo_lacks_not(struct mongo *mongo, enum mongo_lack what)
{
  atomic_store(&mongo->lacks_since_ms[what], 0);
}

static enum outcome refuse_timeless(struct mongo *mongo, const char *me, const char *set, struct error *error)
{
  error_set(error, "%s, of the replica set %s, lacks operationTime in its replies, as a compatible database does; pawl takes MongoDB",
            me ? me : "the server", set);
  return mongo_lacks(mongo, MONGO_LACKS_TIMES);
}

/*
 *   msg isdbgrid                    REFUSED: mongos
 *   maxWireVersion below 13         REFUSED: too old
 *   configsvr                       REFUSED: a config server of a sharded cluster
 *   isImplicitDefaultMajorityWC     REFUSED: started with --shardsvr (5.0, 6.0; it takes no privilege)
 *   lastCommittedOpTime             REFUSED: a member of a shard; it is in each reply of one that has joined its cluster (the same)
 *   isreplicaset                    UNKNOWN: not initiated
 *   not isWritablePrimary           UNKNOWN: a secondary, an arbiter, or no primary at the moment
 *   setName, no operationTime       UNKNOWN; for some seconds, REFUSED: a compatible database, no MongoDB
 *   setName                         YES: replica set
 *   otherwise                       YES: standalone
 */
static enum outcome hello_judge(struct mongo *mongo, const bson_t *reply, struct error *error)
{
  bson_iter_t at;
  const char *msg = reply_text(reply, "msg"), *me = reply_text(reply, "me"), *set = reply_text(reply, "setName");
  int64_t wire = bson_iter_init_find(&at, reply, "maxWireVersion") ? bson_iter_as_int64(&at) : 0;
  if (msg && strcmp(msg, "isdbgrid") == 0) {
    error_set(error, "the MongoDB URI leads to mongos, a sharded cluster's router; pawl takes a replica set or a standalone server");
    return OUTCOME_REFUSED;
  }
  if (wire < WIRE_VERSION_MIN)
    return refuse_old(mongo, error);
  if (is_sharded(reply))
    return refuse_sharded(reply, me, set, error);
  if (reply_flag(reply, "isreplicaset")) {
    error_set(error, "this MongoDB belongs to a replica set that is not initiated yet: run pawl-setup --replica-set NAME");
    return OUTCOME_UNKNOWN;
  }
  if (!reply_flag(reply, "isWritablePrimary")) {
    const char *kind = reply_flag(reply, "arbiterOnly") ? "an arbiter" : reply_flag(reply, "secondary") ? "a secondary" : "no primary";
    error_set(error, "%s is %s of the replica set %s, and takes no writes", me ? me : "the server", kind, set ? set : "(no name)");
    return OUTCOME_UNKNOWN;
  }
  if (set && !bson_has_field(reply, "operationTime"))
    return refuse_timeless(mongo, me, set, error);
  mongo_lacks_not(mongo, MONGO_LACKS_TIMES);
  atomic_store(&mongo->deployment, set ? DEPLOYMENT_REPLICA_SET : DEPLOYMENT_STANDALONE);
  atomic_store(&mongo->wire_version, wire);
  return OUTCOME_YES;
}

/* The driver looks at the hosts from the first time on that a client is taken. */
static bool set_is_right(struct mongo *mongo, struct error *error)
{
  mongoc_client_t *client = mongo->reach ? mongo_client_take(mongo, "asking MongoDB what it is", error) : NULL;
  if (client == NULL)
    return true;
  mongo_client_give(mongo, client);
  return reach_wait(mongo->reach, mongo->timeout_ms < REACH_MS ? mongo->timeout_ms : REACH_MS, error);
}

enum outcome mongo_hello(struct mongo *mongo, struct error *error)
{
  if (!set_is_right(mongo, error))
    return OUTCOME_REFUSED;
  bson_t *command = BCON_NEW("hello", BCON_INT32(1)), reply;
  int code;
  enum outcome outcome = mongo_command(mongo, "asking MongoDB what it is", command, &reply, &code, error);
  if (outcome == OUTCOME_YES)
    outcome = hello_judge(mongo, &reply, error);
  else if (code == CODE_COMMAND_NOT_FOUND)
    outcome = refuse_old(mongo, error);
  else
    outcome = code == CODE_WIRE_VERSION ? refuse_wire(error) : OUTCOME_UNKNOWN;
  char version[32];
  if (outcome == OUTCOME_YES)
    outcome = ask_version(mongo, version, error) == OUTCOME_YES ? OUTCOME_YES : OUTCOME_UNKNOWN;
  bson_destroy(command);
  bson_destroy(&reply);
  return outcome;
}
