/*
 * link: a connection of its own to the primary, on which a reply may take as long as its bytes come. The driver's time-out spans a
 * whole message: 16 MB through 24 Mbit/s take more than the 3 s that any other request gets. So a link has a stream of its own below
 * the driver, and the limit is in there: the time-out (lockstore_options.timeout_ms) without a byte, or less than 64 KiB in such a
 * time, ends the request. The first byte of a read that waits for the majority has majority_ms.
 *
 * What reads the queue uses it (worker/queue.c); nothing else is long. It belongs to one thread at a time, but for mongo_link_drop.
 *
 * With `tlsDisableOCSPEndpointCheck` or `tlsDisableCertificateRevocationCheck` in the URI the driver's own stream is used, and its
 * fixed time-out: those two cannot be given to a stream from outside.
 */
#ifndef PAWL_LOCKSTORE_LINK_H
#define PAWL_LOCKSTORE_LINK_H

#include "lockstore/mongo.h"

struct mongo_link;

/* Does not connect. NULL: no memory, or no descriptor. */
MUST_CHECK struct mongo_link *mongo_link_new(struct mongo *mongo);
void mongo_link_free(struct mongo_link *link); /* NULL is allowed. After its sessions */

/*
 * The link's client, connected, if it is not yet, to the server that is the primary now. Commands on it go to that one alone; it refuses
 * when it is no primary any more. Valid until mongo_link_close. NULL: `error` says why. Blocks for at most three time-outs, and for as
 * long as the system looks up the host's name.
 */
MUST_CHECK mongoc_client_t *mongo_link_client(struct mongo_link *link, const char *doing, struct error *error);
/* After a request that failed: the next client is a new one, to whoever is the primary then. Its sessions are destroyed before. */
void mongo_link_close(struct mongo_link *link);

/* Whether the next requests wait for the majority, until the next call. */
void mongo_link_waits(struct mongo_link *link, bool for_majority);

/* From any thread: the request that is under way ends at once, without an answer, and those that follow, until mongo_link_take_up. */
void mongo_link_drop(struct mongo_link *link);
/* By who may drop it, while no request is under way: a drop that comes later is never undone. */
void mongo_link_take_up(struct mongo_link *link);
bool mongo_link_is_dropped(const struct mongo_link *link);
/* Since mongo_link_take_up: a request has gone out, so that a failure says something of its reply. */
bool mongo_link_has_asked(const struct mongo_link *link);

#endif
