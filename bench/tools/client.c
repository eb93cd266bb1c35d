#include "tools/client.h"

mongoc_client_pool_t *pool_open(const char *uri)
{
  bson_error_t error;
  mongoc_init();
  mongoc_uri_t *parsed = mongoc_uri_new_with_error(uri, &error);
  mongoc_client_pool_t *pool = parsed ? mongoc_client_pool_new_with_error(parsed, &error) : NULL;
  if (!pool)
    die("%s", error.message);
  mongoc_client_pool_set_error_api(pool, MONGOC_ERROR_API_VERSION_2);
  mongoc_uri_destroy(parsed);
  return pool;
}

mongoc_client_t *client_connected(mongoc_client_pool_t *pool)
{
  mongoc_client_t *client = mongoc_client_pool_pop(pool);
  bson_t *ping = BCON_NEW("ping", BCON_INT32(1)), reply;
  send_command(client, "admin", ping, &reply);
  bson_destroy(&reply);
  bson_destroy(ping);
  return client;
}

void session_open(mongoc_client_t *client, bson_t *session)
{
  bson_error_t error;
  mongoc_session_opt_t *options = mongoc_session_opts_new();
  mongoc_session_opts_set_causal_consistency(options, false);
  mongoc_client_session_t *opened = mongoc_client_start_session(client, options, &error);
  mongoc_session_opts_destroy(options);
  bson_init(session);
  if (!opened || !mongoc_client_session_append(opened, session, &error))
    die("%s", error.message);
}

void send_command(mongoc_client_t *client, const char *db, const bson_t *command, bson_t *reply)
{
  send_command_in(client, db, command, NULL, reply);
}

void send_command_in(mongoc_client_t *client, const char *db, const bson_t *command, const bson_t *session, bson_t *reply)
{
  bson_error_t error;
  if (!mongoc_client_write_command_with_opts(client, db, command, session, reply, &error))
    die("%s", error.message);
  if (bson_has_field(reply, "writeErrors") || bson_has_field(reply, "writeConcernError"))
    die("%s", bson_as_relaxed_extended_json(reply, NULL));
}

void append_majority(bson_t *command)
{
  BCON_APPEND(command, "writeConcern", "{", "w", BCON_UTF8("majority"), "j", BCON_BOOL(true), "}");
}

void print_result(int64_t messages, int64_t begin_ns)
{
  printf("{\"messages\": %lld, \"own_seconds\": %.6f}\n", (long long)messages, (double)(wall_ns() - begin_ns) / 1e9);
}
