#include "lockstore/clients.h"
#include "lockstore/mongo_private.h"
#include "lockstore/reach.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

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

static pthread_once_t started = PTHREAD_ONCE_INIT; /* the first one says how */

void mongo_start(void)
{
  pthread_once(&started, driver_start);
}

void mongo_start_as_guest(void)
{
  pthread_once(&started, mongoc_init);
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
 * "pawl-worker@DB", which is pawl's alone; and after it what the URI says, as far as there is room, by which
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
  assert(options->timeout_ms > 0 && options->connections_max > 0);
  mongo_start();
  mongoc_uri_t *uri = uri_parse(options->uri, error);
  if (!uri)
    return NULL;
  struct mongo *mongo = calloc(1, sizeof *mongo);
  bson_error_t reason = {.message = "out of memory"};
  if (mongo)
    pthread_mutex_init(&mongo->shared_mutex, NULL);
  else
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
    mongo_transactors_free(mongo);
    mongo_connections_free(mongo);
    pthread_mutex_destroy(&mongo->shared_mutex);
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
