#include "lockstore/connection_private.h"
#include "lockstore/mongo_private.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SOCKET_TIMEOUT_MS = 86400000 };

/* One host, as a URI names it. */
static mongoc_uri_t *uri_of_host(const mongoc_host_list_t *host)
{
  char text[3 * sizeof host->host + 32], *at = text + sprintf(text, "mongodb://");
  if (host->family == AF_UNIX)
    for (const char *from = host->host; *from; from++)
      at += sprintf(at, isalnum((unsigned char)*from) ? "%c" : "%%%02X", (unsigned char)*from);
  else
    at += sprintf(at, strchr(host->host, ':') ? "[%s]:%u" : "%s:%u", host->host, (unsigned)host->port);
  strcpy(at, "/");
  return mongoc_uri_new(text);
}

/* Those that say how a connection is made; the others are about finding servers, or stand in each command. */
static bool option_matters(const char *key)
{
  return strncasecmp(key, "tls", 3) == 0 || strncasecmp(key, "ssl", 3) == 0 || strcasecmp(key, MONGOC_URI_APPNAME) == 0 ||
         strcasecmp(key, MONGOC_URI_ZLIBCOMPRESSIONLEVEL) == 0;
}

static bool copy_options(mongoc_uri_t *to, const mongoc_uri_t *from)
{
  bson_iter_t at;
  bool ok = bson_iter_init(&at, mongoc_uri_get_options(from));
  while (ok && bson_iter_next(&at)) {
    const char *key = bson_iter_key(&at);
    if (!option_matters(key))
      continue;
    if (BSON_ITER_HOLDS_UTF8(&at))
      ok = mongoc_uri_set_option_as_utf8(to, key, bson_iter_utf8(&at, NULL));
    else if (BSON_ITER_HOLDS_BOOL(&at))
      ok = mongoc_uri_set_option_as_bool(to, key, bson_iter_bool(&at));
    else if (BSON_ITER_HOLDS_INT32(&at))
      ok = mongoc_uri_set_option_as_int32(to, key, bson_iter_int32(&at));
  }
  bson_iter_t names;
  char compressors[128] = "";
  if (ok && bson_iter_init(&names, mongoc_uri_get_compressors(from)))
    while (bson_iter_next(&names) && strlen(compressors) + strlen(bson_iter_key(&names)) + 2 < sizeof compressors)
      sprintf(compressors + strlen(compressors), "%s%s", compressors[0] ? "," : "", bson_iter_key(&names));
  return ok && (compressors[0] == '\0' || mongoc_uri_set_compressors(to, compressors));
}

static bool copy_credentials(mongoc_uri_t *to, const mongoc_uri_t *from)
{
  bson_t properties;
  const char *user = mongoc_uri_get_username(from), *password = mongoc_uri_get_password(from);
  const char *mechanism = mongoc_uri_get_auth_mechanism(from);
  bool ok = (!user || mongoc_uri_set_username(to, user)) && (!password || mongoc_uri_set_password(to, password)) &&
            (!mechanism || mongoc_uri_set_auth_mechanism(to, mechanism));
  if (ok && (user || mechanism))
    ok = mongoc_uri_set_auth_source(to, mongoc_uri_get_auth_source(from));
  if (ok && mongoc_uri_get_mechanism_properties(from, &properties))
    ok = mongoc_uri_set_mechanism_properties(to, &properties);
  return ok;
}

/* The driver's stream takes more of TLS than one made outside can be given. */
static bool own_stream(const mongoc_uri_t *uri)
{
  return !mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSDISABLEOCSPENDPOINTCHECK, false) &&
         !mongoc_uri_get_option_as_bool(uri, MONGOC_URI_TLSDISABLECERTIFICATEREVOCATIONCHECK, false);
}

static mongoc_client_t *client_new(struct mongo_connection *connection, const mongoc_uri_t *from, const mongoc_host_list_t *host)
{
  int32_t timeout_ms = (int32_t)mongo_timeout_ms(connection->mongo);
  mongoc_uri_t *uri = uri_of_host(host);
  mongoc_client_t *client = NULL;
  bool own = own_stream(from);
  if (uri && copy_options(uri, from) && copy_credentials(uri, from) &&
      mongoc_uri_set_option_as_bool(uri, MONGOC_URI_DIRECTCONNECTION, true) &&
      mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYREADS, false) &&
      mongoc_uri_set_option_as_bool(uri, MONGOC_URI_RETRYWRITES, false) &&
      mongoc_uri_set_option_as_int32(uri, MONGOC_URI_CONNECTTIMEOUTMS, timeout_ms) &&
      mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SERVERSELECTIONTIMEOUTMS, timeout_ms) &&
      mongoc_uri_set_option_as_int32(uri, MONGOC_URI_HEARTBEATFREQUENCYMS, MONGO_NEVER_MS) &&
      mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS,
                                     own ? SOCKET_TIMEOUT_MS : (int32_t)mongo_majority_ms(connection->mongo)))
    client = mongoc_client_new_from_uri(uri);
  if (client && own)
    mongoc_client_set_stream_initiator(client, connection_initiate, connection);
  connection->asked = connection->asked || !own; /* it cannot be seen */
  if (client && !mongoc_client_set_error_api(client, MONGOC_ERROR_API_VERSION_2)) {
    mongoc_client_destroy(client);
    client = NULL;
  }
  mongoc_uri_destroy(uri);
  return client;
}

/* The pool's threads know who the primary is. */
static mongoc_client_t *client_of_primary(struct mongo_connection *connection, mongoc_client_t *pooled, const char *doing,
                                          struct error *error)
{
  bson_error_t cause;
  mongoc_server_description_t *server = mongoc_client_select_server(pooled, true, NULL, &cause);
  if (!server) {
    error_set(error, "%s: %s", doing, cause.message);
    return NULL;
  }
  mongoc_client_t *client = client_new(connection, mongoc_client_get_uri(pooled), mongoc_server_description_host(server));
  mongoc_server_description_destroy(server);
  if (!client)
    error_set(error, "%s: no connection can be made of the MongoDB URI", doing);
  return client;
}

mongoc_client_t *mongo_connection_client(struct mongo_connection *connection, const char *doing, struct error *error)
{
  if (connection->client)
    return connection->client;
  mongoc_client_t *pooled = mongo_client_take(connection->mongo, doing, error);
  if (!pooled)
    return NULL;
  connection->client = client_of_primary(connection, pooled, doing, error);
  mongo_client_give(connection->mongo, pooled);
  return connection->client;
}

void mongo_connection_close(struct mongo_connection *connection)
{
  if (connection->client)
    mongoc_client_destroy(connection->client);
  connection->client = NULL;
}

static struct mongo_connection *connection_new(struct mongo *mongo)
{
  struct mongo_connection *connection = calloc(1, sizeof *connection);
  if (!connection)
    return NULL;
  connection->mongo = mongo;
  connection->drop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (connection->drop >= 0)
    return connection;
  free(connection);
  return NULL;
}

/* The driver tells the server that its sessions are over: dropped, that waits for nothing. */
static void connection_free(struct mongo_connection *connection)
{
  mongo_connection_drop(connection);
  mongo_connection_close(connection);
  close(connection->drop);
  free(connection);
}

struct mongo_connection *mongo_connection_take(struct mongo *mongo)
{
  pthread_mutex_lock(&mongo->shared_mutex);
  struct mongo_connection *connection = mongo->connections;
  if (connection) {
    mongo->connections = connection->next;
    mongo->connection_count--;
  }
  pthread_mutex_unlock(&mongo->shared_mutex);
  if (!connection)
    return connection_new(mongo);
  mongo_connection_take_up(connection);
  return connection;
}

void mongo_connection_give(struct mongo_connection *connection)
{
  enum { KEPT_MAX = 8 };
  if (!connection)
    return;
  struct mongo *mongo = connection->mongo;
  pthread_mutex_lock(&mongo->shared_mutex);
  bool kept = connection->client && mongo->connection_count < KEPT_MAX;
  if (kept) {
    connection->next = mongo->connections;
    mongo->connections = connection;
    mongo->connection_count++;
  }
  pthread_mutex_unlock(&mongo->shared_mutex);
  if (!kept)
    connection_free(connection);
}

void mongo_connections_free(struct mongo *mongo)
{
  struct mongo_connection *connection;
  while ((connection = mongo->connections)) {
    mongo->connections = connection->next;
    connection_free(connection);
  }
}

void mongo_connection_waits(struct mongo_connection *connection, bool for_majority)
{
  connection->for_majority = for_majority;
}

void mongo_connection_drop(struct mongo_connection *connection)
{
  eventfd_write(connection->drop, 1);
}

void mongo_connection_take_up(struct mongo_connection *connection)
{
  eventfd_t ignored;
  connection->asked = false;
  eventfd_read(connection->drop, &ignored);
}

bool mongo_connection_is_dropped(const struct mongo_connection *connection)
{
  struct pollfd polled = {.fd = connection->drop, .events = POLLIN};
  return poll(&polled, 1, 0) > 0;
}

bool mongo_connection_has_asked(const struct mongo_connection *connection)
{
  return connection->asked;
}
