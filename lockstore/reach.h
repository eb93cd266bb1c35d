/*
 * reach: what keeps the hosts of a URI from being what it says: files of TLS that cannot be read, a replica set of another name. The
 * driver says nothing of either but that no server was found, when its time is over. Private to lockstore.
 *
 * Threads: reach_wait from any; the driver tells of its hosts on its own.
 */
#ifndef PAWL_LOCKSTORE_REACH_H
#define PAWL_LOCKSTORE_REACH_H

#include "base.h"

#include <mongoc/mongoc.h>

/* False: a file that the URI names cannot be used; `error` says for which hosts, what was found and what was expected. */
MUST_CHECK bool reach_check_files(const mongoc_uri_t *uri, const char *server, struct error *error);

struct reach;

/* NULL: no memory. */
MUST_CHECK struct reach *reach_new(const mongoc_uri_t *uri);
void reach_free(struct reach *reach); /* NULL is allowed */
/* Before a client of the pool is used. `reach` must outlive it. */
void reach_watch(struct reach *reach, mongoc_client_pool_t *pool);
/*
 * Waits for what the hosts say of their set, at most `ms`, and not at all once one was of the set that the URI names, or if it names none.
 * False: none is, and one is something else; `error` says which, what was found and what was expected.
 */
MUST_CHECK bool reach_wait(struct reach *reach, int64_t ms, struct error *error);

#endif
