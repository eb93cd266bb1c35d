/* mongo_private: the inside of a connection. Shared by mongo.c (commands and replies), mongo_open.c, hello.c, transaction.c and
 * connection.c; private to these. */
#ifndef PAWL_LOCKSTORE_MONGO_PRIVATE_H
#define PAWL_LOCKSTORE_MONGO_PRIVATE_H

#include "lockstore/mongo.h"

#include <pthread.h>
#include <stdatomic.h>

enum deployment { DEPLOYMENT_UNKNOWN, DEPLOYMENT_STANDALONE, DEPLOYMENT_REPLICA_SET };

enum {
  DB_BYTES_MAX = 63,
  APPNAME_BYTES_MAX = 128,     /* of the handshake */
  WIRE_VERSION_MIN = 13,       /* MongoDB 5.0 */
  WIRE_VERSION_CLUSTERED = 16, /* 5.3 */
  SPARE_CONNECTIONS = 2,
  LACKS_MS = 5000,
  REACH_MS = 1000,     /* for the first word of the hosts */
  CLOCK_MS = 1000,     /* an answer that takes longer says too little of the server's clock */
  HEARTBEAT_MS = 2000, /* instead of 10 s: how long a primary that hangs, or was given up by mistake, goes unnoticed */
};

enum {
  CODE_UNAUTHORIZED = 13,
  CODE_AUTHENTICATION_FAILED = 18,
  CODE_COMMAND_NOT_FOUND = 59,
  CODE_DUPLICATE_KEY = 11000,
  CODE_REAUTHENTICATION_REQUIRED = 391,
  CODE_WIRE_VERSION = -1, /* no server's, but the driver's */
  CODE_LOGIN_LOST = -2,   /* nor is this: mongo_login_lost */
};

struct mongo_transactor;
struct mongo_connection;

struct mongo {
  struct clients *clients; /* for one that awaits: one alone */
  struct reach *reach;     /* what the pool's hosts say of their set; NULL: not asked */
  bool has_user;           /* in the URI */
  char db[DB_BYTES_MAX + 1];
  int64_t timeout_ms, majority_ms;
  _Atomic uint64_t operation_time; /* the latest seen: seconds << 32 | increment; 0: none */
  _Atomic int deployment;
  _Atomic uint64_t version;     /* major << 32 | minor << 16 | patch; 0: not known yet */
  _Atomic bool clustered;       /* `messages` is */
  _Atomic bool prepared;        /* lockstore_prepare has said YES */
  _Atomic bool without_wakeups; /* their collection is missing, and may not be made */
  _Atomic bool avoids_wakeups;
  _Atomic int64_t wire_version;                /* of the primary; 0: not known yet */
  _Atomic int64_t lacks_since_ms[MONGO_LACKS]; /* monotonic; 0: it does not */
  _Atomic int64_t transactions;                /* the number of the last one */
  _Atomic bool clock_seen;                     /* `clock_offset_us` is set */
  _Atomic int64_t clock_offset_us;
  pthread_mutex_t shared_mutex;         /* of what follows: those that nobody uses now */
  struct mongo_transactor *transactors; /* transaction.c */
  struct mongo_connection *connections; /* connection.c */
  int connection_count;
  char server[300]; /* the URI's hosts */
  char program[96]; /* the beginning of what the server knows this process by */
};

/* transaction.c, connection.c: when nothing uses them any more. */
void mongo_transactors_free(struct mongo *mongo);
void mongo_connections_free(struct mongo *mongo);

#endif
