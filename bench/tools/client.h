/*
 * client: shared by the benchmark's C programs that talk to MongoDB.
 */
#ifndef PAWL_BENCH_TOOLS_CLIENT_H
#define PAWL_BENCH_TOOLS_CLIENT_H

#include "tools/basics.h"

#include <mongoc/mongoc.h>

/* A pool for any number of threads. */
mongoc_client_pool_t *pool_open(const char *uri);

/* A client that has already talked to the server, so that a clock that begins now does not count the connecting. */
mongoc_client_t *client_connected(mongoc_client_pool_t *pool);

/* Fills `session` with the fields that put a command into a new session. The session lasts as long as the program. */
void session_open(mongoc_client_t *client, bson_t *session);

/* The caller destroys the reply; an error of any kind in it ends the program. `session`: NULL, or a session of this client. */
void send_command(mongoc_client_t *client, const char *db, const bson_t *command, bson_t *reply);
void send_command_in(mongoc_client_t *client, const char *db, const bson_t *command, const bson_t *session, bson_t *reply);
void append_majority(bson_t *command);

/* Prints the result of a rival as a line of JSON. */
void print_result(int64_t messages, int64_t begin_ns);

#endif
