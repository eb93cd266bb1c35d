/*
 * client: what those of the benchmark's C programs share that talk to MongoDB.
 */
#ifndef PAWL_BENCH_TOOLS_CLIENT_H
#define PAWL_BENCH_TOOLS_CLIENT_H

#include "tools/basics.h"

#include <mongoc/mongoc.h>

/* For as many threads as there are. */
mongoc_client_pool_t *pool_open(const char *uri);

/* One that has spoken with the server: a clock that begins now does not count how it was reached. */
mongoc_client_t *client_connected(mongoc_client_pool_t *pool);

/* `session`: what a command takes to be in a new session, which lasts as long as the program. */
void session_open(mongoc_client_t *client, bson_t *session);

/* The reply is the caller's to destroy; an error of any kind in it ends the program. `session`: NULL, or one of this client. */
void send_command(mongoc_client_t *client, const char *db, const bson_t *command, bson_t *reply);
void send_command_in(mongoc_client_t *client, const char *db, const bson_t *command, const bson_t *session, bson_t *reply);
void append_majority(bson_t *command);

/* What a rival has to say at its end, as a line of JSON. */
void print_result(int64_t messages, int64_t begin_ns);

#endif
