/* connection_private: shared by connection.c (the client) and connection_stream.c (its stream); private to these. */
#ifndef PAWL_LOCKSTORE_CONNECTION_PRIVATE_H
#define PAWL_LOCKSTORE_CONNECTION_PRIVATE_H

#include "lockstore/connection.h"

struct mongo_connection {
  struct mongo *mongo;
  struct mongo_connection *next; /* of those that were given back */
  mongoc_client_t *client;       /* NULL: not connected */
  int drop;                      /* an eventfd, readable while it is dropped: there is no flag beside it that could say otherwise */
  bool asked, for_majority;
};

/* For the driver: opens the stream to a host. `context` is the connection. */
mongoc_stream_t *connection_initiate(const mongoc_uri_t *uri, const mongoc_host_list_t *host, void *context, bson_error_t *error);

#endif
