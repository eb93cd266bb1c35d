/*
 * ledger: the committed end of a type, and which types there are, from the ledger.
 *
 * pawl-dump is not linked with the MongoDB driver: it starts `pawl-status --json [--type T]`, which lies beside it (or, in a
 * build tree, in ../worker, or on the PATH), and reads the lines that it prints. The URI goes by the environment, never by
 * the arguments, which everyone on the machine can read. Blocks until the program has ended, at most as long as its own
 * time-outs. pawl-status's stderr is passed through.
 */
#ifndef PAWL_TOOLS_DUMP_LEDGER_H
#define PAWL_TOOLS_DUMP_LEDGER_H

#include "base.h"

struct ledger_answer {
  struct committed end; /* empty: the ledger knows no file of the type */
  int64_t epoch;        /* 0: there is no ledger */
};

/* False: no answer, `error` says why. */
MUST_CHECK bool ledger_ask(const char *uri, const char *db, const char *type, struct ledger_answer *answer, struct error *error);

/*
 * The types whose ledger names a file, or cannot be read, all of them: a list that was cut off is none. The caller frees the array. A type
 * without a file has committed nothing: so it is with the locks of pawl-lock.
 */
MUST_CHECK bool ledger_list_types(const char *uri, const char *db, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error);

/*
 * Why pawl-status gave no answer that could be used, as its exit code: MongoDB gives no answer (69), refuses, or is refused (2). 0: it has
 * answered always, or failed otherwise. The last one counts.
 */
int ledger_failure(void);

/* One line of pawl-status --json; pure. False: it is not one of `type`. */
MUST_CHECK bool ledger_parse(const char *line, size_t bytes, const char *type, struct ledger_answer *answer, struct error *error);

#endif
