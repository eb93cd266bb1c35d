/*
 * dump: shared by the parts of pawl-dump. One thread.
 *
 *   main.c     options, sources one after the other, the exit code
 *   ledger     the committed end, and the list of types, from the ledger (--uri)
 *   source     the input: one FILE, or the chain of one type;  spool  a pipe as a FILE
 *   stale      whether the ledger is older than the files
 *   walk       iterates over the blocks of a source, past damage
 *   messages   the selected messages of a source (all formats that print messages)
 *   where      which messages --where selects
 *   follow     the same, and messages that are added later (--follow)
 *   scan       the formats blocks and summary
 *   timeline   --timeline: a picture of who wrote when and how much
 *   verify     --verify;  deep  the checks of --deep inside the messages
 *   print      one message in one format;  json  one document as JSON
 */
#ifndef PAWL_TOOLS_DUMP_DUMP_H
#define PAWL_TOOLS_DUMP_DUMP_H

#include "base.h"
#include "config/config.h"
#include "storage/reader.h"
#include "tools/dump/print.h"
#include "tools/dump/where.h"

#include <signal.h>

/* The exit codes of docs/format.md. */
enum dump_exit {
  DUMP_FINE = 0,
  DUMP_IO = 1,
  DUMP_USAGE = 2,
  DUMP_DAMAGED = 3,
  DUMP_NEWER = 4,
  DUMP_UNCONFIRMED = 5, /* --strict, and there were unconfirmed messages */
};

struct ledgers;
struct timeline;

struct dump {
  const struct config *config;
  struct ledgers *ledgers; /* of --uri */
  enum dump_exit exit;     /* the most severe so far: 3, then 1, 4, 5 */
  struct printer printer;
  FILE *out;
  int out_errno; /* why `out` failed; 0: no failure */
  bool reported_mended, reported_raw;
  struct timeline *timeline;  /* NULL: no picture is asked for */
  const struct where *where;  /* NULL: not given */
  int64_t since_us, until_us; /* INT64_MIN, INT64_MAX: not given */
  int64_t remaining;          /* messages that --limit still allows, over all sources */
  int64_t selected;           /* messages, for --count */
  int64_t documents;          /* the documents that hold these messages */
  struct where wanted;        /* what `where` points to */
};

/* A line to stderr, after "pawl-dump: ". Characters that are not printable are shown as '?'. */
__attribute__((format(printf, 1, 2))) void dump_say(const char *format, ...);
/* The same for a line that is not an error; --quiet suppresses it. */
__attribute__((format(printf, 2, 3))) void dump_note(const struct dump *dump, const char *format, ...);
/* Records an exit code; the most severe one is kept. */
void dump_note_exit(struct dump *dump, enum dump_exit exit);
/* The same for the status of a read; also prints `error`. Does nothing for READ_OK, READ_END and READ_TAIL. */
void dump_note_status(struct dump *dump, enum read_status status, const struct error *error);
/* False: stop, because stdout cannot be written to any more (a closed pipe, a full disk), or a signal came. */
MUST_CHECK bool dump_goes_on(const struct dump *dump);
extern volatile sig_atomic_t dump_interrupted; /* by --follow's SIGINT or SIGTERM */
/* Reports, once, which characters or messages the printer could not show as they are. */
void dump_say_shown(struct dump *dump, int64_t first_seq, int64_t last_seq);

#endif
