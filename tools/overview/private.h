/* The inside of pawl_overview. */
#ifndef PAWL_TOOLS_OVERVIEW_PRIVATE_H
#define PAWL_TOOLS_OVERVIEW_PRIVATE_H

#include "lockstore/mongo.h"
#include "tools/overview/overview.h"

/* ---- rows.c, overview.c ---- */

/* The rows of an overview while they are being filled: found by a hash of their name. A row's address is valid until the next row is added.
 */
struct rows {
  struct overview *overview;
  size_t room;
  uint32_t *slots; /* 1 + index of a row; 0: free */
  size_t slot_count;
  bool closed; /* no other rows than those that are there: the types are selected */
  bool failed; /* no memory */
};

/* Selected types get their rows here. */
void rows_begin(struct rows *rows, struct overview *overview, const struct overview_types *types);
/* The row of that name, added if it is new; NULL: it is not selected, or there is no memory. */
struct overview_row *rows_get(struct rows *rows, const char *type, enum overview_kind kind);
/* The row of a name that may hold any bytes. */
struct overview_row *rows_get_name(struct rows *rows, const char *name, size_t bytes);
/* Sorts the rows. False: no memory was had. */
MUST_CHECK bool rows_end(struct rows *rows, struct error *error);

/* Sets what follows from the rest: `queued` where it was not counted, and whether it is a lock. */
void row_finish(const struct overview *overview, struct overview_row *row);

/* ---- queue.c: what waits ---- */

enum { CODE_BAD_VALUE = 2 }; /* in a command that is otherwise always the same: the hint, for which there is no index */
void append_hint(bson_t *command);
/*
 * Sets `waits`, and the age from the _id, unless a document of this row is older. `then`: the row as it was earlier, perhaps the same;
 * NULL: it was not there.
 */
void row_note_oldest(struct overview_row *row, const struct overview *overview, const struct overview_row *then, const bson_iter_t *id);
/* YES: each type that waits is marked. NO: there is no index. */
MUST_CHECK enum outcome queue_read_oldest(struct rows *rows, struct mongo *mongo, const struct overview_types *types,
                                          const struct overview *earlier, struct error *error);

/* ---- own.c: what waits in own collections ---- */

/* As queue_read_oldest, for the rows whose ledgers are read. Where a right is missing, the rows
 * that it concerns are marked. */
MUST_CHECK enum outcome own_read_oldest(struct rows *rows, struct mongo *mongo, const struct overview *earlier, struct error *error);
/* Adds to `queued` of each row. */
MUST_CHECK enum outcome own_count(struct overview *overview, struct mongo *mongo, struct error *error);

#endif
