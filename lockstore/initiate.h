/*
 * initiate: making a replica set of servers that were started with --replSet, once.
 *
 * It takes a direct connection to one of them (lockstore_options.direct, db "admin"): before there is a set, there is no primary to
 * be discovered. Any thread; blocks for at most the time-out, twice.
 */
#ifndef PAWL_LOCKSTORE_INITIATE_H
#define PAWL_LOCKSTORE_INITIATE_H

#include "lockstore/lockstore.h"

/* HOST:PORT each, the address under which clients and members reach it; borrowed. */
struct members {
  const char *const *list;
  size_t count;
  bool named; /* all of them are to be members; else it is only the address by which one is reached */
};

/*
 * YES: the set `name` is initiated; *made: by this call. UNKNOWN: not answered; ask again. REFUSED: it is a member of another set, or of
 * one that lacks some of the members that were named (it may have more); it was started without --replSet, is mongos, or the server says
 * no.
 */
MUST_CHECK enum outcome replica_set_initiate(struct lockstore *store, const char *name, const struct members *members, bool *made,
                                             struct error *error);

/*
 * From a URI that may name several hosts and a replica set, the one by which the first host can be reached directly, and its
 * hosts. Each HOST:PORT is to be freed by the caller, and `direct` too. False: it is no mongodb:// URI; mongodb+srv names no hosts.
 */
MUST_CHECK bool uri_split(const char *uri, char **direct, char **hosts, size_t hosts_max, size_t *count, struct error *error);

#endif
