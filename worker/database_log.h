/*
 * database_log: what the process has seen of the database, over all types: whether it answers, and what it refuses. It writes one
 * log line when that changes, whatever the number of types. Belongs to the loop's thread.
 */
#ifndef PAWL_WORKER_DATABASE_LOG_H
#define PAWL_WORKER_DATABASE_LOG_H

#include "worker/action.h"

struct database_log {
  bool asked;                       /* it has answered, or not, at least once */
  bool away;                        /* it did not answer the last time */
  bool logged_away;                 /* and that was logged */
  unsigned refused;                 /* kinds of action, as bits, that it refuses: user, password, rights */
  int64_t refused_ms[ACTION_COUNT]; /* when it did so last */
  bool denied;                      /* and what it said last is that a right is missing */
  struct error last;                /* the last request that failed, and */
  int64_t last_ms;                  /* when; 0: none did */
  struct error described;           /* what was logged last of what the server is */
};

/* An action came back. */
void database_log_action(struct database_log *log, const struct completion *completion);
/* The same; true: the action has also prepared the database, and what the server is was logged, because it is new. */
bool database_log_server(struct database_log *log, const struct completion *completion, struct lockstore *store);

#endif
