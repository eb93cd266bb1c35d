/*
 * source: what pawl-dump reads: one FILE, or the chain of one type in a directory.
 *
 * A FILE is a chain of that one segment, whatever other files are in its directory. With --uri the committed end comes from the ledger,
 * read before the first byte of the file; for a FILE that is no longer the newest segment, from its successor's header. A segment with only
 * its header damaged is still part of the chain, because its blocks identify it; the open returns READ_DAMAGED then. A FILE that is a
 * symbolic link stands for its target; `-` and pipes are copied first (spool).
 *
 * A `struct source` is the caller's memory; source_close frees what it holds, after any answer of the two opens.
 */
#ifndef PAWL_TOOLS_DUMP_SOURCE_H
#define PAWL_TOOLS_DUMP_SOURCE_H

#include "storage/chain.h"
#include "tools/dump/dump.h"
#include "tools/dump/ledger.h"

struct source {
  char *dir; /* owned */
  char type[TYPE_BYTES_MAX + 1];
  bool single;                    /* a FILE */
  bool over;                      /* a FILE that has a successor: nothing more will be added to it */
  char successor[FILE_NAME_SIZE]; /* the successor of such a FILE */
  char given[FILE_NAME_SIZE];     /* a FILE as it was given, cut if it is long */
  int spool;                      /* descriptor of the copy of a pipe; -1: not a pipe */
  bool foreign;                   /* none of the files was written by pawl, so the chain is empty */
  bool has_ledger;                /* the ledger was read (--uri), and `ledger` holds its answer unless the open failed */
  bool unknown;                   /* a FILE to which the ledger does not lead */
  struct ledger_answer ledger;
  struct chain chain;
};

/* Answers as chain_load; READ_ABSENT: no such file. After READ_DAMAGED the chain holds what can still be read. */
MUST_CHECK enum read_status source_open_file(struct source *source, const struct dump *dump, const char *path, struct error *error);
MUST_CHECK enum read_status source_open_type(struct source *source, const struct dump *dump, const char *type, struct error *error);
/* Reads the chain again, for --follow. *changed: the chain is another than before (the caller's segments are out of date). */
MUST_CHECK enum read_status source_refresh(struct source *source, const struct dump *dump, bool *changed, struct error *error);
void source_close(struct source *source);
/*
 * Reads the ledger of its type, and the chain with it, as they are now (for a pipe: no chain); the caller frees the chain with chain_free.
 * READ_FAILED: no answer.
 */
MUST_CHECK enum read_status source_ask_again(const struct source *source, const struct dump *dump, struct ledger_answer *answer,
                                             struct chain *chain, struct error *error);
/* True: the file exists, and was certainly not written by pawl, damaged or whole. */
MUST_CHECK bool source_is_foreign(const char *dir, const char *name);

/* The name in messages: the type, or the file. */
const char *source_name(const struct source *source);
/* The file's name in messages. The copy of a pipe has none: "standard input", or what was given. */
const char *source_segment_name(const struct source *source, const struct segment *segment);
/* After READ_DAMAGED from an open: how many messages are lost, or cannot be reached, before the first that is left (as far as known). */
int64_t source_lost(const struct source *source);
/* Reports what the damage means for the messages. */
void source_say_damage(const struct source *source, const struct error *error);
/*
 * Reports what is in the directory and is not read: orphans, pruned segments. With --uri it reads the ledger once more, so that it does not
 * report a segment that was made meanwhile.
 */
void source_note_unexpected(const struct source *source, const struct dump *dump);

#endif
