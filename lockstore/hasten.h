/*
 * hasten: linearizable reads that do not wait for the server's timer. The server answers such a read when an entry that it makes after the
 * read is acknowledged by the majority, and so is in its journal. For a read it writes the journal only every tenth of a second
 * (commitIntervalMs), as seen on 6.0; for a write that asks for the journal it does so at once, with all that came before.
 */
#ifndef PAWL_LOCKSTORE_HASTEN_H
#define PAWL_LOCKSTORE_HASTEN_H

#include "lockstore/mongo.h"

#include <pthread.h>

struct hasten {
  struct mongo *mongo;
  pthread_mutex_t mutex;
  pthread_cond_t changed; /* `answered` */
  bool answered, started;
  pthread_t thread;
};

/*
 * Between the two the caller's thread sends one read. If that is linearizable, another thread sends deletes that match nothing, with
 * majority and journal. What becomes of these does not matter: without them the answer only comes later. hasten_end waits for the last
 * one. For any other read, and on a standalone server, which answers at once, both do nothing.
 */
void hasten_begin(struct hasten *hasten, struct mongo *mongo, bool linearizable);
void hasten_end(struct hasten *hasten);

#endif
