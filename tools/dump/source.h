/*
 * source: what pawl-dump reads: one FILE, or the chain of one type in a directory.
 *
 * A FILE is a chain of that one segment, whatever lies beside it. With --uri the committed end comes from the ledger, asked
 * before a byte of the file is looked at; for a FILE that is no longer the newest segment, from its successor's header. A segment
 * whose header alone is damaged is part of the chain all the same, as its blocks tell of it; the open answers READ_DAMAGED then.
 * A FILE that is a symbolic link stands for what it leads to; `-` and pipes are copied first (spool).
 *
 * A `struct source` is the caller's memory; source_close frees what it holds, after any answer of the two opens.
 */
#ifndef PAWL_TOOLS_DUMP_SOURCE_H
#define PAWL_TOOLS_DUMP_SOURCE_H

#include "storage/chain.h"
#include "tools/dump/dump.h"
#include "tools/dump/ledger.h"

struct source {
  char *dir; /* its own */
  char type[TYPE_BYTES_MAX + 1];
  bool single;                    /* a FILE */
  bool over;                      /* a FILE that has a successor: nothing will be added to it */
  char successor[FILE_NAME_SIZE]; /* of such a FILE */
  char given[FILE_NAME_SIZE];     /* a FILE as it was given, cut if it is long */
  int spool;                      /* descriptor of the copy of a pipe; -1: it is none */
  bool foreign;                   /* none of its files is one of pawl, so that the chain is empty */
  bool asked;                     /* the ledger was asked (--uri), and answered `ledger` unless the open failed */
  bool unknown;                   /* a FILE to which it does not lead */
  struct ledger_answer ledger;
  struct chain chain;
};

/* As chain_load's answers; READ_ABSENT: no such file. After READ_DAMAGED the chain holds what can be read all the same. */
MUST_CHECK enum read_status source_open_file(struct source *source, const struct dump *dump, const char *path, struct error *error);
MUST_CHECK enum read_status source_open_type(struct source *source, const struct dump *dump, const char *type, struct error *error);
/* Looks again, for --follow. *changed: the chain is another than before (the segments in hand are not what they were). */
MUST_CHECK enum read_status source_refresh(struct source *source, const struct dump *dump, bool *changed, struct error *error);
void source_close(struct source *source);
/* The ledger of its type, and the chain by that, as they are now (of a pipe: no chain); chain_free the chain. READ_FAILED: no answer. */
MUST_CHECK enum read_status source_ask_again(const struct source *source, const struct dump *dump, struct ledger_answer *answer,
                                             struct chain *chain, struct error *error);
/* The file is there, and is surely not one of pawl, damaged or whole. */
MUST_CHECK bool source_is_foreign(const char *dir, const char *name);

/* The name by which people know it: the type, or the file. */
const char *source_name(const struct source *source);
/* The file's name for people: of a pipe's copy, which has none, "standard input" or what was given. */
const char *source_segment_name(const struct source *source, const struct segment *segment);
/* After READ_DAMAGED from an open: how many messages are gone, or cannot be reached, before the first that is left (as far as known). */
int64_t source_lost(const struct source *source);
/* Says what it means for the messages. */
void source_say_damage(const struct source *source, const struct error *error);
/*
 * Says what lies there and is not read: orphans, pruned segments. With --uri it asks the ledger once more: a segment that was made
 * meanwhile is none.
 */
void source_note_oddities(const struct source *source, const struct dump *dump);

#endif
