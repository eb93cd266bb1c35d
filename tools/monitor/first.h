/*
 * first: the first documents of a type that wait, for its page. The port's thread wants them, the reader's thread reads them; meanwhile the
 * connections that wait for them are suspended: at most FIRST_WAITERS, so that the port has room for others. One request of the server
 * answers all who want the same type within two seconds, and longer where the server is slow (pace.h).
 *
 * firsts_read blocks, for some requests; the others do not. firsts_get is for the port's thread, the rest for the reader's.
 */
#ifndef PAWL_TOOLS_MONITOR_FIRST_H
#define PAWL_TOOLS_MONITOR_FIRST_H

#include "lockstore/lockstore.h"
#include "worker/port.h"

#include <pthread.h>

enum {
  FIRST_DOCUMENTS = 10,
  FIRST_JSON_BYTES = 2000,
  FIRST_ID_BYTES = 200,
  FIRST_SLOTS = 8,
  FIRST_WAITERS = 32, /* of all types together */
  FIRST_FRESH_MS = 2000,
  FIRST_PATIENCE_MS = 10000, /* who would wait for longer is told so at once */
};

struct first_document {
  char id[FIRST_ID_BYTES + sizeof "…"];     /* 24 hexadecimal digits, or Extended JSON, cut */
  char json[FIRST_JSON_BYTES + sizeof "…"]; /* relaxed Extended JSON, cut; empty: it is too large to be shown */
  int64_t bytes;                            /* of its BSON */
};

struct first {
  struct first_document documents[FIRST_DOCUMENTS];
  int count;
};

struct first_slot {
  char type[TYPE_BYTES_MAX + 1];
  bool wanted;       /* or being read: not to be given to another type */
  bool known;        /* `first` is valid */
  int64_t read_ms;   /* when the last attempt ended; 0: there was none */
  int64_t wanted_ms; /* when it was last asked for */
  struct first first;
  struct MHD_Connection *waiters[FIRST_WAITERS];
  int waiter_count;
};

struct firsts {
  pthread_mutex_t mutex;
  struct first_slot slots[FIRST_SLOTS];
  int waiter_count;   /* of all slots */
  int64_t read_at_ms; /* not read before */
  struct port *port;  /* set before the first connection comes */
  int next;           /* the slot that is read next: the reader's thread alone */
};

enum first_answer {
  FIRST_READY,   /* *first has them, or *known is false: they could not be read */
  FIRST_WAIT,    /* the connection is suspended, and its request comes again; the reader's thread must be woken */
  FIRST_TOO_MANY /* others want too many others, or the server takes too long */
};

void firsts_init(struct firsts *firsts);
MUST_CHECK enum first_answer firsts_get(struct firsts *firsts, const char *type, int64_t now_ms, struct MHD_Connection *connection,
                                        struct first *first, bool *known);
/* When to read next; INT64_MAX: nobody wants any. */
int64_t firsts_read_at(struct firsts *firsts);
/* Reads what is wanted, each type once, and resumes those who wait. After until_ms it begins no other one. */
void firsts_read(struct firsts *firsts, struct lockstore *store, int64_t until_ms);

#endif
