/*
 * clients: the driver's clients of a struct mongo, and their replacements. When a user is dropped and made again, every
 * connection loses its login; the driver does not notice that and would use these connections for ever. So such clients are
 * left: each is closed when it comes back, and the next caller of clients_take gets a new one.
 *
 * Private to lockstore. Any thread; with `alone`, one thread only.
 */
#ifndef PAWL_LOCKSTORE_CLIENTS_H
#define PAWL_LOCKSTORE_CLIENTS_H

#include "base.h"

#include <mongoc/mongoc.h>

struct clients;
struct reach;

/*
 * A pool; or, with `alone`, a single client for one thread, without the threads that monitor the servers. `reach` is told about
 * the pool's hosts and must outlive it; NULL: none is told. Returns NULL on failure, and `reason` says why.
 */
MUST_CHECK struct clients *clients_new(const mongoc_uri_t *uri, bool alone, struct reach *reach, bson_error_t *reason);
void clients_free(struct clients *clients); /* NULL is allowed. Only after all clients have come back */

/* NULL: no client came free within the URI's time-out. */
MUST_CHECK mongoc_client_t *clients_take(struct clients *clients);
void clients_give(struct clients *clients, mongoc_client_t *client);
/* The client's login is gone, or its server: this client and all that are as old are left. */
void clients_leave(struct clients *clients, mongoc_client_t *client);
/* Whether the client was left while its holder kept it. */
bool clients_is_left(struct clients *clients, const mongoc_client_t *client);

#endif
