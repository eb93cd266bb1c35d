/*
 * connection: one of its own to the primary, on which a reply may take as long as its bytes come. The driver's time-out
 * spans a whole message: 16 MB through 24 Mbit/s take more than the 3 s of any other request. So a connection has a stream of its own
 * below the driver, and that stream has the limit: the request ends after the time-out (lockstore_options.timeout_ms) without a
 * byte, or with less than 64 KiB in such a time. The first byte of a read that waits for the majority may take majority_ms.
 *
 * Only the reads of the queue use a connection (worker/queue.c); all other replies are short. A connection belongs to one thread at a time,
 * except for mongo_connection_drop.
 *
 * With `tlsDisableOCSPEndpointCheck` or `tlsDisableCertificateRevocationCheck` in the URI the connection uses the driver's own stream
 * and its fixed time-out, because a stream from outside cannot have these two options.
 */
#ifndef PAWL_LOCKSTORE_CONNECTION_H
#define PAWL_LOCKSTORE_CONNECTION_H

#include "lockstore/mongo.h"

struct mongo_connection;

/*
 * One that was given back, or a new one; does not connect, and does not block. It is taken up (below). NULL: no memory, or no
 * descriptor.
 */
MUST_CHECK struct mongo_connection *mongo_connection_take(struct mongo *mongo);
/*
 * Only after its sessions are destroyed. A few are kept for the next ones who need one, so that many who read now and then share
 * them; the others are closed. NULL is allowed.
 */
void mongo_connection_give(struct mongo_connection *connection);

/*
 * The connection's client, connected to the current primary; connects if it is not connected yet. Commands on it go to that server
 * alone, and it refuses when it is no longer the primary. Valid until mongo_connection_close. NULL: `error` says why. Blocks for at
 * most three time-outs, and for as long as the system looks up the host's name.
 */
MUST_CHECK mongoc_client_t *mongo_connection_client(struct mongo_connection *connection, const char *doing, struct error *error);
/*
 * Call it after a request that failed: the next client is a new one, to the primary of that moment. Destroy the client's
 * sessions before.
 */
void mongo_connection_close(struct mongo_connection *connection);

/* Sets whether the next requests wait for the majority, until the next call. */
void mongo_connection_waits(struct mongo_connection *connection, bool for_majority);

/* From any thread: the request under way, and all that follow, end at once without an answer, until mongo_connection_take_up. */
void mongo_connection_drop(struct mongo_connection *connection);
/* Only by the thread that may drop, while no request is under way: so it never undoes a later drop. */
void mongo_connection_take_up(struct mongo_connection *connection);
bool mongo_connection_is_dropped(const struct mongo_connection *connection);
/* Whether a request was sent since mongo_connection_take_up, so that a failure says something about its reply. */
bool mongo_connection_has_asked(const struct mongo_connection *connection);

#endif
