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

/* The messages in the queue, by rising `_id`. */
const struct list *queue_live(int type);
/* The queue as it was after operation `at`. */
void queue_snapshot(int type, uint64_t at, struct list *list);

#endif
