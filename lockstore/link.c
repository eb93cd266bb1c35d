#include "lockstore/link_private.h"

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

static mongoc_client_t *client_new(struct mongo_link *link, const mongoc_uri_t *from, const mongoc_host_list_t *host)
{
  int32_t timeout_ms = (int32_t)mongo_timeout_ms(link->mongo);
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
      mongoc_uri_set_option_as_int32(uri, MONGOC_URI_SOCKETTIMEOUTMS, own ? SOCKET_TIMEOUT_MS : (int32_t)mongo_majority_ms(link->mongo)))
    client = mongoc_client_new_from_uri(uri);
  if (client && own)
    mongoc_client_set_stream_initiator(client, link_initiate, link);
  link->asked = link->asked || !own; /* it cannot be seen */
  if (client && !mongoc_client_set_error_api(client, MONGOC_ERROR_API_VERSION_2)) {
    mongoc_client_destroy(client);
    client = NULL;
  }
  mongoc_uri_destroy(uri);
  return client;
}

/* The pool's threads know who the primary is. */
static mongoc_client_t *client_of_primary(struct mongo_link *link, mongoc_client_t *pooled, const char *doing, struct error *error)
{
  bson_error_t cause;
  mongoc_server_description_t *server = mongoc_client_select_server(pooled, true, NULL, &cause);
  if (!server) {
    error_set(error, "%s: %s", doing, cause.message);
    return NULL;
  }
  mongoc_client_t *client = client_new(link, mongoc_client_get_uri(pooled), mongoc_server_description_host(server));
  mongoc_server_description_destroy(server);
  if (!client)
    error_set(error, "%s: no connection can be made of the MongoDB URI", doing);
  return client;
}

mongoc_client_t *mongo_link_client(struct mongo_link *link, const char *doing, struct error *error)
{
  if (link->client)
    return link->client;
  mongoc_client_t *pooled = mongo_client_take(link->mongo, doing, error);
  if (!pooled)
    return NULL;
  link->client = client_of_primary(link, pooled, doing, error);
  mongo_client_give(link->mongo, pooled);
  return link->client;
}

void mongo_link_close(struct mongo_link *link)
{
  if (link->client)
    mongoc_client_destroy(link->client);
  link->client = NULL;
}

struct mongo_link *mongo_link_new(struct mongo *mongo)
{
  struct mongo_link *link = calloc(1, sizeof *link);
  if (!link)
    return NULL;
  link->mongo = mongo;
  link->drop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (link->drop >= 0)
    return link;
  free(link);
  return NULL;
}

void mongo_link_free(struct mongo_link *link)
{
  if (!link)
    return;
  mongo_link_close(link);
  close(link->drop);
  free(link);
}

void mongo_link_waits(struct mongo_link *link, bool for_majority)
{
  link->for_majority = for_majority;
}

void mongo_link_drop(struct mongo_link *link)
{
  eventfd_write(link->drop, 1);
}

void mongo_link_take_up(struct mongo_link *link)
{
  eventfd_t ignored;
  link->asked = false;
  eventfd_read(link->drop, &ignored);
}

bool mongo_link_is_dropped(const struct mongo_link *link)
{
  struct pollfd polled = {.fd = link->drop, .events = POLLIN};
  return poll(&polled, 1, 0) > 0;
}

bool mongo_link_has_asked(const struct mongo_link *link)
{
  return link->asked;
}
