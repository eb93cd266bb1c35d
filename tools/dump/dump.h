/*
 * dump: what the parts of pawl-dump share. One thread.
 *
 *   main.c     options, sources one after the other, the exit code
 *   ledger     asks pawl-status for the committed end (--uri)
 *   source     what is read: one FILE, or the chain of one type;  spool  a pipe as a FILE
 *   stale      is the ledger older than the files?
 *   walk       block after block over a source, damage passed over
 *   messages   the selected messages of a source (all formats that print messages)
 *   follow     the same without an end (--follow)
 *   survey     blocks, summary
 *   verify     --verify;  deep  what --deep looks for inside the messages
 *   print      one message in one format;  json  one document as JSON
 */
#ifndef PAWL_TOOLS_DUMP_DUMP_H
#define PAWL_TOOLS_DUMP_DUMP_H

#include "base.h"
#include "config/config.h"
#include "storage/reader.h"
#include "tools/dump/print.h"

#include <signal.h>

/* The exit codes of docs/format.md. */
enum dump_exit {
  DUMP_FINE = 0,
  DUMP_IO = 1,
  DUMP_USAGE = 2,
  DUMP_DAMAGED = 3,
  DUMP_NEWER = 4,
  DUMP_UNCONFIRMED = 5, /* --strict, and something was */
};

struct dump {
  const struct config *config;
  enum dump_exit exit; /* the gravest so far: 3, then 1, 4, 5 */
  struct printer printer;
  FILE *out;
  int out_errno; /* why `out` failed; 0: it did not */
  bool said_mended, said_raw;
  int64_t since_us, until_us; /* INT64_MIN, INT64_MAX: not given */
  int64_t remaining;          /* messages of --limit, over all sources */
  int64_t selected;           /* messages, for --count */
  int64_t documents;          /* that held them */
};

/* A line to stderr, "pawl-dump: " before it. What is not printable in it is shown as '?'. */
__attribute__((format(printf, 1, 2))) void dump_say(const char *format, ...);
/* The same for what is no error; --quiet keeps it back. */
__attribute__((format(printf, 2, 3))) void dump_note(const struct dump *dump, const char *format, ...);
/* Notes that it will have to end with this; the gravest stays. */
void dump_note_exit(struct dump *dump, enum dump_exit exit);
/* The same for what a read answered; says `error` too. READ_OK, READ_END and READ_TAIL: nothing. */
void dump_note_status(struct dump *dump, enum read_status status, const struct error *error);
/* False: there is no use in going on: stdout cannot be written to any more (a closed pipe, a full disk), or a signal came. */
MUST_CHECK bool dump_goes_on(const struct dump *dump);
extern volatile sig_atomic_t dump_interrupted; /* by --follow's SIGINT or SIGTERM */
/* Says, once, what the printer could not show as it is. */
void dump_say_shown(struct dump *dump, int64_t first_seq, int64_t last_seq);

#endif
