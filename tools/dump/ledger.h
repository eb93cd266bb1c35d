/*
 * ledger: the committed end of a type, and which types there are, from the ledger (--uri).
 *
 * One connection for all questions of a process, opened by the first one. It is used from one thread. A question only reads,
 * and blocks for a few requests, each at most the lockstore's time-out; when that takes longer than a second, stderr says so.
 * An answer that is lost after earlier ones came is asked for once more, because the connection may have ended meanwhile, and
 * only a request shows that.
 */
#ifndef PAWL_TOOLS_DUMP_LEDGER_H
#define PAWL_TOOLS_DUMP_LEDGER_H

#include "base.h"

struct lockstore;

struct ledgers {
  const char *uri, *db;    /* borrowed; db NULL: the URI's */
  struct lockstore *store; /* NULL: not opened */
  bool answered;           /* the last question was */
  /* Why the last question without an answer had none, as an exit code. 69: silence. 2: MongoDB refuses, or pawl refuses it. */
  int failure; /* 0: each was answered, perhaps with a ledger that cannot be read */
};

struct ledger_answer {
  struct committed end; /* empty: the ledger has no file of the type */
  int64_t epoch;        /* 0: there is no ledger */
};

/* Connects to nothing. */
void ledger_begin(struct ledgers *ledgers, const char *uri, const char *db);
/* False: no answer, or the ledger cannot be read; `error` says why. */
MUST_CHECK bool ledger_ask(struct ledgers *ledgers, const char *type, struct ledger_answer *answer, struct error *error);

/*
 * All types whose ledger names a file or cannot be read; an incomplete list is an error. The caller frees the array, whatever
 * the answer. A type without a file has committed nothing; the locks of pawl-lock are such types.
 */
MUST_CHECK bool ledger_list_types(struct ledgers *ledgers, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error);

#endif
