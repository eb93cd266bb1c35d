/*
 * adopt: writes a new ledger for files whose ledger is lost, which ends exit code 74 (docs/recovery.md). The next holder then deletes the
 * messages that the files hold from the queue, so that none is written twice.
 *
 * For pawl-setup: one call, which blocks on database and disk while it reads the type's segments.
 */
#ifndef PAWL_TOOLS_SETUP_ADOPT_H
#define PAWL_TOOLS_SETUP_ADOPT_H

#include "base.h"
#include "lockstore/lockstore.h"

struct adoption {
  const char *type, *dir;        /* borrowed */
  bool own;                      /* the lost ledger said that the type has its own collection: so does the new one */
  const char *database, *server; /* for messages: the name of the database, and its address */
  /* Shows what was found, before anything is changed; false: change nothing. */
  bool (*confirm)(void *context, const char *text);
  void *context;
};

enum adopt_status {
  ADOPT_DONE,
  ADOPT_DECLINED,    /* confirm returned false */
  ADOPT_UNTRUSTED,   /* the files are damaged, missing, or of a newer format */
  ADOPT_BUSY,        /* a worker holds the type's lock, or the type cannot be adopted */
  ADOPT_UNAVAILABLE, /* the database does not answer; nothing is half done */
};

/*
 * Takes the type's lock, walks the chain to the newest segment, syncs it, counts its last valid block as committed, and writes a ledger
 * with an epoch above all epochs in the files and in the ledger that it replaces. `error` is filled unless DONE or DECLINED.
 */
MUST_CHECK enum adopt_status adopt(struct lockstore *store, const struct adoption *adoption, struct error *error);

#endif
