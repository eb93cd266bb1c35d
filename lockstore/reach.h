/*
 * reach: finds out why the hosts of a URI do not fit the URI: TLS files that cannot be read, or a replica set with another
 * name. The driver only says that no server was found, after its whole time-out. Private to lockstore.
 *
 * Threads: reach_wait from any thread; the driver reports its hosts on threads of its own.
 */
#ifndef PAWL_LOCKSTORE_REACH_H
#define PAWL_LOCKSTORE_REACH_H

#include "base.h"

#include <mongoc/mongoc.h>

/* False: a file that the URI names cannot be used; `error` says for which hosts, what was found, and what was expected. */
MUST_CHECK bool reach_check_files(const mongoc_uri_t *uri, const char *server, struct error *error);

struct reach;

/* NULL: no memory. */
MUST_CHECK struct reach *reach_new(const mongoc_uri_t *uri);
void reach_free(struct reach *reach); /* NULL is allowed */
/* Call it before any client of the pool is used. `reach` must outlive the pool. */
void reach_watch(struct reach *reach, mongoc_client_pool_t *pool);
/*
 * Waits for at most `ms` until the hosts have named their set. Does not wait if the URI names no set, or if a host of that set
 * has been seen. False: no host is of that set, and one is something else; `error` says which, what was found, and what was
 * expected.
 */
MUST_CHECK bool reach_wait(struct reach *reach, int64_t ms, struct error *error);

#endif
