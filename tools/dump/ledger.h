/*
 * ledger: the committed end of a type, and which types there are, from the ledger.
 *
 * pawl-dump is not linked with the MongoDB driver. It starts `pawl-status --json [--type T]`, which lies next to it (or, in a build tree,
 * in ../worker, or on the PATH), and reads the lines that it prints. The URI is passed in the environment, never in the arguments, which
 * every user of the machine can read. Blocks until the program has ended, at most as long as its own time-outs. The stderr of pawl-status
 * is passed through.
 */
#ifndef PAWL_TOOLS_DUMP_LEDGER_H
#define PAWL_TOOLS_DUMP_LEDGER_H

#include "base.h"

struct ledger_answer {
  struct committed end; /* empty: the ledger has no file of the type */
  int64_t epoch;        /* 0: there is no ledger */
};

/* False: no answer; `error` says why. */
MUST_CHECK bool ledger_ask(const char *uri, const char *db, const char *type, struct ledger_answer *answer, struct error *error);

/*
 * All types whose ledger names a file or cannot be read; an incomplete list is an error. The caller frees the array. A type without a file
 * has committed nothing; the locks of pawl-lock are such types.
 */
MUST_CHECK bool ledger_list_types(const char *uri, const char *db, char (**types)[TYPE_BYTES_MAX + 1], size_t *count, struct error *error);

/*
 * Why pawl-status gave no usable answer, as its exit code: MongoDB does not answer (69); it refuses, or pawl refuses it (2). 0: every call
 * was answered, or failed for another reason. The last failure counts.
 */
int ledger_failure(void);

/* Parses one line of pawl-status --json; pure. False: the line is not about `type`. */
MUST_CHECK bool ledger_parse(const char *line, size_t bytes, const char *type, struct ledger_answer *answer, struct error *error);

#endif
