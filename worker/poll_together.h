/*
 * poll_together: the polls of many types in one request. A poll that finds nothing goes over all that was deleted in the last
 * minutes, also of the types behind it in the index. One request for all types goes over it only one time.
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

enum poll_told {
  POLL_ANSWERED, /* the completion is made */
  POLL_FOUND,    /* the type has something: it is to be polled alone */
  POLL_UNTOLD,   /* the same, because nothing could be told of it */
};

struct poll_one {
  struct performer *performer; /* all of one store */
  const struct action *action; /* ACTION_POLL */
  struct completion *completion;
  enum poll_told told; /* out */
};

struct poll_together {
  struct queue_types types; /* with the store; the rest is kept from one call to the next */
  struct poll_one *polls;
  size_t count, room; /* POLL_TOGETHER_MAX at most */
};

void poll_together(struct poll_together *together);

#endif
