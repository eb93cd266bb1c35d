/*
 * clients: the connections of a struct mongo, and those that come after them. A user that is dropped and made again takes the login of
 * every connection along, which the driver does not notice: it would go on with them for ever. So they are left: each is closed when it
 * comes back, and who asks for one gets a new one. Private to lockstore. Any thread, but for those of one that is alone.
 */
#ifndef PAWL_LOCKSTORE_CLIENTS_H
#define PAWL_LOCKSTORE_CLIENTS_H

#include "base.h"

#include <mongoc/mongoc.h>

struct clients;
struct reach;

/*
 * A pool; or `alone` one client, for one thread, that has no threads which keep looking at the servers. `reach` is
 * told of the pool's hosts, and must outlive it; NULL: nobody. NULL: `reason` says why.
 */
MUST_CHECK struct clients *clients_new(const mongoc_uri_t *uri, bool alone, struct reach *reach, bson_error_t *reason);
void clients_free(struct clients *clients); /* NULL is allowed. When all have come back */

/* NULL: none came free within the URI's time-out. */
MUST_CHECK mongoc_client_t *clients_take(struct clients *clients);
void clients_give(struct clients *clients, mongoc_client_t *client);
/* Its login is gone, or its server: it and all that are as old are left. */
void clients_leave(struct clients *clients, mongoc_client_t *client);
/* Whether it was left while its holder kept it. */
bool clients_is_left(struct clients *clients, const mongoc_client_t *client);

#endif
