/*
 * stale: is the ledger older than the files? It is, where a file proves more than the ledger knows:
 *
 *   - behind the committed end lies a DATA or CLOSE that another block follows: a holder goes on only after the commit
 *     (docs/format.md, "How files are written");
 *   - a block, or a segment's header, is of an epoch above the ledger's: the ledger is raised before anything is written.
 *
 * So it is after MongoDB was restored from a backup, or rolled back; or it is another installation's ledger. A live holder goes on
 * while the files are read, so a suspicion counts only if a ledger that is read after it does not explain it.
 */
#ifndef PAWL_TOOLS_DUMP_STALE_H
#define PAWL_TOOLS_DUMP_STALE_H

#include "tools/dump/source.h"

enum stale {
  STALE_NOT,
  STALE_YES,    /* `why` says what proves it */
  STALE_FAILED, /* the ledger could not be asked again: `why` */
};

/* `source` was asked about (source->asked) and loaded. */
MUST_CHECK enum stale stale_look(const struct source *source, const struct dump *dump, struct error *why);

#endif
