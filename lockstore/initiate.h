/*
 * initiate: makes a replica set of servers that were started with --replSet, once.
 *
 * It takes a direct connection to one of them (lockstore_options.direct, db "admin"), because before there is a set, there is
 * no primary to discover. Any thread; blocks for at most the time-out, twice.
 */
#ifndef PAWL_LOCKSTORE_INITIATE_H
#define PAWL_LOCKSTORE_INITIATE_H

#include "lockstore/lockstore.h"

/* Each is HOST:PORT, the address under which clients and members reach it; borrowed. */
struct members {
  const char *const *list;
  size_t count;
  bool named; /* all of them must be members; otherwise the list is only the address by which one member is reached */
};

/*
 * YES: the set `name` is initiated; *made: by this call. UNKNOWN: no answer; ask again. REFUSED: the server is a member of
 * another set, or of one that lacks some of the named members (it may have more); it was started without --replSet; it is
 * mongos; or it refuses.
 */
MUST_CHECK enum outcome replica_set_initiate(struct lockstore *store, const char *name, const struct members *members, bool *made,
                                             struct error *error);

/*
 * Takes a URI that may name several hosts and a replica set. Returns the URI that reaches the first host directly (`direct`),
 * and all hosts, each as HOST:PORT; the caller frees `direct` and each host. False: it is no mongodb:// URI; mongodb+srv names
 * no hosts.
 */
MUST_CHECK bool uri_split(const char *uri, char **direct, char **hosts, size_t hosts_max, size_t *count, struct error *error);

#endif
