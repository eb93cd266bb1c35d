/*
 * poll_together: the polls of many types in one request. A poll that finds nothing goes over all that was deleted in the last
 * minutes, that of the types behind it in the index included; together they go over it once.
 *
 * It answers for the types that have nothing. The others are left to polls of their own (perform.h), which tell a document that can
 * be taken from one that cannot; and so are types of which it cannot tell, for one because the own collection was not checked yet.
 *
 * One call at a time; any thread. It blocks for some requests.
 */
#ifndef PAWL_WORKER_POLL_TOGETHER_H
#define PAWL_WORKER_POLL_TOGETHER_H

#include "worker/perform.h"
#include "worker/queue_types.h"

enum { POLL_TOGETHER_MIN = 16, POLL_TOGETHER_MAX = 1000 };

struct poll_one {
  struct performer *performer; /* all of one store */
  const struct action *action; /* ACTION_POLL */
  struct completion *completion;
  bool alone; /* out: the completion says nothing, it is to be polled alone, */
  bool found; /* because it has something */
};

struct poll_together {
  struct queue_types types; /* with the store; the rest is kept from one call to the next */
  struct poll_one *polls;
  size_t count, room; /* POLL_TOGETHER_MAX at most */
};

void poll_together(struct poll_together *together);

#endif
