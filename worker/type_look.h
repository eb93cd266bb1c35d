/*
 * type_look: one look for the types that a worker with patterns is to serve: those with documents, and which of them others hold.
 * A job on a thread of an executor; between type_look_start and type_look_done it belongs to that thread, otherwise to the loop's.
 *
 * With it goes what spreads the types among the workers: the row of this one is written when it is due, and those of the others are
 * read.
 *
 * A look goes over what was deleted in the last minutes, as a poll does, so it rests for many times what it took.
 */
#ifndef PAWL_WORKER_TYPE_LOOK_H
#define PAWL_WORKER_TYPE_LOOK_H

#include "lockstore/workers.h"
#include "worker/executor.h"
#include "worker/queue_types.h"
#include "worker/type_rules.h"

struct type_look {
  struct job job;
  struct lockstore *store;
  const struct type_rules *rules; /* borrowed */
  struct queue_types types;
  bool running;
  bool last; /* for --exit-when-empty: linearizable, with the types that are named */
  bool hurried, locks;
  const struct type_list *stopped;
  int64_t started_ms, took_ms, next_ms;
  struct worker_row row; /* of this process; the caller fills it in before each look */
  const char *host;
  int64_t pid;
  struct worker_row written; /* private: as it was written last, */
  int64_t written_ms;        /* private: when; 0: not yet, */
  int64_t cleaned_ms;        /* private: and when old ones were removed */
  /* the result */
  enum outcome outcome; /* YES: looked. UNKNOWN: no answer. REFUSED: the database check failed */
  struct error error;
  struct type_list found;  /* to be found, with documents; sorted; FOUND_MAX at most */
  struct type_list held;   /* whose lock another process holds; sorted */
  struct worker_row *rows; /* of the others that find the same; WORKER_ROWS_MAX */
  size_t row_count;
  struct error unspread; /* why they could not be had; empty: they could */
  bool empty;            /* `last`: there is no message that can be taken */
};

enum { TYPE_LOOK_FOUND_MAX = 20000 };

/* False: no memory. */
MUST_CHECK bool type_look_init(struct type_look *look, struct lockstore *store, const struct type_rules *rules);
/* When the next look is due; a wake-up makes it due at once, unless looks take long. */
int64_t type_look_due_ms(const struct type_look *look);
void type_look_hurry(struct type_look *look);
/* `locks`: looks at the locks in any case; otherwise only if there are types. `last`: as the field. `stopped`: sorted, types that do not
 * count for `last`; borrowed until the end of the look. */
void type_look_start(struct type_look *look, bool last, bool locks, const struct type_list *stopped, struct executor *executor);
/* The job came back. */
void type_look_done(struct type_look *look);

#endif
