/*
 * adopt: a new ledger for files that have lost theirs: the way out of exit 74 (docs/recovery.md). The messages that the files hold are
 * then deleted from the queue by the next holder, so that nothing is written twice.
 *
 * For pawl-setup: one call, blocking on database and disk for as long as reading the type's segments takes.
 */
#ifndef PAWL_TOOLS_SETUP_ADOPT_H
#define PAWL_TOOLS_SETUP_ADOPT_H

#include "base.h"
#include "lockstore/lockstore.h"

struct adoption {
  const char *type, *dir;        /* borrowed */
  const char *database, *server; /* for people: what it is called, and where it is */
  /* Shows what was found, before anything is changed; false: leave all as it is. */
  bool (*confirm)(void *context, const char *text);
  void *context;
};

enum adopt_status {
  ADOPT_DONE,
  ADOPT_DECLINED,    /* confirm said no */
  ADOPT_UNTRUSTED,   /* the files are damaged, missing, or of a newer format */
  ADOPT_BUSY,        /* a worker holds the type's lock */
  ADOPT_UNAVAILABLE, /* the database gives no answer; nothing is half done */
};

/*
 * Takes the type's lock, walks the chain from the newest segment, syncs it, takes its last valid block as committed, and writes a
 * ledger of an epoch above every one in the files and in the ledger that it replaces. `error` is filled unless DONE or DECLINED.
 */
MUST_CHECK enum adopt_status adopt(struct lockstore *store, const struct adoption *adoption, struct error *error);

#endif
