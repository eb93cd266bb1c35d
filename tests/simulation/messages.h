/* messages: lists of messages, and which process sees what of a queue; for messages.c and queue.c. */
#ifndef PAWL_TESTS_SIMULATION_MESSAGES_H
#define PAWL_TESTS_SIMULATION_MESSAGES_H

#include "queue.h"

struct list {
  struct message **at;
  size_t count, size;
};

void list_add(struct list *list, struct message *message);
void list_free(struct list *list);
/* The position of the first message with this `_id` or a higher one. */
size_t list_find(const struct list *list, int64_t id);

/* What is in a type's part of `messages`, or in its own collection, by rising `_id`; that which a worker's filter does not match, too. */
const struct list *queue_live(int type, enum queue_source source);
/* What a worker's filter matches there, as it was after operation `at`. */
void queue_snapshot(int type, enum queue_source source, uint64_t at, struct list *list);

#endif
