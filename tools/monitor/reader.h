/*
 * reader: the one thread that asks MongoDB: it reads, counts and checks as pace says, and reads the first documents of types that are
 * looked at. However many clients there are, the server has no more to do.
 */
#ifndef PAWL_TOOLS_MONITOR_READER_H
#define PAWL_TOOLS_MONITOR_READER_H

#include "tools/monitor/board.h"
#include "tools/monitor/first.h"

struct reader {
  /* set by the caller; borrowed for ever */
  struct lockstore *store;
  struct board *board;
  struct firsts *firsts;
  struct overview_types types;
  int64_t interval_ms;

  /* private */
  pthread_mutex_t mutex;
  pthread_cond_t wake;
  int64_t asked_ms; /* the last request of a client */
  bool woken;
};

/* Starts the thread, which ends with the process. False: it cannot be started; `error` says why. */
MUST_CHECK bool reader_start(struct reader *reader, struct error *error);
/* A client has asked for something; `wakes`: it waits for the first documents of a type. Any thread. */
void reader_asked(struct reader *reader, bool wakes);

#endif
