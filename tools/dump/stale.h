/*
 * stale: is the ledger older than the files? It is, if a file proves more than the ledger has:
 *
 *   - after the committed end there is a DATA or CLOSE that another block follows: a holder continues only after the commit
 *     (docs/format.md, "How files are written");
 *   - a block, or a segment's header, has an epoch above the ledger's: a holder raises the ledger's epoch before it writes anything.
 *
 * The causes: MongoDB was restored from a backup or rolled back, or the ledger belongs to another installation. A live holder continues to
 * write while the files are read, so the ledger is stale only if a ledger that is read afterwards does not explain the proof either.
 */
#ifndef PAWL_TOOLS_DUMP_STALE_H
#define PAWL_TOOLS_DUMP_STALE_H

#include "tools/dump/source.h"

enum stale {
  STALE_NOT,
  STALE_YES,    /* `why` says what proves it */
  STALE_FAILED, /* the ledger could not be asked again: `why` */
};

/* `source` must be loaded with its ledger (source->has_ledger). */
MUST_CHECK enum stale stale_check(const struct source *source, const struct dump *dump, struct error *why);

#endif
